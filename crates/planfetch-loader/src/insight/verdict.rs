//! What a run was bound by, and what to do about it.
//!
//! A plain function of what was measured.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::insight::cause::{Cause, PerCause};

/// What kept a run from being faster.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BoundBy {
    /// Nothing was delivered yet.
    Nothing,
    /// The training loop itself: it hardly waited.
    TrainingLoop,
    /// Making plans.
    Plan,
    /// How long the store takes to answer, and how many requests run at once.
    StoreLatency,
    /// How fast the store's bytes come.
    StoreBandwidth,
    /// The store throttles or fails, and downloads pause before they try again.
    StoreErrors,
    /// Writing to the cache's disk, or checking what is there.
    Disk,
    /// Making samples: reading, decoding, transforming.
    Decode,
    /// The collate's last step.
    Collate,
    /// Keeping plan order, while single samples were late.
    Order,
    /// Samples that failed, so that batches had to be made again.
    FailedSamples,
    /// Handing over between threads.
    Handover,
    /// A batch that the loop gave up waiting for at `timeout`, and that has not come since.
    Pending,
}

impl fmt::Display for BoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nothing => "nothing yet",
            Self::TrainingLoop => "training loop",
            Self::Plan => "plan",
            Self::StoreLatency => "store latency",
            Self::StoreBandwidth => "store bandwidth",
            Self::StoreErrors => "store errors",
            Self::Disk => "disk",
            Self::Decode => "decode",
            Self::Collate => "collate",
            Self::Order => "order",
            Self::FailedSamples => "failed samples",
            Self::Handover => "handover",
            Self::Pending => "pending batch",
        })
    }
}

/// What a run was bound by, with advice. Prints as one sentence.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// The part that kept the run from being faster.
    pub bound_by: BoundBy,
    /// What to do.
    pub advice: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bound by: {}; {}", self.bound_by, self.advice)
    }
}

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) batches: u64,
    pub(crate) samples: u64,
    pub(crate) waited: PerCause<Duration>,
    pub(crate) consumer: Duration,
    pub(crate) num_workers: usize,
    pub(crate) batches_ahead: usize,
    /// How many downloads the cache runs at once, where there is one.
    pub(crate) download_concurrency: Option<usize>,
    /// What workers did, all added up.
    pub(crate) busy: Duration,
    /// The downloads that were waited for: their number, and the time from the request to the last byte.
    pub(crate) fetches: u64,
    pub(crate) fetching: Duration,
}

/// The most workers that are advised.
const MAX_WORKERS: usize = 256;

/// A loop that waits for less than this share of its time is not held up.
const NEGLIGIBLE: f64 = 0.05;

impl Measured {
    pub(crate) fn verdict(&self) -> Verdict {
        let waited: Duration = self.waited.iter().map(|(_, part)| *part).sum();
        let total = (waited + self.consumer).as_secs_f64();
        if self.batches == 0 {
            return verdict(BoundBy::Nothing, "take a batch first".into());
        }
        if waited.as_secs_f64() <= NEGLIGIBLE * total {
            return verdict(BoundBy::TrainingLoop, "the loader keeps up".into());
        }
        // Of parts that are equal, the one that comes first.
        let parts = GROUPS
            .iter()
            .map(|(bound_by, causes)| (*bound_by, causes.iter().map(|&cause| self.waited[cause]).sum::<Duration>()));
        let worst = parts.reduce(|worst, part| if worst.1 < part.1 { part } else { worst });
        let bound_by = worst.map_or(BoundBy::Nothing, |(bound_by, _)| bound_by);
        verdict(bound_by, self.advice(bound_by))
    }

    fn advice(&self, bound_by: BoundBy) -> String {
        match bound_by {
            BoundBy::StoreLatency => self.latency_advice(),
            BoundBy::StoreBandwidth => {
                "the bytes come no faster: use smaller objects, a region that is nearer, or a faster network".into()
            }
            BoundBy::StoreErrors => {
                "the store throttles or fails: lower download_concurrency, or spread objects over more prefixes".into()
            }
            BoundBy::Disk => "put the cache on a faster disk, or raise write_concurrency for large objects".into(),
            BoundBy::Decode => match self.needed_workers() {
                // A loop that does next to nothing asks for more than there is.
                Some(needed) if MAX_WORKERS < needed => {
                    "raise num_workers to the number of cores; make samples smaller, or transform them on the accelerator"
                        .into()
                }
                Some(needed) if self.num_workers < needed => format!("raise num_workers to about {needed}"),
                _ => "make samples smaller, or transform them on the accelerator".into(),
            },
            BoundBy::Collate => "write into the batch's slots (Collate) rather than all at the end (collate_fn)".into(),
            BoundBy::Order => {
                "single objects are late: raise prefetch_factor or batches_ahead, or give up plan order by in_order: \
                 false"
                    .into()
            }
            BoundBy::FailedSamples => "take the samples that fail out of the index; failed_samples lists them".into(),
            BoundBy::Plan => "make plans lazy, or raise prefetch_factor".into(),
            BoundBy::Handover => "raise the batch size, or prefetch_factor".into(),
            BoundBy::Pending => {
                "the error of the timeout says what the batch lacks; ask again, or raise timeout".into()
            }
            BoundBy::Nothing | BoundBy::TrainingLoop => String::new(),
        }
    }

    /// By Little's law (J. Little, Operations Research 9(3), 1961), what is under way is the rate times the time that
    /// each takes.
    fn latency_advice(&self) -> String {
        let Some(rate) = self.wanted_rate() else { return "raise download_concurrency and batches_ahead".into() };
        let each = if self.fetches == 0 { 0.0 } else { self.fetching.as_secs_f64() / self.fetches as f64 };
        let under_way = (rate * each).ceil().max(1.0);
        let per_batch = (self.samples as f64 / self.batches as f64).max(1.0);
        let ahead = (2.0 * under_way / per_batch).ceil() as usize + 2;
        let concurrency = two_digits(under_way);
        let mut steps = Vec::new();
        if self.download_concurrency.is_none_or(|now| (now as u64) < concurrency) {
            steps.push(format!("raise download_concurrency to about {concurrency}"));
        }
        if self.batches_ahead < ahead {
            steps.push(format!("raise batches_ahead to {ahead} or more"));
        }
        if steps.is_empty() {
            // What there is would do for a steady run.
            steps.push("use a nearer store, or larger objects; the start of a run waits in any case".into());
        }
        format!("{rate:.0} samples/s times {:.0} ms each: {}", each * 1e3, steps.join(", and "))
    }

    /// Returns how many samples a second the rest of the run could do: what the training loop would take, and what the
    /// workers can make.
    fn wanted_rate(&self) -> Option<f64> {
        let samples = self.samples as f64;
        let rate = |seconds: f64| (0.0 < seconds).then(|| samples / seconds);
        let by_loop = rate(self.consumer.as_secs_f64());
        let by_workers = rate(self.busy.as_secs_f64() / self.num_workers.max(1) as f64);
        match (by_loop, by_workers) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Returns how many workers would make what the training loop takes.
    fn needed_workers(&self) -> Option<usize> {
        let consumer = self.consumer.as_secs_f64();
        (0.0 < consumer).then(|| (self.busy.as_secs_f64() / consumer).ceil().min(4_096.0) as usize)
    }
}

/// Which causes belong together.
const GROUPS: [(BoundBy, &[Cause]); 11] = [
    (BoundBy::StoreLatency, &[Cause::Queue, Cause::Request]),
    (BoundBy::StoreBandwidth, &[Cause::Body]),
    (BoundBy::StoreErrors, &[Cause::Backoff]),
    (BoundBy::Disk, &[Cause::Write, Cause::Verify]),
    (BoundBy::Decode, &[Cause::Workers, Cause::Decode]),
    (BoundBy::Collate, &[Cause::Collate]),
    (BoundBy::Order, &[Cause::Order]),
    (BoundBy::FailedSamples, &[Cause::Retry]),
    (BoundBy::Plan, &[Cause::Plan]),
    (BoundBy::Handover, &[Cause::Handover]),
    (BoundBy::Pending, &[Cause::Pending]),
];

fn verdict(bound_by: BoundBy, advice: String) -> Verdict {
    Verdict { bound_by, advice }
}

/// Rounds up to two digits, since more would claim a precision that is not there.
fn two_digits(value: f64) -> u64 {
    let unit = 10_f64.powf((value.log10().floor() - 1.0).max(0.0));
    ((value / unit).ceil() * unit).min(100_000.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(waits: &[(Cause, u64)], consumer_ms: u64) -> Measured {
        let mut waited = PerCause::default();
        for &(cause, ms) in waits {
            waited[cause] = Duration::from_millis(ms);
        }
        Measured {
            batches: 100,
            samples: 6_400,
            waited,
            consumer: Duration::from_millis(consumer_ms),
            num_workers: 4,
            batches_ahead: 200,
            download_concurrency: Some(64),
            busy: Duration::from_secs(2),
            fetches: 1_000,
            fetching: Duration::from_secs(30),
        }
    }

    #[test]
    fn every_cause_belongs_to_one_group_and_is_named_where_it_is_the_worst() {
        for cause in Cause::ALL {
            let groups: Vec<_> = GROUPS.iter().filter(|(_, causes)| causes.contains(&cause)).collect();
            assert_eq!(groups.len(), 1, "{cause}");
            let verdict = measured(&[(Cause::Handover, 20), (cause, 500)], 500).verdict();
            assert_eq!(verdict.bound_by, groups[0].0);
            assert!(!verdict.advice.is_empty());
        }
    }

    #[test]
    fn a_loop_that_hardly_waits_is_bound_by_itself() {
        assert_eq!(
            measured(&[(Cause::Request, 40)], 960).verdict().to_string(),
            "bound by: training loop; the loader keeps up"
        );
        assert_eq!(measured(&[(Cause::Request, 60)], 940).verdict().bound_by, BoundBy::StoreLatency);
    }

    #[test]
    fn the_advice_for_a_slow_store_is_littles_law() {
        // 6,400 samples in 1 s of training, which four workers can just make in half of that; 30 ms each: 192 under way.
        assert_eq!(
            measured(&[(Cause::Queue, 1_500), (Cause::Request, 500)], 1_000).verdict().to_string(),
            "bound by: store latency; 6400 samples/s times 30 ms each: raise download_concurrency to about 200"
        );
        let narrow = Measured { batches_ahead: 2, ..measured(&[(Cause::Request, 500)], 1_000) };
        assert!(narrow.verdict().advice.ends_with(", and raise batches_ahead to 8 or more"), "{}", narrow.verdict());
        let enough = Measured { download_concurrency: Some(256), ..measured(&[(Cause::Request, 500)], 1_000) };
        assert!(enough.verdict().advice.contains("nearer store"), "{}", enough.verdict());
    }

    #[test]
    fn the_advice_for_slow_decoding_is_the_number_of_workers_that_would_do() {
        // 2 s of work for each 0.2 s of training.
        let verdict = measured(&[(Cause::Decode, 500)], 200).verdict();
        assert_eq!(verdict.to_string(), "bound by: decode; raise num_workers to about 10");
        // For 1 ms of training that would be 2,000.
        assert!(
            measured(&[(Cause::Decode, 500)], 1).verdict().advice.starts_with("raise num_workers to the number of")
        );
    }

    #[test]
    fn advice_is_no_more_precise_than_what_was_measured() {
        assert_eq!([1.0, 9.5, 17.2, 99.9, 173.0, 1_234.0].map(two_digits), [1, 10, 18, 100, 180, 1_300]);
    }
}
