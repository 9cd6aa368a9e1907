//! The list of samples.

mod builder;
mod classes;
mod describe;
mod export;
mod rows;
mod saved;
mod split;

pub use builder::IndexBuilder;
pub use describe::{ClassCount, Description, PrefixSpread};
pub use rows::SampleRow;
#[cfg(feature = "arrow")]
pub(crate) use saved::replace;
pub use split::{Split, SplitBy};

use std::ops::Range;
use std::sync::Arc;

use crate::error::IndexError;
use crate::table::to_range;
use crate::uri::{check_uri, shorten};
use crate::uri_list::UriList;

/// What a data set holds: one row a sample, with the URI of its object and its label, and where they are known, the
/// size of the object and the range of its bytes that the sample is.
///
/// Row `i` is the sample with id `i`. A clone shares the rows.
///
/// # Example
///
/// ```
/// use planfetch_index::SampleIndex;
///
/// let index = SampleIndex::from_rows([("file:///data/a.png", 3), ("file:///data/b.png", 0)])?;
/// assert_eq!(index.label(0), Some(3));
/// assert_eq!(index.num_classes(), 4);
///
/// let error = SampleIndex::from_rows([("data/a.png", 3)]).expect_err("a path, not a URI");
/// assert!(error.to_string().starts_with("row 0: \"data/a.png\" has no scheme"));
/// # Ok::<(), planfetch_index::IndexError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SampleIndex {
    // Invariant: as many of each as there are rows, and each URI has a scheme. Vectors behind an `Arc` rather than
    // `Arc<[_]>`, since making that from a vector copies it, which takes a while for 100 million rows.
    uris: Arc<UriList>,
    labels: Arc<Vec<u32>>,
    sizes: Option<Arc<Vec<u64>>>,
    // Where a range begins, and how long it is; the sum fits.
    ranges: Option<Arc<Vec<(u64, u64)>>>,
    // Invariant: empty, or as many as there are classes.
    class_names: Arc<Vec<String>>,
    // Invariant: more than any label, or `u32::MAX`.
    num_classes: u32,
}

impl SampleIndex {
    /// Makes an index of `(uri, label)` rows.
    ///
    /// # Errors
    ///
    /// [`IndexError::Uri`] when a URI has no scheme or names nothing. The URIs may lie in several buckets; an
    /// [`IndexBuilder`] checks that they do not, and takes sizes, byte ranges and class names too.
    pub fn from_rows<S: AsRef<str>>(rows: impl IntoIterator<Item = (S, u32)>) -> Result<Self, IndexError> {
        let mut uris = UriList::default();
        let mut labels = Vec::new();
        for (row, (uri, label)) in rows.into_iter().enumerate() {
            let uri = uri.as_ref();
            if let Err(problem) = check_uri(uri) {
                return Err(IndexError::Uri { row: row as u64, value: shorten(uri), problem });
            }
            uris.push(uri);
            labels.push(label);
        }
        Ok(Self::new(uris, labels, Vec::new()))
    }

    /// Makes an index of checked rows. Without class names, the classes are those up to the largest label.
    pub(crate) fn new(mut uris: UriList, labels: Vec<u32>, class_names: Vec<String>) -> Self {
        debug_assert_eq!(uris.len(), labels.len());
        let num_classes = match class_names.len() {
            0 => labels.iter().max().map_or(0, |&label| label.saturating_add(1)),
            // OK because labels are the places of these names, and they fit.
            n => n as u32,
        };
        uris.shrink_to_fit();
        Self {
            uris: Arc::new(uris),
            labels: Arc::new(labels),
            sizes: None,
            ranges: None,
            class_names: Arc::new(class_names),
            num_classes,
        }
    }

    /// Adds what not every index has; as many of each as there are rows.
    pub(crate) fn with_parts(self, sizes: Option<Vec<u64>>, ranges: Option<Vec<(u64, u64)>>) -> Self {
        debug_assert!(sizes.as_ref().is_none_or(|sizes| sizes.len() == self.labels.len()));
        debug_assert!(ranges.as_ref().is_none_or(|ranges| ranges.len() == self.labels.len()));
        Self { sizes: sizes.map(Arc::new), ranges: ranges.map(Arc::new), ..self }
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.labels.len() as u64
    }

    /// Returns whether there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the URI of the sample in row `row`, or `None` from [`len`](Self::len) on.
    #[must_use]
    pub fn uri(&self, row: usize) -> Option<String> {
        self.uris.get(row)
    }

    /// Returns the label of the sample in row `row`, or `None` from [`len`](Self::len) on.
    #[must_use]
    pub fn label(&self, row: usize) -> Option<u32> {
        self.labels.get(row).copied()
    }

    /// Returns the URIs of all samples in order.
    #[must_use]
    pub fn uris(&self) -> &Arc<UriList> {
        &self.uris
    }

    /// Returns the labels of all samples in order.
    #[must_use]
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Returns the number of classes: the number of class names, or else one more than the largest label.
    #[must_use]
    pub fn num_classes(&self) -> u32 {
        self.num_classes
    }

    /// Returns the name of the class with label `label`, where labels were read as names.
    #[must_use]
    pub fn class_name(&self, label: u32) -> Option<&str> {
        self.class_names.get(label as usize).map(String::as_str)
    }

    /// Returns the names of the classes in order of their labels; empty where labels were read as integers.
    #[must_use]
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// Returns the size in bytes of the object of the sample in row `row`, or `None` where it is not known.
    #[must_use]
    pub fn size(&self, row: usize) -> Option<u64> {
        self.sizes().and_then(|sizes| sizes.get(row).copied())
    }

    /// Returns the sizes in bytes of the objects of all samples in order, where they are known.
    #[must_use]
    pub fn sizes(&self) -> Option<&[u64]> {
        self.sizes.as_ref().map(|sizes| sizes.as_slice())
    }

    /// Returns which bytes of its object the sample in row `row` is, or `None` where it is the whole object.
    #[must_use]
    pub fn range(&self, row: usize) -> Option<Range<u64>> {
        self.ranges.as_ref().and_then(|ranges| ranges.get(row).copied()).map(to_range)
    }

    /// Returns whether samples are ranges of bytes of their objects, rather than whole objects.
    #[must_use]
    pub fn has_ranges(&self) -> bool {
        self.ranges.is_some()
    }
}
