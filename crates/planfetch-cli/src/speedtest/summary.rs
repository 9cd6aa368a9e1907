//! What was measured, for people and for programs.

use std::fmt;
use std::time::Duration;

use planfetch::loader::{BoundBy, CauseReport};
use planfetch::prelude::*;
use serde::Serialize;

use crate::names::in_options;
use crate::speedtest::measure::Measured;
use crate::units::{bytes, count, duration, number_of, percent, rate};

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Asked {
    pub(crate) index: String,
    pub(crate) strategy: String,
    pub(crate) batch_size: usize,
    pub(crate) seed: u64,
    pub(crate) rank: u32,
    pub(crate) world_size: u32,
    pub(crate) epochs: u64,
    pub(crate) decode: String,
    pub(crate) step_ms: u64,
    pub(crate) loader: LoaderSettings,
    pub(crate) cache: CacheSettings,
}

/// The result of a speed test. Times are in seconds, but where a name says otherwise.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) settings: Asked,
    pub(crate) interrupted: bool,
    pub(crate) seconds: f64,
    pub(crate) batches: u64,
    pub(crate) samples: u64,
    pub(crate) failed_samples: u64,
    pub(crate) batches_per_second: f64,
    pub(crate) samples_per_second: f64,
    pub(crate) first_batch_ms: f64,
    pub(crate) batch_latency_ms: Latency,
    pub(crate) objects_downloaded: u64,
    pub(crate) bytes_downloaded: u64,
    pub(crate) bytes_per_second: f64,
    pub(crate) requests: u64,
    pub(crate) retries: u64,
    pub(crate) throttled: u64,
    pub(crate) cache_hits: u64,
    pub(crate) cache_misses: u64,
    /// Of the objects that were asked for, the share that was local already.
    pub(crate) hit_ratio: f64,
    /// How long the loop waited for batches.
    pub(crate) stalled_seconds: f64,
    pub(crate) stalls: Vec<Stall>,
    pub(crate) verdict: Verdict,
}

#[derive(Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// How long the loop waited for one thing.
#[derive(Debug, Serialize)]
pub(crate) struct Stall {
    pub(crate) cause: String,
    pub(crate) seconds: f64,
    /// Of all waits.
    pub(crate) share: f64,
    pub(crate) batches: u64,
}

/// What kept the run from being faster, and what to do.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) bound_by: String,
    /// With the names of the options.
    pub(crate) advice: String,
    /// A loop whose steps take this long or longer would not wait, once the first batch is there.
    pub(crate) keeps_up_with_step_ms: Option<f64>,
    /// The same in words.
    pub(crate) meaning: String,
}

impl Summary {
    pub(crate) fn new(measured: &Measured, asked: Asked) -> Self {
        let Measured { elapsed, latencies, loader, cache, report, .. } = measured;
        let seconds = elapsed.as_secs_f64();
        let per_second = |n: u64| if seconds == 0.0 { 0.0 } else { n as f64 / seconds };
        let lookups = cache.hits + cache.misses;
        let waited = report.waited.as_secs_f64();
        let mut stalls: Vec<Stall> = report.causes.iter().map(|cause| stall(cause, waited)).collect();
        stalls.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Self {
            interrupted: measured.is_interrupted,
            seconds,
            batches: latencies.batches(),
            samples: loader.samples,
            failed_samples: loader.failed,
            batches_per_second: per_second(latencies.batches()),
            samples_per_second: per_second(loader.samples),
            first_batch_ms: ms(latencies.first()),
            batch_latency_ms: Latency {
                mean: ms(latencies.mean()),
                p50: ms(latencies.quantile(0.50)),
                p95: ms(latencies.quantile(0.95)),
                p99: ms(latencies.quantile(0.99)),
                max: ms(latencies.max()),
            },
            objects_downloaded: cache.objects_downloaded,
            bytes_downloaded: cache.bytes_downloaded,
            bytes_per_second: per_second(cache.bytes_downloaded),
            requests: cache.requests,
            retries: cache.retries,
            throttled: cache.throttled,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            hit_ratio: if lookups == 0 { 0.0 } else { cache.hits as f64 / lookups as f64 },
            stalled_seconds: waited,
            stalls,
            verdict: verdict(measured, &asked),
            settings: asked,
        }
    }

    /// Returns those waits that are more than a trace.
    pub(crate) fn stalls_worth_showing(&self) -> impl Iterator<Item = &Stall> {
        self.stalls.iter().filter(|stall| 0.005 <= stall.share)
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn stall(report: &CauseReport, waited: f64) -> Stall {
    let seconds = report.waited.as_secs_f64();
    let share = if waited == 0.0 { 0.0 } else { seconds / waited };
    Stall { cause: report.cause.to_string(), seconds, share, batches: report.batches }
}

fn verdict(measured: &Measured, asked: &Asked) -> Verdict {
    let Asked { step_ms, batch_size, .. } = *asked;
    let Measured { elapsed, latencies, report, .. } = measured;
    // From the first batch on, since a run waits for that one once.
    let rest = latencies.batches().saturating_sub(1);
    let per_batch = (rest != 0).then(|| (*elapsed - latencies.first()).as_secs_f64() * 1e3 / rest as f64);
    let per_batch = per_batch.filter(|_| step_ms == 0);
    let found = &report.verdict;
    let meaning = match (step_ms, per_batch) {
        (0, Some(per_batch)) => format!(
            "training steps (batches of {batch_size}) of {} ms or longer would not wait; --step-ms tries it",
            two_digits(per_batch)
        ),
        (0, None) => "one batch is too few to tell a rate; use more samples or --epochs".into(),
        _ if found.bound_by == BoundBy::TrainingLoop => format!("steps of {step_ms} ms hardly wait"),
        _ => {
            let total = (report.waited + report.consumer).as_secs_f64().max(1e-9);
            format!("steps of {step_ms} ms wait {} of the time", percent(report.waited.as_secs_f64() / total))
        }
    };
    Verdict {
        bound_by: found.bound_by.to_string(),
        // Without steps, no number of workers would be enough.
        advice: if step_ms == 0 && found.bound_by == BoundBy::Decode {
            format!(
                "all {} workers decode: use more (--num-workers) on more cores, or smaller images",
                asked.loader.num_workers
            )
        } else {
            in_options(&found.advice)
        },
        keeps_up_with_step_ms: per_batch,
        meaning,
    }
}

/// Writes milliseconds, rounded up to two digits, since more would claim a precision that is not there.
fn two_digits(ms: f64) -> String {
    let digits = (1.0 - ms.max(1e-3).log10().floor()).clamp(0.0, 4.0);
    let unit = 10_f64.powf(ms.max(1e-3).log10().floor() - 1.0);
    // OK because of the bounds above.
    format!("{:.*}", digits as usize, (ms / unit).ceil() * unit)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ms: f64| duration(Duration::from_secs_f64(ms / 1e3));
        let latency = &self.batch_latency_ms;
        if self.interrupted {
            writeln!(f, "interrupted; this is what was measured until then\n")?;
        }
        let rows = [
            ("time", time(self.seconds * 1e3)),
            ("samples", format!("{} ({}/s)", count(self.samples), rate(self.samples_per_second))),
            ("batches", format!("{} ({}/s)", count(self.batches), rate(self.batches_per_second))),
            ("first batch", format!("after {}", time(self.first_batch_ms))),
            (
                "batch latency",
                format!(
                    "mean {}, p50 {}, p95 {}, p99 {}",
                    time(latency.mean),
                    time(latency.p50),
                    time(latency.p95),
                    time(latency.p99)
                ),
            ),
            (
                "downloaded",
                format!(
                    "{} objects, {} ({}/s)",
                    count(self.objects_downloaded),
                    bytes(self.bytes_downloaded as f64),
                    bytes(self.bytes_per_second)
                ),
            ),
            ("requests", format!("{}, {} of them retries", count(self.requests), count(self.retries))),
            ("cache hits", format!("{} of {}", percent(self.hit_ratio), count(self.cache_hits + self.cache_misses))),
            ("waited", format!("{} of {}", time(self.stalled_seconds * 1e3), time(self.seconds * 1e3))),
        ];
        rows.iter().try_for_each(|(name, value)| writeln!(f, "{name:<15}{value}"))?;
        for stall in self.stalls_worth_showing() {
            writeln!(
                f,
                "  for {:<11}{:>9}  {:>7}  in {}",
                stall.cause,
                time(stall.seconds * 1e3),
                percent(stall.share),
                number_of(stall.batches, "batch", "batches")
            )?;
        }
        if 0 < self.throttled {
            writeln!(f, "{:<15}{} requests were refused since they came too fast", "throttled", count(self.throttled))?;
        }
        if 0 < self.failed_samples {
            writeln!(f, "{:<15}{} samples could not be loaded", "failed", count(self.failed_samples))?;
        }
        let Verdict { bound_by, advice, meaning, .. } = &self.verdict;
        writeln!(f, "\nverdict: bound by {bound_by}")?;
        if !advice.is_empty() {
            writeln!(f, "  {advice}")?;
        }
        writeln!(f, "  {meaning}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_rounded_up_to_two_digits() {
        assert_eq!([51.63, 19.2, 120.3, 0.831, 5.0].map(two_digits), ["52", "20", "130", "0.84", "5.0"]);
    }
}
