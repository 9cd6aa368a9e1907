//! Samples in a fresh random order each epoch.

use crate::error::PlanError;
use crate::ids::IdVec;
use crate::provider::{PlanProvider, check_sizes};
use crate::rng::{Purpose, plan_rng};
use crate::view::PlanView;

/// Every sample once, in a uniformly random order that is fresh each epoch: for training.
///
/// The order of an epoch depends on the seed, the epoch and the number of samples, and on nothing else:
/// another batch size cuts the same sequence of samples in other places.
/// The last batch holds what is left and may be shorter; see [`with_drop_last`](Self::with_drop_last).
///
/// # Example
///
/// ```
/// use planfetch_plan::{PlanProvider, ShuffleOncePerEpochPlanProvider};
///
/// let provider = ShuffleOncePerEpochPlanProvider::new(1_000, 64, 7)?.with_drop_last(true);
/// assert_eq!(provider.plan(0)?.num_batches(), 15);
/// assert_eq!(provider.plan(3)?, provider.plan(3)?);
/// assert_ne!(provider.plan(3)?, provider.plan(4)?);
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShuffleOncePerEpochPlanProvider {
    num_samples: u64,
    batch_size: usize,
    seed: u64,
    drop_last: bool,
}

impl ShuffleOncePerEpochPlanProvider {
    /// Makes a provider for `num_samples` samples in global batches of `batch_size`.
    ///
    /// # Errors
    ///
    /// [`PlanError::BatchSize`] when `batch_size` is 0 or above `u32::MAX`;
    /// [`PlanError::NumSamples`] when a dense plan can't be indexed on this platform.
    pub fn new(num_samples: u64, batch_size: usize, seed: u64) -> Result<Self, PlanError> {
        check_sizes(num_samples, batch_size)?;
        Ok(Self { num_samples, batch_size, seed, drop_last: false })
    }

    /// Sets whether a last batch of fewer than `batch_size` samples is left out. Default: false.
    ///
    /// Since the order is fresh each epoch, other samples are left out each time.
    #[must_use]
    pub fn with_drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }
}

impl PlanProvider for ShuffleOncePerEpochPlanProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        let mut ids = IdVec::ascending(self.num_samples);
        ids.shuffle(&mut plan_rng(Purpose::Shuffle, self.seed, epoch));
        if self.drop_last {
            ids.truncate_to_multiple_of(self.batch_size);
        }
        PlanView::new(ids, self.batch_size, self.num_samples)
    }

    fn num_samples(&self) -> u64 {
        self.num_samples
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn seed(&self) -> u64 {
        self.seed
    }
}
