//! Samples in a fresh random order each epoch.

use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::ids::IdVec;
use crate::provider::{PlanProvider, check_sizes, kept};
use crate::rng::{Purpose, plan_key, plan_rng};
use crate::view::PlanView;
use crate::view::explain::OneReason;

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
    lazy: bool,
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
        Ok(Self { num_samples, batch_size, seed, drop_last: false, lazy: false })
    }

    /// Sets whether a last batch of fewer than `batch_size` samples is left out. Default: false.
    ///
    /// Since the order is fresh each epoch, other samples are left out each time.
    #[must_use]
    pub fn with_drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// Sets whether ids are computed when asked for, so that an epoch of any length takes no memory and no time to
    /// make. Default: false.
    ///
    /// The order is another than that of the dense plan with the same seed: the entries of the
    /// [`KeyedPermutation`](crate::KeyedPermutation) of `num_samples`, whose key holds the seed and the epoch.
    /// It is as good as uniform, and up to 65,536 samples exactly; the book's page on permutations has the numbers.
    /// An id of a long epoch takes some 30 ns to compute.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{PlanProvider, ShuffleOncePerEpochPlanProvider};
    ///
    /// let plan = ShuffleOncePerEpochPlanProvider::new(1_000_000_000, 256, 7)?.with_lazy(true).plan(0)?;
    /// assert_eq!(plan.batch(3_000_000).expect("within the epoch").len(), 256);
    ///
    /// let plan = ShuffleOncePerEpochPlanProvider::new(1_000, 64, 7)?.with_lazy(true).plan(0)?;
    /// assert_eq!(plan, plan.to_dense()?);
    /// # Ok::<(), planfetch_plan::PlanError>(())
    /// ```
    #[must_use]
    pub fn with_lazy(mut self, lazy: bool) -> Self {
        self.lazy = lazy;
        self
    }

    fn dense(&self, epoch: u64) -> Result<PlanView, PlanError> {
        let mut ids = IdVec::ascending(self.num_samples)?;
        ids.shuffle(&mut plan_rng(Purpose::Shuffle, self.seed, epoch));
        if self.drop_last {
            ids.truncate_to_multiple_of(self.batch_size);
        }
        PlanView::new(ids, self.batch_size, self.num_samples)
    }
}

impl PlanProvider for ShuffleOncePerEpochPlanProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        let plan = if self.lazy {
            let num_ids = kept(self.num_samples, self.batch_size, self.drop_last);
            // OK because the constructor checked that the number of samples is an index.
            let key = plan_key(Purpose::LazyShuffle, self.seed, epoch);
            PlanView::permuted(key, num_ids as usize, self.batch_size, self.num_samples)?
        } else {
            self.dense(epoch)?
        };
        let reason = format!("every sample comes once, in the random order of epoch {epoch} and seed {}", self.seed);
        Ok(plan.with_provenance(Arc::new(OneReason(reason))))
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

    fn fingerprint(&self) -> Fingerprint {
        let num_ids = kept(self.num_samples, self.batch_size, self.drop_last);
        let name = if self.lazy { "lazy-shuffle-once-per-epoch" } else { "shuffle-once-per-epoch" };
        let fields =
            [("num_samples", self.num_samples.into()), ("num_ids", num_ids.into()), ("seed", self.seed.into())];
        Fingerprint::of(name, &fields)
    }
}
