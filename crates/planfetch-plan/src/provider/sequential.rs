//! Samples in the order of the index.

use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::ids::IdVec;
use crate::provider::{PlanProvider, check_sizes, kept};
use crate::view::PlanView;
use crate::view::explain::OneReason;

/// Every sample once, in the order of the index, the same each epoch: for validation and test.
///
/// The last batch holds what is left and may be shorter; see [`with_drop_last`](Self::with_drop_last).
///
/// # Example
///
/// ```
/// use planfetch_plan::{PlanProvider, SequentialPlanProvider};
///
/// let plan = SequentialPlanProvider::new(5, 2)?.plan(0)?;
/// assert_eq!(plan.num_batches(), 3);
/// assert_eq!(plan.batch(2).expect("the short batch").to_vec(), [planfetch_plan::SampleId(4)]);
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SequentialPlanProvider {
    num_samples: u64,
    batch_size: usize,
    drop_last: bool,
    seed: u64,
}

impl SequentialPlanProvider {
    /// Makes a provider for `num_samples` samples in global batches of `batch_size`.
    ///
    /// # Errors
    ///
    /// [`PlanError::BatchSize`] when `batch_size` is 0 or above `u32::MAX`;
    /// [`PlanError::NumSamples`] when a dense plan can't be indexed on this platform.
    pub fn new(num_samples: u64, batch_size: usize) -> Result<Self, PlanError> {
        check_sizes(num_samples, batch_size)?;
        Ok(Self { num_samples, batch_size, drop_last: false, seed: 0 })
    }

    /// Sets whether a last batch of fewer than `batch_size` samples is left out. Default: false.
    #[must_use]
    pub fn with_drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// Sets the seed of what is random besides the order, such as augmentation. Default: 0.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

impl PlanProvider for SequentialPlanProvider {
    fn plan(&self, _epoch: u64) -> Result<PlanView, PlanError> {
        let mut ids = IdVec::ascending(self.num_samples)?;
        if self.drop_last {
            ids.truncate_to_multiple_of(self.batch_size);
        }
        let reason = OneReason("samples come in the order of the index".to_owned());
        Ok(PlanView::new(ids, self.batch_size, self.num_samples)?.with_provenance(Arc::new(reason)))
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
        let fields =
            [("num_samples", self.num_samples.into()), ("num_ids", num_ids.into()), ("seed", self.seed.into())];
        Fingerprint::of("sequential", &fields)
    }
}
