//! What is written down of a run, to report on it.

use std::time::{Duration, Instant};

use planfetch_plan::SampleId;

use crate::insight::cause::{Cause, PerCause};
use crate::insight::charge::charge;
use crate::insight::trace::Trace;
use crate::schedule::Place;

/// How many of the longest waits are kept.
const LONGEST: usize = 8;

/// How many waits for one batch are kept until it comes.
const MAX_PENDING: usize = 1_000;

/// The waits of a training loop.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// When the first batch was asked for, and when the last one was handed out.
    first_asked: Option<Instant>,
    last_given: Option<Instant>,
    pub(crate) waited: PerCause<Duration>,
    /// How many batches each cause held up.
    pub(crate) batches: PerCause<u64>,
    /// What the training loop did with its batches.
    pub(crate) consumer: Duration,
    /// The waits for the batch that is wanted now, which ended before it came.
    pending: Vec<Waited>,
    /// The longest waits for one sample, longest first.
    pub(crate) longest: Vec<Held>,
}

/// A wait, from when a batch was asked for to the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) asked: Instant,
    pub(crate) given: Instant,
    /// Since when another batch was ready.
    pub(crate) another_since: Option<Instant>,
}

/// A wait for one sample.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) id: SampleId,
    pub(crate) uri: Option<String>,
    pub(crate) epoch: u64,
    pub(crate) step: usize,
    pub(crate) cause: Cause,
    pub(crate) waited: Duration,
}

impl Ledger {
    /// Returns the time from when the first batch was asked for until the last one was handed out.
    pub(crate) fn elapsed(&self) -> Duration {
        self.first_asked.zip(self.last_given).map_or(Duration::ZERO, |(from, to)| to - from)
    }

    /// Returns how much of the run was waited.
    #[cfg(feature = "indicatif")]
    pub(crate) fn waited_share(&self) -> f64 {
        let waited: Duration = self.waited.iter().map(|(_, part)| *part).sum();
        let elapsed = self.elapsed();
        if elapsed.is_zero() { 0.0 } else { waited.as_secs_f64() / elapsed.as_secs_f64() }
    }

    fn begin(&mut self, wait: Waited) {
        self.first_asked.get_or_insert(wait.asked);
        if let Some(last) = self.last_given.replace(wait.given) {
            self.consumer += wait.asked.saturating_duration_since(last);
        }
    }

    /// Takes note of a wait that ended before its batch came.
    pub(crate) fn record_pending(&mut self, wait: Waited) {
        self.begin(wait);
        self.waited[Cause::Pending] += wait.given - wait.asked;
        if self.pending.is_empty() {
            self.batches[Cause::Pending] += 1;
        }
        if self.pending.len() < MAX_PENDING {
            self.pending.push(wait);
        }
    }

    /// Takes note that the batch that was wanted is not any more.
    pub(crate) fn give_up_pending(&mut self) {
        self.pending.clear();
    }

    /// Takes note of a wait, and charges it. `place` is that of the batch, where there is one; `uri` finds a sample's.
    pub(crate) fn record(
        &mut self,
        wait: Waited,
        place: Option<Place>,
        trace: Option<&Trace>,
        uri: impl Fn(SampleId) -> Option<String>,
    ) -> PerCause<Duration> {
        self.begin(wait);
        let mut charges = charge(wait, trace);
        if !self.pending.is_empty() {
            self.batches[Cause::Pending] -= 1;
        }
        for earlier in self.pending.drain(..) {
            self.waited[Cause::Pending] -= earlier.given - earlier.asked;
            for (cause, &part) in charge(earlier, trace).iter() {
                charges[cause] += part;
            }
        }
        for (cause, &part) in charges.iter() {
            self.waited[cause] += part;
            self.batches[cause] += u64::from(!part.is_zero());
        }
        if let (Some(place), Some(last)) = (place, trace.and_then(|trace| trace.last.as_ref())) {
            let (epoch, step, cause) = (place.epoch, place.step, charges.largest());
            let waited = charges[cause];
            // Few waits are among the longest, so few URIs are looked up.
            let at = self.longest.partition_point(|other| waited <= other.waited);
            if !waited.is_zero() && at < LONGEST {
                let held = Held { id: last.id, uri: uri(last.id), epoch, step, cause, waited };
                self.longest.insert(at, held);
                self.longest.truncate(LONGEST);
            }
        }
        charges
    }
}
