//! The list of samples.

use std::sync::Arc;

use crate::error::IndexError;
use crate::uri_list::UriList;

/// What a data set holds: one row a sample, with the URI of its object and its label.
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
    // Invariant: as many URIs as labels; each URI has a scheme.
    uris: Arc<UriList>,
    labels: Arc<[u32]>,
    class_names: Arc<[String]>,
    num_classes: u32,
}

impl SampleIndex {
    /// Makes an index of `(uri, label)` rows.
    ///
    /// # Errors
    ///
    /// [`IndexError::Uri`] when a URI has no scheme or names nothing.
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
    pub(crate) fn new(uris: UriList, labels: Vec<u32>, class_names: Vec<String>) -> Self {
        debug_assert_eq!(uris.len(), labels.len());
        let num_classes = match class_names.len() {
            0 => labels.iter().max().map_or(0, |&label| label.saturating_add(1)),
            // OK because labels are the places of these names, and they fit.
            n => n as u32,
        };
        Self { uris: Arc::new(uris), labels: labels.into(), class_names: class_names.into(), num_classes }
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

    /// Returns the index of the samples in `rows`, in that order and under new ids from 0 on.
    ///
    /// Class names and the number of classes stay as they are. Rows that do not exist are left out.
    #[must_use]
    pub fn select(&self, rows: impl IntoIterator<Item = usize>) -> Self {
        let mut uris = UriList::default();
        let mut labels = Vec::new();
        let mut uri = String::new();
        for row in rows {
            if let Some(label) = self.label(row)
                && self.uris.write_to(row, &mut uri)
            {
                uris.push(&uri);
                labels.push(label);
            }
        }
        Self { uris: Arc::new(uris), labels: labels.into(), ..self.clone() }
    }
}

/// Checks that `uri` has a scheme (RFC 3986, section 3.1) and names something. The error says what to do.
pub(crate) fn check_uri(uri: &str) -> Result<(), String> {
    let advice = "write s3://bucket/key, or file:///absolute/path for a local file";
    let Some((scheme, rest)) = uri.split_once("://") else {
        return Err(format!("has no scheme; {advice}"));
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if !is_scheme {
        return Err(format!("does not start with a valid scheme; {advice}"));
    }
    if rest.is_empty() {
        return Err(format!("names no object; {advice}"));
    }
    Ok(())
}

/// Cuts a value for an error message, so that a broken file does not fill the screen.
pub(crate) fn shorten(value: &str) -> String {
    match value.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}
