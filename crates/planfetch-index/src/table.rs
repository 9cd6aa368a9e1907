//! From the rows of a table to an index, whatever the table is written in.

use std::ops::Range;

use crate::error::IndexError;
use crate::labels::{LabelKind, Labels};
use crate::sample_index::SampleIndex;
use crate::uri::{Base, UriRule, folder_of, shorten};
use crate::uri_list::UriList;

/// Which columns of a table hold what, for tables that are typed: Parquet files and Arrow record batches.
///
/// [`CsvSettings`](crate::CsvSettings) are the same for CSV, where a delimiter is needed too.
///
/// # Example: columns by other names
///
/// ```
/// use planfetch_index::ColumnSettings;
///
/// let settings = ColumnSettings { uri_col: "path".into(), size_col: Some("bytes".into()), ..ColumnSettings::default() };
/// assert_eq!(settings.label_col, "label");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ColumnSettings {
    /// The name of the column with the URIs. Default: `s3_uri`.
    pub uri_col: String,
    /// The name of the column with the labels. Default: `label`.
    pub label_col: String,
    /// What labels are. Default: [`LabelKind::Auto`].
    pub label_kind: LabelKind,
    /// The name of the column with the sizes of the objects in bytes. Default: none, since a column `size` can hold
    /// all sorts of things.
    pub size_col: Option<String>,
    /// The name of the column that says at which byte of its object a sample begins, for objects that hold many.
    /// Needs [`length_col`](Self::length_col) too. Default: none, and then [`ranges`](Self::ranges) decides.
    pub offset_col: Option<String>,
    /// The name of the column that says how many bytes of its object a sample takes. Default: none.
    pub length_col: Option<String>,
    /// Whether columns that are called `offset` and `length` hold byte ranges where none is named. Default:
    /// [`RangeColumns::Auto`].
    pub ranges: RangeColumns,
    /// What all URIs must begin with, such as `s3://bucket/train/`. Default: none, and then all must lie in the bucket
    /// of the first. `s3://` lets rows of several buckets through, the empty prefix everything.
    pub prefix: Option<String>,
    /// What a URI without a scheme is taken to be relative to, such as `s3://bucket/train/`, or `file:///data/` for
    /// local paths. What begins with a slash is relative to the bucket, or to the root of the file system. The parts
    /// `.` and `..` of a path, as `find` writes them, are resolved by the text alone, links or not; what leads out of
    /// the bucket is an error. Default: none, which is the folder that the table lies in where that is known, as for
    /// [`load_index_csv`](crate::load_index_csv); else a URI without a scheme is an error.
    pub base: Option<String>,
}

impl ColumnSettings {
    /// Sets [`base`](Self::base), unless it is set, to the folder of a table at `location`, which is a path or a URI.
    #[must_use]
    pub fn with_base_of(mut self, location: &str) -> Self {
        self.base = self.base.or_else(|| folder_of(location));
        self
    }
}

impl Default for ColumnSettings {
    fn default() -> Self {
        Self {
            uri_col: "s3_uri".into(),
            label_col: "label".into(),
            label_kind: LabelKind::Auto,
            size_col: None,
            offset_col: None,
            length_col: None,
            ranges: RangeColumns::Auto,
            prefix: None,
            base: None,
        }
    }
}

/// Which columns say that a sample is a part of its object, where neither
/// [`offset_col`](ColumnSettings::offset_col) nor [`length_col`](ColumnSettings::length_col) is set.
///
/// # Example: a table that was written is read as it was
///
/// ```
/// use planfetch_index::{CsvSettings, IndexBuilder, RangeColumns, read_index_csv};
///
/// let mut builder = IndexBuilder::new("shards");
/// builder.push_sample("s3://photos/0.shard", 1, None, Some(512..900))?;
/// let mut csv = Vec::new();
/// builder.build()?.write_csv(&mut csv)?;
/// assert_eq!(read_index_csv(&csv[..], "shards.csv", &CsvSettings::default())?.range(0), Some(512..900));
///
/// let whole = CsvSettings { ranges: RangeColumns::Named, ..CsvSettings::default() };
/// assert_eq!(read_index_csv(&csv[..], "shards.csv", &whole)?.range(0), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum RangeColumns {
    /// Those called `offset` and `length`, as [`SampleIndex::write_csv`] and `save_parquet` write them, where a table
    /// has both and the first row holds a number of bytes in each. Columns of these names that hold something else,
    /// such as seconds with a decimal point, are not looked at.
    #[default]
    Auto,
    /// Only those that are set; without them, a sample is a whole object.
    Named,
}

/// What the columns of ranges are called where an index is written.
pub(crate) const OFFSET: &str = "offset";
pub(crate) const LENGTH: &str = "length";

/// What a column is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    Uri,
    Label,
    Size,
    Offset,
    Length,
}

/// Where the columns stand that settings name.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) uri: usize,
    pub(crate) label: usize,
    pub(crate) size: Option<usize>,
    /// Where ranges begin, and how long they are.
    pub(crate) range: Option<(usize, usize)>,
    /// Whether the columns of ranges were found by their names alone, and not asked for.
    pub(crate) is_range_found: bool,
    /// All names, as they are shown in errors.
    names: Vec<String>,
}

impl Columns {
    /// Finds the columns among `names`.
    pub(crate) fn find(names: Vec<String>, settings: &ColumnSettings, file: &str) -> Result<Self, IndexError> {
        let find = |column: &str, role| find_column(&names, column, role, file);
        let mut is_range_found = false;
        let range = match (&settings.offset_col, &settings.length_col) {
            (Some(offset), Some(length)) => Some((find(offset, "offset")?, find(length, "length")?)),
            (None, None) => {
                let range = find(OFFSET, "offset").ok().zip(find(LENGTH, "length").ok());
                let range = range.filter(|_| settings.ranges == RangeColumns::Auto);
                is_range_found = range.is_some();
                range
            }
            (one, _) => {
                let (set, missing) =
                    if one.is_some() { ("offset_col", "length_col") } else { ("length_col", "offset_col") };
                return Err(IndexError::Settings {
                    problem: format!("{set} is set without {missing}; a byte range needs both, a whole object none"),
                });
            }
        };
        Ok(Self {
            uri: find(&settings.uri_col, "URI")?,
            label: find(&settings.label_col, "label")?,
            size: settings.size_col.as_deref().map(|column| find(column, "size")).transpose()?,
            range,
            is_range_found,
            names,
        })
    }

    /// Drops the columns of ranges that nobody asked for, unless both hold a number of bytes.
    pub(crate) fn settle_range(&mut self, mut is_number: impl FnMut(usize) -> bool) {
        if self.is_range_found && !self.range.is_some_and(|(offset, length)| is_number(offset) && is_number(length)) {
            (self.range, self.is_range_found) = (None, false);
        }
    }

    /// Says what is wrong with a value that is no number of bytes.
    pub(crate) fn no_number(&self, role: Role) -> String {
        let otherwise = match role {
            Role::Offset | Role::Length if self.is_range_found => {
                ", or set ranges to Named where samples are whole objects"
            }
            _ => "",
        };
        format!("is no integer in 0..={}; give a number of bytes{otherwise}", u64::MAX)
    }

    pub(crate) fn index(&self, role: Role) -> usize {
        match role {
            Role::Uri => self.uri,
            Role::Label => self.label,
            // OK because a role is asked for only where its column was found.
            Role::Size => self.size.unwrap_or(self.uri),
            Role::Offset => self.range.map_or(self.uri, |range| range.0),
            Role::Length => self.range.map_or(self.uri, |range| range.1),
        }
    }

    pub(crate) fn name(&self, index: usize) -> Option<&str> {
        self.names.get(index).map(String::as_str)
    }

    #[cfg(feature = "arrow")]
    pub(crate) fn in_use(&self) -> impl Iterator<Item = usize> {
        [Some(self.uri), Some(self.label), self.size, self.range.map(|r| r.0), self.range.map(|r| r.1)]
            .into_iter()
            .flatten()
    }
}

fn find_column(names: &[String], column: &str, role: &'static str, file: &str) -> Result<usize, IndexError> {
    let mut found = names.iter().enumerate().filter(|(_, name)| *name == column);
    match (found.next(), found.count()) {
        (Some((index, _)), 0) => Ok(index),
        (Some(_), more) => {
            Err(IndexError::DuplicateColumn { file: file.into(), column: column.into(), count: more + 1 })
        }
        (None, _) => Err(IndexError::MissingColumn {
            file: file.into(),
            column: column.into(),
            role,
            nearest: nearest(names, column).map(str::to_owned),
            available: names.iter().map(|name| shorten(name)).collect(),
        }),
    }
}

/// Returns the name that `column` is most likely meant to be: the one that the fewest changes of a letter, case aside,
/// make of it, and few of them: two letters that changed places are two changes.
pub(crate) fn nearest<'a>(names: &'a [String], column: &str) -> Option<&'a str> {
    let column = column.to_lowercase();
    let n = column.chars().count();
    let most = if n <= 3 { n / 2 } else { (n / 3).max(2) };
    // Names much longer need more changes anyway, and a header can be a megabyte.
    let near = names.iter().filter(|name| name.len() <= 4 * column.len() + 4);
    let (distance, name) = near.map(|name| (edits(&name.to_lowercase(), &column), name)).min_by_key(|near| near.0)?;
    (distance <= most).then_some(name)
}

/// Returns how many letters must be changed, added or removed to turn `a` into `b`.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

/// The rows of an index under construction.
#[derive(Debug)]
pub(crate) struct Rows {
    uris: UriList,
    rule: UriRule,
    base: Option<Base>,
    pub(crate) labels: Labels,
    sizes: Option<Vec<u64>>,
    ranges: Option<Vec<(u64, u64)>>,
}

impl Rows {
    pub(crate) fn new(settings: &ColumnSettings) -> Self {
        Self {
            uris: UriList::default(),
            rule: UriRule::new(settings.prefix.as_deref()),
            base: settings.base.as_deref().map(Base::new),
            labels: Labels::new(settings.label_kind),
            sizes: settings.size_col.as_ref().map(|_| Vec::new()),
            ranges: settings.offset_col.as_ref().map(|_| Vec::new()),
        }
    }

    /// Takes the URI of the next row, or says what is wrong with it.
    #[inline]
    pub(crate) fn push_uri(&mut self, uri: &str) -> Result<(), String> {
        let uri = match &mut self.base {
            Some(base) if !self.rule.has_passed(uri) && !uri.contains("://") => base.join(uri)?,
            _ => uri,
        };
        self.rule.check(uri)?;
        self.uris.push(uri);
        Ok(())
    }

    pub(crate) fn push_size(&mut self, size: u64) {
        self.sizes.get_or_insert_default().push(size);
    }

    /// Takes the range of `length` bytes from `offset` on, or says what is wrong with the length.
    pub(crate) fn push_range(&mut self, offset: u64, length: u64) -> Result<(), String> {
        check_range(offset, length)?;
        self.ranges.get_or_insert_default().push((offset, length));
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.uris.len()
    }

    /// Returns whether the rows so far are ranges of bytes.
    #[cfg(feature = "arrow")]
    pub(crate) fn has_ranges(&self) -> bool {
        self.ranges.is_some()
    }

    /// Makes the index. The caller has pushed as many of each as there are rows.
    pub(crate) fn finish(self) -> SampleIndex {
        let (labels, class_names) = self.labels.finish();
        SampleIndex::new(self.uris, labels, class_names).with_parts(self.sizes, self.ranges)
    }
}

/// Says what is wrong with a byte range.
pub(crate) fn check_range(offset: u64, length: u64) -> Result<(), String> {
    match offset.checked_add(length) {
        Some(_) => Ok(()),
        None => Err(format!("reaches beyond byte {} from offset {offset} on; correct offset or length", u64::MAX)),
    }
}

/// Turns a stored range into one of bytes.
pub(crate) fn to_range((offset, length): (u64, u64)) -> Range<u64> {
    offset..offset.saturating_add(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_a_slip_makes() {
        let names: Vec<String> = ["lable", "LABEL", "classes", "s3_url"].map(String::from).into();
        assert_eq!(nearest(&names, "label"), Some("LABEL"));
        assert_eq!(nearest(&names[..1], "label"), Some("lable"));
        assert_eq!(nearest(&names, "s3_uri"), Some("s3_url"));
        assert_eq!(nearest(&names, "size"), None);
        assert_eq!(nearest(&names, ""), None);
    }

    #[test]
    fn edits_are_counted() {
        for (a, b, expected) in [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("uri", "s3_uri", 3)] {
            assert_eq!(edits(a, b), expected);
            assert_eq!(edits(b, a), expected);
        }
    }
}
