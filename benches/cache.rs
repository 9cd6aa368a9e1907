//! What the cache costs, beside what nothing can do without: `cargo run --release --bin cache-cost [PART…]`.
//!
//! Each part prints one JSON object a line, with the ceiling measured in the same run where there is one.
//!
//! - `hits`: `ensure_local` of a local object, by 1 to 4 threads.
//! - `cold`: downloads of 75 KB objects, beside a bare loop of GET, write and rename at the same concurrency and with the
//!   best number of writers.
//! - `latency`: downloads with 30 ms of latency and 64 at once, beside 64 / 0.03 a second and beside the bare loop.
//! - `throttle`: a store that grants 500 requests a second.
//! - `eviction`: hit ratios by policy and by the share of the data that there is room for.
//! - `open`: opening a directory with a million files.

use std::collections::VecDeque;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use planfetch::cache::{
    CacheLimit, CacheSettings, DiskCache, EvictionMode, NextUse, PrefetchGuard, PruneBackend, StoreSettings,
};
use planfetch::plan::{PlanProvider, ShuffleOncePerEpochPlanProvider};
use planfetch_testkit::{ACCESS_KEY, Fault, FaultRule, S3Server, SECRET_KEY};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// One part of the measurements: it returns what it prints.
type Part = fn() -> Result<Vec<Value>>;

const LEN: usize = 75_000;
const CONCURRENCY: usize = 64;

fn main() -> Result<()> {
    let parts: [(&str, Part); 6] = [
        ("hits", hits),
        ("cold", cold),
        ("latency", latency),
        ("throttle", throttle),
        ("eviction", eviction),
        ("open", open_many),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stdout();
    for (name, measure) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            for line in measure()? {
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

fn serve(objects: usize, len: usize) -> S3Server {
    let server = S3Server::start_in_memory();
    (0..objects).for_each(|i| server.put("data", &i.to_string(), &vec![i as u8; len]));
    server
}

fn open(dir: &Path, server: &S3Server, settings: CacheSettings) -> Result<DiskCache> {
    let stores = StoreSettings {
        endpoint: Some(server.endpoint()),
        access_key_id: Some(ACCESS_KEY.into()),
        secret_access_key: Some(SECRET_KEY.into()),
        ..StoreSettings::default()
    };
    Ok(DiskCache::builder(dir.join("cache")).with_settings(settings).with_store_settings(stores).build()?)
}

fn uris(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("s3://data/{i}")).collect()
}

/// Has all objects prefetched and takes them in order. Returns the objects per second.
fn take_all(cache: &DiskCache, uris: &[String]) -> Result<f64> {
    let started = Instant::now();
    let guards = cache.prefetch_all(uris, 0)?;
    for uri in uris {
        drop(cache.ensure_local(uri)?);
    }
    let rate = uris.len() as f64 / started.elapsed().as_secs_f64();
    PrefetchGuard::evict_all(guards);
    Ok(rate)
}

fn hits() -> Result<Vec<Value>> {
    const OBJECTS: usize = 1_000;
    const ROUNDS: usize = 300;
    let (dir, server) = (tempfile::tempdir()?, serve(OBJECTS, 100));
    let mut lines = Vec::new();
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        let settings = CacheSettings { prune_backend: backend, ..CacheSettings::default() };
        let cache = open(&dir.path().join(format!("{backend:?}")), &server, settings)?;
        let uris = uris(OBJECTS);
        for held in [true, false] {
            if backend == PruneBackend::Scan && !held {
                continue;
            }
            take_all(&cache, &uris)?;
            let guards = cache.prefetch_all(&uris, 0)?;
            for uri in &uris {
                drop(cache.ensure_local(uri)?);
            }
            let guards = held.then_some(guards);
            for threads in [1, 2, 4] {
                let started = Instant::now();
                std::thread::scope(|scope| {
                    for _ in 0..threads {
                        scope.spawn(|| {
                            for _ in 0..ROUNDS {
                                uris.iter().for_each(|uri| drop(cache.ensure_local(uri).expect("it is local")));
                            }
                        });
                    }
                });
                let each = started.elapsed().as_secs_f64() / (ROUNDS * OBJECTS) as f64;
                lines.push(json!({
                    "part": "hits", "backend": format!("{backend:?}"), "held": held, "threads": threads,
                    "microseconds_per_hit_and_thread": each * 1e6, "hits_per_second": threads as f64 / each,
                }));
            }
            drop(guards);
        }
    }
    Ok(lines)
}

/// The ceiling: GET, write to a temporary file and rename, `CONCURRENCY` at once, of which `writers` may write.
fn bare_loop(server: &S3Server, n: usize, writers: usize) -> Result<f64> {
    let dir = tempfile::tempdir()?;
    for folder in 0..256 {
        fs::create_dir(dir.path().join(folder.to_string()))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let store: Arc<dyn ObjectStore> = Arc::new(
        AmazonS3Builder::new()
            .with_endpoint(server.endpoint())
            .with_allow_http(true)
            .with_access_key_id(ACCESS_KEY)
            .with_secret_access_key(SECRET_KEY)
            .with_region("us-east-1")
            .with_bucket_name("data")
            .build()?,
    );
    let permits = Arc::new(Semaphore::new(writers));
    let started = Instant::now();
    runtime.block_on(
        stream::iter(0..n)
            .map(|i| {
                let (store, permits, root) = (Arc::clone(&store), Arc::clone(&permits), dir.path().to_path_buf());
                tokio::spawn(async move {
                    let bytes = store.get(&Key::from(i.to_string())).await?.bytes().await?;
                    let _permit = permits.acquire().await.expect("never closed");
                    tokio::task::spawn_blocking(move || {
                        let folder = root.join((i % 256).to_string());
                        fs::write(folder.join("tmp").with_extension(i.to_string()), &bytes)?;
                        fs::rename(folder.join("tmp").with_extension(i.to_string()), folder.join(i.to_string()))
                    })
                    .await
                    .expect("it does not panic")?;
                    Ok::<_, Box<dyn Error + Send + Sync>>(())
                })
            })
            .buffer_unordered(CONCURRENCY)
            .for_each(|done| async move { done.expect("it does not panic").expect("GET, write and rename succeed") }),
    );
    Ok(n as f64 / started.elapsed().as_secs_f64())
}

fn cold() -> Result<Vec<Value>> {
    const OBJECTS: usize = 6_000;
    let server = serve(OBJECTS, LEN);
    let mut lines = Vec::new();
    for round in 0..3 {
        let mut ceiling = (0.0_f64, 0);
        for writers in [1, 2, 4] {
            let rate = bare_loop(&server, OBJECTS, writers)?;
            if ceiling.0 < rate {
                ceiling = (rate, writers);
            }
        }
        for backend in [PruneBackend::Meta, PruneBackend::Scan] {
            let dir = tempfile::tempdir()?;
            let settings = CacheSettings { prune_backend: backend, ..CacheSettings::default() };
            let rate = take_all(&open(dir.path(), &server, settings)?, &uris(OBJECTS))?;
            lines.push(json!({
                "part": "cold", "round": round, "backend": format!("{backend:?}"), "objects_per_second": rate,
                "ceiling": ceiling.0, "ceiling_writers": ceiling.1, "ratio": rate / ceiling.0,
            }));
        }
    }
    Ok(lines)
}

fn latency() -> Result<Vec<Value>> {
    const OBJECTS: usize = 12_000;
    let server = serve(OBJECTS, 1_000);
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(30))));
    let bare = bare_loop(&server, OBJECTS, 1)?;
    let dir = tempfile::tempdir()?;
    let rate = take_all(&open(dir.path(), &server, CacheSettings::default())?, &uris(OBJECTS))?;
    let ceiling = CONCURRENCY as f64 / 0.03;
    Ok(vec![json!({
        "part": "latency", "objects_per_second": rate, "ceiling": ceiling, "ratio": rate / ceiling,
        "bare_loop": bare, "over_bare_loop": rate / bare,
    })])
}

fn throttle() -> Result<Vec<Value>> {
    const OBJECTS: usize = 10_000;
    const RATE: f64 = 500.0;
    let server = serve(OBJECTS, 3_000);
    server.limit_rate(RATE, 100.0);
    // One of a hundred takes two seconds.
    server.inject(FaultRule::every(100, Fault::Latency(Duration::from_secs(2))));
    let dir = tempfile::tempdir()?;
    let cache = open(dir.path(), &server, CacheSettings::default())?;
    let rate = take_all(&cache, &uris(OBJECTS))?;
    Ok(vec![json!({
        "part": "throttle", "objects_per_second": rate, "ceiling": RATE, "ratio": rate / RATE,
        "requests_per_object": server.counts().requests as f64 / OBJECTS as f64, "refused": cache.stats().throttled,
    })])
}

fn eviction() -> Result<Vec<Value>> {
    const N: u64 = 2_000;
    const EPOCHS: u64 = 5;
    const WINDOW: usize = 64;
    let server = serve(N as usize, 1_000);
    let provider = ShuffleOncePerEpochPlanProvider::new(N, 50, 7)?;
    let order: Vec<u64> = (0..EPOCHS)
        .map(|epoch| provider.plan(epoch))
        .collect::<std::result::Result<Vec<_>, _>>()?
        .iter()
        .flat_map(|plan| (0..plan.num_batches()).flat_map(|step| plan.batch(step).expect("a step of it").to_vec()))
        .map(|id| id.0)
        .collect();
    let mut next = vec![NextUse::Unknown; order.len()];
    let mut seen = vec![NextUse::Unknown; N as usize];
    for (at, id) in order.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut seen[*id as usize], NextUse::At(at as u64));
    }
    let mut lines = Vec::new();
    for share in [0.25, 0.5, 0.75] {
        for mode in [EvictionMode::Window, EvictionMode::Pressure, EvictionMode::Clairvoyant] {
            let dir = tempfile::tempdir()?;
            let limit = CacheLimit::TotalSize((share * N as f64) as u64 * 1_000);
            let settings = CacheSettings { eviction: mode, limit, low_watermark: 1.0, ..CacheSettings::default() };
            let cache = open(dir.path(), &server, settings)?;
            let uri = |id: u64| format!("s3://data/{id}");
            let mut guards = VecDeque::new();
            let mut after_first = 0;
            for (at, id) in order.iter().enumerate() {
                if at as u64 == N {
                    after_first = cache.stats().objects_downloaded;
                }
                while guards.len() < WINDOW && at + guards.len() < order.len() {
                    guards.push_back(cache.prefetch(&uri(order[at + guards.len()]))?);
                }
                drop(cache.ensure_local(&uri(*id))?);
                let guard = guards.pop_front().expect("the window holds what is read");
                match mode {
                    EvictionMode::Window => guard.evict(),
                    _ => PrefetchGuard::release_all([(guard, next[at])]),
                }
            }
            let downloads = cache.stats().objects_downloaded - after_first;
            let ratio = 1.0 - downloads as f64 / (N * (EPOCHS - 1)) as f64;
            lines.push(json!({
                "part": "eviction", "room": share, "mode": mode.to_string(), "hit_ratio": (ratio * 1e4).round() / 1e4,
            }));
        }
    }
    Ok(lines)
}

fn open_many() -> Result<Vec<Value>> {
    const FILES: u64 = 1_000_000;
    let dir = tempfile::tempdir()?;
    let root = dir.path().join("cache");
    drop(DiskCache::builder(&root).build()?);
    for folder in 0..1_024 {
        fs::create_dir_all(root.join(format!("objects/{folder:03x}")))?;
    }
    // Names as the cache gives them: digits of a hash, of which the first four say the folder.
    for i in 0..FILES {
        let mixed =
            i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let key = format!("{:04x}{i:020x}{mixed:016x}", i % 65_536);
        let folder = (i % 65_536) % 1_024;
        fs::File::create(root.join(format!("objects/{folder:03x}/{key}-{:016x}-{:08x}", 75_000, 1)))?;
    }
    let mut lines = Vec::new();
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        let started = Instant::now();
        let settings = CacheSettings { prune_backend: backend, ..CacheSettings::default() };
        let cache = DiskCache::builder(&root).with_settings(settings).build()?;
        let seconds = started.elapsed().as_secs_f64();
        let files = cache.stats().local_files;
        lines.push(json!({ "part": "open", "backend": format!("{backend:?}"), "files": files, "seconds": seconds }));
    }
    Ok(lines)
}
