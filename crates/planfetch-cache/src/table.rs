//! What the cache knows of each object, and which download comes next.
//!
//! A plain state machine: no I/O, threads or clock. Each operation says by [`Effect`]s what the shell around it has to
//! do once it has let go of the lock. An object goes through these states:
//!
//! ```text
//!            demand, prefetch           slot free            body complete         renamed
//!   (absent) ───────────────► Queued ─────────────► Fetching ────────────► Committing ───────► Local
//!      ▲                         │  nobody wants it     │ nobody wants it      │ failed          │ given up, or room
//!      ├─────────────────────────┴──────────────────────┴──────────────────────┘                 ▼ is needed
//!      └──────────────────────────────────── deleted ◄──────────────────────────────────────  Removing
//! ```
//!
//! A file found when the cache was opened is local, but not trusted: the first who wants it queues a fetch that begins
//! by checking the file.
//!
//! Where several processes share the directory, the table knows only what this process uses: what nobody here needs any
//! more is let go of ([`Effect::LetGo`]) and forgotten, and each object that is wanted is looked for in the directory
//! by its fetch.

mod aging;
mod budget;
mod entry;
mod invalidate;
mod queue;

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use self::aging::Aging;
use self::budget::Budget;
pub(crate) use self::budget::{Amount, Limits, Room};
use self::entry::{Entry, State};
use self::invalidate::take_disowned;
use self::queue::{Place, Queue};
use crate::error::CacheError;
use crate::eviction::NextUse;
use crate::key::{KeyHasher, ObjectKey, Stamp};
use crate::target::Target;

/// Number of one run of a fetch, so that a late word of a cancelled one is not taken for that of its successor.
pub(crate) type Ticket = u64;

/// What the shell has to do. `W` answers a waiting request, `A` stops a running fetch.
#[derive(Debug)]
pub(crate) enum Effect<W, A> {
    /// Run this fetch, and report it by `started`, `downloaded`, `begin_commit`, `finish` and `slot_freed`.
    Start(Fetch),
    /// Stop this fetch.
    Abort(A),
    /// Delete what `take_doomed` hands out, and report each file by `removed`.
    Remove,
    /// Nobody here uses this file any more; with `true`, it should go if no other process uses it.
    LetGo(ObjectKey, Stamp, bool),
    /// Answer this request for this object.
    Answer(W, ObjectKey, Outcome),
}

/// A fetch to run.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) key: ObjectKey,
    pub(crate) target: Arc<Target>,
    pub(crate) ticket: Ticket,
    /// A file that is there already; where its bytes are as its name says, no download is needed.
    pub(crate) existing: Option<Stamp>,
}

/// What a request finds.
#[derive(Clone, Debug)]
pub(crate) enum Hit {
    /// A file, for which a pin has been counted.
    File(Stamp),
    /// Bytes that could not be written.
    Memory(Bytes),
}

/// How many bytes that could not be written are kept for those who want them later. Beyond it, nothing is prefetched.
const MAX_KEPT_BYTES: u64 = 256 << 20;

/// How a fetch ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The file is in its place. For each answered request a pin has been counted.
    Stored(Stamp),
    /// The bytes are here, but could not be written, or there was no room.
    Unwritten(Bytes),
    /// There are no bytes.
    Failed(CacheError),
}

/// What becomes of a file that a guard gives up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Release {
    /// It goes when nothing else keeps it.
    Evict,
    /// It stays until room is needed.
    Keep(NextUse),
}

/// All objects that are local, on their way or wanted.
#[derive(Debug)]
pub(crate) struct Table<W, A> {
    // Invariant: an entry that is `Idle` has a hold. Never iterated, so its order decides nothing.
    entries: HashMap<ObjectKey, Entry<W, A>, BuildHasherDefault<KeyHasher>>,
    queue: Queue,
    /// Fetches that may have a request under way.
    running: usize,
    max_running: usize,
    /// Fetches that have all their bytes and run on beside those, to write them; as many as may run, so that a slow disk
    /// holds up the store in the end.
    writing: BTreeSet<Ticket>,
    next_ticket: Ticket,
    budget: Budget,
    /// Files in their places, those that are not trusted yet included.
    local: Amount,
    /// Files that requests are not given any more, with the number of guards that name them. One that none names goes
    /// when nothing else of its object is left, since what comes next may be a file of the same name.
    disowned: HashMap<ObjectKey, Vec<(Stamp, u32)>>,
    /// Room that is reserved for fetches under way, and for those that were stopped and whose files are not gone yet.
    promised: u64,
    stopped: HashMap<Ticket, u64>,
    /// Objects that came, for the size that the next ones probably have.
    came: Amount,
    /// Running fetches whose room has not been reserved yet.
    unreserved: u64,
    kept_bytes: u64,
    max_kept_bytes: u64,
    is_shared: bool,
    is_full: bool,
    now: Duration,
    aging: Aging,
}

impl<W, A> Table<W, A> {
    /// Makes a table that runs at most `max_running` fetches at once and knows the files that were found on disk.
    pub(crate) fn new(max_running: usize, limits: Limits, found: impl IntoIterator<Item = (ObjectKey, Stamp)>) -> Self {
        let mut table = Self {
            entries: HashMap::default(),
            queue: Queue::default(),
            running: 0,
            max_running,
            writing: BTreeSet::new(),
            next_ticket: 0,
            budget: Budget::new(limits),
            local: Amount::default(),
            disowned: HashMap::new(),
            promised: 0,
            stopped: HashMap::new(),
            came: Amount::default(),
            unreserved: 0,
            kept_bytes: 0,
            max_kept_bytes: MAX_KEPT_BYTES,
            is_shared: false,
            is_full: false,
            now: Duration::ZERO,
            aging: Aging::new(),
        };
        for (key, stamp) in found {
            let mut entry = Entry::new();
            let rank = table.budget.rank(NextUse::Unknown);
            entry.state = State::Local { stamp, trusted: false, rank: Some(rank) };
            table.entries.insert(key, entry);
            table.budget.enter(rank, key, stamp, Duration::ZERO);
            table.budget.add(Amount::file(stamp.len));
            table.count_file(stamp);
        }
        table
    }

    /// Makes a table for a directory that other processes change too.
    pub(crate) fn shared(max_running: usize) -> Self {
        Self { is_shared: true, ..Self::new(max_running, Limits::NONE, []) }
    }

    /// Tells the time since the cache was opened, which is the age that files have from here on.
    pub(crate) fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// Changes how many bytes are allowed on disk.
    pub(crate) fn set_max_bytes(&mut self, max_bytes: u64) {
        self.budget.set_max_bytes(max_bytes);
    }

    /// Returns the files that are in their places.
    pub(crate) fn local(&self) -> Amount {
        self.local
    }

    /// Returns what is on disk or promised, files on their way included.
    pub(crate) fn used(&self) -> Amount {
        self.budget.used()
    }

    /// Returns how much of that is promised.
    pub(crate) fn promised(&self) -> u64 {
        self.promised
    }

    /// Returns whether a fetch is still wanted.
    pub(crate) fn is_running(&self, key: ObjectKey, ticket: Ticket) -> bool {
        self.entries.get(&key).is_some_and(|entry| entry.state.ticket() == Some(ticket))
    }

    /// Returns whether the object is here, though its file is perhaps not checked yet.
    pub(crate) fn is_local(&self, key: ObjectKey) -> bool {
        matches!(self.entries.get(&key), Some(Entry { state: State::Local { .. } | State::Kept { .. }, .. }))
    }

    /// Asks for an object at once. A local one is pinned and returned; else the waiter is kept until it is answered.
    pub(crate) fn demand(
        &mut self,
        key: ObjectKey,
        target: impl FnOnce() -> Arc<Target>,
        waiter: W,
        effects: &mut Vec<Effect<W, A>>,
    ) -> Option<(Hit, W)> {
        let entry = self.entries.entry(key).or_insert_with(Entry::new);
        match &mut entry.state {
            State::Local { stamp, trusted: true, rank } => {
                entry.pins += 1;
                let stamp = *stamp;
                if let Some(rank) = rank.take() {
                    self.budget.leave(rank, key);
                }
                return Some((Hit::File(stamp), waiter));
            }
            State::Kept { bytes } => return Some((Hit::Memory(bytes.clone()), waiter)),
            _ => {}
        }
        entry.want(target).waiters.push(waiter);
        self.enqueue(key, Place::DEMANDED);
        self.start_next(effects);
        None
    }

    /// Asks for an object to be fetched when nothing more urgent is left, and kept until [`release`](Self::release).
    pub(crate) fn hold(
        &mut self,
        key: ObjectKey,
        target: impl FnOnce() -> Arc<Target>,
        priority: i32,
        effects: &mut Vec<Effect<W, A>>,
    ) {
        let entry = self.entries.entry(key).or_insert_with(Entry::new);
        entry.holds += 1;
        entry.evict = false;
        match &mut entry.state {
            State::Local { rank, trusted: true, .. } => {
                if let Some(rank) = rank.take() {
                    self.budget.leave(rank, key);
                }
            }
            State::Kept { .. } => {}
            _ => {
                entry.want(target);
                self.enqueue(key, Place::prefetched(priority));
                self.start_next(effects);
            }
        }
    }

    /// Undoes one [`hold`](Self::hold), and says what becomes of the file when nothing else keeps it.
    pub(crate) fn release(&mut self, key: ObjectKey, release: Release, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.holds = entry.holds.saturating_sub(1);
        match release {
            Release::Evict => entry.evict |= entry.holds == 0,
            Release::Keep(next_use) => entry.next_use = next_use,
        }
        if entry.holds == 0 {
            self.settle(key, effects);
            self.start_next(effects);
        }
    }

    /// Says when an object is used next, if it is local and nobody keeps it.
    pub(crate) fn set_next_use(&mut self, key: ObjectKey, next_use: NextUse) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.next_use = next_use;
        if let State::Local { stamp, rank: Some(rank), .. } = &mut entry.state {
            self.budget.leave(*rank, key);
            *rank = self.budget.rank(next_use);
            self.budget.enter(*rank, key, *stamp, entry.born);
        }
    }

    /// Undoes one pin.
    pub(crate) fn unpin(&mut self, key: ObjectKey, stamp: Stamp, effects: &mut Vec<Effect<W, A>>) {
        if !self.disowned.is_empty() && self.unpin_disowned(key, stamp, effects) {
            return;
        }
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.pins = entry.pins.saturating_sub(1);
        if entry.pins == 0 && entry.holds == 0 {
            self.settle(key, effects);
            self.start_next(effects);
        }
    }

    /// Takes the means to stop a fetch that was started.
    pub(crate) fn started(&mut self, key: ObjectKey, ticket: Ticket, handle: A, effects: &mut Vec<Effect<W, A>>) {
        if let Some(State::Fetching { ticket: current, abort, .. }) =
            self.entries.get_mut(&key).map(|entry| &mut entry.state)
            && *current == ticket
        {
            *abort = Some(handle);
            // It may have been given up before its handle came.
            self.settle(key, effects);
        }
        // Else it has ended, or is being renamed: it goes on without a way to stop it.
    }

    /// Reserves room for what a running fetch brings; `len` replaces what was said before.
    pub(crate) fn reserve(&mut self, key: ObjectKey, ticket: Ticket, len: u64) -> Room {
        let Some(
            State::Fetching { ticket: current, reserved, .. } | State::Committing { ticket: current, reserved, .. },
        ) = self.entries.get_mut(&key).map(|entry| &mut entry.state)
        else {
            return Room::Full;
        };
        if *current != ticket {
            return Room::Full;
        }
        let more = match *reserved {
            None => Amount::file(len),
            Some(promised) => Amount { bytes: len.saturating_sub(promised), files: 0 },
        };
        let room = self.budget.make_room(more, self.now);
        if let Room::Granted(victims) = &room {
            self.unreserved -= u64::from(reserved.is_none());
            self.promised += more.bytes;
            *reserved = Some(reserved.unwrap_or(0).max(len));
            for (victim, stamp) in victims {
                self.victim(*victim, *stamp);
            }
        }
        room
    }

    /// Takes note that there is no room, or may be again, where other processes fill the directory too.
    pub(crate) fn set_full(&mut self, is_full: bool, effects: &mut Vec<Effect<W, A>>) {
        self.is_full = is_full;
        self.start_next(effects);
    }

    /// Returns whether the fetch may put its file in place, from where on it is not stopped any more.
    pub(crate) fn begin_commit(&mut self, key: ObjectKey, ticket: Ticket) -> bool {
        match self.entries.get_mut(&key) {
            Some(Entry { state: state @ State::Fetching { .. }, .. }) if state.ticket() == Some(ticket) => {
                *state = State::Committing { ticket, existing: state.existing(), reserved: state.reserved() };
                true
            }
            _ => false,
        }
    }

    /// Takes the outcome of a fetch and answers all who wait for it.
    pub(crate) fn finish(&mut self, key: ObjectKey, ticket: Ticket, outcome: Outcome, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if entry.state.ticket() != Some(ticket) {
            return;
        }
        let existing = entry.state.existing();
        match entry.state.reserved() {
            Some(len) => {
                self.promised -= len;
                self.budget.sub(Amount::file(len));
            }
            None => self.unreserved -= 1,
        }
        if std::mem::take(&mut entry.stale) && !matches!(outcome, Outcome::Failed(_)) {
            self.discard(key, existing, &outcome, effects);
            return;
        }
        let waiters = entry.wanted.as_mut().map(|wanted| std::mem::take(&mut wanted.waiters)).unwrap_or_default();
        // A fetch that brought no file leaves one that is there as it was: to be checked by whoever wants it next.
        let is_file_replaced = !matches!(outcome, Outcome::Failed(_));
        entry.state = match &outcome {
            Outcome::Stored(stamp) => {
                // OK because a machine has memory for fewer requests than 2^32.
                entry.pins += waiters.len() as u32;
                entry.born = self.now;
                State::Local { stamp: *stamp, trusted: true, rank: None }
            }
            Outcome::Unwritten(bytes)
                if 0 < entry.holds && self.kept_bytes + bytes.len() as u64 <= self.max_kept_bytes =>
            {
                self.kept_bytes += bytes.len() as u64;
                State::Kept { bytes: bytes.clone() }
            }
            Outcome::Unwritten(_) => State::Idle,
            Outcome::Failed(_) => match existing {
                Some(stamp) => State::Local { stamp, trusted: false, rank: None },
                None => State::Idle,
            },
        };
        if let (Some(stamp), true) = (existing, is_file_replaced) {
            self.uncount_file(stamp);
        }
        match &outcome {
            Outcome::Stored(stamp) => {
                let entry = self.entries.get_mut(&key).expect("the entry was just changed");
                if let Some(pins) = take_disowned(&mut self.disowned, key, *stamp) {
                    // The object came back as it was; the file that guards name is the one that requests are given.
                    entry.pins += pins;
                    if self.is_shared {
                        // Two fetches leased it, and one file is let go of.
                        effects.push(Effect::LetGo(key, *stamp, false));
                    }
                } else {
                    self.budget.add(Amount::file(stamp.len));
                }
                self.came.add_file(stamp.len);
                self.count_file(*stamp);
            }
            Outcome::Unwritten(bytes) => self.came.add_file(bytes.len() as u64),
            Outcome::Failed(_) => {}
        }
        effects.extend(waiters.into_iter().map(|waiter| Effect::Answer(waiter, key, outcome.clone())));
        self.settle(key, effects);
    }

    /// Takes note that a fetch needs its store no more, and starts the next in its place.
    pub(crate) fn downloaded(&mut self, ticket: Ticket, effects: &mut Vec<Effect<W, A>>) {
        if self.writing.len() < self.max_running && self.writing.insert(ticket) {
            self.running -= 1;
            self.start_next(effects);
        }
    }

    /// Takes note that a fetch has ended in whatever way, and starts the next.
    pub(crate) fn slot_freed(&mut self, ticket: Ticket, effects: &mut Vec<Effect<W, A>>) {
        if let Some(len) = self.stopped.remove(&ticket) {
            self.promised -= len;
            self.budget.sub(Amount::file(len));
        }
        if !self.writing.remove(&ticket) {
            self.running -= 1;
        }
        self.start_next(effects);
    }

    /// Hands out files that are to be deleted.
    pub(crate) fn take_doomed(&mut self, max: usize) -> Vec<(ObjectKey, Stamp)> {
        self.budget.take_doomed(max)
    }

    /// Takes note that a file has been deleted. Whoever asked for it meanwhile gets it anew.
    pub(crate) fn removed(&mut self, key: ObjectKey, stamp: Stamp, effects: &mut Vec<Effect<W, A>>) {
        self.budget.deleted(stamp);
        if let Some(entry) = self.entries.get_mut(&key)
            && matches!(entry.state, State::Removing)
        {
            entry.state = State::Idle;
            entry.evict = false;
            self.requeue(key, effects);
        }
        self.start_next(effects);
    }

    /// Stops everything that runs, and returns what it was to be stopped with.
    pub(crate) fn abort_all(&mut self) -> Vec<A> {
        let fetching = self.entries.values_mut().filter_map(|entry| match &mut entry.state {
            State::Fetching { abort, .. } => abort.take(),
            _ => None,
        });
        fetching.collect()
    }

    /// Has all files go that nobody keeps, the lowest rank first, until no more than this is left.
    pub(crate) fn shrink_to(&mut self, limit: Amount, effects: &mut Vec<Effect<W, A>>) {
        for (key, stamp) in self.budget.surplus(limit, self.now) {
            self.victim(key, stamp);
            self.budget.doom(key, stamp);
        }
        effects.push(Effect::Remove);
    }

    /// Puts an object in the queue that is neither there nor further on, or moves it up.
    fn enqueue(&mut self, key: ObjectKey, place: Place) {
        let entry = self.entries.get_mut(&key).expect("the caller has just looked the entry up");
        let existing = match &mut entry.state {
            State::Idle => None,
            State::Local { stamp, trusted: false, rank } => {
                if let Some(rank) = rank.take() {
                    self.budget.leave(rank, key);
                }
                Some(*stamp)
            }
            State::Queued { place: current, existing } if place.is_before(*current) => {
                self.queue.remove(*current);
                *existing
            }
            _ => return,
        };
        let place = self.queue.push(place, key);
        entry.state = State::Queued { place, existing };
    }

    /// Has an object that is not here fetched anew where somebody wants it; else forgets it.
    fn requeue(&mut self, key: ObjectKey, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get(&key) else { return };
        if entry.is_awaited() {
            self.enqueue(key, Place::DEMANDED);
        } else if 0 < entry.holds && entry.wanted.is_some() {
            self.enqueue(key, Place::prefetched(0));
        } else if entry.holds == 0 {
            self.forget(key, effects);
        }
        self.start_next(effects);
    }

    fn start_next(&mut self, effects: &mut Vec<Effect<W, A>>) {
        while self.running < self.max_running {
            let Some((place, key)) = self.queue.first() else { return };
            if !place.is_demanded() && !self.has_room_for_prefetches() {
                return;
            }
            self.queue.remove(place);
            let entry = self.entries.get_mut(&key).expect("what is queued has an entry");
            let wanted = entry.wanted.as_ref().expect("what is queued is wanted");
            let existing = entry.state.existing();
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            self.running += 1;
            self.unreserved += 1;
            effects.push(Effect::Start(Fetch { key, target: Arc::clone(&wanted.target), ticket, existing }));
            entry.state = State::Fetching { ticket, existing, abort: None, reserved: None };
        }
    }

    /// Returns whether one more prefetched object would find its place, on disk or at least in memory. What finds none
    /// would be fetched to be thrown away.
    fn has_room_for_prefetches(&self) -> bool {
        let mean = self.came.bytes / self.came.files.max(1);
        let under_way = self.unreserved + 1;
        self.kept_bytes < self.max_kept_bytes
            && !self.is_full
            && self.budget.could_hold(Amount { bytes: mean.saturating_mul(under_way), files: under_way })
    }

    /// Does what follows when an object may have lost its last holder, pin or waiter.
    fn settle(&mut self, key: ObjectKey, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if 0 < entry.holds || 0 < entry.pins || entry.is_awaited() {
            return;
        }
        match &mut entry.state {
            State::Idle => self.forget(key, effects),
            // `started` settles it.
            State::Fetching { abort: None, .. } => {}
            State::Queued { existing, .. } | State::Fetching { existing, .. } => {
                let existing = *existing;
                match &mut entry.state {
                    State::Queued { place, .. } => self.queue.remove(*place),
                    State::Fetching { ticket, abort, reserved, .. } => {
                        effects.extend(abort.take().map(Effect::Abort));
                        match reserved {
                            // Its file is there until its task has ended.
                            Some(len) => {
                                self.stopped.insert(*ticket, *len);
                            }
                            None => self.unreserved -= 1,
                        }
                    }
                    _ => {}
                }
                match existing {
                    // The file may be half checked; it is checked again when it is wanted.
                    Some(stamp) => {
                        entry.state = State::Local { stamp, trusted: false, rank: None };
                        self.settle_local(key, effects);
                    }
                    None => self.forget(key, effects),
                }
            }
            State::Kept { bytes } => {
                self.kept_bytes -= bytes.len() as u64;
                self.forget(key, effects);
            }
            State::Local { .. } => self.settle_local(key, effects),
            // `finish` and `removed` settle it.
            State::Committing { .. } | State::Removing => {}
        }
    }

    /// Lets a file go, or be the next to go, that nobody uses.
    fn settle_local(&mut self, key: ObjectKey, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let State::Local { stamp, rank, .. } = &mut entry.state else { return };
        let stamp = *stamp;
        entry.wanted = None;
        if self.is_shared {
            let evict = entry.evict;
            self.entries.remove(&key);
            self.uncount_file(stamp);
            effects.push(Effect::LetGo(key, stamp, evict));
        } else if entry.evict && self.budget.is_old_enough(entry.born, self.now) {
            if let Some(rank) = rank.take() {
                self.budget.leave(rank, key);
            }
            entry.state = State::Removing;
            self.local.sub_file(stamp.len);
            self.remove_file(key, stamp, effects);
        } else {
            if entry.evict {
                self.aging.insert((self.budget.old_enough_at(entry.born), key));
            }
            if rank.is_none() {
                let place = self.budget.rank(entry.next_use);
                entry.next_use = NextUse::Unknown;
                *rank = Some(place);
                self.budget.enter(place, key, stamp, entry.born);
            }
        }
    }

    /// Takes note that a file goes to make room for another.
    fn victim(&mut self, key: ObjectKey, stamp: Stamp) {
        if let Some(entry) = self.entries.get_mut(&key)
            && let State::Local { stamp: of, .. } = entry.state
            && of == stamp
        {
            entry.state = State::Removing;
            self.local.sub_file(stamp.len);
        }
    }

    fn remove_file(&mut self, key: ObjectKey, stamp: Stamp, effects: &mut Vec<Effect<W, A>>) {
        self.budget.doom(key, stamp);
        effects.push(Effect::Remove);
    }

    fn count_file(&mut self, stamp: Stamp) {
        self.local.add_file(stamp.len);
    }

    /// Takes note that a file is neither local nor on disk.
    fn uncount_file(&mut self, stamp: Stamp) {
        self.local.sub_file(stamp.len);
        self.budget.sub(Amount::file(stamp.len));
    }
}

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod tests;
