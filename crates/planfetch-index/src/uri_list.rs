//! Many URIs in one buffer.
//!
//! # How they are packed
//!
//! Neighbours in a list have much in common, so a URI is kept as what it shares with the one before and what comes
//! then (front coding). To read one without all before it, each 16th URI starts a block: it shares with the *first URI
//! of the list* instead, which is kept once, and an offset says where the block lies. So what all URIs have in common
//! costs one byte for each, and reading any of them decodes at most 16.
//!
//! The extension of the first URI, such as `.jpg`, is kept once too: a bit says whether a URI ends in it.
//!
//! Both are taken from the first URI rather than from all, so that a list can grow at its end without being packed
//! anew. The encoding is a function of the URIs alone.

mod cursor;
mod encoding;
mod slice;

pub use cursor::UriCursor;
pub use slice::UriSlice;

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeBounds;

use crate::error::IndexError;
use crate::uri::{UriRule, shorten};
use encoding::{BLOCK, Block, Head, extension, shared_len};

/// A list of URIs in one buffer, in the order in which they came, byte for byte.
///
/// What neighbours have in common is kept once, so that a sorted list of two million URIs such as
/// `s3://bucket/train/class_0123/img_0001234.jpg` takes about 5 bytes for each. In random order it is more, but never
/// more than the bytes of the URI and 5.
///
/// # Example: a list
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
#[derive(Clone, Default)]
pub struct UriList {
    // What the first URI is without `tail`.
    reference: String,
    // The extension of the first URI, or empty.
    tail: String,
    // Invariant: full blocks, each URI of which can be decoded.
    bytes: Vec<u8>,
    // Invariant: where each of them starts in `bytes`.
    starts: Vec<u64>,
    // The heads and texts of the last block, until it is full.
    heads: Vec<u8>,
    texts: Vec<u8>,
    len: usize,
    // What the last URI is without `tail`, to compare the next with.
    last: String,
}

impl UriList {
    /// Makes a list of checked URIs: all begin with `prefix`, or, where it is `None`, lie in one bucket.
    ///
    /// `name` says in errors which index it is. The prefix `""` lets URIs of any bucket through, and `s3://` those of
    /// any bucket of S3.
    ///
    /// # Errors
    ///
    /// [`IndexError::Sample`] names the first URI that has no scheme, names nothing, or lies elsewhere.
    ///
    /// # Example: a prefix that is enforced
    ///
    /// ```
    /// use planfetch_index::UriList;
    ///
    /// let keys = ["s3://photos/train/1.jpg", "s3://photos/test/1.jpg"];
    /// assert_eq!(UriList::with_prefix("train", None, keys)?.common_prefix(), "s3://photos/t");
    ///
    /// let error = UriList::with_prefix("train", Some("s3://photos/train/"), keys).expect_err("one lies elsewhere");
    /// assert_eq!(
    ///     error.to_string(),
    ///     "train: row 1: \"s3://photos/test/1.jpg\" does not begin with the prefix \"s3://photos/train/\"; \
    ///      leave the row out, or ask for a prefix that all rows share",
    /// );
    /// # Ok::<(), planfetch_index::IndexError>(())
    /// ```
    pub fn with_prefix<S: AsRef<str>>(
        name: &str,
        prefix: Option<&str>,
        uris: impl IntoIterator<Item = S>,
    ) -> Result<Self, IndexError> {
        let mut rule = UriRule::new(prefix);
        let mut list = Self::default();
        for uri in uris {
            let uri = uri.as_ref();
            rule.check(uri).map_err(|problem| IndexError::Sample {
                index: name.into(),
                row: list.len as u64,
                value: shorten(uri),
                problem,
            })?;
            list.push(uri);
        }
        list.shrink_to_fit();
        Ok(list)
    }

    /// Returns the number of URIs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a URI. It is not checked.
    pub fn push(&mut self, uri: &str) {
        if self.len == 0 {
            self.tail = extension(uri).to_owned();
            uri[..uri.len() - self.tail.len()].clone_into(&mut self.reference);
        }
        let (body, has_tail) = match uri.strip_suffix(self.tail.as_str()) {
            Some(body) if !self.tail.is_empty() => (body, true),
            _ => (uri, false),
        };
        let base = if self.len.is_multiple_of(BLOCK) { &self.reference } else { &self.last };
        let shared = shared_len(base, body);
        Head { shared, text_len: body.len() - shared, has_tail }.encode(&mut self.heads);
        self.texts.extend_from_slice(&body.as_bytes()[shared..]);
        // What it shares with the one before is there already, except at the beginning of a block.
        let kept = if self.len.is_multiple_of(BLOCK) { 0 } else { shared };
        self.last.truncate(kept);
        self.last.push_str(&body[kept..]);
        self.len += 1;
        if self.len.is_multiple_of(BLOCK) {
            self.starts.push(self.bytes.len() as u64);
            Block::encode(&self.heads, &self.texts, &mut self.bytes);
            self.heads.clear();
            self.texts.clear();
        }
    }

    /// Returns URI `index`, or `None` from [`len`](Self::len) on.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<String> {
        let mut uri = String::with_capacity(self.reference.len() + self.tail.len() + 16);
        self.write_to(index, &mut uri).then_some(uri)
    }

    /// Replaces what `buffer` holds with URI `index` and returns true; from [`len`](Self::len) on leaves it empty and
    /// returns false.
    pub fn write_to(&self, index: usize, buffer: &mut String) -> bool {
        buffer.clear();
        if index >= self.len {
            return false;
        }
        let written = self.decode(index, buffer);
        debug_assert!(written.is_some(), "URI {index} can't be decoded");
        if written.is_none() {
            buffer.clear();
        }
        written.is_some()
    }

    /// Returns an iterator over the URIs in order.
    ///
    /// Each is a new `String`; a [`cursor`](Self::cursor) lends them instead, which is faster.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = String> + '_ {
        let mut cursor = self.cursor();
        (0..self.len).map(move |_| cursor.next_uri().unwrap_or_default().to_owned())
    }

    /// Returns a cursor before the first URI, which lends one after the other.
    ///
    /// # Example: without a `String` for each
    ///
    /// ```
    /// use planfetch_index::UriList;
    ///
    /// let uris: UriList = ["s3://b/1.jpg", "s3://b/22.jpg"].into_iter().collect();
    /// let mut cursor = uris.cursor();
    /// let mut bytes = 0;
    /// while let Some(uri) = cursor.next_uri() {
    ///     bytes += uri.len();
    /// }
    /// assert_eq!(bytes, 25);
    /// ```
    pub fn cursor(&self) -> UriCursor<'_> {
        UriCursor::new(self, 0, self.len)
    }

    /// Returns the URIs in `range`, without copying them.
    ///
    /// What lies beyond the end is left out.
    ///
    /// # Example: two lists with a part in common
    ///
    /// ```
    /// use planfetch_index::UriList;
    ///
    /// let uris: UriList = ["s3://b/1", "s3://b/2", "s3://b/3"].into_iter().collect();
    /// let others: UriList = ["s3://b/2", "s3://b/3", "s3://b/4"].into_iter().collect();
    /// assert_eq!(uris.slice(1..), others.slice(..2));
    /// assert_eq!(uris.slice(1..).get(0).as_deref(), Some("s3://b/2"));
    /// ```
    pub fn slice(&self, range: impl RangeBounds<usize>) -> UriSlice<'_> {
        UriSlice::new(self, range)
    }

    /// Returns what all URIs begin with, cut at a character; empty for an empty list.
    ///
    /// It reads the whole list.
    #[must_use]
    pub fn common_prefix(&self) -> String {
        let mut cursor = self.cursor();
        let mut prefix = cursor.next_uri().unwrap_or_default().to_owned();
        while let Some(uri) = cursor.next_uri() {
            prefix.truncate(shared_len(&prefix, uri));
        }
        prefix
    }

    /// Returns how many bytes of memory the URIs take, offsets included.
    #[must_use]
    pub fn packed_bytes(&self) -> usize {
        let texts = [&self.reference, &self.tail, &self.last].map(String::capacity);
        let bytes = [&self.bytes, &self.heads, &self.texts].map(Vec::capacity);
        let allocated = texts.iter().chain(&bytes).sum::<usize>() + self.starts.capacity() * size_of::<u64>();
        size_of::<Self>() + allocated
    }

    /// Gives back the memory that was kept for more URIs.
    pub fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
        self.starts.shrink_to_fit();
    }

    /// Returns the first URI without its extension, that extension, and the blocks: what
    /// [`from_parts`](Self::from_parts) makes the list of again.
    pub(crate) fn parts(&self) -> (&str, &str, [Cow<'_, [u8]>; 2]) {
        let mut last = Vec::new();
        if !self.heads.is_empty() {
            Block::encode(&self.heads, &self.texts, &mut last);
        }
        (&self.reference, &self.tail, [Cow::Borrowed(&self.bytes), Cow::Owned(last)])
    }

    /// Makes a list of `len` URIs, or says what is wrong with them.
    pub(crate) fn from_parts(reference: String, tail: String, mut bytes: Vec<u8>, len: usize) -> Result<Self, String> {
        let mut starts = encoding::check(&reference, &tail, &bytes, len)?;
        let (mut heads, mut texts) = (Vec::new(), Vec::new());
        if !len.is_multiple_of(BLOCK) {
            // OK because it is a place in memory.
            let start = starts.pop().ok_or("a block is missing")? as usize;
            let block = Block::decode(&bytes[start..]).ok_or("the last block is cut")?;
            (heads, texts) = (block.heads.to_vec(), block.texts.to_vec());
            bytes.truncate(start);
        }
        let mut list = Self { reference, tail, bytes, starts, heads, texts, len, last: String::new() };
        if len > 0 {
            let mut last = String::new();
            let block = list.block((len - 1) / BLOCK).ok_or("the last block is cut")?;
            block.write((len - 1) % BLOCK, &list.reference, &mut last).ok_or("the last URI is cut")?;
            list.last = last;
        }
        Ok(list)
    }

    /// Writes URI `index`, which exists, into `buffer`.
    fn decode(&self, index: usize, buffer: &mut String) -> Option<()> {
        let head = self.block(index / BLOCK)?.write(index % BLOCK, &self.reference, buffer)?;
        if head.has_tail {
            buffer.push_str(&self.tail);
        }
        Some(())
    }

    /// Returns a block, of which the last may not be full.
    #[inline]
    fn block(&self, index: usize) -> Option<Block<'_>> {
        match self.starts.get(index) {
            // OK because it is a place in memory.
            Some(&start) => Block::decode(self.bytes.get(start as usize..)?),
            None => Some(Block { heads: &self.heads, texts: &self.texts }),
        }
    }
}

impl PartialEq for UriList {
    fn eq(&self, other: &Self) -> bool {
        self.slice(..) == other.slice(..)
    }
}

impl Eq for UriList {}

impl fmt::Debug for UriList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slice(..).fmt(f)
    }
}

impl<S: AsRef<str>> FromIterator<S> for UriList {
    fn from_iter<I: IntoIterator<Item = S>>(uris: I) -> Self {
        let mut list = Self::default();
        list.extend(uris);
        list
    }
}

impl<S: AsRef<str>> Extend<S> for UriList {
    fn extend<I: IntoIterator<Item = S>>(&mut self, uris: I) {
        uris.into_iter().for_each(|uri| self.push(uri.as_ref()));
    }
}
