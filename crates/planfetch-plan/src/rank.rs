//! What one rank of several takes of a plan.
//!
//! The plan never depends on the number of ranks. A rank takes a contiguous run of the columns of each row, so that
//! another number of ranks cuts the same rows in other places, and a run can go on with fewer or more machines.

use std::ops::Range;

use crate::error::PlanError;
use crate::id::SampleId;
use crate::view::{PlanView, rest_of_row};
use crate::world::{RemainderPolicy, World};

/// The part of a plan that one rank trains on. Made by [`PlanView::for_rank`]; cheap to clone.
///
/// # Example
///
/// Two ranks take the halves of each row:
///
/// ```
/// use planfetch_plan::{PlanProvider, RemainderPolicy, SequentialPlanProvider, World};
///
/// let plan = SequentialPlanProvider::new(8, 4)?.plan(0)?;
/// let second = plan.for_rank(World { rank: 1, world_size: 2 }, RemainderPolicy::Drop)?;
/// let ids: Vec<u64> = second.iter().flat_map(|batch| batch.to_vec()).map(|id| id.0).collect();
/// assert_eq!(ids, [2, 3, 6, 7]);
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RankPlan {
    plan: PlanView,
    // Invariant: checked.
    world: World,
    policy: RemainderPolicy,
}

impl RankPlan {
    pub(crate) fn new(plan: PlanView, world: World, policy: RemainderPolicy) -> Result<Self, PlanError> {
        world.check()?;
        // OK because an index fits in 64 bits. An empty plan has no step in any case.
        let too_small = (plan.batch_size() as u64) < u64::from(world.world_size);
        if policy == RemainderPolicy::Drop && too_small && 0 < plan.num_ids() {
            return Err(PlanError::NothingLeft { batch_size: plan.batch_size() as u64, world_size: world.world_size });
        }
        Ok(Self { plan, world, policy })
    }

    /// Returns the global plan.
    #[must_use]
    pub fn plan(&self) -> &PlanView {
        &self.plan
    }

    /// Returns the rank and the number of ranks.
    #[must_use]
    pub fn world(&self) -> World {
        self.world
    }

    /// Returns what happens to slots that the number of ranks does not divide.
    #[must_use]
    pub fn policy(&self) -> RemainderPolicy {
        self.policy
    }

    /// Returns the number of steps, which is the same for every rank.
    #[must_use]
    pub fn num_steps(&self) -> usize {
        let rows = self.plan.num_batches();
        match rows.checked_sub(1) {
            Some(last) if self.batch(last).is_none() => last,
            _ => rows,
        }
    }

    /// Returns this rank's batch of step `step`, or `None` from [`num_steps`](Self::num_steps) on.
    #[must_use]
    pub fn batch(&self, step: usize) -> Option<RankBatch> {
        let start = step.checked_mul(self.plan.batch_size())?;
        self.batch_from(start)
    }

    /// Returns this rank's part of what is left of the row that `position` lies in, from there on.
    ///
    /// A run that goes on with another batch size may begin in the middle of a row. `None` where nothing is left, or
    /// where [`RemainderPolicy::Drop`] leaves nothing of the row.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{PlanProvider, RankPlan, SequentialPlanProvider};
    ///
    /// let plan = RankPlan::from(SequentialPlanProvider::new(10, 4)?.plan(0)?);
    /// let rest = plan.batch_from(6).expect("two samples of step 1");
    /// assert_eq!((rest.step(), rest.to_vec()), (1, [6, 7].map(planfetch_plan::SampleId).to_vec()));
    /// assert!(plan.batch_from(10).is_none());
    /// # Ok::<(), planfetch_plan::PlanError>(())
    /// ```
    #[must_use]
    pub fn batch_from(&self, position: usize) -> Option<RankBatch> {
        if self.plan.num_ids() <= position {
            return None;
        }
        let row = rest_of_row(position, self.plan.batch_size(), self.plan.num_ids());
        let (rank, world_size) = (u128::from(self.world.rank), u128::from(self.world.world_size));
        // OK because an index fits in 128 bits, and so does its product with 32 bits.
        let width = row.len() as u128;
        let columns = match self.policy {
            RemainderPolicy::Drop if width < world_size => return None,
            RemainderPolicy::Drop => share(width / world_size * rank, width / world_size * (rank + 1)),
            RemainderPolicy::Keep => share(width * rank / world_size, width * (rank + 1) / world_size),
            RemainderPolicy::Pad => {
                let each = width.div_ceil(world_size);
                share(each * rank, each * (rank + 1))
            }
        };
        Some(RankBatch { plan: self.plan.clone(), row, columns })
    }

    /// Returns an iterator over this rank's batches in order.
    pub fn iter(&self) -> impl Iterator<Item = RankBatch> + '_ {
        (0..self.num_steps()).filter_map(|step| self.batch(step))
    }
}

impl From<PlanView> for RankPlan {
    /// Makes the plan of a process that trains alone.
    fn from(plan: PlanView) -> Self {
        Self { plan, world: World::SINGLE, policy: RemainderPolicy::Keep }
    }
}

/// Returns the columns from `low` to `high`.
fn share(low: u128, high: u128) -> Range<usize> {
    // OK because columns lie below a row's width, or less than a world's size beyond it.
    low as usize..high as usize
}

/// One rank's samples of one step, in slot order. Holds the plan, so that it can be sent elsewhere.
#[derive(Clone, Debug)]
pub struct RankBatch {
    plan: PlanView,
    // Invariant: positions of one row of the plan, at least one.
    row: Range<usize>,
    // What this rank takes, counted from the row's start. Those beyond the row's end are padding.
    columns: Range<usize>,
}

/// One sample of a rank's batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RankSlot {
    /// The sample.
    pub sample: SampleId,
    /// The step, which is the row of the global plan.
    pub step: usize,
    /// The column of the global plan. Padding has columns of its own, beyond the row's last.
    pub slot: usize,
    /// The sample's place in the rows of the global plan laid end to end; padding has the place of what it repeats.
    ///
    /// Random numbers for a sample are derived from it, so that they depend neither on the number of ranks nor on how
    /// the epoch is cut into batches.
    pub position: usize,
    /// Whether the slot repeats a sample of this row only to make the ranks even.
    pub padding: bool,
}

impl RankBatch {
    /// Returns the global plan.
    #[must_use]
    pub fn plan(&self) -> &PlanView {
        &self.plan
    }

    /// Returns the step, which is the row of the global plan.
    #[must_use]
    pub fn step(&self) -> usize {
        self.row.start / self.plan.batch_size()
    }

    /// Returns the position of the global plan behind the row: where the next step begins, for all ranks.
    #[must_use]
    pub fn end(&self) -> usize {
        self.row.end
    }

    /// Returns the number of slots, padding included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether this rank has nothing in this step, which happens with
    /// [`RemainderPolicy::Keep`] where a row has fewer samples than there are ranks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Returns how many slots are padding; they are the last ones.
    #[must_use]
    pub fn num_padding(&self) -> usize {
        self.columns.end.saturating_sub(self.row.len().max(self.columns.start))
    }

    /// Returns slot `index` of this rank, or `None` from [`len`](Self::len) on.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<RankSlot> {
        (index < self.len()).then(|| self.slot(index))
    }

    /// Returns slot `index`, which the caller has checked.
    fn slot(&self, index: usize) -> RankSlot {
        let column = self.columns.start + index;
        let width = self.row.len();
        let padding = width <= column;
        // Padding repeats the row from its start: samples that the step loads anyway.
        let position = self.row.start + if padding { (column - width) % width } else { column };
        let batch_size = self.plan.batch_size();
        RankSlot {
            sample: self.plan.id_at(position),
            step: self.row.start / batch_size,
            slot: self.row.start % batch_size + column,
            position,
            padding,
        }
    }

    /// Returns an iterator over this rank's slots.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RankSlot> + '_ {
        (0..self.len()).map(|index| self.slot(index))
    }

    /// Returns the ids in slot order, padding included.
    #[must_use]
    pub fn to_vec(&self) -> Vec<SampleId> {
        self.iter().map(|slot| slot.sample).collect()
    }
}
