//! A burn data set over an index and a cache.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::Dataset as _;
use burn::tensor::Device;
use planfetch::prelude::*;
use planfetch_burn::{BurnDataset, PlanDataLoaderBuilder};
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

/// A data set that can't say what its samples are made of.
struct Nameless;

impl ObjectUris for Nameless {
    fn write_uri(&self, id: SampleId, _uri: &mut String) -> bool {
        assert_ne!(id.0, 3, "no name");
        false
    }
}

impl Dataset for Nameless {
    type Sample = u64;

    fn len(&self) -> u64 {
        10
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
        Ok(ctx.id().0)
    }
}

struct Plain;

impl Batcher<u64, Vec<u64>> for Plain {
    fn batch(&self, items: Vec<u64>, _device: &Device) -> Vec<u64> {
        items
    }
}

#[test]
fn a_panic_of_a_data_set_that_is_asked_for_uris_is_an_error_by_every_way() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, _, cache) = numbers(0, dir.path());
    let dataset = BurnDataset::new(Nameless).with_cache(cache);
    assert_eq!(dataset.get_many(vec![5, 4]).unwrap(), [5, 4]);
    for error in [dataset.get(3).unwrap_err(), dataset.get_many(vec![5, 3]).unwrap_err()] {
        assert!(error.to_string().contains("sample 3") && error.to_string().contains("no name"), "{error}");
    }
    let loader = DataLoaderBuilder::new(Plain).batch_size(2).num_workers(2).build(dataset);
    assert_eq!(loader.iter().filter(|batch| batch.is_err()).count(), 1);
}

#[test]
#[should_panic(expected = "sample 14 of 14")]
fn an_index_out_of_range_panics_as_burn_wants_it() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, index, cache) = numbers(14, dir.path());
    drop(BurnDataset::new(ObjectPathDataset::new(index, parse)).with_cache(cache).get(14));
}

#[test]
fn samples_that_are_parts_of_objects_are_those_parts_by_every_way_to_burn() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _, cache) = numbers(0, dir.path());
    // Ten numbers of two digits each in one object.
    server.put("numbers", "shard", b"20212223242526272829");
    let rows: String = (0..10).map(|i| format!("s3://numbers/shard,{i},{},2\n", i * 2)).collect();
    let settings =
        CsvSettings { offset_col: Some("offset".into()), length_col: Some("length".into()), ..CsvSettings::default() };
    let csv = format!("s3_uri,label,offset,length\n{rows}");
    let index = planfetch::index::read_index_csv(csv.as_bytes(), "parts.csv", &settings).unwrap();
    let expected: Vec<u64> = (20..30).collect();

    let dataset = || ObjectPathDataset::new(index.clone(), parse);
    let plan = SequentialPlanProvider::new(10, 5).unwrap();
    let ours = PlanDataLoaderBuilder::new(dataset(), plan).with_cache(cache.clone());
    let ours = ours.build_with_batcher(Whole).unwrap();
    assert_eq!(ours.iter().flat_map(Result::unwrap).collect::<Vec<_>>(), expected);

    let burns = BurnDataset::new(dataset()).with_cache(cache);
    let samples = burns.get_many((0..10).collect()).unwrap();
    assert_eq!(samples.into_iter().map(|(number, _)| number).collect::<Vec<_>>(), expected);
    assert_eq!(burns.get(7).unwrap(), (27, 7));
}
