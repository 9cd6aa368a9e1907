//! Steering a loader that a `Learner` has taken away.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use planfetch::loader::LoaderStats;
use planfetch::prelude::*;

use crate::batches::Steer;

/// Says which epoch a [`PlanDataLoader`](crate::PlanDataLoader) delivers next, and tells where it is and how it is doing.
///
/// It holds for the loader that it comes from, and for all that burn makes of that one by `to_device` and `slice`. So it
/// is what a program keeps of a loader that it hands to a `Learner`. A clone steers the same.
///
/// # Example
///
/// ```no_run
/// # fn f<O: 'static>(train: planfetch_burn::PlanDataLoader<O>) -> Result<(), Box<dyn std::error::Error>> {
/// let controller = train.controller();
/// // ... training by burn's `SupervisedTraining` ...
/// println!("{}", controller.report());
/// std::fs::write("loader.json", serde_json::to_string(&controller.state())?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PlanController {
    shared: Arc<Shared>,
}

struct Shared {
    provider: Arc<dyn PlanProvider>,
    start: Mutex<Start>,
    /// The loaders that were iterated over last: one for each part of the columns.
    loaders: Mutex<Vec<(World, Arc<dyn Steer>)>>,
}

/// Where to go on. Whoever counts epochs takes it on once.
#[derive(Clone, Debug)]
struct Start {
    version: u64,
    epoch: u64,
    state: Option<LoaderState>,
    /// Whether an iterator has begun there.
    is_begun: bool,
}

impl Start {
    fn new(version: u64, epoch: u64, state: Option<LoaderState>) -> Self {
        Self { version, epoch, state, is_begun: false }
    }
}

/// Counts the epochs of one loader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    /// Which start it counts from.
    version: u64,
    next: u64,
}

impl PlanController {
    /// Makes a controller for loaders that begin with `epoch`, or with `state`.
    pub(crate) fn new(provider: Arc<dyn PlanProvider>, epoch: u64, state: Option<LoaderState>) -> Self {
        let epoch = state.as_ref().map_or(epoch, LoaderState::epoch);
        let start = Mutex::new(Start::new(1, epoch, state));
        Self { shared: Arc::new(Shared { provider, start, loaders: Mutex::default() }) }
    }

    /// Has the next call of `iter` begin `epoch`, counted from 0. Those after it go on from there.
    ///
    /// Nothing changes where a state that was restored, or was given to the builder, leads into this epoch and no iterator
    /// has begun there: a loop that names each of its epochs goes on in the middle of the first.
    pub fn set_epoch(&self, epoch: u64) {
        let mut start = lock(&self.shared.start);
        if start.is_begun || start.state.is_none() || start.epoch != epoch {
            *start = Start::new(start.version + 1, epoch, None);
        }
    }

    /// Has the next call of `iter` go on from a state: it delivers what is left of that epoch.
    ///
    /// # Errors
    ///
    /// As for [`LoaderState::check`].
    pub fn restore(&self, state: &LoaderState) -> Result<(), LoaderError> {
        state.check(&*self.shared.provider)?;
        let mut start = lock(&self.shared.start);
        *start = Start::new(start.version + 1, state.epoch(), Some(state.clone()));
        Ok(())
    }

    /// Returns where the run is: the next batch that the training loop takes. All slices have the same, between steps.
    ///
    /// It holds after the training too, when burn has dropped the loader. A start that was set and not yet begun does not
    /// show in it.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.first().state()
    }

    /// Returns the epoch of the next batch, counted from 0. burn counts from 1.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.first().state().epoch()
    }

    /// Returns the step of the next batch within its epoch, counted from 0.
    #[must_use]
    pub fn step(&self) -> usize {
        self.first().step()
    }

    /// Returns where the time of the run went, and what it was bound by; where there are slices, that of the first one.
    #[must_use]
    pub fn report(&self) -> LoaderReport {
        self.first().report()
    }

    /// Returns what the loader has done so far; where there are slices, that of the first one.
    #[must_use]
    pub fn stats(&self) -> LoaderStats {
        self.first().stats()
    }

    /// Returns the samples that could not be loaded, of all slices.
    #[must_use]
    pub fn failed_samples(&self) -> Vec<FailedSample> {
        lock(&self.shared.loaders).iter().flat_map(|(_, loader)| loader.failed_samples()).collect()
    }

    /// Takes note of a loader that is being iterated over.
    pub(crate) fn attach(&self, world: World, loader: Arc<dyn Steer>) {
        let mut loaders = lock(&self.shared.loaders);
        // Another division takes the place of what was before.
        loaders.retain(|(other, _)| other.world_size == world.world_size && other.rank != world.rank);
        loaders.push((world, loader));
        loaders.sort_by_key(|(world, _)| world.rank);
    }

    /// Begins to count.
    pub(crate) fn count(&self) -> Count {
        Count { version: 0, next: 0 }
    }

    /// Returns the epoch that the next call of [`claim`](Self::claim) gives.
    pub(crate) fn upcoming(&self, count: &Count) -> u64 {
        let start = lock(&self.shared.start);
        if start.version == count.version { count.next } else { start.epoch }
    }

    /// Returns where to begin, without taking it.
    pub(crate) fn start(&self) -> (u64, Option<LoaderState>) {
        let start = lock(&self.shared.start);
        (start.epoch, start.state.clone())
    }

    /// Takes the next epoch, and the state to restore where it is to go on from one.
    pub(crate) fn claim(&self, count: &mut Count) -> (u64, Option<LoaderState>) {
        let mut start = lock(&self.shared.start);
        start.is_begun = true;
        let (epoch, state) =
            if start.version == count.version { (count.next, None) } else { (start.epoch, start.state.clone()) };
        *count = Count { version: start.version, next: epoch.saturating_add(1) };
        (epoch, state)
    }

    fn first(&self) -> Arc<dyn Steer> {
        let loaders = lock(&self.shared.loaders);
        let (_, loader) = loaders.first().expect("building a loader attaches one, and others only take its place");
        Arc::clone(loader)
    }
}

impl fmt::Debug for PlanController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = lock(&self.shared.start);
        f.debug_struct("PlanController").field("provider", &self.shared.provider).field("start", &*start).finish()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
