//! An index from a Parquet file.

use std::fs::File;
use std::path::Path;

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::error::IndexError;
use crate::sample_index::SampleIndex;
use crate::table::{ColumnSettings, Columns};

use super::read_index_batches;

/// So many rows are in memory at once; a multiple does not make it faster.
const BATCH: usize = 8_192;

/// Reads the index in the Parquet file at `path`.
///
/// Only the columns that `settings` name are read, row group by row group. See
/// [`read_index_batches`](crate::read_index_batches) for the types that they may have. Pages may be plain or compressed
/// with Snappy; those compressed with Zstandard need the feature `parquet-zstd`. A URI without a scheme is a path that is
/// relative to the file's folder, unless [`ColumnSettings::base`] names another.
///
/// # Errors
///
/// [`IndexError`] as for [`read_index_batches`](crate::read_index_batches); also when the file can't be read, is no
/// Parquet file or is cut short.
///
/// # Example: a file that was cut short
///
/// ```
/// use planfetch_index::{ColumnSettings, load_index_parquet};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("train.parquet");
/// std::fs::write(&path, "PAR1 and then nothing")?;
/// let error = load_index_parquet(&path, &ColumnSettings::default()).expect_err("it has no end");
/// assert!(error.to_string().contains("train.parquet: is no Parquet file or was cut short"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn load_index_parquet(path: impl AsRef<Path>, settings: &ColumnSettings) -> Result<SampleIndex, IndexError> {
    let path = path.as_ref();
    let name = path.display().to_string();
    // What has no name in UTF-8 can't be the base of a URI.
    let settings = &path.to_str().map_or_else(|| settings.clone(), |path| settings.clone().with_base_of(path));
    let file = File::open(path).map_err(|source| IndexError::Read { file: name.clone(), source })?;
    let parquet_error = |error| IndexError::Format {
        file: name.clone(),
        problem: format!("is no Parquet file or was cut short ({error}); write or fetch the file again"),
    };
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(parquet_error)?;
    let names = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
    let columns = Columns::find(names, settings, &name)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), columns.in_use());
    let reader = builder.with_projection(mask).with_batch_size(BATCH).build().map_err(parquet_error)?;
    read_index_batches(reader, &name, settings)
}
