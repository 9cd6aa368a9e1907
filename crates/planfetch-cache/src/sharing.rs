//! What a cache does beside its own work where several processes share the directory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempPath;

use crate::directory::{CacheDir, Found};
use crate::error::{CacheError, CacheErrorKind};
use crate::key::{ObjectKey, Stamp};
use crate::lease::{Claim, LEASE_FILES, Lease, Leases, Lock, try_lock};
use crate::settings::CacheSettings;
use crate::shared::Shared;
use crate::slot::is_intact;
use crate::table::{Amount, Limits, Ticket};
use crate::usage::Usage;

/// The side of a cache that other processes see.
#[derive(Debug)]
pub(crate) struct Sharing {
    leases: Arc<Leases>,
    usage: Usage,
    limits: Limits,
    /// The room that running fetches have taken.
    taken: Mutex<HashMap<Ticket, Taken>>,
    /// What this process uses no more, and whether it should go.
    leaving: Mutex<VecDeque<(ObjectKey, Stamp, bool)>>,
    /// Held while one of them goes, so that who finds none left finds all of them gone.
    letting_go: Mutex<()>,
    /// What should have gone, but was too young, by when it is old enough.
    aging: Mutex<BTreeMap<(Instant, ObjectKey), Stamp>>,
}

/// Room that a running fetch has taken, and the temporary file that shows it.
#[derive(Debug)]
struct Taken {
    path: TempPath,
    len: u64,
}

/// What is known of an object when it has been looked for.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// It is there, and leased.
    Found(Stamp, Lease),
    /// It is not there; this process may bring it.
    Missing(Lease, Claim),
    /// Another process brings it, or deletes it.
    Busy,
}

impl Sharing {
    /// Opens the files by which processes find each other, and clears away what dead ones left.
    pub(crate) fn open(dir: &CacheDir, settings: &CacheSettings) -> Result<Self, CacheError> {
        let failed = |source: io::Error| {
            let message = format!("can't share the cache directory {}", dir.root().display());
            CacheError::with_source(CacheErrorKind::Directory, message, source)
        };
        check_locks(dir)?;
        let leases = (0..LEASE_FILES).map(|i| dir.shared_file(&format!("leases/{i:02x}"))).collect::<io::Result<_>>();
        let claims = dir.shared_file("claims").map_err(failed)?;
        let leases = Arc::new(Leases::new(leases.map_err(failed)?, claims));
        // A temporary file that nobody claims is that of a process that is gone.
        let found = dir.scan(|key| matches!(leases.claim(key), Ok(Some(_)))).map_err(failed)?;
        let usage = Usage::open(dir, &found, settings.progress_timeout).map_err(failed)?;
        Ok(Self {
            leases,
            usage,
            limits: settings.limits(),
            taken: Mutex::default(),
            leaving: Mutex::default(),
            letting_go: Mutex::default(),
            aging: Mutex::default(),
        })
    }

    /// Looks for an object in the directory. Blocks.
    pub(crate) fn look_up(&self, dir: &CacheDir, key: ObjectKey) -> io::Result<Lookup> {
        let Some(lease) = self.leases.lease(key)? else { return Ok(Lookup::Busy) };
        if let Some(stamp) = dir.find(key)? {
            return Ok(Lookup::Found(stamp, lease));
        }
        let Some(claim) = self.leases.claim(key)? else { return Ok(Lookup::Busy) };
        // It may have come between the two questions.
        Ok(match dir.find(key)? {
            Some(stamp) => Lookup::Found(stamp, lease),
            None => Lookup::Missing(lease, claim),
        })
    }

    /// Takes room for what a fetch brings, and makes the temporary file that shows it, in place of one that the fetch has
    /// already; returns none where there is no room, or nobody wants the object any more. Blocks.
    pub(crate) fn temp_file(
        &self,
        shared: &Arc<Shared>,
        key: ObjectKey,
        ticket: Ticket,
        len: u64,
    ) -> io::Result<Option<File>> {
        if !shared.read(|table| table.is_running(key, ticket)) {
            return Ok(None);
        }
        let mut before = self.taken().remove(&ticket);
        let held = before.as_ref().map(|before| Amount::file(before.len)).unwrap_or_default();
        let make = || {
            let made = shared.dir.temp_file(key, len)?;
            before = None;
            Ok(made)
        };
        let taken = self.usage.take(Amount::file(len), held, &self.limits, &shared.dir, &self.leases, make);
        if let Some(before) = before {
            // It still shows the room that it was made for.
            self.keep(shared, key, ticket, before);
        }
        let (made, deleted) = taken?;
        shared.counters.evictions.add(deleted);
        let Some(made) = made else {
            shared.counters.no_room.add(1);
            shared.warnings.full(self.limits.max_bytes);
            shared.update(|table, effects| table.set_full(true, effects));
            return Ok(None);
        };
        // What this process has of the room is counted for its statistics alone.
        let _ = shared.update(|table, _| table.reserve(key, ticket, len));
        let (file, path) = made.into_parts();
        self.keep(shared, key, ticket, Taken { path, len });
        Ok(Some(file))
    }

    /// Keeps the temporary file of a fetch until it is put in its place, or the fetch ends. Blocks.
    fn keep(&self, shared: &Shared, key: ObjectKey, ticket: Ticket, temp: Taken) {
        let mut taken = self.taken();
        if shared.read(|table| table.is_running(key, ticket)) {
            taken.insert(ticket, temp);
        } else {
            // Given up meanwhile: nobody else would give the room back.
            drop(taken);
            self.give_up(temp);
        }
    }

    /// Puts the temporary file of a fetch in the object's place. Blocks.
    pub(crate) fn persist(&self, shared: &Shared, key: ObjectKey, ticket: Ticket, stamp: Stamp) -> io::Result<()> {
        let Some(Taken { path, len: taken }) = self.taken().remove(&ticket) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the download was given up"));
        };
        let mut unmoved = None;
        let persisted = self.usage.free(|| match path.persist(shared.dir.path(key, stamp)) {
            Ok(()) => Ok(Amount { bytes: taken.saturating_sub(stamp.len), files: 0 }),
            Err(error) => {
                unmoved = Some(error.path);
                Err(error.error)
            }
        });
        if let Some(path) = unmoved {
            self.keep(shared, key, ticket, Taken { path, len: taken });
        }
        persisted
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Ticket, Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back what a fetch that has ended has taken and not used. Blocks.
    pub(crate) fn settle(&self, ticket: Ticket) {
        let taken = self.taken().remove(&ticket);
        if let Some(temp) = taken {
            self.give_up(temp);
        }
    }

    /// Deletes a temporary file, and gives its room back. Blocks.
    fn give_up(&self, temp: Taken) {
        self.usage.let_go();
        // OK because what can't be deleted is found again by who makes room.
        let _ = self.usage.free(|| temp.path.close().map(|()| Amount::file(temp.len)));
    }

    /// Takes note of what this process uses no more.
    pub(crate) fn leave(&self, files: impl IntoIterator<Item = (ObjectKey, Stamp, bool)>) {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).extend(files);
    }

    /// Lets one of them go; returns false when there is none left. Blocks.
    pub(crate) fn let_next_go(&self, shared: &Shared) -> bool {
        let _one_at_a_time = self.letting_go.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.leaving.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some((key, stamp, evict)) = next {
            self.let_go(shared, key, stamp, evict);
        }
        next.is_some()
    }

    /// Ends a lease, and deletes the file if it should go and no other process leases it. Blocks.
    fn let_go(&self, shared: &Shared, key: ObjectKey, stamp: Stamp, evict: bool) {
        self.leases.end(key);
        self.usage.let_go();
        if evict {
            self.evict(shared, key, stamp);
        }
    }

    /// Deletes a file that no process leases, at once or when it is old enough. Blocks.
    fn evict(&self, shared: &Shared, key: ObjectKey, stamp: Stamp) {
        if let Some(wait) = self.too_young_for(shared, (key, stamp)) {
            let due = Instant::now() + wait;
            self.aging.lock().unwrap_or_else(PoisonError::into_inner).insert((due, key), stamp);
            return;
        }
        match self.delete(shared, key, stamp) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => shared.warnings.undeleted(&error),
            // Who leases it decides anew when it lets go of it.
            _ => {}
        }
    }

    /// Deletes a file if no process leases it, and says whether it did. Blocks.
    fn delete(&self, shared: &Shared, key: ObjectKey, stamp: Stamp) -> io::Result<bool> {
        let mut is_deleted = false;
        self.usage.free(|| {
            match self.leases.if_unused(key, || std::fs::remove_file(shared.dir.path(key, stamp))).transpose()? {
                Some(()) => {
                    is_deleted = true;
                    Ok(Amount::file(stamp.len))
                }
                None => Ok(Amount::default()),
            }
        })?;
        shared.counters.evictions.add(u64::from(is_deleted));
        Ok(is_deleted)
    }

    /// Deletes what has become old enough since this process wanted it gone. Blocks.
    pub(crate) fn evict_aged(&self, shared: &Shared) {
        let now = Instant::now();
        let next = || {
            let mut aging = self.aging.lock().unwrap_or_else(PoisonError::into_inner);
            let first = aging.first_entry()?;
            (first.key().0 <= now).then(|| first.remove_entry())
        };
        while let Some(((_, key), stamp)) = next() {
            self.evict(shared, key, stamp);
        }
    }

    /// Returns for how long a file may not go yet. It ages from its last use on, as far as the directory knows.
    fn too_young_for(&self, shared: &Shared, found: Found) -> Option<Duration> {
        if self.limits.min_age.is_zero() {
            return None;
        }
        let age = shared.dir.last_use(found).elapsed().unwrap_or_default();
        self.limits.min_age.checked_sub(age).filter(|wait| !wait.is_zero())
    }

    /// Takes a file out of the directory that is not as its name says, unless another process has just replaced it.
    /// Blocks.
    pub(crate) fn discard(&self, dir: &CacheDir, key: ObjectKey, stamp: Stamp) -> io::Result<()> {
        // Who brings the object has the claim.
        if let Some(_claim) = self.leases.claim(key)?
            && !is_intact(dir, key, stamp)?
        {
            let removed =
                self.usage.free(|| std::fs::remove_file(dir.path(key, stamp)).map(|()| Amount::file(stamp.len)));
            match removed {
                // Another process has found the same, and has given its room back.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }

    /// Deletes an object's files if no process uses it: several where it changed in the store. Blocks.
    pub(crate) fn delete_unused(&self, shared: &Shared, key: ObjectKey) {
        while let Ok(Some(stamp)) = shared.dir.find(key)
            && let Ok(true) = self.delete(shared, key, stamp)
        {}
    }

    /// Deletes what no process uses, until no more than `limit` is left. Blocks.
    pub(crate) fn shrink_to(&self, shared: &Shared, limit: Amount) {
        let limits = Limits { max_bytes: limit.bytes, max_files: limit.files, ..self.limits };
        match self.usage.shrink(&limits, &shared.dir, &self.leases) {
            Ok(deleted) => shared.counters.evictions.add(deleted),
            Err(error) => shared.warnings.undeleted(&error),
        }
    }

    /// Returns what is in the directory, for all processes, as far as is known without waiting for one of them.
    pub(crate) fn used(&self) -> Amount {
        self.usage.read()
    }

    /// Has nobody wait any more for what another process has locked.
    pub(crate) fn hurry(&self) {
        self.usage.hurry();
    }
}

/// Sees whether the locks of this file system stand against each other: two openings of one file do as two processes.
fn check_locks(dir: &CacheDir) -> Result<(), CacheError> {
    let probe = || -> io::Result<bool> {
        let (a, b) = (dir.shared_file("lock-probe")?, dir.shared_file("lock-probe")?);
        // Several processes may probe at a time, each by a byte of its own.
        let byte = u64::from(std::process::id());
        // Another may have the same number, in another container, or be a thread of this process. That its lock stands
        // against this one is what was asked.
        Ok(!try_lock(&a, byte, Lock::Exclusive)? || !try_lock(&b, byte, Lock::Exclusive)?)
    };
    let problem = match probe() {
        Ok(true) => return Ok(()),
        Ok(false) => "locks there do not hold".to_owned(),
        Err(error) => format!("locks there fail: {error}"),
    };
    Err(CacheError::new(
        CacheErrorKind::Directory,
        format!(
            "processes can't share the cache directory {}: {problem}; use a directory on a local disk, or one directory \
             for each process with the prune backend meta",
            dir.root().display()
        ),
    ))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::settings::PruneBackend;

    #[test]
    fn probers_of_one_number_prove_that_locks_hold() {
        let folder = tempfile::tempdir().unwrap();
        let dir = CacheDir::open(folder.path(), PruneBackend::Scan).unwrap();
        check_locks(&dir).unwrap();
        let other = dir.shared_file("lock-probe").unwrap();
        assert!(try_lock(&other, u64::from(std::process::id()), Lock::Exclusive).unwrap());
        check_locks(&dir).unwrap();
        drop(other);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|_| check_locks(&dir).unwrap()));
            }
        });
    }
}
