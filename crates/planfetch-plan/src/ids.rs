//! Many sample ids in as few bytes as they need.

use rand_chacha::ChaCha8Rng;

use crate::id::SampleId;
use crate::permutation::shuffle;

/// A list of sample ids, 32 bits each where the data set is small enough for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum IdVec {
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl IdVec {
    /// Returns an empty list that can hold every id below `num_samples`.
    pub(crate) fn for_data_set(num_samples: u64) -> Self {
        if num_samples <= 1 << 32 { Self::U32(Vec::new()) } else { Self::U64(Vec::new()) }
    }

    /// Returns `0..num_samples`.
    pub(crate) fn ascending(num_samples: u64) -> Self {
        match Self::for_data_set(num_samples) {
            // OK because the ids lie below 2^32 here. One more than the last id may not, so the end is included.
            Self::U32(_) if num_samples == 0 => Self::U32(Vec::new()),
            Self::U32(_) => Self::U32((0..=(num_samples - 1) as u32).collect()),
            Self::U64(_) => Self::U64((0..num_samples).collect()),
        }
    }

    /// Appends `id`, which the caller has checked against the size of the data set.
    pub(crate) fn push(&mut self, id: u64) {
        match self {
            // OK because `for_data_set` chooses 32 bits only where every id fits.
            Self::U32(ids) => ids.push(id as u32),
            Self::U64(ids) => ids.push(id),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::U32(ids) => ids.len(),
            Self::U64(ids) => ids.len(),
        }
    }

    pub(crate) fn shuffle(&mut self, rng: &mut ChaCha8Rng) {
        match self {
            Self::U32(ids) => shuffle(ids, rng),
            Self::U64(ids) => shuffle(ids, rng),
        }
    }

    pub(crate) fn truncate_to_multiple_of(&mut self, batch_size: usize) {
        let keep = self.len() / batch_size * batch_size;
        match self {
            Self::U32(ids) => ids.truncate(keep),
            Self::U64(ids) => ids.truncate(keep),
        }
    }

    /// Returns the id at `index`, which the caller has checked.
    pub(crate) fn at(&self, index: usize) -> SampleId {
        match self {
            Self::U32(ids) => SampleId(u64::from(ids[index])),
            Self::U64(ids) => SampleId(ids[index]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_take_four_bytes_up_to_the_last_data_set_whose_ids_fit() {
        assert!(matches!(IdVec::for_data_set(1 << 32), IdVec::U32(_)));
        assert!(matches!(IdVec::for_data_set((1 << 32) + 1), IdVec::U64(_)));
        assert_eq!(IdVec::ascending(0).len(), 0);
        assert_eq!(IdVec::ascending(3), IdVec::U32(vec![0, 1, 2]));
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
