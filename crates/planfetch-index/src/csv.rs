//! An index from comma-separated values.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use csv::{ByteRecord, ErrorKind, ReaderBuilder};

use crate::error::IndexError;
use crate::sample_index::{SampleIndex, check_uri, shorten};
use crate::uri_list::UriList;

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
}

impl Default for CsvSettings {
    fn default() -> Self {
        Self { uri_col: "s3_uri".into(), label_col: "label".into(), label_kind: LabelKind::Auto, delimiter: b',' }
    }
}

/// What the label column holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LabelKind {
    /// Decided by the first row: [`Integer`](Self::Integer) when its label is an integer, else [`Name`](Self::Name).
    /// A later row of the other kind is then an error where integers are expected, and a name where names are.
    #[default]
    Auto,
    /// Integers in `0..=u32::MAX`, taken as they are.
    Integer,
    /// Names of classes, numbered from 0 in the order of their bytes.
    Name,
}

/// Reads the index in the CSV file at `path`.
///
/// The first row names the columns; which of them hold URIs and labels is set in `settings`, the others are ignored.
/// Fields may be quoted (RFC 4180), lines may end in LF or CRLF, the last one in nothing, and a byte-order mark is skipped.
///
/// # Errors
///
/// [`IndexError`] when the file can't be read, a column is missing, a row is ragged, a URI has no scheme or a label is
/// missing or none. Nothing is half-built.
pub fn load_index_csv(path: impl AsRef<Path>, settings: &CsvSettings) -> Result<SampleIndex, IndexError> {
    let file = path.as_ref().display().to_string();
    let opened = File::open(path).map_err(|source| IndexError::Read { file: file.clone(), source })?;
    read_index_csv(opened, &file, settings)
}

/// Reads an index in CSV from `reader`; `file` names it in errors. See [`load_index_csv`].
///
/// # Errors
///
/// As for [`load_index_csv`].
pub fn read_index_csv(reader: impl io::Read, file: &str, settings: &CsvSettings) -> Result<SampleIndex, IndexError> {
    let mut reader = ReaderBuilder::new().delimiter(settings.delimiter).from_reader(reader);
    let header = reader.byte_headers().map_err(|error| csv_error(error, file, 0))?.clone();
    if header.is_empty() {
        return Err(IndexError::NoRows { file: file.into() });
    }
    let uri_col = Column::find(&header, &settings.uri_col, "URI", file)?;
    let label_col = Column::find(&header, &settings.label_col, "label", file)?;

    let mut uris = UriList::default();
    let mut labels = Labels::new(settings.label_kind);
    let mut record = ByteRecord::new();
    let mut row = 0;
    while reader.read_byte_record(&mut record).map_err(|error| csv_error(error, file, row + 1))? {
        row += 1;
        let at = Place { file, row, line: record.position().map_or(0, csv::Position::line) };
        let uri = uri_col.value(&record, &at)?;
        check_uri(uri).map_err(|problem| at.value_error(&uri_col, uri, problem))?;
        uris.push(uri);
        let label = label_col.value(&record, &at)?;
        labels.push(label).map_err(|problem| at.value_error(&label_col, label, problem))?;
    }
    if row == 0 {
        return Err(IndexError::NoRows { file: file.into() });
    }
    let (labels, class_names) = labels.finish();
    Ok(SampleIndex::new(uris, labels, class_names))
}

/// A column that the settings name.
struct Column<'a> {
    name: &'a str,
    index: usize,
}

impl<'a> Column<'a> {
    fn find(header: &ByteRecord, name: &'a str, role: &'static str, file: &str) -> Result<Self, IndexError> {
        let mut found = header.iter().enumerate().filter(|(_, column)| *column == name.as_bytes());
        match (found.next(), found.count()) {
            (Some((index, _)), 0) => Ok(Self { name, index }),
            (Some(_), more) => {
                Err(IndexError::DuplicateColumn { file: file.into(), column: name.into(), count: more + 1 })
            }
            (None, _) => Err(IndexError::MissingColumn {
                file: file.into(),
                column: name.into(),
                role,
                available: header.iter().map(|column| shorten(&String::from_utf8_lossy(column))).collect(),
            }),
        }
    }

    fn value<'r>(&self, record: &'r ByteRecord, at: &Place<'_>) -> Result<&'r str, IndexError> {
        let bytes = record.get(self.index).expect("the reader refuses rows of another length than the header");
        let problem = match std::str::from_utf8(bytes) {
            Ok("") => "is empty; give every row a value, or leave the row out".into(),
            Ok(value) => return Ok(value),
            Err(error) => format!("is no UTF-8 from byte {} on; write the file as UTF-8", error.valid_up_to()),
        };
        Err(at.value_error(self, &String::from_utf8_lossy(bytes), problem))
    }
}

/// Where in the file an error is.
struct Place<'a> {
    file: &'a str,
    row: u64,
    line: u64,
}

impl Place<'_> {
    fn value_error(&self, column: &Column<'_>, value: &str, problem: String) -> IndexError {
        IndexError::Value {
            file: self.file.into(),
            row: self.row,
            line: self.line,
            column: column.name.into(),
            value: shorten(value),
            problem,
        }
    }
}

/// Labels as they come in.
enum Labels {
    Undecided,
    Integers(Vec<u32>),
    /// The number of each name in order of appearance, and those numbers row by row.
    Names(BTreeMap<String, u32>, Vec<u32>),
}

impl Labels {
    fn new(kind: LabelKind) -> Self {
        match kind {
            LabelKind::Auto => Self::Undecided,
            LabelKind::Integer => Self::Integers(Vec::new()),
            LabelKind::Name => Self::Names(BTreeMap::new(), Vec::new()),
        }
    }

    fn push(&mut self, label: &str) -> Result<(), String> {
        match self {
            Self::Undecided => {
                let is_integer = label.parse::<i128>().is_ok();
                *self = Self::new(if is_integer { LabelKind::Integer } else { LabelKind::Name });
                return self.push(label);
            }
            Self::Integers(labels) => match label.parse() {
                Ok(label) => labels.push(label),
                Err(_) => {
                    return Err(format!(
                        "is no integer in 0..={}; where labels are names of classes, set the kind of label to Name",
                        u32::MAX
                    ));
                }
            },
            Self::Names(names, labels) => match names.get(label) {
                Some(&number) => labels.push(number),
                None => {
                    let number =
                        u32::try_from(names.len()).map_err(|_| "is one name of a class too many".to_owned())?;
                    names.insert(label.to_owned(), number);
                    labels.push(number);
                }
            },
        }
        Ok(())
    }

    /// Returns the labels, and the class names where labels are names.
    fn finish(self) -> (Vec<u32>, Vec<String>) {
        match self {
            Self::Undecided => (Vec::new(), Vec::new()),
            Self::Integers(labels) => (labels, Vec::new()),
            Self::Names(names, mut labels) => {
                // Numbers follow the order of appearance so far; that order would change with the order of the rows.
                let mut sorted = vec![0; names.len()];
                for (place, &number) in names.values().enumerate() {
                    // OK because there are as many places as names, whose numbers were checked to fit.
                    sorted[number as usize] = place as u32;
                }
                labels.iter_mut().for_each(|label| *label = sorted[*label as usize]);
                (labels, names.into_keys().collect())
            }
        }
    }
}

/// Translates what the csv crate says. `row` is the row that was being read, from 1.
fn csv_error(error: csv::Error, file: &str, row: u64) -> IndexError {
    let line = error.position().map_or(0, csv::Position::line);
    let problem = match error.kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("has {len} fields where the header has {expected_len}; quote fields that hold the delimiter")
        }
        _ => error.to_string(),
    };
    match error.into_kind() {
        ErrorKind::Io(source) => IndexError::Read { file: file.into(), source },
        _ => IndexError::Row { file: file.into(), row, line, problem },
    }
}
