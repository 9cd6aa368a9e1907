//! An index of what lies in a bucket.

use planfetch_cache::StoreSettings;
use planfetch_index::{FolderSettings, IndexError, SampleIndex, list_index};

use crate::load_index::LoadIndexError;

/// Makes an index of the objects `<prefix>/<class>/…/<name>` of a bucket, of which `url` names both: `s3://photos/train`.
///
/// Classes are numbered in the order of the bytes of their names, rows are in the order of the bytes of their URIs, and
/// have the sizes that the store lists. It is [`list_index`] with a store that is opened as `stores` say. Blocks; don't
/// call it on a thread of an asynchronous runtime.
///
/// # Errors
///
/// [`LoadIndexError::Object`] when the store can't be opened, and [`LoadIndexError::Index`] when it can't be listed or
/// holds no sample.
///
/// # Example
///
/// ```no_run
/// use planfetch::list_bucket;
/// use planfetch::prelude::*;
///
/// let photographs = FolderSettings::with_extensions(["jpg", "jpeg"]);
/// let index = list_bucket("s3://photos/train", &photographs, &StoreSettings::default())?;
/// assert_eq!(index.class_name(0), Some("cat"));
/// # Ok::<(), planfetch::LoadIndexError>(())
/// ```
pub fn list_bucket(
    url: &str,
    settings: &FolderSettings,
    stores: &StoreSettings,
) -> Result<SampleIndex, LoadIndexError> {
    let after_scheme = url.find("://").map_or(0, |at| at + "://".len());
    let (bucket, prefix) = match url[after_scheme..].find('/') {
        Some(at) => (&url[..after_scheme + at], &url[after_scheme + at + 1..]),
        None => (url, ""),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| IndexError::Read { file: url.into(), source })?;
    runtime.block_on(async {
        let store = stores.open(bucket).await.map_err(LoadIndexError::Object)?;
        Ok(list_index(&*store, bucket, prefix, settings).await?)
    })
}
