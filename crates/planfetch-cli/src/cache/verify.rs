//! `planfetch cache verify`.

use std::fmt;

use clap::Args;
use serde::Serialize;

use crate::cache::Directory;
use crate::failure::Failure;
use crate::output::progress_bar;
use crate::units::{count, number_of};

#[derive(Args, Debug)]
pub(crate) struct VerifyOptions {
    #[command(flatten)]
    directory: Directory,
    /// Delete what is damaged; whoever wants it fetches it anew
    #[arg(long, help_heading = "Verify")]
    delete: bool,
    /// Threads that read [default: the number of cores]
    #[arg(long, value_name = "N", help_heading = "Verify")]
    threads: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Verified {
    files: u64,
    damaged: Vec<Damaged>,
    deleted: u64,
}

#[derive(Debug, Serialize)]
struct Damaged {
    file: String,
    expected_bytes: u64,
    problem: String,
}

pub(crate) fn run(options: &VerifyOptions) -> Result<(), Failure> {
    let inspector = options.directory.inspect()?;
    let usage = inspector.usage()?;
    let bar = progress_bar(
        Some(usage.bytes),
        "{wide_bar} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta}",
    );
    let threads = options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
    let damaged = inspector.damaged_files(threads, |bytes| {
        bar.inc(bytes);
        true
    })?;
    bar.finish_and_clear();
    let deleted = if options.delete { inspector.delete_damaged(&damaged)? } else { 0 };
    let verified = Verified {
        files: usage.files,
        damaged: damaged
            .iter()
            .map(|file| Damaged {
                file: file.path.display().to_string(),
                expected_bytes: file.expected_bytes,
                problem: file.problem.clone(),
            })
            .collect(),
        deleted,
    };
    options.directory.output.print(&verified)?;
    match (damaged.len(), options.delete) {
        (0, _) => Ok(()),
        (n, true) => Err(Failure::Found(format!("deleted {}", files(n)))),
        (n, false) => Err(Failure::Found(format!("found {} with damage; --delete deletes", files(n)))),
    }
}

fn files(n: usize) -> String {
    // OK because an index fits in 64 bits.
    number_of(n as u64, "file", "files")
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} files read, {} damaged, {} deleted", count(self.files), self.damaged.len(), self.deleted)?;
        for Damaged { file, expected_bytes, problem } in &self.damaged {
            writeln!(f, "  {file}: {problem}; it should have {expected_bytes} bytes")?;
        }
        Ok(())
    }
}
