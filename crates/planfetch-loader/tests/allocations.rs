//! In steady state, what the loader allocates goes by batches and not by samples.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(unsafe_code, reason = "counting allocations takes an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use planfetch_cache::DiskCache;
use planfetch_index::SampleIndex;
use planfetch_loader::{BoxError, Collate, Dataset, LoaderBuilder, LoaderSettings, ObjectUris, SampleContext};
use planfetch_plan::{SampleId, SequentialPlanProvider};

/// The system's allocator, counted.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of the same method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of the same method.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BATCH_SIZE: usize = 256;

/// The length of each object, or the id where there is none.
struct Lengths(Option<SampleIndex>, u64);

impl ObjectUris for Lengths {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.0.as_ref().is_some_and(|index| index.write_uri(id, uri))
    }
}

impl Dataset for Lengths {
    type Sample = u64;

    fn len(&self) -> u64 {
        self.1
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
        Ok(ctx.file().map_or(ctx.id().0, |file| file.len()))
    }
}

/// Numbers into one vector, which is used again.
struct Numbers;

impl Collate<u64> for Numbers {
    type Buffer = Vec<u64>;
    type Slot<'b> = &'b mut u64;
    type Batch = Vec<u64>;

    fn buffer(&self) -> Vec<u64> {
        Vec::new()
    }

    fn slots<'b>(&self, buffer: &'b mut Vec<u64>, len: usize) -> Vec<&'b mut u64> {
        buffer.resize(len, 0);
        buffer.iter_mut().collect()
    }

    fn put(&self, sample: u64, slot: &mut u64) -> Result<(), BoxError> {
        *slot = sample;
        Ok(())
    }

    fn finish(&self, buffer: Vec<u64>) -> Vec<u64> {
        buffer
    }

    fn recycle(&self, batch: Vec<u64>) -> Option<Vec<u64>> {
        Some(batch)
    }
}

/// Returns the allocations of a batch, on all threads, after the first batches.
fn per_batch(dataset: Lengths, cache: Option<DiskCache>, batches: usize) -> f64 {
    let plan = SequentialPlanProvider::new(dataset.len(), BATCH_SIZE).unwrap();
    let settings = LoaderSettings { num_workers: 2, ..LoaderSettings::default() };
    let builder = LoaderBuilder::new(dataset, Numbers, plan).with_settings(settings);
    let builder = cache.into_iter().fold(builder, |builder, cache| builder.with_cache(cache));
    let (mut loader, _) = builder.build().unwrap();
    let mut take = |n: usize| (0..n).for_each(|_| loader.by_ref().flatten().take(1).for_each(drop));
    take(batches);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    take(batches);
    (ALLOCATIONS.load(Ordering::Relaxed) - before) as f64 / batches as f64
}

/// Puts `n` objects in place and makes them local.
fn local_objects(dir: &Path, n: usize) -> (SampleIndex, DiskCache) {
    let rows = (0..n).map(|i| {
        let path = dir.join(format!("{i}.bin"));
        std::fs::write(&path, [0; 10]).unwrap();
        (format!("file://{}", path.display()), 0)
    });
    let index = SampleIndex::from_rows(rows.collect::<Vec<_>>()).unwrap();
    let cache = DiskCache::builder(dir.join("cache")).build().unwrap();
    index.uris().iter().for_each(|uri| drop(cache.ensure_local(&uri).unwrap()));
    (index, cache)
}

// One test, since all tests of a process share the count.
#[test]
fn in_steady_state_allocations_go_by_batches_and_not_by_samples() {
    let computed = per_batch(Lengths(None, 2_000 * BATCH_SIZE as u64), None, 500);
    assert!(computed < 0.1 * BATCH_SIZE as f64, "{computed} allocations for each batch of {BATCH_SIZE}");

    // Where objects are local, what the cache allocates to hand one out is the cache's; the loader adds little to it.
    let dir = tempfile::tempdir().unwrap();
    let (index, cache) = local_objects(dir.path(), 2 * BATCH_SIZE);
    let (answers, answered) = mpsc::sync_channel(1);
    let mut uri = String::new();
    let mut ask = |rounds: usize| {
        for row in (0..BATCH_SIZE).cycle().take(rounds) {
            index.write_uri(SampleId(row as u64), &mut uri);
            let answers = answers.clone();
            cache.ensure_local_then(&uri, move |file| answers.send(file).unwrap());
            drop(answered.recv().unwrap());
        }
    };
    ask(BATCH_SIZE);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    ask(BATCH_SIZE);
    let of_cache = (ALLOCATIONS.load(Ordering::Relaxed) - before) as f64;
    let local = per_batch(Lengths(Some(index.clone()), index.len()), Some(cache.clone()), 200);
    // The coordinator asks once for each object too, to hold it.
    assert!(local < 2.0 * of_cache + 0.5 * BATCH_SIZE as f64, "{local} allocations, {of_cache} of the cache");
}
