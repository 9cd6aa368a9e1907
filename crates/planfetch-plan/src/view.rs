//! A plan: which samples an epoch trains on, in which order and in which batches.

pub(crate) mod batch;
pub(crate) mod digest;
pub(crate) mod explain;
pub(crate) mod saved;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::error::PlanError;
use crate::id::SampleId;
use crate::ids::IdVec;
use crate::permutation::KeyedPermutation;
use crate::provider::{check_batch_size, check_len};
use crate::rank::RankPlan;
use crate::view::batch::{BatchIds, PlanViewIter};
use crate::view::explain::Provenance;
use crate::world::{RemainderPolicy, World};

/// The plan of one epoch: a matrix of sample ids of shape `[num_batches, batch_size]`.
///
/// Row `i` is the global batch of step `i`, column `j` is slot `j` of that batch. Only the last row may be shorter.
/// The *position* of an id is where it lies in the rows laid end to end: `step * batch_size + slot`.
///
/// A *dense* plan holds the matrix; ids take 32 bits each where the data set has at most 2^32 samples, 64 bits else.
/// A *lazy* one computes each id when asked, by a [`KeyedPermutation`], and takes no more than 128 KiB at any length.
/// A clone shares what there is. Two plans are equal when they hold the same ids in the same batches, whatever they
/// are made of.
///
/// # Example
///
/// ```
/// use planfetch_plan::{PlanView, SampleId};
///
/// let plan = PlanView::from_ids([3, 1, 2], 2, 4)?;
/// assert_eq!(plan.num_batches(), 2);
/// assert_eq!(plan.batch(0).expect("a full batch").to_vec(), [SampleId(3), SampleId(1)]);
/// assert_eq!(plan.batch(1).expect("a short batch").to_vec(), [SampleId(2)]);
/// assert!(plan.batch(2).is_none());
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone)]
pub struct PlanView {
    // Invariant: every id is below `num_samples`.
    rows: Rows,
    // Invariant: not 0.
    batch_size: usize,
    num_samples: u64,
    provenance: Option<Arc<dyn Provenance>>,
}

/// Where the ids come from.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    Dense(Arc<IdVec>),
    /// The first `num_ids` entries of the permutation that belongs to `key`.
    Permuted {
        permutation: Arc<KeyedPermutation>,
        key: [u8; 32],
        num_ids: usize,
    },
}

impl Rows {
    fn len(&self) -> usize {
        match self {
            Self::Dense(ids) => ids.len(),
            Self::Permuted { num_ids, .. } => *num_ids,
        }
    }

    /// Returns the id at `position`, which the caller has checked.
    fn at(&self, position: usize) -> SampleId {
        match self {
            Self::Dense(ids) => ids.at(position),
            // OK because an index fits in 64 bits.
            Self::Permuted { permutation, .. } => {
                SampleId(permutation.at(position as u64).expect("a lazy plan is no longer than its permutation"))
            }
        }
    }
}

impl PlanView {
    /// Makes a plan of `ids` in the order given, cut into batches of `batch_size`.
    ///
    /// An id may occur more than once, or not at all.
    ///
    /// # Errors
    ///
    /// [`PlanError::BatchSize`] when `batch_size` is 0 or above `u32::MAX`, [`PlanError::SampleId`] when an id is not below `num_samples`,
    /// [`PlanError::Memory`] when there is no memory for them.
    pub fn from_ids(
        ids: impl IntoIterator<Item = u64>,
        batch_size: usize,
        num_samples: u64,
    ) -> Result<Self, PlanError> {
        let ids = ids.into_iter();
        let mut checked = IdVec::for_data_set(num_samples);
        // Where the length is known, nothing is allocated that the plan does not keep.
        if let (low, Some(high)) = ids.size_hint()
            && low == high
        {
            checked = IdVec::with_capacity(low, num_samples)?;
        }
        for id in ids {
            if num_samples <= id {
                return Err(PlanError::SampleId { id, num_samples });
            }
            checked.push(id);
        }
        Self::new(checked, batch_size, num_samples)
    }

    /// Makes a plan of ids that are known to be below `num_samples`.
    pub(crate) fn new(ids: IdVec, batch_size: usize, num_samples: u64) -> Result<Self, PlanError> {
        Self::with_rows(Rows::Dense(Arc::new(ids)), batch_size, num_samples)
    }

    /// Makes a lazy plan of the first `num_ids` entries of the permutation of `0..num_samples` that belongs to `key`.
    pub(crate) fn permuted(
        key: [u8; 32],
        num_ids: usize,
        batch_size: usize,
        num_samples: u64,
    ) -> Result<Self, PlanError> {
        let mut permutation = KeyedPermutation::empty();
        permutation.reset(num_samples, &mut ChaCha8Rng::from_seed(key));
        // OK because an index fits in 64 bits.
        debug_assert!(num_ids as u64 <= num_samples, "a lazy plan is no longer than its permutation");
        Self::with_rows(Rows::Permuted { permutation: Arc::new(permutation), key, num_ids }, batch_size, num_samples)
    }

    fn with_rows(rows: Rows, batch_size: usize, num_samples: u64) -> Result<Self, PlanError> {
        check_batch_size(batch_size)?;
        Ok(Self { rows, batch_size, num_samples, provenance: None })
    }

    /// Attaches what [`explain`](Self::explain) asks for the reason of an id. It is not part of the plan's identity.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Arc<dyn Provenance>) -> Self {
        self.provenance = Some(provenance);
        self
    }

    /// Returns the number of batches, and so of steps, the short one included.
    #[must_use]
    pub fn num_batches(&self) -> usize {
        self.num_ids().div_ceil(self.batch_size)
    }

    /// Returns the number of samples in every batch but the last, which may have fewer.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Returns how many ids the plan holds: the samples that an epoch delivers, repeated ones counted each time.
    #[must_use]
    pub fn num_ids(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of samples in the data set that the ids point into.
    #[must_use]
    pub fn num_samples(&self) -> u64 {
        self.num_samples
    }

    /// Returns the batch of step `step`, or `None` from [`num_batches`](Self::num_batches) on.
    ///
    /// It takes the same few nanoseconds for every step, and copies nothing.
    #[must_use]
    pub fn batch(&self, step: usize) -> Option<BatchIds<'_>> {
        let start = step.checked_mul(self.batch_size)?;
        if self.num_ids() <= start {
            return None;
        }
        Some(BatchIds::new(&self.rows, start..start + self.batch_size.min(self.num_ids() - start)))
    }

    /// Returns the ids at positions `low..high` of the rows laid end to end, or `None` where the plan does not reach.
    ///
    /// Nothing is copied; [`BatchIds::as_slice`] gives the ids of a dense plan as they lie in memory.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{PlanProvider, SequentialPlanProvider};
    ///
    /// let plan = SequentialPlanProvider::new(10, 4)?.plan(0)?;
    /// assert_eq!(plan.range_flat(3, 6).expect("within the plan").to_vec(), [3, 4, 5].map(planfetch_plan::SampleId));
    /// assert!(plan.range_flat(3, 11).is_none());
    /// assert!(plan.range_flat(6, 3).is_none());
    /// # Ok::<(), planfetch_plan::PlanError>(())
    /// ```
    #[must_use]
    pub fn range_flat(&self, low: usize, high: usize) -> Option<BatchIds<'_>> {
        (low <= high && high <= self.num_ids()).then(|| BatchIds::new(&self.rows, low..high))
    }

    /// Returns the id at `position`, which the caller has checked.
    pub(crate) fn id_at(&self, position: usize) -> SampleId {
        self.rows.at(position)
    }

    /// Returns the position of a sample in a lazy plan, which holds each sample at most once; `None` where it does not
    /// occur, or the plan is dense: a list of positions costs as much as the plan, and is the caller's to make.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{PlanProvider, ShuffleOncePerEpochPlanProvider};
    ///
    /// let plan = ShuffleOncePerEpochPlanProvider::new(1_000_000_000, 64, 42)?.with_lazy(true).plan(0)?;
    /// let sample = plan.range_flat(700, 701).and_then(|ids| ids.get(0)).expect("within the plan");
    /// assert_eq!(plan.lazy_position_of(sample), Some(700));
    /// # Ok::<(), planfetch_plan::PlanError>(())
    /// ```
    #[must_use]
    pub fn lazy_position_of(&self, sample: SampleId) -> Option<usize> {
        let Rows::Permuted { permutation, num_ids, .. } = &self.rows else { return None };
        let position = usize::try_from(permutation.index_of(sample.0)?).ok()?;
        (position < *num_ids).then_some(position)
    }

    /// Returns an iterator over all batches in order.
    pub fn iter(&self) -> PlanViewIter<'_> {
        PlanViewIter::new(self)
    }

    /// Returns whether ids are computed when asked for, rather than held in memory.
    #[must_use]
    pub fn is_lazy(&self) -> bool {
        matches!(self.rows, Rows::Permuted { .. })
    }

    /// Returns the same plan with its matrix in memory, which is the plan itself where it is dense already.
    ///
    /// # Errors
    ///
    /// [`PlanError::NumSamples`] when a dense plan of that length can't be indexed on this platform,
    /// [`PlanError::Memory`] when there is no memory for it.
    pub fn to_dense(&self) -> Result<Self, PlanError> {
        if !self.is_lazy() {
            return Ok(self.clone());
        }
        check_len(self.num_ids() as u64)?;
        let mut ids = IdVec::with_capacity(self.num_ids(), self.num_samples)?;
        ids.append(self, 0);
        let rows = Rows::Dense(Arc::new(ids));
        Ok(Self { rows, provenance: self.provenance.clone(), ..*self })
    }

    /// Returns what one rank of several takes of this plan.
    ///
    /// # Errors
    ///
    /// [`PlanError::Rank`] when the rank lies outside its world, [`PlanError::NothingLeft`] when `Drop` would leave no
    /// sample because the global batch has fewer slots than there are ranks.
    ///
    /// # Example
    ///
    /// Ten samples in global batches of four over three ranks, padded so that every rank has the same:
    ///
    /// ```
    /// use planfetch_plan::{PlanProvider, RemainderPolicy, SequentialPlanProvider, World};
    ///
    /// let plan = SequentialPlanProvider::new(10, 4)?.plan(0)?;
    /// let last = plan.for_rank(World { rank: 2, world_size: 3 }, RemainderPolicy::Pad)?;
    /// let batch = last.batch(0).expect("step 0");
    /// assert!(batch.iter().all(|slot| slot.padding));
    /// assert_eq!(batch.len(), 2);
    /// # Ok::<(), planfetch_plan::PlanError>(())
    /// ```
    pub fn for_rank(&self, world: World, policy: RemainderPolicy) -> Result<RankPlan, PlanError> {
        RankPlan::new(self.clone(), world, policy)
    }
}

impl fmt::Debug for PlanView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanView")
            .field("num_batches", &self.num_batches())
            .field("batch_size", &self.batch_size)
            .field("num_ids", &self.num_ids())
            .field("num_samples", &self.num_samples)
            .field("is_lazy", &self.is_lazy())
            .finish_non_exhaustive()
    }
}

impl PartialEq for PlanView {
    fn eq(&self, other: &Self) -> bool {
        if (self.batch_size, self.num_samples, self.num_ids()) != (other.batch_size, other.num_samples, other.num_ids())
        {
            return false;
        }
        match (&self.rows, &other.rows) {
            (Rows::Dense(a), Rows::Dense(b)) => Arc::ptr_eq(a, b) || a == b,
            (Rows::Permuted { key: a, .. }, Rows::Permuted { key: b, .. }) if a == b => true,
            _ => (0..self.num_ids()).all(|position| self.rows.at(position) == other.rows.at(position)),
        }
    }
}

impl Eq for PlanView {}

impl<'a> IntoIterator for &'a PlanView {
    type Item = BatchIds<'a>;
    type IntoIter = PlanViewIter<'a>;

    fn into_iter(self) -> PlanViewIter<'a> {
        self.iter()
    }
}

/// The positions of row `step` of a plan of `num_ids` ids, from `from` on.
pub(crate) fn rest_of_row(from: usize, batch_size: usize, num_ids: usize) -> Range<usize> {
    let left = batch_size - from % batch_size;
    from..from + left.min(num_ids - from)
}
