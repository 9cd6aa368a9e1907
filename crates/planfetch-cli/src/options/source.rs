//! Where the samples come from, and which of them are used.

use std::path::Path;

use clap::{Args, ValueEnum};
use planfetch::index::RangeColumns;
use planfetch::prelude::*;

use crate::failure::Failure;

/// What a table's name ends in; any other URI is that of a folder.
const TABLES: [&str; 8] = [".csv", ".tsv", ".txt", ".gz", ".zst", ".parquet", ".index", ".tab"];

/// The seed by which `--sample-frac` chooses: the same rows in every run.
const SAMPLE_SEED: u64 = 0;

#[derive(Args, Debug)]
#[command(next_help_heading = "Index")]
pub(crate) struct SourceOptions {
    /// The data: an index (CSV, Parquet, or saved as .index) or a folder of <class>/<file>; a path, or a URI such as
    /// s3://bucket/train.csv and s3://bucket/train/
    #[arg(value_name = "INDEX", help_heading = "Data")]
    pub(crate) index: String,
    /// The column with the URIs of the objects; a path in it, such as ./cat/1.jpg or ../1.jpg, is relative to the index
    #[arg(long, value_name = "NAME", default_value = "s3_uri")]
    s3_uri_col: String,
    /// The column with the labels
    #[arg(long, value_name = "NAME", default_value = "label")]
    class_col: String,
    /// What labels are
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Labels::Auto)]
    label_kind: Labels,
    /// The column with the sizes of the objects in bytes [default: none]
    #[arg(long, value_name = "NAME")]
    size_col: Option<String>,
    /// The column that says at which byte of its object a sample begins [default: as --ranges says]
    #[arg(long, value_name = "NAME")]
    offset_col: Option<String>,
    /// The column that says how many bytes of its object a sample takes [default: as --ranges says]
    #[arg(long, value_name = "NAME")]
    length_col: Option<String>,
    /// Where the byte ranges of samples are found, if --offset-col and --length-col are not given
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Ranges::Auto)]
    ranges: Ranges,
    /// What all URIs begin with; s3:// lets rows of several buckets through [default: the bucket of the first row]
    #[arg(long, value_name = "URI")]
    prefix: Option<String>,
    #[command(flatten)]
    folder: FolderOptions,
    /// Use only this many rows of the index [default: all]
    #[arg(short = 'n', long, value_name = "ROWS")]
    limit: Option<usize>,
    /// Leave out this many rows at the beginning of the index
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    offset: usize,
    /// Use this share of the rows that are left, chosen at random, the same in every run [default: 1]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    sample_frac: Option<f64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Labels {
    /// Integers where that of the first row is one, names otherwise
    Auto,
    /// Integers, taken as they are
    Integer,
    /// Names of classes, which are numbered in their order
    Name,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Ranges {
    /// In columns called offset and length, where the first row holds a number of bytes in both
    Auto,
    /// Nowhere: a sample is a whole object
    None,
}

/// The rows of an index that the options leave.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    pub(crate) index: SampleIndex,
    rows: Rows,
}

/// Where selected rows stand in the whole index.
#[derive(Clone, Debug)]
enum Rows {
    /// One after another, from this one on.
    From(usize),
    Chosen(Vec<usize>),
}

impl Selected {
    /// Returns where the row `row` of the selection stands in the whole index, or `row` itself where there is none.
    pub(crate) fn row_in_index(&self, row: u64) -> u64 {
        match &self.rows {
            // OK because an index fits in 64 bits, here and below.
            Rows::From(first) => *first as u64 + row,
            Rows::Chosen(rows) => usize::try_from(row).ok().and_then(|at| rows.get(at)).map_or(row, |&row| row as u64),
        }
    }
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Index")]
struct FolderOptions {
    /// Of a folder, take only files with one of these extensions, such as jpg,jpeg [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    extensions: Vec<String>,
}

/// Reads a share of a whole.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| 0.0 < *share && *share <= 1.0);
    share.ok_or_else(|| "write a share above 0 and up to 1, such as 0.1 for a tenth".into())
}

/// Returns whether a location is that of a table, by its name, rather than a folder.
pub(crate) fn is_table(location: &str) -> bool {
    let is_uri = location.contains("://");
    let has_extension = TABLES.iter().any(|extension| location.ends_with(extension));
    if is_uri { has_extension } else { !Path::new(location).is_dir() }
}

impl FolderOptions {
    /// Lists a folder, or a bucket.
    fn list(&self, location: &str, stores: &StoreSettings) -> Result<SampleIndex, Failure> {
        let settings = FolderSettings {
            extensions: self.extensions.iter().map(|extension| extension.trim_start_matches('.').to_owned()).collect(),
        };
        // Local files are listed as such: a folder has no page after page.
        match location.strip_prefix("file://") {
            Some(path) => Ok(load_index_folder(path, &settings)?),
            None if location.contains("://") => Ok(planfetch::list_bucket(location, &settings, stores)?),
            None => Ok(load_index_folder(location, &settings)?),
        }
    }
}

impl SourceOptions {
    /// Reads the index, or lists the folder, and returns the rows that the options leave.
    pub(crate) fn load(&self, cache: &DiskCache, stores: &StoreSettings) -> Result<SampleIndex, Failure> {
        Ok(self.load_selected(cache, stores)?.index)
    }

    /// As [`load`](Self::load), with where the rows stand in the whole.
    pub(crate) fn load_selected(&self, cache: &DiskCache, stores: &StoreSettings) -> Result<Selected, Failure> {
        self.check_ranges()?;
        let index = if is_table(&self.index) {
            let name = self.index.trim_end_matches(".gz").trim_end_matches(".zst");
            let settings = CsvSettings {
                uri_col: self.s3_uri_col.clone(),
                label_col: self.class_col.clone(),
                label_kind: match self.label_kind {
                    Labels::Auto => LabelKind::Auto,
                    Labels::Integer => LabelKind::Integer,
                    Labels::Name => LabelKind::Name,
                },
                size_col: self.size_col.clone(),
                offset_col: self.offset_col.clone(),
                length_col: self.length_col.clone(),
                ranges: match self.ranges {
                    Ranges::Auto => RangeColumns::Auto,
                    Ranges::None => RangeColumns::Named,
                },
                prefix: self.prefix.clone(),
                delimiter: if name.ends_with(".tsv") || name.ends_with(".tab") { b'\t' } else { b',' },
                ..CsvSettings::default()
            };
            load_index(&self.index, &settings, cache)?
        } else {
            self.folder.list(&self.index, stores)?
        };
        self.select(index)
    }

    /// Returns the options that select rows, as they stand on a command line.
    pub(crate) fn selection(&self) -> String {
        let offset = (0 < self.offset).then(|| format!("--offset {}", self.offset));
        let limit = self.limit.map(|limit| format!("--limit {limit}"));
        let share = self.sample_frac.map(|share| format!("--sample-frac {share}"));
        [offset, limit, share].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Says what is missing where half of a range is named.
    fn check_ranges(&self) -> Result<(), Failure> {
        let (given, missing) = match (&self.offset_col, &self.length_col) {
            (Some(_), None) => ("--offset-col", "--length-col"),
            (None, Some(_)) => ("--length-col", "--offset-col"),
            _ => return Ok(()),
        };
        Err(Failure::usage(
            format!("{given} is given without {missing}, and a byte range needs both"),
            format!("name the other column by {missing}, or give neither"),
        ))
    }

    fn select(&self, index: SampleIndex) -> Result<Selected, Failure> {
        if self.offset == 0 && self.limit.is_none() && self.sample_frac.is_none() {
            return Ok(Selected { index, rows: Rows::From(0) });
        }
        let all = usize::try_from(index.len()).map_err(|error| error.to_string())?;
        let end = self.limit.map_or(all, |limit| self.offset.saturating_add(limit)).min(all);
        if end <= self.offset {
            let limit = self.limit.map_or("(none)".into(), |limit| limit.to_string());
            return Err(Failure::usage(
                format!("--offset {} and --limit {limit} leave no row of the {all} in {}", self.offset, self.index),
                format!("give an --offset below {all}, and a --limit of at least 1"),
            ));
        }
        let rows = self.offset..end;
        let Some(share) = self.sample_frac else {
            return Ok(Selected { index: index.select(rows), rows: Rows::From(self.offset) });
        };
        // OK because the share is at most 1.
        let n = ((rows.len() as f64 * share).round() as usize).max(1);
        let shuffled = ShuffleOncePerEpochPlanProvider::new(rows.len() as u64, 1, SAMPLE_SEED)?.plan(0)?;
        let chosen = shuffled.range_flat(0, n).ok_or_else(|| "a part of the rows is no more than all".to_owned())?;
        let mut chosen: Vec<usize> = chosen.into_iter().map(|id| rows.start + id.index()).collect();
        chosen.sort_unstable();
        Ok(Selected { index: index.select(chosen.iter().copied()), rows: Rows::Chosen(chosen) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_told_from_folders_by_their_names() {
        for table in ["s3://b/train.csv", "s3://b/train.csv.gz", "s3://b/x.parquet", "train.csv", "no-such-file"] {
            assert!(is_table(table), "{table}");
        }
        for folder in ["s3://b/train/", "s3://b/train", "s3://b", "gs://b/x.csv/", "/", "."] {
            assert!(!is_table(folder), "{folder}");
        }
    }
}
