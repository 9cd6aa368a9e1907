//! A permutation without a table: a Feistel network over any number of entries.
//!
//! An index below `len` is written as two digits, `left` in `0..width` and `right` in `0..height`, where
//! `width * height` is at least `len` and hardly more. Each round adds to one digit, modulo its base, a number that is
//! computed from the other digit and a key; since the other digit stays, the round can be undone, so the whole is a
//! bijection. A result at or beyond `len` is sent through again until it lies below ("cycle walking"): the walk
//! follows a cycle of the bijection that started below `len`, so it comes back below `len` at the latest at its start.
//!
//! - M. Luby, C. Rackoff, "How to Construct Pseudorandom Permutations from Pseudorandom Functions", SIAM Journal on
//!   Computing 17(2), 1988: why rounds of such additions make a permutation that can't be told from a random one.
//! - J. Black, P. Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002: two digits of unequal bases, and
//!   cycle walking.
//! - G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014: the round function is
//!   output number `digit + 1` of SplitMix64 with the round key as its seed.
//!
//! The width is even on purpose. A network of exclusive-ors on two halves of a word only ever makes even permutations;
//! adding an odd number modulo an even width is an odd one, so here both kinds come up.
//!
//! A swap-or-not network (V. T. Hoang, B. Morris, P. Rogaway, "An Enciphering Scheme Based on a Card Shuffle", CRYPTO
//! 2012) has stronger proofs where nearly all entries are seen, as in an epoch, but asks for about six rounds per bit
//! of `len`, 120 at a million, each as dear as one of these. At the lengths where a network is used here, the
//! measurements don't tell 8 rounds of this one from Fisher and Yates's shuffle.

/// A pseudo-random permutation of `0..len` in constant memory, with as many rounds as keys.
///
/// [`KeyedPermutation`](crate::KeyedPermutation) chooses the rounds and is what plans are made of. This type is public
/// so that its quality by the number of rounds can be measured.
///
/// # Example
///
/// ```
/// use planfetch_plan::FeistelNetwork;
///
/// let network = FeistelNetwork::new(10, &[1, 2, 3, 4]);
/// let mut all: Vec<u64> = (0..10).filter_map(|index| network.at(index)).collect();
/// all.sort_unstable();
/// assert_eq!(all, (0..10).collect::<Vec<_>>());
/// ```
#[derive(Clone, Debug)]
pub struct FeistelNetwork {
    len: u64,
    // Invariants: even, at least 2, at most 2^32, as is `height`; `width * height >= len`.
    width: u64,
    height: u64,
    keys: Vec<u64>,
}

impl FeistelNetwork {
    /// Makes the permutation of `0..len` with one round for each of `keys`.
    #[must_use]
    pub fn new(len: u64, keys: &[u64]) -> Self {
        let root = len.isqrt();
        let ceil = if root * root < len { root + 1 } else { root };
        let width = (ceil + ceil % 2).max(2);
        Self { len, width, height: len.div_ceil(width).max(1), keys: keys.to_vec() }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the entry at `index`, or `None` from [`len`](Self::len) on.
    #[must_use]
    pub fn at(&self, index: u64) -> Option<u64> {
        if self.len <= index {
            return None;
        }
        let mut index = index;
        loop {
            index = self.rounds(index);
            if index < self.len {
                return Some(index);
            }
        }
    }

    /// Returns the index at which `entry` is, or `None` where there is no such entry: the inverse of [`at`](Self::at).
    #[must_use]
    pub fn index_of(&self, entry: u64) -> Option<u64> {
        if self.len <= entry {
            return None;
        }
        let mut entry = entry;
        loop {
            entry = self.rounds_back(entry);
            if entry < self.len {
                return Some(entry);
            }
        }
    }

    /// Undoes [`rounds`](Self::rounds).
    fn rounds_back(&self, entry: u64) -> u64 {
        let (mut left, mut right) = (entry / self.height, entry % self.height);
        for pair in self.keys.chunks(2).rev() {
            if let Some(&key) = pair.get(1) {
                right = subtract_below(right, round(key, left, self.height), self.height);
            }
            left = subtract_below(left, round(pair[0], right, self.width), self.width);
        }
        left * self.height + right
    }

    fn rounds(&self, index: u64) -> u64 {
        let (mut left, mut right) = (index / self.height, index % self.height);
        for pair in self.keys.chunks(2) {
            left = add_below(left, round(pair[0], right, self.width), self.width);
            if let Some(&key) = pair.get(1) {
                right = add_below(right, round(key, left, self.height), self.height);
            }
        }
        // OK because `width` and `height` are at most 2^32, so that this is at most 2^64 - 1.
        left * self.height + right
    }
}

/// Returns `a + b` modulo `base`, both below it.
fn add_below(a: u64, b: u64, base: u64) -> u64 {
    let sum = a + b;
    if base <= sum { sum - base } else { sum }
}

/// Returns `a - b` modulo `base`, both below it.
fn subtract_below(a: u64, b: u64, base: u64) -> u64 {
    if b <= a { a - b } else { a + base - b }
}

/// Returns the number in `0..base` that `key` gives `digit`: the high half of a product, off from uniform by less than
/// one part in 2^31.
fn round(key: u64, digit: u64, base: u64) -> u64 {
    let mut z = key.wrapping_add((digit + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    // OK because the high half of a product with `base` is below `base`.
    ((u128::from(z) * u128::from(base)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_network_is_a_bijection(len in 0_u64..3_000, keys in proptest::collection::vec(any::<u64>(), 0..10)) {
            let network = FeistelNetwork::new(len, &keys);
            let mut seen = vec![false; len as usize];
            for index in 0..len {
                let entry = network.at(index).expect("index below len") as usize;
                prop_assert!(!seen[entry], "entry {} twice", entry);
                seen[entry] = true;
                prop_assert_eq!(network.index_of(entry as u64), Some(index));
            }
            prop_assert_eq!(network.at(len), None);
            prop_assert_eq!(network.index_of(len), None);
        }

        #[test]
        fn long_networks_stay_in_range(len in 1_u64..=(1 << 63), key: u64, at: u64) {
            let network = FeistelNetwork::new(len, &[key, !key, key ^ 5, key / 3]);
            let entry = network.at(at % len).expect("index below len");
            prop_assert!(entry < len);
            prop_assert_eq!(network.index_of(entry), Some(at % len));
        }
    }
}
