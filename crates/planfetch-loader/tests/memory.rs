//! What is allocated does not grow from epoch to epoch.

#![expect(unsafe_code, reason = "counting what is allocated takes an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ndarray::Array1;
use planfetch_cache::DiskCache;
use planfetch_index::SampleIndex;
use planfetch_loader::{LoaderBuilder, LoaderSettings, ObjectPathDataset, StackCollate, VecCollate};
use planfetch_plan::ShuffleOncePerEpochPlanProvider;
use planfetch_testkit::pause;

/// The system's allocator, counted: what is resident also depends on how it cuts memory up.
struct Counting;

static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of the same method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of the same method.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns what is allocated when nothing is under way any more.
fn settled() -> f64 {
    let (mut last, mut same) = (0, 0);
    while same < 5 {
        pause(Duration::from_millis(10));
        let live = LIVE_BYTES.load(Ordering::Relaxed);
        same = if live == last { same + 1 } else { 0 };
        last = live;
    }
    last as f64
}

#[test]
fn from_epoch_2_to_epoch_10_it_grows_by_less_than_5_percent() {
    let dir = tempfile::tempdir().unwrap();
    let rows = (0..600).map(|i| {
        let path = dir.path().join(format!("{i}.bin"));
        std::fs::write(&path, vec![i as u8; 10_000]).unwrap();
        (format!("file://{}", path.display()), 0)
    });
    let index = SampleIndex::from_rows(rows.collect::<Vec<_>>()).unwrap();
    let cache = DiskCache::builder(dir.path().join("cache")).build().unwrap();
    let dataset = ObjectPathDataset::new(index, |file| {
        let mut bytes = Vec::new();
        file.read_into(&mut bytes)?;
        Ok(Array1::from(bytes))
    });
    let settings = LoaderSettings { num_workers: 2, batches_ahead: 8.into(), ..LoaderSettings::default() };
    let provider = ShuffleOncePerEpochPlanProvider::new(600, 16, 1).unwrap();
    let collate = (StackCollate::<u8>::new([10_000]), VecCollate);
    let builder = LoaderBuilder::new(dataset, collate, provider).with_cache(cache);
    let (mut loader, _) = builder.with_settings(settings).build().unwrap();
    let mut after = Vec::new();
    for epoch in 0..11 {
        assert_eq!(loader.epoch(epoch).unwrap().map(|batch| batch.unwrap().ids().len()).sum::<usize>(), 600);
        after.push(settled());
    }
    // Batches go round, and at times one more of them.
    let batch = 16.0 * 10_000.0;
    assert!(after[10] < 1.05 * after[2] + 2.0 * batch, "{after:?} bytes");
}
