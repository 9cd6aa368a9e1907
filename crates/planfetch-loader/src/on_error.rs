//! What becomes of a sample that can't be loaded.
//!
//! Plain decisions, without I/O or clock: they depend on the plan and on which samples fail, so that every rank and every
//! resume decides the same.

use planfetch_plan::{PlanView, SampleId};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// What a loader does about a sample that can't be loaded: its object is missing, it can't be decoded, or user code
/// refuses it or panics.
///
/// Whatever is chosen, each failed sample is reported with its URI and cause, by the error or by
/// [`Batch::failed`](crate::Batch::failed), counted in [`LoaderStats::failed`](crate::LoaderStats::failed) and listed by
/// [`PrefetchController::failed_samples`](crate::PrefetchController::failed_samples).
///
/// A batch of which every sample fails, at least one of them because the store can't be reached, is an error under all
/// of them: that is an outage, and no fault of the data. So is one where store, credentials or settings keep every object
/// away, after 8 samples in a row.
///
/// # Example
///
/// ```
/// use planfetch_loader::{LoaderSettings, OnError};
///
/// let settings = LoaderSettings { on_error: OnError::Substitute { max: 100 }, ..LoaderSettings::default() };
/// assert_ne!(settings.on_error, OnError::default());
/// ```
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnError {
    /// The batch is an error. Of several failed samples, the first in slot order is named.
    #[default]
    Fail,
    /// The batch comes without the sample, as if the plan had left it out: the others move up, in plan order. A batch
    /// may be shorter than the others, and even empty.
    Skip,
    /// Another sample of the epoch's plan takes its place.
    ///
    /// Which one depends on the seed, the epoch and the position, and on nothing else: it is the same on every rank, for
    /// every world size, and after a resume. Random numbers for it come from its own id and the position it has taken.
    Substitute {
        /// How many samples may be substituted in an epoch, on each rank. One more is an error.
        ///
        /// A sample counts once, however many that stood in for it have failed too. They are counted as batches are
        /// taken, from the beginning of the epoch, or from the place of a restore.
        max: u64,
    },
}

/// How many others are tried in place of a sample before it is an error.
pub(crate) const MAX_TRIES: usize = 8;

/// A sample to load: what the plan asks for, or what stands in for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) id: SampleId,
    /// The place in the epoch's order, which is also that of a stand-in.
    pub(crate) position: u64,
    /// The slot of this rank's batch that the plan means.
    pub(crate) slot: usize,
    pub(crate) padding: bool,
    /// What was tried before, the plan's own sample first.
    pub(crate) tried: Vec<SampleId>,
}

/// Returns what stands in for the sample at `position` when those in `tried` have failed, or `None` where the plan has
/// no other.
///
/// Positions of the plan are drawn until one holds an id that was not tried. The generator is of its own: no sample has
/// the id that its key holds.
pub(crate) fn substitute(
    seed: u64,
    epoch: u64,
    position: u64,
    tried: &[SampleId],
    plan: &PlanView,
) -> Option<SampleId> {
    let mut key = [0; 32];
    for (part, number) in key.chunks_exact_mut(8).zip([seed, epoch, u64::MAX, position]) {
        part.copy_from_slice(&number.to_le_bytes());
    }
    let mut rng = ChaCha8Rng::from_seed(key);
    // Where an id fills nearly the whole plan, others may be missed; then the sample is an error.
    (0..64).find_map(|_| {
        // OK because an index fits in 64 bits, and the high half of the product is below the number of ids. That the
        // draws are not exactly uniform (by less than the number of ids in 2^64) matters to nobody.
        let drawn = ((u128::from(rng.next_u64()) * plan.num_ids() as u128) >> 64) as usize;
        let id = plan.range_flat(drawn, drawn + 1)?.get(0)?;
        (!tried.contains(&id)).then_some(id)
    })
}

/// Counts the samples that were substituted in an epoch against the most that may be.
#[derive(Debug)]
pub(crate) struct Tolerance {
    max: u64,
    epoch: u64,
    used: u64,
}

impl Tolerance {
    pub(crate) fn new(on_error: OnError) -> Self {
        let max = if let OnError::Substitute { max } = on_error { max } else { u64::MAX };
        Self { max, epoch: 0, used: 0 }
    }

    /// Begins to count anew.
    pub(crate) fn restart(&mut self) {
        self.used = 0;
    }

    /// Counts the failed samples of the next batch. Where they are too many, returns the index of the first beyond.
    pub(crate) fn count(&mut self, epoch: u64, failed: u64) -> Option<u64> {
        if self.epoch != epoch {
            (self.epoch, self.used) = (epoch, 0);
        }
        let left = self.max - self.used;
        if left < failed {
            return Some(left);
        }
        self.used += failed;
        None
    }
}

#[cfg(test)]
mod tests {
    use planfetch_plan::{PlanProvider, SequentialPlanProvider, ShuffleOncePerEpochPlanProvider};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_substitute_is_another_sample_of_the_plan_and_depends_on_seed_epoch_and_position_alone(
            n in 1_u64..200, batch_size in 1_usize..20, seed: u64, epoch in 0_u64..5, position in 0_u64..200,
            tried in prop::collection::vec(0_u64..200, 0..8)
        ) {
            let plan = |batch_size| {
                ShuffleOncePerEpochPlanProvider::new(n, batch_size, seed).unwrap().plan(epoch).unwrap()
            };
            let tried: Vec<SampleId> = tried.into_iter().map(SampleId).collect();
            let found = substitute(seed, epoch, position, &tried, &plan(batch_size));
            prop_assert!(found.is_none_or(|id| id.0 < n && !tried.contains(&id)));
            prop_assert!(found.is_some() || n < 20);
            // Another batch size cuts the same order in other places.
            prop_assert_eq!(found, substitute(seed, epoch, position, &tried, &plan(batch_size + 1)));
        }
    }

    #[test]
    fn substitutes_differ_between_positions_and_are_spread() {
        let plan = ShuffleOncePerEpochPlanProvider::new(1_000, 10, 3).unwrap().plan(0).unwrap();
        let drawn: std::collections::BTreeSet<_> =
            (0..1_000).filter_map(|position| substitute(3, 0, position, &[SampleId(0)], &plan)).collect();
        // Of 1,000 draws among 999, 1 - 1/e differ: 632, give or take 15.
        assert!((570..=700).contains(&drawn.len()), "{}", drawn.len());
    }

    #[test]
    fn which_sample_stands_in_never_changes_between_versions() {
        // Drawn from a ChaCha8 that was written apart from this crate, after RFC 8439 with 8 rounds and a 64-bit counter.
        let plan = SequentialPlanProvider::new(1_000, 10).unwrap().plan(0).unwrap();
        let drawn: Vec<u64> =
            (0..4).filter_map(|position| substitute(3, 0, position, &[], &plan)).map(|id| id.0).collect();
        assert_eq!(drawn, [740, 478, 53, 588]);
    }

    #[test]
    fn the_failed_are_counted_by_epoch() {
        let mut tolerance = Tolerance::new(OnError::Substitute { max: 3 });
        assert_eq!(tolerance.count(0, 2), None);
        assert_eq!(tolerance.count(0, 2), Some(1));
        assert_eq!(tolerance.count(0, 1), None);
        assert_eq!(tolerance.count(0, 1), Some(0));
        assert_eq!(tolerance.count(1, 3), None);
        tolerance.restart();
        assert_eq!(tolerance.count(1, 3), None);
        assert_eq!(Tolerance::new(OnError::Skip).count(0, 1_000), None);
    }
}
