//! A plan: which samples an epoch trains on, in which order and in which batches.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::PlanError;
use crate::id::SampleId;
use crate::ids::IdVec;

/// The plan of one epoch: a dense matrix of sample ids of shape `[num_batches, batch_size]`.
///
/// Row `i` is the global batch of step `i`, column `j` is slot `j` of that batch. Only the last row may be shorter.
/// A clone shares the matrix. Ids take 32 bits each where the data set has at most 2^32 samples, 64 bits else.
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
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlanView {
    // Invariant: every id is below `num_samples`.
    ids: Arc<IdVec>,
    // Invariant: not 0.
    batch_size: usize,
    num_samples: u64,
}

impl PlanView {
    /// Makes a plan of `ids` in the order given, cut into batches of `batch_size`.
    ///
    /// An id may occur more than once, or not at all.
    ///
    /// # Errors
    ///
    /// [`PlanError::BatchSize`] when `batch_size` is 0, [`PlanError::SampleId`] when an id is not below `num_samples`.
    pub fn from_ids(
        ids: impl IntoIterator<Item = u64>,
        batch_size: usize,
        num_samples: u64,
    ) -> Result<Self, PlanError> {
        let mut checked = IdVec::for_data_set(num_samples);
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
        if batch_size == 0 {
            return Err(PlanError::BatchSize { batch_size: 0, max: u64::from(u32::MAX) });
        }
        Ok(Self { ids: Arc::new(ids), batch_size, num_samples })
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
        self.ids.len()
    }

    /// Returns the number of samples in the data set that the ids point into.
    #[must_use]
    pub fn num_samples(&self) -> u64 {
        self.num_samples
    }

    /// Returns the batch of step `step`, or `None` from [`num_batches`](Self::num_batches) on.
    #[must_use]
    pub fn batch(&self, step: usize) -> Option<BatchIds<'_>> {
        let start = step.checked_mul(self.batch_size)?;
        if self.num_ids() <= start {
            return None;
        }
        let end = (start + self.batch_size.min(self.num_ids() - start)).min(self.num_ids());
        Some(BatchIds { ids: &self.ids, range: start..end })
    }

    /// Returns an iterator over all batches in order.
    pub fn iter(&self) -> PlanViewIter<'_> {
        PlanViewIter { plan: self, steps: 0..self.num_batches() }
    }

    /// Returns a hash that two plans share exactly when they hold the same ids in the same batches.
    ///
    /// It is the SHA-256 of the words `planfetch plan v1`, the batch size, the number of samples and all ids,
    /// each as a little-endian 64-bit number, so that it does not depend on how the ids are kept.
    #[must_use]
    pub fn digest(&self) -> PlanDigest {
        let mut hash = Sha256::new();
        hash.update(b"planfetch plan v1");
        hash.update((self.batch_size as u64).to_le_bytes());
        hash.update(self.num_samples.to_le_bytes());
        let mut block = Vec::with_capacity(8 * 1_024);
        for batch in self.iter() {
            for id in batch {
                block.extend_from_slice(&id.0.to_le_bytes());
                if block.len() == block.capacity() {
                    hash.update(&block);
                    block.clear();
                }
            }
        }
        hash.update(&block);
        PlanDigest(hash.finalize().into())
    }
}

impl<'a> IntoIterator for &'a PlanView {
    type Item = BatchIds<'a>;
    type IntoIter = PlanViewIter<'a>;

    fn into_iter(self) -> PlanViewIter<'a> {
        self.iter()
    }
}

/// The sample ids of one batch, in slot order. Made by [`PlanView::batch`].
#[derive(Clone)]
pub struct BatchIds<'a> {
    ids: &'a IdVec,
    // Invariant: lies within `ids`.
    range: Range<usize>,
}

impl BatchIds<'_> {
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
        (slot < self.len()).then(|| self.ids.at(self.range.start + slot))
    }

    /// Returns the ids in slot order.
    #[must_use]
    pub fn to_vec(&self) -> Vec<SampleId> {
        self.clone().into_iter().collect()
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
        self.0.range.next().map(|index| self.0.ids.at(index))
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

/// The SHA-256 of a plan. Made by [`PlanView::digest`]; prints as 64 hexadecimal digits.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PlanDigest(pub [u8; 32]);

impl fmt::Display for PlanDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PlanDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanDigest({self})")
    }
}
