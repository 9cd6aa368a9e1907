//! One attempt at filling the slots of a batch, on all workers at once.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crossbeam_channel::Sender;
use planfetch_cache::LocalFile;

use crate::assemble::Event;
use crate::collate::Collate;
use crate::dataset::{Dataset, SampleContext, object_range, write_uri};
use crate::error::{BoxError, Panicked};
use crate::insight::trace::SampleTrace;
use crate::on_error::Wanted;
use crate::schedule::Job;
use crate::stats::Counters;

/// How much work a worker is handed at once. Less costs more in handing over; more leaves workers idle at the end.
const CHUNK_NANOS: u64 = 50_000;

/// A sample that can be made: its object is local, or it has none.
pub(crate) struct Ready<S> {
    /// Its place in the row.
    pub(crate) index: usize,
    pub(crate) file: Option<LocalFile>,
    pub(crate) slot: S,
    pub(crate) asked: Instant,
    pub(crate) local: Instant,
}

/// A sample that can't be made, by its place in the row.
pub(crate) struct Failure {
    pub(crate) index: usize,
    pub(crate) cause: BoxError,
}

/// Makes the samples of one row.
pub(crate) struct Attempt<'a, D, C> {
    dataset: &'a D,
    collate: &'a C,
    counters: &'a Counters,
    wanted: &'a AtomicU64,
    seed: u64,
    job: &'a Job,
    row: &'a [Wanted],
    /// Wakes the one that waits for objects.
    events: &'a Sender<Event>,
    /// The first failed sample ends the attempt, so those behind it are not made.
    stops_early: bool,
    first_failed: AtomicUsize,
    failures: Mutex<Vec<Failure>>,
    last: Mutex<Option<SampleTrace>>,
}

/// What belongs to all attempts of an assembler.
pub(crate) struct Tools<'a, D, C> {
    pub(crate) dataset: &'a D,
    pub(crate) collate: &'a C,
    pub(crate) counters: &'a Counters,
    pub(crate) wanted: &'a AtomicU64,
    pub(crate) events: &'a Sender<Event>,
    pub(crate) seed: u64,
    pub(crate) stops_early: bool,
}

impl<'a, D: Dataset, C: Collate<D::Sample>> Attempt<'a, D, C> {
    pub(crate) fn new(tools: &Tools<'a, D, C>, job: &'a Job, row: &'a [Wanted]) -> Self {
        let Tools { dataset, collate, counters, wanted, events, seed, stops_early } = *tools;
        Self {
            dataset,
            collate,
            counters,
            wanted,
            seed,
            job,
            row,
            events,
            stops_early,
            first_failed: AtomicUsize::new(usize::MAX),
            failures: Mutex::default(),
            last: Mutex::default(),
        }
    }

    pub(crate) fn job(&self) -> &'a Job {
        self.job
    }

    pub(crate) fn row(&self) -> &'a [Wanted] {
        self.row
    }

    /// Returns whether the batch is still wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) <= self.job.generation
    }

    /// Returns how many samples of the row, from its start, are still to be made.
    pub(crate) fn needed(&self) -> usize {
        if self.stops_early { self.first_failed.load(Ordering::Acquire).min(self.row.len()) } else { self.row.len() }
    }

    /// Returns how many samples a worker is handed at once.
    pub(crate) fn chunk_len(&self) -> usize {
        match self.counters.nanos_per_sample() {
            0 => 1,
            // OK because it is at most the length of a row.
            nanos => (CHUNK_NANOS / nanos).clamp(1, self.row.len().max(1) as u64) as usize,
        }
    }

    /// Replaces what `uri` holds with the URI of a sample's object, if it has one.
    pub(crate) fn write_uri(&self, index: usize, uri: &mut String) -> Result<bool, BoxError> {
        write_uri(self.dataset, self.row[index].id, uri)
    }

    /// Returns the part of its object that a sample is, if it is not the whole.
    pub(crate) fn object_range(&self, index: usize) -> Result<Option<Range<u64>>, BoxError> {
        object_range(self.dataset, self.row[index].id)
    }

    /// Makes samples and puts them into their slots.
    pub(crate) fn make(&self, chunk: Vec<Ready<C::Slot<'_>>>) {
        let started = Instant::now();
        let len = chunk.len();
        let (mut begun, mut last) = (started, None);
        for ready in chunk {
            // What was queued for a batch that is not wanted any more would hold up the next one, or the loader's end.
            if self.needed() <= ready.index || !self.is_wanted() {
                continue;
            }
            let Ready { index, asked, local, .. } = ready;
            let has_file = ready.file.is_some();
            let mut fetch = Vec::new();
            if let Some(file) = &ready.file {
                fetch = self.counters.add_fetch(file);
                self.counters.add_worker_wait(begun.saturating_duration_since(local));
            }
            if let Err(cause) = self.make_one(ready) {
                self.fail(index, cause);
            }
            // Where samples come by the million, one look at the clock is enough for all of a chunk.
            let done = if has_file { Instant::now() } else { begun };
            last = Some(SampleTrace { id: self.row[index].id, asked, fetch, local, started: begun, done });
            begun = done;
        }
        let done = Instant::now();
        self.counters.add_work(done - started, len);
        if let Some(trace) = last {
            self.finished(SampleTrace { done, ..trace });
        }
    }

    fn make_one(&self, ready: Ready<C::Slot<'_>>) -> Result<(), BoxError> {
        let Ready { index, file, slot, .. } = ready;
        let Wanted { id, position, .. } = self.row[index];
        let mut ctx = SampleContext::new(id, file.as_ref(), self.seed, self.job.place.epoch, position);
        catch_unwind(AssertUnwindSafe(|| {
            let sample = self.dataset.get(&mut ctx)?;
            self.collate.put(sample, slot)
        }))
        .unwrap_or_else(|panic| Err(Box::new(Panicked::new(&*panic))))
    }

    /// Takes note that a sample can't be made.
    pub(crate) fn fail(&self, index: usize, cause: impl Into<BoxError>) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(Failure { index, cause: cause.into() });
        if self.stops_early {
            self.first_failed.fetch_min(index, Ordering::AcqRel);
            // The one that waits for objects may have to wait for fewer now.
            let _ = self.events.send(Event::Failed);
        }
    }

    /// Takes note of a sample that has been finished, by success or failure.
    pub(crate) fn finished(&self, trace: SampleTrace) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|last| last.done <= trace.done) {
            *last = Some(trace);
        }
    }

    /// Returns the failures, in the order of the row, and the sample that was finished last.
    pub(crate) fn end(self) -> (Vec<Failure>, Option<SampleTrace>) {
        let mut failures = self.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        failures.sort_by_key(|failure| failure.index);
        (failures, self.last.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}
