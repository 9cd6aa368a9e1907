//! What a loader reports of its waits: they add up, and the cause that was brought about is the one that is named.

use std::time::{Duration, Instant};

use planfetch::cache::object_store::memory::InMemory;
use planfetch::cache::object_store::path::Path;
use planfetch::cache::object_store::{ObjectStoreExt, PutPayload};
use planfetch::loader::{BoundBy, Cause};
use planfetch::prelude::*;
use planfetch_testkit::{Fault, FaultRule, S3Server, pause};

use crate::support::{Sums, open, put_objects, store_settings};

/// Takes one epoch, and checks that the waits add up to what the loop has measured itself.
fn run<B>(loader: &mut PrefetchingLoader<B>, step: Duration) -> LoaderReport {
    let mut beside = Vec::new();
    loop {
        let (before, asked) = (loader.report().waited, Instant::now());
        let Some(batch) = loader.next() else { break };
        let measured = asked.elapsed();
        let reported = loader.report().waited - before;
        // What is reported lies within the call.
        assert!(reported <= measured, "waited {measured:?}, reported {reported:?}");
        beside.push(measured - reported);
        drop(batch.unwrap());
        if !step.is_zero() {
            pause(step);
        }
    }
    let report = loader.report();
    let causes: Duration = report.causes.iter().map(|cause| cause.waited).sum();
    assert_eq!(causes, report.waited);
    // And it is nearly all of it; a call during which the system had other things to do is no counterexample.
    beside.sort_unstable();
    assert!(beside[beside.len() / 2] < Duration::from_millis(1), "{beside:?}");
    let whole = (report.waited + report.consumer).as_secs_f64();
    assert!((whole - report.elapsed.as_secs_f64()).abs() <= 0.01 * whole, "{report}");
    report
}

#[test]
fn a_slow_store_is_named_with_the_concurrency_that_would_do() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 240);
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(40))));
    let settings = CacheSettings { download_concurrency: 4, ..CacheSettings::default() };
    let cache = DiskCache::builder(dir.path().join("cache"))
        .with_settings(settings)
        .with_store_settings(store_settings(&server))
        .build()
        .unwrap();
    let provider = SequentialPlanProvider::new(index.len(), 8).unwrap();
    let settings = LoaderSettings { num_epochs: Some(1), ..LoaderSettings::default() };
    let (mut loader, _) = build_prefetching_loader(Sums(index), VecCollate, provider, cache, settings).unwrap();
    let report = run(&mut loader, Duration::from_millis(10));
    assert_eq!(report.verdict.bound_by, BoundBy::StoreLatency, "{report}");
    // 8 samples in 10 ms, each 40 ms on its way: 32 at once.
    let advice = &report.verdict.advice;
    let about: f64 = advice
        .split("download_concurrency to about ")
        .nth(1)
        .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next())
        .unwrap()
        .parse()
        .unwrap();
    assert!((16.0..=64.0).contains(&about), "{report}");
    // Any single wait can be of another kind on a busy machine; the most of them are not.
    let store: Duration = [Cause::Queue, Cause::Request].map(|cause| report.waited_for(cause)).iter().sum();
    assert!(report.waited / 2 < store, "{report}");
    let held_up = report.held_up.iter().filter(|wait| matches!(wait.cause, Cause::Queue | Cause::Request));
    assert!(held_up.count() > 0, "{report}");
    assert!(report.held_up.iter().all(|wait| wait.uri.as_ref().unwrap().starts_with("s3://objects/")), "{report}");
}

#[test]
fn one_late_object_holds_the_line_and_is_named_by_its_uri() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 60);
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(1_500))).on("/objects/00/00007.bin"));
    let provider = SequentialPlanProvider::new(index.len(), 4).unwrap();
    let builder = DiskCache::builder(dir.path().join("cache")).with_store_settings(store_settings(&server));
    let cache = builder.build().unwrap();
    let settings = LoaderSettings { num_epochs: Some(1), ..LoaderSettings::default() };
    let (mut loader, _) = build_prefetching_loader(Sums(index), VecCollate, provider, cache, settings).unwrap();
    let report = run(&mut loader, Duration::from_millis(2));
    assert_eq!(report.held_up[0].uri.as_deref(), Some("s3://objects/00/00007.bin"), "{report}");
    assert_eq!((report.held_up[0].step, report.held_up[0].cause), (1, Cause::Order), "{report}");
    assert_eq!(report.verdict.bound_by, BoundBy::Order, "{report}");
}

#[test]
fn slow_decoding_is_named_with_the_workers_that_would_do() {
    // Without workers, the thread that takes the batches decodes them.
    for num_workers in [2, 0] {
        slow_decoding_is_named(num_workers);
    }
}

fn slow_decoding_is_named(num_workers: usize) {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 80);
    let provider = SequentialPlanProvider::new(index.len(), 8).unwrap();
    let cache = open(dir.path(), &server);
    index.uris().iter().for_each(|uri| drop(cache.ensure_local(&uri).unwrap()));
    let dataset = ObjectPathDataset::new(index, |file| {
        pause(Duration::from_millis(40));
        Ok(file.len())
    });
    let settings = LoaderSettings { num_workers, num_epochs: Some(1), ..LoaderSettings::default() };
    let (mut loader, _) = build_prefetching_loader(dataset, VecCollate, provider, cache, settings).unwrap();
    let report = run(&mut loader, Duration::from_millis(20));
    assert_eq!(report.verdict.bound_by, BoundBy::Decode, "{report}");
    // 8 samples of 40 ms for each 20 ms: 16 workers, or some more or less, since a pause is never shorter.
    let needed: usize = report.verdict.advice.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((8..=24).contains(&needed), "{report}");
}

#[test]
fn a_store_that_answers_with_errors_until_nobody_asks_any_more_is_what_was_waited_for() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 8);
    server.inject(FaultRule::always(Fault::Reset));
    let settings =
        CacheSettings { initial_backoff: Duration::from_millis(100), max_attempts: 4, ..CacheSettings::default() };
    let cache = DiskCache::builder(dir.path().join("cache"))
        .with_settings(settings)
        .with_store_settings(store_settings(&server))
        .build()
        .unwrap();
    let provider = SequentialPlanProvider::new(index.len(), 8).unwrap();
    let (mut loader, _) =
        build_prefetching_loader(Sums(index), VecCollate, provider, cache, LoaderSettings::default()).unwrap();
    loader.next().unwrap().unwrap_err();
    let report = loader.report();
    let store: Duration = [Cause::Request, Cause::Backoff].map(|cause| report.waited_for(cause)).iter().sum();
    assert!(Duration::from_millis(50) < store && report.waited / 2 < store, "{report}");
}

#[test]
fn a_slow_training_loop_is_named() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 160);
    let cache = open(dir.path(), &server);
    // What the first batch waits for at the start of a run is not what this is about.
    index.uris().iter().for_each(|uri| drop(cache.ensure_local(&uri).unwrap()));
    let provider = SequentialPlanProvider::new(index.len(), 8).unwrap();
    let settings = LoaderSettings { num_epochs: Some(1), ..LoaderSettings::default() };
    let (mut loader, _) = build_prefetching_loader(Sums(index), VecCollate, provider, cache, settings).unwrap();
    let report = run(&mut loader, Duration::from_millis(100));
    assert_eq!(report.verdict.bound_by, BoundBy::TrainingLoop, "{report}");
}

#[test]
fn a_slow_disk_is_named() {
    // Objects that are there at once, and large: what is left is writing them.
    let (dir, store) = (tempfile::tempdir().unwrap(), std::sync::Arc::new(InMemory::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let rows: Vec<(String, u32)> = (0..12)
        .map(|i| {
            let payload = PutPayload::from(vec![i as u8; 24 << 20]);
            runtime.block_on(store.put(&Path::parse(format!("{i}")).unwrap(), payload)).unwrap();
            (format!("memory://large/{i}"), 0)
        })
        .collect();
    let index = SampleIndex::from_rows(rows).unwrap();
    let cache = DiskCache::builder(dir.path().join("cache")).with_store("memory://large", store).build().unwrap();
    let provider = SequentialPlanProvider::new(index.len(), 2).unwrap();
    let dataset = ObjectPathDataset::new(index, |file| Ok(file.len()));
    let settings = LoaderSettings { num_epochs: Some(1), ..LoaderSettings::default() };
    let (mut loader, _) = build_prefetching_loader(dataset, VecCollate, provider, cache, settings).unwrap();
    let report = run(&mut loader, Duration::ZERO);
    assert_eq!(report.verdict.bound_by, BoundBy::Disk, "{report}");
}

#[test]
fn a_report_prints_as_a_table_and_comes_back_from_json() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 40);
    let provider = SequentialPlanProvider::new(index.len(), 8).unwrap();
    let cache = open(dir.path(), &server);
    let (mut loader, controller) =
        build_prefetching_loader(Sums(index), VecCollate, provider, cache, LoaderSettings::default()).unwrap();
    assert!(controller.report().to_string().ends_with("bound by: nothing yet; take a batch first"));
    let report = run(&mut loader, Duration::ZERO);
    let text = report.to_string();
    assert!(text.starts_with("5 batches, 40 samples in "), "{text}");
    for word in ["waited for", "stage", "decode", "consumer", "the longest waits", "s3://objects/", "bound by: "] {
        assert!(text.contains(word), "{word} is not in:\n{text}");
    }
    let read: LoaderReport = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(read.causes, report.causes);
    assert_eq!(read.verdict, report.verdict);
}
