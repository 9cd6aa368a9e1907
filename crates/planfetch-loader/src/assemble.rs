//! Making one batch: asks for its objects, has the workers decode what is there, and deals with samples that fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use planfetch_cache::{CacheError, CacheErrorKind, DiskCache, LocalFile};
use rayon::ThreadPool;

use crate::arrivals::Arrivals;
use crate::batch::{Batch, Contents};
use crate::collate::Collate;
use crate::dataset::{Dataset, uri_of};
use crate::error::{BoxError, FailedSample, LoaderError, Panicked};
use crate::exchange::Made;
use crate::fill::{Attempt, Failure, Ready, Tools};
use crate::insight::trace::{SampleTrace, Trace};
use crate::on_error::{MAX_TRIES, OnError, Wanted, substitute};
use crate::schedule::{Job, Place};
use crate::stats::Counters;

/// So many samples in a row that the cache can't get, for another reason than that they are missing, are no bad samples.
const OUTAGE: u64 = 8;

/// What happens while a batch is made.
pub(crate) enum Event {
    /// The object of a sample is local, or can't be had. `generation` and `number` tell for which batch it was asked,
    /// `attempt` for which attempt at it.
    Local { generation: u64, number: u64, attempt: u32, index: usize, file: Result<LocalFile, CacheError> },
    /// A worker could not make a sample.
    Failed,
    /// Batches of earlier generations are not wanted any more.
    Cancel { generation: u64 },
    /// Somebody wants to know what the batch of this place lacks.
    Describe { place: Place, answer: Sender<String> },
}

/// Makes batches of one data set, one at a time. There are several, each on a thread of its own.
pub(crate) struct Assembler<D: Dataset, C: Collate<D::Sample>> {
    pub(crate) dataset: Arc<D>,
    pub(crate) collate: Arc<C>,
    pub(crate) cache: Option<DiskCache>,
    /// `None` decodes on the thread that asks for a batch.
    pub(crate) workers: Option<Arc<ThreadPool>>,
    pub(crate) counters: Arc<Counters>,
    /// The generation that is wanted now.
    pub(crate) wanted: Arc<AtomicU64>,
    pub(crate) seed: u64,
    pub(crate) on_error: OnError,
    pub(crate) events: (Sender<Event>, Receiver<Event>),
    /// Batches that the training loop is done with.
    pub(crate) recycled: (Sender<C::Batch>, Receiver<C::Batch>),
    /// A buffer whose batch came to nothing.
    pub(crate) spare: Option<C::Buffer>,
    /// The sample that was finished last in the last attempt.
    pub(crate) last: Option<SampleTrace>,
}

/// How an attempt at a batch ended.
enum Outcome {
    Filled,
    Cancelled,
    Failed(Vec<Failure>),
}

impl<D: Dataset, C: Collate<D::Sample>> Assembler<D, C> {
    /// Makes the batch of `job`, or `None` when it is not wanted any more. A panic of user code becomes its error.
    pub(crate) fn assemble(&mut self, job: &Job) -> Option<Made<C::Batch>> {
        let (epoch, step) = (job.place.epoch, job.place.step);
        let _span = tracing::debug_span!(target: "planfetch::batch", "batch", epoch, step).entered();
        let begun = Instant::now();
        self.last = None;
        let mut failed = Vec::new();
        let made = catch_unwind(AssertUnwindSafe(|| self.try_assemble(job, begun, &mut failed)));
        // Samples catch their own panics; what comes here is the collate's.
        let batch = match made.unwrap_or_else(|panic| Err(collate_error(job, Box::new(Panicked::new(&*panic))))) {
            Ok(made) => return made,
            Err(error) => Err(error),
        };
        let now = Instant::now();
        let trace = self.trace(begun, begun, now, now);
        failed.sort_by_key(|sample| sample.slot);
        Some(Made { batch, failed, trace: Some(trace), bytes: None })
    }

    /// Where it is an error, `failed` is left with the samples that have failed.
    fn try_assemble(
        &mut self,
        job: &Job,
        begun: Instant,
        failed: &mut Vec<FailedSample>,
    ) -> Result<Option<Made<C::Batch>>, LoaderError> {
        let slots = job.batch.iter().enumerate();
        let mut row: Vec<Wanted> = slots
            .map(|(slot, planned)| Wanted {
                id: planned.sample,
                // OK because an index fits in 64 bits.
                position: planned.position as u64,
                slot,
                padding: planned.padding,
                tried: Vec::new(),
            })
            .collect();
        let mut attempt = 0;
        loop {
            let attempted = if attempt == 0 { begun } else { Instant::now() };
            let mut buffer = self.buffer();
            match self.fill(job, &row, attempt, &mut buffer)? {
                Outcome::Filled => {
                    let filled = Instant::now();
                    let mut inner = self.collate.finish(buffer);
                    let num_padding = row.iter().filter(|wanted| wanted.padding).count();
                    if 0 < num_padding {
                        self.collate.set_padding(&mut inner, num_padding);
                    }
                    // A batch without a sample says nothing of others.
                    let bytes = (!row.is_empty()).then(|| self.collate.num_bytes(&inner).unwrap_or(0));
                    let finished = Instant::now();
                    self.counters.add_collate(finished - filled);
                    failed.sort_by_key(|sample| sample.slot);
                    let contents = Contents {
                        place: job.place,
                        ids: row.iter().map(|wanted| wanted.id).collect(),
                        num_padding,
                        failed: std::mem::take(failed),
                    };
                    let batch = Ok(Batch::new(inner, contents, self.recycled.0.clone()));
                    let trace = Some(self.trace(begun, attempted, filled, finished));
                    return Ok(Some(Made { batch, failed: Vec::new(), trace, bytes }));
                }
                Outcome::Cancelled => {
                    self.spare = Some(buffer);
                    return Ok(None);
                }
                Outcome::Failed(failures) => {
                    self.spare = Some(buffer);
                    self.mend(job, &mut row, failures, failed)?;
                    attempt += 1;
                }
            }
        }
    }

    fn trace(&mut self, begun: Instant, attempted: Instant, filled: Instant, finished: Instant) -> Trace {
        Trace { begun, attempted, inline: self.workers.is_none(), last: self.last.take(), filled, finished }
    }

    fn buffer(&mut self) -> C::Buffer {
        if let Some(buffer) = self.spare.take() {
            return buffer;
        }
        match self.recycled.1.try_recv() {
            Ok(batch) => self.collate.recycle(batch).unwrap_or_else(|| self.collate.buffer()),
            Err(_) => self.collate.buffer(),
        }
    }

    /// Fills the slots.
    fn fill(
        &mut self,
        job: &Job,
        row: &[Wanted],
        attempt_number: u32,
        buffer: &mut C::Buffer,
    ) -> Result<Outcome, LoaderError> {
        let slots = self.collate.slots(buffer, row.len());
        if slots.len() != row.len() {
            return Err(LoaderError::Mismatch {
                problem: format!("Collate::slots returned {} slots for {} samples", slots.len(), row.len()),
            });
        }
        // Files that came for a batch that was given up would stay pinned here.
        self.events.1.try_iter().for_each(drop);
        let tools = Tools {
            dataset: &*self.dataset,
            collate: &*self.collate,
            counters: &self.counters,
            wanted: &self.wanted,
            events: &self.events.0,
            seed: self.seed,
            stops_early: self.on_error == OnError::Fail,
        };
        let attempt = Attempt::new(&tools, job, row);
        let came = match &self.workers {
            Some(workers) => workers.in_place_scope_fifo(|scope| {
                self.drain(&attempt, attempt_number, slots, |chunk| {
                    let attempt = &attempt;
                    scope.spawn_fifo(move |_| attempt.make(chunk));
                })
            }),
            None => self.drain(&attempt, attempt_number, slots, |chunk| attempt.make(chunk)),
        };
        // The scope has ended, and with it every sample that was started.
        if !came || !attempt.is_wanted() {
            return Ok(Outcome::Cancelled);
        }
        let (failures, last) = attempt.end();
        self.last = last;
        if failures.is_empty() {
            if !row.is_empty() {
                self.counters.reset_failed_in_a_row();
            }
            return Ok(Outcome::Filled);
        }
        Ok(Outcome::Failed(failures))
    }

    /// Asks for the object of each sample, and hands each sample to `start` as soon as its object is local. Returns false
    /// when the batch is not wanted any more.
    fn drain<'s>(
        &self,
        attempt: &Attempt<'_, D, C>,
        attempt_number: u32,
        slots: Vec<C::Slot<'s>>,
        start: impl Fn(Vec<Ready<C::Slot<'s>>>),
    ) -> bool {
        let Job { generation, number, .. } = *attempt.job();
        let mut arrivals = Arrivals::new(attempt, attempt_number);
        let mut uri = String::new();
        let mut asked = Instant::now();
        for (index, slot) in slots.into_iter().enumerate() {
            if attempt.needed() <= index {
                break;
            }
            let Some(cache) = &self.cache else {
                arrivals.add(Ready { index, file: None, slot, asked, local: asked }, &start);
                continue;
            };
            asked = Instant::now();
            let object = attempt.write_uri(index, &mut uri);
            match object.and_then(|has_object| Ok((has_object, attempt.object_range(index)?))) {
                Ok((true, range)) => {
                    arrivals.slots.push(Some((slot, asked)));
                    arrivals.waiting += 1;
                    let events = self.events.0.clone();
                    let then = move |file| {
                        // OK because where nobody receives, nobody wants the file.
                        let _ = events.send(Event::Local { generation, number, attempt: attempt_number, index, file });
                    };
                    match range {
                        None => cache.ensure_local_then(&uri, then),
                        Some(range) => cache.ensure_local_range_then(&uri, range, then),
                    }
                    if !arrivals.take_all(&self.events.1, attempt, &start) {
                        return false;
                    }
                }
                Ok((false, _)) => {
                    arrivals.slots.push(None);
                    arrivals.add(Ready { index, file: None, slot, asked, local: asked }, &start);
                }
                Err(cause) => {
                    arrivals.slots.push(None);
                    attempt.fail(index, cause);
                }
            }
        }
        arrivals.flush(&start);
        // That the batch is not wanted may have been said before anybody listened.
        while attempt.is_wanted() && arrivals.is_waiting(attempt) {
            let event = self.events.1.recv().expect("the assembler holds a sender itself");
            if !arrivals.take(event, attempt, &start) || !arrivals.take_all(&self.events.1, attempt, &start) {
                return false;
            }
            arrivals.flush(&start);
        }
        attempt.is_wanted()
    }

    /// Decides what becomes of the samples that failed: changes the row for another attempt, or returns the error.
    fn mend(
        &self,
        job: &Job,
        row: &mut Vec<Wanted>,
        failures: Vec<Failure>,
        failed: &mut Vec<FailedSample>,
    ) -> Result<(), LoaderError> {
        let is_outage = self.is_outage(row.len(), &failures);
        let mut failures = failures.into_iter().peekable();
        let slots = std::mem::take(row);
        for (index, mut wanted) in slots.iter().cloned().enumerate() {
            let Some(Failure { cause, .. }) = failures.next_if(|failure| failure.index == index) else {
                row.push(wanted);
                continue;
            };
            let is_closed = cache_error_kind(&cause) == Some(CacheErrorKind::Closed);
            let mut sample = self.failed(job, &wanted, cause);
            let is_final = match self.on_error {
                _ if is_outage || is_closed => true,
                OnError::Fail => true,
                OnError::Skip => false,
                OnError::Substitute { .. } => {
                    wanted.tried.push(wanted.id);
                    let (plan, epoch) = (job.batch.plan(), job.place.epoch);
                    let next = (wanted.tried.len() <= MAX_TRIES)
                        .then(|| substitute(self.seed, epoch, wanted.position, &wanted.tried, plan))
                        .flatten();
                    sample.substitute = next;
                    wanted.id = next.unwrap_or(wanted.id);
                    row.push(wanted);
                    next.is_none()
                }
            };
            let slot = sample.slot;
            failed.push(sample);
            if is_final {
                // With `Fail`, which others were tried before the batch was given up is chance.
                if self.on_error != OnError::Fail {
                    let others = failures.filter_map(|Failure { index, cause }| Some((slots.get(index)?, cause)));
                    failed.extend(others.map(|(wanted, cause)| self.failed(job, wanted, cause)));
                }
                // Where those that stood in for it have failed too, the sample of the plan is the one to name.
                let first = failed.iter().find(|other| other.slot == slot).expect("it was pushed above");
                return Err(LoaderError::Sample(Box::new(first.clone())));
            }
        }
        Ok(())
    }

    /// Returns whether a batch failed because of its store and not of its samples. To skip them would end epoch after
    /// epoch without a sample.
    fn is_outage(&self, len: usize, failures: &[Failure]) -> bool {
        if failures.len() < len {
            self.counters.reset_failed_in_a_row();
            return false;
        }
        let in_a_row = self.counters.add_failed_in_a_row(len);
        let kinds = || failures.iter().map(|failure| cache_error_kind(&failure.cause));
        let is_out_of_reach = kinds().any(|kind| kind == Some(CacheErrorKind::Unavailable));
        // A store may refuse, or a URI be wrong, for a single object too; not for many one after another.
        let is_refused = kinds().all(|kind| kind.is_some_and(|kind| kind != CacheErrorKind::NotFound));
        is_out_of_reach || (is_refused && OUTAGE <= in_a_row)
    }

    fn failed(&self, job: &Job, wanted: &Wanted, cause: BoxError) -> FailedSample {
        let Wanted { id, position, slot, .. } = *wanted;
        let (epoch, step) = (job.place.epoch, job.place.step);
        let uri = uri_of(&*self.dataset, id);
        FailedSample { id, uri, epoch, step, slot, position, substitute: None, cause: cause.into() }
    }
}

fn collate_error(job: &Job, cause: BoxError) -> LoaderError {
    LoaderError::Collate { epoch: job.place.epoch, step: job.place.step, cause }
}

fn cache_error_kind(cause: &BoxError) -> Option<CacheErrorKind> {
    cause.downcast_ref::<CacheError>().map(CacheError::kind)
}
