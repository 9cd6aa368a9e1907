//! Random numbers that are the same on every platform and in every version.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Names what random numbers are for, so that two uses of one seed never share a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The permutation of [`ShuffleOncePerEpochPlanProvider`](crate::ShuffleOncePerEpochPlanProvider).
    Shuffle = 1,
    /// The permutation of a lazy shuffle.
    LazyShuffle = 2,
    /// The order of one pass over one class, the class being the stream.
    ClassPass = 3,
    /// Which batches get one more sample of a class than others.
    BatchOrder = 4,
    /// Which slot of its batch a sample is put in.
    SlotOrder = 5,
    /// The draws of [`WeightedPlanProvider`](crate::WeightedPlanProvider).
    Weighted = 6,
    /// The order of the samples that [`CurriculumPlanProvider`](crate::CurriculumPlanProvider) has opened.
    Curriculum = 7,
    /// The order within each bucket, the bucket being the stream.
    Bucket = 8,
    /// The order of the batches that the buckets were cut into.
    BucketBatches = 9,
}

/// Returns the generator for one purpose of one epoch.
///
/// The three numbers are laid into the 256-bit key of ChaCha8 as they are, so that no two triples share a key.
pub(crate) fn plan_rng(purpose: Purpose, seed: u64, epoch: u64) -> ChaCha8Rng {
    ChaCha8Rng::from_seed(plan_key(purpose, seed, epoch))
}

/// Returns one of 2^64 generators for one purpose of one epoch: the nonce of ChaCha8 is `stream`.
pub(crate) fn stream_rng(purpose: Purpose, seed: u64, epoch: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = plan_rng(purpose, seed, epoch);
    rng.set_stream(stream);
    rng
}

/// Returns the key that [`plan_rng`] starts from.
pub(crate) fn plan_key(purpose: Purpose, seed: u64, epoch: u64) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(b"planview");
    key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
    key[16..24].copy_from_slice(&seed.to_le_bytes());
    key[24..].copy_from_slice(&epoch.to_le_bytes());
    key
}

/// Returns a uniform number in `0..bound`, without bias.
///
/// The multiplication method with rejection: D. Lemire, "Fast Random Integer Generation in an Interval",
/// ACM Transactions on Modeling and Computer Simulation 29(1), 2019. Bounds up to `u32::MAX` draw 32 bits at a time,
/// larger ones 64.
pub(crate) fn below(rng: &mut ChaCha8Rng, bound: u64) -> u64 {
    debug_assert!(0 < bound, "an empty range has no number");
    match u32::try_from(bound) {
        Ok(bound) => u64::from(below_u32(rng, bound)),
        Err(_) => below_u64(rng, bound),
    }
}

fn below_u32(rng: &mut ChaCha8Rng, bound: u32) -> u32 {
    let mut product = u64::from(rng.next_u32()) * u64::from(bound);
    // The low half is below the bound only rarely; only then is the division needed that finds the threshold.
    if (product as u32) < bound {
        let threshold = bound.wrapping_neg() % bound;
        while (product as u32) < threshold {
            product = u64::from(rng.next_u32()) * u64::from(bound);
        }
    }
    (product >> 32) as u32
}

fn below_u64(rng: &mut ChaCha8Rng, bound: u64) -> u64 {
    let mut product = u128::from(rng.next_u64()) * u128::from(bound);
    if (product as u64) < bound {
        let threshold = bound.wrapping_neg() % bound;
        while (product as u64) < threshold {
            product = u128::from(rng.next_u64()) * u128::from(bound);
        }
    }
    (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_their_bound_and_reach_every_value() {
        let mut rng = plan_rng(Purpose::Shuffle, 7, 0);
        for bound in [1, 2, 3, 5, 8, 13] {
            let mut seen = vec![0_u32; bound as usize];
            for _ in 0..bound * 1_000 {
                seen[below(&mut rng, bound) as usize] += 1;
            }
            // Six standard deviations of a binomial count with mean 1,000.
            assert!(seen.iter().all(|&n| (810..=1_190).contains(&n)), "bound {bound}: {seen:?}");
        }
    }

    #[test]
    fn bounds_beyond_32_bits_are_uniform_too() {
        let mut rng = plan_rng(Purpose::Shuffle, 7, 1);
        let bound = 3_u64 << 62;
        let low = (0..3_000).filter(|_| below(&mut rng, bound) < bound / 3).count();
        assert!((845..=1_155).contains(&low), "{low} of 3,000 in the lowest third");
    }

    #[test]
    fn seeds_epochs_and_purposes_do_not_share_a_stream() {
        let first = |seed, epoch| plan_rng(Purpose::Shuffle, seed, epoch).next_u64();
        let all = [first(0, 0), first(0, 1), first(1, 0), first(1, 1), first(1 << 32, 0)];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
