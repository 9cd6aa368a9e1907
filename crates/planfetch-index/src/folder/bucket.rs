//! A folder of an object store: the keys that begin with a prefix.

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;

use super::{FolderSettings, Found};
use crate::error::IndexError;
use crate::sample_index::SampleIndex;
use crate::uri::{check_uri, shorten};

/// Makes an index of the objects `<prefix>/<class>/…/<name>` in `store`, whose URIs begin with `url`.
///
/// `url` names the bucket, such as `s3://photos`, and `prefix` a folder in it, such as `train`; an empty one is the
/// bucket itself. Only whole names are folders: `train` does not take `train-2/cat/1.jpg`. As for
/// [`load_index_folder`](crate::load_index_folder), rows are in the order of the bytes of their URIs and have sizes,
/// and what lies in no class is no sample. Keys are kept byte for byte as the store lists them.
///
/// # Errors
///
/// [`IndexError::Settings`] when `url` or `prefix` can't be one, [`IndexError::Read`] when the store does not list, or
/// lists a key that `object_store` can't hold, such as one with an empty part, and [`IndexError::NoSamples`].
///
/// # Example: a bucket in memory
///
/// ```
/// use object_store::{ObjectStoreExt, memory::InMemory};
/// use planfetch_index::{FolderSettings, list_index};
///
/// # futures::executor::block_on(async {
/// let store = InMemory::new();
/// for key in ["train/dog/1.jpg", "train/cat/2.jpg", "train-2/cat/3.jpg"] {
///     store.put(&key.into(), "not really a photograph".into()).await?;
/// }
/// let index = list_index(&store, "s3://photos", "train", &FolderSettings::default()).await?;
/// assert_eq!(index.uris().iter().collect::<Vec<_>>(), ["s3://photos/train/cat/2.jpg", "s3://photos/train/dog/1.jpg"]);
/// assert_eq!(index.class_names(), ["cat", "dog"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).expect("listed");
/// ```
pub async fn list_index(
    store: &dyn ObjectStore,
    url: &str,
    prefix: &str,
    settings: &FolderSettings,
) -> Result<SampleIndex, IndexError> {
    let url = url.trim_end_matches('/');
    // With a key after it, since the URL of all local files names nothing by itself.
    check_uri(&format!("{url}/key"))
        .map_err(|problem| IndexError::Settings { problem: format!("the URL {:?} {problem}", shorten(url)) })?;
    let prefix = prefix.trim_matches('/');
    let path = Path::parse(prefix)
        .map_err(|error| IndexError::Settings { problem: format!("the prefix {prefix:?} is none: {error}") })?;
    let place = if prefix.is_empty() { format!("{url}/") } else { format!("{url}/{prefix}/") };

    let mut found = Found::new();
    let mut objects = store.list(Some(&path));
    let list_error = |error| IndexError::Read { file: place.clone(), source: std::io::Error::other(error) };
    while let Some(object) = objects.try_next().await.map_err(list_error)? {
        let key = object.location.as_ref();
        let below =
            if prefix.is_empty() { Some(key) } else { key.strip_prefix(prefix).and_then(|k| k.strip_prefix('/')) };
        let Some((class, name)) = below.and_then(|below| below.split_once('/')) else { continue };
        if settings.takes(name) {
            found.push(&format!("{url}/{key}"), class, object.size, &place)?;
        }
    }
    found.finish(&place)
}
