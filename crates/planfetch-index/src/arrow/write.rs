//! An index as a Parquet file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::error::IndexError;
use crate::sample_index::{SampleIndex, replace};
use crate::table::{LENGTH, OFFSET};

/// So many rows are in memory at once beside the index.
const BATCH: usize = 65_536;

impl SampleIndex {
    /// Saves the index as the Parquet file at `path`, compressed with Snappy, so that
    /// [`load_index_parquet`](crate::load_index_parquet) reads the same rows and labels from it. See
    /// [`column_names`](Self::column_names) for the columns. Feature `arrow`.
    ///
    /// A file that is there is replaced at once when the new one is complete.
    ///
    /// # Errors
    ///
    /// [`IndexError::Write`] when the file can't be written; one that was there is then still as it was.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_index::{ColumnSettings, IndexBuilder, load_index_parquet};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("photos.parquet");
    /// let mut builder = IndexBuilder::new("photos");
    /// builder.push_sample("s3://photos/1.jpg", 3, Some(40_000), None)?;
    /// let index = builder.build()?;
    /// index.save_parquet(&path)?;
    /// let settings = ColumnSettings { size_col: Some("size".into()), ..ColumnSettings::default() };
    /// assert_eq!(load_index_parquet(&path, &settings)?, index);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save_parquet(&self, path: impl AsRef<Path>) -> Result<(), IndexError> {
        let path = path.as_ref();
        replace(path, |file| self.write_parquet(file))
            .map_err(|source| IndexError::Write { file: path.display().to_string(), source })
    }

    fn write_parquet(&self, file: &mut File) -> io::Result<()> {
        let fields = self.column_names().into_iter().map(|name| Field::new(name, data_type(name), false));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties)).map_err(io::Error::other)?;
        let mut columns = Columns::default();
        let mut written = Ok(());
        self.for_each(|row| {
            columns.uris.append_value(row.uri);
            columns.labels.append_value(row.label);
            columns.class_names.append_value(self.class_name(row.label).unwrap_or_default());
            columns.sizes.append_value(row.size.unwrap_or_default());
            let range = row.range.unwrap_or_default();
            columns.offsets.append_value(range.start);
            columns.lengths.append_value(range.end - range.start);
            if (row.row + 1).is_multiple_of(BATCH) && written.is_ok() {
                written = columns.write(&schema, &mut writer);
            }
        });
        written?;
        columns.write(&schema, &mut writer)?;
        writer.close().map(drop).map_err(io::Error::other)
    }
}

fn data_type(column: &str) -> DataType {
    match column {
        "s3_uri" | "class_name" => DataType::Utf8,
        "label" => DataType::UInt32,
        _ => DataType::UInt64,
    }
}

/// The rows that are not written yet, with a column for all that an index can have.
#[derive(Debug, Default)]
struct Columns {
    uris: StringBuilder,
    labels: UInt32Builder,
    class_names: StringBuilder,
    sizes: UInt64Builder,
    offsets: UInt64Builder,
    lengths: UInt64Builder,
}

impl Columns {
    /// Writes those columns that the schema names, and begins anew.
    fn write(&mut self, schema: &Arc<Schema>, writer: &mut ArrowWriter<&mut File>) -> io::Result<()> {
        let all: [(&str, ArrayRef); 6] = [
            ("s3_uri", Arc::new(self.uris.finish())),
            ("label", Arc::new(self.labels.finish())),
            ("class_name", Arc::new(self.class_names.finish())),
            ("size", Arc::new(self.sizes.finish())),
            (OFFSET, Arc::new(self.offsets.finish())),
            (LENGTH, Arc::new(self.lengths.finish())),
        ];
        let arrays = all.into_iter().filter(|(name, _)| schema.index_of(name).is_ok()).map(|(_, array)| array);
        let batch = RecordBatch::try_new(Arc::clone(schema), arrays.collect()).map_err(io::Error::other)?;
        writer.write(&batch).map_err(io::Error::other)
    }
}
