//! The other way round: samples for burn's own loader.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::data::dataset::{Dataset as BurnsDataset, DatasetError};
use planfetch::prelude::*;

use crate::batches::Panicked;

/// The samples of a planfetch [`Dataset`], with the objects that a cache makes local, as burn's
/// [`Dataset`](burn::data::dataset::Dataset): for those who keep burn's own loader.
///
/// burn asks for one sample at a time, so a worker of burn's waits for each object that is not local yet; give that
/// loader many workers. Where burn asks for several at once, they are downloaded together. A sample's random numbers are
/// the same in every epoch, since burn does not tell which one it is.
///
/// # Panics
///
/// As burn wants it, `get` panics when the index is out of range. Whatever else happens is an error: a panic in the data
/// set too.
///
/// # Example
///
/// ```
/// use burn::data::dataset::Dataset as _;
/// use planfetch::prelude::*;
/// use planfetch_burn::BurnDataset;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("cat.txt");
/// # std::fs::write(&path, "meow")?;
/// # let uri = format!("file://{}", path.display());
/// let index = SampleIndex::from_rows([(uri, 0)])?;
/// let cache = DiskCache::builder(folder.path().join("cache")).build()?;
/// let dataset = BurnDataset::new(ObjectPathDataset::new(index, |file| Ok(file.len()))).with_cache(cache);
/// assert_eq!((dataset.len(), dataset.get(0)?), (1, (4, 0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BurnDataset<D> {
    dataset: D,
    cache: Option<DiskCache>,
    seed: u64,
}

impl<D: Dataset> BurnDataset<D> {
    /// Makes a burn data set of the samples of `dataset`.
    pub fn new(dataset: D) -> Self {
        Self { dataset, cache: None, seed: 0 }
    }

    /// Sets the cache that makes objects local. Default: none, for data sets without objects.
    #[must_use]
    pub fn with_cache(mut self, cache: DiskCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets the seed of [`SampleContext::rng`]. Default: 0.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Begins to download the object of a sample, if it has one and there is a cache.
    fn prefetch(&self, id: SampleId) -> Option<planfetch::cache::PrefetchGuard> {
        let (cache, mut uri) = (self.cache.as_ref()?, String::new());
        if !self.dataset.write_uri(id, &mut uri) {
            return None;
        }
        match self.dataset.object_range(id) {
            Some(range) => cache.prefetch_range(&uri, range).ok(),
            None => cache.prefetch(&uri).ok(),
        }
    }

    fn sample(&self, id: SampleId) -> Result<D::Sample, BoxError> {
        let mut uri = String::new();
        let file = match &self.cache {
            _ if !self.dataset.write_uri(id, &mut uri) => None,
            None => return Err(format!("sample {id} has an object, {uri}, but there is no cache").into()),
            Some(cache) => Some(match self.dataset.object_range(id) {
                Some(range) => cache.ensure_local_range(&uri, range)?,
                None => cache.ensure_local(&uri)?,
            }),
        };
        self.dataset.get(&mut SampleContext::new(id, file.as_ref(), self.seed, 0, id.0))
    }
}

impl<D: Dataset> BurnsDataset<D::Sample> for BurnDataset<D> {
    fn get(&self, index: usize) -> Result<D::Sample, DatasetError> {
        let len = BurnsDataset::len(self);
        assert!(index < len, "sample {index} of {len}");
        // OK because an index fits in 64 bits.
        let id = SampleId(index as u64);
        // The data set is user code. A panic on a thread of burn's would end the epoch in silence.
        let sample = catch_unwind(AssertUnwindSafe(|| self.sample(id)));
        let sample = sample.unwrap_or_else(|panic| Err(Panicked::new(&*panic).into()));
        sample.map_err(|cause| DatasetError::new(Failed { id, cause }))
    }

    fn get_many(&self, indexes: Vec<usize>) -> Result<Vec<D::Sample>, DatasetError> {
        // An error, or a panic of user code, shows when its sample is asked for.
        let _under_way: Vec<_> = indexes
            .iter()
            .filter(|&&index| index < BurnsDataset::len(self))
            .filter_map(|&index| catch_unwind(AssertUnwindSafe(|| self.prefetch(SampleId(index as u64)))).ok()?)
            .collect();
        indexes.into_iter().map(|index| self.get(index)).collect()
    }

    fn len(&self) -> usize {
        // OK because more samples than there are addresses can't be held.
        usize::try_from(self.dataset.len()).unwrap_or(usize::MAX)
    }
}

impl<D> fmt::Debug for BurnDataset<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BurnDataset").field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// A sample that can't be had.
#[derive(Debug, thiserror::Error)]
#[error("can't load sample {id}: {cause}")]
struct Failed {
    id: SampleId,
    cause: BoxError,
}
