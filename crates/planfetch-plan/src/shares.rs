//! How many slots of each batch a class or a source gets, when its share of a batch is not a whole number.
//!
//! A class with weight `w` of a total `W` has a share of `b * w / W` slots in a batch of `b`. Each batch gives it the
//! whole part of that, and some batches one slot more. Which ones is decided on a circle of `W` points: the fractional
//! parts of all classes are arcs laid end to end around it, as often as it takes, and a batch is a point of the circle.
//! It gives one more to every class whose arcs cover its point. The arcs' lengths add up to a whole number of
//! rounds, so every point is covered by the same number of arcs, and every batch comes out full: exactly, and each
//! class within one of its share. This is systematic sampling: W. G. Madow, "On the Theory of Systematic Sampling, II",
//! Annals of Mathematical Statistics 20(3), 1949.
//!
//! Over the epochs the point moves by the golden section of the circle, which spreads any number of batches evenly, so
//! that classes get what they are due over time; and since how many points of an arithmetic progression lie on an arc
//! can be computed without walking them, any epoch can tell how far each class's stream had come before it.

use std::fmt;
use std::ops::Range;

use crate::rng::{Purpose, below, stream_rng};

/// The weights of classes or sources.
#[derive(Clone)]
pub(crate) struct Shares {
    weights: Vec<u64>,
    // Invariants: the sum of the weights, below 2^63.
    total: u64,
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shares({} of {} in all)", self.weights.len(), self.total)
    }
}

/// What one class gets in a run of batches.
#[derive(Debug)]
pub(crate) struct Due {
    /// The slots in every batch.
    pub(crate) base: u64,
    /// Indices into [`Rows::order`] of the batches that give one more.
    pub(crate) extra: [Range<usize>; 2],
    /// The slots in all batches of earlier runs.
    pub(crate) before: u128,
}

/// The batches of one size of a run, each a point of the circle.
#[derive(Debug)]
pub(crate) struct Rows {
    /// The batches, counted from the run's first, in the order of their points.
    pub(crate) order: Vec<u32>,
    points: Vec<u64>,
    /// Where the next class's arc begins, and how many points of earlier runs lie before that place of the circle.
    arc_start: u64,
    points_before: u128,
    batch_size: u64,
    walk: Walk,
    // All batches of earlier runs, modulo the circle, and how many rounds of it they made.
    earlier: u64,
    rounds: u128,
}

/// An arithmetic progression around the circle.
#[derive(Clone, Copy, Debug)]
struct Walk {
    total: u64,
    start: u64,
    stride: u64,
}

impl Shares {
    /// Makes shares in proportion to `weights`, whose sum is above 0 and below 2^63.
    pub(crate) fn new(weights: Vec<u64>) -> Self {
        let total = weights.iter().sum();
        Self { weights, total }
    }

    pub(crate) fn weights(&self) -> &[u64] {
        &self.weights
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the whole part and the numerator of the fractional part of a class's share in a batch of `batch_size`.
    fn share(&self, class: usize, batch_size: u64) -> (u64, u64) {
        let product = u128::from(batch_size) * u128::from(self.weights[class]);
        // OK because a class weighs at most the total, so its share is at most the batch.
        ((product / u128::from(self.total)) as u64, (product % u128::from(self.total)) as u64)
    }

    /// Returns batches `first..first + len` of the endless run of batches of `batch_size`.
    ///
    /// Runs with another `family` are walks of their own. `len` is below 2^32.
    pub(crate) fn rows(&self, seed: u64, family: u64, batch_size: u64, first: u128, len: usize) -> Rows {
        let mut rng = stream_rng(Purpose::BatchOrder, seed, 0, family);
        let walk = Walk { total: self.total, start: below(&mut rng, self.total), stride: golden_stride(self.total) };
        let total = u128::from(self.total);
        // OK because a remainder of the total is below it.
        let (earlier, rounds) = ((first % total) as u64, first / total);
        let mut point = walk.at(earlier);
        let mut points = Vec::with_capacity(len);
        for row in 0..len {
            // OK because the caller bounds the number of rows.
            points.push((point, row as u32));
            point = walk.after(point);
        }
        points.sort_unstable();
        let (points, order) = points.into_iter().unzip();
        Rows { order, points, arc_start: 0, points_before: 0, batch_size, walk, earlier, rounds }
    }

    /// Returns what `class` gets in `rows`. Classes are asked for in ascending order, each once.
    pub(crate) fn due(&self, class: usize, rows: &mut Rows) -> Due {
        let (base, fraction) = self.share(class, rows.batch_size);
        let start = rows.arc_start;
        let end = start + fraction;
        let earlier_before = rows.points_before;
        let index = |place: u64| rows.points.partition_point(|&point| point < place);
        let all = rows.points.len();
        let (extra, earlier) = if end < self.total {
            let before_end = if fraction == 0 { earlier_before } else { rows.walk.points_below(end, rows.earlier) };
            let extra = [index(start)..index(end), all..all];
            rows.points_before = before_end;
            (extra, before_end - earlier_before)
        } else {
            let end = end - self.total;
            let before_end = rows.walk.points_below(end, rows.earlier);
            let extra = [index(start)..all, 0..index(end)];
            rows.points_before = before_end;
            (extra, u128::from(rows.earlier) - earlier_before + before_end)
        };
        rows.arc_start = if end < self.total { end } else { end - self.total };
        let batches = rows.rounds * u128::from(self.total) + u128::from(rows.earlier);
        // Every full round of the circle meets each arc at each of its points.
        let before = batches * u128::from(base) + rows.rounds * u128::from(fraction) + earlier;
        Due { base, extra, before }
    }
}

impl Walk {
    /// Returns the point number `index`.
    fn at(self, index: u64) -> u64 {
        let total = u128::from(self.total);
        // OK because a remainder of the total is below it.
        ((u128::from(self.start) + u128::from(index) * u128::from(self.stride)) % total) as u64
    }

    fn after(self, point: u64) -> u64 {
        let next = point + self.stride;
        if self.total <= next { next - self.total } else { next }
    }

    /// Returns how many of the first `len` points lie below `place`, which is at most the total.
    ///
    /// A point `y` modulo `W` lies below `x` just when `floor(y / W)` and `floor((y - x) / W)` differ, by one.
    fn points_below(self, place: u64, len: u64) -> u128 {
        let (total, start, stride) = (u128::from(self.total), u128::from(self.start), u128::from(self.stride));
        let len = u128::from(len);
        let whole = floor_sum(len, total, stride, start);
        let shifted = floor_sum(len, total, stride, start + total - u128::from(place));
        // The sums may have wrapped; their difference is at most `len` and has not.
        whole.wrapping_add(len).wrapping_sub(shifted)
    }
}

/// Returns a number near the golden section of `total` that shares no divisor with it.
fn golden_stride(total: u64) -> u64 {
    // OK because the high half of a product with `total` is below it.
    let mut stride = ((u128::from(total) * 0x9E37_79B9_7F4A_7C15) >> 64) as u64;
    stride = stride.max(1).min(total);
    while gcd(stride, total) != 1 {
        // It ends at the latest at `total - 1`, a neighbour of `total`, or at 1 for a total of 1 or 2.
        stride += 1;
    }
    if stride == total { 0 } else { stride }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the sum of `floor((a * i + b) / m)` over `i` in `0..n`, modulo 2^128, in logarithmic time.
///
/// Euclid's algorithm on the lattice points under a line: R. L. Graham, D. E. Knuth, O. Patashnik, "Concrete
/// Mathematics", 2nd edition, section 3.5. `n`, `m` and `a` are below 2^63 and `b` below 2^64.
fn floor_sum(mut n: u128, mut m: u128, mut a: u128, mut b: u128) -> u128 {
    let mut sum = 0_u128;
    loop {
        let pairs =
            if n.is_multiple_of(2) { (n / 2).wrapping_mul(n.wrapping_sub(1)) } else { n.wrapping_mul((n - 1) / 2) };
        sum = sum.wrapping_add(pairs.wrapping_mul(a / m)).wrapping_add(n.wrapping_mul(b / m));
        a %= m;
        b %= m;
        let top = a * n + b;
        if top < m {
            return sum;
        }
        (n, b) = (top / m, top % m);
        (m, a) = (a, m);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn floor_sums_agree_with_adding_up(n in 0_u128..60, m in 1_u128..50, a in 0_u128..120, b in 0_u128..120) {
            prop_assert_eq!(floor_sum(n, m, a, b), (0..n).map(|i| (a * i + b) / m).sum::<u128>());
        }

        #[test]
        fn every_batch_is_full_and_every_class_within_one_of_its_share(
            weights in proptest::collection::vec(0_u64..30, 1..12),
            batch_size in 1_u64..40,
            cuts in proptest::collection::vec(0_usize..15, 1..8),
            seed: u64,
        ) {
            prop_assume!(weights.iter().sum::<u64>() > 0);
            let shares = Shares::new(weights.clone());
            let mut totals = vec![0_u128; weights.len()];
            let mut first = 0;
            for len in cuts {
                let mut rows = shares.rows(seed, 0, batch_size, first, len);
                let mut filled = vec![0; len];
                for (class, &weight) in weights.iter().enumerate() {
                    let due = shares.due(class, &mut rows);
                    prop_assert_eq!(due.before, totals[class], "class {} before batch {}", class, first);
                    let mut counts = vec![due.base; len];
                    for range in due.extra {
                        rows.order[range].iter().for_each(|&row| counts[row as usize] += 1);
                    }
                    for (row, count) in counts.into_iter().enumerate() {
                        // |count - batch_size * weight / total| < 1, in whole numbers.
                        let total = shares.total();
                        prop_assert!((count * total).abs_diff(batch_size * weight) < total);
                        filled[row] += count;
                        totals[class] += u128::from(count);
                    }
                }
                prop_assert!(filled.iter().all(|&filled| filled == batch_size), "{:?}", filled);
                first += len as u128;
            }
        }

        #[test]
        fn classes_get_exactly_their_share_over_a_round_of_the_circle(
            weights in proptest::collection::vec(0_u64..20, 1..6), batch_size in 1_u64..20, seed: u64, round in 0_u64..1_000_000
        ) {
            prop_assume!(weights.iter().sum::<u64>() > 0);
            let shares = Shares::new(weights.clone());
            let first = u128::from(round) * u128::from(shares.total());
            let mut rows = shares.rows(seed, 0, batch_size, first, 0);
            for (class, weight) in weights.iter().enumerate() {
                let due = shares.due(class, &mut rows);
                prop_assert_eq!(due.before, u128::from(round) * u128::from(batch_size * weight));
            }
        }
    }
}
