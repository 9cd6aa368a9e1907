//! Building a loader.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use crossbeam_channel::{bounded, unbounded};
use planfetch_cache::DiskCache;
use planfetch_plan::{PlanProvider, RemainderPolicy, SampleId, World};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::assemble::Assembler;
use crate::collate::Collate;
use crate::controller::PrefetchController;
use crate::coordinator::PrefetchCoordinator;
use crate::dataset::{Dataset, ObjectUris};
use crate::error::LoaderError;
use crate::exchange::Exchange;
use crate::failures::Failures;
use crate::follow::{Step, coordinate};
use crate::loader::{LoaderAndController, PrefetchingLoader};
use crate::plans::Plans;
use crate::schedule::Rules;
use crate::settings::LoaderSettings;
use crate::shared::LoaderShared;
use crate::state::LoaderState;
use crate::stats::Counters;

/// Builds a [`PrefetchingLoader`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct LoaderBuilder<D, C> {
    dataset: D,
    collate: C,
    provider: Box<dyn PlanProvider>,
    cache: Option<DiskCache>,
    settings: LoaderSettings,
    world: World,
    policy: RemainderPolicy,
    state: Option<LoaderState>,
}

impl<D: Dataset, C: Collate<D::Sample>> LoaderBuilder<D, C> {
    /// Starts to build a loader of `dataset`, in batches made by `collate`, in the order of `provider`.
    pub fn new(dataset: D, collate: C, provider: impl PlanProvider + 'static) -> Self {
        Self {
            dataset,
            collate,
            provider: Box::new(provider),
            cache: None,
            settings: LoaderSettings::default(),
            world: World::SINGLE,
            policy: RemainderPolicy::Keep,
            state: None,
        }
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

    /// Sets which rank of several processes this one is, and what becomes of slots that the number of ranks does not
    /// divide. Default: a process that trains alone.
    ///
    /// The rank takes its columns of each global batch; all ranks have the same number of steps.
    /// [`World::from_env`] finds the rank out from the launcher.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use planfetch_loader::{Collate, Dataset, LoaderBuilder, LoaderError};
    /// use planfetch_plan::{RemainderPolicy, World};
    ///
    /// # fn f<D: Dataset, C: Collate<D::Sample>>(builder: LoaderBuilder<D, C>) -> Result<(), Box<dyn std::error::Error>> {
    /// let found = World::from_env()?;
    /// println!("{found}");
    /// let (loader, controller) = builder.with_world(found.world, RemainderPolicy::Drop).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_world(mut self, world: World, policy: RemainderPolicy) -> Self {
        (self.world, self.policy) = (world, policy);
        self
    }

    /// Sets the state to go on from: nothing is loaded that was taken before. Default: step 0 of epoch 0.
    pub fn with_state(mut self, state: &LoaderState) -> Self {
        self.state = Some(state.clone());
        self
    }

    /// Builds the loader. Downloads begin at once.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Setting`] when a setting is out of its range; [`LoaderError::Mismatch`] when the plan is for
    /// another number of samples than the data set has, or samples have objects and there is no cache;
    /// [`LoaderError::Plan`] when the first epoch has no plan, or the rank lies outside its world;
    /// [`LoaderError::Restore`] and [`LoaderError::Mismatch`] when the state is one of another run;
    /// [`LoaderError::Threads`] when no thread can be started.
    pub fn build(self) -> Result<LoaderAndController<C::Batch>, LoaderError> {
        let Self { dataset, collate, provider, cache, settings, world, policy, state } = self;
        settings.validate()?;
        check_fit(&dataset, &*provider, cache.as_ref())?;
        let plans = Plans::new(provider, world, policy);
        let start = state.map(|state| state.resolve(&plans)).transpose()?;
        let (first, taken_ahead) = start.clone().unwrap_or_default();
        plans.get(first.epoch)?;

        let workers = workers(settings.num_workers)?;
        // As many batches can be in the making as may be under way, so that one slow object holds up no other batch.
        // Without workers, a batch is made when it is asked for, and not before.
        let capacity = if workers.is_some() { settings.prefetch_factor } else { 1 };
        let rules = Rules {
            capacity,
            max_bytes: settings.max_batch_bytes,
            in_order: settings.in_order,
            num_epochs: settings.num_epochs,
        };
        let exchange = Exchange::new(rules, settings.on_error);
        let generation = if start.is_some() { exchange.restore(first, taken_ahead) } else { 0 };
        let (dataset, counters) = (Arc::new(dataset), Arc::new(Counters::default()));
        let wanted = Arc::new(AtomicU64::new(generation));
        // One more than can be under way, for the batch that the training loop holds.
        let recycled = bounded(settings.prefetch_factor + 1);
        let collate = Arc::new(collate);
        let makers: Vec<Assembler<D, C>> = (0..capacity)
            .map(|_| Assembler {
                dataset: Arc::clone(&dataset),
                collate: Arc::clone(&collate),
                cache: cache.clone(),
                workers: workers.clone(),
                counters: Arc::clone(&counters),
                wanted: Arc::clone(&wanted),
                seed: plans.seed(),
                on_error: settings.on_error,
                events: unbounded(),
                recycled: recycled.clone(),
                spare: None,
                last: None,
            })
            .collect();
        let uris: Arc<dyn ObjectUris> = Arc::new(dataset);
        let download_concurrency = cache.as_ref().map(|cache| cache.settings().download_concurrency);
        let coordinator = cache.map(|cache| PrefetchCoordinator::with_uris(cache, Arc::clone(&uris), &settings));
        let moves = unbounded();
        let shared = Arc::new(LoaderShared {
            exchange,
            plans,
            counters,
            failures: Failures::default(),
            ledger: Mutex::default(),
            settings: settings.clone(),
            download_concurrency,
            makers: makers.iter().map(|maker| maker.events.0.clone()).collect(),
            wanted,
            moves: Mutex::new(coordinator.is_some().then_some(moves.0)),
        });
        // From here on, dropping the loader ends the threads that were started.
        let mut loader = PrefetchingLoader::new(Arc::clone(&shared), uris);
        if let Some(coordinator) = coordinator {
            let shared = Arc::clone(&shared);
            loader.spawn("planfetch-coordinator", move || {
                coordinate(coordinator, &moves.1, &shared.plans, &shared.settings);
            })?;
        }
        shared.tell(generation, Step::To(first));
        for (i, mut maker) in makers.into_iter().enumerate() {
            if workers.is_none() {
                loader.set_inline(Box::new(move |job| maker.assemble(job)));
                break;
            }
            let shared = Arc::clone(&shared);
            loader.spawn(&format!("planfetch-assembler-{i}"), move || {
                while let Some(job) = shared.exchange.next_job(&shared.plans) {
                    if let Some(made) = maker.assemble(&job) {
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

/// Starts the workers; `None` where there are none.
fn workers(num_workers: usize) -> Result<Option<Arc<ThreadPool>>, LoaderError> {
    if num_workers == 0 {
        return Ok(None);
    }
    let pool = ThreadPoolBuilder::new().num_threads(num_workers).thread_name(|i| format!("planfetch-worker-{i}"));
    Ok(Some(Arc::new(pool.build().map_err(|error| LoaderError::Threads(Box::new(error)))?)))
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
