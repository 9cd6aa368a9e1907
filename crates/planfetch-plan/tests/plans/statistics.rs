//! Whether shuffles shuffle. The book's page on permutations has the long table; these are fixed seeds.

use planfetch_plan::{FeistelNetwork, PlanProvider, ShuffleOncePerEpochPlanProvider};

use crate::chi_square::Tally;
use crate::flat;

/// Beyond 4.5 standard deviations lies one number in some 150,000.
#[track_caller]
fn assert_uniform(name: &str, len: usize, num: u64, permutation: impl Fn(u64) -> Vec<u64>) {
    let mut tally = Tally::new(len);
    (0..num).for_each(|seed| tally.add(&permutation(seed)));
    for (test, score) in tally.scores() {
        assert!(score.abs() < 4.5, "{name} of {len}: {test} lies {score:.2} standard deviations off");
    }
}

#[test]
fn the_shuffle_is_uniform_in_position_pairs_and_cycles() {
    for (len, num) in [(10, 20_000), (100, 5_000), (1_000, 1_000), (10_000, 200)] {
        for lazy in [false, true] {
            let provider = ShuffleOncePerEpochPlanProvider::new(len as u64, 64, 5).unwrap().with_lazy(lazy);
            assert_uniform(if lazy { "lazy" } else { "dense" }, len, num, |epoch| flat(&provider.plan(epoch).unwrap()));
        }
    }
}

#[test]
fn seeds_shuffle_as_epochs_do() {
    assert_uniform("seeds", 100, 5_000, |seed| {
        flat(&ShuffleOncePerEpochPlanProvider::new(100, 64, seed).unwrap().with_lazy(true).plan(0).unwrap())
    });
}

fn network(rounds: u64, len: u64, seed: u64) -> Vec<u64> {
    let keys: Vec<u64> = (0..rounds)
        .map(|round| {
            (seed * rounds + round + 1)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
                .wrapping_mul(0xD6E8_FEB8_6659_FD93)
        })
        .collect();
    let network = FeistelNetwork::new(len, &keys);
    (0..len).map(|index| network.at(index).expect("index below len")).collect()
}

#[test]
fn a_network_of_eight_rounds_is_uniform_far_below_the_lengths_it_is_used_at() {
    for (len, num) in [(100, 5_000), (1_000, 1_000), (10_000, 200)] {
        assert_uniform("network", len, num, |seed| network(8, len as u64, seed));
    }
    // As used: the shortest lazy plan without a table, to the next length that the tests take.
    let provider = ShuffleOncePerEpochPlanProvider::new(70_000, 64, 5).unwrap().with_lazy(true);
    assert_uniform("lazy", 70_000, 40, |epoch| flat(&provider.plan(epoch).unwrap()));
}

#[test]
fn the_tests_can_fail() {
    // Three rounds are too few, and a rotation is no shuffle.
    for bad in [|seed| network(3, 100, seed), |seed: u64| (0..100).map(|index| (index + seed) % 100).collect()] {
        let mut tally = Tally::new(100);
        (0..2_000).for_each(|seed| tally.add(&bad(seed)));
        assert!(tally.scores().iter().any(|(_, score)| 10.0 < *score));
    }
}
