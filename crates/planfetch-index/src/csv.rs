//! An index from comma-separated values.

mod decoded;
mod records;
#[cfg(feature = "zstd")]
mod zstd;

use std::fs::File;
use std::io;
use std::path::Path;

use crate::error::IndexError;
use crate::labels::LabelKind;
use crate::sample_index::SampleIndex;
use crate::table::{ColumnSettings, Columns, RangeColumns, Role, Rows};
use crate::uri::{folder_of, shorten};
use decoded::Decoded;
use records::{MAX_RECORD, RecordError, Records};

/// How [`load_index_csv`] reads a file.
///
/// # Example
///
/// ```
/// use planfetch_index::{CsvSettings, LabelKind, read_index_csv};
///
/// let tsv = "path\tclass\nfile:///a.png\tdog\nfile:///b.png\tcat\n";
/// let settings = CsvSettings {
///     uri_col: "path".into(),
///     label_col: "class".into(),
///     delimiter: b'\t',
///     ..CsvSettings::default()
/// };
/// let index = read_index_csv(tsv.as_bytes(), "train.tsv", &settings)?;
/// // Names become labels in alphabetical order, whatever the order of the rows.
/// assert_eq!(index.labels(), [1, 0]);
/// assert_eq!(index.class_name(1), Some("dog"));
/// # Ok::<(), planfetch_index::IndexError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CsvSettings {
    /// The name of the column with the URIs. Default: `s3_uri`.
    pub uri_col: String,
    /// The name of the column with the labels. Default: `label`.
    pub label_col: String,
    /// What labels are. Default: [`LabelKind::Auto`].
    pub label_kind: LabelKind,
    /// What stands between two fields. Default: a comma.
    pub delimiter: u8,
    /// As [`ColumnSettings::size_col`]. Default: none.
    pub size_col: Option<String>,
    /// As [`ColumnSettings::offset_col`]. Default: none.
    pub offset_col: Option<String>,
    /// As [`ColumnSettings::length_col`]. Default: none.
    pub length_col: Option<String>,
    /// As [`ColumnSettings::ranges`]. Default: [`RangeColumns::Auto`].
    pub ranges: RangeColumns,
    /// As [`ColumnSettings::prefix`]. Default: none, and then all URIs must lie in one bucket.
    pub prefix: Option<String>,
    /// As [`ColumnSettings::base`]. Default: none.
    pub base: Option<String>,
}

impl Default for CsvSettings {
    fn default() -> Self {
        let columns = ColumnSettings::default();
        Self {
            uri_col: columns.uri_col,
            label_col: columns.label_col,
            label_kind: columns.label_kind,
            delimiter: b',',
            size_col: columns.size_col,
            offset_col: columns.offset_col,
            length_col: columns.length_col,
            ranges: columns.ranges,
            prefix: columns.prefix,
            base: columns.base,
        }
    }
}

impl CsvSettings {
    /// As [`ColumnSettings::with_base_of`].
    #[must_use]
    pub fn with_base_of(mut self, location: &str) -> Self {
        self.base = self.base.or_else(|| folder_of(location));
        self
    }

    /// Returns what is not about CSV alone: the settings for a typed table with the same columns.
    #[must_use]
    pub fn columns(&self) -> ColumnSettings {
        ColumnSettings {
            uri_col: self.uri_col.clone(),
            label_col: self.label_col.clone(),
            label_kind: self.label_kind,
            size_col: self.size_col.clone(),
            offset_col: self.offset_col.clone(),
            length_col: self.length_col.clone(),
            ranges: self.ranges,
            prefix: self.prefix.clone(),
            base: self.base.clone(),
        }
    }
}

/// Reads the index in the CSV file at `path`.
///
/// The first row names the columns; which of them hold URIs and labels is set in `settings`, the others are ignored.
/// Fields may be quoted (RFC 4180), lines may end in LF or CRLF, the last one in nothing, and a byte-order mark is skipped.
/// A file that is compressed with gzip or Zstandard is known by its first bytes, whatever its name. A URI without a scheme
/// is a path that is relative to the file's folder, unless [`CsvSettings::base`] names another.
///
/// # Errors
///
/// [`IndexError`] when the file can't be read, is cut or damaged, a column is missing, a row is ragged or longer than
/// 16 MiB, a URI names no object or lies in another bucket, or a label is missing or none. Nothing is half-built.
pub fn load_index_csv(path: impl AsRef<Path>, settings: &CsvSettings) -> Result<SampleIndex, IndexError> {
    let path = path.as_ref();
    let file = path.display().to_string();
    let opened = File::open(path).map_err(|source| IndexError::Read { file: file.clone(), source })?;
    // What has no name in UTF-8 can't be the base of a URI.
    let settings = path.to_str().map_or_else(|| settings.clone(), |path| settings.clone().with_base_of(path));
    read_index_csv(opened, &file, &settings)
}

/// Reads an index in CSV from `reader`; `file` names it in errors. See [`load_index_csv`].
///
/// Every URI needs a scheme here, unless [`CsvSettings::base`] is set.
///
/// # Errors
///
/// As for [`load_index_csv`].
pub fn read_index_csv(reader: impl io::Read, file: &str, settings: &CsvSettings) -> Result<SampleIndex, IndexError> {
    let decoded = Decoded::new(reader, file)?;
    let encoding = decoded.encoding();
    let mut records = Records::new(decoded, settings.delimiter);
    // Errors of the reader come with the row that was being read, of which the first is 1.
    let read_error = |error: RecordError, row: u64, columns: Option<&Columns>| match error {
        RecordError::Io(source) if encoding.is_some_and(|_| is_of_decoder(&source)) => IndexError::Row {
            file: file.into(),
            row,
            line: 0,
            problem: format!(
                "the {} data is cut short or damaged here ({source}); write or fetch the file again",
                encoding.unwrap_or_default()
            ),
        },
        RecordError::Io(source) => IndexError::Read { file: file.into(), source },
        RecordError::TooLong { line, field, start } => {
            let column = columns
                .and_then(|columns| columns.name(field))
                .map_or_else(|| format!("number {}", field + 1), str::to_owned);
            IndexError::Value {
                file: file.into(),
                row,
                line,
                column,
                value: shorten(&String::from_utf8_lossy(&start)),
                problem: format!(
                    "begins what makes the row longer than {MAX_RECORD} bytes; close the quotes that are open, or \
                     leave the row out"
                ),
            }
        }
    };

    if !records.read().map_err(|error| read_error(error, 0, None))? {
        return Err(IndexError::NoRows { file: file.into() });
    }
    let names = (0..records.len()).map(|i| String::from_utf8_lossy(records.field(i)).into_owned()).collect();
    let column_settings = settings.columns();
    let mut columns = Columns::find(names, &column_settings, file)?;
    let n_columns = records.len();

    let mut rows = Rows::new(&column_settings);
    let mut row = 0;
    while records.read().map_err(|error| read_error(error, row + 1, Some(&columns)))? {
        row += 1;
        if records.len() != n_columns {
            return Err(IndexError::Row {
                file: file.into(),
                row,
                line: records.line(),
                problem: format!(
                    "has {} fields where the header has {n_columns}; quote fields that hold the delimiter",
                    records.len()
                ),
            });
        }
        if row == 1 {
            columns.settle_range(|column| text(records.field(column)).is_ok_and(|text| text.parse::<u64>().is_ok()));
        }
        push_row(&mut rows, &records, &columns).map_err(|(role, problem)| {
            let index = columns.index(role);
            IndexError::Value {
                file: file.into(),
                row,
                line: records.line(),
                column: columns.name(index).unwrap_or_default().into(),
                value: shorten(&String::from_utf8_lossy(records.field(index))),
                problem,
            }
        })?;
    }
    if rows.len() == 0 {
        return Err(IndexError::NoRows { file: file.into() });
    }
    Ok(rows.finish())
}

/// Takes the record that was read, or says in which column something is wrong.
#[inline]
fn push_row(rows: &mut Rows, records: &Records<impl io::Read>, columns: &Columns) -> Result<(), (Role, String)> {
    let number = |column: usize, role: Role| {
        let value = text(records.field(column)).map_err(|problem| (role, problem))?;
        value.parse::<u64>().map_err(|_| (role, columns.no_number(role)))
    };
    let uri = text(records.field(columns.uri)).map_err(|problem| (Role::Uri, problem))?;
    rows.push_uri(uri).map_err(|problem| (Role::Uri, problem))?;
    let label = records.field(columns.label);
    if !rows.labels.push_plain(label) {
        text(label).and_then(|label| rows.labels.push(label)).map_err(|problem| (Role::Label, problem))?;
    }
    if let Some(size) = columns.size {
        rows.push_size(number(size, Role::Size)?);
    }
    if let Some((offset, length)) = columns.range {
        let (offset, length) = (number(offset, Role::Offset)?, number(length, Role::Length)?);
        rows.push_range(offset, length).map_err(|problem| (Role::Length, problem))?;
    }
    Ok(())
}

#[inline]
fn text(bytes: &[u8]) -> Result<&str, String> {
    match std::str::from_utf8(bytes) {
        Ok("") => Err("is empty; give every row a value, or leave the row out".into()),
        Ok(value) => Ok(value),
        Err(error) => Err(format!("is no UTF-8 from byte {} on; write the file as UTF-8", error.valid_up_to())),
    }
}

/// Returns whether an error speaks of the compressed data, rather than of the file or connection that it comes from.
fn is_of_decoder(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    error.raw_os_error().is_none() && matches!(error.kind(), UnexpectedEof | InvalidData | InvalidInput | Other)
}
