//! What can be asked of a cache, and what its answers tell.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use planfetch_cache::object_store;
use planfetch_cache::{CacheErrorKind, CacheSettings, DiskCache, FetchStage, PruneBackend};
use planfetch_testkit::{Fault, FaultRule, S3Server, eventually};

use crate::store::CountingStore;
use crate::support::{builder, content, objects, open, quick, read};

#[test]
fn a_part_of_an_object_is_an_object_of_its_own() {
    let whole = content(1, 100_000);
    // s3s-fs and the memory store answer ranges in their own ways; a local file does so without HTTP.
    for server in [S3Server::start(), S3Server::start_in_memory()] {
        let dir = tempfile::tempdir().unwrap();
        server.put("data", "shard", &whole);
        let cache = open(dir.path(), &server);
        for range in [0..1, 0..100_000, 99_999..100_000, 12_345..23_456] {
            let file = cache.ensure_local_range("s3://data/shard", range.clone()).unwrap();
            assert_eq!(read(&file), whole[range.start as usize..range.end as usize], "{range:?}");
        }
        drop(cache.prefetch_range("s3://data/shard", 12_345..23_456).unwrap());
        drop(cache.ensure_local_range("s3://data/shard", 0..1).unwrap());
        assert_eq!((server.counts().requests, cache.stats().local_files), (4, 4));
        assert!(!cache.contains("s3://data/shard"));
        assert_eq!(read(&cache.ensure_local("s3://data/shard").unwrap()), whole);

        let beyond = cache.ensure_local_range("s3://data/shard", 99_000..100_001).unwrap_err();
        assert_eq!(beyond.kind(), CacheErrorKind::InvalidUri);
        assert_eq!(
            beyond.to_string(),
            "s3://data/shard (bytes 99000..100001): the object has 100000 bytes, which the range lies outside of; check \
             the index against the store"
        );
        let empty = cache.ensure_local_range("s3://data/shard", 5..5).unwrap_err();
        assert!(empty.to_string().contains("the range 5..5 is empty"), "{empty}");
    }
}

#[test]
fn a_part_whose_body_breaks_is_resumed() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    let whole = content(1, 100_000);
    server.put("data", "shard", &whole);
    server.inject(FaultRule::first(2, Fault::CutBody(10_000)));
    let cache = open(dir.path(), &server);
    let file = cache.ensure_local_range("s3://data/shard", 20_000..80_000).unwrap();
    assert_eq!(read(&file), whole[20_000..80_000]);
    assert_eq!(server.counts().requests, 3);
}

#[test]
fn a_large_object_comes_by_several_ranges_and_every_byte_is_right() {
    let large = content(7, 13 << 20);
    for fault in [None, Some(Fault::CutBody(300_000)), Some(Fault::SlowDown), Some(Fault::Reset)] {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
        server.put("data", "large", &large);
        if let Some(fault) = fault {
            server.inject(FaultRule::every(3, fault));
        }
        server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(20))));
        let settings = CacheSettings { part_size: 1 << 20, part_concurrency: 4, ..quick() };
        let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
        let file = cache.ensure_local("s3://data/large").unwrap();
        assert!(read(&file) == large, "{fault:?}");
        let counts = server.counts();
        // A store that refuses every third request is asked for one part at a time sooner or later, and maybe at once.
        let least = if matches!(fault, Some(Fault::SlowDown)) { 1 } else { 2 };
        assert!(13 <= counts.requests && (least..=4).contains(&counts.most_at_once), "{fault:?} {counts:?}");
        drop(file);
        drop(cache);
        // The checksum in the name, put together from those of the parts, is that of the whole.
        let cache = open(dir.path(), &server);
        server.reset_counts();
        drop(cache.ensure_local("s3://data/large").unwrap());
        assert_eq!((server.counts().requests, cache.stats().corrupt_files), (0, 0));
    }
}

#[test]
fn an_object_that_changed_is_fetched_anew_and_old_guards_keep_what_they_have() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", b"old");
    let cache = open(dir.path(), &server);
    let old = cache.ensure_local("s3://data/k").unwrap();
    let guard = cache.prefetch("s3://data/k").unwrap();
    server.put("data", "k", b"newer");
    cache.invalidate("s3://data/k").unwrap();
    let new = cache.ensure_local("s3://data/k").unwrap();
    assert_eq!((read(&old), read(&new)), (b"old".to_vec(), b"newer".to_vec()));
    // Without a change, the file is the same, and both guards name it.
    cache.invalidate("s3://data/k").unwrap();
    let same = cache.ensure_local("s3://data/k").unwrap();
    assert_eq!(same.path(), new.path());
    drop(new);
    assert_eq!(read(&same), b"newer");
    drop(guard);
    drop((old, same));
    cache.invalidate("s3://data/k").unwrap();
    eventually("nothing is left", || objects(dir.path()).is_empty());
}

#[test]
fn a_shard_that_was_written_again_is_fetched_anew_range_by_range() {
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
        let (old, new) = (content(1, 90_000), content(2, 90_000));
        let settings = CacheSettings { prune_backend: backend, ..quick() };
        let uri = "s3://data/shard";
        let ranges = [0..30_000, 30_000..60_000, 60_000..90_000];
        let part = |bytes: &[u8], range: &Range<u64>| bytes[range.start as usize..range.end as usize].to_vec();
        server.put("data", "shard", &old);
        // Of an earlier process, of this one, and in use by this one.
        let before = builder(dir.path(), &server).with_settings(settings.clone()).build().unwrap();
        drop(before.ensure_local_range(uri, ranges[0].clone()).unwrap());
        drop(before);
        let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
        drop(cache.ensure_local(uri).unwrap());
        drop(cache.ensure_local_range(uri, ranges[1].clone()).unwrap());
        let used = cache.ensure_local_range(uri, ranges[2].clone()).unwrap();
        assert!(ranges.iter().all(|range| cache.contains_range(uri, range.clone())), "{backend:?}");
        assert!(!cache.contains_range(uri, 0..60_000));

        server.put("data", "shard", &new);
        cache.invalidate(uri).unwrap();
        assert!(!cache.contains(uri) && cache.contains_range(uri, ranges[0].clone()), "the parts are of their own");
        for range in &ranges {
            cache.invalidate_range(uri, range.clone()).unwrap();
        }
        for range in &ranges[..2] {
            assert_eq!(read(&cache.ensure_local_range(uri, range.clone()).unwrap()), part(&new, range), "{backend:?}");
        }
        // What is in use is as it was for its guard; where the file is shared, for everybody.
        assert_eq!(read(&used), part(&old, &ranges[2]));
        drop(used);
        cache.invalidate_range(uri, ranges[2].clone()).unwrap();
        assert_eq!(read(&cache.ensure_local_range(uri, ranges[2].clone()).unwrap()), part(&new, &ranges[2]));
        assert_eq!(read(&cache.ensure_local(uri).unwrap()), new);
        assert!(cache.invalidate_range(uri, 5..5).is_err());
    }
}

#[test]
fn what_is_of_a_higher_priority_comes_first() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    (0..30).for_each(|i| server.put("data", &i.to_string(), b"x"));
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(10))));
    let settings = CacheSettings { download_concurrency: 1, ..quick() };
    let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
    let uris = |range: std::ops::Range<u32>| range.map(|i| format!("s3://data/{i}")).collect::<Vec<_>>();
    let low = cache.prefetch_all(uris(0..15), -1).unwrap();
    let high = cache.prefetch_all(uris(15..30), 1).unwrap();
    eventually("those of the higher priority are local", || {
        (15..30).all(|i| cache.contains(&format!("s3://data/{i}")))
    });
    assert!((2..15).all(|i| !cache.contains(&format!("s3://data/{i}"))), "one of the lower came before");
    drop(low);
    drop(high);
    let requests = server.counts().requests;
    assert!(requests < 19, "{requests} requests: what was cancelled was asked for");
    assert!(cache.prefetch_all(["s3://data/1", "nonsense"], 0).is_err());
}

#[test]
fn a_timeline_says_where_the_time_went() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    server.put("data", "slow", &content(1, 1_000));
    server.put("data", "refused", &content(2, 1_000));
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(120))).on("slow"));
    server.inject(FaultRule::first(1, Fault::SlowDown).on("refused"));
    server.put("data", "large", &content(3, 20 << 20));
    let settings = CacheSettings {
        initial_backoff: Duration::from_millis(200),
        download_concurrency: 1,
        part_concurrency: 1,
        ..quick()
    };
    let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
    let asked = Instant::now();
    let guard = cache.prefetch("s3://data/slow").unwrap();
    let refused = cache.ensure_local("s3://data/refused").unwrap();
    let timeline = refused.timeline().expect("it was waited for");
    let in_stage = |stage| timeline.time_in(stage);
    // It waited for the other's slot, and after the refusal.
    assert!(Duration::from_millis(100) < in_stage(FetchStage::Queued), "{timeline:?}");
    assert!(Duration::from_millis(90) < in_stage(FetchStage::Backoff), "{timeline:?}");
    let all: Duration = FetchStage::ALL.into_iter().map(in_stage).sum();
    assert_eq!(all, timeline.end() - timeline.start());
    assert!(asked <= timeline.start() && timeline.end() <= Instant::now());
    drop(guard);
    let slow = cache.ensure_local("s3://data/slow").unwrap();
    assert!(slow.timeline().is_none(), "it was local");
    let stats = cache.stats();
    let request = FetchStage::ALL.iter().position(|stage| *stage == FetchStage::Request).unwrap();
    assert!(Duration::from_millis(100) < stats.time_by_stage[request], "{stats:?}");

    // A large one is written in between, and then it is the disk that is waited for.
    let large = cache.ensure_local("s3://data/large").unwrap();
    let stages: Vec<_> = large.timeline().expect("it was waited for").stages().map(|(stage, ..)| stage).collect();
    let written = stages.iter().filter(|stage| **stage == FetchStage::Write).count();
    assert!(2 < written && stages.contains(&FetchStage::Body), "{stages:?}");
}

#[test]
fn a_runtime_of_the_user_serves_and_outlives_the_cache() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    server.put("data", "k", b"bytes");
    server.put("data", "hangs", b"bytes");
    server.inject(FaultRule::always(Fault::StallBody(1)).on("hangs"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let settings = CacheSettings { progress_timeout: Duration::from_secs(60), ..quick() };
    let cache =
        builder(dir.path(), &server).with_settings(settings).with_io_runtime(runtime.handle().clone()).build().unwrap();
    assert_eq!(read(&cache.ensure_local("s3://data/k").unwrap()), b"bytes");
    let (answer, answered) = std::sync::mpsc::channel();
    cache.ensure_local_then("s3://data/hangs", move |result| answer.send(result.map(drop)).unwrap());
    eventually("it hangs", || server.counts().requests == 2);
    drop(cache);
    let told = answered.recv_timeout(Duration::from_secs(1)).expect("an answer");
    assert_eq!(told.unwrap_err().kind(), CacheErrorKind::Closed);
    assert_eq!(runtime.block_on(async { 1 + 1 }), 2);
    // All tasks are gone, so the directory is free.
    eventually("the directory can be opened", || builder(dir.path(), &server).build().is_ok());
}

#[test]
fn any_store_can_be_registered_under_any_url() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(InMemory::new());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let payload = PutPayload::from_static(b"from memory");
    runtime.block_on(store.put(&Path::parse("a/b c").unwrap(), payload)).unwrap();
    let cache = DiskCache::builder(dir.path().join("cache")).with_store("memory://any", store).build().unwrap();
    assert_eq!(read(&cache.ensure_local("memory://any/a/b c").unwrap()), b"from memory");
    assert_eq!(read(&cache.ensure_local_range("memory://any/a/b c", 5..11).unwrap()), b"memory");
    let error = cache.ensure_local("memory://other/a").unwrap_err();
    assert_eq!(error.kind(), CacheErrorKind::InvalidUri);
}

#[test]
fn an_object_of_another_length_under_the_same_tag_is_not_the_rest_of_the_first() {
    for (first, then) in [(2 << 20, 3 << 20), (3 << 20, 2 << 20)] {
        let dir = tempfile::tempdir().unwrap();
        let store = CountingStore::new(content(1, first)).replaced_by(CountingStore::new(content(2, then)));
        let cache = DiskCache::builder(dir.path().join("cache"))
            .with_settings(quick())
            .with_store("memory://any", Arc::new(store))
            .build()
            .unwrap();
        assert!(read(&cache.ensure_local("memory://any/k").unwrap()) == content(2, then), "{first}, {then}");
    }
}

#[test]
fn an_object_that_changes_while_it_is_fetched_is_fetched_again() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", b"old");
    server.inject(FaultRule::first(1, Fault::SlowBody(1, Duration::from_millis(100))));
    let cache = open(dir.path(), &server);
    let guard = cache.prefetch("s3://data/k").unwrap();
    eventually("the old one is on its way", || server.counts().requests == 1);
    server.put("data", "k", b"newer");
    cache.invalidate("s3://data/k").unwrap();
    assert_eq!(read(&cache.ensure_local("s3://data/k").unwrap()), b"newer");
    assert_eq!(server.counts().requests, 2);
    drop(guard);
}

#[test]
fn a_cache_that_can_not_be_opened_is_an_error_in_asynchronous_code_too() {
    let dir = tempfile::tempdir().unwrap();
    let settings = CacheSettings { prune_backend: planfetch_cache::PruneBackend::Scan, ..quick() };
    drop(DiskCache::builder(dir.path().join("cache")).with_settings(settings.clone()).build().unwrap());
    std::fs::remove_dir_all(dir.path().join("cache/leases")).unwrap();
    std::fs::write(dir.path().join("cache/leases"), b"").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let opened =
        runtime.block_on(async { DiskCache::builder(dir.path().join("cache")).with_settings(settings).build() });
    assert_eq!(opened.unwrap_err().kind(), CacheErrorKind::Directory);
}

#[test]
fn a_runtime_that_has_ended_is_an_error_for_each_request_and_no_more() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let cache = builder(dir.path(), &server).with_io_runtime(runtime.handle().clone()).build().unwrap();
    drop(runtime);
    let uris: Vec<String> = (0..50_000).map(|i| format!("s3://data/{i}")).collect();
    let guards = cache.prefetch_all(&uris, 0).unwrap();
    let error = cache.ensure_local("s3://data/7").unwrap_err();
    assert_eq!(error.kind(), CacheErrorKind::Closed);
    drop(guards);
}

#[test]
fn a_range_behind_the_end_of_a_local_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("shard"), b"short").unwrap();
    let cache = DiskCache::builder(dir.path().join("cache")).build().unwrap();
    let error = cache.ensure_local_range(&format!("file://{}/shard", dir.path().display()), 50..60).unwrap_err();
    assert_eq!(error.kind(), CacheErrorKind::InvalidUri, "{error}");
    assert_eq!(cache.stats().retries, 0);
}
