//! What stays and what goes when the disk may hold only so much.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use planfetch_cache::{CacheLimit, CacheSettings, DiskCache, EvictionMode, NextUse, PrefetchGuard, PruneBackend};
use planfetch_testkit::{S3Server, eventually};

use crate::support::{builder, content, objects, quick, read};

const LEN: usize = 10_000;

fn limited(files: u64, eviction: EvictionMode) -> CacheSettings {
    CacheSettings { limit: CacheLimit::TotalSize(files * LEN as u64), eviction, low_watermark: 1.0, ..quick() }
}

fn server_with(objects: u64) -> S3Server {
    let server = S3Server::start_in_memory();
    (0..objects).for_each(|i| server.put("data", &i.to_string(), &content(i, LEN)));
    server
}

fn uri(i: u64) -> String {
    format!("s3://data/{i}")
}

fn open(dir: &Path, server: &S3Server, settings: CacheSettings) -> DiskCache {
    builder(dir, server).with_settings(settings).build().unwrap()
}

/// The bytes of all files, those that are being written too. A file that goes while it is looked at counts nothing.
fn bytes_on_disk(dir: &Path) -> u64 {
    objects(dir).iter().filter_map(|path| path.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[test]
fn the_limit_is_never_exceeded_however_many_threads_ask() {
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        for eviction in [EvictionMode::Window, EvictionMode::Pressure] {
            let (dir, server) = (tempfile::tempdir().unwrap(), server_with(60));
            let settings = CacheSettings { prune_backend: backend, write_concurrency: 3, ..limited(10, eviction) };
            let cache = open(dir.path(), &server, settings);
            let is_done = AtomicBool::new(false);
            let most = std::thread::scope(|scope| {
                let watcher = scope.spawn(|| {
                    let mut most = 0;
                    while !is_done.load(Ordering::Relaxed) {
                        most = most.max(bytes_on_disk(dir.path()));
                    }
                    most
                });
                let readers: Vec<_> = (0..4)
                    .map(|thread| {
                        let cache = &cache;
                        scope.spawn(move || {
                            for i in 0..150 {
                                let id = (i * 7 + thread * 13) % 60;
                                assert_eq!(read(&cache.ensure_local(&uri(id)).unwrap()), content(id, LEN));
                            }
                        })
                    })
                    .collect();
                readers.into_iter().for_each(|reader| reader.join().unwrap());
                is_done.store(true, Ordering::Relaxed);
                watcher.join().unwrap()
            });
            assert!(most <= 10 * LEN as u64, "{backend:?} {eviction}: {most} bytes");
            assert!(0 < cache.stats().evictions);
        }
    }
}

#[test]
fn what_was_not_used_for_the_longest_time_goes_first() {
    let (dir, server) = (tempfile::tempdir().unwrap(), server_with(5));
    let cache = open(dir.path(), &server, limited(3, EvictionMode::Pressure));
    for i in [0, 1, 2, 0, 3, 0, 4] {
        drop(cache.ensure_local(&uri(i)).unwrap());
    }
    let local: Vec<u64> = (0..5).filter(|i| cache.contains(&uri(*i))).collect();
    assert_eq!(local, [0, 3, 4]);
    assert_eq!(server.counts().requests, 5);
}

#[test]
fn what_is_used_last_in_the_future_goes_first() {
    let (dir, server) = (tempfile::tempdir().unwrap(), server_with(5));
    let cache = open(dir.path(), &server, limited(3, EvictionMode::Clairvoyant));
    let use_once = |i: u64, next: NextUse| {
        let guard = cache.prefetch(&uri(i)).unwrap();
        drop(cache.ensure_local(&uri(i)).unwrap());
        PrefetchGuard::release_all([(guard, next)]);
    };
    use_once(0, NextUse::At(100));
    use_once(1, NextUse::At(300));
    use_once(2, NextUse::At(200));
    use_once(3, NextUse::At(250));
    assert!(!cache.contains(&uri(1)), "the farthest has gone");
    use_once(4, NextUse::Unknown);
    assert!(!cache.contains(&uri(3)), "then the next to farthest");
    use_once(1, NextUse::At(400));
    assert!(!cache.contains(&uri(4)), "what is never used again goes before all others");
    // What a caller learns later counts too.
    cache.set_next_use(&uri(0), NextUse::At(900)).unwrap();
    use_once(4, NextUse::At(500));
    assert_eq!((0..5).filter(|i| cache.contains(&uri(*i))).collect::<Vec<_>>(), [1, 2, 4]);
}

#[test]
fn a_part_that_is_used_last_in_the_future_goes_first() {
    let (dir, server) = (tempfile::tempdir().unwrap(), server_with(4));
    let cache = open(dir.path(), &server, limited(3, EvictionMode::Clairvoyant));
    let whole = 0..LEN as u64;
    for i in 0..3 {
        drop(cache.ensure_local_range(&uri(i), whole.clone()).unwrap());
        cache.set_next_use_range(&uri(i), whole.clone(), NextUse::At([200, 900, 300][i as usize])).unwrap();
    }
    drop(cache.ensure_local_range(&uri(3), whole.clone()).unwrap());
    assert_eq!((0..4).filter(|i| cache.contains_range(&uri(*i), whole.clone())).collect::<Vec<_>>(), [0, 2, 3]);
}

#[test]
fn what_leaves_the_window_too_young_goes_later() {
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        let (dir, server) = (tempfile::tempdir().unwrap(), server_with(30));
        let settings =
            CacheSettings { prune_backend: backend, min_age_before_delete: Duration::from_secs(2), ..quick() };
        let cache = open(dir.path(), &server, settings);
        let pass = |ids: std::ops::Range<u64>| {
            for i in ids {
                let guard = cache.prefetch(&uri(i)).unwrap();
                assert_eq!(read(&cache.ensure_local(&uri(i)).unwrap()), content(i, LEN));
                guard.evict();
            }
        };
        pass(0..20);
        // It goes with what the cache does next.
        eventually("what is out of the window has gone", || {
            pass(20..21);
            (0..20).all(|i| !cache.contains(&uri(i)))
        });
        eventually("its files too", || objects(dir.path()).len() <= 1);
    }
}

#[test]
fn a_limit_below_what_is_in_use_is_kept_and_everything_is_delivered() {
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        let (dir, server) = (tempfile::tempdir().unwrap(), server_with(12));
        let cache =
            open(dir.path(), &server, CacheSettings { prune_backend: backend, ..limited(4, EvictionMode::Window) });
        let guards: Vec<_> = (0..12).map(|i| cache.prefetch(&uri(i)).unwrap()).collect();
        let files: Vec<_> = (0..12).map(|i| cache.ensure_local(&uri(i)).unwrap()).collect();
        for (i, file) in (0..).zip(&files) {
            assert_eq!(read(file), content(i, LEN));
        }
        assert!(bytes_on_disk(dir.path()) <= 4 * LEN as u64);
        assert_eq!(files.iter().filter(|file| file.path().is_some()).count(), 4, "{backend:?}");
        assert!(0 < cache.stats().no_room);
        // Nothing was fetched twice on the way.
        assert_eq!(server.counts().requests, 12);
        drop(files);
        PrefetchGuard::evict_all(guards);
        eventually("all has gone", || objects(dir.path()).is_empty());
        assert!(cache.ensure_local(&uri(0)).unwrap().path().is_some(), "there is room again");
    }
}

#[test]
fn an_object_larger_than_the_limit_is_delivered_from_memory() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    let large = content(1, 20 << 20);
    server.put("data", "large", &large);
    let cache = open(dir.path(), &server, limited(4, EvictionMode::Pressure));
    let file = cache.ensure_local("s3://data/large").unwrap();
    assert!(file.path().is_none() && read(&file) == large);
    assert!(objects(dir.path()).is_empty());
}

#[test]
fn prefetches_wait_for_room_and_come_in_order_when_there_is() {
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        let (dir, server) = (tempfile::tempdir().unwrap(), server_with(30));
        let settings =
            CacheSettings { prune_backend: backend, download_concurrency: 2, ..limited(6, EvictionMode::Window) };
        let cache = open(dir.path(), &server, settings);
        let mut guards: Vec<_> = (0..30).map(|i| Some(cache.prefetch(&uri(i)).unwrap())).collect();
        for i in 0..30_u64 {
            assert_eq!(read(&cache.ensure_local(&uri(i)).unwrap()), content(i, LEN));
            guards[i as usize].take().unwrap().evict();
        }
        eventually("all has gone", || objects(dir.path()).is_empty());
        // A window that is wider than the limit costs no downloads in vain, but for those that found the disk full.
        let requests = server.counts().requests;
        assert!(requests <= 34, "{backend:?}: {requests} requests for 30 objects");
    }
}

#[test]
fn a_directory_that_holds_more_than_the_limit_is_brought_below_it_when_it_is_opened() {
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        let (dir, server) = (tempfile::tempdir().unwrap(), server_with(20));
        let cache = open(dir.path(), &server, quick());
        (0..20).for_each(|i| drop(cache.ensure_local(&uri(i)).unwrap()));
        drop(cache);
        let settings = CacheSettings { prune_backend: backend, ..limited(5, EvictionMode::Pressure) };
        let cache = open(dir.path(), &server, settings);
        eventually("no more than the limit is left", || bytes_on_disk(dir.path()) <= 5 * LEN as u64);
        eventually("it is told so", || cache.stats().local_files == 5);
    }
}

#[test]
fn the_number_of_files_has_a_limit_of_its_own() {
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        let (dir, server) = (tempfile::tempdir().unwrap(), server_with(20));
        let settings = CacheSettings { prune_backend: backend, max_files: Some(3), low_watermark: 1.0, ..quick() };
        let cache = open(dir.path(), &server, settings);
        for i in 0..20 {
            drop(cache.ensure_local(&uri(i)).unwrap());
            assert!(objects(dir.path()).len() <= 3);
        }
        assert_eq!(objects(dir.path()).len(), 3);
    }
}

#[test]
fn pruning_spares_what_is_in_use() {
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        let (dir, server) = (tempfile::tempdir().unwrap(), server_with(10));
        let cache = open(dir.path(), &server, CacheSettings { prune_backend: backend, ..quick() });
        (0..10).for_each(|i| drop(cache.ensure_local(&uri(i)).unwrap()));
        let kept = cache.ensure_local(&uri(0)).unwrap();
        cache.prune(3 * LEN as u64);
        eventually("three are left", || objects(dir.path()).len() == 3);
        cache.prune(0);
        eventually("what is in use is left", || objects(dir.path()).len() == 1);
        assert_eq!(read(&kept), content(0, LEN));
    }
}

#[test]
fn what_was_given_up_a_moment_ago_is_pruned() {
    let (dir, server) = (tempfile::tempdir().unwrap(), server_with(40));
    let settings = CacheSettings { prune_backend: PruneBackend::Scan, ..quick() };
    let cache = open(dir.path(), &server, settings);
    for i in 0..40 {
        drop(cache.ensure_local(&uri(i)).unwrap());
        cache.prune(0);
        assert!(objects(dir.path()).is_empty(), "file {i} stayed");
    }
}

#[test]
fn a_share_of_the_file_system_stays_free() {
    let (dir, server) = (tempfile::tempdir().unwrap(), server_with(3));
    // Nothing may be taken of a disk that is to stay free as a whole, and all of one that may be filled.
    let with = |min_ratio| CacheSettings { limit: CacheLimit::AvailableSpace { min_ratio }, ..quick() };
    let cache = open(dir.path(), &server, with(0.999_999));
    let file = cache.ensure_local(&uri(0)).unwrap();
    assert!(file.path().is_none() && read(&file) == content(0, LEN));
    drop((file, cache));
    let cache = open(dir.path(), &server, with(0.0));
    assert!(cache.ensure_local(&uri(0)).unwrap().path().is_some());
}

#[test]
fn settings_that_can_not_be_are_refused_with_their_range() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |settings: CacheSettings| {
        DiskCache::builder(dir.path().join("cache")).with_settings(settings).build().unwrap_err().to_string()
    };
    let base = CacheSettings::default();
    for (settings, message) in [
        (CacheSettings { limit: CacheLimit::TotalSize(0), ..base.clone() }, "limit is 0 bytes, but must be at least 1"),
        (
            CacheSettings { limit: CacheLimit::AvailableSpace { min_ratio: 1.5 }, ..base.clone() },
            "min_ratio is 1.5, but must lie in 0..1",
        ),
        (CacheSettings { low_watermark: 0.0, ..base.clone() }, "low_watermark is 0, but must lie in 0.01..=1"),
        (CacheSettings { max_files: Some(0), ..base.clone() }, "max_files is 0, but must be at least 1"),
        (CacheSettings { part_size: 5, ..base.clone() }, "part_size is 5, but must lie in 1 MiB..=1 TiB"),
        (
            CacheSettings { eviction: EvictionMode::Clairvoyant, prune_backend: PruneBackend::Scan, ..base.clone() },
            "eviction is clairvoyant, but the prune backend scan knows no process's future but its own",
        ),
    ] {
        let error = refused(settings);
        assert!(error.starts_with(message), "{error}");
    }
}
