//! `planfetch cache stat`.

use std::fmt;
use std::time::Duration;

use clap::Args;
use planfetch::cache::DirectoryUsers;
use serde::Serialize;

use crate::cache::Directory;
use crate::failure::Failure;
use crate::units::{bytes, count, duration};

#[derive(Args, Debug)]
pub(crate) struct StatOptions {
    #[command(flatten)]
    directory: Directory,
}

#[derive(Debug, Serialize)]
struct Stat {
    directory: String,
    files: u64,
    bytes: u64,
    largest_bytes: u64,
    under_way: u64,
    /// How long ago the file was used that was not used for the longest time.
    oldest_use_seconds: Option<f64>,
    /// `nobody`, `one`, `shared` or `unknown`.
    users: &'static str,
    processes: Vec<u32>,
}

pub(crate) fn run(options: &StatOptions) -> Result<(), Failure> {
    let inspector = options.directory.inspect()?;
    let usage = inspector.usage()?;
    let (users, processes) = match usage.users {
        DirectoryUsers::Nobody => ("nobody", Vec::new()),
        DirectoryUsers::One { process } => ("one", vec![process]),
        DirectoryUsers::Shared { processes } => ("shared", processes),
        _ => ("unknown", Vec::new()),
    };
    options.directory.output.print(&Stat {
        directory: inspector.dir().display().to_string(),
        files: usage.files,
        bytes: usage.bytes,
        largest_bytes: usage.largest,
        under_way: usage.under_way,
        oldest_use_seconds: usage.oldest_use.and_then(|at| at.elapsed().ok()).map(|age| age.as_secs_f64()),
        users,
        processes,
    })
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes: Vec<String> = self.processes.iter().map(u32::to_string).collect();
        let processes = processes.join(", ");
        let users = match self.users {
            "one" => format!("process {processes}, which has it for itself"),
            "shared" => format!("processes {processes}, which share it"),
            other => other.to_owned(),
        };
        let age = |seconds| format!("{} ago", duration(Duration::from_secs_f64(seconds)));
        let rows = [
            ("directory", self.directory.clone()),
            ("objects", format!("{}, {}", count(self.files), bytes(self.bytes as f64))),
            ("largest", bytes(self.largest_bytes as f64)),
            ("under way", format!("{} downloads", count(self.under_way))),
            ("oldest use", self.oldest_use_seconds.map_or("never".into(), age)),
            ("used by", users),
        ];
        rows.iter().try_for_each(|(name, value)| writeln!(f, "{name:<12}{value}"))
    }
}
