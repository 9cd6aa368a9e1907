//! Reading a list from one URI to the next.

use super::encoding::Entry;
use super::{BLOCK, UriList};

/// Lends the URIs of a list, one after the other, from a buffer of its own; made by [`UriList::cursor`].
///
/// It is no `Iterator`, since what it lends lives until the next call.
#[derive(Clone, Debug)]
#[must_use = "a cursor reads nothing before it is asked for a URI"]
pub struct UriCursor<'a> {
    list: &'a UriList,
    // The next URI, and the one at which to stop.
    next: usize,
    end: usize,
    // Where the next URI lies in the list's buffer.
    at: usize,
    uri: String,
    // The length of `uri` without the list's extension.
    body_len: usize,
}

impl<'a> UriCursor<'a> {
    pub(super) fn new(list: &'a UriList, start: usize, end: usize) -> Self {
        let block = start / BLOCK;
        let at = list.block_start(block).unwrap_or(0);
        let mut cursor = Self { list, next: block * BLOCK, end, at, uri: String::new(), body_len: 0 };
        while cursor.next < start && cursor.next_uri().is_some() {}
        cursor
    }

    /// Returns the next URI, or `None` after the last.
    #[inline]
    pub fn next_uri(&mut self) -> Option<&str> {
        if self.next >= self.end {
            return None;
        }
        let is_first = self.next.is_multiple_of(BLOCK);
        self.next += 1;
        let entry = Entry::decode(&self.list.bytes, &mut self.at)?;
        entry.write(is_first.then_some(self.list.reference.as_str()), self.body_len, &mut self.uri)?;
        self.body_len = self.uri.len();
        if entry.has_tail {
            self.uri.push_str(&self.list.tail);
        }
        Some(&self.uri)
    }

    /// Returns how many URIs are to come.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.end - self.next.min(self.end)
    }
}
