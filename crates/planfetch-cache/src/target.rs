//! What a fetch is for.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// An object, or a part of one, that somebody asked for.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) uri: Box<str>,
    /// The bytes that are wanted; `None` is all.
    pub(crate) range: Option<Range<u64>>,
    /// When it was asked for first.
    pub(crate) asked_at: Instant,
}

impl Target {
    pub(crate) fn new(uri: &str, range: Option<Range<u64>>) -> Arc<Self> {
        Arc::new(Self { uri: uri.into(), range, asked_at: Instant::now() })
    }

    /// Returns what messages call it: the URI, and the range if it is one.
    pub(crate) fn name(&self) -> String {
        match &self.range {
            None => self.uri.to_string(),
            Some(range) => format!("{} (bytes {}..{})", self.uri, range.start, range.end),
        }
    }
}
