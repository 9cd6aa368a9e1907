//! Choosing rows, and putting indices together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::error::IndexError;
use crate::sample_index::SampleIndex;
use crate::table::to_range;
use crate::uri_list::UriList;

/// The most classes that are counted in a table with a place for each label; where labels are larger, it is a map.
const DENSE_CLASSES: u32 = 1 << 20;

/// A row of an index, lent.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SampleRow<'a> {
    /// The row, from 0: the sample's id.
    pub row: usize,
    /// The object.
    pub uri: &'a str,
    /// The label.
    pub label: u32,
    /// The size of the object in bytes, where it is known.
    pub size: Option<u64>,
    /// The bytes of the object that the sample is; the whole object where there is no range.
    pub range: Option<Range<u64>>,
}

impl SampleIndex {
    /// Calls `f` with each row in order; quicker than asking for each by its number.
    ///
    /// # Example: what a class takes
    ///
    /// ```
    /// use planfetch_index::SampleIndex;
    ///
    /// let index = SampleIndex::from_rows([("s3://b/1", 0), ("s3://b/22", 1), ("s3://b/333", 1)])?;
    /// let mut longest = 0;
    /// index.for_each(|row| longest = longest.max(row.uri.len()));
    /// assert_eq!(longest, "s3://b/333".len());
    /// # Ok::<(), planfetch_index::IndexError>(())
    /// ```
    pub fn for_each(&self, mut f: impl FnMut(SampleRow<'_>)) {
        let mut cursor = self.uris.cursor();
        let mut row = 0;
        while let Some(uri) = cursor.next_uri() {
            let range = self.ranges.as_ref().map(|ranges| to_range(ranges[row]));
            f(SampleRow { row, uri, label: self.labels[row], size: self.size(row), range });
            row += 1;
        }
    }

    /// Returns the number of samples of each class by label; 0 for a class that has a name but no sample.
    ///
    /// # Example: how even classes are
    ///
    /// ```
    /// use planfetch_index::SampleIndex;
    ///
    /// let index = SampleIndex::from_rows([("s3://b/1", 0), ("s3://b/2", 7), ("s3://b/3", 7)])?;
    /// assert_eq!(index.class_counts().into_iter().collect::<Vec<_>>(), [(0, 1), (7, 2)]);
    /// # Ok::<(), planfetch_index::IndexError>(())
    /// ```
    #[must_use]
    pub fn class_counts(&self) -> BTreeMap<u32, u64> {
        // OK because as many names as labels can be were checked to fit.
        let mut counts: BTreeMap<u32, u64> = (0..self.class_names.len() as u32).map(|label| (label, 0)).collect();
        if self.num_classes <= DENSE_CLASSES {
            let mut dense = vec![0_u64; self.num_classes as usize];
            self.labels.iter().for_each(|&label| dense[label as usize] += 1);
            counts.extend((0..).zip(dense).filter(|&(_, count)| count > 0));
        } else {
            self.labels.iter().for_each(|&label| *counts.entry(label).or_default() += 1);
        }
        counts
    }

    /// Returns the index of the samples in `rows`, in that order and under new ids from 0 on.
    ///
    /// Class names and the number of classes stay as they are. Rows that do not exist are left out.
    #[must_use]
    pub fn select(&self, rows: impl IntoIterator<Item = usize>) -> Self {
        let mut uris = UriList::default();
        let (mut labels, mut sizes, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        let mut uri = String::new();
        for row in rows {
            if let Some(label) = self.label(row)
                && self.uris.write_to(row, &mut uri)
            {
                uris.push(&uri);
                labels.push(label);
                sizes.extend(self.size(row));
                ranges.extend(self.ranges.as_ref().map(|ranges| ranges[row]));
            }
        }
        self.with_rows(uris, labels, sizes, ranges)
    }

    /// Returns the index of the samples for which `keep` returns true, in the same order and under new ids from 0 on.
    ///
    /// Class names and the number of classes stay as they are.
    ///
    /// # Example: without the largest objects
    ///
    /// ```
    /// use planfetch_index::{CsvSettings, read_index_csv};
    ///
    /// let csv = "s3_uri,label,bytes\ns3://b/1,0,100\ns3://b/2,1,9000000000\n";
    /// let settings = CsvSettings { size_col: Some("bytes".into()), ..CsvSettings::default() };
    /// let index = read_index_csv(csv.as_bytes(), "train.csv", &settings)?;
    ///
    /// let small = index.filter(|row| row.size.is_none_or(|bytes| bytes < 1_000_000));
    /// assert_eq!((small.len(), small.num_classes()), (1, 2));
    /// # Ok::<(), planfetch_index::IndexError>(())
    /// ```
    #[must_use]
    pub fn filter(&self, mut keep: impl FnMut(&SampleRow<'_>) -> bool) -> Self {
        let mut uris = UriList::default();
        let (mut labels, mut sizes, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        self.for_each(|row| {
            if keep(&row) {
                uris.push(row.uri);
                labels.push(row.label);
                sizes.extend(row.size);
                ranges.extend(self.ranges.as_ref().map(|ranges| ranges[row.row]));
            }
        });
        self.with_rows(uris, labels, sizes, ranges)
    }

    /// Puts indices together: all rows of the first, then those of the second, and so on.
    ///
    /// Where classes have names, they are matched by name, and the names of all numbered anew in the order of their
    /// bytes. Sizes are kept where all indices have them. Indices without rows count for nothing but their classes.
    ///
    /// # Errors
    ///
    /// [`IndexError::Mixed`] when classes have names in some and none in others, or samples are ranges of bytes in
    /// some and whole objects in others.
    ///
    /// # Example: classes that one part lacks
    ///
    /// ```
    /// use planfetch_index::{CsvSettings, SampleIndex, read_index_csv};
    ///
    /// let read = |csv: &str| read_index_csv(csv.as_bytes(), "csv", &CsvSettings::default());
    /// let first = read("s3_uri,label\ns3://b/1,ape\ns3://b/2,dog\n")?;
    /// let second = read("s3_uri,label\ns3://b/3,cat\n")?;
    ///
    /// let both = SampleIndex::concat([&first, &second])?;
    /// assert_eq!(both.class_names(), ["ape", "cat", "dog"]);
    /// assert_eq!(both.labels(), [0, 2, 1]);
    ///
    /// let unnamed = read("s3_uri,label\ns3://b/4,4\n")?;
    /// assert!(SampleIndex::concat([&first, &unnamed]).is_err());
    /// # Ok::<(), planfetch_index::IndexError>(())
    /// ```
    pub fn concat<'a>(indices: impl IntoIterator<Item = &'a Self>) -> Result<Self, IndexError> {
        let indices: Vec<&Self> = indices.into_iter().filter(|index| !index.is_void()).collect();
        let filled: Vec<&Self> = indices.iter().copied().filter(|index| !index.is_empty()).collect();
        check_same(&indices, |index| !index.class_names.is_empty(), "classes have names", "classes have none")?;
        check_same(&filled, Self::has_ranges, "samples are ranges of bytes", "samples are whole objects")?;

        let names: BTreeSet<&String> = indices.iter().flat_map(|index| index.class_names.iter()).collect();
        // OK because a class in one of the indices has a number that fits; that many new ones do not fit in memory.
        let places: BTreeMap<&String, u32> = names.iter().copied().zip(0..).collect();
        let mut uris = UriList::default();
        let mut labels = Vec::new();
        for index in &filled {
            let mut cursor = index.uris.cursor();
            while let Some(uri) = cursor.next_uri() {
                uris.push(uri);
            }
            let renamed: Vec<u32> = index.class_names.iter().map(|name| places[name]).collect();
            labels.extend(index.labels.iter().map(|&label| renamed.get(label as usize).copied().unwrap_or(label)));
        }
        let num_classes = indices.iter().map(|index| index.num_classes).max().unwrap_or(0);
        let sizes: Option<Vec<&[u64]>> = filled.iter().map(|index| index.sizes()).collect();
        let ranges: Option<Vec<_>> = filled.iter().map(|index| index.ranges.as_ref().map(|r| r.as_slice())).collect();
        let class_names = names.into_iter().cloned().collect();
        let mut index = Self::new(uris, labels, class_names).with_parts(
            sizes.filter(|sizes| !sizes.is_empty()).map(|sizes| sizes.concat()),
            ranges.filter(|ranges| !ranges.is_empty()).map(|ranges| ranges.concat()),
        );
        index.num_classes = index.num_classes.max(if index.class_names.is_empty() { num_classes } else { 0 });
        Ok(index)
    }

    /// Returns whether there is nothing in it, not even a class.
    fn is_void(&self) -> bool {
        self.is_empty() && self.num_classes == 0
    }

    /// Makes an index of other rows with the same classes and the same parts.
    fn with_rows(&self, mut uris: UriList, labels: Vec<u32>, sizes: Vec<u64>, ranges: Vec<(u64, u64)>) -> Self {
        uris.shrink_to_fit();
        Self {
            uris: Arc::new(uris),
            labels: Arc::new(labels),
            sizes: self.sizes.is_some().then(|| Arc::new(sizes)),
            ranges: self.ranges.is_some().then(|| Arc::new(ranges)),
            class_names: Arc::clone(&self.class_names),
            num_classes: self.num_classes,
        }
    }
}

/// Checks that all indices have something in common.
fn check_same(
    indices: &[&SampleIndex],
    has: impl Fn(&SampleIndex) -> bool,
    with: &'static str,
    without: &'static str,
) -> Result<(), IndexError> {
    let first_with = indices.iter().position(|index| has(index));
    let first_without = indices.iter().position(|index| !has(index));
    match (first_with, first_without) {
        (Some(a), Some(b)) => {
            Err(IndexError::Mixed { problem: format!("in index {a} {with}, in index {b} {without}") })
        }
        _ => Ok(()),
    }
}
