//! Does an accelerator ever wait? An emulated training step, batches of objects from a store with latency.
//!
//! The step is a pause: it takes no processor, as that of an accelerator takes none of the host's. Objects are read and
//! not decoded, so that what is measured is whether they are there in time. Server, downloads and loader share the
//! processor.
//!
//! ```text
//! cargo run --release -p planfetch-benches --bin emulated-training
//! ```

use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Parser;
use planfetch::prelude::*;
use planfetch_testkit::{ACCESS_KEY, Fault, FaultRule, S3Server, SECRET_KEY};
use serde_json::json;

/// Measures how much of the time an emulated accelerator is in use
#[derive(Debug, Parser)]
struct Options {
    /// Batches
    #[arg(long, default_value_t = 100)]
    batches: usize,
    /// Samples in a batch
    #[arg(long, default_value_t = 64)]
    batch_size: usize,
    /// Bytes of an object
    #[arg(long, default_value_t = 110_000)]
    object_bytes: usize,
    /// What the server waits before each answer
    #[arg(long, default_value_t = 50)]
    latency_ms: u64,
    /// How long a training step takes
    #[arg(long, default_value_t = 100)]
    step_ms: u64,
    /// Requests at once
    #[arg(long, default_value_t = CacheSettings::default().download_concurrency)]
    concurrency: usize,
    /// Let the loader find out how far ahead of the reader it has to be
    #[arg(long)]
    auto: bool,
    /// Cargo passes it to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[expect(clippy::print_stdout, reason = "the result is what the program is for")]
fn main() -> Result<(), BoxError> {
    let options = Options::parse();
    let server = S3Server::start_in_memory();
    let objects = options.batches * options.batch_size;
    let bytes = vec![7; options.object_bytes];
    let rows: Vec<(String, u32)> = (0..objects)
        .map(|i| {
            let key = format!("{:02}/{i:06}.bin", i % 50);
            server.put("objects", &key, &bytes);
            (format!("s3://objects/{key}"), 0)
        })
        .collect();
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(options.latency_ms))));
    let folder = tempfile::tempdir()?;
    let stores = StoreSettings {
        endpoint: Some(server.endpoint()),
        access_key_id: Some(ACCESS_KEY.into()),
        secret_access_key: Some(SECRET_KEY.into()),
        ..StoreSettings::default()
    };
    let cache = DiskCache::builder(folder.path().join("cache"))
        .with_settings(CacheSettings { download_concurrency: options.concurrency, ..CacheSettings::default() })
        .with_store_settings(stores)
        .build()?;
    let dataset = ObjectPathDataset::new(SampleIndex::from_rows(rows)?, |file| {
        let mut bytes = Vec::new();
        file.read_into(&mut bytes)?;
        Ok(bytes.len())
    });
    let plan = ShuffleOncePerEpochPlanProvider::new(objects as u64, options.batch_size, 1)?;
    let batches_ahead = if options.auto { BatchesAhead::Auto } else { BatchesAhead::default() };
    let settings = LoaderSettings { batches_ahead, num_epochs: Some(1), ..LoaderSettings::default() };
    let (mut loader, _) = build_prefetching_loader(dataset, VecCollate, plan, cache, settings)?;

    let (_never, step) = mpsc::channel::<()>();
    let started = Instant::now();
    let (mut in_use, mut first) = (Duration::ZERO, None);
    for batch in &mut loader {
        drop(batch?);
        let began = Instant::now();
        first.get_or_insert(began);
        let _ = step.recv_timeout(Duration::from_millis(options.step_ms));
        in_use += began.elapsed();
    }
    let to_first = first.map_or(Duration::ZERO, |first| first - started);
    let elapsed = started.elapsed();
    let report = loader.report();
    println!("{report}");
    println!(
        "{}",
        json!({
            "batches": options.batches,
            "latency_ms": options.latency_ms,
            "step_ms": options.step_ms,
            "seconds_to_first_batch": to_first.as_secs_f64(),
            "use": in_use.as_secs_f64() / elapsed.as_secs_f64(),
            "use_from_first_batch_on": in_use.as_secs_f64() / (elapsed - to_first).as_secs_f64(),
        })
    );
    Ok(())
}
