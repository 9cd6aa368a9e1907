//! Order and bytes are the plan's, whatever the settings and the timing.

use std::time::Duration;

use planfetch::index::read_index_csv;
use planfetch::prelude::*;
use planfetch_testkit::{Fault, FaultRule, S3Server, fixtures};
use sha2::{Digest, Sha256};

use crate::support::{open, planned};

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
