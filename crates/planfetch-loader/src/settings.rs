//! What can be set about a loader.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::LoaderError;
use crate::on_error::OnError;

/// How a [`PrefetchingLoader`](crate::PrefetchingLoader) works ahead.
///
/// None of these settings changes which samples come in which order, or their bytes, but `on_error` where samples fail,
/// and `in_order: false`, which gives up the order of batches.
///
/// # Example
///
/// ```
/// use planfetch_loader::LoaderSettings;
///
/// let settings = LoaderSettings { num_workers: 8, batches_ahead: 400, ..LoaderSettings::default() };
/// assert_eq!(settings.batches_back, 4);
/// ```
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoaderSettings {
    /// The number of threads that decode. Default: the number of cores this process may use.
    ///
    /// 0 decodes on the thread that takes the batches, one sample after the other, which is for debugging.
    pub num_workers: usize,
    /// How many batches may be decoded, or be in decoding, before they are taken; all workers together. Default: 4.
    ///
    /// PyTorch's setting of this name counts per worker. Each costs the memory of a batch; too few leave workers idle
    /// while the first sample of a batch is waited for.
    pub prefetch_factor: usize,
    /// How many batches ahead of the reader objects are downloaded. Default: 200.
    ///
    /// It must cover the store's latency and its bad moments: at 10 batches a second, 200 are 20 seconds.
    /// Each costs the disk space of a batch's objects.
    pub batches_ahead: usize,
    /// How many batches behind the reader stay on disk. Default: 4.
    pub batches_back: usize,
    /// After how many batches what has left the window is deleted. Default: 5.
    ///
    /// 1 keeps the disk as empty as possible; more deletes in larger groups, which costs less.
    pub prune_every: usize,
    /// How many epochs there will be, if that is known: nothing is prefetched beyond the last. Default: unknown.
    ///
    /// While it is unknown, the loader goes on into the next epoch's plan as one ends, so that the next begins at once.
    pub num_epochs: Option<u64>,
    /// What becomes of a sample that can't be loaded. Default: [`OnError::Fail`].
    pub on_error: OnError,
    /// How long a call waits for a batch before it returns [`LoaderError::Timeout`]. Default: as long as it takes.
    ///
    /// A limit tells a run that hangs from one that is slow. Too short a limit ends runs that only start up: the first
    /// batch comes when the store has answered. It is not heeded with `num_workers: 0`.
    pub timeout: Option<Duration>,
    /// Whether batches come in plan order. Default: true.
    ///
    /// `false` gives whichever batch of the epoch is finished first, so that one slow object holds up one batch and no
    /// other; every batch still comes once an epoch. Then the order depends on timing, and a
    /// [`LoaderState`](crate::LoaderState) belongs to its rank.
    pub in_order: bool,
    /// How many bytes the batches that `prefetch_factor` counts may take together. Default: no limit.
    ///
    /// It holds where the collate tells the size of a batch ([`Collate::num_bytes`](crate::Collate::num_bytes)), from
    /// the first one on. A limit below the size of one batch leaves one at a time.
    pub max_batch_bytes: Option<u64>,
}

impl Default for LoaderSettings {
    fn default() -> Self {
        Self {
            num_workers: std::thread::available_parallelism().map_or(2, usize::from),
            prefetch_factor: 4,
            batches_ahead: 200,
            batches_back: 4,
            prune_every: 5,
            num_epochs: None,
            on_error: OnError::default(),
            timeout: None,
            in_order: true,
            max_batch_bytes: None,
        }
    }
}

impl LoaderSettings {
    pub(crate) fn validate(&self) -> Result<(), LoaderError> {
        let ranges = [
            ("num_workers", self.num_workers, 0, 4_096),
            ("prefetch_factor", self.prefetch_factor, 1, 4_096),
            ("batches_ahead", self.batches_ahead, 1, 100_000_000),
            ("batches_back", self.batches_back, 0, 100_000_000),
            ("prune_every", self.prune_every, 1, 100_000_000),
        ];
        for (name, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(out_of_range(name, value, min, max));
            }
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(LoaderError::Setting { name: "timeout", value: "0".into(), range: "more than 0".into() });
        }
        if self.max_batch_bytes == Some(0) {
            return Err(LoaderError::Setting { name: "max_batch_bytes", value: "0".into(), range: "1 or more".into() });
        }
        Ok(())
    }
}

fn out_of_range(name: &'static str, value: impl fmt::Display, min: usize, max: usize) -> LoaderError {
    LoaderError::Setting { name, value: value.to_string(), range: format!("{min}..={max}") }
}
