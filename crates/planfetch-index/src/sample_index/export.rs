//! An index as a table that other programs read.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::IndexError;
use crate::sample_index::SampleIndex;
use crate::sample_index::saved::replace;
use crate::table::{LENGTH, OFFSET};

impl SampleIndex {
    /// Returns the columns that [`write_csv`](Self::write_csv) and `save_parquet` write, in order: `s3_uri` and `label`,
    /// and where the index has them, `class_name`, `size`, and `offset` with `length`.
    #[must_use]
    pub fn column_names(&self) -> Vec<&'static str> {
        let optional = [
            (!self.class_names().is_empty(), "class_name"),
            (self.sizes().is_some(), "size"),
            (self.has_ranges(), OFFSET),
            (self.has_ranges(), LENGTH),
        ];
        let optional = optional.into_iter().filter(|(has, _)| *has).map(|(_, name)| name);
        ["s3_uri", "label"].into_iter().chain(optional).collect()
    }

    /// Writes the index as CSV with a header, so that [`load_index_csv`](crate::load_index_csv) reads the same rows and
    /// labels from it, and the same byte ranges. See [`column_names`](Self::column_names) for the columns; labels are
    /// integers. Sizes and class names come back where the settings name their columns.
    ///
    /// # Errors
    ///
    /// The writer's.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_index::{CsvSettings, IndexBuilder, read_index_csv};
    ///
    /// let mut builder = IndexBuilder::new("photos").with_class_names(["cat", "dog"]);
    /// builder.push_sample("s3://photos/1, or not.jpg", 1, Some(40_000), None)?;
    /// let (index, mut csv) = (builder.build()?, Vec::new());
    /// index.write_csv(&mut csv)?;
    /// assert_eq!(
    ///     String::from_utf8_lossy(&csv),
    ///     "s3_uri,label,class_name,size\n\"s3://photos/1, or not.jpg\",1,dog,40000\n"
    /// );
    /// let settings = CsvSettings { size_col: Some("size".into()), ..CsvSettings::default() };
    /// assert_eq!(read_index_csv(&csv[..], "photos.csv", &settings)?.uris(), index.uris());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_csv(&self, writer: impl Write) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(64 << 10, writer);
        writeln!(writer, "{}", self.column_names().join(","))?;
        let mut line = String::new();
        let mut written = Ok(());
        self.for_each(|row| {
            use std::fmt::Write as _;
            line.clear();
            push_field(&mut line, row.uri);
            // OK because writing into a string does not fail, here and below.
            let _ = write!(line, ",{}", row.label);
            if !self.class_names().is_empty() {
                line.push(',');
                push_field(&mut line, self.class_name(row.label).unwrap_or_default());
            }
            if let Some(size) = row.size {
                let _ = write!(line, ",{size}");
            }
            if let Some(range) = row.range {
                let _ = write!(line, ",{},{}", range.start, range.end - range.start);
            }
            line.push('\n');
            if written.is_ok() {
                written = writer.write_all(line.as_bytes());
            }
        });
        written?;
        writer.flush()
    }

    /// Saves the index as the CSV file at `path`. See [`write_csv`](Self::write_csv).
    ///
    /// A file that is there is replaced at once when the new one is complete.
    ///
    /// # Errors
    ///
    /// [`IndexError::Write`] when the file can't be written; one that was there is then still as it was.
    pub fn save_csv(&self, path: impl AsRef<Path>) -> Result<(), IndexError> {
        let path = path.as_ref();
        replace(path, |file| self.write_csv(file))
            .map_err(|source| IndexError::Write { file: path.display().to_string(), source })
    }
}

/// Appends a field, in quotes where it needs them (RFC 4180).
fn push_field(line: &mut String, field: &str) {
    if field.contains([',', '"', '\n', '\r']) {
        line.push('"');
        line.push_str(&field.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(field);
    }
}
