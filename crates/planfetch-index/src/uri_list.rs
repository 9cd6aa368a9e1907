//! Many URIs in one buffer.

/// A list of URIs in one buffer, in the order in which they came, byte for byte.
///
/// It takes the bytes of the URIs and 8 more for each.
///
/// # Example
///
/// ```
/// use planfetch_index::UriList;
///
/// let uris: UriList = ["s3://b/a.jpg", "s3://b/ä b.jpg"].into_iter().collect();
/// assert_eq!(uris.len(), 2);
///
/// // Writing into a reused buffer allocates nothing once the buffer is large enough.
/// let mut buffer = String::new();
/// assert!(uris.write_to(1, &mut buffer));
/// assert_eq!(buffer, "s3://b/ä b.jpg");
/// assert!(!uris.write_to(2, &mut buffer));
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UriList {
    bytes: String,
    // Invariant: ascending, each at most `bytes.len()` and on a character boundary; `ends[i]` is where URI `i` ends.
    ends: Vec<u64>,
}

impl UriList {
    /// Returns the number of URIs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends a URI. It is not checked.
    pub fn push(&mut self, uri: &str) {
        self.bytes.push_str(uri);
        self.ends.push(self.bytes.len() as u64);
    }

    /// Returns URI `index`, or `None` from [`len`](Self::len) on.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<String> {
        self.slice(index).map(str::to_owned)
    }

    /// Replaces what `buffer` holds with URI `index` and returns true; from [`len`](Self::len) on leaves it empty and
    /// returns false.
    pub fn write_to(&self, index: usize, buffer: &mut String) -> bool {
        buffer.clear();
        match self.slice(index) {
            Some(uri) => {
                buffer.push_str(uri);
                true
            }
            None => false,
        }
    }

    /// Returns an iterator over the URIs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = String> + '_ {
        (0..self.len()).map(|index| self.slice(index).unwrap_or_default().to_owned())
    }

    fn slice(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        // OK because both are lengths of a string in memory.
        Some(&self.bytes[start as usize..end as usize])
    }
}

impl<S: AsRef<str>> FromIterator<S> for UriList {
    fn from_iter<I: IntoIterator<Item = S>>(uris: I) -> Self {
        let mut list = Self::default();
        uris.into_iter().for_each(|uri| list.push(uri.as_ref()));
        list
    }
}
