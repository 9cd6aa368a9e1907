//! The cache against a real S3 server, real files, real processes, and faults of all of them.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod directory;
mod disk;
mod download;
mod errors;
mod eviction;
mod process;
mod requests;
mod support;
mod throttle;
