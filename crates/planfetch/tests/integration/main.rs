//! The facade against real caches in real directories.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod load_index;
