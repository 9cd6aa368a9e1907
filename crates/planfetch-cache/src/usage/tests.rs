//! The count of a shared directory, and who may go to make room in it.

use std::sync::Arc;

use super::*;
use crate::key::Stamp;
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
        let own = Pending::default();
        self.usage.take(Amount::file(LEN), &own, &self.limits, &self.dir, &self.leases).unwrap()
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

#[test]
fn a_file_whose_fetch_has_not_ended_yet_is_counted_once() {
    for just_come in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::open(folder.path(), 100);
        (0..4).for_each(|n| drop((process.take(), process.put(n))));
        let own = Pending { amount: Amount::file(LEN), keys: HashSet::from([key(just_come)]) };
        let limits = Limits { max_bytes: 3 * LEN, ..process.limits };
        assert_eq!(process.usage.shrink(&own, &limits, &process.dir, &process.leases).unwrap(), 1);
        assert_eq!(process.usage.read(), Amount { bytes: 3 * LEN, files: 3 });
        assert_eq!(process.dir.scan(|_| false).unwrap().objects.len(), 3);
    }
}

#[test]
fn what_is_smaller_than_what_found_no_room_finds_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::open(folder.path(), 100);
    process.limits.max_bytes = 2 * LEN + 5;
    let _files: Vec<Lease> = (0..2).map(|n| (process.take(), process.put(n)).1).collect();
    assert_eq!(process.take(), (false, 0));
    let small = |len| {
        let own = Pending::default();
        process.usage.take(Amount::file(len), &own, &process.limits, &process.dir, &process.leases).unwrap()
    };
    assert_eq!((small(6), small(5)), ((false, 0), (true, 0)));
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
                    let error = process.usage.give_back(Amount::file(LEN)).unwrap_err();
                    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                    assert_eq!(process.usage.read(), Amount::file(LEN));
                }
            });
        }
    });
    let second = Process::open(folder.path(), 100);
    assert_eq!(second.usage.read(), Amount::default());
    drop(other);
    assert_eq!(second.usage.read(), Amount::file(LEN));
    process.usage.give_back(Amount::file(LEN)).unwrap();
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
