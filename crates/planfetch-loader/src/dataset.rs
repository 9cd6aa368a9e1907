//! From a sample id to a sample.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use planfetch_cache::LocalFile;
use planfetch_index::SampleIndex;
use planfetch_plan::SampleId;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::error::{BoxError, Panicked};

/// Which object a sample lies in.
pub trait ObjectUris: Send + Sync {
    /// Replaces what `uri` holds with the URI of the sample's object and returns true, or returns false when the sample
    /// has no object: it is computed, or lies in memory.
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool;

    /// Returns the bytes of the object that are the sample, or `None` where it is the whole, which is what this method
    /// says by default. Only that part is downloaded, and is what [`SampleContext::file`] holds.
    fn object_range(&self, id: SampleId) -> Option<Range<u64>> {
        let _ = id;
        None
    }

    /// Returns the size of the sample's object in bytes, or `None` where it is not known, which is what this method does
    /// by default. [`LoaderSettings::max_ahead_bytes`](crate::LoaderSettings::max_ahead_bytes) needs it.
    fn object_size(&self, id: SampleId) -> Option<u64> {
        let _ = id;
        None
    }
}

/// Replaces what `uri` holds with the URI of a sample's object, if it has one. It comes from user code, whose panic
/// becomes an error.
pub(crate) fn write_uri(uris: &(impl ObjectUris + ?Sized), id: SampleId, uri: &mut String) -> Result<bool, BoxError> {
    catch_unwind(AssertUnwindSafe(|| uris.write_uri(id, uri))).map_err(|panic| Panicked::new(&*panic).into())
}

/// Returns the part of an object that a sample is, if it is not the whole.
pub(crate) fn object_range(uris: &(impl ObjectUris + ?Sized), id: SampleId) -> Result<Option<Range<u64>>, BoxError> {
    catch_unwind(AssertUnwindSafe(|| uris.object_range(id))).map_err(|panic| Panicked::new(&*panic).into())
}

/// Returns how many bytes of a sample's object are downloaded, or 0 where that is not known or can't be had.
pub(crate) fn object_size(uris: &(impl ObjectUris + ?Sized), id: SampleId) -> u64 {
    let size = || match uris.object_range(id) {
        Some(range) => Some(range.end.saturating_sub(range.start)),
        None => uris.object_size(id),
    };
    catch_unwind(AssertUnwindSafe(size)).ok().flatten().unwrap_or(0)
}

/// Returns the URI of a sample's object, or `None` where it has none or can't be had.
pub(crate) fn uri_of(uris: &(impl ObjectUris + ?Sized), id: SampleId) -> Option<String> {
    let mut uri = String::new();
    write_uri(uris, id, &mut uri).unwrap_or(false).then_some(uri)
}

/// What several loaders share is one as it is.
impl<U: ObjectUris + ?Sized> ObjectUris for Arc<U> {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        (**self).write_uri(id, uri)
    }

    fn object_range(&self, id: SampleId) -> Option<Range<u64>> {
        (**self).object_range(id)
    }

    fn object_size(&self, id: SampleId) -> Option<u64> {
        (**self).object_size(id)
    }
}

impl ObjectUris for SampleIndex {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.uris().write_to(id.index(), uri)
    }

    fn object_range(&self, id: SampleId) -> Option<Range<u64>> {
        self.range(id.index())
    }

    fn object_size(&self, id: SampleId) -> Option<u64> {
        self.size(id.index())
    }
}

/// What is trained on: from the id of a sample, and the local file of its object, to the sample.
///
/// # Contract
///
/// [`get`](Self::get) is called from many threads at once, at most once at a time for each slot of a batch.
/// Its result depends on nothing but the context: then the bytes of every batch are the same for any number of workers.
/// What is random comes from [`SampleContext::rng`]. An error, or a panic, becomes an error of the sample.
///
/// # Example
///
/// Samples that are computed, without any object:
///
/// ```
/// use planfetch_loader::{BoxError, Dataset, ObjectUris, SampleContext};
/// use planfetch_plan::SampleId;
///
/// struct Squares;
///
/// impl ObjectUris for Squares {
///     fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool { false }
/// }
///
/// impl Dataset for Squares {
///     type Sample = u64;
///
///     fn len(&self) -> u64 { 100 }
///
///     fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
///         Ok(ctx.id().0.pow(2))
///     }
/// }
///
/// assert!(!Squares.is_empty());
/// ```
pub trait Dataset: ObjectUris + 'static {
    /// What a sample is.
    type Sample;

    /// Returns the number of samples; ids lie in `0..len`.
    fn len(&self) -> u64;

    /// Returns whether there is no sample.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sample that the context names.
    ///
    /// # Errors
    ///
    /// Whatever keeps the sample from being had. The loader adds its id and URI.
    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<Self::Sample, BoxError>;
}

/// What several loaders share is one as it is.
impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    type Sample = D::Sample;

    fn len(&self) -> u64 {
        (**self).len()
    }

    fn is_empty(&self) -> bool {
        (**self).is_empty()
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<D::Sample, BoxError> {
        (**self).get(ctx)
    }
}

/// What a [`Dataset`] is told about the sample that it is asked for.
#[derive(Debug)]
pub struct SampleContext<'a> {
    id: SampleId,
    epoch: u64,
    position: u64,
    seed: u64,
    pub(crate) file: Option<&'a LocalFile>,
    rng: Option<ChaCha8Rng>,
}

impl<'a> SampleContext<'a> {
    /// Makes a context as a loader does, to test a data set without one.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_cache::LocalFile;
    /// use planfetch_loader::SampleContext;
    /// use planfetch_plan::SampleId;
    ///
    /// let file = LocalFile::from_bytes("meow");
    /// let ctx = SampleContext::new(SampleId(7), Some(&file), 42, 0, 3);
    /// assert_eq!(ctx.file().map(LocalFile::len), Some(4));
    /// ```
    #[must_use]
    pub fn new(id: SampleId, file: Option<&'a LocalFile>, seed: u64, epoch: u64, position: u64) -> Self {
        Self { id, epoch, position, seed, file, rng: None }
    }
}

impl SampleContext<'_> {
    /// Returns the id of the sample: its row in the index.
    #[must_use]
    pub fn id(&self) -> SampleId {
        self.id
    }

    /// Returns the epoch, from 0.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the place of the sample in the epoch's order, over all ranks, from 0.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the local file of the sample's object, or `None` when it has none.
    #[must_use]
    pub fn file(&self) -> Option<&LocalFile> {
        self.file
    }

    /// Returns the sample's own random generator.
    ///
    /// Its numbers depend on the seed of the plan, the epoch, the id and the position, and on nothing else: the same for
    /// any number of workers and ranks, and after a resume.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_loader::SampleContext;
    /// use planfetch_loader::rand_chacha::rand_core::Rng;
    /// use planfetch_plan::SampleId;
    ///
    /// let draw = |epoch| SampleContext::new(SampleId(7), None, 42, epoch, 3).rng().next_u32();
    /// assert_eq!(draw(0), draw(0));
    /// assert_ne!(draw(0), draw(1));
    /// ```
    pub fn rng(&mut self) -> &mut ChaCha8Rng {
        let (seed, epoch, id, position) = (self.seed, self.epoch, self.id.0, self.position);
        self.rng.get_or_insert_with(|| {
            let mut key = [0; 32];
            for (part, number) in key.chunks_exact_mut(8).zip([seed, epoch, id, position]) {
                part.copy_from_slice(&number.to_le_bytes());
            }
            ChaCha8Rng::from_seed(key)
        })
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::Rng;

    use super::*;

    #[test]
    fn a_samples_numbers_depend_on_seed_epoch_id_and_position_alone() {
        let draw =
            |seed, epoch, id, position| SampleContext::new(SampleId(id), None, seed, epoch, position).rng().next_u64();
        assert_eq!(draw(1, 2, 3, 4), draw(1, 2, 3, 4));
        let others = [draw(1, 2, 3, 4), draw(9, 2, 3, 4), draw(1, 9, 3, 4), draw(1, 2, 9, 4), draw(1, 2, 3, 9)];
        assert_eq!(others.iter().collect::<std::collections::BTreeSet<_>>().len(), 5);
        // Golden, computed by a second implementation: augmentation must not change between versions.
        assert_eq!(draw(1, 2, 3, 4), 1_223_844_302_487_303_164);
    }
}
