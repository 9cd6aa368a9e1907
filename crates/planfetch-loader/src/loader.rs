//! The loader: its public face, and its threads.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use planfetch_cache::DiskCache;
use planfetch_plan::{PlanProvider, SampleId};
use rayon::ThreadPoolBuilder;

use crate::assemble::{Assembled, Assembler, Event};
use crate::batch::Batch;
use crate::collate::Collate;
use crate::controller::PrefetchController;
use crate::coordinator::PrefetchCoordinator;
use crate::dataset::{Dataset, ObjectUris};
use crate::error::LoaderError;
use crate::exchange::{Exchange, Read};
use crate::plans::Plans;
use crate::schedule::{Job, Place, Schedule};
use crate::settings::LoaderSettings;
use crate::stats::Counters;

/// Batches in plan order, made ahead of the training loop.
///
/// It is an iterator over the batches of an epoch: `for batch in &mut loader` is the whole loop. After the last batch of
/// an epoch it returns `None` once, and then goes on with the next epoch, in that epoch's own order;
/// [`PrefetchController::set_epoch`] goes to any other. A loop that was left early goes on where it was left.
///
/// After an error it returns `None` until the controller sets an epoch: an error never repeats itself, and no sample is
/// left out in silence.
///
/// Dropping it stops its threads; what the cache has local stays.
///
/// # Example
///
/// ```
/// use planfetch_loader::{BoxError, Dataset, LoaderBuilder, ObjectUris, SampleContext, VecCollate};
/// use planfetch_plan::{SampleId, ShuffleOncePerEpochPlanProvider};
///
/// struct Squares;
/// impl ObjectUris for Squares {
///     fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool { false }
/// }
/// impl Dataset for Squares {
///     type Sample = u64;
///     fn len(&self) -> u64 { 100 }
///     fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> { Ok(ctx.id().0.pow(2)) }
/// }
///
/// let plan = ShuffleOncePerEpochPlanProvider::new(100, 16, 42)?;
/// let (mut loader, controller) = LoaderBuilder::new(Squares, VecCollate, plan).build()?;
/// for epoch in 0..2 {
///     controller.set_epoch(epoch)?;
///     let mut sum: u64 = 0;
///     for batch in &mut loader {
///         sum += batch?.iter().sum::<u64>();
///     }
///     assert_eq!(sum, (0..100_u64).map(|i| i * i).sum::<u64>());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PrefetchingLoader<B> {
    shared: Arc<LoaderShared<B>>,
    /// Makes batches on the reader's thread, where there are no workers.
    inline: Option<InlineAssembler<B>>,
    threads: Vec<JoinHandle<()>>,
}

/// A loader, and what steers it.
pub type LoaderAndController<B> = (PrefetchingLoader<B>, PrefetchController<B>);

/// Makes a batch on the thread that calls it.
type InlineAssembler<B> = Box<dyn FnMut(&Job) -> Assembled<B> + Send>;

/// What the loader, its controllers and its threads share.
pub(crate) struct LoaderShared<B> {
    pub(crate) exchange: Exchange<B>,
    pub(crate) plans: Plans,
    pub(crate) counters: Arc<Counters>,
    /// One for each assembler.
    cancels: Vec<Sender<Event>>,
    /// The generation that is wanted: samples of earlier ones are not decoded any more.
    wanted: Arc<AtomicU64>,
    /// To the coordinator's thread; `None` without a cache, and when the loader has ended.
    moves: Mutex<Option<Sender<Move>>>,
}

/// What the coordinator is told about the reader, with the generation: words of earlier ones may come late.
struct Move {
    generation: u64,
    step: Step,
}

enum Step {
    /// It goes on at this place, wherever it was.
    To(Place),
    /// It has taken the batch at this place.
    Taken(Place),
    /// It has come to the end of an epoch.
    EndOfEpoch,
}

impl<B> LoaderShared<B> {
    /// Goes to a place, unless the reader is there already and can go on.
    pub(crate) fn go_to(&self, place: Place) {
        let (position, _) = self.exchange.position();
        if place == (Place { epoch: position.epoch.saturating_add(1), step: 0 })
            && let Some(generation) = self.exchange.take_end_of_epoch()
        {
            // The reader took the last batch and did not ask for another; that was the end of its epoch all the same.
            self.tell(generation, Step::EndOfEpoch);
        }
        if self.exchange.position() == (place, true) {
            return;
        }
        let generation = self.exchange.restart(place);
        self.tell(generation, Step::To(place));
        self.cancel(generation);
    }

    /// Has assemblers and workers drop what belongs to earlier generations.
    fn cancel(&self, generation: u64) {
        self.wanted.fetch_max(generation, Ordering::Relaxed);
        for cancel in &self.cancels {
            // OK because an assembler that has ended needs no cancelling.
            let _ = cancel.send(Event::Cancel { generation });
        }
    }

    fn tell(&self, generation: u64, step: Step) {
        if let Some(moves) = &*self.moves.lock().unwrap_or_else(PoisonError::into_inner) {
            // OK because without a coordinator nothing is prefetched, which changes no batch.
            let _ = moves.send(Move { generation, step });
        }
    }
}

impl<B> Iterator for PrefetchingLoader<B> {
    type Item = Result<Batch<B>, LoaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        let started = Instant::now();
        let read = match &mut self.inline {
            None => self.shared.exchange.take(),
            Some(assemble) => take_inline(&self.shared, assemble),
        };
        self.shared.counters.add_stall(started.elapsed());
        match read {
            Read::Batch(Ok(batch), place, generation) => {
                self.shared.counters.add_batch(batch.ids().len());
                self.shared.tell(generation, Step::Taken(place));
                Some(Ok(batch))
            }
            Read::Batch(Err(error), ..) => Some(Err(error)),
            Read::EndOfEpoch(generation) => {
                self.shared.tell(generation, Step::EndOfEpoch);
                None
            }
            Read::Ended => None,
        }
    }
}

/// Makes the next batch on this thread.
fn take_inline<B>(shared: &LoaderShared<B>, assemble: &mut InlineAssembler<B>) -> Read<B> {
    loop {
        if let Some(read) = shared.exchange.try_take() {
            return read;
        }
        let Some(job) = shared.exchange.try_next_job(&shared.plans) else {
            // The end of an epoch may have become ready.
            return shared.exchange.try_take().unwrap_or(Read::Ended);
        };
        if let Some(made) = assemble(&job).transpose() {
            shared.exchange.deliver(&job, made);
        }
    }
}

impl<B> Drop for PrefetchingLoader<B> {
    fn drop(&mut self) {
        self.shared.exchange.stop();
        self.shared.cancel(u64::MAX);
        *self.shared.moves.lock().unwrap_or_else(PoisonError::into_inner) = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing left to say: panics of user code were caught.
            let _ = thread.join();
        }
    }
}

impl<B> fmt::Debug for PrefetchingLoader<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, _) = self.shared.exchange.position();
        f.debug_struct("PrefetchingLoader")
            .field("epoch", &place.epoch)
            .field("step", &place.step)
            .finish_non_exhaustive()
    }
}

/// Builds a [`PrefetchingLoader`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct LoaderBuilder<D, C> {
    dataset: D,
    collate: C,
    provider: Box<dyn PlanProvider>,
    cache: Option<DiskCache>,
    settings: LoaderSettings,
}

impl<D: Dataset, C: Collate<D::Sample>> LoaderBuilder<D, C> {
    /// Starts to build a loader of `dataset`, in batches made by `collate`, in the order of `provider`.
    pub fn new(dataset: D, collate: C, provider: impl PlanProvider + 'static) -> Self {
        Self { dataset, collate, provider: Box::new(provider), cache: None, settings: LoaderSettings::default() }
    }

    /// Sets the cache that makes objects local. Default: none, for data sets without objects.
    pub fn with_cache(mut self, cache: DiskCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets how the loader works ahead. Default: [`LoaderSettings::default`].
    pub fn with_settings(mut self, settings: LoaderSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Builds the loader, at step 0 of epoch 0. Downloads begin at once.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Setting`] when a setting is out of its range; [`LoaderError::Mismatch`] when the plan is for
    /// another number of samples than the data set has, or samples have objects and there is no cache;
    /// [`LoaderError::Plan`] when the first epoch has no plan; [`LoaderError::Threads`] when no thread can be started.
    pub fn build(self) -> Result<LoaderAndController<C::Batch>, LoaderError> {
        let Self { dataset, collate, provider, cache, settings } = self;
        settings.validate()?;
        check_fit(&dataset, &*provider, cache.as_ref())?;
        let plans = Plans::new(provider);
        plans.get(0)?;

        let (dataset, collate) = (Arc::new(dataset), Arc::new(collate));
        let counters = Arc::new(Counters::default());
        let wanted = Arc::new(AtomicU64::new(0));
        let workers = match settings.num_workers {
            0 => None,
            n => {
                let pool = ThreadPoolBuilder::new().num_threads(n).thread_name(|i| format!("planfetch-worker-{i}"));
                Some(Arc::new(pool.build().map_err(|error| LoaderError::Threads(Box::new(error)))?))
            }
        };
        // As many batches can be in the making as may be under way, so that one slow object holds up no other batch.
        let n_assemblers = if workers.is_some() { settings.prefetch_factor } else { 1 };
        // One more than can be under way, for the batch that the training loop holds.
        let recycled = bounded(settings.prefetch_factor + 1);
        let assemblers: Vec<Assembler<D, C>> = (0..n_assemblers)
            .map(|_| Assembler {
                dataset: Arc::clone(&dataset),
                collate: Arc::clone(&collate),
                cache: cache.clone(),
                workers: workers.clone(),
                counters: Arc::clone(&counters),
                wanted: Arc::clone(&wanted),
                seed: plans.seed(),
                events: unbounded(),
                recycled: recycled.clone(),
                spare: None,
            })
            .collect();
        let coordinator =
            cache.map(|cache| PrefetchCoordinator::with_uris(cache, Arc::new(Uris(Arc::clone(&dataset))), &settings));
        let moves = unbounded();
        // Without workers, a batch is made when it is asked for, and not before.
        let capacity = if workers.is_some() { settings.prefetch_factor } else { 1 };
        let shared = Arc::new(LoaderShared {
            exchange: Exchange::new(Schedule::new(capacity, settings.num_epochs)),
            plans,
            counters,
            wanted,
            cancels: assemblers.iter().map(|assembler| assembler.events.0.clone()).collect(),
            moves: Mutex::new(coordinator.is_some().then_some(moves.0)),
        });
        // From here on, dropping the loader ends the threads that were started.
        let mut loader = PrefetchingLoader { shared: Arc::clone(&shared), inline: None, threads: Vec::new() };
        if let Some(coordinator) = coordinator {
            let (shared, num_epochs) = (Arc::clone(&shared), settings.num_epochs);
            loader
                .spawn("planfetch-coordinator", move || coordinate(coordinator, &moves.1, &shared.plans, num_epochs))?;
        }
        shared.tell(0, Step::To(Place { epoch: 0, step: 0 }));
        for (i, mut assembler) in assemblers.into_iter().enumerate() {
            if workers.is_none() {
                loader.inline = Some(Box::new(move |job| assembler.assemble(job)));
                break;
            }
            let shared = Arc::clone(&shared);
            loader.spawn(&format!("planfetch-assembler-{i}"), move || {
                while let Some(job) = shared.exchange.next_job(&shared.plans) {
                    if let Some(made) = assembler.assemble(&job).transpose() {
                        shared.exchange.deliver(&job, made);
                    }
                }
            })?;
        }
        let controller = PrefetchController::new(shared);
        Ok((loader, controller))
    }
}

impl<D, C> fmt::Debug for LoaderBuilder<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoaderBuilder")
            .field("provider", &self.provider)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<B> PrefetchingLoader<B> {
    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), LoaderError> {
        let thread = Builder::new().name(name.into()).spawn(run);
        self.threads.push(thread.map_err(|error| LoaderError::Threads(Box::new(error)))?);
        Ok(())
    }
}

/// Checks that data set, plan and cache belong together.
fn check_fit<D: Dataset>(
    dataset: &D,
    provider: &dyn PlanProvider,
    cache: Option<&DiskCache>,
) -> Result<(), LoaderError> {
    let (in_plan, in_data) = (provider.num_samples(), dataset.len());
    if in_plan != in_data {
        return Err(LoaderError::Mismatch {
            problem: format!(
                "the plan is for {in_plan} samples, but the data set has {in_data}; make the provider with the data \
                 set's length"
            ),
        });
    }
    let mut uri = String::new();
    if cache.is_none() && 0 < in_data && dataset.write_uri(SampleId(0), &mut uri) {
        return Err(LoaderError::Mismatch {
            problem: format!("samples have objects, such as {uri}, but there is no cache; give one by with_cache"),
        });
    }
    Ok(())
}

/// How many steps the coordinator asks for before it listens again: a wide window is thousands of objects.
const STEPS_AT_ONCE: usize = 16;

/// The thread of the coordinator: follows the reader until the loader ends.
fn coordinate(mut coordinator: PrefetchCoordinator, moves: &Receiver<Move>, plans: &Plans, num_epochs: Option<u64>) {
    let mut generation = 0;
    // The epoch that the reader is in, and the last one whose plan the coordinator knows.
    let (mut epoch, mut last_epoch) = (0, 0);
    let mut is_behind = false;
    loop {
        let next = if is_behind {
            match moves.try_recv() {
                Ok(next) => Some(next),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return,
            }
        } else {
            match moves.recv() {
                Ok(next) => Some(next),
                Err(_) => return,
            }
        };
        if let Some(Move { generation: of, step }) = next {
            match step {
                Step::To(place) if generation <= of => {
                    // An epoch without a plan is reported where its batches are made.
                    let Ok(plan) = plans.get(place.epoch) else { continue };
                    generation = of;
                    (epoch, last_epoch) = (place.epoch, place.epoch);
                    coordinator.move_to(plan, place.step);
                }
                Step::Taken(place) if of == generation && place.epoch == epoch => coordinator.move_past(place.step),
                Step::EndOfEpoch if of == generation => {
                    // The reader may have overtaken a coordinator that is behind, and so does not know the next plan.
                    if last_epoch == epoch {
                        last_epoch += u64::from(add_next_plan(&mut coordinator, plans, last_epoch, num_epochs));
                    }
                    epoch = epoch.saturating_add(1);
                    coordinator.move_to_next_plan();
                }
                // It belongs to another place than the one that the coordinator was sent to last.
                Step::To(_) | Step::Taken(_) | Step::EndOfEpoch => {}
            }
        }
        is_behind = coordinator.follow(STEPS_AT_ONCE);
        // No further than one epoch beyond the reader's, however wide the window and small the data.
        while !is_behind && coordinator.wants_next_plan() && last_epoch <= epoch {
            if !add_next_plan(&mut coordinator, plans, last_epoch, num_epochs) {
                break;
            }
            last_epoch += 1;
            is_behind = coordinator.follow(STEPS_AT_ONCE);
        }
    }
}

/// Tells the coordinator the plan that follows that of `epoch`, and returns whether there is one.
fn add_next_plan(coordinator: &mut PrefetchCoordinator, plans: &Plans, epoch: u64, num_epochs: Option<u64>) -> bool {
    let Some(next) = epoch.checked_add(1).filter(|next| num_epochs.is_none_or(|end| *next < end)) else { return false };
    // An epoch without a plan is reported where its batches are made.
    let Ok(plan) = plans.get(next) else { return false };
    coordinator.add_plan(plan);
    true
}

/// The objects of a data set that the workers use too.
struct Uris<D>(Arc<D>);

impl<D: Dataset> ObjectUris for Uris<D> {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.0.write_uri(id, uri)
    }
}
