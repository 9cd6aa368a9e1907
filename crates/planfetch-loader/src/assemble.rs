//! Making one batch: asks for its objects, has the workers decode what is there, and puts samples into their slots.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use planfetch_cache::{CacheError, DiskCache, LocalFile};
use planfetch_plan::SampleId;
use rayon::ThreadPool;

use crate::batch::Batch;
use crate::collate::Collate;
use crate::dataset::{Dataset, SampleContext};
use crate::error::{BoxError, FailedSample, LoaderError, Panicked};
use crate::schedule::Job;
use crate::stats::Counters;

/// What happens while a batch is made.
pub(crate) enum Event {
    /// The object of a slot is local, or can't be had. `generation` and `number` tell for which batch it was asked.
    Local { generation: u64, number: u64, slot: usize, file: Result<LocalFile, CacheError> },
    /// Batches of earlier generations are not wanted any more.
    Cancel { generation: u64 },
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
    pub(crate) events: (Sender<Event>, Receiver<Event>),
    /// Batches that the training loop is done with.
    pub(crate) recycled: (Sender<C::Batch>, Receiver<C::Batch>),
    /// A buffer whose batch came to nothing.
    pub(crate) spare: Option<C::Buffer>,
}

/// A batch that was made, or why not. `Ok(None)` when it was cancelled.
pub(crate) type Assembled<B> = Result<Option<Batch<B>>, LoaderError>;

impl<D: Dataset, C: Collate<D::Sample>> Assembler<D, C> {
    /// Makes the batch of `job`. A panic of user code becomes its error.
    pub(crate) fn assemble(&mut self, job: &Job) -> Assembled<C::Batch> {
        catch_unwind(AssertUnwindSafe(|| self.try_assemble(job))).unwrap_or_else(|panic| {
            // It came from where no single sample is at work; the first of the batch stands for all.
            Err(self.failure(job, 0, Box::new(Panicked::new(&*panic))))
        })
    }

    fn try_assemble(&mut self, job: &Job) -> Assembled<C::Batch> {
        let mut buffer = self.buffer();
        let filled = self.fill(job, &mut buffer);
        if !matches!(filled, Ok(true)) {
            self.spare = Some(buffer);
            return filled.map(|_| None);
        }
        let batch = self.collate.finish(buffer);
        Ok(Some(Batch::new(batch, job.place, job.plan.clone(), self.recycled.0.clone())))
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

    /// Fills the slots. Returns false when the batch was cancelled.
    fn fill(&self, job: &Job, buffer: &mut C::Buffer) -> Result<bool, LoaderError> {
        let ids = job.plan.batch(job.place.step).expect("jobs are handed out for steps of their plan").to_vec();
        let slots = self.collate.slots(buffer, ids.len());
        if slots.len() != ids.len() {
            return Err(LoaderError::Mismatch {
                problem: format!("Collate::slots returned {} slots for {} samples", slots.len(), ids.len()),
            });
        }
        // Files that came for a batch that was given up would stay pinned here.
        self.events.1.try_iter().for_each(drop);
        let maker = Maker {
            dataset: &*self.dataset,
            collate: &*self.collate,
            counters: &self.counters,
            wanted: &self.wanted,
            seed: self.seed,
            job,
            ids: &ids,
            failure: Mutex::new(None),
        };
        let came = match &self.workers {
            Some(workers) => workers.in_place_scope_fifo(|scope| {
                self.drain(job, &ids, slots, |slot, file, place| {
                    let maker = &maker;
                    scope.spawn_fifo(move |_| maker.make(slot, file, place));
                })
            }),
            None => self.drain(job, &ids, slots, |slot, file, place| maker.make(slot, file, place)),
        };
        // The scope has ended, and with it every sample that was started.
        if !maker.is_wanted() {
            return Ok(false);
        }
        let failed = maker.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (came, failed) {
            (Came::All, None) => Ok(true),
            (Came::Cancelled, _) => Ok(false),
            (Came::All, Some((slot, cause))) => Err(self.failure(job, slot, cause)),
            (Came::Failed(slot, cause), None) => Err(self.failure(job, slot, Box::new(cause))),
            (Came::Failed(slot, cause), Some((other, other_cause))) => Err(if slot < other {
                self.failure(job, slot, Box::new(cause))
            } else {
                self.failure(job, other, other_cause)
            }),
        }
    }

    /// Asks for the object of each sample, and hands each sample to `start` as soon as its object is local.
    fn drain<'s>(
        &self,
        job: &Job,
        ids: &[SampleId],
        slots: Vec<C::Slot<'s>>,
        start: impl Fn(usize, Option<LocalFile>, C::Slot<'s>),
    ) -> Came {
        let (generation, number) = (job.generation, job.number);
        let mut uri = String::new();
        let mut waiting = 0;
        let mut places: Vec<Option<C::Slot<'s>>> = Vec::with_capacity(ids.len());
        for ((slot, &id), place) in ids.iter().enumerate().zip(slots) {
            match &self.cache {
                Some(cache) if self.dataset.write_uri(id, &mut uri) => {
                    let events = self.events.0.clone();
                    cache.ensure_local_then(&uri, move |file| {
                        // OK because where nobody receives, nobody wants the file.
                        let _ = events.send(Event::Local { generation, number, slot, file });
                    });
                    waiting += 1;
                    places.push(Some(place));
                }
                _ => {
                    start(slot, None, place);
                    places.push(None);
                }
            }
        }
        while 0 < waiting {
            match self.events.1.recv().expect("the assembler holds a sender itself") {
                Event::Cancel { generation } if job.generation < generation => return Came::Cancelled,
                Event::Local { generation, number, slot, file }
                    if (generation, number) == (job.generation, job.number) =>
                {
                    waiting -= 1;
                    match (file, places.get_mut(slot).and_then(Option::take)) {
                        (Ok(file), Some(place)) => start(slot, Some(file), place),
                        (Err(cause), _) => return Came::Failed(slot, cause),
                        (Ok(_), None) => {}
                    }
                }
                // Of a batch that was cancelled or failed.
                Event::Cancel { .. } | Event::Local { .. } => {}
            }
        }
        Came::All
    }

    fn failure(&self, job: &Job, slot: usize, cause: BoxError) -> LoaderError {
        let batch = job.plan.batch(job.place.step);
        let id = batch.and_then(|ids| ids.get(slot)).unwrap_or(SampleId(0));
        let mut uri = String::new();
        // It may be what panicked.
        let has_uri = catch_unwind(AssertUnwindSafe(|| self.dataset.write_uri(id, &mut uri))).unwrap_or(false);
        let (epoch, step) = (job.place.epoch, job.place.step);
        LoaderError::Sample(Box::new(FailedSample { id, uri: has_uri.then_some(uri), epoch, step, slot, cause }))
    }
}

/// How waiting for the objects of a batch ended.
enum Came {
    All,
    Cancelled,
    Failed(usize, CacheError),
}

/// Makes the samples of one batch, on all workers at once.
struct Maker<'a, D, C> {
    dataset: &'a D,
    collate: &'a C,
    counters: &'a Counters,
    wanted: &'a AtomicU64,
    seed: u64,
    job: &'a Job,
    ids: &'a [SampleId],
    /// Of several samples that failed, the first in the batch, whichever failed first.
    failure: Mutex<Option<(usize, BoxError)>>,
}

impl<D: Dataset, C: Collate<D::Sample>> Maker<'_, D, C> {
    /// Returns whether the batch is still wanted.
    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) <= self.job.generation
    }

    fn make(&self, slot: usize, file: Option<LocalFile>, place: C::Slot<'_>) {
        // What was queued for a batch that is not wanted any more would hold up the next one, or the loader's end.
        if !self.is_wanted() {
            return;
        }
        let started = Instant::now();
        let Job { place: at, plan, .. } = self.job;
        let position = at.step as u64 * plan.batch_size() as u64 + slot as u64;
        let mut ctx = SampleContext::new(self.ids[slot], file.as_ref(), self.seed, at.epoch, position);
        let made = catch_unwind(AssertUnwindSafe(|| {
            let sample = self.dataset.get(&mut ctx)?;
            self.collate.put(sample, place)
        }));
        self.counters.add_work(started.elapsed());
        let error = match made {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => Box::new(Panicked::new(&*panic)),
        };
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(|(other, _)| slot < *other) {
            *failure = Some((slot, error));
        }
    }
}
