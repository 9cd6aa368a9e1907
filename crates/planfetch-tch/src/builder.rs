//! Building a loader for tch.

use std::fmt;
use std::sync::Arc;

use planfetch::prelude::*;

use crate::loader::TchLoader;
use crate::to_tensors::ToTensors;

/// Builds a [`TchLoader`].
///
/// # Example
///
/// ```no_run
/// use planfetch::prelude::*;
/// use planfetch_tch::TchLoaderBuilder;
/// use tch::Device;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let index = load_index_csv("train.csv", &CsvSettings::default())?;
/// let images = ImageSettings::default();
/// let mut train = TchLoaderBuilder::new(
///     ImageDataset::new(index.clone(), images.clone())?,
///     ShuffleOncePerEpochPlanProvider::new(index.len(), 64, 42)?,
/// )
/// .with_cache(DiskCache::builder("/mnt/nvme/planfetch").build()?)
/// .build(ImageCollate::<u8>::with_dtype(&images)?)?
/// .to_device(Device::cuda_if_available())
/// .normalize(IMAGENET_MEAN, IMAGENET_STD)
/// .channels_last(true);
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct TchLoaderBuilder<D> {
    dataset: D,
    provider: Arc<dyn PlanProvider>,
    cache: Option<DiskCache>,
    settings: LoaderSettings,
    world: World,
    policy: RemainderPolicy,
    state: Option<LoaderState>,
}

impl<D: Dataset> TchLoaderBuilder<D> {
    /// Starts to build a loader of `dataset` in the order of `provider`.
    pub fn new(dataset: D, provider: impl PlanProvider + 'static) -> Self {
        Self {
            dataset,
            provider: Arc::new(provider),
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

    /// Sets which of several processes this one is, and what becomes of samples that ranks do not divide. Default: a
    /// process that trains alone, and [`RemainderPolicy::Keep`].
    pub fn with_world(mut self, world: World, policy: RemainderPolicy) -> Self {
        (self.world, self.policy) = (world, policy);
        self
    }

    /// Sets the state to go on from. Default: the beginning.
    pub fn with_state(mut self, state: &LoaderState) -> Self {
        self.state = Some(state.clone());
        self
    }

    /// Builds a loader of batches that `collate` makes. Downloads begin at once.
    ///
    /// # Errors
    ///
    /// As for [`LoaderBuilder::build`].
    pub fn build<C>(self, collate: C) -> Result<TchLoader<C::Batch>, LoaderError>
    where
        C: Collate<D::Sample>,
        C::Batch: ToTensors,
    {
        let mut builder = LoaderBuilder::new(self.dataset, collate, Arc::clone(&self.provider))
            .with_settings(self.settings)
            .with_world(self.world, self.policy);
        if let Some(cache) = self.cache {
            builder = builder.with_cache(cache);
        }
        if let Some(state) = &self.state {
            builder = builder.with_state(state);
        }
        let (loader, _) = builder.build()?;
        Ok(TchLoader::new(loader, self.provider, self.world))
    }
}

impl<D> fmt::Debug for TchLoaderBuilder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TchLoaderBuilder")
            .field("provider", &self.provider)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
