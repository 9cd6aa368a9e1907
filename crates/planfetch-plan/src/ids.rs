//! Many sample ids in as few bytes as they need.

use std::fmt;

use rand_chacha::ChaCha8Rng;

use crate::error::PlanError;
use crate::id::SampleId;
use crate::permutation::shuffle;
use crate::view::PlanView;

/// A list of sample ids, 32 bits each where the data set is small enough for it.
#[derive(Clone, Eq, PartialEq)]
pub(crate) enum IdVec {
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// The two widths of an id, for code that fills a matrix of either.
pub(crate) trait IdWidth: Copy {
    /// Narrows `id`, which the caller has checked against the size of the data set.
    fn from_id(id: u64) -> Self;
    fn to_id(self) -> u64;
}

impl IdWidth for u32 {
    fn from_id(id: u64) -> Self {
        // OK because `IdVec` chooses 32 bits only where every id fits.
        id as Self
    }

    fn to_id(self) -> u64 {
        u64::from(self)
    }
}

impl IdWidth for u64 {
    fn from_id(id: u64) -> Self {
        id
    }

    fn to_id(self) -> u64 {
        self
    }
}

/// Evaluates `$body` with `$ids` bound to the vector inside, of either width.
macro_rules! with_ids {
    ($vec:expr, $ids:ident => $body:expr) => {
        match $vec {
            $crate::ids::IdVec::U32($ids) => $body,
            $crate::ids::IdVec::U64($ids) => $body,
        }
    };
}
pub(crate) use with_ids;

impl IdVec {
    /// Returns an empty list that can hold every id below `num_samples`.
    pub(crate) fn for_data_set(num_samples: u64) -> Self {
        if num_samples <= 1 << 32 { Self::U32(Vec::new()) } else { Self::U64(Vec::new()) }
    }

    /// Returns an empty list with room for `len` ids below `num_samples`, or an error where there is no memory for it.
    pub(crate) fn with_capacity(len: usize, num_samples: u64) -> Result<Self, PlanError> {
        let mut ids = Self::for_data_set(num_samples);
        let reserved = with_ids!(&mut ids, ids => ids.try_reserve_exact(len));
        // OK because an index fits in 64 bits.
        reserved.map_err(|_| PlanError::Memory { num_ids: len as u64 })?;
        Ok(ids)
    }

    /// Returns `len` zeros, to be filled with ids below `num_samples`.
    pub(crate) fn zeroed(len: usize, num_samples: u64) -> Result<Self, PlanError> {
        let mut ids = Self::with_capacity(len, num_samples)?;
        with_ids!(&mut ids, ids => ids.resize(len, 0));
        Ok(ids)
    }

    /// Returns `0..len`, which the caller has checked to be an index.
    pub(crate) fn ascending(len: u64) -> Result<Self, PlanError> {
        // OK because the caller has checked it.
        let mut ids = Self::with_capacity(len as usize, len)?;
        with_ids!(&mut ids, ids => fill_ascending(ids, len));
        Ok(ids)
    }

    /// Appends the ids of `plan`, each with `offset` added.
    pub(crate) fn append(&mut self, plan: &PlanView, offset: u64) {
        plan.iter().flatten().for_each(|id| self.push(offset + id.0));
    }

    /// Appends `id`, which the caller has checked against the size of the data set.
    pub(crate) fn push(&mut self, id: u64) {
        with_ids!(self, ids => ids.push(IdWidth::from_id(id)));
    }

    pub(crate) fn len(&self) -> usize {
        with_ids!(self, ids => ids.len())
    }

    pub(crate) fn shuffle(&mut self, rng: &mut ChaCha8Rng) {
        with_ids!(self, ids => shuffle(ids, rng));
    }

    pub(crate) fn truncate_to_multiple_of(&mut self, batch_size: usize) {
        let keep = self.len() / batch_size * batch_size;
        with_ids!(self, ids => ids.truncate(keep));
    }

    /// Returns the id at `index`, which the caller has checked.
    pub(crate) fn at(&self, index: usize) -> SampleId {
        SampleId(with_ids!(self, ids => ids[index].to_id()))
    }
}

fn fill_ascending<T: IdWidth>(ids: &mut Vec<T>, len: u64) {
    ids.extend((0..len).map(T::from_id));
}

impl fmt::Debug for IdVec {
    /// Tells the length alone: a log has no use for millions of ids.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdVec({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_take_four_bytes_up_to_the_last_data_set_whose_ids_fit() {
        assert!(matches!(IdVec::for_data_set(1 << 32), IdVec::U32(_)));
        assert!(matches!(IdVec::for_data_set((1 << 32) + 1), IdVec::U64(_)));
        assert_eq!(IdVec::ascending(0).unwrap().len(), 0);
        assert_eq!(IdVec::ascending(3).unwrap(), IdVec::U32(vec![0, 1, 2]));
    }

    #[test]
    fn wide_ids_are_kept_whole() {
        let mut ids = IdVec::for_data_set(1 << 40);
        ids.push((1 << 40) - 1);
        ids.push(5);
        assert_eq!(ids.at(0), SampleId((1 << 40) - 1));
        ids.truncate_to_multiple_of(1);
        assert_eq!(ids.len(), 2);
    }
}
