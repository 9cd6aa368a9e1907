//! The cache against a real S3 server, real files, real processes, and faults of all of them.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "seeds, and why a test is skipped, are for whoever reads its output"
)]

mod directory;
mod disk;
mod download;
mod errors;
mod eviction;
mod inspect;
mod memory;
mod process;
mod requests;
mod store;
mod support;
mod throttle;
