//! The cache: its public face.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use object_store::ObjectStore;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::directory::CacheDir;
use crate::error::{CacheError, CacheErrorKind};
use crate::key::ObjectKey;
use crate::local_file::LocalFile;
use crate::prefetch_guard::PrefetchGuard;
use crate::settings::{CacheSettings, StoreSettings};
use crate::shared::Shared;
use crate::stats::CacheStats;
use crate::stores::Stores;
use crate::table::{Hit, Table};
use crate::uri::ObjectUri;

/// How long dropping a cache waits for files that are being written.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// A directory of objects that were downloaded from object stores.
///
/// A clone is another handle to the same cache. When the last one is dropped, downloads under way are stopped and their
/// temporary files deleted; what is local stays for the next cache that opens the directory.
///
/// # Example
///
/// Local files are objects too, which keeps training and trying out on one path:
///
/// ```
/// use planfetch_cache::DiskCache;
///
/// # let folder = tempfile::tempdir()?;
/// let source = folder.path().join("a b%20.txt");
/// std::fs::write(&source, "hello")?;
///
/// let cache = DiskCache::builder(folder.path().join("cache")).build()?;
/// let uri = format!("file://{}", source.display());
/// assert!(!cache.contains(&uri));
/// assert_eq!(cache.ensure_local(&uri)?.len(), 5);
/// assert!(cache.contains(&uri));
///
/// let error = cache.ensure_local("file:///nowhere/b.txt").expect_err("no such file");
/// assert_eq!(error.to_string(), "file:///nowhere/b.txt: there is no object with this key; check the index against the store");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DiskCache(Arc<Running>);

/// The cache together with the runtime that it ends with.
struct Running {
    shared: Arc<Shared>,
    // `Some` until it is dropped.
    runtime: Option<Runtime>,
}

impl DiskCache {
    /// Starts to build a cache in the directory `dir`, which is made if it does not exist.
    pub fn builder(dir: impl Into<PathBuf>) -> DiskCacheBuilder {
        DiskCacheBuilder {
            dir: dir.into(),
            settings: CacheSettings::default(),
            store_settings: StoreSettings::default(),
            stores: BTreeMap::new(),
        }
    }

    /// Returns a guard on the object's local file, at once when it is local, else after its download.
    ///
    /// Blocks the thread; use [`ensure_local_async`](Self::ensure_local_async) where that is not allowed.
    ///
    /// # Errors
    ///
    /// [`CacheError`] when the URI can't be served, the object or its bucket does not exist, the store refuses the
    /// credentials, or the download fails after all attempts. That the disk is full or can't be written is no error:
    /// the guard then holds the bytes in memory.
    pub fn ensure_local(&self, uri: &str) -> Result<LocalFile, CacheError> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.ensure_local_then(uri, move |result| {
            // OK because the receiver is gone only when this function has been left.
            let _ = answer.send(result);
        });
        answered.recv().unwrap_or_else(|_| Err(stopped(uri)))
    }

    /// Returns a guard on the object's local file, like [`ensure_local`](Self::ensure_local), without blocking.
    ///
    /// It may be awaited on any runtime. Dropping the future does not take back the request: the object is downloaded.
    ///
    /// # Errors
    ///
    /// As for [`ensure_local`](Self::ensure_local).
    pub async fn ensure_local_async(&self, uri: &str) -> Result<LocalFile, CacheError> {
        let (answer, answered) = oneshot::channel();
        self.ensure_local_then(uri, move |result| {
            // OK because whoever dropped the future does not want the answer.
            let _ = answer.send(result);
        });
        answered.await.unwrap_or_else(|_| Err(stopped(uri)))
    }

    /// Calls `then` with what [`ensure_local`](Self::ensure_local) would return: at once, on this thread, when the
    /// object is local or the URI invalid, else on a thread of the cache, which it must not block.
    pub fn ensure_local_then(&self, uri: &str, then: impl FnOnce(Result<LocalFile, CacheError>) + Send + 'static) {
        let shared = &self.0.shared;
        let key = match self.key(uri) {
            Ok(key) => key,
            Err(error) => return then(Err(error)),
        };
        let hit = shared.update(|table, effects| table.demand(key, uri, Box::new(then), effects));
        match hit {
            Some((hit, then)) => {
                shared.counters.hits.add(1);
                then(Ok(match hit {
                    Hit::File(stamp) => LocalFile::on_disk(Arc::clone(shared), key, stamp),
                    Hit::Memory(bytes) => LocalFile::from_bytes(bytes),
                }));
            }
            None => shared.counters.misses.add(1),
        }
    }

    /// Asks for an object before it is needed, and keeps it local while the guard lives.
    ///
    /// Prefetched objects are downloaded in the order in which they were asked for, after all demanded ones. A download
    /// that fails is tried again, and reported, when the object is demanded.
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::InvalidUri`] when the URI can't be served.
    pub fn prefetch(&self, uri: &str) -> Result<PrefetchGuard, CacheError> {
        let key = self.key(uri)?;
        self.0.shared.update(|table, effects| table.hold(key, uri, effects));
        Ok(PrefetchGuard::new(Arc::clone(&self.0.shared), key))
    }

    /// Returns whether the object is local now.
    #[must_use]
    pub fn contains(&self, uri: &str) -> bool {
        self.key(uri).is_ok_and(|key| self.0.shared.read(|table| table.is_local(key)))
    }

    /// Returns what the cache has done so far.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let shared = &self.0.shared;
        let (files, bytes) = shared.read(|table| (table.local_files(), table.local_bytes()));
        shared.counters.snapshot(files, bytes)
    }

    /// Returns the directory, as an absolute path.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.0.shared.dir.root()
    }

    fn key(&self, uri: &str) -> Result<ObjectKey, CacheError> {
        let parsed = ObjectUri::parse(uri)?;
        let stores = &self.0.shared.stores;
        stores.check(&parsed)?;
        Ok(ObjectKey::new(stores.scope(&parsed), uri))
    }
}

fn stopped(uri: &str) -> CacheError {
    CacheError::new(CacheErrorKind::Closed, format!("{uri}: the cache was closed before the download ended"))
}

impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskCache").field("dir", &self.dir()).field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.close();
        let Some(runtime) = self.runtime.take() else { return };
        if Handle::try_current().is_ok() {
            // Waiting is forbidden on a thread of a runtime, be it this one or another.
            runtime.shutdown_background();
        } else {
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        }
    }
}

/// Builds a [`DiskCache`]. Made by [`DiskCache::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct DiskCacheBuilder {
    dir: PathBuf,
    settings: CacheSettings,
    store_settings: StoreSettings,
    stores: BTreeMap<String, Arc<dyn ObjectStore>>,
}

impl DiskCacheBuilder {
    /// Sets how the cache downloads. Default: [`CacheSettings::default`].
    pub fn with_settings(mut self, settings: CacheSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets how stores are opened that are not registered. Default: [`StoreSettings::default`], which reads the
    /// environment.
    pub fn with_store_settings(mut self, settings: StoreSettings) -> Self {
        self.store_settings = settings;
        self
    }

    /// Registers a store for the URIs that begin with `url`: a scheme and a bucket, as in `s3://photos`.
    ///
    /// The rest of a URI, behind one slash, is the key that the store is asked for. The store should neither retry
    /// for long nor limit the time of a whole request, since the cache does both.
    pub fn with_store(mut self, url: impl Into<String>, store: Arc<dyn ObjectStore>) -> Self {
        let url = url.into();
        let url = if url.ends_with("://") { &url } else { url.trim_end_matches('/') };
        self.stores.insert(url.to_owned(), store);
        self
    }

    /// Opens the cache.
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::InvalidSetting`] when a setting is out of its range; [`CacheErrorKind::Directory`] when the
    /// directory can't be made or read, holds foreign files, is of another format or is in use.
    pub fn build(self) -> Result<DiskCache, CacheError> {
        self.settings.validate()?;
        for url in self.stores.keys() {
            let is_store_url = url.split_once("://").is_some_and(|(scheme, bucket)| {
                !scheme.is_empty() && !bucket.contains('/') && (scheme == "file") == bucket.is_empty()
            });
            if !is_store_url {
                return Err(CacheError::new(
                    CacheErrorKind::InvalidSetting,
                    format!(
                        "a store is registered for {url:?}, but must be for a scheme and a bucket: \"s3://bucket\""
                    ),
                ));
            }
        }
        let (dir, found) = CacheDir::open(&self.dir)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(self.settings.io_threads)
            .thread_name("planfetch-io")
            .enable_all()
            .build()
            .map_err(|source| {
                CacheError::with_source(CacheErrorKind::InvalidSetting, "can't start the I/O threads", source)
            })?;
        let table = Table::new(self.settings.download_concurrency, found);
        let stores = Stores::new(self.stores, &self.store_settings);
        let shared = Arc::new(Shared::new(dir, stores, self.settings, table, runtime.handle().clone()));
        Ok(DiskCache(Arc::new(Running { shared, runtime: Some(runtime) })))
    }
}
