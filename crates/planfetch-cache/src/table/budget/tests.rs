//! The budget against its limits, and against the best that any policy could do.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;

fn key(n: u64) -> ObjectKey {
    ObjectKey::new("", &format!("s3://b/{n}"), None)
}

fn stamp(len: u64) -> Stamp {
    Stamp { len, crc: 0 }
}

fn limits(mode: EvictionMode, max_files: u64) -> Limits {
    Limits { max_files, mode, ..Limits::NONE }
}

/// Runs a sequence of uses through a budget of `room` files, each of which is given up when it has been used, and counts
/// the hits of each epoch. `next` says when the object used at a place is used next.
fn hits(mode: EvictionMode, room: u64, uses: &[u64], next: impl Fn(usize) -> NextUse, epoch: usize) -> Vec<u64> {
    let mut budget = Budget::new(limits(mode, room));
    let mut local: BTreeMap<ObjectKey, Rank> = BTreeMap::new();
    let mut hits = vec![0; uses.len().div_ceil(epoch)];
    for (at, id) in uses.iter().enumerate() {
        let key = key(*id);
        if let Some(rank) = local.remove(&key) {
            budget.leave(rank, key);
            hits[at / epoch] += 1;
        } else {
            let Room::Granted(victims) = budget.make_room(Amount::file(1), Duration::ZERO) else {
                panic!("all files may go")
            };
            for (victim, stamp) in victims {
                local.remove(&victim);
                budget.deleted(stamp);
            }
        }
        let rank = budget.rank(next(at));
        budget.enter(rank, key, stamp(1), Duration::ZERO);
        local.insert(key, rank);
        assert!(budget.used().files <= room);
    }
    hits
}

/// Belady's optimum, computed without a budget: on a miss with no room, the object whose next use is farthest goes.
fn optimum(room: u64, uses: &[u64]) -> u64 {
    let next = next_uses(uses);
    let mut local: BTreeMap<u64, usize> = BTreeMap::new();
    let mut hits = 0;
    for (at, id) in uses.iter().enumerate() {
        if local.remove(id).is_some() {
            hits += 1;
        } else if local.len() as u64 == room {
            let farthest = *local.iter().max_by_key(|(_, next)| **next).expect("there is room for one").0;
            local.remove(&farthest);
        }
        local.insert(*id, next[at]);
    }
    hits
}

fn next_uses(uses: &[u64]) -> Vec<usize> {
    let mut seen = BTreeMap::new();
    let mut next = vec![usize::MAX; uses.len()];
    for (at, id) in uses.iter().enumerate().rev() {
        if let Some(later) = seen.insert(*id, at) {
            next[at] = later;
        }
    }
    next
}

fn shuffled(n: u64, rng: &mut ChaCha8Rng) -> Vec<u64> {
    let mut ids: Vec<u64> = (0..n).collect();
    for i in (1..ids.len()).rev() {
        // OK because the bias of a test's shuffle is far below what it measures.
        ids.swap(i, (rng.next_u64() % (i as u64 + 1)) as usize);
    }
    ids
}

fn at(next: usize) -> NextUse {
    if next == usize::MAX { NextUse::Unknown } else { NextUse::At(next as u64) }
}

#[test]
fn with_a_new_permutation_each_epoch_as_many_hits_come_as_there_is_room_for() {
    const N: u64 = 2_000;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let uses: Vec<u64> = (0..5).flat_map(|_| shuffled(N, &mut rng)).collect();
    let next = next_uses(&uses);
    // The share of the data that there is room for, and what is left to those who do not know the future.
    for (c, lru) in [(0.25, 0.035), (0.5, 0.15), (0.75, 0.41)] {
        let room = (c * N as f64) as u64;
        let ratio = |hits: &[u64]| hits[1..4].iter().sum::<u64>() as f64 / (3 * N) as f64;
        let clairvoyant = ratio(&hits(EvictionMode::Clairvoyant, room, &uses, |i| at(next[i]), N as usize));
        assert!(c - 0.02 <= clairvoyant && clairvoyant <= c + 0.001, "{clairvoyant} with room for {c}");
        let pressure = ratio(&hits(EvictionMode::Pressure, room, &uses, |i| at(next[i]), N as usize));
        assert!((pressure - lru).abs() < 0.02, "{pressure} with room for {c}");
    }
}

proptest! {
    #[test]
    fn no_policy_has_more_hits_than_clairvoyant(
        uses in prop::collection::vec(0_u64..12, 1..200), room in 1_u64..12
    ) {
        let next = next_uses(&uses);
        let all = uses.len();
        let clairvoyant = hits(EvictionMode::Clairvoyant, room, &uses, |i| at(next[i]), all)[0];
        prop_assert_eq!(clairvoyant, optimum(room, &uses));
        prop_assert!(hits(EvictionMode::Pressure, room, &uses, |i| at(next[i]), all)[0] <= clairvoyant);
    }

    #[test]
    fn the_limit_is_never_exceeded_and_room_that_is_granted_was_made(
        max_bytes in 1_u64..60,
        max_files in 1_u64..8,
        low_watermark in 0.1..1.0,
        mode in prop::sample::select(vec![EvictionMode::Window, EvictionMode::Pressure, EvictionMode::Clairvoyant]),
        ops in prop::collection::vec((0_u8..5, 0_u64..20, 0_u64..30), 1..80),
    ) {
        let limits = Limits { max_bytes, max_files, low_watermark, mode, ..Limits::NONE };
        let mut budget = Budget::new(limits);
        // Files by what may become of them.
        let mut kept: BTreeMap<ObjectKey, Stamp> = BTreeMap::new();
        let mut evictable: BTreeMap<ObjectKey, (Rank, Stamp)> = BTreeMap::new();
        let mut doomed: BTreeSet<ObjectKey> = BTreeSet::new();
        let mut deleting: Vec<Stamp> = Vec::new();
        for (i, (op, len, next)) in ops.into_iter().enumerate() {
            match op {
                0 | 1 => {
                    let could = budget.could_hold(Amount::file(len));
                    match budget.make_room(Amount::file(len), Duration::ZERO) {
                        Room::Granted(victims) => {
                            for (victim, stamp) in victims {
                                prop_assert!(evictable.remove(&victim).is_some() || doomed.remove(&victim));
                                budget.deleted(stamp);
                            }
                            kept.insert(key(i as u64), stamp(len));
                        }
                        Room::Wait => prop_assert!(!deleting.is_empty()),
                        Room::Full => prop_assert!(!could),
                    }
                }
                2 => if let Some((key, stamp)) = kept.pop_first() {
                    let rank = budget.rank(NextUse::At(next));
                    budget.enter(rank, key, stamp, Duration::ZERO);
                    evictable.insert(key, (rank, stamp));
                },
                3 => if let Some((key, (rank, stamp))) = evictable.pop_last() {
                    budget.leave(rank, key);
                    budget.doom(key, stamp);
                    doomed.insert(key);
                },
                _ => {
                    for (key, stamp) in budget.take_doomed(1) {
                        prop_assert!(doomed.remove(&key));
                        deleting.push(stamp);
                    }
                    if 1 < deleting.len() {
                        budget.deleted(deleting.remove(0));
                    }
                }
            }
            let used = budget.used();
            prop_assert!(used.bytes <= max_bytes && used.files <= max_files, "{:?}", used);
            prop_assert_eq!(used.files, (kept.len() + evictable.len() + doomed.len() + deleting.len()) as u64);
        }
    }
}

#[test]
fn pressure_makes_more_room_at_once_and_the_others_no_more_than_is_needed() {
    for (mode, gone) in [(EvictionMode::Pressure, 6), (EvictionMode::Window, 1), (EvictionMode::Clairvoyant, 1)] {
        let mut budget = Budget::new(Limits { low_watermark: 0.5, ..limits(mode, 10) });
        for n in 0..10 {
            assert_eq!(budget.make_room(Amount::file(1), Duration::ZERO), Room::Granted(Vec::new()));
            let rank = budget.rank(NextUse::Unknown);
            budget.enter(rank, key(n), stamp(1), Duration::ZERO);
        }
        let Room::Granted(victims) = budget.make_room(Amount::file(1), Duration::ZERO) else { panic!("room") };
        assert_eq!(victims.len(), gone, "{mode}");
        // The least recently used are the first.
        assert_eq!(victims[0].0, key(0));
    }
}

#[test]
fn young_files_stay() {
    let mut budget = Budget::new(Limits { min_age: Duration::from_secs(10), ..limits(EvictionMode::Pressure, 2) });
    let at = Duration::from_secs;
    for n in 0..2 {
        budget.add(Amount::file(1));
        let rank = budget.rank(NextUse::Unknown);
        budget.enter(rank, key(n), stamp(1), at(5 * n));
    }
    assert_eq!(budget.make_room(Amount::file(1), at(9)), Room::Full);
    assert_eq!(budget.surplus(Amount::default(), at(9)), []);
    assert_eq!(budget.make_room(Amount::file(1), at(12)), Room::Granted(vec![(key(0), stamp(1))]));
}
