//! How much of what comes is in memory, wherever it ends.

use std::path::Path;
use std::sync::{Arc, mpsc};

use planfetch_cache::CacheLimit::{self, Unlimited};
use planfetch_cache::{CacheSettings, DiskCache, PruneBackend};

use crate::disk::SmallDisk;
use crate::store::CountingStore;
use crate::support::{content, quick, read};

const MIB: usize = 1 << 20;

/// Has eight objects of one length downloaded at once, which is more than may be in memory. Returns how many bytes
/// were, and how many of the objects were handed out from there.
fn download(dir: &Path, len: usize, settings: CacheSettings, fault: impl FnOnce(&DiskCache)) -> (usize, usize) {
    let object = content(len as u64, len);
    let store = CountingStore::new(object.clone());
    let settings = CacheSettings { max_bytes_in_flight: 40 << 20, max_attempts: 1, ..settings };
    let builder = DiskCache::builder(dir.join("cache")).with_store("memory://any", Arc::new(store.clone()));
    let cache = builder.with_settings(settings).build().unwrap();
    fault(&cache);
    let (answer, answers) = mpsc::channel();
    for i in 0..8 {
        let answer = answer.clone();
        cache.ensure_local_then(&format!("memory://any/{i}"), move |file| answer.send(file).unwrap());
    }
    let mut unwritten = 0;
    for _ in 0..8 {
        // One at a time: what has been handed out is the reader's.
        let file = answers.recv().unwrap().unwrap();
        assert!(read(&file) == object, "an object of {len} bytes");
        unwritten += usize::from(file.path().is_none());
    }
    (store.most_in_memory(), unwritten)
}

/// What takes an object's place on disk away: no room for it, no folder to write to, or a disk that fills up meanwhile.
type DiskFault = (&'static str, CacheLimit, fn(&DiskCache));

fn faults(disk: Option<&SmallDisk>) -> Vec<DiskFault> {
    let block: fn(&DiskCache) = |cache| {
        std::fs::remove_dir(cache.dir().join("objects")).unwrap();
        std::fs::write(cache.dir().join("objects"), b"").unwrap();
    };
    let nothing: fn(&DiskCache) = |_| {};
    let mut faults = vec![("no room", CacheLimit::TotalSize(1_000), nothing), ("no folder", Unlimited, block)];
    faults.extend(disk.map(|_| ("full disk", Unlimited, nothing)));
    faults
}

#[test]
fn what_finds_no_place_on_disk_keeps_to_what_may_be_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    // Eight objects of the least length do not fit, nor does one of the next.
    let disk = SmallDisk::mount(folder.path(), "size=25m");
    for (name, limit, fault) in faults(disk.as_ref()) {
        // Taken as one stream, and by parts; each less than is written at once, more than that, and more than may be in
        // memory at all.
        for (len, part_size) in [(9, 32), (9, 2), (30, 32), (30, 4), (50, 32), (50, 4)] {
            let on_disk = disk.as_ref().filter(|_| name == "full disk").map_or(folder.path(), |disk| &disk.0);
            let dir = tempfile::tempdir_in(on_disk).unwrap();
            let settings = CacheSettings { limit, part_size: part_size << 20, ..quick() };
            let (most, unwritten) = download(dir.path(), len * MIB, settings, fault);
            assert!(unwritten == 8 || (name == "full disk" && len == 9 && 0 < unwritten), "{name}: {unwritten}");
            // Beside what is counted, one chunk of each may be between the store and the cache.
            let allowed = 40.max(len) + 8;
            assert!(most <= allowed * MIB, "{name}, {len} MiB by {part_size}: {most} bytes in memory");
        }
    }
}

#[test]
fn what_is_written_as_it_comes_keeps_to_what_may_be_in_memory() {
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        for (len, part_size) in [(30, 32), (30, 4), (50, 32), (50, 4)] {
            let dir = tempfile::tempdir().unwrap();
            let settings = CacheSettings { part_size: part_size << 20, prune_backend: backend, ..quick() };
            let (most, unwritten) = download(dir.path(), len * MIB, settings, |_| {});
            assert_eq!(unwritten, 0);
            assert!(most <= 48 * MIB, "{backend:?}, {len} MiB by {part_size}: {most} bytes in memory");
        }
    }
}
