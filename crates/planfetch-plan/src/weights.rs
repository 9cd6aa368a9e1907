//! Drawing in proportion to weights, in whole numbers.

use rand_chacha::ChaCha8Rng;

use crate::error::PlanError;
use crate::rng::below;

/// Takes weights as whole multiples of the largest over `u32::MAX`, rounded down but a weight above 0 never to 0.
///
/// A division and a multiplication are all the floating-point arithmetic there is: IEEE 754 says what they give to the
/// last bit, on every platform.
pub(crate) fn quantise(weights: &[f64]) -> Result<Vec<u32>, PlanError> {
    // The alias table multiplies a quantum with the number of weights in 64 bits.
    let most = 1 << 31;
    // OK because a slice's length fits in 64 bits.
    if most <= weights.len() as u64 {
        return Err(PlanError::NumSamples { num_samples: weights.len() as u64, max: most - 1 });
    }
    let mut max = 0.0;
    for (index, &weight) in weights.iter().enumerate() {
        if !(weight.is_finite() && 0.0 <= weight) {
            let (list, allowed) = ("weight", "finite and at least 0");
            return Err(PlanError::Value { list, index: index as u64, value: weight.to_string(), allowed });
        }
        if max < weight {
            max = weight;
        }
    }
    if max == 0.0 && !weights.is_empty() {
        return Err(PlanError::setting("number of weights above 0", 0, "at least 1"));
    }
    let quantum = |weight: f64| match weight {
        0.0 => 0,
        // OK because the quotient is at most 1; what is below one quantum counts as one.
        _ => ((weight / max * f64::from(u32::MAX)) as u32).max(1),
    };
    Ok(weights.iter().map(|&weight| quantum(weight)).collect())
}

/// Draws with replacement in constant time.
///
/// One column a weight, all of the same height; each holds a part of its own weight below a threshold and a part of
/// one other above. A. J. Walker, "An Efficient Method for Generating Discrete Random Variables with General
/// Distributions", ACM Transactions on Mathematical Software 3(3), 1977; built in linear time as in M. D. Vose, "A
/// Linear Algorithm for Generating Random Numbers with a Given Distribution", IEEE Transactions on Software
/// Engineering 17(9), 1991. In whole numbers, with the sum of the weights as the height, there is no rounding.
#[derive(Debug)]
pub(crate) struct AliasTable {
    height: u64,
    // The part of a column that is its own, and whose the rest is.
    columns: Vec<(u64, u32)>,
}

impl AliasTable {
    /// Makes the table of fewer than 2^31 weights, one of which is above 0.
    pub(crate) fn new(quanta: &[u32]) -> Self {
        // OK because 2^31 weights below 2^32 add up to less than 2^63, and one times their number is as small.
        let len = quanta.len() as u64;
        let height: u64 = quanta.iter().map(|&quantum| u64::from(quantum)).sum();
        let mut columns: Vec<(u64, u32)> =
            quanta.iter().zip(0..).map(|(&quantum, own)| (u64::from(quantum) * len, own)).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        for (&(own, _), index) in columns.iter().zip(0..) {
            if own < height { small.push(index) } else { large.push(index) }
        }
        // What is left to place always fits: columns below the height need as much as the others have above it.
        while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
            let (low, giver) = (low as usize, high as usize);
            columns[low].1 = high;
            columns[giver].0 -= height - columns[low].0;
            if columns[giver].0 < height {
                large.pop();
                small.push(high);
            }
        }
        Self { height, columns }
    }

    /// Returns an index in proportion to its weight.
    pub(crate) fn draw(&self, rng: &mut ChaCha8Rng) -> u64 {
        // OK because there are fewer than 2^31 columns.
        let column = below(rng, self.columns.len() as u64);
        let (own, other) = self.columns[column as usize];
        if below(rng, self.height) < own { column } else { u64::from(other) }
    }
}

/// Draws without replacement, in constant time on average.
///
/// It draws with replacement and passes over what was taken before, which leaves each draw in proportion to the weights
/// that are left. When more than half of a table's weight is taken, what is left gets a table of its own; so a draw
/// takes two attempts at most on average, and all tables together as long as a few of the first.
#[derive(Debug)]
pub(crate) struct Urn<'a> {
    quanta: &'a [u32],
    first: &'a AliasTable,
    // The table of what was left when it was made, and whose its columns are. None is the first table, of all.
    rest: Option<(AliasTable, Vec<u32>)>,
    taken: Vec<bool>,
    left: u64,
}

impl<'a> Urn<'a> {
    /// Fills the urn with all weights, of which `first` is the table.
    pub(crate) fn new(quanta: &'a [u32], first: &'a AliasTable) -> Self {
        Self { quanta, first, rest: None, taken: vec![false; quanta.len()], left: first.height }
    }

    /// Takes out an index in proportion to its weight among those that are left, of which there is one above 0.
    pub(crate) fn take(&mut self, rng: &mut ChaCha8Rng) -> u64 {
        let height = self.rest.as_ref().map_or(self.first.height, |(table, _)| table.height);
        // OK because weights add up to less than 2^63.
        if self.left * 2 < height {
            self.shrink();
        }
        loop {
            // OK because there are fewer than 2^31 columns, here and below.
            let index = match &self.rest {
                Some((table, columns)) => u64::from(columns[table.draw(rng) as usize]),
                None => self.first.draw(rng),
            };
            if !std::mem::replace(&mut self.taken[index as usize], true) {
                self.left -= u64::from(self.quanta[index as usize]);
                return index;
            }
        }
    }

    fn shrink(&mut self) {
        let is_left = |&index: &u32| !self.taken[index as usize] && 0 < self.quanta[index as usize];
        let columns: Vec<u32> = match self.rest.take() {
            Some((_, columns)) => columns.into_iter().filter(is_left).collect(),
            None => (0..self.quanta.len() as u32).filter(is_left).collect(),
        };
        let quanta: Vec<u32> = columns.iter().map(|&index| self.quanta[index as usize]).collect();
        self.rest = Some((AliasTable::new(&quanta), columns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, plan_rng};

    #[test]
    fn an_alias_table_gives_every_weight_its_exact_share() {
        for quanta in [vec![1], vec![3, 0, 5], vec![u32::MAX, 1, 0, 7, 7], (0..100).collect()] {
            let table = AliasTable::new(&quanta);
            let mut shares = vec![0; quanta.len()];
            for (index, &(own, other)) in table.columns.iter().enumerate() {
                let own = own.min(table.height);
                shares[index] += own;
                shares[other as usize] += table.height - own;
            }
            let expected: Vec<u64> = quanta.iter().map(|&quantum| u64::from(quantum) * quanta.len() as u64).collect();
            assert_eq!(shares, expected);
        }
    }

    #[test]
    fn an_urn_gives_every_weight_above_zero_once() {
        for scale in [1, 1_000, u32::MAX / 40_000] {
            // From even weights to some that are most of the whole.
            let quanta: Vec<u32> =
                (0..200).map(|index| if index % 5 == 0 { 0 } else { 1 + index * index % 997 * (scale - 1) }).collect();
            let table = AliasTable::new(&quanta);
            let mut urn = Urn::new(&quanta, &table);
            let mut rng = plan_rng(Purpose::Weighted, 1, 0);
            let mut taken: Vec<u64> = (0..160).map(|_| urn.take(&mut rng)).collect();
            taken.sort_unstable();
            assert_eq!(taken, (0..200).filter(|index| index % 5 != 0).collect::<Vec<u64>>());
            assert_eq!(urn.left, 0);
        }
    }

    #[test]
    fn every_order_out_of_an_urn_is_as_likely_as_its_weights_say() {
        // The chance of an order is that of its first, times that of its second among the rest, and so on.
        let quanta = [1, 0, 2, 5];
        let table = AliasTable::new(&quanta);
        let mut counts = std::collections::BTreeMap::<[u64; 3], u32>::new();
        for seed in 0..40_000 {
            let (mut urn, mut rng) = (Urn::new(&quanta, &table), plan_rng(Purpose::Weighted, seed, 0));
            *counts.entry(std::array::from_fn(|_| urn.take(&mut rng))).or_default() += 1;
        }
        let mut chi_square = 0.0;
        for (order, count) in counts {
            let [first, second, third] = order.map(|index| f64::from(quanta[index as usize]));
            let mean = 40_000.0 * first / 8.0 * second / (second + third);
            chi_square += (f64::from(count) - mean).powi(2) / mean;
        }
        // Five degrees of freedom: above 20.5 once in a thousand fair urns; these seeds are fixed.
        assert!(chi_square < 20.5, "chi-square {chi_square}");
    }

    #[test]
    fn tiny_weights_keep_a_quantum_and_order() {
        let quanta = quantise(&[1e-300, 1.0, 0.5, 0.0, 2.0]).unwrap();
        assert_eq!(quanta, [1, u32::MAX / 2, u32::MAX / 4, 0, u32::MAX]);
    }
}
