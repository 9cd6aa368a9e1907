//! A report on a run.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::insight::cause::Cause;
use crate::insight::verdict::Verdict;

/// Where the time of a run went. Made by [`PrefetchController::report`](crate::PrefetchController::report); prints as a
/// table, and can be serialised.
///
/// The waits of [`causes`](Self::causes) add up to [`waited`](Self::waited).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LoaderReport {
    /// From when the first batch was asked for until the last one was handed out.
    pub elapsed: Duration,
    /// Batches that were taken.
    pub batches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Samples that could not be loaded.
    pub failed: u64,
    /// How long the training loop waited for batches.
    pub waited: Duration,
    /// How long the training loop did something else than wait.
    pub consumer: Duration,
    /// What the training loop waited for, in the order in which a sample meets them. Causes without a wait are left out.
    pub causes: Vec<CauseReport>,
    /// What each stage did, whether or not the training loop waited for it.
    pub stages: Vec<StageReport>,
    /// The longest waits, longest first, and the samples that held the line.
    pub held_up: Vec<HeldUp>,
    /// What the run was bound by.
    pub verdict: Verdict,
}

/// The waits for one cause.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CauseReport {
    /// The cause.
    pub cause: Cause,
    /// How long the training loop waited for it.
    pub waited: Duration,
    /// How many batches it held up.
    pub batches: u64,
}

/// What one stage did.
///
/// The stages of downloads (queue to verify) count objects that a batch in the making had to wait for, each from when it
/// was first asked for; what was local in time is counted by the cache.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StageReport {
    /// The stage: one of the causes, or `consumer`, which is the training loop.
    pub stage: String,
    /// How often it was gone through.
    pub count: u64,
    /// The time that it took, all added up.
    pub time: Duration,
    /// How many were in it at a time, on average.
    pub occupancy: f64,
}

/// A wait for one sample.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HeldUp {
    /// The sample: its row in the index.
    pub id: u64,
    /// Its object, where it has one.
    pub uri: Option<String>,
    /// The epoch.
    pub epoch: u64,
    /// The step whose batch it held up.
    pub step: usize,
    /// What it waited for the longest.
    pub cause: Cause,
    /// How long the training loop waited for that.
    pub waited: Duration,
}

impl LoaderReport {
    /// Returns how long the training loop waited for one cause.
    #[must_use]
    pub fn waited_for(&self, cause: Cause) -> Duration {
        self.causes.iter().find(|report| report.cause == cause).map_or(Duration::ZERO, |report| report.waited)
    }
}

impl fmt::Display for LoaderReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = self.elapsed.as_secs_f64();
        let share = |part: Duration| if elapsed == 0.0 { 0.0 } else { 100.0 * part.as_secs_f64() / elapsed };
        let rate = if elapsed == 0.0 { 0.0 } else { self.samples as f64 / elapsed };
        writeln!(
            f,
            "{} batches, {} samples in {:.2} s: {rate:.0} samples/s; the training loop waited {:.2} s ({:.1} %)",
            self.batches,
            self.samples,
            elapsed,
            self.waited.as_secs_f64(),
            share(self.waited)
        )?;
        if 0 < self.failed {
            writeln!(f, "{} samples could not be loaded", self.failed)?;
        }
        if !self.causes.is_empty() {
            writeln!(f, "\n{:<10} {:>10} {:>8} {:>9}", "waited for", "seconds", "of run", "batches")?;
        }
        for CauseReport { cause, waited, batches } in &self.causes {
            writeln!(f, "{cause:<10} {:>10.3} {:>6.1} % {batches:>9}", waited.as_secs_f64(), share(*waited))?;
        }
        writeln!(f, "\n{:<10} {:>10} {:>10} {:>9}", "stage", "count", "seconds", "at once")?;
        for StageReport { stage, count, time, occupancy } in &self.stages {
            writeln!(f, "{stage:<10} {count:>10} {:>10.3} {occupancy:>9.2}", time.as_secs_f64())?;
        }
        if !self.held_up.is_empty() {
            writeln!(f, "\nthe longest waits")?;
        }
        for HeldUp { id, uri, epoch, step, cause, waited } in &self.held_up {
            let uri = uri.as_deref().unwrap_or("(no object)");
            writeln!(f, "{:>10.3} s  {cause:<10} epoch {epoch} step {step}  sample {id}  {uri}", waited.as_secs_f64())?;
        }
        write!(f, "\n{}", self.verdict)
    }
}
