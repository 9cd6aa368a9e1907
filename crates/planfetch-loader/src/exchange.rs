//! Where makers and the reader meet: the schedule behind a lock that is never held while anything is made.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use planfetch_plan::RankPlan;

use crate::batch::Batch;
use crate::error::{FailedSample, LoaderError};
use crate::insight::trace::Trace;
use crate::on_error::{OnError, Tolerance};
use crate::plans::Plans;
use crate::schedule::{Job, Lent, Next, Place, Rules, Schedule, Taken};

/// A batch on its way to the reader.
pub(crate) struct Made<B> {
    pub(crate) batch: Result<Batch<B>, LoaderError>,
    /// The samples that failed, in slot order, where the batch is an error.
    pub(crate) failed: Vec<FailedSample>,
    /// `None` where no batch was begun.
    pub(crate) trace: Option<Trace>,
    /// The batch's size in memory, 0 where its collate does not tell; `None` where there are no samples.
    pub(crate) bytes: Option<u64>,
}

pub(crate) struct Exchange<B> {
    state: Mutex<State<B>>,
    /// Something has changed for makers, or for the reader.
    for_makers: Condvar,
    for_reader: Condvar,
}

struct State<B> {
    schedule: Schedule<Made<B>>,
    tolerance: Tolerance,
}

/// What the reader gets.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and nearly always a batch")]
pub(crate) enum Read<B> {
    /// A batch, its place, its generation, and the first batch that has not been taken now.
    Batch {
        made: Made<B>,
        place: Place,
        generation: u64,
        next: Place,
    },
    /// The end of an epoch, in this generation.
    EndOfEpoch(u64),
    /// Nothing came in time; this is what was waited for.
    TimedOut(Place),
    Ended,
}

/// How the reader came by what it got.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    /// Since when another batch was ready, while the next one was not.
    pub(crate) another_since: Option<Instant>,
}

impl<B> Exchange<B> {
    pub(crate) fn new(rules: Rules, on_error: OnError) -> Self {
        let state = State { schedule: Schedule::new(rules), tolerance: Tolerance::new(on_error) };
        Self { state: Mutex::new(state), for_makers: Condvar::new(), for_reader: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next batch to make, as soon as one may be made; `None` when the loader ends.
    pub(crate) fn next_job(&self, plans: &Plans) -> Option<Job> {
        let mut state = self.lock();
        loop {
            match state.schedule.next() {
                Next::Make(job) => {
                    // The end of an epoch may have become ready on the way.
                    self.wake_reader(&state);
                    if state.schedule.has_room() {
                        // What made room for this batch may have made room for more.
                        self.for_makers.notify_one();
                    }
                    return Some(job);
                }
                Next::Stop => return None,
                Next::FindPlan(epoch) => {
                    // The end of the epoch before may have become ready, and a plan can take a while.
                    self.wake_reader(&state);
                    drop(state);
                    let plan = plans.get(epoch);
                    state = self.lock();
                    self.add_plan(&mut state, epoch, plan);
                }
                Next::Wait => {
                    self.wake_reader(&state);
                    state = self.for_makers.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Returns the next batch to make if there is one now.
    pub(crate) fn try_next_job(&self, plans: &Plans) -> Option<Job> {
        loop {
            let next = self.lock().schedule.next();
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

    fn add_plan(&self, state: &mut State<B>, epoch: u64, plan: Result<RankPlan, LoaderError>) {
        match plan {
            Ok(plan) => state.schedule.add_plan(epoch, plan),
            Err(error) => {
                state
                    .schedule
                    .add_failed_plan(epoch, Made { batch: Err(error), failed: Vec::new(), trace: None, bytes: None });
                self.wake_reader(state);
            }
        }
    }

    /// Wakes the reader if there is something for it.
    fn wake_reader(&self, state: &State<B>) {
        if state.schedule.has_news() {
            self.for_reader.notify_all();
        }
    }

    /// Takes a batch that was made, or why it was not.
    pub(crate) fn deliver(&self, job: &Job, made: Made<B>) {
        let mut state = self.lock();
        let bytes = made.bytes;
        let unwanted = state.schedule.deliver(job, made, bytes);
        self.wake_reader(&state);
        drop(state);
        drop(unwanted);
    }

    /// Returns what comes next, and waits for it, until `deadline` if there is one.
    pub(crate) fn take(&self, deadline: Option<Instant>) -> (Read<B>, Wait) {
        let mut wait = Wait::default();
        let mut state = self.lock();
        loop {
            if let Some(read) = Self::try_take_from(&mut state) {
                let wants_makers = state.schedule.wants_makers();
                drop(state);
                if wants_makers {
                    self.for_makers.notify_one();
                }
                return (read, wait);
            }
            if wait.another_since.is_none() && state.schedule.another_is_ready() {
                wait.another_since = Some(Instant::now());
            }
            state = match deadline {
                None => self.for_reader.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return (Read::TimedOut(state.schedule.position()), wait);
                    }
                    self.for_reader.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Shows what comes next, if it is there and a batch.
    pub(crate) fn peek<R>(&self, see: impl FnOnce(&mut Batch<B>) -> R) -> Option<R> {
        let lent = self.lock().schedule.lend()?;
        let mut lent = Borrowed { exchange: self, lent: Some(lent) };
        let batch = lent.lent.as_mut().and_then(|lent| lent.batch.batch.as_mut().ok());
        batch.map(see)
    }

    /// Returns what comes next if it is there.
    pub(crate) fn try_take(&self) -> Option<Read<B>> {
        Self::try_take_from(&mut self.lock())
    }

    fn try_take_from(state: &mut State<B>) -> Option<Read<B>> {
        let State { schedule, tolerance } = state;
        let generation = schedule.generation();
        match schedule.take(|made| is_error(made, tolerance)) {
            Taken::Batch(made, place) => Some(Read::Batch { made, place, generation, next: schedule.position() }),
            Taken::EndOfEpoch(_) => Some(Read::EndOfEpoch(generation)),
            Taken::Ended => Some(Read::Ended),
            Taken::Wait => None,
        }
    }

    /// Begins anew at `place` and returns the new generation.
    pub(crate) fn restart(&self, place: Place) -> u64 {
        self.begin_anew(|schedule| schedule.restart(place))
    }

    /// Begins anew where an earlier life stopped and returns the new generation.
    pub(crate) fn restore(&self, place: Place, taken_ahead: BTreeSet<usize>) -> u64 {
        self.begin_anew(|schedule| schedule.restore(place, taken_ahead))
    }

    fn begin_anew(&self, begin: impl FnOnce(&mut Schedule<Made<B>>) -> Vec<Made<B>>) -> u64 {
        let mut state = self.lock();
        let unwanted = begin(&mut state.schedule);
        state.tolerance.restart();
        let generation = state.schedule.generation();
        drop(state);
        drop(unwanted);
        self.for_makers.notify_all();
        self.for_reader.notify_all();
        generation
    }

    pub(crate) fn stop(&self) {
        let unwanted = self.lock().schedule.stop();
        drop(unwanted);
        self.for_makers.notify_all();
        self.for_reader.notify_all();
    }

    /// Returns the next batch that the reader takes, and whether it can take it without a restart.
    pub(crate) fn position(&self) -> (Place, bool) {
        let state = self.lock();
        (state.schedule.position(), state.schedule.can_go_on())
    }

    /// Returns the next batch that the reader takes, and the steps behind it that it has taken.
    pub(crate) fn progress(&self) -> (Place, Vec<usize>) {
        let state = self.lock();
        (state.schedule.position(), state.schedule.taken_ahead())
    }

    /// Returns whether a restore has sent the reader into this epoch, and it has taken nothing since.
    pub(crate) fn is_restored_to(&self, epoch: u64) -> bool {
        self.lock().schedule.is_restored_to(epoch)
    }

    /// Takes the end of the epoch if that is what comes next, and returns the generation.
    pub(crate) fn take_end_of_epoch(&self) -> Option<u64> {
        let mut state = self.lock();
        let generation = state.schedule.take_end_of_epoch().then(|| state.schedule.generation());
        drop(state);
        self.for_makers.notify_all();
        generation
    }
}

/// Gives what was lent back, whatever is done with it: the reader would wait for it for good.
struct Borrowed<'a, B> {
    exchange: &'a Exchange<B>,
    lent: Option<Lent<Made<B>>>,
}

impl<B> Drop for Borrowed<'_, B> {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            let mut state = self.exchange.lock();
            let unwanted = state.schedule.give_back(lent);
            drop(state);
            drop(unwanted);
        }
    }
}

/// Returns whether the reader gets an error. A batch with more failed samples than are borne becomes one.
fn is_error<B>(made: &mut Made<B>, tolerance: &mut Tolerance) -> bool {
    if let Ok(batch) = &mut made.batch {
        // What stood in for a sample and failed too is of the same slot.
        let mut slots = batch.failed().chunk_by(|one, other| one.slot == other.slot);
        let beyond = tolerance.count(batch.epoch(), slots.clone().count() as u64);
        // OK because it is below the number of slots.
        if let Some(sample) = beyond.and_then(|beyond| slots.nth(beyond as usize)?.first().cloned()) {
            made.failed = batch.take_failed();
            made.batch = Err(LoaderError::Sample(Box::new(sample)));
        }
    }
    made.batch.is_err()
}
