//! Permutations: which order the samples of an epoch come in.

use rand_chacha::ChaCha8Rng;

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
}
