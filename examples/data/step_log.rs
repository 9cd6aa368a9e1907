//! What a trainer of digits says of its steps, for whoever compares runs.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use planfetch::prelude::*;

/// A file with a line for each step that the model has made.
pub(crate) struct StepLog {
    file: File,
}

impl StepLog {
    /// Opens the log of a run that has done `steps` steps. Those behind the checkpoint that it goes on from, which the
    /// model has lost, are taken out.
    pub(crate) fn open(path: &Path, steps: u64) -> Result<Self, BoxError> {
        let mut kept = String::new();
        if path.exists() {
            for line in BufReader::new(File::open(path)?).lines().take(usize::try_from(steps)?) {
                kept.push_str(&line?);
                kept.push('\n');
            }
        }
        let mut file = File::create(path)?;
        file.write_all(kept.as_bytes())?;
        Ok(Self { file })
    }

    /// Writes a line, which a process that is killed right after it does not lose.
    pub(crate) fn write(&mut self, step: u64, loss: f64, ids: &[SampleId]) -> Result<(), BoxError> {
        let mut line = format!("{step} {loss}");
        for id in ids {
            line.push_str(&format!(" {id}"));
        }
        line.push('\n');
        self.file.write_all(line.as_bytes())?;
        Ok(())
    }
}
