//! What it costs to hand a batch over as tensors, beside a memcpy of it: `cargo run --release --example hand_off`.
//!
//! Each line is a JSON object, of medians in microseconds. `share` is what a loop pays for a batch that is ready, on the
//! CPU; `from_slice` is what a copy into a new tensor would cost; `memcpy` is a copy into memory that is there.

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use planfetch::image::ndarray::{Array3, ArrayD};
use planfetch::prelude::*;
use planfetch_tch::{TchLoaderBuilder, TensorElement};
use serde_json::json;
use tch::Tensor;

const BATCH_SIZE: usize = 64;
const BATCHES: u64 = 60;
const SHAPE: [usize; 3] = [3, 224, 224];

/// The same array for each sample, and how many were made.
struct Same<T>(Array3<T>, Arc<AtomicU64>);

impl<T: Send + Sync> ObjectUris for Same<T> {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl<T: Clone + Send + Sync + 'static> Dataset for Same<T> {
    type Sample = Array3<T>;

    fn len(&self) -> u64 {
        BATCHES * BATCH_SIZE as u64
    }

    fn get(&self, _ctx: &mut SampleContext<'_>) -> Result<Array3<T>, BoxError> {
        let sample = self.0.clone();
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(sample)
    }
}

fn main() -> Result<(), BoxError> {
    measure::<u8>("u8", 7)?;
    measure::<f32>("f32", 0.5)
}

fn measure<T>(name: &str, value: T) -> Result<(), BoxError>
where
    T: TensorElement + Default + Send + Sync,
    StackCollate<T>: Collate<Array3<T>, Batch = ArrayD<T>>,
{
    let plan = SequentialPlanProvider::new(BATCHES * BATCH_SIZE as u64, BATCH_SIZE)?;
    let made = Arc::<AtomicU64>::default();
    let dataset = Same(Array3::from_elem(SHAPE, value), Arc::clone(&made));
    let mut loader = TchLoaderBuilder::new(dataset, plan).build(StackCollate::<T>::new(SHAPE))?;
    let source = vec![value; BATCH_SIZE * SHAPE.iter().product::<usize>()];
    let mut target = source.clone();
    let (mut share, mut from_slice, mut memcpy) = (Vec::new(), Vec::new(), Vec::new());
    let mut epoch = loader.iter()?;
    for step in 0.. {
        // In the meantime the next batch gets ready, as it does behind a training step: when the one after it is begun.
        let wanted = ((step + 1) * BATCH_SIZE as u64 + 1).min(BATCHES * BATCH_SIZE as u64);
        for i in 0..500 {
            if 8 <= i && wanted <= made.load(Ordering::Relaxed) {
                break;
            }
            memcpy.push(micros(|| {
                target.copy_from_slice(black_box(&source));
                black_box(&mut target);
            }));
        }
        from_slice.push(micros(|| drop(black_box(Tensor::from_slice(black_box(&source))))));
        let mut next = None;
        share.push(micros(|| next = epoch.next()));
        match next {
            Some(tensor) => assert_eq!(tensor?.numel(), source.len()),
            None => break,
        }
    }
    // The last one was the end of the epoch.
    share.pop();
    let (share, from_slice, memcpy) = (median(share), median(from_slice), median(memcpy));
    let line = json!({
        "dtype": name,
        "batch_bytes": size_of_val(source.as_slice()),
        "share_us": share,
        "from_slice_us": from_slice,
        "memcpy_us": memcpy,
        "memcpy_over_share": memcpy / share,
    });
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

fn micros(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64() * 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
