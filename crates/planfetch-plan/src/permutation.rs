//! Permutations: which order the samples of an epoch come in.
//!
//! Two kinds. [`shuffle`] puts a list in order and needs the list. [`KeyedPermutation`] is a function from positions
//! to positions that needs no list, so that an epoch of 10^9 samples can be walked, or entered anywhere, from a few
//! hundred bytes.

mod network;

pub use crate::permutation::network::FeistelNetwork;

use std::fmt;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::rng::below;

/// Puts `items` in uniformly random order.
///
/// The algorithm is Fisher and Yates's in Durstenfeld's form (Communications of the ACM 7(7), 1964, Algorithm 235).
/// It is written out here, since a library's shuffle may change between versions and every plan with it.
pub(crate) fn shuffle<T>(items: &mut [T], rng: &mut ChaCha8Rng) {
    for last in (1..items.len()).rev() {
        // OK because `last` is an index of a slice, which fits in 64 bits, and the number is at most `last`.
        let other = below(rng, last as u64 + 1) as usize;
        items.swap(last, other);
    }
}

/// A pseudo-random permutation of `0..len` that is computed entry by entry.
///
/// Up to [`MAX_TABLE_LEN`](Self::MAX_TABLE_LEN) entries it is a table of 16-bit numbers in Fisher–Yates order, and so
/// exactly uniform. Above, where a table would cost memory and a network can't be told from chance by anything that
/// training measures, it is a [`FeistelNetwork`] of [`NUM_ROUNDS`](Self::NUM_ROUNDS) rounds.
/// The book's page on permutations has the measurements.
///
/// # Example
///
/// A billion samples in random order, entered in the middle:
///
/// ```
/// use planfetch_plan::KeyedPermutation;
///
/// let order = KeyedPermutation::new(1_000_000_000, [7; 32]);
/// let sample = order.at(500_000_000).expect("within the permutation");
/// assert!(sample < 1_000_000_000);
/// assert_eq!(order.at(1_000_000_000), None);
/// ```
#[derive(Clone)]
pub struct KeyedPermutation {
    form: Form,
}

#[derive(Clone)]
enum Form {
    Table(Vec<u16>),
    Network(FeistelNetwork),
}

impl KeyedPermutation {
    /// The longest permutation that is kept as a table: 65,536 entries, 128 KiB.
    pub const MAX_TABLE_LEN: u64 = 1 << 16;

    /// The number of rounds of the network above that length.
    pub const NUM_ROUNDS: usize = 8;

    /// Makes the permutation of `0..len` that belongs to `key`.
    #[must_use]
    pub fn new(len: u64, key: [u8; 32]) -> Self {
        let mut permutation = Self::empty();
        permutation.reset(len, &mut ChaCha8Rng::from_seed(key));
        permutation
    }

    /// Returns the permutation of no entries, to be [`reset`](Self::reset).
    pub(crate) fn empty() -> Self {
        Self { form: Form::Table(Vec::new()) }
    }

    /// Becomes another permutation, in the memory of the present one where that suffices.
    pub(crate) fn reset(&mut self, len: u64, rng: &mut ChaCha8Rng) {
        if len <= Self::MAX_TABLE_LEN {
            let mut table = match std::mem::replace(&mut self.form, Form::Table(Vec::new())) {
                Form::Table(table) => table,
                Form::Network(_) => Vec::new(),
            };
            table.clear();
            // OK because the numbers lie below 2^16.
            table.extend((0..len).map(|index| index as u16));
            shuffle(&mut table, rng);
            self.form = Form::Table(table);
        } else {
            let keys: [u64; Self::NUM_ROUNDS] = std::array::from_fn(|_| rng.next_u64());
            self.form = Form::Network(FeistelNetwork::new(len, &keys));
        }
    }

    /// Returns all entries where they are kept as a table.
    pub(crate) fn as_table(&self) -> Option<&[u16]> {
        match &self.form {
            Form::Table(table) => Some(table),
            Form::Network(_) => None,
        }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.form {
            // OK because a slice's length fits in 64 bits.
            Form::Table(table) => table.len() as u64,
            Form::Network(network) => network.len(),
        }
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entry at `index`, or `None` from [`len`](Self::len) on.
    #[must_use]
    pub fn at(&self, index: u64) -> Option<u64> {
        match &self.form {
            Form::Table(table) => {
                usize::try_from(index).ok().and_then(|index| table.get(index)).copied().map(u64::from)
            }
            Form::Network(network) => network.at(index),
        }
    }
}

impl KeyedPermutation {
    /// Returns the index at which `entry` is, or `None` where there is no such entry: the inverse of [`at`](Self::at).
    ///
    /// A table is looked through for it, at most [`MAX_TABLE_LEN`](Self::MAX_TABLE_LEN) entries; a network computes it.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::KeyedPermutation;
    ///
    /// let order = KeyedPermutation::new(1_000_000_000, [7; 32]);
    /// let sample = order.at(500_000_000).expect("within the permutation");
    /// assert_eq!(order.index_of(sample), Some(500_000_000));
    /// ```
    #[must_use]
    pub fn index_of(&self, entry: u64) -> Option<u64> {
        match &self.form {
            Form::Table(table) => {
                let entry = u16::try_from(entry).ok()?;
                // OK because an index fits in 64 bits.
                table.iter().position(|&other| other == entry).map(|index| index as u64)
            }
            Form::Network(network) => network.index_of(entry),
        }
    }
}

impl fmt::Debug for KeyedPermutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedPermutation").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::rng::{Purpose, plan_rng};

    #[test]
    fn every_permutation_of_four_is_equally_likely() {
        let mut counts = BTreeMap::<[u8; 4], u32>::new();
        for epoch in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            shuffle(&mut items, &mut plan_rng(Purpose::Shuffle, 3, epoch));
            *counts.entry(items).or_default() += 1;
        }
        assert_eq!(counts.len(), 24);
        let chi_square: f64 = counts.values().map(|&n| (f64::from(n) - 1_000.0).powi(2) / 1_000.0).sum();
        // 23 degrees of freedom: above 49.7 once in a thousand fair shuffles; these seeds are fixed.
        assert!(chi_square < 49.7, "chi-square {chi_square}");
    }

    #[test]
    fn a_reset_permutation_is_the_one_made_afresh_whatever_it_was_before() {
        let mut reused = KeyedPermutation::empty();
        for len in [0, 1, 5, 70_000, 3, 65_536, 65_537, 2] {
            reused.reset(len, &mut ChaCha8Rng::from_seed([9; 32]));
            let fresh = KeyedPermutation::new(len, [9; 32]);
            assert_eq!(reused.len(), len);
            assert!((0..=len).all(|index| reused.at(index) == fresh.at(index)));
            let is_back = |index| fresh.at(index).and_then(|entry| fresh.index_of(entry)) == Some(index);
            assert!((0..len.min(500)).all(is_back) && fresh.index_of(len).is_none());
        }
    }
}
