//! The table against a model: random operations, and after each what must hold.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::error::CacheErrorKind;
use crate::eviction::EvictionMode;

const KEYS: u8 = 5;
const KEEP: Release = Release::Keep(NextUse::Unknown);

fn key(n: u8) -> ObjectKey {
    ObjectKey::new("", &uri(n), None)
}

fn uri(n: u8) -> String {
    format!("s3://b/{n}")
}

fn target(n: u8) -> Arc<Target> {
    Target::new(&uri(n), None)
}

fn table(max_running: usize) -> Table<u32, Ticket> {
    Table::new(max_running, Limits::NONE, [])
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
    let mut table = table(1);
    let mut effects = Effects::new();
    (0..5).for_each(|n| table.hold(key(n), || target(n), 0, &mut effects));
    assert!(table.demand(key(3), || target(3), 0, &mut effects).is_none());
    for ticket in 0..4 {
        table.slot_freed(ticket, &mut effects);
    }
    assert_eq!(started(&effects), [0, 3, 1, 2, 4].map(key));
}

#[test]
fn an_object_that_was_given_up_and_asked_for_again_takes_its_new_place() {
    let mut table = table(1);
    let mut effects = Effects::new();
    (0..4).for_each(|n| table.hold(key(n), || target(n), 0, &mut effects));
    table.release(key(1), KEEP, &mut effects);
    table.hold(key(1), || target(1), 0, &mut effects);
    for ticket in 0..3 {
        table.slot_freed(ticket, &mut effects);
    }
    assert_eq!(started(&effects), [0, 2, 3, 1].map(key));
}

#[test]
fn places_that_were_given_up_do_not_pile_up() {
    let mut table = table(1);
    let mut effects = Effects::new();
    for _ in 0..10_000 {
        (0..KEYS).for_each(|n| table.hold(key(n), || target(n), 0, &mut effects));
        (1..KEYS).for_each(|n| table.release(key(n), KEEP, &mut effects));
    }
    assert!(table.queue.len() < 200, "{} places for {KEYS} objects", table.queue.len());
}

#[test]
fn what_can_not_be_written_is_kept_for_who_wanted_it_and_not_fetched_twice() {
    let mut table = table(8);
    table.max_kept_bytes = 3;
    let mut effects = Effects::new();
    table.hold(key(0), || target(0), 0, &mut effects);
    assert!(table.begin_commit(key(0), 0));
    table.finish(key(0), 0, Outcome::Unwritten(Bytes::from_static(b"abc")), &mut effects);
    table.slot_freed(0, &mut effects);
    assert!(table.is_local(key(0)));
    assert!(matches!(table.demand(key(0), || target(0), 7, &mut effects), Some((Hit::Memory(_), 7))));
    // There is no room for more, so nothing is prefetched that would be thrown away; demands go on.
    effects.clear();
    table.hold(key(1), || target(1), 0, &mut effects);
    assert!(started(&effects).is_empty());
    assert!(table.demand(key(2), || target(2), 8, &mut effects).is_none());
    assert_eq!(started(&effects), [key(2)]);
    table.release(key(0), Release::Evict, &mut effects);
    assert_eq!(started(&effects), [key(2), key(1)]);
}

#[test]
fn many_requests_for_one_object_are_one_fetch() {
    let mut table = table(8);
    let mut effects = Effects::new();
    table.hold(key(0), || target(0), 0, &mut effects);
    for waiter in 0..10 {
        assert!(table.demand(key(0), || target(0), waiter, &mut effects).is_none());
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
    let mut table = table(8);
    let mut effects = Effects::new();
    table.hold(key(0), || target(0), 0, &mut effects);
    table.hold(key(0), || target(0), 0, &mut effects);
    table.finish(key(0), 0, Outcome::Stored(stamp(0)), &mut effects);
    assert!(table.demand(key(0), || target(0), 0, &mut effects).is_some());
    effects.clear();
    table.release(key(0), Release::Evict, &mut effects);
    table.release(key(0), Release::Evict, &mut effects);
    assert!(effects.is_empty(), "{effects:?}");
    table.unpin(key(0), stamp(0), &mut effects);
    assert!(matches!(effects[..], [Effect::Remove]), "{effects:?}");
}

#[test]
fn a_file_found_on_disk_is_checked_before_it_is_handed_out() {
    let mut table = Table::<u32, Ticket>::new(8, Limits::NONE, [(key(0), stamp(0))]);
    let mut effects = Effects::new();
    assert_eq!(table.local().files, 1);
    assert!(table.demand(key(0), || target(0), 0, &mut effects).is_none());
    let [Effect::Start(fetch)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((fetch.existing, &*fetch.target.uri), (Some(stamp(0)), "s3://b/0"));
}

#[test]
fn what_was_given_up_too_young_goes_when_it_is_old_enough_and_nobody_keeps_it() {
    let second = Duration::from_secs(1);
    let mut table = Table::<u32, Ticket>::new(8, Limits { min_age: 10 * second, ..Limits::NONE }, []);
    let mut effects = Effects::new();
    for n in 0..3 {
        table.set_now(u32::from(n) * second);
        table.hold(key(n), || target(n), 0, &mut effects);
        table.finish(key(n), Ticket::from(n), Outcome::Stored(stamp(n)), &mut effects);
        table.release(key(n), Release::Evict, &mut effects);
    }
    // One of them is wanted again before it is old enough.
    table.hold(key(1), || target(1), 0, &mut effects);
    let evicted_at = |table: &mut Table<u32, Ticket>, seconds: u32| {
        table.set_now(seconds * second);
        table.evict_aged(&mut Effects::new());
        table.take_doomed(usize::MAX).into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(evicted_at(&mut table, 9), []);
    assert_eq!(evicted_at(&mut table, 10), [key(0)]);
    assert_eq!(evicted_at(&mut table, 50), [key(2)]);
    table.release(key(1), Release::Keep(NextUse::Unknown), &mut effects);
    assert_eq!(evicted_at(&mut table, 99), []);
    table.hold(key(1), || target(1), 0, &mut effects);
    table.release(key(1), Release::Evict, &mut effects);
    assert_eq!(evicted_at(&mut table, 99), [key(1)]);
    assert!(table.aging.is_empty());
}

/// What a test does to the table.
#[derive(Clone, Debug)]
enum Op {
    Demand(u8),
    Hold(u8),
    Release(u8, bool),
    Unpin(u8),
    /// Some running fetch says that it has a handle, has its bytes, may commit, ended well, badly, or without a place on disk.
    Handle(usize),
    Downloaded(usize),
    Commit(usize),
    Store(usize),
    Fail(usize),
    Unwritten(usize),
    /// A file that was to be deleted has been.
    Removed(usize),
    /// An object has changed in the store.
    Invalidate(u8),
    /// Time has gone by.
    Wait(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..KEYS).prop_map(Op::Demand),
        4 => (0..KEYS).prop_map(Op::Hold),
        4 => ((0..KEYS), any::<bool>()).prop_map(|(n, evict)| Op::Release(n, evict)),
        3 => (0..KEYS).prop_map(Op::Unpin),
        2 => any::<usize>().prop_map(Op::Handle),
        2 => any::<usize>().prop_map(Op::Downloaded),
        2 => any::<usize>().prop_map(Op::Commit),
        4 => any::<usize>().prop_map(Op::Store),
        1 => any::<usize>().prop_map(Op::Fail),
        1 => any::<usize>().prop_map(Op::Unwritten),
        3 => any::<usize>().prop_map(Op::Removed),
        1 => (0..KEYS).prop_map(Op::Invalidate),
        2 => (0..4_u8).prop_map(Op::Wait),
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
    /// Those of the running ones that need their store no more.
    writing: BTreeSet<Ticket>,
    stopped: BTreeSet<Ticket>,
    committing: BTreeSet<Ticket>,
    /// Files on disk, those that were found there included.
    files: BTreeSet<u8>,
    /// Files that nothing keeps and somebody deletes.
    removing: Vec<(ObjectKey, Stamp)>,
}

impl World {
    fn number(key_to_find: ObjectKey) -> u8 {
        (0..KEYS).find(|&n| key(n) == key_to_find).expect("only these keys are used")
    }

    fn apply(&mut self, table: &mut Table<u32, Ticket>, effects: &mut Effects, max_running: usize) {
        for effect in effects.drain(..) {
            match effect {
                Effect::Start(fetch) => {
                    let twin = self
                        .running
                        .values()
                        .any(|other| other.key == fetch.key && !self.stopped.contains(&other.ticket));
                    assert!(!twin, "two live fetches of one object");
                    let n = Self::number(fetch.key);
                    let is_disowned = table.disowned.contains_key(&fetch.key);
                    assert!(!self.files.contains(&n) || fetch.existing.is_some() || is_disowned);
                    self.running.insert(fetch.ticket, fetch);
                    assert!(self.running.len() <= max_running + self.writing.len(), "more fetches than allowed");
                    assert!(self.writing.len() <= max_running, "more fetches than allowed beside those");
                }
                Effect::Abort(ticket) => {
                    assert!(!self.committing.contains(&ticket), "a fetch was stopped while it renames its file");
                    self.stopped.insert(ticket);
                }
                Effect::Remove => self.delete(table.take_doomed(usize::MAX)),
                Effect::LetGo(..) => panic!("nothing is let go of where no other process is"),
                Effect::Answer(waiter, _, outcome) => {
                    let n = self.waiting.remove(&waiter).expect("a request was answered twice");
                    if let Outcome::Stored(_) = outcome {
                        self.pins[n as usize] += 1;
                    }
                }
            }
        }
    }

    /// Begins to delete files.
    fn delete(&mut self, files: Vec<(ObjectKey, Stamp)>) {
        for (key, stamp) in files {
            let n = Self::number(key);
            assert_eq!(self.pins[n as usize], 0, "a file in use was deleted");
            assert!(self.files.remove(&n), "a file was deleted that is not there");
            self.removing.push((key, stamp));
        }
    }

    /// Picks a running fetch; one whose task was stopped just ends.
    fn pick(&self, i: usize) -> Option<Ticket> {
        let live: Vec<Ticket> = self.running.keys().copied().collect();
        (!live.is_empty()).then(|| live[i % live.len()])
    }

    fn bytes(&self) -> u64 {
        let files = self.files.iter().map(|&n| stamp(n).len).sum::<u64>();
        files + self.removing.iter().map(|(_, stamp)| stamp.len).sum::<u64>()
    }
}

fn run(max_running: usize, limits: Limits, found: BTreeSet<u8>, ops: Vec<Op>) {
    let mut table = Table::<u32, Ticket>::new(max_running, limits, found.iter().map(|&n| (key(n), stamp(n))));
    // Room for two objects that can't be written.
    table.max_kept_bytes = 5;
    let mut world = World { files: found, ..World::default() };
    let mut effects = Effects::new();
    table.shrink_to(Amount { bytes: limits.max_bytes, files: limits.max_files }, &mut effects);
    world.apply(&mut table, &mut effects, max_running);
    while let Some((key, stamp)) = world.removing.pop() {
        table.removed(key, stamp, &mut effects);
    }
    let end = |table: &mut Table<u32, Ticket>, world: &mut World, effects: &mut Effects, ticket: Ticket| {
        world.running.remove(&ticket);
        world.writing.remove(&ticket);
        world.stopped.remove(&ticket);
        world.committing.remove(&ticket);
        table.slot_freed(ticket, effects);
    };
    for op in ops {
        let after = format!("after {op:?}");
        match op {
            Op::Demand(n) => {
                let waiter = world.next_waiter;
                world.next_waiter += 1;
                world.waiting.insert(waiter, n);
                match table.demand(key(n), || target(n), waiter, &mut effects) {
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
                table.hold(key(n), || target(n), i32::from(n % 2), &mut effects);
            }
            Op::Release(n, evict) if 0 < world.holds[n as usize] => {
                world.holds[n as usize] -= 1;
                table.release(key(n), if evict { Release::Evict } else { KEEP }, &mut effects);
            }
            Op::Unpin(n) if 0 < world.pins[n as usize] => {
                world.pins[n as usize] -= 1;
                table.unpin(key(n), stamp(n), &mut effects);
            }
            Op::Invalidate(n) => table.invalidate(key(n), None, &mut effects),
            Op::Wait(n) => {
                let now = table.now + Duration::from_secs(u64::from(n));
                table.set_now(now);
                table.evict_aged(&mut effects);
                assert!(table.aging.iter().all(|(old_enough_at, _)| now < *old_enough_at), "{after}");
            }
            Op::Handle(i) => {
                if let Some(ticket) = world.pick(i) {
                    let key = world.running[&ticket].key;
                    table.started(key, ticket, ticket, &mut effects);
                }
            }
            Op::Downloaded(i) => {
                if let Some(ticket) = world.pick(i) {
                    if world.writing.len() < max_running {
                        world.writing.insert(ticket);
                    }
                    table.downloaded(ticket, &mut effects);
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
                // A task stores a file only after it was allowed to commit and got room, or when it finds that the one
                // that is there is as it should be.
                let n = World::number(fetch.key);
                let may_commit = world.committing.contains(&ticket);
                let may_store = may_commit
                    && matches!(op, Op::Store(_))
                    && match table.reserve(fetch.key, ticket, stamp(n).len) {
                        Room::Granted(victims) => {
                            world.delete(victims.clone());
                            for victim in victims {
                                world.removing.retain(|removing| *removing != victim);
                                table.removed(victim.0, victim.1, &mut effects);
                            }
                            true
                        }
                        Room::Full | Room::Wait => false,
                    };
                let outcome = match op {
                    Op::Store(_) if may_store => {
                        world.files.insert(n);
                        assert!(world.bytes() <= limits.max_bytes, "{} bytes on disk", world.bytes());
                        Outcome::Stored(stamp(n))
                    }
                    Op::Store(_) if fetch.existing.is_some() && !world.stopped.contains(&ticket) && !may_commit => {
                        Outcome::Stored(stamp(n))
                    }
                    Op::Unwritten(_) | Op::Store(_) if may_commit => {
                        // What was there was damaged, and counts no longer.
                        if fetch.existing.is_some() {
                            world.files.remove(&n);
                        }
                        Outcome::Unwritten(Bytes::from(vec![0; stamp(n).len as usize]))
                    }
                    _ => failure(),
                };
                if may_commit || !world.stopped.contains(&ticket) {
                    table.finish(fetch.key, ticket, outcome, &mut effects);
                    // It has done all it does; the next fetch of the object may start.
                    world.stopped.insert(ticket);
                }
                world.apply(&mut table, &mut effects, max_running);
                end(&mut table, &mut world, &mut effects, ticket);
            }
            Op::Removed(i) if !world.removing.is_empty() => {
                let (key, stamp) = world.removing.remove(i % world.removing.len());
                table.removed(key, stamp, &mut effects);
            }
            Op::Release(..) | Op::Unpin(_) | Op::Removed(_) => {}
        }
        world.apply(&mut table, &mut effects, max_running);
        let disowned = table.disowned.values().flatten().count() as u64;
        assert_eq!(table.local().files + disowned, world.files.len() as u64, "{after}");
        // What is used is what is on disk, and what is promised to fetches under way.
        assert_eq!(table.used().bytes, world.bytes() + table.promised(), "{after}");
    }

    // Let everything end, and give everything up: nobody who waits is forgotten, and no entry stays that nothing needs.
    // Twice, since what is given up makes room for prefetches that had to wait.
    for _ in 0..2 {
        loop {
            if let Some(ticket) = world.pick(0) {
                let key = world.running[&ticket].key;
                if !world.stopped.contains(&ticket) {
                    table.finish(key, ticket, failure(), &mut effects);
                    world.stopped.insert(ticket);
                    world.apply(&mut table, &mut effects, max_running);
                }
                end(&mut table, &mut world, &mut effects, ticket);
            } else if let Some((key, stamp)) = world.removing.pop() {
                table.removed(key, stamp, &mut effects);
            } else {
                break;
            }
            world.apply(&mut table, &mut effects, max_running);
        }
        assert!(world.waiting.is_empty(), "requests that were never answered: {:?}", world.waiting);
        for n in 0..KEYS {
            while 0 < world.holds[n as usize] {
                world.holds[n as usize] -= 1;
                table.release(key(n), Release::Evict, &mut effects);
            }
            while 0 < world.pins[n as usize] {
                world.pins[n as usize] -= 1;
                table.unpin(key(n), stamp(n), &mut effects);
            }
            world.apply(&mut table, &mut effects, max_running);
        }
    }
    assert_eq!(table.entries.len(), world.files.len() + world.removing.len(), "entries that nothing needs");
    assert_eq!((table.kept_bytes, table.unreserved, table.queue.len()), (0, 0, 0));
    assert!(table.disowned.is_empty() && table.writing.is_empty() && table.promised() == 0);
}

fn limits() -> impl Strategy<Value = Limits> {
    let modes = vec![EvictionMode::Window, EvictionMode::Pressure, EvictionMode::Clairvoyant];
    let limits = (3_u64..20, 1_u64..6, prop::sample::select(modes), 0.5..1.0).prop_map(
        |(max_bytes, max_files, mode, low_watermark)| Limits {
            max_bytes,
            max_files,
            mode,
            low_watermark,
            ..Limits::NONE
        },
    );
    let min_age = prop_oneof![Just(Duration::ZERO), Just(Duration::from_secs(3))];
    (prop_oneof![Just(Limits::NONE), limits], min_age).prop_map(|(limits, min_age)| Limits { min_age, ..limits })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn nothing_in_use_is_deleted_and_nobody_is_forgotten(
        max_running in 1_usize..4,
        limits in limits(),
        found in prop::collection::btree_set(0..KEYS, 0..4),
        ops in prop::collection::vec(op(), 1..120)
    ) {
        run(max_running, limits, found, ops);
    }
}
