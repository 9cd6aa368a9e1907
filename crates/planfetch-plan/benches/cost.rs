//! What plans cost, each number beside its ceiling: `cargo bench -p planfetch-plan --bench cost`.
//!
//! Prints a table, and as its last line the same as JSON. Exits with 1 when a ceiling is broken.
//! Memory is measured in a process of its own for each case, from what Linux tells in `/proc/self/status`; elsewhere
//! those rows are left out.

#![expect(clippy::print_stdout, reason = "a program that prints its measurements")]

use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use planfetch_plan::{
    BalancedSubsamplingPlanProvider, PlanError, PlanProvider, ShuffleOncePerEpochPlanProvider,
    StreamingStratifiedBatchPlanProvider, WeightedPlanProvider,
};

const NUM_SAMPLES: u64 = 2_000_000;
const NUM_CLASSES: u32 = 1_000;
const BATCH_SIZE: usize = 256;
const LAZY_SAMPLES: u64 = 1_000_000_000;

/// One measured number.
struct Row {
    name: &'static str,
    value: f64,
    unit: &'static str,
    // `None` for what is told without being judged.
    ceiling: Option<f64>,
}

fn main() -> ExitCode {
    if let Some(case) = std::env::var_os("PLAN_COST_CASE") {
        match memory_case(&case.to_string_lossy()) {
            Ok(Some(kib)) => println!("{kib}"),
            Ok(None) => {}
            Err(error) => println!("{error}"),
        }
        return ExitCode::SUCCESS;
    }
    // `cargo test` runs benchmarks too, without this argument; then they only have to start.
    if !std::env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    match measure() {
        Ok(rows) => report(&rows),
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<Vec<Row>, PlanError> {
    let mut rows = Vec::new();
    let mut add = |name, value, unit, ceiling| rows.push(Row { name, value, unit, ceiling });

    let shuffle = ShuffleOncePerEpochPlanProvider::new(NUM_SAMPLES, BATCH_SIZE, 42)?;
    let labels = labels();
    let stratified = StreamingStratifiedBatchPlanProvider::new(&labels, NUM_CLASSES, BATCH_SIZE, 42)?;
    let streaming = stratified.clone().with_epoch_samples(NUM_SAMPLES - 1)?;
    let balanced = BalancedSubsamplingPlanProvider::new(&labels, NUM_CLASSES, 1, 42)?;
    let lazy = ShuffleOncePerEpochPlanProvider::new(LAZY_SAMPLES, BATCH_SIZE, 42)?.with_lazy(true);
    let weights: Vec<f64> = labels.iter().map(|&label| f64::from(label)).collect();
    let weighted = WeightedPlanProvider::new(&weights, BATCH_SIZE, 42)?;
    let once = weighted.clone().with_replacement(false);

    // Taken in turns, so that a slow spell of the machine meets all of them.
    let mut times = [(); 8].map(|()| Vec::new());
    for epoch in 0..15 {
        times[0].push(timed(|| fill_and_shuffle(epoch)));
        times[1].push(timed(|| shuffle.plan(epoch).map(|plan| plan.num_ids())));
        times[2].push(timed(|| stratified.plan(epoch).map(|plan| plan.num_ids())));
        times[3].push(timed(|| streaming.plan(epoch).map(|plan| plan.num_ids())));
        times[4].push(timed(|| balanced.plan(epoch).map(|plan| plan.num_ids())));
        times[5].push(timed(|| lazy.plan(epoch).map(|plan| plan.batch(1_000).map(|batch| batch.to_vec().len()))));
        times[6].push(timed(|| weighted.plan(epoch).map(|plan| plan.num_ids())));
        times[7].push(timed(|| once.plan(epoch).map(|plan| plan.num_ids())));
    }
    let [fill, shuffle_time, stratified_time, streaming_time, balanced_time, lazy_time, weighted_time, once_time] =
        times.map(least);
    let ratio = |time: Duration| time.as_secs_f64() / fill.as_secs_f64();
    add("fill and shuffle a `Vec<u32>` of 2 million", millis(fill), "ms", None);
    add("shuffle plan of 2 million", millis(shuffle_time), "ms", None);
    add("shuffle plan against the Vec", ratio(shuffle_time), "x", Some(2.0));
    add("stratified plan of 2 million over 1,000 classes", millis(stratified_time), "ms", None);
    add("stratified plan against the Vec", ratio(stratified_time), "x", Some(4.0));
    add("stratified plan of all but one sample, streaming, against the Vec", ratio(streaming_time), "x", None);
    add("balanced plan of 2 million over 1,000 classes against the Vec", ratio(balanced_time), "x", None);
    add("weighted plan of 2 million with replacement against the Vec", ratio(weighted_time), "x", None);
    add("weighted plan of 2 million without replacement against the Vec", ratio(once_time), "x", None);
    add("lazy plan of 10^9: to the first batch", millis(lazy_time), "ms", Some(10.0));

    let dense = shuffle.plan(0)?;
    let lazy_plan = lazy.plan(0)?;
    add(
        "batch(i) of a dense plan",
        per_call(|step| dense.batch(step % 7_000).map(|batch| batch.len())),
        "ns",
        Some(50.0),
    );
    add(
        "batch(i) of a lazy plan",
        per_call(|step| lazy_plan.batch(step % 7_000).map(|batch| batch.len())),
        "ns",
        Some(50.0),
    );
    let id = |step: usize| step.wrapping_mul(2_654_435_761) % 1_000_000;
    add(
        "one id of a dense plan",
        per_call(|step| dense.range_flat(id(step), id(step) + 1).and_then(|ids| ids.get(0))),
        "ns",
        None,
    );
    add(
        "one id of a lazy plan",
        per_call(|step| lazy_plan.range_flat(id(step), id(step) + 1).and_then(|ids| ids.get(0))),
        "ns",
        None,
    );

    if let Some(kib) = in_process("lazy") {
        add("peak of a process with a lazy plan of 10^9", kib / 1_024.0, "MiB", Some(64.0));
    }
    // The matrix of 2 million ids, 4 bytes each. The pools are there before the plan is made.
    let matrix = 4.0 * NUM_SAMPLES as f64 / 1_024.0;
    for (name, case) in [
        ("peak of a shuffle plan against its matrix", "shuffle"),
        ("peak of a stratified plan against its matrix", "stratified"),
        ("peak of a streaming stratified plan against its matrix", "streaming"),
    ] {
        if let Some(kib) = in_process(case) {
            add(name, kib / matrix, "x", Some(1.1));
        }
    }
    Ok(rows)
}

fn labels() -> Vec<u32> {
    let mut random = SplitMix(7);
    // OK because the numbers lie below the number of classes.
    (0..NUM_SAMPLES).map(|_| random.below(u64::from(NUM_CLASSES)) as u32).collect()
}

/// The yardstick: the fastest plain way, with a generator that is quick rather than good.
fn fill_and_shuffle(seed: u64) -> u32 {
    let mut random = SplitMix(seed);
    let mut ids: Vec<u32> = (0..NUM_SAMPLES as u32).collect();
    for last in (1..ids.len()).rev() {
        ids.swap(last, random.below(last as u64 + 1) as usize);
    }
    black_box(&ids)[0]
}

struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

/// Returns the least of several times: what else the machine does can only add to it.
fn least(times: Vec<Duration>) -> Duration {
    times.into_iter().min().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Returns the time of one call in nanoseconds, the least of several runs.
fn per_call<T>(call: impl Fn(usize) -> T) -> f64 {
    let calls = 1_000_000;
    let run = || timed(|| (0..calls).for_each(|step| drop(black_box(call(black_box(step))))));
    (0..5).map(|_| run()).min().unwrap_or_default().as_secs_f64() * 1e9 / calls as f64
}

/// Runs one case in a process of its own, and returns what it measured in KiB.
fn in_process(case: &str) -> Option<f64> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new(program).env("PLAN_COST_CASE", case).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// Returns the peak memory of the whole process, or for dense plans the peak above what was there before, in KiB.
fn memory_case(case: &str) -> Result<Option<u64>, PlanError> {
    if case == "lazy" {
        let lazy = ShuffleOncePerEpochPlanProvider::new(LAZY_SAMPLES, BATCH_SIZE, 42)?.with_lazy(true);
        let plan = lazy.plan(0)?;
        black_box(plan.iter().take(10_000).map(|batch| batch.to_vec().len()).sum::<usize>());
        return Ok(status_kib("VmHWM:"));
    }
    let labels = labels();
    let stratified = StreamingStratifiedBatchPlanProvider::new(&labels, NUM_CLASSES, BATCH_SIZE, 42)?;
    let provider: Box<dyn PlanProvider> = match case {
        "stratified" => Box::new(stratified),
        "streaming" => Box::new(stratified.with_epoch_samples(NUM_SAMPLES - 1)?),
        _ => Box::new(ShuffleOncePerEpochPlanProvider::new(NUM_SAMPLES, BATCH_SIZE, 42)?),
    };
    // Forgets the peak so far.
    if std::fs::write("/proc/self/clear_refs", "5").is_err() {
        return Ok(None);
    }
    let before = status_kib("VmRSS:");
    let plan = provider.plan(0)?;
    let peak = status_kib("VmHWM:");
    black_box(&plan);
    Ok(peak.zip(before).map(|(peak, before)| peak.saturating_sub(before)))
}

fn status_kib(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn report(rows: &[Row]) -> ExitCode {
    let mut broken = false;
    println!("| what | measured | ceiling |\n| --- | ---: | ---: |");
    for Row { name, value, unit, ceiling } in rows {
        let judged = match ceiling {
            Some(ceiling) if ceiling < value => {
                broken = true;
                format!("{ceiling} {unit}, BROKEN")
            }
            Some(ceiling) => format!("{ceiling} {unit}"),
            None => String::new(),
        };
        println!("| {name} | {value:.2} {unit} | {judged} |");
    }
    let json: Vec<serde_json::Value> = rows
        .iter()
        .map(
            |row| serde_json::json!({ "name": row.name, "value": row.value, "unit": row.unit, "ceiling": row.ceiling }),
        )
        .collect();
    println!("{}", serde_json::Value::from(json));
    if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
