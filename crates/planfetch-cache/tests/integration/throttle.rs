//! A store that grants only so many requests gives everything, and no error reaches anybody. How near its rate it is
//! used, the benchmark `cache-cost` measures.

use std::time::{Duration, Instant};

use planfetch_cache::CacheSettings;
use planfetch_testkit::{Fault, FaultRule, S3Server, eventually};

use crate::support::{builder, content, open, quick, read};

#[test]
fn a_throttled_store_gives_everything_with_few_requests_in_vain_whatever_else_goes_wrong() {
    const RATE: f64 = 150.0;
    const OBJECTS: u64 = 1_200;
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    for i in 0..OBJECTS {
        server.put("data", &i.to_string(), &content(i, 3_000));
    }
    server.limit_rate(RATE, 30.0);
    // Of a hundred requests, one is slow, one is reset, one stalls, and one loses the end of its body.
    server.inject(FaultRule::every(100, Fault::Latency(Duration::from_secs(2))));
    server.inject(FaultRule::every(101, Fault::Reset));
    server.inject(FaultRule::every(102, Fault::StallBody(1_000)));
    server.inject(FaultRule::every(103, Fault::CutBody(1_000)));
    let settings = CacheSettings { progress_timeout: Duration::from_secs(3), ..quick() };
    let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
    let uris: Vec<String> = (0..OBJECTS).map(|i| format!("s3://data/{i}")).collect();
    let guards = cache.prefetch_all(&uris, 0).unwrap();
    for (i, uri) in (0..).zip(&uris) {
        assert_eq!(read(&cache.ensure_local(uri).unwrap()), content(i, 3_000));
    }
    let (counts, stats) = (server.counts(), cache.stats());
    drop(guards);
    assert_eq!(stats.failures, 0);
    assert!(0 < stats.throttled, "the store never refused");
    let each = counts.requests as f64 / OBJECTS as f64;
    assert!(each <= 1.2, "{each:.2} requests for each object, {} refused", stats.throttled);
}

#[test]
fn a_store_that_asks_to_be_left_alone_is_left_alone() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", b"bytes");
    server.inject(FaultRule::first(1, Fault::RetryAfter(1)));
    let cache = open(dir.path(), &server);
    let started = Instant::now();
    let file = cache.ensure_local("s3://data/k").unwrap();
    assert!(Duration::from_secs(1) <= started.elapsed(), "{:?}", started.elapsed());
    assert_eq!(read(&file), b"bytes");
}

#[test]
fn refusals_end_in_an_error_where_the_pace_is_not_adapted() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", b"bytes");
    server.inject(FaultRule::always(Fault::SlowDown));
    let settings = CacheSettings { adaptive_concurrency: false, max_attempts: 3, ..quick() };
    let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
    let error = cache.ensure_local("s3://data/k").unwrap_err();
    assert!(error.to_string().contains("after 3 attempts"), "{error}");
    assert_eq!(server.counts().requests, 3);
}

#[test]
fn credentials_that_run_out_are_asked_for_anew() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    (0..20).for_each(|i| server.put("data", &i.to_string(), &content(i, 500)));
    let cache = open(dir.path(), &server);
    drop(cache.ensure_local("s3://data/0").unwrap());
    server.inject(FaultRule::first(1, Fault::ExpiredToken));
    let uris: Vec<String> = (1..20).map(|i| format!("s3://data/{i}")).collect();
    let guards = cache.prefetch_all(&uris, 0).unwrap();
    eventually("all are local", || cache.stats().local_files == 20);
    assert_eq!(cache.stats().failures, 0);
    drop(guards);
}
