//! Order and bytes are the plan's, whatever the settings and the timing.

use std::time::Duration;

use planfetch::index::read_index_csv;
use planfetch::prelude::*;
use planfetch_testkit::{Fault, FaultRule, S3Server, fixtures};
use proptest::prelude::{Strategy, any, prop};
use proptest::test_runner::{Config, TestRunner};
use sha2::{Digest, Sha256};

use crate::support::{Sums, open, planned, put_objects, store_settings};

/// Images with noise from the sample's own generator.
struct Noisy(ImageDataset);

impl ObjectUris for Noisy {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.0.write_uri(id, uri)
    }
}

impl Dataset for Noisy {
    type Sample = Vec<u8>;

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<Vec<u8>, BoxError> {
        use rand_chacha::rand_core::Rng;
        let mut pixels = self.0.get(ctx)?.image.into_pixels();
        let rng = ctx.rng();
        pixels.iter_mut().for_each(|pixel| *pixel ^= rng.next_u32() as u8);
        Ok(pixels)
    }
}

#[test]
fn ids_and_bytes_do_not_depend_on_workers_window_cache_or_timing() {
    let server = S3Server::start();
    let csv = fixtures::put_photographs(&server, "photos", 30);
    let index = read_index_csv(csv.as_bytes(), "photos.csv", &CsvSettings::default()).unwrap();
    let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 4, 11).unwrap();
    let warm = tempfile::tempdir().unwrap();
    let mut digests = Vec::new();
    for (num_workers, prefetch_factor, batches_ahead, latency_ms, is_warm) in
        [(0, 1, 1, 0, false), (1, 1, 200, 3, false), (2, 4, 3, 0, true), (7, 9, 1, 5, true), (16, 2, 50, 0, true)]
    {
        server.clear_faults();
        // Latencies that differ between objects change the order in which they arrive.
        server.inject(FaultRule::every(2, Fault::Latency(Duration::from_millis(latency_ms))));
        let fresh = tempfile::tempdir().unwrap();
        let cache = open(if is_warm { warm.path() } else { fresh.path() }, &server);
        if is_warm {
            index.uris().iter().for_each(|uri| drop(cache.ensure_local(&uri).unwrap()));
        }
        let before = cache.stats();
        let images = ImageSettings { height: 32, width: 48, ..ImageSettings::default() };
        let dataset = Noisy(ImageDataset::new(index.clone(), images).unwrap());
        let settings = LoaderSettings {
            num_workers,
            prefetch_factor,
            batches_ahead: batches_ahead.into(),
            batches_back: 0,
            prune_every: 1,
            num_epochs: Some(2),
            ..LoaderSettings::default()
        };
        let (mut loader, _) =
            build_prefetching_loader(dataset, VecCollate, provider.clone(), cache.clone(), settings).unwrap();
        let mut hash = Sha256::new();
        for epoch in 0..2 {
            let mut ids = Vec::new();
            for batch in &mut loader {
                let batch = batch.unwrap();
                ids.push(batch.ids().to_vec());
                batch.iter().for_each(|pixels| hash.update(pixels));
            }
            assert_eq!(ids, planned(&provider, epoch));
        }
        let downloaded = cache.stats().objects_downloaded - before.objects_downloaded;
        // What was warm is found in the first epoch, and what was not is downloaded.
        assert!(if is_warm { downloaded <= 30 } else { 30 <= downloaded }, "{downloaded} downloads");
        digests.push(hash.finalize());
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

/// All that must not decide order or bytes.
#[derive(Clone, Debug)]
struct Circumstances {
    loader: LoaderSettings,
    cache: CacheSettings,
    latency_ms: u64,
    /// How many objects are local before.
    warm: usize,
}

fn circumstances() -> impl Strategy<Value = Circumstances> {
    let loader = (
        0_usize..=16,
        1_usize..=9,
        prop::option::of(1_usize..60),
        0_usize..6,
        1_usize..6,
        any::<bool>(),
        prop::option::of(1_u64..20_000),
    )
        .prop_map(|(num_workers, prefetch_factor, ahead, batches_back, prune_every, in_order, max_ahead_bytes)| {
            LoaderSettings {
                num_workers,
                prefetch_factor,
                batches_ahead: ahead.map_or(BatchesAhead::Auto, Into::into),
                batches_back,
                prune_every,
                in_order,
                max_ahead_bytes,
                num_epochs: Some(2),
                ..LoaderSettings::default()
            }
        });
    let eviction = prop::sample::select(vec![
        (EvictionMode::Window, PruneBackend::Meta),
        (EvictionMode::Window, PruneBackend::Scan),
        (EvictionMode::Pressure, PruneBackend::Meta),
        (EvictionMode::Pressure, PruneBackend::Scan),
        (EvictionMode::Clairvoyant, PruneBackend::Meta),
    ]);
    // From less than a batch to more than all of it; objects have 500 to 900 bytes.
    let limit = prop::option::of(1_000_u64..60_000);
    let cache = (eviction, limit, 1_usize..64, 1_usize..4).prop_map(
        |((eviction, prune_backend), limit, download_concurrency, write_concurrency)| CacheSettings {
            eviction,
            prune_backend,
            limit: limit.map_or(CacheSettings::default().limit, CacheLimit::TotalSize),
            download_concurrency,
            write_concurrency,
            ..CacheSettings::default()
        },
    );
    (loader, cache, 0_u64..4, 0_usize..60).prop_map(|(loader, cache, latency_ms, warm)| Circumstances {
        loader,
        cache,
        latency_ms,
        warm,
    })
}

/// The epochs of one rank, batch by batch, with the content of each sample.
type Epochs = Vec<Vec<(usize, Vec<SampleId>, Vec<(u64, u64)>)>>;

fn epochs(loader: &mut PrefetchingLoader<Vec<(u64, u64)>>) -> Epochs {
    (0..2)
        .map(|_| {
            let batches = loader.map(|batch| {
                let batch = batch.unwrap();
                (batch.step(), batch.ids().to_vec(), batch.clone())
            });
            let mut batches: Vec<_> = batches.collect();
            // Without plan order, they come as they are finished.
            batches.sort_by_key(|(step, ..)| *step);
            batches
        })
        .collect()
}

#[test]
fn order_and_bytes_are_the_plans_and_each_sample_comes_once_under_any_settings() {
    const OBJECTS: usize = 60;
    let server = S3Server::start_in_memory();
    let index = put_objects(&server, OBJECTS);
    let sums: Vec<u64> = (0..OBJECTS)
        .map(|i| {
            let bytes = (0..500 + i % 400).map(|j| (i * 31 + j * 7) as u8);
            bytes.fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
        })
        .collect();
    let worlds =
        (1_u32..4, prop::sample::select(vec![RemainderPolicy::Keep, RemainderPolicy::Pad, RemainderPolicy::Drop]));
    let strategy = (circumstances(), 4_usize..17, any::<u64>(), worlds);
    let mut runner = TestRunner::new(Config::with_cases(40));
    let outcome = runner.run(&strategy, |(circumstances, batch_size, seed, (world_size, policy))| {
        let provider = ShuffleOncePerEpochPlanProvider::new(OBJECTS as u64, batch_size, seed).unwrap();
        let Circumstances { loader: settings, cache: cache_settings, latency_ms, warm } = circumstances;
        server.clear_faults();
        server.inject(FaultRule::every(2, Fault::Latency(Duration::from_millis(latency_ms))));
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::builder(dir.path().join("cache"))
            .with_settings(cache_settings)
            .with_store_settings(store_settings(&server))
            .build()
            .unwrap();
        index.uris().iter().take(warm).for_each(|uri| drop(cache.ensure_local(&uri).unwrap()));
        let mut seen = [const { Vec::new() }; 2];
        for rank in 0..world_size {
            let world = World { rank, world_size };
            let (mut loader, _) = LoaderBuilder::new(Sums(index.clone()), VecCollate, provider.clone())
                .with_cache(cache.clone())
                .with_settings(settings.clone())
                .with_world(world, policy)
                .build()
                .unwrap();
            for (epoch, batches) in epochs(&mut loader).into_iter().enumerate() {
                let plan = provider.plan(epoch as u64).unwrap().for_rank(world, policy).unwrap();
                assert_eq!(batches.len(), plan.num_steps());
                for (row, (step, ids, samples)) in batches.into_iter().enumerate() {
                    let planned = plan.batch(row);
                    let planned: Vec<SampleId> =
                        planned.iter().flat_map(|batch| batch.iter()).map(|slot| slot.sample).collect();
                    assert_eq!((step, &ids), (row, &planned));
                    let expected: Vec<_> = ids.iter().map(|id| (id.0, sums[id.index()])).collect();
                    assert_eq!(samples, expected);
                    seen[epoch].extend(ids);
                }
            }
        }
        if policy == RemainderPolicy::Keep {
            for mut ids in seen {
                ids.sort_unstable();
                assert_eq!(ids, (0..OBJECTS as u64).map(SampleId).collect::<Vec<_>>());
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
