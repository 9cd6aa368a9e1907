//! Keeps the window around the reader local.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use planfetch_cache::{DiskCache, PrefetchGuard};
use planfetch_plan::RankPlan;

use crate::dataset::ObjectUris;
use crate::settings::LoaderSettings;
use crate::window::Window;

/// Walks a plan with the reader: has the objects of the steps ahead downloaded, and those behind deleted.
///
/// A [`PrefetchingLoader`](crate::PrefetchingLoader) has one on a thread of its own. It is public for those who own
/// their loop: set the plan, [`prime`](Self::prime), take files from the cache, and report each batch.
///
/// # Example
///
/// ```
/// use planfetch_cache::DiskCache;
/// use planfetch_index::SampleIndex;
/// use planfetch_loader::{LoaderSettings, PrefetchCoordinator};
/// use planfetch_plan::{PlanProvider, SequentialPlanProvider};
///
/// # let folder = tempfile::tempdir()?;
/// # let uris: Vec<String> = (0..6).map(|i| {
/// #     let path = folder.path().join(format!("{i}.txt"));
/// #     std::fs::write(&path, vec![i; 10]).expect("written");
/// #     format!("file://{}", path.display())
/// # }).collect();
/// let cache = DiskCache::builder(folder.path().join("cache")).build()?;
/// let index = SampleIndex::from_rows(uris.iter().map(|uri| (uri, 0)))?;
/// let plan = SequentialPlanProvider::new(index.len(), 2)?.plan(0)?;
///
/// let settings = LoaderSettings { batches_ahead: 2, batches_back: 0, prune_every: 1, ..LoaderSettings::default() };
/// let mut coordinator = PrefetchCoordinator::new(cache.clone(), index.clone(), &settings);
/// coordinator.set_plan(plan.clone());
/// coordinator.prime();
/// for step in 0..plan.num_batches() {
///     for id in plan.batch(step).expect("below the number of batches") {
///         let file = cache.ensure_local(&index.uri(id.index()).expect("below the length"))?;
///         assert_eq!(file.len(), 10);
///     }
///     coordinator.on_batch_yielded(step);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PrefetchCoordinator {
    cache: DiskCache,
    uris: Arc<dyn ObjectUris>,
    batches_ahead: usize,
    batches_back: usize,
    prune_every: usize,
    window: Window,
    // Invariant: plans follow each other without a gap; the first is the one that the reader is in.
    plans: VecDeque<Segment>,
    // Invariant: one entry for each step that the window has asked for and not given up, in order.
    held: VecDeque<Vec<PrefetchGuard>>,
    /// What a window before this one held.
    leaving: Vec<PrefetchGuard>,
    /// The next step that the reader takes, counted through over all plans.
    cursor: u64,
    uri: String,
}

/// A plan and the step at which it begins, counted through.
struct Segment {
    plan: RankPlan,
    start: u64,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.plan.plan().num_batches() as u64
    }
}

impl PrefetchCoordinator {
    /// Makes a coordinator for the objects that `uris` names. It does nothing until a plan is set.
    ///
    /// Of the settings, it heeds `batches_ahead`, `batches_back` and `prune_every`.
    pub fn new(cache: DiskCache, uris: impl ObjectUris + 'static, settings: &LoaderSettings) -> Self {
        Self::with_uris(cache, Arc::new(uris), settings)
    }

    pub(crate) fn with_uris(cache: DiskCache, uris: Arc<dyn ObjectUris>, settings: &LoaderSettings) -> Self {
        let (batches_ahead, batches_back, prune_every) =
            (settings.batches_ahead, settings.batches_back, settings.prune_every.max(1));
        Self {
            cache,
            uris,
            batches_ahead,
            batches_back,
            prune_every,
            window: Window::new(batches_back, batches_ahead, prune_every, 0),
            plans: VecDeque::new(),
            held: VecDeque::new(),
            leaving: Vec::new(),
            cursor: 0,
            uri: String::new(),
        }
    }

    /// Sets the plan that the reader takes next, from its first step on. Downloads begin with [`prime`](Self::prime).
    ///
    /// Objects that the window held for another plan go, unless the new window wants them too.
    /// Of a [`RankPlan`], only the objects of its rank are downloaded.
    pub fn set_plan(&mut self, plan: impl Into<RankPlan>) {
        self.set_plan_at(plan, 0);
    }

    /// Sets the plan that the reader takes next, from step `step` on. See [`set_plan`](Self::set_plan).
    pub fn set_plan_at(&mut self, plan: impl Into<RankPlan>, step: usize) {
        let is_primed = !self.held.is_empty();
        self.move_to(plan.into(), step);
        if is_primed {
            self.prime();
        }
    }

    /// Sets the plan that follows the last one known, so that the window can go on into it.
    pub fn set_next_plan(&mut self, plan: impl Into<RankPlan>) {
        self.add_plan(plan.into());
        self.prime();
    }

    /// Returns whether the window reaches beyond the end of the last plan known.
    #[must_use]
    pub fn wants_next_plan(&self) -> bool {
        self.plans.back().is_some_and(|last| self.window.wants_more(self.cursor, last.end()))
    }

    /// Begins to download the steps ahead of the reader.
    pub fn prime(&mut self) {
        while self.follow(usize::MAX) {}
    }

    /// Takes note that the reader has taken the batch of step `step` of its plan, and moves the window behind it.
    pub fn on_batch_yielded(&mut self, step: usize) {
        self.move_within(step.saturating_add(1));
        self.prime();
    }

    /// Takes note that the reader has reached the end of its plan and goes on with the one that was set as the next.
    /// Where none was set, nothing changes.
    pub fn start_next_plan(&mut self) {
        self.move_to_next_plan();
        self.prime();
    }

    /// Moves the reader to a step of another plan; the window follows by [`follow`](Self::follow).
    pub(crate) fn move_to(&mut self, plan: RankPlan, step: usize) {
        // What the old window held is given up when the new one has been asked for, so that what both want is neither
        // deleted nor cancelled.
        self.leaving.extend(self.held.drain(..).flatten());
        self.plans = VecDeque::from([Segment { plan, start: 0 }]);
        self.cursor = step as u64;
        self.window = Window::new(self.batches_back, self.batches_ahead, self.prune_every, self.cursor);
    }

    pub(crate) fn add_plan(&mut self, plan: RankPlan) {
        let start = self.plans.back().map_or(0, Segment::end);
        self.plans.push_back(Segment { plan, start });
    }

    /// Moves the reader to a step of the plan that it is in.
    pub(crate) fn move_within(&mut self, step: usize) {
        if let Some(current) = self.plans.front() {
            self.cursor = current.start + step as u64;
        }
    }

    pub(crate) fn move_to_next_plan(&mut self) {
        if let Some(next) = self.plans.get(1) {
            self.cursor = next.start;
            self.plans.pop_front();
        }
    }

    /// Moves the window behind the reader, by at most `max_steps` steps, and returns whether it is not there yet.
    pub(crate) fn follow(&mut self, max_steps: usize) -> bool {
        let Some(last) = self.plans.back() else { return false };
        let moves = self.window.advance(self.cursor, last.end(), max_steps);
        for step in moves.enter {
            let guards = self.ask_for(step);
            self.held.push_back(guards);
        }
        // OK because the window gives up only steps that it has asked for, and those are held.
        let leaving = self.held.drain(..(moves.leave.end - moves.leave.start) as usize);
        PrefetchGuard::evict_all(leaving.flatten());
        if !moves.is_behind {
            PrefetchGuard::evict_all(self.leaving.drain(..));
        }
        moves.is_behind
    }

    fn ask_for(&mut self, step: u64) -> Vec<PrefetchGuard> {
        let Some(segment) = self.plans.iter().rev().find(|segment| segment.start <= step) else { return Vec::new() };
        // OK because the step lies in a plan that is in memory.
        let Some(batch) = segment.plan.batch((step - segment.start) as usize) else { return Vec::new() };
        let mut guards = Vec::with_capacity(batch.len());
        for slot in batch.iter() {
            if self.uris.write_uri(slot.sample, &mut self.uri) {
                // A URI that can't be served is an error of the sample, and is reported when the sample is wanted.
                guards.extend(self.cache.prefetch(&self.uri).ok());
            }
        }
        guards
    }
}

impl fmt::Debug for PrefetchCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefetchCoordinator")
            .field("window", &self.window)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}
