//! What can be wrong with an index.

use std::io;

/// Why an index can't be read. The message names the file, the row and the column where it applies.
///
/// Rows are counted from 1 without the header; lines are those of the file, from 1, as an editor shows them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The file can't be opened or read.
    #[error("can't read the index {file}")]
    Read {
        /// The file as it was named.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// There is no row: the file is empty, or holds a header only.
    #[error("{file} holds no rows; an index is a header such as \"s3_uri,label\" and one row per sample")]
    NoRows {
        /// The file as it was named.
        file: String,
    },
    /// A column that the settings name does not exist.
    #[error("{file} has no column {column:?}; its columns are {available:?}; name the one that holds the {role}")]
    MissingColumn {
        /// The file as it was named.
        file: String,
        /// The column that the settings ask for.
        column: String,
        /// What it would hold: `URI` or `label`.
        role: &'static str,
        /// The columns that exist.
        available: Vec<String>,
    },
    /// A column that the settings name exists more than once.
    #[error("{file} has {count} columns named {column:?}; rename all but one, since which is meant can't be told")]
    DuplicateColumn {
        /// The file as it was named.
        file: String,
        /// The name.
        column: String,
        /// How often it occurs.
        count: usize,
    },
    /// A value can't be used.
    #[error("{file}: row {row} (line {line}), column {column:?}: {value:?} {problem}")]
    Value {
        /// The file as it was named.
        file: String,
        /// The row, from 1, without the header.
        row: u64,
        /// The line of the file, from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// The offending value, cut after 200 characters.
        value: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// A row has too many or too few fields, or is no valid CSV.
    #[error("{file}: row {row} (line {line}): {problem}")]
    Row {
        /// The file as it was named.
        file: String,
        /// The row, from 1, without the header.
        row: u64,
        /// The line of the file, from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A row that did not come from a file can't be used.
    #[error("row {row}: {value:?} {problem}")]
    Uri {
        /// The row, from 0: the sample's id.
        row: u64,
        /// The offending value, cut after 200 characters.
        value: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
}
