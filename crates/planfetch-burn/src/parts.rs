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
        let (dataset, collate) = (Shared(Arc::clone(&self.dataset)), Shared(Arc::clone(&self.collate)));
        let mut builder = LoaderBuilder::new(dataset, collate, Arc::clone(&self.provider))
            .with_settings(self.settings.clone())
            .with_world(world, self.policy);
        if let Some(cache) = &self.cache {
            builder = builder.with_cache(cache.clone());
        }
        let (loader, _) = builder.build()?;
        Ok(Box::new(Converted { loader, convert: Arc::clone(&self.convert) }))
    }

    fn provider(&self) -> &Arc<dyn PlanProvider> {
        &self.provider
    }

    fn policy(&self) -> RemainderPolicy {
        self.policy
    }
}

/// A data set or a collate that several loaders use.
struct Shared<T>(Arc<T>);

impl<D: Dataset> ObjectUris for Shared<D> {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.0.write_uri(id, uri)
    }

    fn object_size(&self, id: SampleId) -> Option<u64> {
        self.0.object_size(id)
    }
}

impl<D: Dataset> Dataset for Shared<D> {
    type Sample = D::Sample;

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<D::Sample, BoxError> {
        self.0.get(ctx)
    }
}

impl<S, C: Collate<S>> Collate<S> for Shared<C> {
    type Buffer = C::Buffer;
    type Slot<'b> = C::Slot<'b>;
    type Batch = C::Batch;

    fn buffer(&self) -> C::Buffer {
        self.0.buffer()
    }

    fn slots<'b>(&self, buffer: &'b mut C::Buffer, len: usize) -> Vec<C::Slot<'b>> {
        self.0.slots(buffer, len)
    }

    fn put(&self, sample: S, slot: C::Slot<'_>) -> Result<(), BoxError> {
        self.0.put(sample, slot)
    }

    fn finish(&self, buffer: C::Buffer) -> C::Batch {
        self.0.finish(buffer)
    }

    fn num_bytes(&self, batch: &C::Batch) -> Option<u64> {
        self.0.num_bytes(batch)
    }

    fn recycle(&self, batch: C::Batch) -> Option<C::Buffer> {
        self.0.recycle(batch)
    }
}
