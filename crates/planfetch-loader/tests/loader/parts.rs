//! Samples that are parts of larger objects.

use planfetch_cache::{DiskCache, LocalFile};
use planfetch_index::{CsvSettings, load_index_csv};
use planfetch_loader::{LoaderBuilder, LoaderSettings, ObjectPathDataset, VecCollate};
use planfetch_plan::ShuffleOncePerEpochPlanProvider;

#[test]
fn a_sample_that_is_a_part_of_an_object_is_that_part_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    // Forty samples of different lengths in two shards.
    let part = |i: usize| format!("<sample {i} of {}>", "x".repeat(i));
    let (mut shards, mut rows) = ([String::new(), String::new()], String::from("s3_uri,label,offset,length\n"));
    for i in 0..40 {
        let (shard, text) = (i % 2, part(i));
        let (path, offset) = (dir.path().join(shard.to_string()), shards[shard].len());
        rows += &format!("file://{},{i},{offset},{}\n", path.display(), text.len());
        shards[shard] += &text;
    }
    for (i, shard) in shards.iter().enumerate() {
        std::fs::write(dir.path().join(i.to_string()), shard).unwrap();
    }
    let csv = dir.path().join("index.csv");
    std::fs::write(&csv, rows).unwrap();
    let settings =
        CsvSettings { offset_col: Some("offset".into()), length_col: Some("length".into()), ..CsvSettings::default() };
    let index = load_index_csv(&csv, &settings).unwrap();
    let cache = DiskCache::builder(dir.path().join("cache")).build().unwrap();
    let read = |file: &LocalFile| {
        let mut bytes = Vec::new();
        file.read_into(&mut bytes)?;
        Ok(String::from_utf8(bytes)?)
    };
    let dataset = ObjectPathDataset::new(index, read);
    let plan = ShuffleOncePerEpochPlanProvider::new(40, 7, 1).unwrap();
    let settings = LoaderSettings { num_epochs: Some(1), ..LoaderSettings::default() };
    let builder = LoaderBuilder::new(dataset, VecCollate, plan).with_cache(cache.clone()).with_settings(settings);
    let (mut loader, _) = builder.build().unwrap();
    let samples: Vec<(String, i64)> = loader.epoch(0).unwrap().flat_map(|batch| batch.unwrap().clone()).collect();
    assert_eq!(samples.len(), 40);
    for (text, label) in samples {
        assert_eq!(text, part(label as usize));
    }
    // What was prefetched is what was asked for.
    assert_eq!(cache.stats().objects_downloaded, 40);
}
