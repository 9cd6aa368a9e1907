//! What the cache knows of each object, and which download comes next.
//!
//! A plain state machine: no I/O, threads or clock. Each operation says by [`Effect`]s what the shell around it has to
//! do once it has let go of the lock. An object goes through these states:
//!
//! ```text
//!            demand, prefetch           slot free            body complete         renamed
//!   (absent) ───────────────► Queued ─────────────► Fetching ────────────► Committing ───────► Local
//!      ▲                         │  nobody wants it     │ nobody wants it      │ failed          │ given up, unpinned
//!      ├─────────────────────────┴──────────────────────┴──────────────────────┘                 ▼
//!      └──────────────────────────────────── deleted ◄──────────────────────────────────────  Removing
//! ```
//!
//! A file found when the cache was opened is local, but not trusted: the first who wants it queues a fetch that begins
//! by checking the file.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::error::CacheError;
use crate::key::{ObjectKey, Stamp};

/// Number of one run of a fetch, so that a late word of a cancelled one is not taken for that of its successor.
pub(crate) type Ticket = u64;

/// What the shell has to do. `W` answers a waiting request, `A` stops a running fetch.
#[derive(Debug)]
pub(crate) enum Effect<W, A> {
    /// Run this fetch, and report it by `started`, `begin_commit`, `finish` and `slot_freed`.
    Start(Fetch),
    /// Stop this fetch.
    Abort(A),
    /// Delete this file, then report by `removed`.
    Remove(ObjectKey, Stamp),
    /// Answer this request for this object.
    Answer(W, ObjectKey, Outcome),
}

/// A fetch to run.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) key: ObjectKey,
    pub(crate) uri: Arc<str>,
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
    /// The bytes are here, but could not be written.
    Unwritten(Bytes),
    /// There are no bytes.
    Failed(CacheError),
}

#[derive(Debug)]
enum State<A> {
    /// Neither local nor on its way: a prefetch failed, and its guard is still held.
    Idle,
    Queued {
        demanded: bool,
        /// Tells its place in the queue from earlier ones, which are skipped.
        number: u64,
        existing: Option<Stamp>,
    },
    Fetching {
        ticket: Ticket,
        existing: Option<Stamp>,
        abort: Option<A>,
    },
    Committing {
        ticket: Ticket,
        existing: Option<Stamp>,
    },
    /// It could not be written, and is kept in memory while a prefetch guard is held.
    Kept {
        bytes: Bytes,
    },
    Local {
        stamp: Stamp,
        trusted: bool,
    },
    Removing,
}

#[derive(Debug)]
struct Entry<W, A> {
    uri: Arc<str>,
    state: State<A>,
    waiters: Vec<W>,
    /// Prefetch guards that want the object kept.
    holds: u32,
    /// Guards on the local file.
    pins: u32,
    /// Whether the file goes as soon as nothing holds or pins it.
    evict: bool,
}

impl<W, A> Entry<W, A> {
    fn new(uri: Arc<str>) -> Self {
        Self { uri, state: State::Idle, waiters: Vec::new(), holds: 0, pins: 0, evict: false }
    }

    fn is_queued_as(&self, number: u64) -> bool {
        matches!(self.state, State::Queued { number: current, .. } if current == number)
    }
}

/// All objects that are local, on their way or wanted.
#[derive(Debug)]
pub(crate) struct Table<W, A> {
    // Invariant: an entry that is `Idle` has a hold. Never iterated, so its order decides nothing.
    entries: HashMap<ObjectKey, Entry<W, A>>,
    // Keys in the order in which their fetches start, with the number of their place. May hold places that were given
    // up or moved; they are skipped.
    demanded: VecDeque<(ObjectKey, u64)>,
    prefetched: VecDeque<(ObjectKey, u64)>,
    next_number: u64,
    running: usize,
    max_running: usize,
    next_ticket: Ticket,
    /// Files on disk, those that are not trusted yet included.
    local_files: u64,
    local_bytes: u64,
    kept_bytes: u64,
    max_kept_bytes: u64,
}

impl<W, A> Table<W, A> {
    /// Makes a table that runs at most `max_running` fetches at once and knows the files that were found on disk.
    pub(crate) fn new(max_running: usize, found: impl IntoIterator<Item = (ObjectKey, Stamp)>) -> Self {
        let mut table = Self {
            entries: HashMap::new(),
            demanded: VecDeque::new(),
            prefetched: VecDeque::new(),
            next_number: 0,
            running: 0,
            max_running,
            next_ticket: 0,
            local_files: 0,
            local_bytes: 0,
            kept_bytes: 0,
            max_kept_bytes: MAX_KEPT_BYTES,
        };
        for (key, stamp) in found {
            // The URI is not stored on disk; whoever asks for the object brings it.
            let entry = Entry { state: State::Local { stamp, trusted: false }, ..Entry::new("".into()) };
            table.entries.insert(key, entry);
            table.count_file(stamp);
        }
        table
    }

    pub(crate) fn local_files(&self) -> u64 {
        self.local_files
    }

    pub(crate) fn local_bytes(&self) -> u64 {
        self.local_bytes
    }

    /// Returns whether the object is here, though its file is perhaps not checked yet.
    pub(crate) fn is_local(&self, key: ObjectKey) -> bool {
        matches!(self.entries.get(&key), Some(Entry { state: State::Local { .. } | State::Kept { .. }, .. }))
    }

    /// Asks for an object at once. A local one is pinned and returned; else the waiter is kept until it is answered.
    pub(crate) fn demand(
        &mut self,
        key: ObjectKey,
        uri: &str,
        waiter: W,
        effects: &mut Vec<Effect<W, A>>,
    ) -> Option<(Hit, W)> {
        let entry = self.entries.entry(key).or_insert_with(|| Entry::new(uri.into()));
        match &entry.state {
            State::Local { stamp, trusted: true } => {
                entry.pins += 1;
                return Some((Hit::File(*stamp), waiter));
            }
            State::Kept { bytes } => return Some((Hit::Memory(bytes.clone()), waiter)),
            _ => {}
        }
        entry.waiters.push(waiter);
        self.enqueue(key, uri, true);
        self.start_next(effects);
        None
    }

    /// Asks for an object to be fetched when nothing more urgent is left, and kept until [`release`](Self::release).
    pub(crate) fn hold(&mut self, key: ObjectKey, uri: &str, effects: &mut Vec<Effect<W, A>>) {
        let entry = self.entries.entry(key).or_insert_with(|| Entry::new(uri.into()));
        entry.holds += 1;
        entry.evict = false;
        self.enqueue(key, uri, false);
        self.start_next(effects);
    }

    /// Undoes one [`hold`](Self::hold). With `evict`, the file goes when nothing else keeps it.
    pub(crate) fn release(&mut self, key: ObjectKey, evict: bool, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.holds = entry.holds.saturating_sub(1);
        if entry.holds == 0 {
            entry.evict |= evict;
            self.settle(key, effects);
        }
    }

    /// Undoes one pin.
    pub(crate) fn unpin(&mut self, key: ObjectKey, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.pins = entry.pins.saturating_sub(1);
        self.settle(key, effects);
    }

    /// Takes the means to stop a fetch that was started.
    pub(crate) fn started(&mut self, key: ObjectKey, ticket: Ticket, handle: A, effects: &mut Vec<Effect<W, A>>) {
        match self.entries.get_mut(&key).map(|entry| &mut entry.state) {
            Some(State::Fetching { ticket: current, abort, .. }) if *current == ticket => {
                *abort = Some(handle);
                // It may have been given up before its handle came.
                self.settle(key, effects);
            }
            // The fetch goes on without a way to stop it, since its file is being renamed or it has ended.
            Some(State::Committing { ticket: current, .. }) if *current == ticket => {}
            // It has ended already.
            _ => {}
        }
    }

    /// Returns whether the fetch may put its file in place, from where on it is not stopped any more.
    pub(crate) fn begin_commit(&mut self, key: ObjectKey, ticket: Ticket) -> bool {
        match self.entries.get_mut(&key) {
            Some(Entry { state: state @ State::Fetching { .. }, .. }) if state.ticket() == Some(ticket) => {
                *state = State::Committing { ticket, existing: state.existing() };
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
        let waiters = std::mem::take(&mut entry.waiters);
        let existing = entry.state.existing();
        // A fetch that brought no file leaves one that is there as it was: to be checked by whoever wants it next.
        let is_file_replaced = !matches!(outcome, Outcome::Failed(_));
        entry.state = match &outcome {
            Outcome::Stored(stamp) => {
                // OK because a machine has memory for fewer requests than 2^32.
                entry.pins += waiters.len() as u32;
                State::Local { stamp: *stamp, trusted: true }
            }
            Outcome::Unwritten(bytes)
                if 0 < entry.holds && self.kept_bytes + bytes.len() as u64 <= self.max_kept_bytes =>
            {
                self.kept_bytes += bytes.len() as u64;
                State::Kept { bytes: bytes.clone() }
            }
            Outcome::Unwritten(_) => State::Idle,
            Outcome::Failed(_) => match existing {
                Some(stamp) => State::Local { stamp, trusted: false },
                None => State::Idle,
            },
        };
        if let (Some(stamp), true) = (existing, is_file_replaced) {
            self.uncount_file(stamp);
        }
        if let Outcome::Stored(stamp) = outcome {
            self.count_file(stamp);
        }
        effects.extend(waiters.into_iter().map(|waiter| Effect::Answer(waiter, key, outcome.clone())));
        self.settle(key, effects);
    }

    /// Takes note that a fetch has ended in whatever way, and starts the next.
    pub(crate) fn slot_freed(&mut self, effects: &mut Vec<Effect<W, A>>) {
        self.running -= 1;
        self.start_next(effects);
    }

    /// Takes note that a file has been deleted. Whoever asked for it meanwhile gets it anew.
    pub(crate) fn removed(&mut self, key: ObjectKey, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.state = State::Idle;
        entry.evict = false;
        let (demanded, held, uri) = (!entry.waiters.is_empty(), 0 < entry.holds, Arc::clone(&entry.uri));
        if demanded || held {
            self.enqueue(key, &uri, demanded);
            self.start_next(effects);
        } else {
            self.entries.remove(&key);
        }
    }

    /// Puts an object in the queue that is neither there nor further on, or moves it up.
    fn enqueue(&mut self, key: ObjectKey, uri: &str, demand: bool) {
        let entry = self.entries.get_mut(&key).expect("the caller has just looked the entry up");
        let existing = match entry.state {
            State::Idle => None,
            State::Local { stamp, trusted: false } => Some(stamp),
            State::Queued { demanded: false, existing, .. } if demand => existing,
            _ => return,
        };
        if entry.uri.is_empty() {
            // It was found on disk, where no URI stands.
            entry.uri = uri.into();
        }
        let number = self.next_number;
        self.next_number += 1;
        entry.state = State::Queued { demanded: demand, number, existing };
        let queue = if demand { &mut self.demanded } else { &mut self.prefetched };
        queue.push_back((key, number));
        // Places that were given up are skipped when their turn comes, which may be never: they must not pile up.
        if 64 + 2 * self.entries.len() < queue.len() {
            let entries = &self.entries;
            queue.retain(|(key, number)| entries.get(key).is_some_and(|entry| entry.is_queued_as(*number)));
        }
    }

    fn start_next(&mut self, effects: &mut Vec<Effect<W, A>>) {
        while self.running < self.max_running {
            let next = match self.demanded.pop_front() {
                Some(next) => Some(next),
                // Where nothing can be written and memory is full, what is prefetched would be thrown away.
                None if self.max_kept_bytes <= self.kept_bytes => None,
                None => self.prefetched.pop_front(),
            };
            let Some((key, number)) = next else { return };
            let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.is_queued_as(number)) else { continue };
            let existing = entry.state.existing();
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            self.running += 1;
            entry.state = State::Fetching { ticket, existing, abort: None };
            effects.push(Effect::Start(Fetch { key, uri: Arc::clone(&entry.uri), ticket, existing }));
        }
    }

    /// Does what follows when an object may have lost its last holder, pin or waiter.
    fn settle(&mut self, key: ObjectKey, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if 0 < entry.holds || 0 < entry.pins || !entry.waiters.is_empty() {
            return;
        }
        match &mut entry.state {
            State::Idle => {
                self.entries.remove(&key);
            }
            // `started` settles it.
            State::Fetching { abort: None, .. } => {}
            State::Queued { existing, .. } | State::Fetching { existing, .. } => {
                let existing = *existing;
                if let State::Fetching { abort, .. } = &mut entry.state {
                    effects.extend(abort.take().map(Effect::Abort));
                }
                match existing {
                    // The file may be half checked; it is checked again when it is wanted.
                    Some(stamp) => {
                        entry.state = State::Local { stamp, trusted: false };
                        self.settle_local(key, effects);
                    }
                    None => {
                        self.entries.remove(&key);
                    }
                }
            }
            State::Kept { bytes } => {
                self.kept_bytes -= bytes.len() as u64;
                self.entries.remove(&key);
                self.start_next(effects);
            }
            State::Local { .. } => self.settle_local(key, effects),
            // `finish` and `removed` settle it.
            State::Committing { .. } | State::Removing => {}
        }
    }

    fn settle_local(&mut self, key: ObjectKey, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let (State::Local { stamp, .. }, true) = (&entry.state, entry.evict) {
            let stamp = *stamp;
            entry.state = State::Removing;
            self.uncount_file(stamp);
            effects.push(Effect::Remove(key, stamp));
        }
    }

    fn count_file(&mut self, stamp: Stamp) {
        self.local_files += 1;
        self.local_bytes += stamp.len;
    }

    fn uncount_file(&mut self, stamp: Stamp) {
        self.local_files -= 1;
        self.local_bytes -= stamp.len;
    }
}

impl<A> State<A> {
    fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Fetching { ticket, .. } | Self::Committing { ticket, .. } => Some(*ticket),
            _ => None,
        }
    }

    /// Returns the file that was there before the fetch.
    fn existing(&self) -> Option<Stamp> {
        match self {
            Self::Queued { existing, .. } | Self::Fetching { existing, .. } | Self::Committing { existing, .. } => {
                *existing
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
