//! A part of a list.

use std::fmt;
use std::ops::{Bound, RangeBounds};

use super::{UriCursor, UriList};

/// A part of a [`UriList`], borrowed; made by [`UriList::slice`].
///
/// It compares like a list: by its URIs in order.
#[derive(Clone, Copy)]
pub struct UriSlice<'a> {
    list: &'a UriList,
    // Invariant: start <= end <= list.len()
    start: usize,
    end: usize,
}

impl<'a> UriSlice<'a> {
    pub(super) fn new(list: &'a UriList, range: impl RangeBounds<usize>) -> Self {
        let end = match range.end_bound() {
            Bound::Included(&end) => end.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => list.len(),
        };
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = end.min(list.len());
        Self { list, start: start.min(end), end }
    }

    /// Returns the number of URIs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns URI `index` of this part, or `None` from [`len`](Self::len) on.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<String> {
        if index < self.len() { self.list.get(self.start + index) } else { None }
    }

    /// As [`UriList::write_to`], with an index into this part.
    pub fn write_to(&self, index: usize, buffer: &mut String) -> bool {
        if index < self.len() {
            return self.list.write_to(self.start + index, buffer);
        }
        buffer.clear();
        false
    }

    /// Returns a cursor before the first URI of this part.
    pub fn cursor(&self) -> UriCursor<'a> {
        UriCursor::new(self.list, self.start, self.end)
    }

    /// Returns an iterator over the URIs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = String> + 'a {
        let mut cursor = self.cursor();
        (self.start..self.end).map(move |_| cursor.next_uri().unwrap_or_default().to_owned())
    }
}

impl PartialEq for UriSlice<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        let (mut mine, mut others) = (self.cursor(), other.cursor());
        (0..self.len()).all(|_| mine.next_uri() == others.next_uri())
    }
}

impl Eq for UriSlice<'_> {}

impl fmt::Debug for UriSlice<'_> {
    /// Shows the first few only: a list can hold a hundred million.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.iter().take(3).collect::<Vec<_>>();
        f.debug_struct("Uris").field("len", &self.len()).field("first", &first).finish()
    }
}
