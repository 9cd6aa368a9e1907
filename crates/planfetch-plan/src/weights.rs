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

/// Draws without replacement in logarithmic time: a tree of sums.
///
/// P. M. Fenwick, "A New Data Structure for Cumulative Frequency Tables", Software: Practice and Experience 24(3),
/// 1994. Entry `i` (from 1) is the sum of as many weights up to `i` as its lowest set bit says.
#[derive(Debug)]
pub(crate) struct WeightTree<'a> {
    quanta: &'a [u32],
    sums: Vec<u64>,
    left: u64,
}

impl<'a> WeightTree<'a> {
    /// Makes the tree of fewer than 2^31 weights.
    pub(crate) fn new(quanta: &'a [u32]) -> Self {
        let mut sums = vec![0; quanta.len() + 1];
        for index in 1..sums.len() {
            sums[index] += u64::from(quanta[index - 1]);
            let parent = index + (index & index.wrapping_neg());
            if parent < sums.len() {
                sums[parent] += sums[index];
            }
        }
        Self { quanta, sums, left: quanta.iter().map(|&quantum| u64::from(quantum)).sum() }
    }

    /// Returns an index in proportion to its weight among those that are left, of which there is one, and takes it out.
    pub(crate) fn take(&mut self, rng: &mut ChaCha8Rng) -> u64 {
        let mut target = below(rng, self.left);
        let mut before = 0;
        let mut stride = (self.sums.len() - 1).checked_ilog2().map_or(0, |bits| 1 << bits);
        // Ends with the number of weights whose sum does not exceed the target, so that the next holds it.
        while 0 < stride {
            let next = before + stride;
            if next < self.sums.len() && self.sums[next] <= target {
                target -= self.sums[next];
                before = next;
            }
            stride /= 2;
        }
        let weight = u64::from(self.quanta[before]);
        self.left -= weight;
        let mut index = before + 1;
        while index < self.sums.len() {
            self.sums[index] -= weight;
            index += index & index.wrapping_neg();
        }
        // OK because an index fits in 64 bits.
        before as u64
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
    fn a_tree_takes_every_weight_above_zero_once() {
        let quanta: Vec<u32> = (0..37).map(|index| if index % 5 == 0 { 0 } else { index * index }).collect();
        let mut tree = WeightTree::new(&quanta);
        let mut rng = plan_rng(Purpose::Weighted, 1, 0);
        let mut taken: Vec<u64> =
            (0..quanta.iter().filter(|&&quantum| 0 < quantum).count()).map(|_| tree.take(&mut rng)).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..37).filter(|index| index % 5 != 0).collect::<Vec<u64>>());
        assert_eq!(tree.left, 0);
    }

    #[test]
    fn the_first_take_is_in_proportion_to_the_weights() {
        let quanta = [1, 0, 2, 5];
        let mut counts = [0_u32; 4];
        let mut rng = plan_rng(Purpose::Weighted, 2, 0);
        for _ in 0..8_000 {
            counts[WeightTree::new(&quanta).take(&mut rng) as usize] += 1;
        }
        let close = |count: u32, mean: u32| count.abs_diff(mean) < 220;
        assert!(counts[1] == 0 && close(counts[0], 1_000) && close(counts[2], 2_000) && close(counts[3], 5_000));
    }

    #[test]
    fn tiny_weights_keep_a_quantum_and_order() {
        let quanta = quantise(&[1e-300, 1.0, 0.5, 0.0, 2.0]).unwrap();
        assert_eq!(quanta, [1, u32::MAX / 2, u32::MAX / 4, 0, u32::MAX]);
    }
}
