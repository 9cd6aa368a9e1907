//! What loaders are made of, to make several of the same.

use std::sync::Arc;

use planfetch::prelude::*;

use crate::batches::{Batches, Convert, Converted};

/// Makes loaders of the same data in the same order.
pub(crate) trait Open<O>: Send + Sync {
    /// Starts a loader of `world`'s columns.
    fn open(&self, world: World) -> Result<Box<dyn Batches<O>>, LoaderError>;

    fn provider(&self) -> &Arc<dyn PlanProvider>;

    fn policy(&self) -> RemainderPolicy;
}

pub(crate) struct Parts<D, C: Collate<D::Sample>, O>
where
    D: Dataset,
{
    pub(crate) dataset: Arc<D>,
    pub(crate) collate: Arc<C>,
    pub(crate) provider: Arc<dyn PlanProvider>,
    pub(crate) cache: Option<DiskCache>,
    pub(crate) settings: LoaderSettings,
    pub(crate) policy: RemainderPolicy,
    pub(crate) convert: Arc<Convert<C::Batch, O>>,
}

impl<D, C, O> Open<O> for Parts<D, C, O>
where
    D: Dataset,
    C: Collate<D::Sample>,
    O: 'static,
{
    fn open(&self, world: World) -> Result<Box<dyn Batches<O>>, LoaderError> {
        let (dataset, collate) = (Arc::clone(&self.dataset), Arc::clone(&self.collate));
        let mut builder = LoaderBuilder::new(dataset, collate, Arc::clone(&self.provider))
            .with_settings(self.settings.clone())
            .with_world(world, self.policy);
        if let Some(cache) = &self.cache {
            builder = builder.with_cache(cache.clone());
        }
        let (loader, _) = builder.build()?;
        Ok(Box::new(Converted::new(loader, Arc::clone(&self.convert))))
    }

    fn provider(&self) -> &Arc<dyn PlanProvider> {
        &self.provider
    }

    fn policy(&self) -> RemainderPolicy {
        self.policy
    }
}
