//! What the loader costs, each number beside its limit: `cargo bench -p planfetch-loader --bench cost`.
//!
//! Prints a table, and as its last line the same as JSON. Exits with 1 when a limit is broken.
//! Samples are numbers that are there already, so that all that is measured is the loader.

#![expect(clippy::print_stdout, reason = "a program that prints its measurements")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use planfetch_loader::{
    BoxError, Collate, Dataset, LoaderBuilder, LoaderSettings, ObjectUris, PrefetchingLoader, SampleContext,
};
use planfetch_plan::{PlanProvider, SampleId, SequentialPlanProvider};
use planfetch_testkit::pause;

const NUM_SAMPLES: u64 = 4_000_000;
const BATCH_SIZE: usize = 256;

/// Ids as samples.
struct Ids;

impl ObjectUris for Ids {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Ids {
    type Sample = u64;

    fn len(&self) -> u64 {
        NUM_SAMPLES
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
        Ok(ctx.id().0)
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

fn load(num_workers: usize, prefetch_factor: usize) -> Result<PrefetchingLoader<Vec<u64>>, BoxError> {
    let settings = LoaderSettings { num_workers, prefetch_factor, ..LoaderSettings::default() };
    let plan = SequentialPlanProvider::new(NUM_SAMPLES, BATCH_SIZE)?;
    Ok(LoaderBuilder::new(Ids, Numbers, plan).with_settings(settings).build()?.0)
}

/// Returns how many samples come in a second.
fn rate(num_workers: usize, prefetch_factor: usize) -> Result<f64, BoxError> {
    let mut loader = load(num_workers, prefetch_factor)?;
    let (started, mut samples) = (Instant::now(), 0);
    for batch in loader.epoch(0)? {
        samples += black_box(batch?.len());
    }
    Ok(samples as f64 / started.elapsed().as_secs_f64())
}

/// Returns how many samples come in a second where one thread makes batches in a loop: the ceiling.
fn plain_rate() -> Result<f64, BoxError> {
    let plan = SequentialPlanProvider::new(NUM_SAMPLES, BATCH_SIZE)?.plan(0)?;
    let (started, mut buffer, mut samples) = (Instant::now(), Numbers.buffer(), 0);
    for (step, ids) in plan.iter().enumerate() {
        let slots = Numbers.slots(&mut buffer, ids.len());
        for ((id, slot), position) in ids.into_iter().zip(slots).zip((step * BATCH_SIZE) as u64..) {
            Numbers.put(Ids.get(&mut SampleContext::new(id, None, 0, 0, position))?, slot)?;
        }
        samples += black_box(&buffer).len();
    }
    Ok(samples as f64 / started.elapsed().as_secs_f64())
}

/// Returns the median and the 95th percentile of taking a batch that is ready, in microseconds: `in_a_row` of as many as
/// are made ahead.
fn hand_off(prefetch_factor: usize, in_a_row: usize) -> Result<(f64, f64), BoxError> {
    let mut loader = load(2, prefetch_factor)?;
    let mut times = Vec::new();
    for _ in 0..200 {
        // Time enough to make all that may be made.
        pause(Duration::from_millis(10));
        // The first of them may wake makers that then want the same core.
        for _ in 0..in_a_row {
            let started = Instant::now();
            let batch = loader.next();
            times.push(started.elapsed().as_secs_f64() * 1e6);
            black_box(batch.transpose()?);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok((times[times.len() / 2], times[times.len() * 95 / 100]))
}

fn main() -> ExitCode {
    // `cargo test` runs benchmarks too, without this argument; then they only have to start.
    if !std::env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    match measure() {
        Ok(is_good) if is_good => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures in turns, so that what else the machine does befalls all alike, and prints.
fn measure() -> Result<bool, BoxError> {
    let (mut plain, mut one, mut two, mut inline) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        plain.push(plain_rate()? / 1e6);
        inline.push(rate(0, 1)? / 1e6);
        one.push(rate(1, 4)? / 1e6);
        two.push(rate(2, 4)? / 1e6);
    }
    let (hand_off_64, hand_off_64_95) = hand_off(64, 8)?;
    let (hand_off, hand_off_95) = hand_off(LoaderSettings::default().prefetch_factor, 1)?;
    let rows = [
        ("one thread without a loader", median(plain), "M samples/s", None),
        ("num_workers 0", median(inline), "M samples/s", None),
        ("num_workers 1", median(one), "M samples/s", None),
        ("num_workers 2", median(two), "M samples/s", Some((2.0, true))),
        ("taking 8 of 64 batches that are ready, median", hand_off_64, "us", Some((5.0, false))),
        ("taking 8 of 64 batches that are ready, 95 of 100", hand_off_64_95, "us", None),
        ("taking 1 of as many as are ready by default, median", hand_off, "us", None),
        ("taking 1 of as many as are ready by default, 95 of 100", hand_off_95, "us", None),
    ];
    println!("| what, batches of {BATCH_SIZE} | measured | limit |\n| --- | --- | --- |");
    let mut is_good = true;
    for (what, value, unit, limit) in &rows {
        let limit = limit.map_or(String::new(), |(limit, at_least)| {
            is_good &= if at_least { limit <= *value } else { *value <= limit };
            format!("{} {limit} {unit}", if at_least { "at least" } else { "at most" })
        });
        println!("| {what} | {value:.2} {unit} | {limit} |");
    }
    let json: Vec<String> = rows.iter().map(|(what, value, ..)| format!("{what:?}: {value:.4}")).collect();
    println!("{{{}}}", json.join(", "));
    Ok(is_good)
}
