//! What can be wrong with an index.

use std::error::Error;
use std::fmt;
use std::io;

/// Why an index can't be read. The message names the file, the row and the column where it applies.
///
/// Rows are counted from 1 without the header; lines are those of the file, from 1, as an editor shows them.
#[derive(thiserror::Error)]
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
    #[error(
        "{file} has no column {column:?}; its columns are {available:?}; name the one that holds the {role}{}",
        Perhaps(nearest)
    )]
    MissingColumn {
        /// The file as it was named.
        file: String,
        /// The column that the settings ask for.
        column: String,
        /// What it would hold: `URI`, `label`, `size`, `offset` or `length`.
        role: &'static str,
        /// The column that was most likely meant, where one has nearly the same name.
        nearest: Option<String>,
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
    #[error("{file}: row {row}{}, column {column:?}: {value:?} {problem}", Line(*line))]
    Value {
        /// The file as it was named.
        file: String,
        /// The row, from 1, without the header.
        row: u64,
        /// The line of the file, from 1; 0 where the file has no lines.
        line: u64,
        /// The column's name.
        column: String,
        /// The offending value, cut after 200 characters.
        value: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// A row has too many or too few fields, or is no valid CSV.
    #[error("{file}: row {row}{}: {problem}", Line(*line))]
    Row {
        /// The file as it was named.
        file: String,
        /// The row, from 1, without the header.
        row: u64,
        /// The line of the file, from 1; 0 where the file has no lines.
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
    /// A row that a program gave can't be used.
    #[error("{index}: row {row}: {value:?} {problem}")]
    Sample {
        /// What the index was called.
        index: String,
        /// The row, from 0: the sample's id.
        row: u64,
        /// The offending value, cut after 200 characters.
        value: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// A folder, a prefix or a table holds no sample.
    #[error("{place} holds no samples; {advice}")]
    NoSamples {
        /// Where was looked.
        place: String,
        /// What was expected there.
        advice: String,
    },
    /// A file is damaged, or is not of the kind that it was taken for.
    #[error("{file}: {problem}")]
    Format {
        /// The file as it was named.
        file: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// A file can't be written.
    #[error("can't write the index {file}")]
    Write {
        /// The file as it was named.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Settings contradict each other or are out of range.
    #[error("{problem}")]
    Settings {
        /// Which, what their values are, and what is allowed.
        problem: String,
    },
    /// A class of one index is none of another's.
    #[error("class {class:?} of row {row}, {uri:?}, {problem}")]
    Class {
        /// The name of the class, or its label where it has no name, cut after 200 characters.
        class: String,
        /// The first row of that class, from 0: the sample's id.
        row: u64,
        /// The object in that row, cut after 200 characters.
        uri: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// Indices do not go together.
    #[error("can't put the indices together: {problem}; make them alike first")]
    Mixed {
        /// Which of them, from 0, and in what they differ.
        problem: String,
    },
}

/// The message and what caused it, since `main` prints the error that it returns by this.
impl fmt::Debug for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        self.source().map_or(Ok(()), |cause| write!(f, ": {cause}"))
    }
}

/// The line of a row, for files that have lines.
struct Line(u64);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            line => write!(f, " (line {line})"),
        }
    }
}

/// The name that was most likely meant.
struct Perhaps<'a>(&'a Option<String>);

impl fmt::Display for Perhaps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, ", perhaps {name:?}"),
            None => Ok(()),
        }
    }
}
