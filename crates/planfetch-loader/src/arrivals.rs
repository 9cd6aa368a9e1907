//! The samples of a batch whose objects are on their way, and those that have come.

use std::time::Instant;

use crossbeam_channel::Receiver;

use crate::assemble::Event;
use crate::collate::Collate;
use crate::dataset::Dataset;
use crate::fill::{Attempt, Ready};
use crate::insight::cause::Cause;
use crate::insight::trace::SampleTrace;

/// Slots that wait for the objects of their samples, and a chunk of samples that no longer do.
pub(crate) struct Arrivals<S> {
    /// How many answers of the cache are still to come.
    pub(crate) waiting: usize,
    /// By the place in the row: the slots of samples that wait, and since when.
    pub(crate) slots: Vec<Option<(S, Instant)>>,
    chunk: Vec<Ready<S>>,
    chunk_len: usize,
    attempt_number: u32,
}

impl<S> Arrivals<S> {
    pub(crate) fn new<D: Dataset, C: Collate<D::Sample>>(attempt: &Attempt<'_, D, C>, attempt_number: u32) -> Self {
        let chunk_len = attempt.chunk_len();
        Self { waiting: 0, slots: Vec::new(), chunk: Vec::new(), chunk_len, attempt_number }
    }

    /// Adds a sample that can be made.
    pub(crate) fn add(&mut self, ready: Ready<S>, start: impl Fn(Vec<Ready<S>>)) {
        if self.chunk.is_empty() {
            self.chunk.reserve(self.chunk_len);
        }
        self.chunk.push(ready);
        if self.chunk_len <= self.chunk.len() {
            self.flush(start);
        }
    }

    /// Hands over what has come.
    pub(crate) fn flush(&mut self, start: impl Fn(Vec<Ready<S>>)) {
        if !self.chunk.is_empty() {
            start(std::mem::take(&mut self.chunk));
        }
    }

    /// Returns whether an object is to come that is needed.
    pub(crate) fn is_waiting<D: Dataset, C: Collate<D::Sample>>(&self, attempt: &Attempt<'_, D, C>) -> bool {
        let needed = attempt.needed();
        // Looked at one by one only when a sample has failed.
        0 < self.waiting && (self.slots.len() <= needed || self.slots[..needed].iter().any(Option::is_some))
    }

    /// Takes what has happened. Returns false when the batch is not wanted any more.
    pub(crate) fn take_all<D: Dataset, C: Collate<D::Sample>>(
        &mut self,
        events: &Receiver<Event>,
        attempt: &Attempt<'_, D, C>,
        start: impl Fn(Vec<Ready<S>>),
    ) -> bool {
        events.try_iter().all(|event| self.take(event, attempt, &start))
    }

    /// Takes an event. Returns false when the batch is not wanted any more.
    pub(crate) fn take<D: Dataset, C: Collate<D::Sample>>(
        &mut self,
        event: Event,
        attempt: &Attempt<'_, D, C>,
        start: impl Fn(Vec<Ready<S>>),
    ) -> bool {
        let job = attempt.job();
        match event {
            Event::Cancel { generation } => return generation <= job.generation,
            Event::Local { generation, number, attempt: of, index, file }
                if (generation, number, of) == (job.generation, job.number, self.attempt_number) =>
            {
                self.waiting -= 1;
                let Some((slot, asked)) = self.slots.get_mut(index).and_then(Option::take) else { return true };
                let local = Instant::now();
                match file {
                    Ok(file) => self.add(Ready { index, file: Some(file), slot, asked, local }, start),
                    Err(cause) => {
                        let id = attempt.row()[index].id;
                        attempt.finished(SampleTrace {
                            id,
                            asked,
                            // What did not come tells no timeline; it was the store that was waited for.
                            fetch: vec![(Cause::Request, local)],
                            local,
                            started: local,
                            done: local,
                        });
                        attempt.fail(index, cause);
                    }
                }
            }
            Event::Describe { place, answer } if place == job.place => {
                // OK because whoever asked may have stopped waiting for an answer.
                let _ = answer.send(self.describe(attempt));
            }
            // Of a batch that was cancelled or failed.
            Event::Local { .. } | Event::Describe { .. } | Event::Failed => {}
        }
        true
    }

    fn describe<D: Dataset, C: Collate<D::Sample>>(&self, attempt: &Attempt<'_, D, C>) -> String {
        let (of, mut uri) = (attempt.row().len(), String::new());
        match self.slots.iter().position(Option::is_some) {
            Some(first) if attempt.write_uri(first, &mut uri).is_ok() => {
                format!("{} of its {of} objects are not local yet, first of them {uri}", self.waiting)
            }
            _ => format!("{of} samples are being decoded"),
        }
    }
}
