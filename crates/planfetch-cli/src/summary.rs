//! What was measured, for people.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use planfetch::cache::CacheStats;

/// How long the loop waited for each batch.
#[derive(Debug)]
pub(crate) struct Latencies {
    /// In microseconds, to three digits.
    histogram: Histogram<u64>,
    first: Option<Duration>,
}

impl Default for Latencies {
    fn default() -> Self {
        // Up to an hour; a histogram without bounds would cut what is recorded to what it holds already.
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("the bounds are in order");
        Self { histogram, first: None }
    }
}

impl Latencies {
    /// Takes note of the wait for one batch, which came `since_start` after the loader was built.
    pub(crate) fn record(&mut self, wait: Duration, since_start: Duration) {
        self.first.get_or_insert(since_start);
        self.histogram.saturating_record(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
    }
}

/// The result of a speed test.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) samples: u64,
    pub(crate) elapsed: Duration,
    pub(crate) latencies: Latencies,
    /// What the cache did meanwhile.
    pub(crate) cache: CacheStats,
}

impl Summary {
    /// Returns what was counted between two moments.
    pub(crate) fn difference(after: &CacheStats, before: &CacheStats) -> CacheStats {
        let mut stats = *after;
        stats.objects_downloaded -= before.objects_downloaded;
        stats.bytes_downloaded -= before.bytes_downloaded;
        stats.requests -= before.requests;
        stats.retries -= before.retries;
        stats
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        let batches = self.latencies.histogram.len();
        let rate = |n: u64| n as f64 / seconds;
        let ms = |micros: u64| format!("{:.2} ms", micros as f64 / 1_000.0);
        let histogram = &self.latencies.histogram;
        let rows = [
            ("samples", format!("{} in {seconds:.2} s", self.samples)),
            ("samples/s", format!("{:.1}", rate(self.samples))),
            ("batches/s", format!("{:.2}", rate(batches))),
            ("first batch", format!("{:.2} ms", self.latencies.first.unwrap_or_default().as_secs_f64() * 1_000.0)),
            ("batch latency mean", format!("{:.2} ms", histogram.mean() / 1_000.0)),
            ("batch latency p50", ms(histogram.value_at_quantile(0.50))),
            ("batch latency p95", ms(histogram.value_at_quantile(0.95))),
            ("batch latency p99", ms(histogram.value_at_quantile(0.99))),
            (
                "downloaded",
                format!(
                    "{} objects, {}, {}/s",
                    self.cache.objects_downloaded,
                    bytes(self.cache.bytes_downloaded as f64),
                    bytes(self.cache.bytes_downloaded as f64 / seconds)
                ),
            ),
            ("requests", format!("{}, {} of them again after a failure", self.cache.requests, self.cache.retries)),
        ];
        rows.iter().try_for_each(|(name, value)| writeln!(f, "{name:<20}{value}"))
    }
}

/// Writes a number of bytes with a decimal unit, as disks and networks are sold.
fn bytes(n: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = n;
    let mut unit = 0;
    while 999.95 <= value && unit + 1 < units.len() {
        value /= 1_000.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_those_that_were_recorded() {
        let mut latencies = Latencies::default();
        for ms in [1, 20, 20, 400] {
            latencies.record(Duration::from_millis(ms), Duration::from_millis(700 + ms));
        }
        let cache = CacheStats::default();
        let summary = Summary { samples: 40, elapsed: Duration::from_secs(2), latencies, cache }.to_string();
        for (name, expected) in [
            ("samples/s", "20.0"),
            ("batches/s", "2.00"),
            ("first batch", "701.00 ms"),
            ("batch latency mean", "110."),
            ("batch latency p50", "20.0"),
            ("batch latency p99", "400."),
        ] {
            let line = summary.lines().find(|line| line.starts_with(name)).expect(name);
            assert!(line[20..].starts_with(expected), "{line}");
        }
    }

    #[test]
    fn bytes_have_the_unit_that_reads_best() {
        let written = [0.0, 999.0, 1_000.0, 76_543.0, 999_960.0, 4.2e12].map(bytes);
        assert_eq!(written, ["0 B", "999 B", "1.0 kB", "76.5 kB", "1.0 MB", "4.2 TB"]);
    }
}
