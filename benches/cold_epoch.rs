//! Is a cold epoch limited by the store or the decoder, and a warm one by the decoder, and not by us?
//!
//! In one run, round by round, on the same objects behind the same server on this machine:
//!
//! - `get`: a bare loop of object_store GETs at the same concurrency, bodies dropped;
//! - `decode`: decode, resize and collate from memory, on all cores (`--num-workers`), without a loader;
//! - `loader`: a cold epoch through cache and loader;
//! - `warm`: the epoch after it, of which all objects are local.
//!
//! The ceiling of the cold epoch is the lower of the first two; that of the warm one is `decode`. Server, downloads and decoding share the cores here, so `combined` says
//! what a loader without any cost of its own could reach: the time of one image is that of a GET and that of a decode,
//! where both are bound by the processor. With `--num-workers 1` on two cores, decoding has one core to itself, and
//! everything else the other, as where the store is another machine.
//!
//! ```text
//! cargo run --release -p planfetch-benches --bin cold-epoch -- --latency-ms 30
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use futures::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStoreExt};
use planfetch::image::{ImageSample, decode, resize};
use planfetch::index::read_index_csv;
use planfetch::prelude::*;
use planfetch_testkit::{ACCESS_KEY, Fault, FaultRule, S3Server, SECRET_KEY, fixtures};
use serde_json::json;

/// Measures a cold epoch against its ceilings
#[derive(Debug, Parser)]
struct Options {
    /// Photographs of 500 x 375 pixels
    #[arg(long, default_value_t = 2_000)]
    objects: usize,
    /// What the server waits before each answer
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// Requests at once
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Files written at once
    #[arg(long, default_value_t = CacheSettings::default().write_concurrency)]
    write_concurrency: usize,
    /// Threads that talk to the store
    #[arg(long, default_value_t = CacheSettings::default().io_threads)]
    io_threads: usize,
    /// Threads that decode, in the ceiling and in the loader; fewer than the cores leave some to server and downloads
    #[arg(long, default_value_t = LoaderSettings::default().num_workers)]
    num_workers: usize,
    /// Batch size
    #[arg(long, default_value_t = 64)]
    batch_size: usize,
    /// How often all three are measured; the medians count
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Serve files from a folder by s3s-fs, instead of from memory
    #[arg(long)]
    folder: bool,
    /// Cargo passes it to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[expect(clippy::print_stdout, reason = "the result is what the program is for")]
fn main() -> Result<(), BoxError> {
    let options = Options::parse();
    let server = if options.folder { S3Server::start() } else { S3Server::start_in_memory() };
    let csv = fixtures::put_photographs(&server, "photos", options.objects);
    let index = read_index_csv(csv.as_bytes(), "photos.csv", &CsvSettings::default())?;
    if 0 < options.latency_ms {
        server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(options.latency_ms))));
    }
    let files: Vec<Vec<u8>> = (0..16).map(|seed| fixtures::jpeg(&fixtures::photograph(500, 375, seed))).collect();
    let images = ImageSettings { mean: IMAGENET_MEAN, std: IMAGENET_STD, ..ImageSettings::default() };

    let (mut gets, mut decodes, mut loads, mut warms) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds.max(1) {
        gets.push(rate(options.objects, || get_all(&server, &index, options.concurrency))?);
        decodes.push(rate(options.objects, || decode_all(&files, &images, &options))?);
        let (cold, warm) = load_all(&server, &index, &images, &options)?;
        loads.push(cold);
        warms.push(warm);
    }
    let [get, decode, loader, warm] = [gets, decodes, loads, warms].map(median);
    let ceiling = get.min(decode);
    let combined = (1.0 / (1.0 / get + 1.0 / decode)).min(ceiling);
    let result = json!({
        "benchmark": "cold-epoch",
        "objects": options.objects,
        "latency_ms": options.latency_ms,
        "concurrency": options.concurrency,
        "write_concurrency": options.write_concurrency,
        "num_workers": options.num_workers,
        "server": if options.folder { "folder" } else { "memory" },
        "cores": std::thread::available_parallelism()?.get(),
        "get_per_s": get.round(),
        "decode_per_s": decode.round(),
        "loader_per_s": loader.round(),
        "loader_over_ceiling": (1_000.0 * loader / ceiling).round() / 1_000.0,
        "loader_over_combined": (1_000.0 * loader / combined).round() / 1_000.0,
        "warm_per_s": warm.round(),
        "warm_over_decode": (1_000.0 * warm / decode).round() / 1_000.0,
    });
    println!("{result:#}");
    Ok(())
}

fn rate(n: usize, run: impl FnOnce() -> Result<(), BoxError>) -> Result<f64, BoxError> {
    let started = Instant::now();
    run()?;
    Ok(n as f64 / started.elapsed().as_secs_f64())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// (a) GETs alone.
fn get_all(server: &S3Server, index: &SampleIndex, concurrency: usize) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let store: AmazonS3 = AmazonS3Builder::new()
        .with_endpoint(server.endpoint())
        .with_bucket_name("photos")
        .with_access_key_id(ACCESS_KEY)
        .with_secret_access_key(SECRET_KEY)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .build()?;
    let store = Arc::new(store);
    let paths: Vec<Path> = index
        .uris()
        .iter()
        .map(|uri| Path::parse(uri.strip_prefix("s3://photos/").unwrap_or_default()))
        .collect::<Result<_, _>>()?;
    runtime.block_on(async {
        let gets = paths.into_iter().map(|path| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.get(&path).await?.bytes().await })
        });
        // The tasks are made lazily, so that no more run at once than may.
        let mut answers = futures::stream::iter(gets).buffer_unordered(concurrency);
        while let Some(answer) = answers.next().await {
            answer??;
        }
        Ok(())
    })
}

/// (b) Decode, resize and collate alone.
fn decode_all(files: &[Vec<u8>], images: &ImageSettings, options: &Options) -> Result<(), BoxError> {
    let collate = ImageCollate::new(images)?;
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None::<BoxError>);
    std::thread::scope(|scope| {
        for _ in 0..options.num_workers {
            scope.spawn(|| {
                let mut buffer = collate.buffer();
                let one_batch = |buffer: &mut ImageBatch| -> Result<bool, BoxError> {
                    let first = next.fetch_add(options.batch_size, Ordering::Relaxed);
                    let len = options.batch_size.min(options.objects.saturating_sub(first));
                    for (i, slot) in collate.slots(buffer, len).into_iter().enumerate() {
                        let image = decode(&files[(first + i) % files.len()], &images.decode)?;
                        let image = resize(image, images.height, images.width)?;
                        collate.put(ImageSample::new(image, 0), slot)?;
                    }
                    Ok(0 < len)
                };
                loop {
                    match one_batch(&mut buffer) {
                        Ok(true) => {}
                        Ok(false) => return,
                        Err(error) => {
                            *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
                            return;
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// (c) A cold epoch, and a warm one after it. Returns the samples per second of each.
fn load_all(
    server: &S3Server,
    index: &SampleIndex,
    images: &ImageSettings,
    options: &Options,
) -> Result<(f64, f64), BoxError> {
    let dir = tempfile::tempdir()?;
    let settings = CacheSettings {
        download_concurrency: options.concurrency,
        write_concurrency: options.write_concurrency,
        io_threads: options.io_threads,
        ..CacheSettings::default()
    };
    let stores = StoreSettings {
        endpoint: Some(server.endpoint()),
        access_key_id: Some(ACCESS_KEY.into()),
        secret_access_key: Some(SECRET_KEY.into()),
        ..StoreSettings::default()
    };
    let cache =
        DiskCache::builder(dir.path().join("cache")).with_settings(settings).with_store_settings(stores).build()?;
    let plan = ShuffleOncePerEpochPlanProvider::new(index.len(), options.batch_size, 0)?;
    let load = |cache: &DiskCache| {
        let settings =
            LoaderSettings { num_workers: options.num_workers, num_epochs: Some(1), ..LoaderSettings::default() };
        let (dataset, collate) = (ImageDataset::new(index.clone(), images.clone())?, ImageCollate::new(images)?);
        let (mut loader, _) = build_prefetching_loader(dataset, collate, plan.clone(), cache.clone(), settings)?;
        rate(options.objects, || {
            let mut samples = 0;
            for batch in &mut loader {
                samples += batch?.len();
            }
            if samples == options.objects { Ok(()) } else { Err(format!("{samples} samples came").into()) }
        })
    };
    let cold = load(&cache)?;
    // What the window has deleted comes back first.
    let guards = cache.prefetch_all(index.uris().iter(), 0)?;
    index.uris().iter().try_for_each(|uri| cache.ensure_local(&uri).map(drop))?;
    let warm = load(&cache)?;
    drop(guards);
    Ok((cold, warm))
}
