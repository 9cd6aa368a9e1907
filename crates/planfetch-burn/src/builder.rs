//! Building a loader for burn.

use std::fmt;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::Device;
use planfetch::prelude::*;

use crate::controller::PlanController;
use crate::loader::PlanDataLoader;
use crate::parts::{Open, Parts};
use crate::to_tensors::ToTensors;

/// Builds a [`PlanDataLoader`].
///
/// # Example
///
/// Images, collated by the workers and uploaded from where they lie:
///
/// ```no_run
/// use std::sync::Arc;
///
/// use planfetch::prelude::*;
/// use planfetch_burn::PlanDataLoaderBuilder;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let index = load_index_csv("train.csv", &CsvSettings::default())?;
/// let images = ImageSettings::default();
/// let train = PlanDataLoaderBuilder::new(
///     ImageDataset::new(index.clone(), images.clone())?,
///     ShuffleOncePerEpochPlanProvider::new(index.len(), 64, 42)?,
/// )
/// .with_cache(DiskCache::builder("/mnt/nvme/planfetch").build()?)
/// .build(ImageCollate::new(&images)?)?;
/// let controller = train.controller();
/// // For burn's `SupervisedTraining::new(directory, train, valid)`.
/// let train = Arc::new(train);
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct PlanDataLoaderBuilder<D> {
    dataset: D,
    provider: Arc<dyn PlanProvider>,
    cache: Option<DiskCache>,
    settings: LoaderSettings,
    world: World,
    policy: RemainderPolicy,
    start_epoch: u64,
    state: Option<LoaderState>,
    device: Device,
    staging: bool,
}

impl<D: Dataset> PlanDataLoaderBuilder<D> {
    /// Starts to build a loader of `dataset` in the order of `provider`.
    pub fn new(dataset: D, provider: impl PlanProvider + 'static) -> Self {
        Self {
            dataset,
            provider: Arc::new(provider),
            cache: None,
            settings: LoaderSettings::default(),
            world: World::SINGLE,
            policy: RemainderPolicy::Keep,
            start_epoch: 0,
            state: None,
            device: Device::default(),
            staging: false,
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

    /// Sets which of several processes this one is, and what becomes of samples that ranks and devices do not divide.
    /// Default: a process that trains alone, and [`RemainderPolicy::Keep`].
    ///
    /// The devices of one process take parts of what its rank has. With [`RemainderPolicy::Pad`], the samples that are
    /// repeated are in the batch like any other: a [`ToTensors`] of one's own sees them in
    /// [`ImageBatch::padding`](planfetch::image::ImageBatch::padding).
    pub fn with_world(mut self, world: World, policy: RemainderPolicy) -> Self {
        (self.world, self.policy) = (world, policy);
        self
    }

    /// Sets the epoch that the first call of `iter` begins, counted from 0. Default: 0.
    ///
    /// A `Learner` that resumes by `checkpoint(n)` begins its epoch `n + 1`, counted from 1: set `n`.
    pub fn with_start_epoch(mut self, epoch: u64) -> Self {
        self.start_epoch = epoch;
        self
    }

    /// Sets the state to go on from, in the place of a start epoch: the first call of `iter` delivers what is left of
    /// its epoch.
    pub fn with_state(mut self, state: &LoaderState) -> Self {
        self.state = Some(state.clone());
        self
    }

    /// Sets the device that tensors are made on. Default: burn's default device. burn's `Learner` sets its own.
    pub fn with_device(mut self, device: &Device) -> Self {
        self.device = device.clone();
        self
    }

    /// Sets whether batches go to the device by [`Device::staging`]: pinned memory, on backends that have it.
    /// Default: false, since some of them stop computing while memory is pinned; measure it. It has no effect on a
    /// batcher, which makes its tensors itself, nor on a [`ToTensors`] without an
    /// [`into_tensors`](ToTensors::into_tensors) of its own.
    pub fn with_staging(mut self, staging: bool) -> Self {
        self.staging = staging;
        self
    }

    /// Builds a loader of batches that `collate` makes and [`ToTensors::into_tensors`] uploads. Downloads begin at once.
    ///
    /// # Errors
    ///
    /// As for [`LoaderBuilder::build`]; also when the settings give up the order of batches.
    pub fn build<C>(self, collate: C) -> Result<PlanDataLoader<<C::Batch as ToTensors>::Tensors>, LoaderError>
    where
        C: Collate<D::Sample>,
        C::Batch: ToTensors,
        <C::Batch as ToTensors>::Tensors: 'static,
    {
        let staging = self.staging;
        self.build_with(collate, move |batch: Batch<C::Batch>, device: &Device| {
            Ok(ToTensors::into_tensors(batch, device, staging)?)
        })
    }

    /// Builds a loader of batches that burn's own `batcher` makes of the samples, on the thread that takes them.
    /// Downloads begin at once.
    ///
    /// # Errors
    ///
    /// As for [`build`](Self::build).
    pub fn build_with_batcher<O, B>(self, batcher: B) -> Result<PlanDataLoader<O>, LoaderError>
    where
        D::Sample: Send + 'static,
        O: 'static,
        B: Batcher<D::Sample, O> + 'static,
    {
        self.build_with(VecCollate, move |batch: Batch<Vec<D::Sample>>, device: &Device| {
            Ok(batcher.batch(batch.into_inner(), device))
        })
    }

    fn build_with<C, O>(
        self,
        collate: C,
        convert: impl Fn(Batch<C::Batch>, &Device) -> Result<O, BoxError> + Send + Sync + 'static,
    ) -> Result<PlanDataLoader<O>, LoaderError>
    where
        C: Collate<D::Sample>,
        O: 'static,
    {
        let Self { dataset, provider, cache, settings, world, policy, start_epoch, state, device, .. } = self;
        if !settings.in_order {
            return Err(LoaderError::Setting {
                name: "in_order",
                value: "false".into(),
                allowed: "must be true: burn is told a progress that only plan order makes exact".into(),
            });
        }
        let controller = PlanController::new(Arc::clone(&provider), start_epoch, state);
        let parts: Arc<dyn Open<O>> = Arc::new(Parts {
            dataset: Arc::new(dataset),
            collate: Arc::new(collate),
            provider,
            cache,
            settings,
            policy,
            convert: Arc::new(convert),
        });
        PlanDataLoader::start(parts, world, device, controller)
    }
}

impl<D> fmt::Debug for PlanDataLoaderBuilder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanDataLoaderBuilder")
            .field("provider", &self.provider)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
