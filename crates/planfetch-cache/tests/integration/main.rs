//! The cache against a real S3 server, real files and faults of both.

mod directory;
mod download;
mod errors;
mod support;
