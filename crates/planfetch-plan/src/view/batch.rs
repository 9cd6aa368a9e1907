//! Runs of a plan's ids: a batch, or any other range of positions.

use std::fmt;
use std::ops::Range;

use crate::id::SampleId;
use crate::ids::IdVec;
use crate::view::{PlanView, Rows};

/// The sample ids of one batch, in slot order, or of another run of positions.
/// Made by [`PlanView::batch`] and [`PlanView::range_flat`].
#[derive(Clone)]
pub struct BatchIds<'a> {
    rows: &'a Rows,
    // Invariant: lies within `rows`.
    range: Range<usize>,
}

/// Ids as they lie in the memory of a dense plan. Made by [`BatchIds::as_slice`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IdSlice<'a> {
    /// Of a data set of at most 2^32 samples.
    U32(&'a [u32]),
    /// Of a larger one.
    U64(&'a [u64]),
}

impl<'a> BatchIds<'a> {
    /// Makes a view of the positions `range`, which the caller has checked.
    pub(crate) fn new(rows: &'a Rows, range: Range<usize>) -> Self {
        Self { rows, range }
    }

    /// Returns the number of samples in the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns whether the batch holds no sample, which no batch of a plan does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns the id in slot `slot`, or `None` from [`len`](Self::len) on.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<SampleId> {
        (slot < self.len()).then(|| self.rows.at(self.range.start + slot))
    }

    /// Returns the ids in slot order.
    #[must_use]
    pub fn to_vec(&self) -> Vec<SampleId> {
        self.clone().into_iter().collect()
    }

    /// Returns the ids as they lie in memory, or `None` when the plan is lazy.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{IdSlice, PlanView};
    ///
    /// let plan = PlanView::from_ids([3, 1, 2], 2, 4)?;
    /// assert_eq!(plan.range_flat(1, 3).and_then(|ids| ids.as_slice()), Some(IdSlice::U32(&[1, 2])));
    /// # Ok::<(), planfetch_plan::PlanError>(())
    /// ```
    #[must_use]
    pub fn as_slice(&self) -> Option<IdSlice<'a>> {
        let Rows::Dense(ids) = self.rows else { return None };
        Some(match &**ids {
            IdVec::U32(ids) => IdSlice::U32(&ids[self.range.clone()]),
            IdVec::U64(ids) => IdSlice::U64(&ids[self.range.clone()]),
        })
    }
}

impl fmt::Debug for BatchIds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone().into_iter().map(|id| id.0)).finish()
    }
}

impl<'a> IntoIterator for BatchIds<'a> {
    type Item = SampleId;
    type IntoIter = BatchIdsIter<'a>;

    fn into_iter(self) -> BatchIdsIter<'a> {
        BatchIdsIter(self)
    }
}

/// An iterator over the ids of a batch in slot order.
#[derive(Clone, Debug)]
#[must_use = "iterators do nothing unless they are consumed"]
pub struct BatchIdsIter<'a>(BatchIds<'a>);

impl Iterator for BatchIdsIter<'_> {
    type Item = SampleId;

    fn next(&mut self) -> Option<SampleId> {
        self.0.range.next().map(|position| self.0.rows.at(position))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.range.size_hint()
    }
}

impl ExactSizeIterator for BatchIdsIter<'_> {}

/// An iterator over the batches of a plan. Made by [`PlanView::iter`].
#[derive(Clone, Debug)]
#[must_use = "iterators do nothing unless they are consumed"]
pub struct PlanViewIter<'a> {
    plan: &'a PlanView,
    steps: Range<usize>,
}

impl<'a> PlanViewIter<'a> {
    pub(crate) fn new(plan: &'a PlanView) -> Self {
        Self { plan, steps: 0..plan.num_batches() }
    }
}

impl<'a> Iterator for PlanViewIter<'a> {
    type Item = BatchIds<'a>;

    fn next(&mut self) -> Option<BatchIds<'a>> {
        self.steps.next().and_then(|step| self.plan.batch(step))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.steps.size_hint()
    }
}

impl ExactSizeIterator for PlanViewIter<'_> {}
