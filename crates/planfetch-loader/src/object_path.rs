//! A ready data set: objects, labels, and functions that make samples of them.

use std::fmt;

use planfetch_cache::LocalFile;
use planfetch_index::SampleIndex;
use planfetch_plan::SampleId;

use crate::dataset::{Dataset, ObjectUris, SampleContext};
use crate::error::BoxError;

/// The objects of an index with their labels: a function decodes each object, another transforms the sample.
///
/// A sample is the pair of what the functions return and the label, as `i64`. The transform gets the
/// [`SampleContext`], whose random generator makes augmentations that depend neither on workers nor on ranks.
///
/// # Example
///
/// ```
/// use planfetch_index::SampleIndex;
/// use planfetch_loader::rand_chacha::rand_core::Rng;
/// use planfetch_loader::{BoxError, LoaderBuilder, ObjectPathDataset, VecCollate};
/// use planfetch_plan::SequentialPlanProvider;
///
/// # let folder = tempfile::tempdir()?;
/// # std::fs::write(folder.path().join("a.txt"), "12 30")?;
/// # let uri = format!("file://{}", folder.path().join("a.txt").display());
/// let index = SampleIndex::from_rows([(uri, 3)])?;
/// let dataset = ObjectPathDataset::new(index, |file| {
///     let mut bytes = Vec::new();
///     file.read_into(&mut bytes)?;
///     let text = String::from_utf8(bytes)?;
///     Ok(text.split(' ').map(str::parse).collect::<Result<Vec<u32>, _>>()?)
/// })
/// .with_transform(|mut numbers: Vec<u32>, ctx| {
///     if ctx.rng().next_u32() % 2 == 0 {
///         numbers.reverse();
///     }
///     Ok(numbers)
/// });
///
/// let plan = SequentialPlanProvider::new(1, 1)?;
/// let cache = planfetch_cache::DiskCache::builder(folder.path().join("cache")).build()?;
/// let (mut loader, _) = LoaderBuilder::new(dataset, VecCollate, plan).with_cache(cache).build()?;
/// let batch = loader.next().ok_or("one batch")??;
/// let (numbers, label) = &batch[0];
/// assert_eq!((numbers.iter().sum::<u32>(), *label), (42, 3));
/// # Ok::<(), BoxError>(())
/// ```
pub struct ObjectPathDataset<S> {
    index: SampleIndex,
    load: Box<Load<S>>,
}

/// Makes a sample of its object.
type Load<S> = dyn Fn(&LocalFile, &mut SampleContext<'_>) -> Result<S, BoxError> + Send + Sync;

impl<S: 'static> ObjectPathDataset<S> {
    /// Makes a data set of the objects in `index`, which `decode` makes samples of.
    pub fn new(index: SampleIndex, decode: impl Fn(&LocalFile) -> Result<S, BoxError> + Send + Sync + 'static) -> Self {
        Self { index, load: Box::new(move |file, _| decode(file)) }
    }

    /// Adds a function that comes behind what makes the samples so far: an augmentation, say.
    pub fn with_transform<T>(
        self,
        transform: impl Fn(S, &mut SampleContext<'_>) -> Result<T, BoxError> + Send + Sync + 'static,
    ) -> ObjectPathDataset<T> {
        let load = self.load;
        ObjectPathDataset { index: self.index, load: Box::new(move |file, ctx| transform(load(file, ctx)?, ctx)) }
    }

    /// Returns the index.
    #[must_use]
    pub fn index(&self) -> &SampleIndex {
        &self.index
    }
}

impl<S> ObjectUris for ObjectPathDataset<S> {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.index.write_uri(id, uri)
    }

    fn object_range(&self, id: SampleId) -> Option<std::ops::Range<u64>> {
        self.index.object_range(id)
    }

    fn object_size(&self, id: SampleId) -> Option<u64> {
        self.index.object_size(id)
    }
}

impl<S: 'static> Dataset for ObjectPathDataset<S> {
    type Sample = (S, i64);

    fn len(&self) -> u64 {
        self.index.len()
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<(S, i64), BoxError> {
        let file = ctx.file.ok_or("the sample has no object")?;
        let sample = (self.load)(file, ctx)?;
        let label = self.index.label(ctx.id().index()).ok_or("the sample has no label")?;
        Ok((sample, i64::from(label)))
    }
}

impl<S> fmt::Debug for ObjectPathDataset<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectPathDataset").field("len", &self.index.len()).finish_non_exhaustive()
    }
}
