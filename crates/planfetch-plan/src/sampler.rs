//! An iterator over the batches of a plan that knows where it is.

use crate::cursor::{Cursor, RestoreError};
use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::provider::PlanProvider;
use crate::rank::{RankBatch, RankPlan};
use crate::view::{PlanView, rest_of_row};
use crate::world::{RemainderPolicy, World};

/// An iterator over the batches of one epoch, with a [`Cursor`] to resume from.
///
/// It ends with the epoch; [`set_epoch`](Self::set_epoch) starts another.
/// By itself it is rank 0 of 1; see [`with_world`](Self::with_world). Whatever the rank, it counts the samples of all
/// ranks, so that every rank of a run has the same cursor.
///
/// # Example
///
/// A run that stops after two steps and goes on in another process:
///
/// ```
/// use planfetch_plan::{PlanBatchSampler, ShuffleOncePerEpochPlanProvider};
///
/// let provider = ShuffleOncePerEpochPlanProvider::new(100, 8, 42)?;
/// let whole: Vec<_> = PlanBatchSampler::new(&provider, 0)?.map(|batch| batch.to_vec()).collect();
///
/// let mut first = PlanBatchSampler::new(&provider, 0)?;
/// let mut seen: Vec<_> = first.by_ref().take(2).map(|batch| batch.to_vec()).collect();
/// let second = PlanBatchSampler::restore(&provider, &first.cursor())?;
/// seen.extend(second.map(|batch| batch.to_vec()));
/// assert_eq!(seen, whole);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "iterators do nothing unless they are consumed"]
pub struct PlanBatchSampler {
    rank_plan: RankPlan,
    fingerprint: Fingerprint,
    seed: u64,
    epoch: u64,
    // Invariant: at most the number of ids of the plan.
    position: usize,
}

impl PlanBatchSampler {
    /// Starts at the beginning of `epoch`.
    ///
    /// # Errors
    ///
    /// Those of [`PlanProvider::plan`].
    pub fn new(provider: &dyn PlanProvider, epoch: u64) -> Result<Self, PlanError> {
        let rank_plan = provider.plan(epoch)?.for_rank(World::SINGLE, RemainderPolicy::Keep)?;
        Ok(Self { rank_plan, fingerprint: provider.fingerprint(), seed: provider.seed(), epoch, position: 0 })
    }

    /// Goes on from `cursor`.
    ///
    /// The world size may be another than when the cursor was made, and where the order does not depend on it, so may
    /// the batch size: then the first batch is what is left of the row that the cursor lies in, and may be short.
    ///
    /// # Errors
    ///
    /// A [`RestoreError`] when the provider makes another order, or the cursor lies beyond the epoch.
    pub fn restore(provider: &dyn PlanProvider, cursor: &Cursor) -> Result<Self, RestoreError> {
        cursor.check(provider)?;
        let mut sampler = Self::new(provider, cursor.epoch)?;
        let num_ids = sampler.plan().num_ids();
        sampler.position = usize::try_from(cursor.position)
            .ok()
            .filter(|&position| position <= num_ids)
            // OK because an index fits in 64 bits.
            .ok_or(RestoreError::Position { position: cursor.position, num_ids: num_ids as u64 })?;
        Ok(sampler)
    }

    /// Sets which rank the batches are for, and what becomes of slots that the number of ranks does not divide.
    /// Default: rank 0 of 1.
    ///
    /// # Errors
    ///
    /// Those of [`PlanView::for_rank`].
    pub fn with_world(mut self, world: World, policy: RemainderPolicy) -> Result<Self, PlanError> {
        self.rank_plan = self.plan().for_rank(world, policy)?;
        Ok(self)
    }

    /// Goes to the beginning of `epoch`, of the order that `provider` makes.
    ///
    /// # Errors
    ///
    /// Those of [`PlanProvider::plan`]. The sampler is then as it was.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{PlanBatchSampler, ShuffleOncePerEpochPlanProvider};
    ///
    /// let provider = ShuffleOncePerEpochPlanProvider::new(100, 8, 42)?;
    /// let mut sampler = PlanBatchSampler::new(&provider, 0)?;
    /// assert_eq!(sampler.by_ref().count(), 13);
    /// sampler.set_epoch(&provider, 1)?;
    /// assert_eq!(sampler.count(), 13);
    /// # Ok::<(), planfetch_plan::PlanError>(())
    /// ```
    pub fn set_epoch(&mut self, provider: &dyn PlanProvider, epoch: u64) -> Result<(), PlanError> {
        self.set_plan(epoch, provider.plan(epoch)?)?;
        self.fingerprint = provider.fingerprint();
        self.seed = provider.seed();
        Ok(())
    }

    /// Goes to the beginning of `plan`, which the caller has from the same provider, as that of `epoch`.
    ///
    /// For plans that were made ahead on another thread, or loaded. [`set_epoch`](Self::set_epoch) makes them itself.
    ///
    /// # Errors
    ///
    /// Those of [`PlanView::for_rank`]. The sampler is then as it was.
    pub fn set_plan(&mut self, epoch: u64, plan: PlanView) -> Result<(), PlanError> {
        self.rank_plan = plan.for_rank(self.rank_plan.world(), self.rank_plan.policy())?;
        self.epoch = epoch;
        self.position = 0;
        Ok(())
    }

    /// Goes to `step`, forwards or back, in the same time wherever it is. From the last step on, the iterator ends.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{PlanBatchSampler, SequentialPlanProvider};
    ///
    /// let mut sampler = PlanBatchSampler::new(&SequentialPlanProvider::new(10, 2)?, 0)?;
    /// sampler.seek(3);
    /// assert_eq!(sampler.next().expect("step 3").to_vec()[0].0, 6);
    /// sampler.seek(99);
    /// assert!(sampler.next().is_none());
    /// # Ok::<(), planfetch_plan::PlanError>(())
    /// ```
    pub fn seek(&mut self, step: usize) {
        self.position = step.saturating_mul(self.plan().batch_size()).min(self.plan().num_ids());
    }

    /// Returns the place to resume from: after the last batch that was returned.
    ///
    /// A loader that fetches ahead takes the cursor of the batch that its consumer has finished, not this one.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor {
            version: Cursor::VERSION,
            epoch: self.epoch,
            // OK because an index fits in 64 bits.
            position: self.position as u64,
            fingerprint: self.fingerprint.clone(),
            seed: self.seed,
            num_samples: self.plan().num_samples(),
        }
    }

    /// Returns the global plan of the epoch.
    #[must_use]
    pub fn plan(&self) -> &PlanView {
        self.rank_plan.plan()
    }

    /// Returns the epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the step of the next batch: the row of the plan, or their number at the end of the epoch.
    #[must_use]
    pub fn step(&self) -> usize {
        if self.position == self.plan().num_ids() {
            self.plan().num_batches()
        } else {
            self.position / self.plan().batch_size()
        }
    }
}

impl Iterator for PlanBatchSampler {
    type Item = RankBatch;

    fn next(&mut self) -> Option<RankBatch> {
        // A row that `Drop` leaves nothing of is passed over.
        while self.position < self.plan().num_ids() {
            let from = self.position;
            self.position = rest_of_row(from, self.plan().batch_size(), self.plan().num_ids()).end;
            if let Some(batch) = self.rank_plan.batch_from(from) {
                return Some(batch);
            }
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let rows = self.plan().num_batches() - self.step();
        // `Drop` may pass over the row at hand and the last.
        (rows.saturating_sub(2), Some(rows))
    }
}
