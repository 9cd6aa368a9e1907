//! The loader in one call.

use planfetch_cache::DiskCache;
use planfetch_loader::{Collate, Dataset, LoaderAndController, LoaderBuilder, LoaderError, LoaderSettings};
use planfetch_plan::PlanProvider;

/// Builds the loader of `dataset` in the order of `provider`, with the objects that `cache` makes local.
///
/// A shorthand for [`LoaderBuilder`].
///
/// # Errors
///
/// As for [`LoaderBuilder::build`].
///
/// # Example
///
/// ```
/// use planfetch::prelude::*;
///
/// # let folder = tempfile::tempdir()?;
/// # std::fs::write(folder.path().join("a.txt"), "hello")?;
/// # let uri = format!("file://{}", folder.path().join("a.txt").display());
/// struct Texts(SampleIndex);
///
/// impl ObjectUris for Texts {
///     fn write_uri(&self, id: SampleId, uri: &mut String) -> bool { self.0.write_uri(id, uri) }
/// }
///
/// impl Dataset for Texts {
///     type Sample = String;
///
///     fn len(&self) -> u64 { self.0.len() }
///
///     fn get(&self, ctx: &mut SampleContext<'_>) -> Result<String, BoxError> {
///         let mut bytes = Vec::new();
///         ctx.file().ok_or("every sample has a file")?.read_into(&mut bytes)?;
///         Ok(String::from_utf8(bytes)?)
///     }
/// }
///
/// let index = SampleIndex::from_rows([(uri, 0)])?;
/// let plan = SequentialPlanProvider::new(index.len(), 8)?;
/// let cache = DiskCache::builder(folder.path().join("cache")).build()?;
/// let (mut loader, _controller) =
///     build_prefetching_loader(Texts(index), VecCollate, plan, cache, LoaderSettings::default())?;
///
/// let batch = loader.next().expect("one batch")?;
/// assert_eq!(*batch, ["hello"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn build_prefetching_loader<D, C>(
    dataset: D,
    collate: C,
    provider: impl PlanProvider + 'static,
    cache: DiskCache,
    settings: LoaderSettings,
) -> Result<LoaderAndController<C::Batch>, LoaderError>
where
    D: Dataset,
    C: Collate<D::Sample>,
{
    LoaderBuilder::new(dataset, collate, provider).with_cache(cache).with_settings(settings).build()
}
