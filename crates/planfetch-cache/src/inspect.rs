//! A cache directory looked at from outside, beside whatever uses it.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use crate::directory::{CacheDir, Found, remove};
use crate::error::{CacheError, CacheErrorKind};
use crate::slot::is_intact;

/// A cache directory that is looked at without opening it: nothing is locked, made or changed, so that a running job is
/// not disturbed, whichever [`PruneBackend`](crate::PruneBackend) it has.
///
/// # Example
///
/// ```
/// use planfetch_cache::{CacheInspector, DiskCache};
///
/// # let folder = tempfile::tempdir()?;
/// let dir = folder.path().join("cache");
/// assert!(CacheInspector::new(&dir).is_err());
///
/// std::fs::write(folder.path().join("a.txt"), "hello")?;
/// let cache = DiskCache::builder(&dir).build()?;
/// drop(cache.ensure_local(&format!("file://{}/a.txt", folder.path().display()))?);
///
/// let inspector = CacheInspector::new(&dir)?;
/// let found = inspector.usage()?;
/// assert_eq!((found.files, found.bytes), (1, 5));
/// assert!(inspector.damaged_files(2, |_| true)?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CacheInspector {
    dir: CacheDir,
}

/// What lies in a cache directory. Made by [`CacheInspector::usage`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct DirectoryUsage {
    /// Objects.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of the largest object.
    pub largest: u64,
    /// Temporary files: downloads under way, or what killed processes left behind, which the next one clears away.
    pub under_way: u64,
    /// When the object was last used that was not used for the longest time, as far as the directory knows.
    pub oldest_use: Option<SystemTime>,
    /// Who uses the directory now.
    pub users: DirectoryUsers,
}

/// Who uses a cache directory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum DirectoryUsers {
    /// Nobody.
    Nobody,
    /// One process, which has it for itself ([`PruneBackend::Meta`](crate::PruneBackend::Meta)).
    One {
        /// Its number, or 0 for a process of another container.
        process: u32,
    },
    /// Processes that share it ([`PruneBackend::Scan`](crate::PruneBackend::Scan)).
    Shared {
        /// Their numbers in order, with 0 for processes of another container.
        processes: Vec<u32>,
    },
    /// The operating system does not tell.
    #[default]
    Unknown,
}

/// A file that does not hold what its name says.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DamagedFile {
    /// The file, below the directory.
    pub path: std::path::PathBuf,
    /// How many bytes it should have.
    pub expected_bytes: u64,
    /// What is wrong.
    pub problem: String,
    found: Found,
}

impl CacheInspector {
    /// Finds the cache directory `dir`.
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::Directory`] when it does not exist or is no cache directory of this format.
    pub fn new(dir: impl AsRef<Path>) -> Result<Self, CacheError> {
        Ok(Self { dir: CacheDir::look(dir.as_ref())? })
    }

    /// Returns the directory, as an absolute path.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.root()
    }

    /// Lists what lies in the directory. Files that come or go meanwhile may count or not.
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::Directory`] when it can't be read.
    pub fn usage(&self) -> Result<DirectoryUsage, CacheError> {
        let found = self.dir.scan(|_| false).map_err(|source| self.unreadable(source))?;
        let lens = || found.objects.iter().map(|(_, stamp)| stamp.len);
        Ok(DirectoryUsage {
            files: found.objects.len() as u64,
            bytes: lens().sum(),
            largest: lens().max().unwrap_or(0),
            under_way: found.under_way.len() as u64,
            oldest_use: found.objects.iter().map(|found| self.dir.last_use(*found)).min(),
            users: users(&self.dir.lock_file()),
        })
    }

    /// Reads every object with `threads` threads and returns the files whose length or checksum is not what their name
    /// says, in the order of their paths. What is deleted meanwhile is not damaged.
    ///
    /// `on_file` is called after each file with the bytes that it should have, on any of the threads; returning false
    /// ends the search early.
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::Directory`] when the directory can't be read.
    #[expect(clippy::missing_panics_doc, reason = "a panic of `on_file` is passed on")]
    pub fn damaged_files(
        &self,
        threads: usize,
        on_file: impl Fn(u64) -> bool + Sync,
    ) -> Result<Vec<DamagedFile>, CacheError> {
        let found = self.dir.scan(|_| false).map_err(|source| self.unreadable(source))?.objects;
        let (next, damaged) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let check = || {
            while let Some(found) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Some(file) = self.check(*found) {
                    damaged.lock().expect("no thread panics while it holds the lock").push(file);
                }
                if !on_file(found.1.len) {
                    next.store(usize::MAX / 2, Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.max(1) {
                scope.spawn(check);
            }
            check();
        });
        let mut damaged = damaged.into_inner().expect("no thread panics while it holds the lock");
        damaged.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(damaged)
    }

    fn check(&self, (key, stamp): Found) -> Option<DamagedFile> {
        let path = self.dir.path(key, stamp);
        let problem = match is_intact(&self.dir, key, stamp) {
            Ok(true) => return None,
            Err(error) => format!("it can't be read: {error}"),
            Ok(false) => match path.metadata() {
                // Whoever uses the directory has deleted it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                Ok(metadata) if metadata.len() != stamp.len => format!("it has {} bytes", metadata.len()),
                _ => "its checksum is another".to_owned(),
            },
        };
        let path = path.strip_prefix(self.dir.root()).unwrap_or(&path).to_owned();
        Some(DamagedFile { path, expected_bytes: stamp.len, problem, found: (key, stamp) })
    }

    /// Deletes damaged files, and returns how many are gone. A process that has one open reads on; the next that wants
    /// the object fetches it anew, as it would when it found the damage by itself.
    ///
    /// A file that was replaced by a sound one meanwhile stays.
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::Directory`] when a file can't be deleted.
    pub fn delete_damaged(&self, damaged: &[DamagedFile]) -> Result<u64, CacheError> {
        let mut deleted = 0;
        for DamagedFile { found: (key, stamp), .. } in damaged {
            if !matches!(is_intact(&self.dir, *key, *stamp), Ok(true)) {
                remove(&self.dir.path(*key, *stamp)).map_err(|source| self.unreadable(source))?;
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    fn unreadable(&self, source: io::Error) -> CacheError {
        let message = format!("can't read the cache directory {}: {source}", self.dir.root().display());
        CacheError::with_source(CacheErrorKind::Directory, message, source)
    }
}

/// Finds out who has locked a file, without locking it: a job that starts at this moment must not find it locked.
#[cfg(target_os = "linux")]
fn users(lock_file: &Path) -> DirectoryUsers {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = lock_file.metadata() else { return DirectoryUsers::Nobody };
    for _ in 0..READINGS {
        match read_locks().map(|locks| parse_locks(&locks, metadata.ino())) {
            // In a list of many, one can have been missed.
            Ok(DirectoryUsers::Nobody) => {}
            Ok(users) => return users,
            Err(_) => return DirectoryUsers::Unknown,
        }
    }
    DirectoryUsers::Nobody
}

#[cfg(target_os = "linux")]
const READINGS: usize = 3;

/// Reads the list of locks, by as few calls as there are pages of it: between two calls, the kernel goes on by counting,
/// and passes over a lock when an earlier one has gone. `std::fs::read_to_string` begins with 32 bytes.
#[cfg(target_os = "linux")]
fn read_locks() -> io::Result<String> {
    use std::io::Read;
    let mut locks = String::with_capacity(64 << 10);
    std::fs::File::open("/proc/locks")?.read_to_string(&mut locks)?;
    Ok(locks)
}

#[cfg(not(target_os = "linux"))]
fn users(_lock_file: &Path) -> DirectoryUsers {
    DirectoryUsers::Unknown
}

/// Reads lines such as `3: FLOCK  ADVISORY  WRITE 4711 fd:01:1573 0 EOF` (proc_locks(5)). The device is not compared:
/// a file system of layers has another in this list than the one that it says.
#[cfg(target_os = "linux")]
fn parse_locks(locks: &str, inode: u64) -> DirectoryUsers {
    let (mut writers, mut readers) = (BTreeSet::new(), BTreeSet::new());
    for line in locks.lines() {
        let mut fields = line.split_whitespace().skip(1);
        let (Some("FLOCK"), Some(_), Some(kind), Some(process), Some(file)) =
            (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if file.rsplit(':').next().and_then(|number| number.parse().ok()) == Some(inode) {
            // Of a process in another container, no number is known.
            let process = process.parse().unwrap_or(0);
            if kind == "WRITE" {
                writers.insert(process)
            } else {
                readers.insert(process)
            };
        }
    }
    match (writers.pop_first(), readers.is_empty()) {
        (Some(process), _) => DirectoryUsers::One { process },
        (None, false) => DirectoryUsers::Shared { processes: readers.into_iter().collect() },
        (None, true) => DirectoryUsers::Nobody,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn locks_are_read_as_the_kernel_lists_them() {
        let locks = "1: POSIX  ADVISORY  WRITE 10 fd:01:7 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 30 fd:01:7 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 40 fd:01:7 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 20 00:2f:7 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 50 fd:01:8 0 EOF\n\
                     5: OFDLCK ADVISORY  READ -1 fd:01:7 0 EOF\n\
                     6: FLOCK  ADVISORY  READ -1 fd:01:9 0 EOF\n";
        assert_eq!(parse_locks(locks, 7), DirectoryUsers::Shared { processes: vec![20, 30] });
        assert_eq!(parse_locks(locks, 8), DirectoryUsers::One { process: 50 });
        assert_eq!(parse_locks(locks, 9), DirectoryUsers::Shared { processes: vec![0] });
        assert_eq!(parse_locks(locks, 1), DirectoryUsers::Nobody);
    }
}
