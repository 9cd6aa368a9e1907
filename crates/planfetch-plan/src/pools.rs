//! The samples of each class, and endless streams over them.

use std::fmt;
use std::ops::Range;

use crate::error::PlanError;
use crate::ids::{IdVec, IdWidth, with_ids};
use crate::matrix::Filler;
use crate::permutation::KeyedPermutation;
use crate::rng::{Purpose, stream_rng};

/// The samples of each class, in ascending order, in one list: built once, shared by all epochs.
pub(crate) struct Pools {
    ids: IdVec,
    // Invariants: one more than there are classes, ascending, from 0 to the number of ids.
    offsets: Vec<usize>,
}

impl Pools {
    /// Sorts samples by their labels. Classes above the largest label, which are empty, are not kept.
    pub(crate) fn from_labels(labels: &[u32], num_classes: u32) -> Result<Self, PlanError> {
        // OK because a slice's length fits in 64 bits.
        if let Some(index) = labels.iter().position(|&label| num_classes <= label) {
            return Err(PlanError::Label { index: index as u64, label: labels[index], num_classes });
        }
        // OK because a class number fits in an index, and so does one more on every platform with that much memory.
        let classes = labels.iter().max().map_or(0, |&label| label as usize + 1);
        let mut offsets = Vec::new();
        offsets.try_reserve_exact(classes + 1).map_err(|_| {
            PlanError::setting("num_classes", num_classes, "small enough for a list of all classes in memory")
        })?;
        offsets.resize(classes + 1, 0);
        for &label in labels {
            offsets[label as usize + 1] += 1;
        }
        for class in 0..classes {
            offsets[class + 1] += offsets[class];
        }
        let mut next = offsets.clone();
        let mut ids = IdVec::zeroed(labels.len(), labels.len() as u64)?;
        with_ids!(&mut ids, ids => for (index, &label) in labels.iter().enumerate() {
            let place = &mut next[label as usize];
            ids[*place] = IdWidth::from_id(index as u64);
            *place += 1;
        });
        Ok(Self { ids, offsets })
    }

    pub(crate) fn num_classes(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(crate) fn num_samples(&self) -> u64 {
        self.ids.len() as u64
    }

    /// Returns where the samples of `class` lie among all.
    pub(crate) fn range(&self, class: usize) -> Range<usize> {
        self.offsets[class]..self.offsets[class + 1]
    }

    /// Returns the number of samples of each class.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u64)
    }

    pub(crate) fn num_non_empty(&self) -> usize {
        self.sizes().filter(|&size| 0 < size).count()
    }

    /// Returns the id at `place` among all.
    pub(crate) fn at(&self, place: usize) -> u64 {
        self.ids.at(place).0
    }

    /// Returns the class of `id`, by searching each pool: for explanations, not for loops.
    pub(crate) fn class_of(&self, id: u64) -> Option<usize> {
        (0..self.num_classes()).find(|&class| {
            let range = self.range(class);
            with_ids!(&self.ids, ids => ids[range].binary_search_by_key(&id, |id| id.to_id())).is_ok()
        })
    }

    /// Returns the pools as fields of a fingerprint: the ids in order of class, and the classes' ends.
    pub(crate) fn field(&self) -> crate::fingerprint::Fingerprint {
        let ids = match &self.ids {
            IdVec::U32(ids) => ids.as_slice().into(),
            IdVec::U64(ids) => ids.as_slice().into(),
        };
        let offsets: Vec<u64> = self.offsets.iter().map(|&offset| offset as u64).collect();
        crate::fingerprint::Fingerprint::of("classes", &[("ids", ids), ("offsets", offsets.as_slice().into())])
    }
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pools({} classes, {} samples)", self.num_classes(), self.num_samples())
    }
}

/// An endless stream over the samples of a class: pass after pass, each in an order of its own.
///
/// The order of a pass depends on the seed, the pass and the class alone, so that a stream can be entered anywhere.
#[derive(Debug)]
pub(crate) struct ClassStream<'a> {
    pools: &'a Pools,
    seed: u64,
    class: usize,
    range: Range<usize>,
    pass: u128,
    // Invariant: at most the pool's size; the permutation is that of `pass` unless this is 0.
    index: u64,
    permutation: KeyedPermutation,
}

impl<'a> ClassStream<'a> {
    /// Makes a stream that is to be [`enter`](Self::enter)ed. One serves all classes in turn, in the same memory.
    pub(crate) fn new(pools: &'a Pools, seed: u64) -> Self {
        Self { pools, seed, class: 0, range: 0..0, pass: 0, index: 0, permutation: KeyedPermutation::empty() }
    }

    /// Goes to element `position` of the stream of `class`, which has samples.
    pub(crate) fn enter(&mut self, class: usize, position: u128) {
        self.class = class;
        self.range = self.pools.range(class);
        debug_assert!(!self.range.is_empty(), "an empty class has no stream");
        // OK because an index fits in 128 bits, and the remainder lies below one.
        let size = self.range.len() as u128;
        (self.pass, self.index) = (position / size, (position % size) as u64);
        if 0 < self.index {
            self.permute();
        }
    }

    fn permute(&mut self) {
        // OK because passes are told apart up to 2^64 of them.
        let mut rng = stream_rng(Purpose::ClassPass, self.seed, self.pass as u64, self.class as u64);
        self.permutation.reset(self.range.len() as u64, &mut rng);
    }

    /// Puts the next samples into `rows`, one into each.
    ///
    /// The same as [`next_id`](Self::next_id) for each row, but a table and a pool of 32 bits, which nearly all are,
    /// are walked without asking for every sample what they are.
    pub(crate) fn deal<T: IdWidth>(&mut self, mut rows: impl Iterator<Item = usize>, filler: &mut Filler<'_, T>) {
        let size = self.range.len() as u64;
        while let Some(row) = rows.next() {
            filler.put(row, self.next_id());
            let (Some(table), IdVec::U32(ids)) = (self.permutation.as_table(), &self.pools.ids) else { continue };
            if size == 1 {
                continue;
            }
            let pool = &ids[self.range.clone()];
            // OK because the index is at most the pool's size, and an entry below it.
            let rest = &table[self.index as usize..];
            // The table goes first, so that at its end no row is taken that has no sample.
            for (&place, row) in rest.iter().zip(rows.by_ref()) {
                filler.put(row, u64::from(pool[usize::from(place)]));
                self.index += 1;
            }
        }
    }

    /// Returns the next sample.
    pub(crate) fn next_id(&mut self) -> u64 {
        let size = self.range.len() as u64;
        // A pool of one has one order, and one that is oversampled would spend its time on making it.
        if size == 1 {
            return self.pools.at(self.range.start);
        }
        if self.index == size {
            self.pass += 1;
            self.index = 0;
        }
        if self.index == 0 {
            self.permute();
        }
        let place = self.permutation.at(self.index).expect("the index lies below the pool's size");
        self.index += 1;
        // OK because the place lies below the length of a slice.
        self.pools.at(self.range.start + place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_hold_each_class_in_ascending_order_also_empty_ones() {
        let pools = Pools::from_labels(&[2, 0, 2, 2, 0], 4).unwrap();
        assert_eq!(pools.sizes().collect::<Vec<_>>(), [2, 0, 3]);
        assert_eq!((0..5).map(|place| pools.at(place)).collect::<Vec<_>>(), [1, 4, 0, 2, 3]);
        assert_eq!((pools.class_of(3), pools.class_of(4), pools.class_of(5)), (Some(2), Some(0), None));
    }

    #[test]
    fn a_stream_entered_anywhere_goes_on_as_one_that_was_walked() {
        let labels: Vec<u32> = (0..40).map(|index| index % 3).collect();
        let pools = Pools::from_labels(&labels, 3).unwrap();
        let mut walked = ClassStream::new(&pools, 5);
        walked.enter(1, 0);
        let all: Vec<u64> = (0..60).map(|_| walked.next_id()).collect();
        for start in [0, 1, 12, 13, 14, 26, 39] {
            let mut entered = ClassStream::new(&pools, 5);
            entered.enter(1, start as u128);
            let rest: Vec<u64> = (start..60).map(|_| entered.next_id()).collect();
            assert_eq!(rest, all[start..]);
        }
    }
}
