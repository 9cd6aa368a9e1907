//! Where makers and the reader meet: the schedule behind a lock that is never held while anything is made.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use planfetch_plan::PlanView;

use crate::batch::Batch;
use crate::error::LoaderError;
use crate::plans::Plans;
use crate::schedule::{Job, Next, Place, Schedule, Taken};

/// A batch on its way to the reader.
type Made<B> = Result<Batch<B>, LoaderError>;

pub(crate) struct Exchange<B> {
    schedule: Mutex<Schedule<Made<B>>>,
    /// Something has changed for makers, or for the reader.
    for_makers: Condvar,
    for_reader: Condvar,
}

/// What the reader gets.
pub(crate) enum Read<B> {
    /// A batch, its place, and the generation that it belongs to.
    Batch(Made<B>, Place, u64),
    /// The end of an epoch, in this generation.
    EndOfEpoch(u64),
    Ended,
}

impl<B> Exchange<B> {
    pub(crate) fn new(schedule: Schedule<Made<B>>) -> Self {
        Self { schedule: Mutex::new(schedule), for_makers: Condvar::new(), for_reader: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Schedule<Made<B>>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next batch to make, as soon as one may be made; `None` when the loader ends.
    pub(crate) fn next_job(&self, plans: &Plans) -> Option<Job> {
        let mut schedule = self.lock();
        loop {
            match schedule.next() {
                Next::Make(job) => {
                    // The end of an epoch may have become ready on the way.
                    self.for_reader.notify_all();
                    return Some(job);
                }
                Next::Stop => return None,
                Next::FindPlan(epoch) => {
                    // The end of the epoch before may have become ready, and a plan can take a while.
                    self.for_reader.notify_all();
                    drop(schedule);
                    let plan = plans.get(epoch);
                    schedule = self.lock();
                    self.add_plan(&mut schedule, epoch, plan);
                }
                Next::Wait => {
                    self.for_reader.notify_all();
                    schedule = self.for_makers.wait(schedule).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Returns the next batch to make if there is one now.
    pub(crate) fn try_next_job(&self, plans: &Plans) -> Option<Job> {
        loop {
            let next = self.lock().next();
            match next {
                Next::Make(job) => return Some(job),
                Next::FindPlan(epoch) => {
                    let plan = plans.get(epoch);
                    self.add_plan(&mut self.lock(), epoch, plan);
                }
                Next::Wait | Next::Stop => return None,
            }
        }
    }

    fn add_plan(&self, schedule: &mut Schedule<Made<B>>, epoch: u64, plan: Result<PlanView, LoaderError>) {
        match plan {
            Ok(plan) => schedule.add_plan(epoch, plan),
            Err(error) => {
                schedule.add_failed_plan(epoch, Err(error));
                self.for_reader.notify_all();
            }
        }
    }

    /// Takes a batch that was made, or why it was not.
    pub(crate) fn deliver(&self, job: &Job, made: Made<B>) {
        let unwanted = self.lock().deliver(job, made);
        self.for_reader.notify_all();
        drop(unwanted);
    }

    /// Returns what comes next in plan order, and waits for it.
    pub(crate) fn take(&self) -> Read<B> {
        let mut schedule = self.lock();
        loop {
            match Self::try_take_from(&mut schedule) {
                Some(read) => {
                    drop(schedule);
                    self.for_makers.notify_all();
                    return read;
                }
                None => schedule = self.for_reader.wait(schedule).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Returns what comes next in plan order if it is there.
    pub(crate) fn try_take(&self) -> Option<Read<B>> {
        Self::try_take_from(&mut self.lock())
    }

    fn try_take_from(schedule: &mut Schedule<Made<B>>) -> Option<Read<B>> {
        match schedule.take() {
            Taken::Batch(made, place) => {
                if made.is_err() {
                    schedule.fail(place);
                }
                Some(Read::Batch(made, place, schedule.generation()))
            }
            Taken::EndOfEpoch(_) => Some(Read::EndOfEpoch(schedule.generation())),
            Taken::Ended => Some(Read::Ended),
            Taken::Wait => None,
        }
    }

    /// Begins anew at `place` and returns the new generation.
    pub(crate) fn restart(&self, place: Place) -> u64 {
        let mut schedule = self.lock();
        let unwanted = schedule.restart(place);
        let generation = schedule.generation();
        drop(schedule);
        drop(unwanted);
        self.for_makers.notify_all();
        self.for_reader.notify_all();
        generation
    }

    pub(crate) fn stop(&self) {
        let unwanted = self.lock().stop();
        drop(unwanted);
        self.for_makers.notify_all();
        self.for_reader.notify_all();
    }

    /// Returns the next batch that the reader takes, and whether it can take it without a restart.
    pub(crate) fn position(&self) -> (Place, bool) {
        let schedule = self.lock();
        (schedule.position(), schedule.can_go_on())
    }

    /// Takes the end of the epoch if that is what comes next, and returns the generation.
    pub(crate) fn take_end_of_epoch(&self) -> Option<u64> {
        let mut schedule = self.lock();
        let generation = schedule.take_end_of_epoch().then(|| schedule.generation());
        drop(schedule);
        self.for_makers.notify_all();
        generation
    }
}
