//! A long run holds no more memory than a short one. A process of its own, since it looks at the whole of it.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use planfetch::image::ndarray::Array1;
use planfetch::prelude::*;
use planfetch_tch::TchLoaderBuilder;
use tch::Kind;

struct Numbers;

impl ObjectUris for Numbers {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Numbers {
    type Sample = Array1<f32>;

    fn len(&self) -> u64 {
        16
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<Array1<f32>, BoxError> {
        Ok(Array1::from_elem(16_384, ctx.id().0 as f32))
    }
}

/// Bytes of memory that this process has resident.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

#[test]
fn a_thousand_epochs_take_no_more_memory_than_a_hundred() {
    let plan = ShuffleOncePerEpochPlanProvider::new(16, 4, 42).unwrap();
    let settings = LoaderSettings { num_workers: 2, ..LoaderSettings::default() };
    let collate = StackCollate::<f32>::new([16_384]);
    let mut loader = TchLoaderBuilder::new(Numbers, plan).with_settings(settings).build(collate).unwrap();
    let mut run = |epochs: std::ops::Range<u64>| {
        for e in epochs {
            for tensor in loader.epoch(e).unwrap() {
                // What a step does: a view and a result.
                drop(tensor.unwrap().narrow(0, 0, 2).sum(Kind::Float));
            }
        }
        resident()
    };
    let early = run(0..100);
    let late = run(100..1_000);
    // A leak of the batches of 256 KiB would be 900 MiB, one of 1 KiB a batch 3.6 MiB; threads' heaps grow a little.
    assert!(late < early + (16 << 20), "{early} bytes grew to {late}");
}
