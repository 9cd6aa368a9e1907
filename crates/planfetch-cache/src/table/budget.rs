//! How much room there is, and which files make more of it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::eviction::{EvictionMode, NextUse};
use crate::key::{ObjectKey, Stamp};

/// What may not be exceeded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_bytes: u64,
    pub(crate) max_files: u64,
    /// To what share of the limits files go once they are reached. 1 lets go of no more than is needed.
    pub(crate) low_watermark: f64,
    pub(crate) min_age: Duration,
    pub(crate) mode: EvictionMode,
}

impl Limits {
    /// No limits at all.
    pub(crate) const NONE: Self = Self {
        max_bytes: u64::MAX,
        max_files: u64::MAX,
        low_watermark: 1.0,
        min_age: Duration::ZERO,
        mode: EvictionMode::Window,
    };
}

/// A file's place in the order in which files go: the lowest first.
pub(crate) type Rank = u64;

/// A file that may go.
#[derive(Clone, Copy, Debug)]
struct Evictable {
    stamp: Stamp,
    born: Duration,
}

/// A number of bytes in a number of files.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Amount {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

impl Amount {
    pub(crate) fn file(len: u64) -> Self {
        Self { bytes: len, files: 1 }
    }

    pub(crate) fn add_file(&mut self, len: u64) {
        self.add(Self::file(len));
    }

    pub(crate) fn sub_file(&mut self, len: u64) {
        self.sub(Self::file(len));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.files += other.files;
    }

    fn sub(&mut self, other: Self) {
        self.bytes -= other.bytes;
        self.files -= other.files;
    }

    /// The sum of counts that may be those of a damaged file: at most as much as there can be.
    pub(crate) fn saturating_add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), files: self.files.saturating_add(other.files) }
    }

    /// What is left of one without the other; nothing where that is more.
    pub(crate) fn saturating_sub(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(other.bytes), files: self.files.saturating_sub(other.files) }
    }
}

/// The answer to a request for room.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Room {
    /// It is reserved, and may be used when these files have been deleted.
    Granted(Vec<(ObjectKey, Stamp)>),
    /// It comes when files are gone that others are deleting.
    Wait,
    /// All that is there is in use.
    Full,
}

/// What is on disk or promised, and what may go.
///
/// Files go through `evictable` (may go when room is needed), `doomed` (go as soon as somebody deletes them) and
/// `deleting` (somebody does); all of them count as used until they are gone, so that the disk never holds more than
/// the limit.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    used: Amount,
    evictable: BTreeMap<(Rank, ObjectKey), Evictable>,
    evictable_bytes: u64,
    doomed: VecDeque<(ObjectKey, Stamp)>,
    doomed_bytes: u64,
    deleting: Amount,
    /// Counts uses, for the order of those that nobody knows the next use of.
    uses: u64,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            used: Amount::default(),
            evictable: BTreeMap::new(),
            evictable_bytes: 0,
            doomed: VecDeque::new(),
            doomed_bytes: 0,
            deleting: Amount::default(),
            uses: 0,
        }
    }

    /// Changes how many bytes are allowed, as when others fill the disk.
    pub(crate) fn set_max_bytes(&mut self, max_bytes: u64) {
        self.limits.max_bytes = max_bytes;
    }

    pub(crate) fn used(&self) -> Amount {
        self.used
    }

    /// Counts a file, or room that is promised.
    pub(crate) fn add(&mut self, amount: Amount) {
        self.used.add(amount);
    }

    /// Counts a file or a promise no longer.
    pub(crate) fn sub(&mut self, amount: Amount) {
        self.used.sub(amount);
    }

    /// Returns the place of a file that is given up now: by its next use where the mode heeds it, else by its last.
    pub(crate) fn rank(&mut self, next_use: NextUse) -> Rank {
        const LAST: u64 = (1 << 63) - 1;
        match next_use {
            NextUse::At(at) if self.limits.mode == EvictionMode::Clairvoyant => u64::MAX - at.min(LAST),
            _ => {
                self.uses += 1;
                // OK because 2^63 uses take longer than any machine lasts.
                self.uses.min(LAST)
            }
        }
    }

    /// Takes note that a file may go.
    pub(crate) fn enter(&mut self, rank: Rank, key: ObjectKey, stamp: Stamp, born: Duration) {
        self.evictable.insert((rank, key), Evictable { stamp, born });
        self.evictable_bytes += stamp.len;
    }

    /// Takes note that a file is in use again.
    pub(crate) fn leave(&mut self, rank: Rank, key: ObjectKey) {
        if let Some(file) = self.evictable.remove(&(rank, key)) {
            self.evictable_bytes -= file.stamp.len;
        }
    }

    /// Takes note that a file has to go.
    pub(crate) fn doom(&mut self, key: ObjectKey, stamp: Stamp) {
        self.doomed.push_back((key, stamp));
        self.doomed_bytes += stamp.len;
    }

    /// Hands out files that have to go, to whoever deletes them now.
    pub(crate) fn take_doomed(&mut self, max: usize) -> Vec<(ObjectKey, Stamp)> {
        let taken: Vec<_> = self.doomed.drain(..max.min(self.doomed.len())).collect();
        for (_, stamp) in &taken {
            self.doomed_bytes -= stamp.len;
            self.deleting.add(Amount::file(stamp.len));
        }
        taken
    }

    /// Takes note that a file is gone, or at least counts no longer.
    pub(crate) fn deleted(&mut self, stamp: Stamp) {
        self.deleting.sub(Amount::file(stamp.len));
        self.used.sub(Amount::file(stamp.len));
    }

    /// Returns from when on a file that came at `born` may go.
    pub(crate) fn old_enough_at(&self, born: Duration) -> Duration {
        born.saturating_add(self.limits.min_age)
    }

    /// Returns whether a file that came at `born` may go.
    pub(crate) fn is_old_enough(&self, born: Duration, now: Duration) -> bool {
        self.old_enough_at(born) <= now
    }

    /// Picks the files that have to go until no more than `limit` is left, or until none may go any more.
    pub(crate) fn surplus(&mut self, limit: Amount, now: Duration) -> Vec<(ObjectKey, Stamp)> {
        let mut left = self.used;
        left.sub(Amount { bytes: self.doomed_bytes, files: self.doomed.len() as u64 });
        left.sub(self.deleting);
        let mut places = Vec::new();
        for (place, file) in &self.evictable {
            if left.bytes <= limit.bytes && left.files <= limit.files {
                break;
            }
            if self.is_old_enough(file.born, now) {
                left.sub(Amount::file(file.stamp.len));
                places.push((*place, file.stamp));
            }
        }
        for ((rank, key), _) in &places {
            self.leave(*rank, *key);
        }
        places.into_iter().map(|((_, key), stamp)| (key, stamp)).collect()
    }

    /// Returns whether this much more would fit if everything went that may go.
    pub(crate) fn could_hold(&self, more: Amount) -> bool {
        let kept_bytes = self.used.bytes - self.evictable_bytes - self.doomed_bytes - self.deleting.bytes;
        let kept_files = self.used.files - (self.evictable.len() + self.doomed.len()) as u64 - self.deleting.files;
        kept_bytes.saturating_add(more.bytes) <= self.limits.max_bytes
            && kept_files.saturating_add(more.files) <= self.limits.max_files
    }

    /// Reserves room, and says which files have to be deleted before it is used.
    pub(crate) fn make_room(&mut self, more: Amount, now: Duration) -> Room {
        let over = |limit: u64, used: u64, more: u64| used.saturating_add(more).saturating_sub(limit);
        let Limits { max_bytes, max_files, .. } = self.limits;
        let mut need = Amount {
            bytes: over(max_bytes, self.used.bytes, more.bytes),
            files: over(max_files, self.used.files, more.files),
        };
        if need == Amount::default() {
            self.used.add(more);
            return Room::Granted(Vec::new());
        }
        if !self.could_hold(more) {
            return Room::Full;
        }
        if self.limits.mode == EvictionMode::Pressure {
            // Some more at once, so that not each file has to look for another's room.
            let low = |limit: u64| (limit as f64 * self.limits.low_watermark) as u64;
            need = Amount {
                bytes: need.bytes.max(over(low(max_bytes), self.used.bytes, more.bytes)),
                files: need.files.max(over(low(max_files), self.used.files, more.files)),
            };
        }
        let must = Amount {
            bytes: over(max_bytes, self.used.bytes, more.bytes),
            files: over(max_files, self.used.files, more.files),
        };
        let mut freed = Amount::default();
        let is_short = |freed: &Amount, need: &Amount| freed.bytes < need.bytes || freed.files < need.files;
        let mut n_doomed = 0;
        while is_short(&freed, &need)
            && let Some((_, stamp)) = self.doomed.get(n_doomed)
        {
            freed.add(Amount::file(stamp.len));
            n_doomed += 1;
        }
        let mut victims = Vec::new();
        for (place, file) in &self.evictable {
            if !is_short(&freed, &need) {
                break;
            }
            if self.is_old_enough(file.born, now) {
                freed.add(Amount::file(file.stamp.len));
                victims.push((*place, file.stamp));
            }
        }
        if is_short(&freed, &must) {
            let later = Amount { bytes: freed.bytes + self.deleting.bytes, files: freed.files + self.deleting.files };
            return if is_short(&later, &must) { Room::Full } else { Room::Wait };
        }
        let mut files = self.take_doomed(n_doomed);
        for ((rank, key), stamp) in victims {
            self.leave(rank, key);
            self.deleting.add(Amount::file(stamp.len));
            files.push((key, stamp));
        }
        self.used.add(more);
        Room::Granted(files)
    }
}

#[cfg(test)]
mod tests;
