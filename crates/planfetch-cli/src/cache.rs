//! `planfetch cache`: a cache directory, looked at and made smaller beside whatever uses it.

mod stat;
mod verify;

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use planfetch::cache::{CacheInspector, DirectoryUsers, PruneBackend};
use planfetch::prelude::*;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{OutputOptions, note};
use crate::units::{bytes, count, parse_bytes};

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Say what lies in a cache directory, and who uses it
    Stat(stat::StatOptions),
    /// Read every file, and compare it with the length and checksum in its name
    Verify(verify::VerifyOptions),
    /// Delete what no process uses, the least recently used first, until the rest fits
    Prune(PruneOptions),
    /// Delete everything that no process uses
    Clear(ClearOptions),
}

#[derive(Args, Debug)]
pub(crate) struct Directory {
    /// The cache directory
    #[arg(value_name = "DIR", help_heading = "Cache", id = "cache_dir")]
    dir: PathBuf,
    #[command(flatten)]
    output: OutputOptions,
}

impl Directory {
    /// Finds the directory, which is neither made nor locked.
    fn inspect(&self) -> Result<CacheInspector, Failure> {
        CacheInspector::new(&self.dir).map_err(|error| {
            Failure::usage(
                error.to_string(),
                "name the directory that a job names, by --cache-dir or DiskCache::builder",
            )
        })
    }
}

#[derive(Args, Debug)]
pub(crate) struct PruneOptions {
    #[command(flatten)]
    directory: Directory,
    /// What may stay, such as 100GB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Prune")]
    max_bytes: u64,
}

#[derive(Args, Debug)]
pub(crate) struct ClearOptions {
    #[command(flatten)]
    directory: Directory,
}

pub(crate) fn run(command: &CacheCommand) -> Result<(), Failure> {
    match command {
        CacheCommand::Stat(options) => stat::run(options),
        CacheCommand::Verify(options) => verify::run(options),
        CacheCommand::Prune(options) => shrink(&options.directory, options.max_bytes),
        CacheCommand::Clear(options) => shrink(&options.directory, 0),
    }
}

/// What was deleted, and what stays.
#[derive(Debug, Serialize)]
struct Shrunk {
    files_deleted: u64,
    bytes_deleted: u64,
    files: u64,
    bytes: u64,
}

/// Deletes what no process uses, until no more than `max_bytes` are left.
fn shrink(directory: &Directory, max_bytes: u64) -> Result<(), Failure> {
    // Opening a cache would make what is not there.
    let inspector = directory.inspect()?;
    let before = inspector.usage()?;
    // As one of those that share the directory, so that what others use is spared.
    let backend = if cfg!(target_os = "linux") { PruneBackend::Scan } else { PruneBackend::Meta };
    let settings = CacheSettings { prune_backend: backend, ..CacheSettings::default() };
    let cache =
        DiskCache::builder(&directory.dir).with_settings(settings).build().map_err(|error| match before.users {
            DirectoryUsers::One { process } => Failure::usage(
                format!("process {process} has {} for itself", directory.dir.display()),
                "its own limit (--max-bytes) keeps it small; processes that share a directory (--prune-backend scan) \
                 let others make room",
            ),
            _ => error.into(),
        })?;
    cache.prune(max_bytes);
    drop(cache);
    let after = inspector.usage()?;
    let shrunk = Shrunk {
        files_deleted: before.files.saturating_sub(after.files),
        bytes_deleted: before.bytes.saturating_sub(after.bytes),
        files: after.files,
        bytes: after.bytes,
    };
    directory.output.print(&shrunk)?;
    if max_bytes < after.bytes {
        note("the rest is in use");
    }
    Ok(())
}

impl fmt::Display for Shrunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files_deleted, bytes_deleted, files, bytes: left } = self;
        let (deleted, left) = (bytes(*bytes_deleted as f64), bytes(*left as f64));
        writeln!(f, "deleted {} files, {deleted}; {} files, {left} are left", count(*files_deleted), count(*files))
    }
}
