//! The table against a model: random operations, and after each what must hold.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::error::CacheErrorKind;

const KEYS: u8 = 5;

fn key(n: u8) -> ObjectKey {
    ObjectKey::new("", &uri(n))
}

fn uri(n: u8) -> String {
    format!("s3://b/{n}")
}

fn stamp(n: u8) -> Stamp {
    Stamp { len: u64::from(n) + 1, crc: u32::from(n) }
}

fn failure() -> Outcome {
    Outcome::Failed(CacheError::new(CacheErrorKind::Unavailable, "no store"))
}

type Effects = Vec<Effect<u32, Ticket>>;

fn started(effects: &Effects) -> Vec<ObjectKey> {
    effects.iter().filter_map(|effect| if let Effect::Start(fetch) = effect { Some(fetch.key) } else { None }).collect()
}

#[test]
fn demanded_objects_overtake_prefetched_ones_which_go_in_order() {
    let mut table = Table::<u32, Ticket>::new(1, []);
    let mut effects = Effects::new();
    (0..5).for_each(|n| table.hold(key(n), &uri(n), &mut effects));
    assert!(table.demand(key(3), &uri(3), 0, &mut effects).is_none());
    for _ in 0..4 {
        table.slot_freed(&mut effects);
    }
    assert_eq!(started(&effects), [0, 3, 1, 2, 4].map(key));
}

#[test]
fn an_object_that_was_given_up_and_asked_for_again_takes_its_new_place() {
    let mut table = Table::<u32, Ticket>::new(1, []);
    let mut effects = Effects::new();
    (0..4).for_each(|n| table.hold(key(n), &uri(n), &mut effects));
    table.release(key(1), false, &mut effects);
    table.hold(key(1), &uri(1), &mut effects);
    for _ in 0..3 {
        table.slot_freed(&mut effects);
    }
    assert_eq!(started(&effects), [0, 2, 3, 1].map(key));
}

#[test]
fn places_that_were_given_up_do_not_pile_up() {
    let mut table = Table::<u32, Ticket>::new(1, []);
    let mut effects = Effects::new();
    for _ in 0..10_000 {
        (0..KEYS).for_each(|n| table.hold(key(n), &uri(n), &mut effects));
        (1..KEYS).for_each(|n| table.release(key(n), false, &mut effects));
    }
    assert!(table.prefetched.len() < 200, "{} places for {KEYS} objects", table.prefetched.len());
}

#[test]
fn what_can_not_be_written_is_kept_for_who_wanted_it_and_not_fetched_twice() {
    let mut table = Table::<u32, Ticket>::new(8, []);
    table.max_kept_bytes = 3;
    let mut effects = Effects::new();
    table.hold(key(0), &uri(0), &mut effects);
    assert!(table.begin_commit(key(0), 0));
    table.finish(key(0), 0, Outcome::Unwritten(Bytes::from_static(b"abc")), &mut effects);
    table.slot_freed(&mut effects);
    assert!(table.is_local(key(0)));
    assert!(matches!(table.demand(key(0), &uri(0), 7, &mut effects), Some((Hit::Memory(_), 7))));
    // There is no room for more, so nothing is prefetched that would be thrown away; demands go on.
    effects.clear();
    table.hold(key(1), &uri(1), &mut effects);
    assert!(started(&effects).is_empty());
    assert!(table.demand(key(2), &uri(2), 8, &mut effects).is_none());
    assert_eq!(started(&effects), [key(2)]);
    table.release(key(0), true, &mut effects);
    assert_eq!(started(&effects), [key(2), key(1)]);
}

#[test]
fn many_requests_for_one_object_are_one_fetch() {
    let mut table = Table::<u32, Ticket>::new(8, []);
    let mut effects = Effects::new();
    table.hold(key(0), &uri(0), &mut effects);
    for waiter in 0..10 {
        assert!(table.demand(key(0), &uri(0), waiter, &mut effects).is_none());
    }
    assert_eq!(started(&effects).len(), 1);
    effects.clear();
    table.finish(key(0), 0, Outcome::Stored(stamp(0)), &mut effects);
    let answered: Vec<u32> = effects
        .iter()
        .filter_map(|effect| if let Effect::Answer(waiter, ..) = effect { Some(*waiter) } else { None })
        .collect();
    assert_eq!(answered, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_file_goes_only_when_its_last_hold_and_its_last_pin_are_gone() {
    let mut table = Table::<u32, Ticket>::new(8, []);
    let mut effects = Effects::new();
    table.hold(key(0), &uri(0), &mut effects);
    table.hold(key(0), &uri(0), &mut effects);
    table.finish(key(0), 0, Outcome::Stored(stamp(0)), &mut effects);
    assert!(table.demand(key(0), &uri(0), 0, &mut effects).is_some());
    effects.clear();
    table.release(key(0), true, &mut effects);
    table.release(key(0), true, &mut effects);
    assert!(effects.is_empty(), "{effects:?}");
    table.unpin(key(0), &mut effects);
    assert!(matches!(effects[..], [Effect::Remove(..)]), "{effects:?}");
}

#[test]
fn a_file_found_on_disk_is_checked_before_it_is_handed_out() {
    let mut table = Table::<u32, Ticket>::new(8, [(key(0), stamp(0))]);
    let mut effects = Effects::new();
    assert_eq!(table.local_files(), 1);
    assert!(table.demand(key(0), &uri(0), 0, &mut effects).is_none());
    let [Effect::Start(fetch)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((fetch.existing, &*fetch.uri), (Some(stamp(0)), "s3://b/0"));
}

/// What a test does to the table.
#[derive(Clone, Debug)]
enum Op {
    Demand(u8),
    Hold(u8),
    Release(u8, bool),
    Unpin(u8),
    /// Some running fetch says that it has a handle, may commit, ended well, badly, or without a place on disk.
    Handle(usize),
    Commit(usize),
    Store(usize),
    Fail(usize),
    Unwritten(usize),
    /// A file has been deleted.
    Removed(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..KEYS).prop_map(Op::Demand),
        4 => (0..KEYS).prop_map(Op::Hold),
        4 => ((0..KEYS), any::<bool>()).prop_map(|(n, evict)| Op::Release(n, evict)),
        3 => (0..KEYS).prop_map(Op::Unpin),
        2 => any::<usize>().prop_map(Op::Handle),
        2 => any::<usize>().prop_map(Op::Commit),
        4 => any::<usize>().prop_map(Op::Store),
        1 => any::<usize>().prop_map(Op::Fail),
        1 => any::<usize>().prop_map(Op::Unwritten),
        3 => any::<usize>().prop_map(Op::Removed),
    ]
}

/// The world around the table: what was asked for, which fetches run, which files exist.
#[derive(Default)]
struct World {
    holds: [u32; KEYS as usize],
    pins: [u32; KEYS as usize],
    waiting: BTreeMap<u32, u8>,
    next_waiter: u32,
    running: BTreeMap<Ticket, Fetch>,
    stopped: BTreeSet<Ticket>,
    committing: BTreeSet<Ticket>,
    /// Files on disk, those that were found there included.
    files: BTreeSet<u8>,
    removing: Vec<ObjectKey>,
}

impl World {
    fn number(key_to_find: ObjectKey) -> u8 {
        (0..KEYS).find(|&n| key(n) == key_to_find).expect("only these keys are used")
    }

    fn apply(&mut self, effects: &mut Effects, max_running: usize) {
        for effect in effects.drain(..) {
            match effect {
                Effect::Start(fetch) => {
                    let twin = self
                        .running
                        .values()
                        .any(|other| other.key == fetch.key && !self.stopped.contains(&other.ticket));
                    assert!(!twin, "two live fetches of one object");
                    assert!(!self.files.contains(&Self::number(fetch.key)) || fetch.existing.is_some());
                    self.running.insert(fetch.ticket, fetch);
                    assert!(self.running.len() <= max_running, "more fetches than allowed");
                }
                Effect::Abort(ticket) => {
                    assert!(!self.committing.contains(&ticket), "a fetch was stopped while it renames its file");
                    self.stopped.insert(ticket);
                }
                Effect::Remove(key, _) => {
                    let n = Self::number(key);
                    assert_eq!((self.pins[n as usize], self.holds[n as usize]), (0, 0), "a file in use was deleted");
                    assert!(!self.waiting.values().any(|&wanted| wanted == n), "a file that is waited for was deleted");
                    assert!(self.files.remove(&n), "a file was deleted that is not there");
                    self.removing.push(key);
                }
                Effect::Answer(waiter, _, outcome) => {
                    let n = self.waiting.remove(&waiter).expect("a request was answered twice");
                    if let Outcome::Stored(_) = outcome {
                        self.pins[n as usize] += 1;
                    }
                }
            }
        }
    }

    /// Picks a running fetch; one whose task was stopped just ends.
    fn pick(&self, i: usize) -> Option<Ticket> {
        let live: Vec<Ticket> = self.running.keys().copied().collect();
        (!live.is_empty()).then(|| live[i % live.len()])
    }
}

fn run(max_running: usize, found: BTreeSet<u8>, ops: Vec<Op>) {
    let mut table = Table::<u32, Ticket>::new(max_running, found.iter().map(|&n| (key(n), stamp(n))));
    // Room for two objects that can't be written.
    table.max_kept_bytes = 5;
    let mut world = World { files: found, ..World::default() };
    let mut effects = Effects::new();
    let end = |table: &mut Table<u32, Ticket>, world: &mut World, effects: &mut Effects, ticket: Ticket| {
        world.running.remove(&ticket);
        world.stopped.remove(&ticket);
        world.committing.remove(&ticket);
        table.slot_freed(effects);
    };
    for op in ops {
        match op {
            Op::Demand(n) => {
                let waiter = world.next_waiter;
                world.next_waiter += 1;
                world.waiting.insert(waiter, n);
                match table.demand(key(n), &uri(n), waiter, &mut effects) {
                    Some((Hit::File(_), waiter)) => {
                        assert!(world.files.contains(&n), "a hit without a file");
                        world.waiting.remove(&waiter);
                        world.pins[n as usize] += 1;
                    }
                    Some((Hit::Memory(bytes), waiter)) => {
                        assert_eq!(bytes.len() as u64, stamp(n).len);
                        assert!(0 < world.holds[n as usize], "bytes are kept for nobody");
                        world.waiting.remove(&waiter);
                    }
                    None => {}
                }
            }
            Op::Hold(n) => {
                world.holds[n as usize] += 1;
                table.hold(key(n), &uri(n), &mut effects);
            }
            Op::Release(n, evict) if 0 < world.holds[n as usize] => {
                world.holds[n as usize] -= 1;
                table.release(key(n), evict, &mut effects);
            }
            Op::Unpin(n) if 0 < world.pins[n as usize] => {
                world.pins[n as usize] -= 1;
                table.unpin(key(n), &mut effects);
            }
            Op::Handle(i) => {
                if let Some(ticket) = world.pick(i) {
                    let key = world.running[&ticket].key;
                    table.started(key, ticket, ticket, &mut effects);
                }
            }
            Op::Commit(i) => {
                if let Some(ticket) = world.pick(i) {
                    let key = world.running[&ticket].key;
                    if !world.committing.contains(&ticket) && table.begin_commit(key, ticket) {
                        assert!(!world.stopped.contains(&ticket));
                        world.committing.insert(ticket);
                    }
                }
            }
            Op::Store(i) | Op::Fail(i) | Op::Unwritten(i) => {
                let Some(ticket) = world.pick(i) else { continue };
                let fetch = world.running[&ticket].clone();
                // A task stores a file only after it was allowed to commit, or when it finds that the one that is there
                // is as it should be.
                let may_store = world.committing.contains(&ticket);
                let n = World::number(fetch.key);
                let outcome = match op {
                    Op::Store(_) if may_store => {
                        world.files.insert(n);
                        Outcome::Stored(stamp(n))
                    }
                    Op::Store(_) if fetch.existing.is_some() && !world.stopped.contains(&ticket) => {
                        Outcome::Stored(stamp(n))
                    }
                    Op::Unwritten(_) if may_store => {
                        // What was there was damaged, and counts no longer.
                        world.files.remove(&n);
                        Outcome::Unwritten(Bytes::from(vec![0; stamp(n).len as usize]))
                    }
                    _ => failure(),
                };
                if may_store || !world.stopped.contains(&ticket) {
                    table.finish(fetch.key, ticket, outcome, &mut effects);
                }
                world.apply(&mut effects, max_running);
                end(&mut table, &mut world, &mut effects, ticket);
            }
            Op::Removed(i) if !world.removing.is_empty() => {
                let key = world.removing.remove(i % world.removing.len());
                table.removed(key, &mut effects);
            }
            Op::Release(..) | Op::Unpin(_) | Op::Removed(_) => {}
        }
        world.apply(&mut effects, max_running);
        assert_eq!(table.local_files(), world.files.len() as u64);
        assert_eq!(table.local_bytes(), world.files.iter().map(|&n| stamp(n).len).sum::<u64>());
    }

    // Let everything end, and give everything up: nobody who waits is forgotten, and no entry stays that nothing needs.
    // Twice, since what is given up makes room for prefetches that had to wait.
    for _ in 0..2 {
        loop {
            if let Some(ticket) = world.pick(0) {
                let key = world.running[&ticket].key;
                if !world.stopped.contains(&ticket) {
                    table.finish(key, ticket, failure(), &mut effects);
                    world.apply(&mut effects, max_running);
                }
                end(&mut table, &mut world, &mut effects, ticket);
            } else if let Some(key) = world.removing.pop() {
                table.removed(key, &mut effects);
            } else {
                break;
            }
            world.apply(&mut effects, max_running);
        }
        assert!(world.waiting.is_empty(), "requests that were never answered: {:?}", world.waiting);
        for n in 0..KEYS {
            while 0 < world.holds[n as usize] {
                world.holds[n as usize] -= 1;
                table.release(key(n), true, &mut effects);
            }
            while 0 < world.pins[n as usize] {
                world.pins[n as usize] -= 1;
                table.unpin(key(n), &mut effects);
            }
            world.apply(&mut effects, max_running);
        }
    }
    assert_eq!(table.entries.len(), world.files.len() + world.removing.len(), "entries that nothing needs");
    assert_eq!(table.kept_bytes, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn nothing_in_use_is_deleted_and_nobody_is_forgotten(max_running in 1_usize..4, found in prop::collection::btree_set(0..KEYS, 0..4), ops in prop::collection::vec(op(), 1..120)) {
        run(max_running, found, ops);
    }
}
