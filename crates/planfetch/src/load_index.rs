//! An index that lies in a file or in an object store.

use planfetch_cache::{CacheError, DiskCache};
use planfetch_index::{CsvSettings, IndexError, SampleIndex, load_index_csv, read_index_csv};

/// Why [`load_index`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadIndexError {
    /// The object with the index can't be had.
    #[error("can't get the index: {0}")]
    Object(#[source] CacheError),
    /// The index can't be read.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// Reads the CSV index at `location`: a path, or the URI of an object, which is downloaded through `cache`.
///
/// What contains `://` is a URI, everything else a path. An index is downloaded anew each time, and not kept: unlike the
/// objects that it names, it may be written again.
///
/// # Errors
///
/// [`LoadIndexError`] when the object can't be had, or the index can't be read; see
/// [`load_index_csv`].
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
    if !location.contains("://") {
        return Ok(load_index_csv(location, settings)?);
    }
    // A copy that an earlier run left behind must not be taken for the index of today.
    if cache.contains(location) {
        cache.prefetch(location).map_err(LoadIndexError::Object)?.evict();
    }
    let guard = cache.prefetch(location).map_err(LoadIndexError::Object)?;
    let file = cache.ensure_local(location);
    // It goes as soon as it has been read.
    guard.evict();
    let file = file.map_err(LoadIndexError::Object)?;
    let reader = file.open().map_err(|source| IndexError::Read { file: location.into(), source })?;
    Ok(read_index_csv(reader, location, settings)?)
}
