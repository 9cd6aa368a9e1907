//! How well the shuffles of plans shuffle: `cargo bench -p planfetch-plan --bench statistics`.
//!
//! Prints, for Fisher and Yates's shuffle, for the lazy one and for Feistel networks by their number of rounds, how many
//! standard deviations each chi-square test lies from what a uniform shuffle gives. Beyond 4 either way is marked; by
//! chance that is one number in some 16,000.

#![expect(clippy::print_stdout, reason = "a program that prints its measurements")]

#[path = "../tests/plans/chi_square.rs"]
mod chi_square;

use planfetch_plan::{FeistelNetwork, KeyedPermutation, PlanError, PlanProvider, ShuffleOncePerEpochPlanProvider};

use crate::chi_square::Tally;

/// How many permutations of each length.
const LENGTHS: [(usize, u64); 4] = [(10, 400_000), (100, 100_000), (1_000, 20_000), (10_000, 4_000)];

fn main() -> Result<(), PlanError> {
    // `cargo test` runs benchmarks too, without this argument; then they only have to start.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    println!("| shuffle | length | permutations | position | pairs | cycles | first cycle |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (len, num) in LENGTHS {
        row("Fisher–Yates", len, num, |seed| dense(len, seed))?;
    }
    for (len, num) in LENGTHS {
        row("lazy", len, num, |seed| lazy(len, seed))?;
    }
    row("lazy, network", 100_000, 400, |seed| lazy(100_000, seed))?;
    for rounds in [2, 3, 4, 5, 6, 8, 12] {
        for (len, num) in LENGTHS {
            row(&format!("network of {rounds} rounds"), len, num, |seed| Ok(network(len, rounds, seed)))?;
        }
    }
    Ok(())
}

fn dense(len: usize, epoch: u64) -> Result<Vec<u64>, PlanError> {
    let plan = ShuffleOncePerEpochPlanProvider::new(len as u64, 64, 2_026)?.plan(epoch)?;
    Ok(plan.iter().flatten().map(|id| id.0).collect())
}

fn lazy(len: usize, epoch: u64) -> Result<Vec<u64>, PlanError> {
    let plan = ShuffleOncePerEpochPlanProvider::new(len as u64, 64, 2_026)?.with_lazy(true).plan(epoch)?;
    Ok(plan.iter().flatten().map(|id| id.0).collect())
}

fn network(len: usize, rounds: usize, seed: u64) -> Vec<u64> {
    // Round keys that share nothing: the first entries of permutations of 2^63, one for each seed.
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let source = KeyedPermutation::new(1 << 63, key);
    let keys: Vec<u64> = (0..rounds as u64).filter_map(|index| source.at(index)).collect();
    let network = FeistelNetwork::new(len as u64, &keys);
    (0..len as u64).filter_map(|index| network.at(index)).collect()
}

fn row(
    name: &str,
    len: usize,
    num: u64,
    permutation: impl Fn(u64) -> Result<Vec<u64>, PlanError>,
) -> Result<(), PlanError> {
    let mut tally = Tally::new(len);
    for seed in 0..num {
        tally.add(&permutation(seed)?);
    }
    let scores = tally.scores().map(|(_, score)| match score {
        score if score.abs() <= 4.0 => format!("{score:+.2}"),
        score => format!("**{score:+.2}**"),
    });
    println!("| {name} | {len} | {num} | {} |", scores.join(" | "));
    Ok(())
}
