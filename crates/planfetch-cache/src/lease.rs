//! What processes that share a directory tell each other, by locks on single bytes of files.
//!
//! - A *lease* says that a process uses an object's file: a shared lock on the byte that the object's key names. Who
//!   wants to delete the file needs that byte exclusively, and so finds out.
//! - A *claim* says that a process downloads an object: an exclusive lock.
//!
//! The locks are those of open file descriptions (`F_OFD_SETLK`): the operating system drops them when the process
//! ends, however it ends, so nothing stale is ever left, and threads of one process don't share them by accident.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::key::ObjectKey;

/// Over how many files leases are spread: the system goes through all locks of a file for each of them.
pub(crate) const LEASE_FILES: usize = 64;

/// How a byte is locked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
    None,
}

/// Locks a byte if no other holder stands against it; says whether it did.
#[cfg(target_os = "linux")]
pub(crate) fn try_lock(file: &File, byte: u64, lock: Lock) -> io::Result<bool> {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;

    let kind = match lock {
        Lock::Shared => libc::F_RDLCK,
        Lock::Exclusive => libc::F_WRLCK,
        Lock::None => libc::F_UNLCK,
    };
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        // OK because a key is cut to fit.
        l_start: byte as libc::off_t,
        l_len: 1,
        l_pid: 0,
    };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&range)) {
        Ok(_) => Ok(true),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Locks of this kind are known on Linux alone.
#[cfg(not(target_os = "linux"))]
pub(crate) fn try_lock(_file: &File, _byte: u64, _lock: Lock) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The byte that a key names: 62 bits of it, so that two objects meet never, and would only wait for each other.
fn byte(key: ObjectKey) -> u64 {
    key.bits() >> 2
}

/// The leases and claims of this process.
#[derive(Debug)]
pub(crate) struct Leases {
    stripes: Vec<Stripe>,
    claims: File,
    /// The claims of this process: locks of one opening don't stand against each other.
    claimed: Mutex<HashSet<ObjectKey>>,
}

#[derive(Debug)]
struct Stripe {
    file: File,
    /// How often each object is leased in this process, which has one lock for all of them.
    held: Mutex<HashMap<ObjectKey, u32>>,
}

impl Leases {
    /// Takes the files whose bytes are locked: [`LEASE_FILES`] for leases, and one for claims.
    pub(crate) fn new(leases: Vec<File>, claims: File) -> Self {
        Self {
            stripes: leases.into_iter().map(|file| Stripe { file, held: Mutex::default() }).collect(),
            claims,
            claimed: Mutex::default(),
        }
    }

    fn stripe(&self, key: ObjectKey) -> &Stripe {
        &self.stripes[usize::from(key.fan_out()) % self.stripes.len()]
    }

    /// Leases an object; `None` while another process deletes its file.
    pub(crate) fn lease(self: &Arc<Self>, key: ObjectKey) -> io::Result<Option<Lease>> {
        let stripe = self.stripe(key);
        let mut held = stripe.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.contains_key(&key) && !try_lock(&stripe.file, byte(key), Lock::Shared)? {
            return Ok(None);
        }
        *held.entry(key).or_default() += 1;
        Ok(Some(Lease { leases: Some(Arc::clone(self)), key }))
    }

    /// Ends one lease that [`Lease::keep`] left in place.
    pub(crate) fn end(&self, key: ObjectKey) {
        let stripe = self.stripe(key);
        let mut held = stripe.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                held.remove(&key);
                // OK because the lock ends with the file at the latest.
                let _ = try_lock(&stripe.file, byte(key), Lock::None);
            }
        }
    }

    /// Runs `delete` if neither this process nor another leases the object, and returns its result. Nobody gets a lease
    /// meanwhile.
    pub(crate) fn if_unused<T>(&self, key: ObjectKey, delete: impl FnOnce() -> T) -> Option<T> {
        let stripe = self.stripe(key);
        let held = stripe.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains_key(&key) || !try_lock(&stripe.file, byte(key), Lock::Exclusive).unwrap_or(false) {
            return None;
        }
        let result = delete();
        let _ = try_lock(&stripe.file, byte(key), Lock::None);
        Some(result)
    }

    /// Claims an object; `None` while another process has it, or another task of this one.
    pub(crate) fn claim(self: &Arc<Self>, key: ObjectKey) -> io::Result<Option<Claim>> {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if claimed.contains(&key) || !try_lock(&self.claims, byte(key), Lock::Exclusive)? {
            return Ok(None);
        }
        claimed.insert(key);
        Ok(Some(Claim { leases: Arc::clone(self), key }))
    }
}

/// A lease, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    /// `None` when the lease stays without this guard.
    leases: Option<Arc<Leases>>,
    key: ObjectKey,
}

impl Lease {
    /// Leaves the lease in place until [`Leases::end`].
    pub(crate) fn keep(mut self) {
        self.leases = None;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(leases) = &self.leases {
            leases.end(self.key);
        }
    }
}

/// A claim, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    leases: Arc<Leases>,
    key: ObjectKey,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = self.leases.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        claimed.remove(&self.key);
        let _ = try_lock(&self.leases.claims, byte(self.key), Lock::None);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Two openings of the same files stand against each other as two processes do.
    #[expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
    fn two() -> (tempfile::TempDir, Arc<Leases>, Arc<Leases>) {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            let file = |name: &str| {
                File::options().create(true).truncate(false).read(true).write(true).open(dir.path().join(name)).unwrap()
            };
            Arc::new(Leases::new((0..4).map(|i| file(&format!("lease-{i}"))).collect(), file("claims")))
        };
        let (a, b) = (open(), open());
        (dir, a, b)
    }

    fn key(n: u32) -> ObjectKey {
        ObjectKey::new("", &format!("s3://b/{n}"), None)
    }

    #[test]
    fn what_any_process_leases_is_deleted_by_none() {
        let (_dir, a, b) = two();
        let first = a.lease(key(1)).unwrap().unwrap();
        let second = b.lease(key(1)).unwrap().unwrap();
        for leases in [&a, &b] {
            assert_eq!(leases.if_unused(key(1), || ()), None);
            assert_eq!(leases.if_unused(key(2), || ()), Some(()));
        }
        drop(first);
        assert_eq!(a.if_unused(key(1), || ()), None);
        drop(second);
        assert_eq!(a.if_unused(key(1), || b.lease(key(1)).unwrap().is_none()), Some(true));
        assert!(b.lease(key(1)).unwrap().is_some());
    }

    #[test]
    fn a_lease_counts_for_each_of_its_holders() {
        let (_dir, a, b) = two();
        a.lease(key(1)).unwrap().unwrap().keep();
        let second = a.lease(key(1)).unwrap().unwrap();
        drop(second);
        assert_eq!(b.if_unused(key(1), || ()), None);
        a.end(key(1));
        assert_eq!(b.if_unused(key(1), || ()), Some(()));
    }

    #[test]
    fn one_process_claims_an_object_and_its_end_frees_it() {
        let (_dir, a, b) = two();
        let claim = a.claim(key(1)).unwrap().unwrap();
        assert!(b.claim(key(1)).unwrap().is_none());
        assert!(a.claim(key(1)).unwrap().is_none(), "two tasks of one process");
        assert!(b.claim(key(2)).unwrap().is_some());
        drop(claim);
        let claim = b.claim(key(1)).unwrap().unwrap();
        assert!(a.claim(key(1)).unwrap().is_none());
        // What holds the files open is gone, as with a process that was killed.
        drop((claim, b));
        assert!(a.claim(key(1)).unwrap().is_some());
    }
}
