//! Reading a list from one URI to the next.

use super::UriList;
use super::encoding::{BLOCK, Block, Head};

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
    block: Block<'a>,
    // Where the head and the text of the next URI lie in the block.
    head: usize,
    text: usize,
    uri: String,
    // The length of `uri` without the list's extension.
    body_len: usize,
}

impl<'a> UriCursor<'a> {
    pub(super) fn new(list: &'a UriList, start: usize, end: usize) -> Self {
        let next = start - start % BLOCK;
        let uri = String::new();
        let mut cursor = Self { list, next, end, block: Block::default(), head: 0, text: 0, uri, body_len: 0 };
        while cursor.next < start && cursor.next_uri().is_some() {}
        cursor
    }

    /// Returns the next URI, or `None` after the last.
    #[inline]
    pub fn next_uri(&mut self) -> Option<&str> {
        if self.next >= self.end {
            return None;
        }
        if self.next.is_multiple_of(BLOCK) {
            self.block = self.list.block(self.next / BLOCK)?;
            (self.head, self.text) = (0, 0);
            self.list.reference.clone_into(&mut self.uri);
            self.body_len = self.uri.len();
        }
        self.next += 1;
        let head = Head::decode(self.block.heads, &mut self.head)?;
        if head.shared > self.body_len || !self.uri.is_char_boundary(head.shared) {
            return None;
        }
        let start = self.text;
        self.text += head.text_len;
        self.uri.truncate(head.shared);
        self.uri.push_str(std::str::from_utf8(self.block.texts.get(start..self.text)?).ok()?);
        self.body_len = self.uri.len();
        if head.has_tail {
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
