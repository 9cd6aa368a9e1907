//! Settings: what they promise at their edges.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use planfetch_cache::{CacheSettings, DiskCache, EvictionMode};
use planfetch_index::SampleIndex;
use planfetch_loader::Dataset;
use planfetch_loader::{
    BoxError, Cause, Collate, LoaderBuilder, LoaderError, LoaderSettings, ObjectPathDataset, ObjectUris,
    PrefetchCoordinator, SampleContext, VecCollate,
};
use planfetch_plan::{PlanProvider, SampleId, SequentialPlanProvider, ShuffleOncePerEpochPlanProvider};
use planfetch_testkit::{eventually, pause};

use crate::support::{Number, Numbers, load, rest, settings};

/// Numbers of which one takes its time.
struct Late {
    inner: Numbers,
    late: u64,
    time: Duration,
}

impl ObjectUris for Late {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Late {
    type Sample = Number;

    fn len(&self) -> u64 {
        self.inner.n
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<Number, BoxError> {
        if ctx.id().0 == self.late {
            pause(self.time);
        }
        self.inner.get(ctx)
    }
}

fn late(time_ms: u64, settings: LoaderSettings) -> crate::support::Loader {
    let data = Late { inner: Numbers::new(64), late: 2, time: Duration::from_millis(time_ms) };
    let provider = SequentialPlanProvider::new(64, 4).unwrap();
    LoaderBuilder::new(data, VecCollate, provider).with_settings(settings).build().unwrap().0
}

#[test]
fn no_batch_within_the_timeout_is_an_error_that_loses_nothing() {
    let settings = LoaderSettings { timeout: Some(Duration::from_millis(30)), ..settings(2) };
    let mut loader = late(4_000, settings);
    let started = Instant::now();
    let mut all = Duration::ZERO;
    loop {
        let error = loader.next().unwrap().unwrap_err();
        let LoaderError::Timeout { epoch: 0, step: 0, waited, .. } = &error else { panic!("{error}") };
        assert!(Duration::from_millis(30) <= *waited);
        all += *waited;
        // A machine that is busy with something else may not have begun within the first of them.
        if error.to_string().contains(" s (epoch 0, step 0): its samples are being decoded") {
            break;
        }
        assert!(started.elapsed() < Duration::from_millis(3_900), "{error}");
    }
    // What it waits for isn't known yet, and is charged to the batch when it comes.
    let report = loader.report();
    assert_eq!((report.waited_for(Cause::Pending), report.waited), (all, all), "{report}");
    let steps: Vec<_> = std::iter::from_fn(|| loader.next()).flatten().map(|batch| batch.step()).collect();
    assert_eq!(steps, (0..16).collect::<Vec<_>>());
    let report = loader.report();
    assert_eq!(report.waited_for(Cause::Pending), Duration::ZERO, "{report}");
    // A loop that does nothing takes no time, in however many calls it waits.
    assert!(report.consumer < report.waited / 10, "{report}");
    // Other batches were ready meanwhile, but for its beginning.
    let known = report.waited_for(Cause::Decode) + report.waited_for(Cause::Order);
    assert!(report.waited / 2 < known, "{report}");
    assert_eq!(report.held_up[0].id, 2, "{report}");
}

#[test]
fn a_wait_for_a_batch_that_is_given_up_stays_pending() {
    let settings = LoaderSettings { timeout: Some(Duration::from_millis(30)), ..settings(2) };
    let mut loader = late(1_000, settings);
    let error = loader.next().unwrap().unwrap_err();
    let LoaderError::Timeout { waited, .. } = error else { panic!("{error}") };
    loader.controller().set_epoch(3).unwrap();
    while loader.next().unwrap().is_err() {}
    assert!(waited <= loader.report().waited_for(Cause::Pending));
}

#[test]
fn a_timeout_without_workers_is_refused_in_words() {
    let settings = LoaderSettings { timeout: Some(Duration::from_secs(30)), ..settings(0) };
    let provider = SequentialPlanProvider::new(64, 4).unwrap();
    let built = LoaderBuilder::new(Numbers::new(64), VecCollate, provider).with_settings(settings).build();
    let error = built.err().unwrap().to_string();
    assert!(error.contains("timeout") && error.contains("30s") && error.contains("num_workers: 0"), "{error}");
}

#[test]
fn without_plan_order_one_late_batch_holds_up_no_other_and_its_epoch_is_whole() {
    let mut loader = late(300, LoaderSettings { in_order: false, ..settings(2) });
    for epoch in 0..2 {
        let steps: Vec<_> = (&mut loader).map(|batch| batch.unwrap().step()).collect();
        // In the second epoch it may have been made while the first one ended.
        assert!(steps[0] != 0 || epoch == 1);
        let mut sorted = steps.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..16).collect::<Vec<_>>(), "{steps:?}");
    }
}

#[test]
fn data_of_every_awkward_size_is_delivered() {
    for n in [0, 1, 3, 4, 5] {
        for batch_size in [1, 4, 100] {
            for num_workers in [0, 1, 16] {
                for prefetch_factor in [1, 50] {
                    let provider = SequentialPlanProvider::new(n, batch_size).unwrap();
                    let settings = LoaderSettings { prefetch_factor, ..settings(num_workers) };
                    let mut loader = load(&Numbers::new(n), &provider, settings);
                    for epoch in 0..3 {
                        let ids: Vec<_> = rest(&mut loader).into_iter().map(|batch| (batch.0, batch.2)).collect();
                        let expected: Vec<_> =
                            provider.plan(epoch).unwrap().iter().map(|batch| (epoch, batch.to_vec())).collect();
                        assert_eq!(ids, expected);
                    }
                }
            }
        }
    }
}

/// Counts the batches that were finished.
struct Finished(Arc<AtomicU64>);

impl Collate<Number> for Finished {
    type Buffer = Vec<Option<Number>>;
    type Slot<'b> = &'b mut Option<Number>;
    type Batch = ();

    fn buffer(&self) -> Self::Buffer {
        Vec::new()
    }

    fn slots<'b>(&self, buffer: &'b mut Self::Buffer, len: usize) -> Vec<Self::Slot<'b>> {
        <VecCollate as Collate<Number>>::slots(&VecCollate, buffer, len)
    }

    fn put(&self, sample: Number, slot: Self::Slot<'_>) -> Result<(), BoxError> {
        VecCollate.put(sample, slot)
    }

    fn finish(&self, _buffer: Self::Buffer) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn num_bytes(&self, _batch: &()) -> Option<u64> {
        Some(1_000)
    }
}

#[test]
fn batches_in_memory_are_bounded_by_their_number_and_by_their_bytes() {
    for (max_batch_bytes, most) in [(None, 8), (Some(3_500), 3), (Some(10), 1)] {
        let finished = Arc::new(AtomicU64::new(0));
        let provider = SequentialPlanProvider::new(400, 4).unwrap();
        let settings = LoaderSettings { prefetch_factor: 8, max_batch_bytes, ..settings(4) };
        let builder = LoaderBuilder::new(Numbers::new(400), Finished(Arc::clone(&finished)), provider);
        let (mut loader, _) = builder.with_settings(settings).build().unwrap();
        // From the first one on.
        for taken in 0..50 {
            pause(Duration::from_millis(1));
            let ahead = finished.load(Ordering::SeqCst) - taken;
            assert!(ahead <= most, "{ahead} batches, of at most {most}");
            assert!(loader.next().is_some_and(|batch| batch.is_ok()));
        }
    }
}

/// Objects of 10 bytes each, and one without any.
fn objects(dir: &std::path::Path, n: usize) -> SampleIndex {
    let rows = (0..n).map(|i| {
        let path = dir.join(format!("{i}.bin"));
        std::fs::write(&path, vec![1; if i == 3 { 0 } else { 10 }]).unwrap();
        (format!("file://{}", path.display()), 0)
    });
    SampleIndex::from_rows(rows.collect::<Vec<_>>()).unwrap()
}

/// An index that knows that its objects have 10 bytes.
struct Sized10(SampleIndex);

impl ObjectUris for Sized10 {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.0.write_uri(id, uri)
    }

    fn object_size(&self, _id: SampleId) -> Option<u64> {
        Some(10)
    }
}

impl Dataset for Sized10 {
    type Sample = u64;

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
        Ok(ctx.file().ok_or("every sample has a file")?.len())
    }
}

#[test]
fn the_window_is_bounded_by_bytes_and_a_bound_below_one_batch_still_delivers() {
    for (max_ahead_bytes, most_files) in [(Some(200), 20), (Some(5), 4), (None, 80)] {
        let dir = tempfile::tempdir().unwrap();
        let data = Sized10(objects(dir.path(), 80));
        let cache = DiskCache::builder(dir.path().join("cache")).build().unwrap();
        let settings = LoaderSettings {
            max_ahead_bytes,
            batches_back: 0,
            prune_every: 1,
            prefetch_factor: 1,
            num_epochs: Some(1),
            ..settings(1)
        };
        let provider = ShuffleOncePerEpochPlanProvider::new(80, 4, 1).unwrap();
        let builder = LoaderBuilder::new(data, VecCollate, provider).with_cache(cache.clone());
        let (loader, _) = builder.with_settings(settings).build().unwrap();
        let mut samples = 0;
        for batch in loader {
            samples += batch.unwrap().len();
            // What workers demand beyond the window comes on top: a batch in the making, and the one in hand.
            eventually("what is ahead is bounded", || cache.stats().local_files <= most_files + 8);
        }
        assert_eq!(samples, 80);
    }
}

/// Counts for how many samples an object was asked for.
struct Counted(Sized10, Arc<AtomicU64>);

impl ObjectUris for Counted {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.write_uri(id, uri)
    }

    fn object_size(&self, id: SampleId) -> Option<u64> {
        self.0.object_size(id)
    }
}

#[test]
fn what_is_behind_the_reader_makes_room_for_what_is_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    let data = Counted(Sized10(objects(dir.path(), 200)), Arc::clone(&asked));
    let cache = DiskCache::builder(dir.path().join("cache")).build().unwrap();
    // Of the six batches that there is room for, eight may stay behind.
    let settings = LoaderSettings { max_ahead_bytes: Some(240), batches_back: 4, prune_every: 5, ..settings(1) };
    let mut coordinator = PrefetchCoordinator::new(cache, data, &settings);
    let plan = SequentialPlanProvider::new(200, 4).unwrap().plan(0).unwrap();
    coordinator.set_plan(plan.clone());
    coordinator.prime();
    for step in 0..plan.num_batches() {
        coordinator.on_batch_yielded(step);
        let expected = (step + 1 + 6).min(plan.num_batches()) as u64;
        assert_eq!(asked.load(Ordering::Relaxed), expected * 4, "after step {step}");
    }
}

#[test]
fn objects_without_bytes_are_samples_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = ObjectPathDataset::new(objects(dir.path(), 6), |file| Ok(file.len()));
    let cache = DiskCache::builder(dir.path().join("cache")).build().unwrap();
    let provider = SequentialPlanProvider::new(6, 6).unwrap();
    let (mut loader, _) = LoaderBuilder::new(dataset, VecCollate, provider).with_cache(cache).build().unwrap();
    let batch = loader.next().unwrap().unwrap();
    assert_eq!(batch.iter().map(|(len, _)| *len).collect::<Vec<_>>(), [10, 10, 10, 0, 10, 10]);
}

#[test]
fn from_the_second_epoch_on_clairvoyant_eviction_finds_what_fits_and_the_window_finds_little() {
    let hits = |eviction, limit_bytes| {
        let dir = tempfile::tempdir().unwrap();
        let index = objects(dir.path(), 200);
        let limit = planfetch_cache::CacheLimit::TotalSize(limit_bytes);
        let settings = CacheSettings { eviction, limit, ..CacheSettings::default() };
        let cache = DiskCache::builder(dir.path().join("cache")).with_settings(settings).build().unwrap();
        let dataset = ObjectPathDataset::new(index, |file| Ok(file.len()));
        let provider = ShuffleOncePerEpochPlanProvider::new(200, 4, 1).unwrap();
        // What is held for batches in the making is no room for what a policy would keep: one batch, and the window.
        let settings = LoaderSettings {
            prefetch_factor: 1,
            batches_ahead: 3.into(),
            batches_back: 0,
            prune_every: 1,
            num_epochs: Some(4),
            ..crate::support::settings(2)
        };
        let builder = LoaderBuilder::new(dataset, VecCollate, provider).with_cache(cache.clone());
        let (mut loader, _) = builder.with_settings(settings).build().unwrap();
        loader.by_ref().for_each(|batch| drop(batch.unwrap()));
        let first = cache.stats().objects_downloaded;
        for _ in 1..4 {
            loader.by_ref().for_each(|batch| drop(batch.unwrap()));
        }
        // What was not downloaded again in three epochs of 200.
        1.0 - (cache.stats().objects_downloaded - first) as f64 / 600.0
    };
    // Half of the data fits: what a policy that knows the future finds is at least as much.
    let (clairvoyant, pressure) = (hits(EvictionMode::Clairvoyant, 1_000), hits(EvictionMode::Pressure, 1_000));
    let window = hits(EvictionMode::Window, 1_000);
    assert!(0.4 < clairvoyant, "{clairvoyant}");
    assert!(pressure < clairvoyant, "{pressure} {clairvoyant}");
    assert!(window < 0.2, "{window}");
    // All of it fits.
    assert!(0.99 < hits(EvictionMode::Clairvoyant, 3_000));
}
