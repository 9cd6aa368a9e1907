//! Objects come whole, once, and whatever the store does.

use std::time::{Duration, Instant};

use planfetch_cache::{CacheErrorKind, CacheSettings};
use planfetch_testkit::{Fault, FaultRule, S3Server, eventually};

use crate::support::{builder, content, objects, open, quick, read, temp_files};

#[test]
fn an_object_is_downloaded_once_however_many_ask_for_it() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    for i in 0..20 {
        server.put("data", &format!("{i}.bin"), &content(i, 10_000));
    }
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(20))));
    let cache = open(dir.path(), &server);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let cache = &cache;
            scope.spawn(move || {
                for i in (0..20).map(|i| (i + thread * 3) % 20) {
                    let file = cache.ensure_local(&format!("s3://data/{i}.bin")).unwrap();
                    assert_eq!(read(&file), content(i, 10_000));
                }
            });
        }
    });
    let counts = server.counts();
    assert_eq!(counts.requests, 20);
    assert!(counts.by_path.values().all(|&n| n == 1), "{counts:?}");
    let stats = cache.stats();
    assert_eq!((stats.objects_downloaded, stats.hits + stats.misses, stats.local_files), (20, 160, 20));
    assert_eq!(stats.local_bytes, 200_000);
}

#[test]
fn no_more_downloads_run_at_once_than_the_settings_allow() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    for i in 0..40 {
        server.put("data", &i.to_string(), b"x");
    }
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(20))));
    let settings = CacheSettings { download_concurrency: 7, ..quick() };
    let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
    let guards: Vec<_> = (0..40).map(|i| cache.prefetch(&format!("s3://data/{i}")).unwrap()).collect();
    eventually("all are local", || cache.stats().local_files == 40);
    assert_eq!(server.counts().most_at_once, 7);
    drop(guards);
}

#[test]
fn keys_of_any_kind_name_exactly_their_object() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let folder = tempfile::tempdir().unwrap();
    // Pairs that a careless encoding, or a case-blind file system, would take for one another.
    let keys = [
        "plain.jpg",
        "PLAIN.jpg",
        "a b.jpg",
        "a%20b.jpg",
        "a+b.jpg",
        "tilde~.jpg",
        "mäggi.png",
        "m%C3%A4ggi.png",
        "[foo].jpg",
        "#hash",
        "q?x=1",
        "a&b=c",
        "emoji\u{1f600}.png",
        "{x}",
        "back\\slash",
        "quote\"'",
        "c:d",
        "...",
        "deep/er/key",
        "star*",
        "a|b",
        "<x>",
        "a^b`c",
        "%",
        "%2F",
        "a=b;c,d@e!f$g(h)",
    ];
    for (i, key) in keys.iter().enumerate() {
        server.put("data", key, &content(i as u64, 1_000));
        let path = folder.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content(i as u64 + 100, 1_000)).unwrap();
    }
    let cache = open(dir.path(), &server);
    for (i, key) in keys.iter().enumerate() {
        let file = cache.ensure_local(&format!("s3://data/{key}")).unwrap_or_else(|error| panic!("{key}: {error:?}"));
        assert_eq!(read(&file), content(i as u64, 1_000), "s3 {key}");
        let uri = format!("file://{}/{key}", folder.path().display());
        let file = cache.ensure_local(&uri).unwrap_or_else(|error| panic!("{key}: {error:?}"));
        assert_eq!(read(&file), content(i as u64 + 100, 1_000), "file {key}");
    }
    assert_eq!(cache.stats().local_files, 2 * keys.len() as u64);
}

#[test]
fn a_store_that_fails_now_and_then_is_asked_again_and_every_byte_is_right() {
    let faults = [
        Fault::SlowDown,
        Fault::Reset,
        Fault::CutBody(0),
        Fault::CutBody(30_000),
        Fault::StallBody(0),
        Fault::StallBody(30_000),
    ];
    for fault in faults {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
        for i in 0..30 {
            server.put("data", &i.to_string(), &content(i, 75_000));
        }
        server.inject(FaultRule::every(3, fault));
        let cache = open(dir.path(), &server);
        let guards: Vec<_> = (0..30).map(|i| cache.prefetch(&format!("s3://data/{i}")).unwrap()).collect();
        for i in 0..30 {
            let file =
                cache.ensure_local(&format!("s3://data/{i}")).unwrap_or_else(|error| panic!("{fault:?}: {error:?}"));
            assert_eq!(read(&file), content(i, 75_000), "{fault:?}");
        }
        assert!(0 < cache.stats().retries, "{fault:?} never happened");
        drop(guards);
        assert_eq!(temp_files(dir.path()), Vec::<std::path::PathBuf>::new(), "{fault:?}");
    }
}

#[test]
fn a_body_that_breaks_is_resumed_from_its_last_byte() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    // More than is kept in memory, so that a part of it has been written when it breaks.
    let large = content(1, 40 << 20);
    server.put("data", "large", &large);
    server.inject(FaultRule::first(1, Fault::CutBody(25 << 20)));
    let cache = open(dir.path(), &server);
    let file = cache.ensure_local("s3://data/large").unwrap();
    assert!(read(&file) == large);
    let counts = server.counts();
    assert_eq!(counts.requests, 2);
    // The second request announced what was missing, give or take what was in the socket when the first broke.
    let second = counts.bytes - large.len() as u64;
    assert!(second < (20 << 20), "{second} bytes asked for again");
    assert!(cache.stats().bytes_downloaded < large.len() as u64 + (1 << 20));
}

#[test]
fn an_object_that_changes_during_its_download_is_the_old_or_the_new_one_and_no_mixture() {
    let (old, new) = (content(1, 20 << 20), content(2, 20 << 20));
    // A memory store heeds If-Match, and refuses; s3s-fs does not, and sends the rest of the new object.
    for server in [S3Server::start_in_memory(), S3Server::start()] {
        let dir = tempfile::tempdir().unwrap();
        server.put("data", "k", &old);
        server.inject(FaultRule::first(1, Fault::StallBody(12 << 20)));
        let cache = open(dir.path(), &server);
        let guard = cache.prefetch("s3://data/k").unwrap();
        eventually("half of it is here", || (12 << 20) - (1 << 16) < cache.stats().bytes_downloaded);
        server.put("data", "k", &new);
        let file = cache.ensure_local("s3://data/k").unwrap();
        assert!(read(&file) == new);
        drop(guard);
    }
}

#[test]
fn objects_that_can_not_be_written_are_prefetched_into_memory_and_downloaded_once() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    (0..20).for_each(|i| server.put("data", &i.to_string(), &content(i, 5_000)));
    let cache = open(dir.path(), &server);
    std::fs::remove_dir(cache.dir().join("objects")).unwrap();
    std::fs::write(cache.dir().join("objects"), b"").unwrap();
    let guards: Vec<_> = (0..20).map(|i| cache.prefetch(&format!("s3://data/{i}")).unwrap()).collect();
    eventually("all have come", || cache.stats().unwritten == 20);
    for i in 0..20 {
        assert_eq!(read(&cache.ensure_local(&format!("s3://data/{i}")).unwrap()), content(i, 5_000));
    }
    assert_eq!(server.counts().requests, 20);
    drop(guards);
}

#[test]
fn a_panic_of_one_caller_is_not_the_others_loss() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", b"bytes");
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(50))));
    let cache = open(dir.path(), &server);
    cache.ensure_local_then("s3://data/k", |_| panic!("a caller's mistake"));
    assert_eq!(read(&cache.ensure_local("s3://data/k").unwrap()), b"bytes");
    let guard = cache.prefetch("s3://data/k").unwrap();
    guard.evict();
    eventually("the file goes: nobody pins it", || cache.stats().local_files == 0);
}

#[test]
fn an_object_without_bytes_is_an_object() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "empty", b"");
    let cache = open(dir.path(), &server);
    let file = cache.ensure_local("s3://data/empty").unwrap();
    assert!(file.is_empty());
    assert_eq!(read(&file), b"");
}

#[test]
fn a_store_that_hangs_is_an_error_after_all_attempts_and_not_for_ever() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", &content(1, 1_000));
    server.inject(FaultRule::always(Fault::StallBody(10)));
    let settings = CacheSettings { progress_timeout: Duration::from_millis(100), max_attempts: 3, ..quick() };
    let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
    let started = Instant::now();
    let error = cache.ensure_local("s3://data/k").unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(error.kind(), CacheErrorKind::Unavailable);
    assert_eq!(
        error.to_string(),
        "s3://data/k: can't be downloaded after 3 attempts: no byte came for 0.1 s; check the endpoint and the network, \
         or raise max_attempts"
    );
    assert!(temp_files(dir.path()).is_empty());
}

#[test]
fn a_failed_prefetch_is_tried_again_when_the_object_is_demanded() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let cache = open(dir.path(), &server);
    let guard = cache.prefetch("s3://data/late").unwrap();
    eventually("the prefetch has failed", || cache.stats().failures == 1);
    server.put("data", "late", b"here now");
    assert_eq!(read(&cache.ensure_local("s3://data/late").unwrap()), b"here now");
    drop(guard);
}

#[test]
fn demanded_objects_do_not_wait_for_prefetched_ones() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    for i in 0..200 {
        server.put("data", &i.to_string(), b"x");
    }
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(20))));
    let settings = CacheSettings { download_concurrency: 2, ..quick() };
    let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
    let guards: Vec<_> = (0..200).map(|i| cache.prefetch(&format!("s3://data/{i}")).unwrap()).collect();
    let _file = cache.ensure_local("s3://data/199").unwrap();
    let done = cache.stats().objects_downloaded;
    assert!(done < 20, "{done} others came first");
    drop(guards);
    // What nobody wants any more is not downloaded.
    assert!(cache.stats().requests < 30, "{:?}", cache.stats());
}

#[test]
fn a_file_stays_while_it_is_in_use_and_goes_when_it_is_given_up() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", b"bytes");
    let cache = open(dir.path(), &server);
    let first = cache.prefetch("s3://data/k").unwrap();
    let second = cache.prefetch("s3://data/k").unwrap();
    let file = cache.ensure_local("s3://data/k").unwrap();
    let path = file.path().unwrap();
    first.evict();
    second.evict();
    assert_eq!(read(&file), b"bytes");
    drop(file);
    eventually("the file is gone", || !path.exists());
    assert!(!cache.contains("s3://data/k"));
    assert_eq!(cache.stats().local_files, 0);
    assert_eq!(read(&cache.ensure_local("s3://data/k").unwrap()), b"bytes");
    assert_eq!(server.counts().requests, 2);
}

#[test]
fn dropping_the_cache_stops_its_downloads_at_once() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    for i in 0..300 {
        server.put("data", &i.to_string(), &content(i, 20_000));
    }
    server.inject(FaultRule::always(Fault::StallBody(10_000)));
    let settings = CacheSettings { progress_timeout: Duration::from_secs(60), ..quick() };
    let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
    let guards: Vec<_> = (0..300).map(|i| cache.prefetch(&format!("s3://data/{i}")).unwrap()).collect();
    eventually("64 downloads hang", || server.counts().requests == 64);
    // Somebody waits for one of them, and is told.
    let (answer, answered) = std::sync::mpsc::channel();
    cache.ensure_local_then("s3://data/7", move |result| answer.send(result.map(drop)).unwrap());
    let started = Instant::now();
    drop(cache);
    drop(guards);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(objects(dir.path()).is_empty());
    let told = answered.recv_timeout(Duration::from_secs(1)).expect("an answer");
    assert_eq!(told.unwrap_err().kind(), CacheErrorKind::Closed);
}

#[test]
fn a_slow_body_is_healthy_while_it_moves() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", &content(1, 1_000));
    // Four times as long in all as may pass without a byte.
    server.inject(FaultRule::always(Fault::SlowBody(50, Duration::from_millis(60))));
    let settings = CacheSettings { progress_timeout: Duration::from_millis(300), ..quick() };
    let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
    let started = Instant::now();
    assert_eq!(read(&cache.ensure_local("s3://data/k").unwrap()), content(1, 1_000));
    assert!(Duration::from_millis(1_200) <= started.elapsed());
    assert_eq!(server.counts().requests, 1);
}

#[test]
fn what_lies_in_the_store_is_never_deleted_nor_changed() {
    let (dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = folder.path().join("the only copy");
    std::fs::write(&source, b"years of work").unwrap();
    let uri = format!("file://{}", source.display());
    let settings = CacheSettings { limit: planfetch_cache::CacheLimit::TotalSize(5), ..quick() };
    for settings in [quick(), settings] {
        let cache =
            planfetch_cache::DiskCache::builder(dir.path().join("cache")).with_settings(settings).build().unwrap();
        let guard = cache.prefetch(&uri).unwrap();
        drop(cache.ensure_local(&uri).unwrap());
        cache.invalidate(&uri).unwrap();
        drop(cache.ensure_local(&uri).unwrap());
        guard.evict();
        cache.prune(0);
        drop(cache);
        assert!(objects(dir.path()).is_empty());
        assert_eq!(std::fs::read(&source).unwrap(), b"years of work");
    }
}

#[test]
fn guards_hold_no_descriptors() {
    let (dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let open = |n: usize| {
        let path = folder.path().join(n.to_string());
        std::fs::write(&path, b"x").unwrap();
        format!("file://{}", path.display())
    };
    let uris: Vec<String> = (0..3_000).map(open).collect();
    let cache = planfetch_cache::DiskCache::builder(dir.path().join("cache")).build().unwrap();
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = descriptors();
    let guards = cache.prefetch_all(&uris, 0).unwrap();
    let files: Vec<_> = uris.iter().map(|uri| cache.ensure_local(uri).unwrap()).collect();
    assert!(files.iter().all(|file| file.path().is_some()));
    let after = descriptors();
    assert!(after < before + 100, "{before} descriptors before {} guards, {after} with them", files.len());
    drop((guards, files));
}
