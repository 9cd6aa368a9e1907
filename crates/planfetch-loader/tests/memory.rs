//! Resident memory does not grow from epoch to epoch.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use ndarray::Array1;
use planfetch_cache::DiskCache;
use planfetch_index::SampleIndex;
use planfetch_loader::{LoaderBuilder, LoaderSettings, ObjectPathDataset, OnError, StackCollate, VecCollate};
use planfetch_plan::ShuffleOncePerEpochPlanProvider;

/// Returns the resident memory of this process in KiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn from_epoch_2_to_epoch_10_it_grows_by_less_than_5_percent() {
    let dir = tempfile::tempdir().unwrap();
    let rows = (0..600).map(|i| {
        let path = dir.path().join(format!("{i}.bin"));
        std::fs::write(&path, vec![i as u8; 200_000]).unwrap();
        (format!("file://{}", path.display()), 0)
    });
    let index = SampleIndex::from_rows(rows.collect::<Vec<_>>()).unwrap();
    let cache = DiskCache::builder(dir.path().join("cache")).build().unwrap();
    // Some samples fail: whatever is kept by mistake is kept anew each epoch.
    let dataset = ObjectPathDataset::new(index, |file| {
        let mut bytes = Vec::new();
        file.read_into(&mut bytes)?;
        if bytes[0] % 50 == 7 { Err("a sample of this kind is broken".into()) } else { Ok(Array1::from(bytes)) }
    });
    let settings = LoaderSettings {
        num_workers: 2,
        batches_ahead: 8.into(),
        on_error: OnError::Skip,
        ..LoaderSettings::default()
    };
    let provider = ShuffleOncePerEpochPlanProvider::new(600, 16, 1).unwrap();
    let builder =
        LoaderBuilder::new(dataset, (StackCollate::<u8>::new([200_000]), VecCollate), provider).with_cache(cache);
    let (mut loader, _) = builder.with_settings(settings).build().unwrap();
    let mut after = Vec::new();
    for epoch in 0..11 {
        let mut samples = 0;
        for batch in loader.epoch(epoch).unwrap() {
            samples += batch.unwrap().ids().len();
        }
        assert!((580..600).contains(&samples), "{samples}");
        after.push(resident());
    }
    assert!(after[10] < 1.05 * after[2], "{after:?} KiB");
}
