//! Where a run is, in a few bytes that go into a checkpoint.

use std::collections::BTreeSet;

use planfetch_plan::{Cursor, PlanProvider, World};
use serde::{Deserialize, Serialize};

use crate::error::LoaderError;
use crate::plans::Plans;
use crate::schedule::Place;

/// The position of a loader, to go on from in another process. Made by
/// [`PrefetchingLoader::state`](crate::PrefetchingLoader::state).
///
/// It counts the batches that the training loop has taken, not those that were made ahead. Restoring costs the same at
/// any step. Another number of workers changes nothing, and neither does another number of ranks or another batch size
/// (where the order does not depend on it), since it counts samples over all ranks; every rank of a run has the same.
///
/// Only without plan order ([`LoaderSettings::in_order`](crate::LoaderSettings::in_order) is false) may a rank have taken
/// batches before their turn. Such a state belongs to its rank, and goes on with the same world and batch size.
///
/// # Example
///
/// ```
/// use planfetch_loader::{BoxError, Dataset, LoaderBuilder, LoaderState, ObjectUris, SampleContext, VecCollate};
/// use planfetch_plan::{SampleId, ShuffleOncePerEpochPlanProvider};
///
/// struct Numbers;
/// impl ObjectUris for Numbers {
///     fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool { false }
/// }
/// impl Dataset for Numbers {
///     type Sample = u64;
///     fn len(&self) -> u64 { 100 }
///     fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> { Ok(ctx.id().0) }
/// }
///
/// let plan = ShuffleOncePerEpochPlanProvider::new(100, 16, 42)?;
/// let (mut loader, _) = LoaderBuilder::new(Numbers, VecCollate, plan.clone()).build()?;
/// let mut seen: Vec<u64> = (&mut loader).take(3).flat_map(|batch| batch.expect("loads").clone()).collect();
/// let checkpoint = serde_json::to_string(&loader.state())?;
///
/// // In another process:
/// let state: LoaderState = serde_json::from_str(&checkpoint)?;
/// let (mut loader, _) = LoaderBuilder::new(Numbers, VecCollate, plan).with_state(&state).build()?;
/// seen.extend((&mut loader).flat_map(|batch| batch.expect("loads").clone()));
/// seen.sort_unstable();
/// assert_eq!(seen, (0..100).collect::<Vec<_>>());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LoaderState {
    /// The version of this record: [`LoaderState::VERSION`].
    version: u32,
    /// The first sample that was not taken, and the order that it is a place in.
    cursor: Cursor,
    /// What was taken behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taken_ahead: Option<TakenAhead>,
}

/// Steps that were taken before their turn.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct TakenAhead {
    steps: Vec<usize>,
    batch_size: usize,
    world: World,
}

impl LoaderState {
    /// The version of the record that this version of the crate writes and reads.
    pub const VERSION: u32 = 1;

    /// Returns the epoch, counted from 0.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.cursor.epoch
    }

    /// Returns how many samples of the epoch all ranks together have taken.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.cursor.position
    }

    /// Returns the position as one of the plan, for a loop of one's own.
    #[must_use]
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Checks that the state belongs to the order of `provider`.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Restore`] when it belongs to another one, and says what differs; [`LoaderError::Mismatch`] when
    /// another version wrote it.
    pub fn check(&self, provider: &dyn PlanProvider) -> Result<(), LoaderError> {
        self.check_version()?;
        Ok(self.cursor.check(provider)?)
    }

    fn check_version(&self) -> Result<(), LoaderError> {
        if self.version == Self::VERSION {
            return Ok(());
        }
        let (found, read) = (self.version, Self::VERSION);
        let problem = format!("the state has version {found}, but this version reads states of version {read}");
        Err(LoaderError::Mismatch { problem })
    }

    pub(crate) fn new(plans: &Plans, place: Place, taken_ahead: Vec<usize>) -> Self {
        let taken_ahead = (!taken_ahead.is_empty()).then(|| TakenAhead {
            steps: taken_ahead,
            batch_size: plans.batch_size(),
            world: plans.world(),
        });
        // OK because an index fits in 64 bits.
        let cursor = plans.cursor(place.epoch, place.position as u64);
        Self { version: Self::VERSION, cursor, taken_ahead }
    }

    /// Returns the place that this state stands for in the order of `plans`, and what was taken behind it.
    pub(crate) fn resolve(&self, plans: &Plans) -> Result<(Place, BTreeSet<usize>), LoaderError> {
        self.check_version()?;
        let (place, batch_size, world) = (plans.place_of(&self.cursor)?, plans.batch_size(), plans.world());
        let Some(ahead) = &self.taken_ahead else { return Ok((place, BTreeSet::new())) };
        if (ahead.batch_size, ahead.world) != (batch_size, world) {
            return Err(LoaderError::Mismatch {
                problem: format!(
                    "the state has batches that were taken before their turn, by {} in batches of {}, so it can't go on \
                     as {world} in batches of {batch_size}; keep both, or load in plan order",
                    ahead.world, ahead.batch_size
                ),
            });
        }
        Ok((place, ahead.steps.iter().copied().collect()))
    }
}
