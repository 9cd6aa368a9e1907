//! How full a directory is that several processes share, and who makes room in it.
//!
//! A file holds the number of bytes and of files in the directory, with what is promised to downloads under way. Whatever
//! changes one of the two is done while that file is locked: to make a temporary file, whose name says how long it will
//! be, to put it in its place, to delete. So who has the lock and lists the directory finds what the count says. Room is
//! counted before it is used and given back after it is free; so a crash leaves the count too high, not too low. Who finds
//! the directory full lists it, and deletes what no process leases.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::directory::{CacheDir, Listing, remove};
use crate::lease::{Leases, Lock, try_lock};
use crate::table::{Amount, Limits};

/// How long to wait before a lock of another process is asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_micros(200);

/// How many requests for room are refused unseen after one for which the directory was listed in vain. What this
/// process lets go of ends that; what others let go of, it can't know.
const REFUSALS: u32 = 32;

/// The count of a shared directory.
#[derive(Debug)]
pub(crate) struct Usage {
    // The mutex stands for this process; a lock of the file's first byte for all.
    file: Mutex<File>,
    /// How many requests for room are still refused without a look at the directory: to list it, and to ask for each
    /// file whether somebody uses it, takes longer than the download of a small object.
    refusals_left: AtomicU32,
    /// What was read or written last, for those who must not wait.
    last: Mutex<Amount>,
    /// How long to wait for the lock: a process that is stopped while it has it does not give it back.
    patience: Duration,
    /// Whether it was waited for in vain, so that nobody waits for it again before somebody has had it.
    is_stalled: AtomicBool,
}

impl Usage {
    /// Opens the count, and corrects it by what has been found. Nobody waits for its lock for longer than `patience`.
    pub(crate) fn open(dir: &CacheDir, found: &Listing, patience: Duration) -> io::Result<Self> {
        let found = amount(found);
        let usage = Self {
            file: Mutex::new(dir.shared_file("usage")?),
            refusals_left: AtomicU32::new(0),
            last: Mutex::new(found),
            patience,
            is_stalled: AtomicBool::new(false),
        };
        match usage.lock() {
            Ok(mut count) => {
                let used = count.used;
                count.set(Amount { bytes: used.bytes.max(found.bytes), files: used.files.max(found.files) })?;
            }
            // Who lists the directory to make room corrects it too.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Err(error),
        }
        Ok(usage)
    }

    /// Returns what is in the directory, or promised to a process that writes; what it was last, while somebody changes
    /// it. Never waits.
    pub(crate) fn read(&self) -> Amount {
        if let Ok(file) = self.file.try_lock()
            && matches!(try_lock(&file, 0, Lock::Shared), Ok(true))
        {
            let locked = Locked(file);
            if let Ok((used, _)) = locked.read() {
                self.set_last(used);
            }
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_last(&self, used: Amount) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = used;
    }

    /// Has nobody wait any more for a lock that is not free.
    pub(crate) fn hurry(&self) {
        self.is_stalled.store(true, Ordering::Relaxed);
    }

    /// Takes note that a file may go that might not before.
    pub(crate) fn let_go(&self) {
        self.refusals_left.store(0, Ordering::Relaxed);
    }

    /// Returns whether the directory is full as far as is known, without a look at it.
    fn is_known_to_be_full(&self) -> bool {
        self.refusals_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Frees room: `free` deletes, or puts into place what is shorter than was thought, and returns how much is free
    /// again. It is run also where the lock can't be had: the count is then too high.
    pub(crate) fn free(&self, free: impl FnOnce() -> io::Result<Amount>) -> io::Result<()> {
        let count = self.lock();
        let room = free()?;
        if let Ok(mut count) = count
            && room != Amount::default()
        {
            let left = count.used.saturating_sub(room);
            // OK because a count that is too high is corrected when the directory seems full.
            let _ = count.set(left);
        }
        Ok(())
    }

    /// Takes room in place of what is `held`, and has `make` make the file that shows it; deletes files for it if need
    /// be: those that no process leases, the least recently used first. Returns nothing when all is in use, and how many
    /// files went.
    pub(crate) fn take<T>(
        &self,
        room: Amount,
        held: Amount,
        limits: &Limits,
        dir: &CacheDir,
        leases: &Arc<Leases>,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<(Option<T>, u64)> {
        let mut count = self.lock()?;
        let mut deleted = 0;
        let more = room.saturating_sub(held);
        if !fits(count.used, more, limits.max_bytes, limits.max_files) && !self.is_known_to_be_full() {
            let low = |limit: u64| (limit as f64 * limits.low_watermark) as u64;
            let target = Limits { max_bytes: low(limits.max_bytes), max_files: low(limits.max_files), ..*limits };
            let left;
            (left, deleted) = sweep(dir, leases, &target, more)?;
            count.set(left)?;
            if !fits(left, more, limits.max_bytes, limits.max_files) {
                self.refusals_left.store(REFUSALS, Ordering::Relaxed);
            }
        }
        let before = count.used;
        if !fits(before, more, limits.max_bytes, limits.max_files) {
            return Ok((None, deleted));
        }
        // A crash from here on leaves the count too high, if it is not right.
        count.set(before.saturating_add(more))?;
        match make() {
            Ok(made) => {
                let used = count.used.saturating_sub(held.saturating_sub(room));
                count.set(used)?;
                Ok((Some(made), deleted))
            }
            Err(error) => {
                count.set(before)?;
                Err(error)
            }
        }
    }

    /// Deletes what no process leases until no more than the limits allow is left. Returns how many files went.
    pub(crate) fn shrink(&self, limits: &Limits, dir: &CacheDir, leases: &Arc<Leases>) -> io::Result<u64> {
        let mut count = self.lock()?;
        let (left, deleted) = sweep(dir, leases, limits, Amount::default())?;
        count.set(left)?;
        Ok(deleted)
    }

    /// Locks the count, and waits for that no longer than it may.
    fn lock(&self) -> io::Result<Count<'_>> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let started = Instant::now();
        while !try_lock(&file, 0, Lock::Exclusive)? {
            if self.is_stalled.load(Ordering::Relaxed) || self.patience <= started.elapsed() {
                self.is_stalled.store(true, Ordering::Relaxed);
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "a process that shares the directory has its count locked and does not go on; continue it if it is \
                     stopped, or end it",
                ));
            }
            pause(ASK_AGAIN_AFTER);
        }
        self.is_stalled.store(false, Ordering::Relaxed);
        let locked = Locked(file);
        let (used, is_whole) = locked.read()?;
        Ok(Count { usage: self, locked, used, is_whole })
    }
}

/// The count while it is locked.
struct Count<'a> {
    usage: &'a Usage,
    locked: Locked<'a>,
    used: Amount,
    is_whole: bool,
}

impl Count<'_> {
    fn set(&mut self, used: Amount) -> io::Result<()> {
        if used != self.used || !self.is_whole {
            self.locked.write(used)?;
            (self.used, self.is_whole) = (used, true);
        }
        self.usage.set_last(used);
        Ok(())
    }
}

/// The file while its first byte is locked. However that ends, the lock does too: others wait for it.
struct Locked<'a>(MutexGuard<'a, File>);

/// The file's content: bytes and files, each as a number of 64 bits.
const CONTENT: usize = 16;

impl Locked<'_> {
    /// Reads the count, and whether the file is as long as it should be.
    fn read(&self) -> io::Result<(Amount, bool)> {
        let mut file = &*self.0;
        file.rewind()?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        let number = u128::from_le_bytes(content.first_chunk::<CONTENT>().copied().unwrap_or_default());
        // OK because each half of it is taken.
        Ok((Amount { bytes: number as u64, files: (number >> 64) as u64 }, content.len() == CONTENT))
    }

    fn write(&self, used: Amount) -> io::Result<()> {
        let mut file = &*self.0;
        file.set_len(CONTENT as u64)?;
        file.rewind()?;
        file.write_all(&(u128::from(used.bytes) | u128::from(used.files) << 64).to_le_bytes())
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // OK because the lock ends with the file at the latest.
        let _ = try_lock(&self.0, 0, Lock::None);
    }
}

fn fits(used: Amount, more: Amount, max_bytes: u64, max_files: u64) -> bool {
    let all = used.saturating_add(more);
    all.bytes <= max_bytes && all.files <= max_files
}

/// Adds up what is in the directory and what is promised to downloads under way.
fn amount(found: &Listing) -> Amount {
    let mut all = Amount::default();
    found.objects.iter().for_each(|(_, stamp)| all.add_file(stamp.len));
    found.under_way.iter().for_each(|(_, len)| all.add_file(*len));
    all
}

/// Lists the directory, and deletes what dead processes left, and then what no process leases until `room` fits into the
/// limits. Returns what is left, and how many files went.
#[expect(clippy::disallowed_methods, reason = "processes have no other clock in common than that of their files")]
fn sweep(dir: &CacheDir, leases: &Arc<Leases>, limits: &Limits, room: Amount) -> io::Result<(Amount, u64)> {
    // A temporary file that nobody claims is that of a process that was killed while others go on.
    let found = dir.scan(|key| matches!(leases.claim(key), Ok(Some(_))))?;
    let mut left = amount(&found);
    if fits(left, room, limits.max_bytes, limits.max_files) {
        return Ok((left, 0));
    }
    let now = SystemTime::now();
    let mut oldest: BinaryHeap<Reverse<(SystemTime, u64)>> =
        found.objects.iter().zip(0..).map(|(found, i)| Reverse((dir.last_use(*found), i))).collect();
    let mut deleted = 0;
    while !fits(left, room, limits.max_bytes, limits.max_files)
        && let Some(Reverse((last_use, i))) = oldest.pop()
    {
        if now.duration_since(last_use).is_ok_and(|age| age < limits.min_age) {
            break;
        }
        // OK because the numbers were given out to the elements of the list.
        let (key, stamp) = found.objects[i as usize];
        if leases.if_unused(key, || remove(&dir.path(key, stamp))).transpose()?.is_some() {
            left.sub_file(stamp.len);
            deleted += 1;
        }
    }
    Ok((left, deleted))
}

/// Waits on a thread that may block.
pub(crate) fn pause(time: Duration) {
    std::thread::park_timeout(time);
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
