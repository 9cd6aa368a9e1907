//! The cache against a real S3 server, real files and faults of both.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod directory;
mod download;
mod errors;
mod support;
