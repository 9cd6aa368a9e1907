//! What a loader has done so far.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a loader has done since it was built. Made by [`PrefetchController::stats`](crate::PrefetchController::stats).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct LoaderStats {
    /// Batches that were taken.
    pub batches: u64,
    /// Samples in them.
    pub samples: u64,
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
    stalled_nanos: AtomicU64,
    busy_nanos: AtomicU64,
}

impl Counters {
    pub(crate) fn add_batch(&self, samples: usize) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.samples.fetch_add(samples as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_stall(&self, time: Duration) {
        self.stalled_nanos.fetch_add(nanos(time), Ordering::Relaxed);
    }

    pub(crate) fn add_work(&self, time: Duration) {
        self.busy_nanos.fetch_add(nanos(time), Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> LoaderStats {
        LoaderStats {
            batches: self.batches.load(Ordering::Relaxed),
            samples: self.samples.load(Ordering::Relaxed),
            stalled: Duration::from_nanos(self.stalled_nanos.load(Ordering::Relaxed)),
            busy: Duration::from_nanos(self.busy_nanos.load(Ordering::Relaxed)),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
