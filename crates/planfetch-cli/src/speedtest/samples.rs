//! How long the loop waited for each batch.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Waits for batches, and when they ended.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    /// In microseconds, to three digits.
    histogram: Histogram<u64>,
    first: Option<Duration>,
    end: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        // Up to an hour; a histogram without bounds would cut what is recorded to what it holds already.
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("the bounds are in order");
        Self { histogram, first: None, end: Duration::ZERO }
    }
}

/// Waits for batches within bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) batches: u64,
}

impl Latencies {
    /// Takes note of the wait for one batch, which came `since_start` after the loader began to be built.
    pub(crate) fn record(&mut self, wait: Duration, since_start: Duration) {
        self.first.get_or_insert(since_start);
        self.end = since_start;
        self.histogram.saturating_record(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
    }

    /// Takes note of the end of a step.
    pub(crate) fn step_ended(&mut self, since_start: Duration) {
        self.end = since_start;
    }

    /// Returns the number of batches.
    pub(crate) fn batches(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns when the first batch came.
    pub(crate) fn first(&self) -> Duration {
        self.first.unwrap_or_default()
    }

    /// Returns when the last step ended.
    pub(crate) fn end(&self) -> Duration {
        self.end
    }

    pub(crate) fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.histogram.mean() / 1e6)
    }

    pub(crate) fn quantile(&self, quantile: f64) -> Duration {
        // OK because an empty histogram answers 0.
        Duration::from_micros(self.histogram.value_at_quantile(quantile))
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_micros(self.histogram.max())
    }

    /// Returns the waits in buckets, each of which is half as wide again as the one before, from the shortest on.
    pub(crate) fn buckets(&self) -> Vec<Bucket> {
        const GROWTH: f64 = 1.5;
        let (mut from, mut buckets) = (1.0_f64, Vec::<Bucket>::new());
        let max = self.histogram.max() as f64;
        while self.batches() != 0 && from <= max.max(1.0) {
            let to = from * GROWTH;
            // OK because bounds are rounded alike, so that each value lies in one bucket. What took less than a
            // microsecond lies in the first.
            let low = if buckets.is_empty() { 0 } else { from.ceil() as u64 };
            let high = to.ceil() as u64 - 1;
            let batches = if low <= high { self.histogram.count_between(low, high) } else { 0 };
            let micros = |value: f64| Duration::from_secs_f64(value / 1e6);
            buckets.push(Bucket { from: micros(from), to: micros(to), batches });
            from = to;
        }
        let first = buckets.iter().position(|bucket| bucket.batches != 0).unwrap_or(0);
        buckets.drain(..first);
        buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(waits_ms: &[u64]) -> Latencies {
        let mut latencies = Latencies::default();
        for &ms in waits_ms {
            latencies.record(Duration::from_millis(ms), Duration::from_millis(700 + ms));
        }
        latencies
    }

    #[test]
    fn latencies_are_those_that_were_recorded() {
        let latencies = recorded(&[1, 20, 20, 400]);
        assert_eq!((latencies.batches(), latencies.first()), (4, Duration::from_millis(701)));
        let near = |time: Duration, ms: f64| (time.as_secs_f64() * 1e3 - ms).abs() < ms / 500.0;
        assert!(near(latencies.mean(), 110.25) && near(latencies.quantile(0.5), 20.0), "{latencies:?}");
        assert!(near(latencies.quantile(0.99), 400.0) && near(latencies.max(), 400.0), "{latencies:?}");
    }

    #[test]
    fn every_wait_lies_in_one_bucket() {
        let latencies = recorded(&[0, 1, 2, 3, 50, 51, 52, 900]);
        let buckets = latencies.buckets();
        assert_eq!(buckets.iter().map(|bucket| bucket.batches).sum::<u64>(), 8);
        assert!(buckets.windows(2).all(|pair| pair[0].to == pair[1].from));
        assert!(buckets.last().is_some_and(|bucket| bucket.batches == 1), "{buckets:?}");
        assert!(Latencies::default().buckets().is_empty());
    }
}
