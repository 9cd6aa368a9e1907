//! Readers against fetches, evictions and invalidations, in random interleavings of their threads.
//!
//! The table, its lock and a disk run under shuttle, which decides at each lock and channel which thread goes on
//! (S. Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010).

use std::collections::BTreeSet;

use shuttle::sync::{Arc as ShuttleArc, Mutex, mpsc};
use shuttle::thread;

use super::*;
use crate::eviction::EvictionMode;

const KEYS: u8 = 3;

type Waiter = mpsc::Sender<Outcome>;

/// A table with a disk: what `Shared` is, with threads in place of tasks and a set in place of files.
struct Machine {
    table: Mutex<Table<Waiter, ()>>,
    disk: Mutex<BTreeSet<ObjectKey>>,
}

fn key(n: u8) -> ObjectKey {
    ObjectKey::new("", &format!("s3://b/{n}"), None)
}

const STAMP: Stamp = Stamp { len: 1, crc: 0 };

impl Machine {
    fn update<R>(
        self: &ShuttleArc<Self>,
        change: impl FnOnce(&mut Table<Waiter, ()>, &mut Vec<Effect<Waiter, ()>>) -> R,
    ) -> R {
        let mut effects = Vec::new();
        let returned = change(&mut self.table.lock().unwrap(), &mut effects);
        self.run(effects);
        returned
    }

    fn run(self: &ShuttleArc<Self>, effects: Vec<Effect<Waiter, ()>>) {
        for effect in effects {
            let machine = ShuttleArc::clone(self);
            match effect {
                Effect::Start(fetch) => drop(thread::spawn(move || machine.fetch(&fetch))),
                Effect::Remove => drop(thread::spawn(move || {
                    let files = machine.update(|table, _| table.take_doomed(usize::MAX));
                    machine.remove(files);
                })),
                Effect::Answer(waiter, _, outcome) => waiter.send(outcome).unwrap(),
                Effect::Abort(()) | Effect::LetGo(..) => panic!("no fetch has a handle, and no process is beside this"),
            }
        }
    }

    fn fetch(self: &ShuttleArc<Self>, fetch: &Fetch) {
        let (key, ticket) = (fetch.key, fetch.ticket);
        if self.update(|table, _| table.begin_commit(key, ticket)) {
            let room = loop {
                match self.update(|table, _| table.reserve(key, ticket, STAMP.len)) {
                    Room::Wait => thread::yield_now(),
                    room => break room,
                }
            };
            let outcome = if let Room::Granted(victims) = room {
                self.remove(victims);
                self.disk.lock().unwrap().insert(key);
                Outcome::Stored(STAMP)
            } else {
                Outcome::Unwritten(Bytes::from_static(b"x"))
            };
            self.update(|table, effects| table.finish(key, ticket, outcome, effects));
        }
        self.update(|table, effects| table.slot_freed(ticket, effects));
    }

    fn remove(self: &ShuttleArc<Self>, files: Vec<(ObjectKey, Stamp)>) {
        for (key, stamp) in files {
            assert!(self.disk.lock().unwrap().remove(&key), "a file was deleted twice");
            self.update(|table, effects| table.removed(key, stamp, effects));
        }
    }

    /// Reads an object as `ensure_local` and its guard do.
    fn read(self: &ShuttleArc<Self>, n: u8) {
        let (waiter, answered) = mpsc::channel();
        let hit = self.update(|table, effects| {
            table.demand(key(n), || Target::new("s3://b/k", None), waiter, effects).map(|(hit, _)| hit)
        });
        let is_file = match hit {
            Some(Hit::File(_)) => true,
            Some(Hit::Memory(_)) => false,
            None => matches!(answered.recv().unwrap(), Outcome::Stored(_)),
        };
        if is_file {
            for _ in 0..3 {
                assert!(self.disk.lock().unwrap().contains(&key(n)), "a file went while its guard lived");
                thread::yield_now();
            }
            self.update(|table, effects| table.unpin(key(n), STAMP, effects));
        }
    }
}

fn run(limits: Limits) {
    let machine = ShuttleArc::new(Machine { table: Mutex::new(Table::new(2, limits, [])), disk: Mutex::default() });
    let readers = (0..2_u8).map(|thread| {
        let machine = ShuttleArc::clone(&machine);
        thread::spawn(move || (0..4).for_each(|i| machine.read((i * 2 + thread) % KEYS)))
    });
    let mut threads: Vec<_> = readers.collect();
    let evictor = ShuttleArc::clone(&machine);
    threads.push(thread::spawn(move || {
        for n in 0..KEYS {
            evictor.update(|table, effects| table.hold(key(n), || Target::new("s3://b/k", None), 0, effects));
            thread::yield_now();
            evictor.update(|table, effects| table.release(key(n), Release::Evict, effects));
            evictor.update(|table, effects| table.invalidate(key((n + 1) % KEYS), None, effects));
            evictor.update(|table, effects| table.shrink_to(Amount::file(1), effects));
        }
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn no_interleaving_takes_a_file_from_its_reader() {
    shuttle::check_random(|| run(Limits::NONE), 1_500);
    let two_files = Limits { max_files: 2, mode: EvictionMode::Pressure, ..Limits::NONE };
    shuttle::check_random(move || run(two_files), 1_500);
}
