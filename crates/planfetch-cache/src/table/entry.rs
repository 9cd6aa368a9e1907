//! What the table knows of one object.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Ticket;
use super::budget::Rank;
use super::queue::Place;
use crate::eviction::NextUse;
use crate::key::Stamp;
use crate::target::Target;

/// Where an object is between wanted and local. `A` stops a running fetch.
#[derive(Debug)]
pub(super) enum State<A> {
    /// Neither local nor on its way: a prefetch failed, and its guard is still held.
    Idle,
    Queued {
        place: Place,
        existing: Option<Stamp>,
    },
    Fetching {
        ticket: Ticket,
        existing: Option<Stamp>,
        abort: Option<A>,
        /// The length for which room has been reserved.
        reserved: Option<u64>,
    },
    Committing {
        ticket: Ticket,
        existing: Option<Stamp>,
        reserved: Option<u64>,
    },
    /// It could not be written, and is kept in memory while a prefetch guard is held.
    Kept {
        bytes: Bytes,
    },
    Local {
        stamp: Stamp,
        trusted: bool,
        /// Its place among those that may go, while nobody keeps it.
        rank: Option<Rank>,
    },
    Removing,
}

impl<A> State<A> {
    pub(super) fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Fetching { ticket, .. } | Self::Committing { ticket, .. } => Some(*ticket),
            _ => None,
        }
    }

    /// Returns the file that was there before the fetch.
    pub(super) fn existing(&self) -> Option<Stamp> {
        match self {
            Self::Queued { existing, .. } | Self::Fetching { existing, .. } | Self::Committing { existing, .. } => {
                *existing
            }
            _ => None,
        }
    }

    pub(super) fn reserved(&self) -> Option<u64> {
        match self {
            Self::Fetching { reserved, .. } | Self::Committing { reserved, .. } => *reserved,
            _ => None,
        }
    }
}

/// An object that is local, on its way or wanted.
#[derive(Debug)]
pub(super) struct Entry<W, A> {
    pub(super) state: State<A>,
    /// What to fetch and for whom; `None` for a file that nobody asks for. Boxed, since most entries of a large cache
    /// are such files.
    pub(super) wanted: Option<Box<Wanted<W>>>,
    /// Prefetch guards that want the object kept.
    pub(super) holds: u32,
    /// Guards on the local file.
    pub(super) pins: u32,
    /// Whether the file goes as soon as nothing holds or pins it.
    pub(super) evict: bool,
    /// Whether the object has changed in the store since its fetch began, which so brings the old one.
    pub(super) stale: bool,
    /// When the object is used next, for when it is given up.
    pub(super) next_use: NextUse,
    /// When the file came.
    pub(super) born: Duration,
}

/// Who wants what.
#[derive(Debug)]
pub(super) struct Wanted<W> {
    pub(super) target: Arc<Target>,
    pub(super) waiters: Vec<W>,
}

impl<W, A> Entry<W, A> {
    pub(super) fn new() -> Self {
        Self {
            state: State::Idle,
            wanted: None,
            holds: 0,
            pins: 0,
            evict: false,
            stale: false,
            next_use: NextUse::Unknown,
            born: Duration::ZERO,
        }
    }

    pub(super) fn want(&mut self, target: impl FnOnce() -> Arc<Target>) -> &mut Wanted<W> {
        self.wanted.get_or_insert_with(|| Box::new(Wanted { target: target(), waiters: Vec::new() }))
    }

    /// Returns whether somebody waits for the object.
    pub(super) fn is_awaited(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| !wanted.waiters.is_empty())
    }
}
