//! What a loader has done so far.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use planfetch_cache::LocalFile;

use crate::insight::cause::{Cause, PerCause};
use crate::insight::fetch::stages;

/// What a loader has done since it was built. Made by [`PrefetchController::stats`](crate::PrefetchController::stats).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct LoaderStats {
    /// Batches that were taken.
    pub batches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Samples that could not be loaded: skipped, substituted, or the reason of an error.
    pub failed: u64,
    /// How long the training loop waited for its batches.
    pub stalled: Duration,
    /// How long workers worked on samples: reading, decoding, transforming and collating, all workers added up.
    pub busy: Duration,
}

/// The counters behind [`LoaderStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    batches: AtomicU64,
    samples: AtomicU64,
    failed: AtomicU64,
    stalled_nanos: AtomicU64,
    stages: PerCause<Meter>,
    /// A moving average of what one sample takes a worker.
    nanos_per_sample: AtomicU64,
    /// Samples of batches of which every one failed, since one that did not.
    failed_in_a_row: AtomicU64,
}

/// How often something was done, and the time that it took.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    count: AtomicU64,
    nanos: AtomicU64,
}

impl Meter {
    fn add(&self, count: usize, time: Duration) {
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        self.nanos.fetch_add(nanos(time), Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

impl Counters {
    pub(crate) fn add_batch(&self, samples: usize) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.samples.fetch_add(samples as u64, Ordering::Relaxed);
    }

    pub(crate) fn reset_failed_in_a_row(&self) {
        // Where samples come by the million, a look is cheaper than a write.
        if self.failed_in_a_row.load(Ordering::Relaxed) != 0 {
            self.failed_in_a_row.store(0, Ordering::Relaxed);
        }
    }

    /// Returns how many they are now.
    pub(crate) fn add_failed_in_a_row(&self, samples: usize) -> u64 {
        self.failed_in_a_row.fetch_add(samples as u64, Ordering::Relaxed) + samples as u64
    }

    pub(crate) fn add_failed(&self, samples: usize) {
        self.failed.fetch_add(samples as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_stall(&self, time: Duration) {
        self.stalled_nanos.fetch_add(nanos(time), Ordering::Relaxed);
    }

    pub(crate) fn add_collate(&self, time: Duration) {
        self.stages[Cause::Collate].add(1, time);
    }

    /// Takes note of the download that a file had to wait for, and returns its stages with their ends.
    pub(crate) fn add_fetch(&self, file: &LocalFile) -> Vec<(Cause, Instant)> {
        stages(file)
            .map(|(stage, start, end)| {
                self.stages[stage].add(1, end.saturating_duration_since(start));
                (stage, end)
            })
            .collect()
    }

    /// Takes note that a sample waited for a worker.
    pub(crate) fn add_worker_wait(&self, time: Duration) {
        self.stages[Cause::Workers].add(1, time);
    }

    pub(crate) fn add_work(&self, time: Duration, samples: usize) {
        self.stages[Cause::Decode].add(samples, time);
        if let Some(each) = nanos(time).checked_div(samples as u64) {
            // Workers may overwrite each other's, which an average can bear.
            let before = self.nanos_per_sample.load(Ordering::Relaxed);
            let after = if before == 0 { each } else { before - before / 8 + each / 8 };
            self.nanos_per_sample.store(after.max(1), Ordering::Relaxed);
        }
    }

    /// Returns about how long one sample takes a worker, or 0 while nothing is known.
    pub(crate) fn nanos_per_sample(&self) -> u64 {
        self.nanos_per_sample.load(Ordering::Relaxed)
    }

    pub(crate) fn stages(&self) -> &PerCause<Meter> {
        &self.stages
    }

    pub(crate) fn snapshot(&self) -> LoaderStats {
        LoaderStats {
            batches: self.batches.load(Ordering::Relaxed),
            samples: self.samples.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            stalled: Duration::from_nanos(self.stalled_nanos.load(Ordering::Relaxed)),
            busy: self.stages[Cause::Decode].time(),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
