//! Keeps the window around the reader local.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use planfetch_cache::{DiskCache, EvictionMode, NextUse, PrefetchGuard};
use planfetch_plan::{RankBatch, RankPlan, RankSlot};

use crate::dataset::{ObjectUris, object_range, object_size, write_uri};
use crate::next_use::{Occurrences, Uses, next_use};
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
/// let settings = LoaderSettings { batches_ahead: 2.into(), batches_back: 0, prune_every: 1, ..LoaderSettings::default() };
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
    max_bytes: u64,
    window: Window,
    // Invariant: plans follow each other without a gap; the first is the one that the reader is in.
    plans: VecDeque<Segment>,
    // Invariant: one entry for each step that the window has asked for and not given up, in order.
    held: VecDeque<HeldStep>,
    /// What they take on disk, as far as it is known.
    held_bytes: u64,
    has_warned: bool,
    /// What a window before this one held.
    leaving: Vec<PrefetchGuard>,
    /// The plan before the one that the reader is in: steps of it may still be held.
    before: Option<Segment>,
    /// What becomes of objects that leave the window.
    eviction: EvictionMode,
    /// The next step that the reader takes, counted through over all plans.
    cursor: u64,
    uri: String,
}

/// A plan, and the step and the sample at which it begins, counted through.
struct Segment {
    plan: RankPlan,
    start: u64,
    first_sample: u64,
    /// Made where the cache asks when objects are used next.
    occurrences: Option<Occurrences>,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.plan.plan().num_batches() as u64
    }

    fn end_sample(&self) -> u64 {
        self.first_sample + self.plan.plan().num_ids() as u64
    }

    fn uses(&self) -> Option<Uses<'_>> {
        let occurrences = self.occurrences.as_ref()?;
        Some(Uses { plan: &self.plan, occurrences, start: self.first_sample })
    }
}

/// The objects of a step, with the place of each sample in its plan.
struct HeldStep {
    guards: Vec<(PrefetchGuard, RankSlot)>,
    bytes: u64,
}

impl PrefetchCoordinator {
    /// Makes a coordinator for the objects that `uris` names. It does nothing until a plan is set.
    ///
    /// Of the settings, it heeds `batches_ahead` (by itself, it does not find out what `Auto` should be), `batches_back`,
    /// `prune_every` and `max_ahead_bytes`.
    pub fn new(cache: DiskCache, uris: impl ObjectUris + 'static, settings: &LoaderSettings) -> Self {
        Self::with_uris(cache, Arc::new(uris), settings)
    }

    pub(crate) fn with_uris(cache: DiskCache, uris: Arc<dyn ObjectUris>, settings: &LoaderSettings) -> Self {
        let (batches_ahead, batches_back, prune_every) =
            (settings.batches_ahead.initial(), settings.batches_back, settings.prune_every.max(1));
        let eviction = cache.eviction();
        Self {
            cache,
            uris,
            batches_ahead,
            batches_back,
            prune_every,
            max_bytes: settings.max_ahead_bytes.unwrap_or(u64::MAX),
            window: Window::new(batches_back, batches_ahead, prune_every, 0),
            plans: VecDeque::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            has_warned: false,
            leaving: Vec::new(),
            before: None,
            eviction,
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

    /// Returns whether the next plan is wanted: the window reaches beyond the end of the last one known, or the cache
    /// evicts by the next use ([`EvictionMode::Clairvoyant`]).
    #[must_use]
    pub fn wants_next_plan(&self) -> bool {
        let last = self.plans.back();
        // When objects are used next is known by the next plan.
        last.is_some_and(|last| self.window.wants_more(self.cursor, last.end()))
            || (self.eviction == EvictionMode::Clairvoyant && self.plans.len() == 1)
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
        self.leaving.extend(self.held.drain(..).flat_map(|step| step.guards).map(|(guard, _)| guard));
        self.held_bytes = 0;
        // The order of uses goes on, so that what is said of later ones stays later.
        let first_sample = self.plans.back().map_or(0, Segment::end_sample);
        self.before = None;
        self.plans = VecDeque::from([self.segment(plan, 0, first_sample)]);
        self.cursor = step as u64;
        self.window = Window::new(self.batches_back, self.batches_ahead, self.prune_every, self.cursor);
    }

    pub(crate) fn add_plan(&mut self, plan: RankPlan) {
        let (start, first_sample) = self.plans.back().map_or((0, 0), |last| (last.end(), last.end_sample()));
        let segment = self.segment(plan, start, first_sample);
        self.plans.push_back(segment);
    }

    fn segment(&self, plan: RankPlan, start: u64, first_sample: u64) -> Segment {
        let occurrences = (self.eviction == EvictionMode::Clairvoyant).then(|| Occurrences::new(plan.plan()));
        Segment { plan, start, first_sample, occurrences }
    }

    /// Moves the reader to a step of the plan that it is in.
    pub(crate) fn move_within(&mut self, step: usize) {
        if let Some(current) = self.plans.front() {
            self.cursor = current.start.saturating_add(step as u64);
        }
    }

    pub(crate) fn move_to_next_plan(&mut self) {
        if let Some(next) = self.plans.get(1) {
            self.cursor = next.start;
            self.before = self.plans.pop_front();
        }
    }

    /// Sets how many steps ahead of the reader are kept local.
    pub(crate) fn set_batches_ahead(&mut self, batches_ahead: usize) {
        self.batches_ahead = batches_ahead;
        self.window.set_ahead(batches_ahead);
    }

    /// Moves the window behind the reader, by at most `max_steps` steps, and returns whether it is not there yet and can
    /// go on.
    pub(crate) fn follow(&mut self, max_steps: usize) -> bool {
        let Some(last) = self.plans.back() else { return false };
        let known = last.end();
        let mut is_behind = true;
        for _ in 0..max_steps {
            self.make_room(known);
            let moves = self.window.advance(self.cursor, known, usize::from(self.has_room()));
            for step in moves.enter {
                let step = self.ask_for(step);
                self.held_bytes = self.held_bytes.saturating_add(step.bytes);
                self.held.push_back(step);
            }
            self.give_up(moves.leave);
            // Where bytes are what keeps it from going on, the reader has to move first.
            is_behind = moves.is_behind && self.has_room();
            if !is_behind {
                self.end_leaving();
                break;
            }
        }
        is_behind
    }

    /// Gives up what lies behind the reader where it takes room from what lies ahead: first what the groups of
    /// `prune_every` would have kept for a while, then what `batches_back` keeps.
    fn make_room(&mut self, known: u64) {
        let wants_more = self.window.end() < self.cursor.saturating_add(self.batches_ahead as u64).min(known);
        for back in [self.batches_back as u64, 0] {
            if wants_more && !self.has_room() {
                let leave = self.window.shed(self.cursor.saturating_sub(back));
                self.give_up(leave);
            }
        }
    }

    /// Gives up what a window before this one held and this one does not hold too.
    fn end_leaving(&mut self) {
        match self.eviction {
            EvictionMode::Window => PrefetchGuard::evict_all(self.leaving.drain(..)),
            // Whoever drops a guard says that nobody knows when its object is used next.
            _ => self.leaving.clear(),
        }
    }

    /// Returns whether the next step may be asked for: the one that the reader takes next may in any case.
    fn has_room(&self) -> bool {
        let next = self.window.end();
        self.max_bytes == u64::MAX
            || next <= self.cursor
            || self.held_bytes.saturating_add(self.bytes_of(next)) <= self.max_bytes
    }

    /// Returns what the objects of a step take, as far as it is known.
    fn bytes_of(&self, step: u64) -> u64 {
        let sizes = self
            .batch(step)
            .map(|batch| batch.iter().map(|slot| object_size(&*self.uris, slot.sample)).fold(0, u64::saturating_add));
        sizes.unwrap_or(0)
    }

    /// Returns this rank's batch of a step, counted through over all plans.
    fn batch(&self, step: u64) -> Option<RankBatch> {
        let segment = self.plans.iter().rev().find(|segment| segment.start <= step)?;
        // OK because the step lies in a plan that is in memory.
        segment.plan.batch((step - segment.start) as usize)
    }

    fn give_up(&mut self, steps: Range<u64>) {
        // OK because the window gives up only steps that it has asked for, and those are held.
        let leaving: Vec<HeldStep> = self.held.drain(..(steps.end - steps.start) as usize).collect();
        let bytes = leaving.iter().map(|step| step.bytes).fold(0, u64::saturating_add);
        self.held_bytes = self.held_bytes.saturating_sub(bytes);
        let guards = steps
            .zip(leaving)
            .flat_map(|(number, step)| step.guards.into_iter().map(move |(guard, slot)| (number, guard, slot)));
        match self.eviction {
            EvictionMode::Window => PrefetchGuard::evict_all(guards.map(|(_, guard, _)| guard)),
            _ => PrefetchGuard::release_all(guards.map(|(step, guard, slot)| (guard, self.next_use(step, slot)))),
        }
    }

    /// Returns when the object of a slot of this step, counted through, is used next.
    fn next_use(&self, step: u64, slot: RankSlot) -> NextUse {
        let segments = || self.before.iter().chain(&self.plans);
        let current = segments().rfind(|segment| segment.start <= step);
        let Some(current) = current.and_then(Segment::uses) else { return NextUse::Unknown };
        let next = segments().find(|segment| step < segment.start).and_then(Segment::uses);
        next_use(current, next, slot.position, slot.sample)
    }

    fn ask_for(&mut self, step: u64) -> HeldStep {
        let mut held = HeldStep { guards: Vec::new(), bytes: self.bytes_of(step) };
        let Some(batch) = self.batch(step) else { return held };
        held.guards.reserve(batch.len());
        for slot in batch.iter() {
            // A URI that can't be made or served is an error of the sample, and is reported when the sample is wanted.
            if matches!(write_uri(&*self.uris, slot.sample, &mut self.uri), Ok(true)) {
                let guard = match object_range(&*self.uris, slot.sample) {
                    Ok(None) => self.cache.prefetch(&self.uri),
                    Ok(Some(range)) => self.cache.prefetch_range(&self.uri, range),
                    Err(_) => continue,
                };
                held.guards.extend(guard.ok().map(|guard| (guard, slot)));
            }
        }
        if self.max_bytes < held.bytes && !self.has_warned {
            self.has_warned = true;
            tracing::warn!(
                batch_bytes = held.bytes,
                max_ahead_bytes = self.max_bytes,
                "max_ahead_bytes is less than one batch; batches are fetched one at a time"
            );
        }
        held
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
