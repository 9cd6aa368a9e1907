//! An index that lies in a file or in an object store.

use std::fmt;
use std::io;
use std::path::Path;

use planfetch_cache::{CacheError, DiskCache};
use planfetch_index::{CsvSettings, IndexError, SampleIndex, load_index_csv, read_index_csv};

/// Why [`load_index`] failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LoadIndexError {
    /// The object with the index can't be had.
    #[error("can't get the index: {0}")]
    Object(#[source] CacheError),
    /// The index can't be read.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// The message and what caused it, since `main` prints the error that it returns by this.
impl fmt::Debug for LoadIndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(_) => fmt::Display::fmt(self, f),
            Self::Index(error) => error.fmt(f),
        }
    }
}

/// Reads the index at `location`: a path, or the URI of an object, which is downloaded through `cache`.
///
/// What ends in `.parquet` is read as Parquet, with the feature `arrow`, what ends in `.index` as an index that was
/// [saved](SampleIndex::save), and everything else as CSV. What contains `://` is a URI, everything else a path. What has no
/// scheme in a CSV or Parquet file is relative to the folder of `location`, unless [`CsvSettings::base`] names another.
///
/// An index is downloaded anew each time, and not kept: unlike the objects that it names, it may be written again.
/// Where processes share the cache's directory, those that load an index at the same moment share one copy of it.
///
/// # Errors
///
/// [`LoadIndexError`] when the object can't be had, or the index can't be read; see
/// [`load_index_csv`]. A Parquet index of a store also fails where the cache can't write, since it has no file then.
///
/// # Example
///
/// ```
/// use planfetch::prelude::*;
///
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("train.csv");
/// std::fs::write(&path, "s3_uri,label\ns3://photos/1.jpg,0\n")?;
/// let cache = DiskCache::builder(folder.path().join("cache")).build()?;
///
/// let by_path = load_index(path.to_str().expect("UTF-8"), &CsvSettings::default(), &cache)?;
/// let by_uri = load_index(&format!("file://{}", path.display()), &CsvSettings::default(), &cache)?;
/// assert_eq!(by_path, by_uri);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn load_index(location: &str, settings: &CsvSettings, cache: &DiskCache) -> Result<SampleIndex, LoadIndexError> {
    let format = Format::of(location);
    if !location.contains("://") {
        return Ok(match format {
            Format::Csv => load_index_csv(location, settings)?,
            Format::Saved => SampleIndex::load(location)?,
            Format::Parquet => load_parquet(Path::new(location), location, settings)?,
        });
    }
    // A copy that an earlier run left behind must not be taken for the index of today.
    cache.invalidate(location).map_err(LoadIndexError::Object)?;
    let index = download_index(location, format, &settings.clone().with_base_of(location), cache);
    // Whatever came of it, nothing of it stays, be it too young to be evicted.
    cache.invalidate(location).map_err(LoadIndexError::Object)?;
    index
}

fn download_index(
    location: &str,
    format: Format,
    settings: &CsvSettings,
    cache: &DiskCache,
) -> Result<SampleIndex, LoadIndexError> {
    let file = cache.ensure_local(location).map_err(LoadIndexError::Object)?;
    let read_error = |source| IndexError::Read { file: location.into(), source };
    Ok(match format {
        Format::Csv => read_index_csv(file.open().map_err(read_error)?, location, settings)?,
        Format::Saved => {
            let mut bytes = Vec::new();
            file.read_into(&mut bytes).map_err(read_error)?;
            SampleIndex::from_bytes(&bytes, location)?
        }
        Format::Parquet => {
            let path = file.path().ok_or_else(|| read_error(io::Error::other("the cache could not write it")))?;
            load_parquet(&path, location, settings)?
        }
    })
}

/// What an index is written in.
enum Format {
    Csv,
    Parquet,
    Saved,
}

impl Format {
    fn of(location: &str) -> Self {
        match location.rsplit_once('.') {
            Some((_, "parquet")) => Self::Parquet,
            Some((_, "index")) => Self::Saved,
            _ => Self::Csv,
        }
    }
}

/// Reads a Parquet file; `location` is what errors call it.
#[cfg(feature = "arrow")]
fn load_parquet(path: &Path, location: &str, settings: &CsvSettings) -> Result<SampleIndex, IndexError> {
    planfetch_index::load_index_parquet(path, &settings.columns()).map_err(|error| match error {
        IndexError::Read { source, .. } => IndexError::Read { file: location.into(), source },
        other => other,
    })
}

#[cfg(not(feature = "arrow"))]
fn load_parquet(_path: &Path, location: &str, _settings: &CsvSettings) -> Result<SampleIndex, IndexError> {
    let problem = "is a Parquet file, which needs the feature arrow of planfetch".into();
    Err(IndexError::Format { file: location.into(), problem })
}
