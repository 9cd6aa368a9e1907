//! The samples that could not be loaded.

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::error::FailedSample;

/// How many are kept. The first ones tell what is wrong; all are counted.
pub(crate) const MAX_KEPT: usize = 10_000;

/// The failed samples of a run, in the order in which their batches were taken.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<Vec<FailedSample>>);

impl Failures {
    pub(crate) fn add(&self, failed: &[FailedSample]) {
        if failed.is_empty() {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_KEPT - kept.len();
        kept.extend(failed.iter().take(room).cloned());
    }

    pub(crate) fn to_vec(&self) -> Vec<FailedSample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Writes a table of failed samples.
pub(crate) fn write_csv(failed: &[FailedSample], writer: impl io::Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(writer);
    csv.write_record(["sample", "uri", "epoch", "step", "slot", "position", "substitute", "cause"])?;
    for sample in failed {
        csv.write_record([
            sample.id.to_string(),
            sample.uri.clone().unwrap_or_default(),
            sample.epoch.to_string(),
            sample.step.to_string(),
            sample.slot.to_string(),
            sample.position.to_string(),
            sample.substitute.map(|id| id.to_string()).unwrap_or_default(),
            sample.cause.to_string(),
        ])?;
    }
    csv.flush()
}
