//! A burn data set over an index and a cache, and checkpoints on disk.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::Dataset as _;
use burn::tensor::Device;
use planfetch::prelude::*;
use planfetch_burn::{BurnDataset, CheckpointRecorder};
use planfetch_testkit::{ACCESS_KEY, S3Server, SECRET_KEY};

/// An index of texts with the numbers 0..n, behind a server, and a cache for them.
fn numbers(n: usize, dir: &std::path::Path) -> (S3Server, SampleIndex, DiskCache) {
    let server = S3Server::start();
    let rows: Vec<(String, u32)> = (0..n)
        .map(|i| {
            server.put("numbers", &format!("{i}.txt"), i.to_string().as_bytes());
            (format!("s3://numbers/{i}.txt"), 0)
        })
        .collect();
    let stores = StoreSettings {
        endpoint: Some(server.endpoint()),
        access_key_id: Some(ACCESS_KEY.into()),
        secret_access_key: Some(SECRET_KEY.into()),
        ..StoreSettings::default()
    };
    let cache = DiskCache::builder(dir).with_store_settings(stores).build().unwrap();
    (server, SampleIndex::from_rows(rows).unwrap(), cache)
}

fn parse(file: &LocalFile) -> Result<u64, BoxError> {
    let mut bytes = Vec::new();
    file.read_into(&mut bytes)?;
    let number = std::str::from_utf8(&bytes)?.parse()?;
    assert_ne!(number, 13, "a decoder's panic");
    Ok(number)
}

struct Whole;

impl Batcher<(u64, i64), Vec<u64>> for Whole {
    fn batch(&self, items: Vec<(u64, i64)>, _device: &Device) -> Vec<u64> {
        items.into_iter().map(|(number, _label)| number).collect()
    }
}

#[test]
fn burns_own_loader_reads_through_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let (server, index, cache) = numbers(12, dir.path());
    let dataset = BurnDataset::new(ObjectPathDataset::new(index, parse)).with_cache(cache);
    let loader = DataLoaderBuilder::new(Whole).batch_size(5).num_workers(2).build(dataset);
    for _ in 0..2 {
        let mut items: Vec<u64> = loader.iter().flat_map(|batch| batch.unwrap()).collect();
        items.sort_unstable();
        assert_eq!(items, (0..12).collect::<Vec<_>>());
    }
    assert_eq!(server.counts().requests, 12, "each object is downloaded once");
}

#[test]
fn a_panic_and_a_missing_object_are_errors_that_name_the_sample() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, index, cache) = numbers(14, dir.path());
    let dataset = BurnDataset::new(ObjectPathDataset::new(index.clone(), parse));
    let error = dataset.get(3).unwrap_err().to_string();
    assert!(error.contains("sample 3") && error.contains("no cache"), "{error}");

    let dataset = dataset.with_cache(cache);
    assert_eq!(dataset.get_many(vec![5, 3, 5]).unwrap(), [(5, 0), (3, 0), (5, 0)]);
    let error = dataset.get(13).unwrap_err().to_string();
    assert!(error.contains("sample 13") && error.contains("a decoder's panic"), "{error}");
}

#[test]
#[should_panic(expected = "sample 14 of 14")]
fn an_index_out_of_range_panics_as_burn_wants_it() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, index, cache) = numbers(14, dir.path());
    drop(BurnDataset::new(ObjectPathDataset::new(index, parse)).with_cache(cache).get(14));
}

#[test]
fn a_checkpoint_is_whole_or_not_there_and_the_newest_are_kept() {
    struct Empty;
    impl ObjectUris for Empty {
        fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
            false
        }
    }
    impl Dataset for Empty {
        type Sample = ();
        fn len(&self) -> u64 {
            10
        }
        fn get(&self, _ctx: &mut SampleContext<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }
    let plan = SequentialPlanProvider::new(10, 2).unwrap();
    let (mut loader, _) = LoaderBuilder::new(Empty, VecCollate, plan).build().unwrap();

    let dir = tempfile::tempdir().unwrap();
    let recorder = CheckpointRecorder::new(dir.path().join("runs/1")).unwrap().with_every(2).with_keep(2);
    assert!(recorder.latest().unwrap().is_none());
    for step in 1..=5 {
        loader.next().unwrap().unwrap();
        if recorder.is_due(step) || step == 5 {
            let write = |folder: &std::path::Path| Ok(fs::write(folder.join("model"), step.to_string())?);
            recorder.save(step, &loader.state(), write).unwrap();
        }
    }
    let names = || {
        let entries = fs::read_dir(dir.path().join("runs/1")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(), ["step-000000000004", "step-000000000005"]);

    // A process that dies while it writes: the checkpoint before is the newest.
    let died = recorder.save(6, &loader.state(), |folder| {
        fs::write(folder.join("model"), "half")?;
        Err("killed".into())
    });
    let error = died.unwrap_err().to_string();
    assert!(error.contains("step-000000000006") && error.contains("killed"), "{error}");
    let latest = recorder.latest().unwrap().unwrap();
    assert_eq!((latest.step, latest.state.position()), (5, 10));
    assert_eq!(fs::read_to_string(latest.path.join("model")).unwrap(), "5");
    // What it left goes with the next one.
    recorder.save(7, &loader.state(), |_| Ok(())).unwrap();
    assert_eq!(names(), ["step-000000000005", "step-000000000007"]);
}
