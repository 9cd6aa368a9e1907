//! Ending in the middle, and beginning again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use planfetch::prelude::*;
use planfetch_testkit::{Fault, FaultRule, S3Server, eventually, pause};

use crate::support::{Sums, open, planned, put_objects, temp_files};

/// A data set that tells whether anybody still holds it.
struct Watched(Sums, #[expect(dead_code, reason = "its drop is what is watched")] Arc<()>);

impl ObjectUris for Watched {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.0.write_uri(id, uri)
    }
}

impl Dataset for Watched {
    type Sample = (u64, u64);

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<(u64, u64), BoxError> {
        self.0.get(ctx)
    }
}

#[test]
fn dropping_the_loader_in_mid_epoch_ends_its_threads_though_the_store_hangs() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 600);
    let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 8, 1).unwrap();
    let cache = open(dir.path(), &server);
    for take in [0, 1, 5] {
        server.clear_faults();
        let token = Arc::new(());
        let dataset = Watched(Sums(index.clone()), Arc::clone(&token));
        let (mut loader, _controller) =
            build_prefetching_loader(dataset, VecCollate, provider.clone(), cache.clone(), LoaderSettings::default())
                .unwrap();
        for batch in (&mut loader).take(take) {
            batch.unwrap();
        }
        server.inject(FaultRule::always(Fault::StallBody(100)));
        let started = Instant::now();
        drop(loader);
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        assert_eq!(Arc::strong_count(&token), 1, "a thread still holds the data set");
    }
    let started = Instant::now();
    let cache_dir = cache.dir().to_path_buf();
    drop(cache);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(temp_files(&cache_dir), Vec::<std::path::PathBuf>::new());

    // The next run on the same directory works, and asks only for what is missing.
    server.clear_faults();
    let cache = open(dir.path(), &server);
    let local = cache.stats().local_files;
    let settings = LoaderSettings { num_epochs: Some(1), ..LoaderSettings::default() };
    let (mut loader, _) =
        build_prefetching_loader(Sums(index), VecCollate, provider.clone(), cache.clone(), settings).unwrap();
    let ids: Vec<_> = (&mut loader).map(|batch| batch.unwrap().ids().to_vec()).collect();
    assert_eq!(ids, planned(&provider, 0));
    let stats = cache.stats();
    assert_eq!((stats.objects_downloaded, stats.corrupt_files), (600 - local, 0));
}

/// Takes 50 ms for each sample.
struct Slow(Watched);

impl ObjectUris for Slow {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.0.write_uri(id, uri)
    }
}

impl Dataset for Slow {
    type Sample = (u64, u64);

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<(u64, u64), BoxError> {
        pause(Duration::from_millis(50));
        self.0.get(ctx)
    }
}

#[test]
fn neither_dropping_the_loader_nor_going_elsewhere_waits_for_samples_that_are_queued() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 600);
    // A batch takes 200 times 50 ms on two workers: 5 s.
    let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 200, 1).unwrap();
    let cache = open(dir.path(), &server);
    let token = Arc::new(());
    let dataset = Slow(Watched(Sums(index), Arc::clone(&token)));
    let settings = LoaderSettings { num_workers: 2, ..LoaderSettings::default() };
    let (loader, controller) =
        build_prefetching_loader(dataset, VecCollate, provider, cache.clone(), settings).unwrap();
    eventually("the first batch is local", || 200 <= cache.stats().local_files);
    let started = Instant::now();
    controller.set_epoch(5).unwrap();
    pause(Duration::from_millis(300));
    drop(loader);
    assert!(started.elapsed() < Duration::from_millis(1_300), "{:?}", started.elapsed());
    assert_eq!(Arc::strong_count(&token), 1, "a thread still holds the data set");
}

#[test]
fn a_window_without_bounds_over_little_data_does_not_hold_up_the_end() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 12);
    let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 4, 1).unwrap();
    let cache = open(dir.path(), &server);
    let settings = LoaderSettings { batches_ahead: 100_000_000.into(), ..LoaderSettings::default() };
    let (mut loader, _) = build_prefetching_loader(Sums(index), VecCollate, provider.clone(), cache, settings).unwrap();
    for epoch in 0..4 {
        let ids: Vec<_> = (&mut loader).map(|batch| batch.unwrap().ids().to_vec()).collect();
        assert_eq!(ids, planned(&provider, epoch));
    }
    let started = Instant::now();
    drop(loader);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[test]
fn a_panic_in_the_training_loop_ends_the_loader() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 100);
    let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 8, 1).unwrap();
    let cache = open(dir.path(), &server);
    let token = Arc::new(());
    let dataset = Watched(Sums(index), Arc::clone(&token));
    let (mut loader, _) =
        build_prefetching_loader(dataset, VecCollate, provider, cache, LoaderSettings::default()).unwrap();
    let training = std::thread::spawn(move || {
        for batch in &mut loader {
            assert!(batch.unwrap().step() < 3, "the model has blown up");
        }
    });
    assert!(training.join().is_err());
    assert_eq!(Arc::strong_count(&token), 1, "a thread still holds the data set");
}

#[test]
fn batches_may_outlive_their_loader() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 20);
    let provider = SequentialPlanProvider::new(index.len(), 8).unwrap();
    let cache = open(dir.path(), &server);
    let (mut loader, controller) =
        build_prefetching_loader(Sums(index), VecCollate, provider, cache, LoaderSettings::default()).unwrap();
    let batches: Vec<_> = (&mut loader).map(Result::unwrap).collect();
    drop(loader);
    assert_eq!(batches.iter().map(|batch| batch.len()).sum::<usize>(), 20);
    assert_eq!(batches[2].ids().to_vec(), [16, 17, 18, 19].map(SampleId));
    assert_eq!(controller.stats().samples, 20);
}
