//! The count of a shared directory, and who may go to make room in it.

use std::sync::Arc;

use super::*;
use crate::key::{ObjectKey, Stamp};
use crate::lease::{LEASE_FILES, Lease};
use crate::settings::PruneBackend;

const LEN: u64 = 10;

/// A shared directory, as one process sees it.
struct Process {
    dir: CacheDir,
    leases: Arc<Leases>,
    usage: Usage,
    limits: Limits,
}

#[expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
impl Process {
    fn open(root: &std::path::Path, max_files: u64) -> Self {
        let dir = CacheDir::open(root, PruneBackend::Scan).unwrap();
        let leases = (0..LEASE_FILES).map(|i| dir.shared_file(&format!("leases/{i:02x}")).unwrap()).collect();
        let leases = Arc::new(Leases::new(leases, dir.shared_file("claims").unwrap()));
        let usage = Usage::open(&dir, &dir.scan(|_| false).unwrap(), Duration::from_millis(50)).unwrap();
        Self { dir, leases, usage, limits: Limits { max_files, ..Limits::NONE } }
    }

    /// Takes room for a file, and says whether there is any and how many files went.
    fn take(&self) -> (bool, u64) {
        let (made, deleted) = self.take_for(LEN, || Ok(())).unwrap();
        (made.is_some(), deleted)
    }

    fn take_for<T>(&self, len: u64, make: impl FnOnce() -> io::Result<T>) -> io::Result<(Option<T>, u64)> {
        self.usage.take(Amount::file(len), Amount::default(), &self.limits, &self.dir, &self.leases, make)
    }

    fn give_back(&self, room: Amount) -> io::Result<()> {
        self.usage.free(|| Ok(room))
    }

    /// Puts a file in place, and leases it.
    fn put(&self, n: u32) -> Lease {
        let stamp = Stamp { len: LEN, crc: 0 };
        self.dir.temp_file(key(n), LEN).unwrap().persist(self.dir.path(key(n), stamp)).unwrap();
        self.leases.lease(key(n)).unwrap().unwrap()
    }
}

fn key(n: u32) -> ObjectKey {
    ObjectKey::new("", &format!("s3://b/{n}"), None)
}

#[test]
fn a_directory_full_of_files_in_use_is_not_listed_for_each_request() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (Process::open(folder.path(), 4), Process::open(folder.path(), 4));
    let mut files: Vec<Lease> = Vec::new();
    for n in 0..4 {
        assert_eq!(b.take(), (true, 0));
        files.push(b.put(n));
    }
    assert_eq!(a.take(), (false, 0));
    // A listing would find it from here on. Some requests do without one, and not for ever.
    files.pop();
    let unseen = (0..1_000).take_while(|_| a.take() == (false, 0)).count();
    assert!((1..100).contains(&unseen), "{unseen} requests were refused unseen");
    let _again = a.put(9);
    assert_eq!(a.take(), (false, 0));
    // What this process lets go of itself, it knows.
    files.pop();
    a.usage.let_go();
    assert_eq!(a.take(), (true, 1));
}

/// Every change of the directory and its count, and another process that sees both at any moment.
#[test]
fn the_count_and_the_directory_change_together() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (Process::open(folder.path(), 100), Process::open(folder.path(), 100));
    // Who lists the directory while another process changes it waits until the two agree.
    let seen = || {
        b.usage.shrink(&b.limits, &b.dir, &b.leases).unwrap();
        b.usage.read()
    };
    std::thread::scope(|scope| {
        let (changing, changed) = std::sync::mpsc::channel();
        let watcher = scope.spawn(move || changed.iter().map(|()| seen()).collect::<Vec<_>>());
        // It asks as soon as it is told, and would be through long before the change is.
        let slowly = || pause(Duration::from_millis(20));
        let begin = || {
            changing.send(()).unwrap();
            slowly();
        };
        let _claim = a.leases.claim(key(1)).unwrap().unwrap();
        let path = a.dir.path(key(1), Stamp { len: 7, crc: 0 });
        let taken = a.take_for(LEN, || {
            begin();
            a.dir.temp_file(key(1), LEN).inspect(|_| slowly())
        });
        let temp = taken.unwrap().0.unwrap();
        slowly();
        let persist = || {
            begin();
            temp.persist(&path)?;
            slowly();
            Ok(Amount { bytes: LEN - 7, files: 0 })
        };
        a.usage.free(persist).unwrap();
        slowly();
        let delete = || {
            begin();
            std::fs::remove_file(&path)?;
            slowly();
            Ok(Amount::file(7))
        };
        a.usage.free(delete).unwrap();
        drop(changing);
        assert_eq!(watcher.join().unwrap(), [Amount::file(LEN), Amount::file(7), Amount::default()]);
    });
    assert_eq!(a.usage.read(), Amount::default());
}

#[test]
fn room_for_a_file_that_cannot_be_made_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::open(folder.path(), 100);
    assert_eq!(process.take(), (true, 0));
    process.take_for::<()>(LEN, || Err(io::ErrorKind::StorageFull.into())).unwrap_err();
    process.usage.free(|| Err(io::ErrorKind::NotFound.into())).unwrap_err();
    assert_eq!(process.usage.read(), Amount::file(LEN));
}

#[test]
fn a_process_that_is_killed_while_it_makes_a_file_leaves_the_count_too_high() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::open(folder.path(), 100);
    let count = || u64::from(std::fs::read(folder.path().join("usage")).unwrap()[8]);
    process
        .take_for(LEN, || {
            assert_eq!(count(), 1);
            Ok(())
        })
        .unwrap();
    process
        .usage
        .free(|| {
            assert_eq!(count(), 1);
            Ok(Amount::file(LEN))
        })
        .unwrap();
    assert_eq!(count(), 0);
}

#[test]
fn another_file_of_a_fetch_takes_the_room_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::open(folder.path(), 100);
    process.limits.max_bytes = 30;
    let _claim = process.leases.claim(key(1)).unwrap().unwrap();
    let mut temp = None;
    let mut replace = |held: &[u64], len| {
        let held = held.iter().fold(Amount::default(), |sum, len| Amount { bytes: sum.bytes + len, files: 1 });
        let make = || process.dir.temp_file(key(1), len).map(|made| temp = Some(made));
        let (room, limits) = (Amount::file(len), &process.limits);
        let made = process.usage.take(room, held, limits, &process.dir, &process.leases, make).unwrap().0;
        (made.is_some(), process.usage.read())
    };
    assert_eq!(replace(&[], 10), (true, Amount::file(10)));
    assert_eq!(replace(&[10], 30), (true, Amount::file(30)));
    assert_eq!(replace(&[30], 31), (false, Amount::file(30)));
    assert_eq!(replace(&[30], 5), (true, Amount::file(5)));
}

#[test]
fn what_is_smaller_than_what_found_no_room_finds_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::open(folder.path(), 100);
    process.limits.max_bytes = 2 * LEN + 5;
    let _files: Vec<Lease> = (0..2).map(|n| (process.take(), process.put(n)).1).collect();
    assert_eq!(process.take(), (false, 0));
    let small = |len| process.take_for(len, || Ok(())).unwrap();
    assert_eq!((small(6), small(5)), ((None, 0), (Some(()), 0)));
}

#[test]
fn nobody_waits_for_ever_for_the_lock_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::open(folder.path(), 100);
    assert_eq!(process.take(), (true, 0));
    let other = process.dir.shared_file("usage").unwrap();
    assert!(try_lock(&other, 0, Lock::Exclusive).unwrap());
    // What must not wait tells what was last known; what may, waits for a while, and for all others.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let error = process.take_for(LEN, || Ok(())).unwrap_err();
                    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                    // What is deleted all the same stays counted.
                    process.give_back(Amount::file(LEN)).unwrap();
                    assert_eq!(process.usage.read(), Amount::file(LEN));
                }
            });
        }
    });
    let second = Process::open(folder.path(), 100);
    assert_eq!(second.usage.read(), Amount::default());
    drop(other);
    assert_eq!(second.usage.read(), Amount::file(LEN));
    process.give_back(Amount::file(LEN)).unwrap();
    assert_eq!((process.usage.read(), second.usage.read()), (Amount::default(), Amount::default()));
}

#[test]
fn a_count_that_is_none_is_put_right() {
    let folder = tempfile::tempdir().unwrap();
    for content in [&b""[..], &[7; 5], &[7; 40]] {
        let process = Process::open(folder.path(), 100);
        std::fs::write(folder.path().join("usage"), content).unwrap();
        // One that is too high is corrected, since the directory seems full.
        assert!(process.take().0);
        assert_eq!(std::fs::read(folder.path().join("usage")).unwrap().len(), CONTENT);
    }
}
