//! An index made row by row.

use std::ops::Range;

use crate::error::IndexError;
use crate::sample_index::SampleIndex;
use crate::uri::{UriRule, shorten};
use crate::uri_list::UriList;

/// Makes a [`SampleIndex`] of whatever a program finds samples in, with the checks that reading a file makes.
///
/// # Example: rows with sizes and named classes
///
/// ```
/// use planfetch_index::IndexBuilder;
///
/// let mut builder = IndexBuilder::new("the catalogue").with_class_names(["cat", "dog"]);
/// builder.push_sample("s3://photos/1.jpg", 1, Some(40_000), None)?;
/// builder.push_sample("s3://photos/2.jpg", 0, Some(50_000), None)?;
///
/// let error = builder.push_sample("s3://videos/3.jpg", 0, Some(1), None).expect_err("another bucket");
/// assert!(error.to_string().starts_with("the catalogue: row 2: \"s3://videos/3.jpg\" lies in another bucket"));
///
/// let index = builder.build()?;
/// assert_eq!(index.class_name(1), Some("dog"));
/// assert_eq!(index.sizes(), Some(&[40_000, 50_000][..]));
/// # Ok::<(), planfetch_index::IndexError>(())
/// ```
#[derive(Debug)]
#[must_use = "build() makes the index"]
pub struct IndexBuilder {
    name: String,
    rule: UriRule,
    class_names: Vec<String>,
    uris: UriList,
    labels: Vec<u32>,
    // Invariant: each is empty, or as long as `labels`.
    sizes: Vec<u64>,
    ranges: Vec<(u64, u64)>,
}

impl IndexBuilder {
    /// Makes a builder of an index that errors call `name`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            rule: UriRule::new(None),
            class_names: Vec::new(),
            uris: UriList::default(),
            labels: Vec::new(),
            sizes: Vec::new(),
            ranges: Vec::new(),
        }
    }

    /// Asks that all URIs from here on begin with `prefix`; the default is that all lie in one bucket.
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        self.rule = UriRule::new(Some(prefix));
        self
    }

    /// Names the classes in order of their labels; the default is no names, and as many classes as labels need.
    pub fn with_class_names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.class_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the number of rows so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Appends a sample that is a whole object of unknown size.
    ///
    /// # Errors
    ///
    /// As for [`push_sample`](Self::push_sample).
    pub fn push(&mut self, uri: &str, label: u32) -> Result<(), IndexError> {
        self.push_sample(uri, label, None, None)
    }

    /// Appends a sample: the object, its label, the object's size in bytes and the range of bytes that the sample is.
    ///
    /// # Errors
    ///
    /// [`IndexError::Sample`] when the URI has no scheme or lies elsewhere, the label is not that of a named class, the
    /// range ends before it begins, or a size or range is given where the first row has none or the other way round.
    /// The row is then not appended.
    pub fn push_sample(
        &mut self,
        uri: &str,
        label: u32,
        size: Option<u64>,
        range: Option<Range<u64>>,
    ) -> Result<(), IndexError> {
        self.check(uri, label, size, range.as_ref()).map_err(|problem| IndexError::Sample {
            index: self.name.clone(),
            row: self.labels.len() as u64,
            value: shorten(uri),
            problem,
        })?;
        self.uris.push(uri);
        self.labels.push(label);
        self.sizes.extend(size);
        self.ranges.extend(range.map(|range| (range.start, range.end - range.start)));
        Ok(())
    }

    /// Makes the index.
    ///
    /// # Errors
    ///
    /// [`IndexError::Sample`] when class names were set after a row whose label is not that of a named class.
    pub fn build(self) -> Result<SampleIndex, IndexError> {
        if let Some(row) = self.labels.iter().position(|&label| !self.is_named(label)) {
            return Err(IndexError::Sample {
                index: self.name,
                row: row as u64,
                value: shorten(&self.uris.get(row).unwrap_or_default()),
                problem: format!("has a label without a name, of {}; name all classes", self.class_names.len()),
            });
        }
        let sizes = (!self.sizes.is_empty()).then_some(self.sizes);
        let ranges = (!self.ranges.is_empty()).then_some(self.ranges);
        Ok(SampleIndex::new(self.uris, self.labels, self.class_names).with_parts(sizes, ranges))
    }

    /// Returns whether the class of `label` has a name, or none has.
    fn is_named(&self, label: u32) -> bool {
        self.class_names.is_empty() || (label as usize) < self.class_names.len()
    }

    fn check(&mut self, uri: &str, label: u32, size: Option<u64>, range: Option<&Range<u64>>) -> Result<(), String> {
        if !self.is_named(label) {
            return Err(format!("has label {label}, but the names are of classes 0..{}", self.class_names.len()));
        }
        let is_first = self.labels.is_empty();
        let like_first = |has: bool, had: bool, what: &str| match (has, had) {
            (true, false) if !is_first => {
                Err(format!("has a {what}, which the rows before have not; give all or none"))
            }
            (false, true) => Err(format!("has no {what}, which the rows before have; give all or none")),
            _ => Ok(()),
        };
        like_first(size.is_some(), !self.sizes.is_empty(), "size")?;
        like_first(range.is_some(), !self.ranges.is_empty(), "byte range")?;
        if let Some(range) = range.filter(|range| range.start > range.end) {
            return Err(format!("has a byte range from {} back to {}", range.start, range.end));
        }
        // Last, since it remembers what it let through.
        self.rule.check(uri)
    }
}
