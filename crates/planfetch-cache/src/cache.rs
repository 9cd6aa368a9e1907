//! The cache: its public face.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use object_store::ObjectStore;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::directory::CacheDir;
use crate::error::{CacheError, CacheErrorKind};
use crate::eviction::{EvictionMode, NextUse};
use crate::key::ObjectKey;
use crate::local_file::LocalFile;
use crate::prefetch_guard::PrefetchGuard;
use crate::settings::{CacheSettings, PruneBackend, StoreSettings};
use crate::shared::Shared;
use crate::sharing::Sharing;
use crate::stats::CacheStats;
use crate::stores::Stores;
use crate::table::{Amount, Table};
use crate::target::Target;
use crate::uri::ObjectUri;

/// How long dropping a cache waits for files that are being written and deleted.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// A directory of objects that were downloaded from object stores.
///
/// A clone is another handle to the same cache. When the last one is dropped, downloads under way are stopped and their
/// temporary files deleted; what is local stays for the next cache that opens the directory. Dropped on a thread of a
/// tokio runtime, where waiting is forbidden, or with an I/O runtime of the caller's, this is begun and not waited for; what
/// a process leaves that ends meanwhile goes when the directory is opened again.
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
    /// `None` when it has been dropped, or is the user's.
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
            io: None,
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
        self.wait_for(uri, None)
    }

    /// Returns a guard on a local file that holds a part of the object: the bytes `range.start..range.end`, and nothing
    /// else. For samples that lie inside a larger object.
    ///
    /// Each part is an object of its own to the cache: what is local of one is not used for another.
    ///
    /// # Errors
    ///
    /// As for [`ensure_local`](Self::ensure_local), and [`CacheErrorKind::InvalidUri`] when the range is empty or lies
    /// outside of the object.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_cache::DiskCache;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// std::fs::write(folder.path().join("shard"), "onetwothree")?;
    /// let cache = DiskCache::builder(folder.path().join("cache")).build()?;
    /// let shard = format!("file://{}/shard", folder.path().display());
    /// let mut bytes = Vec::new();
    /// cache.ensure_local_range(&shard, 3..6)?.read_into(&mut bytes)?;
    /// assert_eq!(bytes, b"two");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ensure_local_range(&self, uri: &str, range: Range<u64>) -> Result<LocalFile, CacheError> {
        self.wait_for(uri, Some(range))
    }

    fn wait_for(&self, uri: &str, range: Option<Range<u64>>) -> Result<LocalFile, CacheError> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.demand(uri, range, move |result| {
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
        self.demand(uri, None, then);
    }

    /// Calls `then` with what [`ensure_local_range`](Self::ensure_local_range) would return, as
    /// [`ensure_local_then`](Self::ensure_local_then) does.
    pub fn ensure_local_range_then(
        &self,
        uri: &str,
        range: Range<u64>,
        then: impl FnOnce(Result<LocalFile, CacheError>) + Send + 'static,
    ) {
        self.demand(uri, Some(range), then);
    }

    fn demand(
        &self,
        uri: &str,
        range: Option<Range<u64>>,
        then: impl FnOnce(Result<LocalFile, CacheError>) + Send + 'static,
    ) {
        match self.key(uri, range.as_ref()) {
            Ok(key) => self.0.shared.demand(key, &mut || Target::new(uri, range.clone()), Box::new(then)),
            Err(error) => then(Err(error)),
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
        self.hold(uri, None, 0)
    }

    /// Asks for many objects before they are needed, as [`prefetch`](Self::prefetch) does. Those of a higher `priority`
    /// are downloaded first, and among equals those that were asked for first; that of `prefetch` is 0.
    ///
    /// Dropping the guards cancels what has not come yet.
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::InvalidUri`] when one of the URIs can't be served; then none of them is asked for.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_cache::DiskCache;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # ["a", "b"].iter().for_each(|name| std::fs::write(folder.path().join(name), name).expect("written"));
    /// let cache = DiskCache::builder(folder.path().join("cache")).build()?;
    /// let uris = ["a", "b"].map(|name| format!("file://{}/{name}", folder.path().display()));
    /// // Validation data can wait until nothing of the training's is left to do.
    /// let guards = cache.prefetch_all(&uris, -1)?;
    /// assert_eq!(guards.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefetch_all<U: AsRef<str>>(
        &self,
        uris: impl IntoIterator<Item = U>,
        priority: i32,
    ) -> Result<Vec<PrefetchGuard>, CacheError> {
        let uris: Vec<U> = uris.into_iter().collect();
        let keys = uris.iter().map(|uri| self.key(uri.as_ref(), None)).collect::<Result<Vec<_>, _>>()?;
        let shared = &self.0.shared;
        shared.update(|table, effects| {
            for (uri, key) in uris.iter().zip(&keys) {
                table.hold(*key, || Target::new(uri.as_ref(), None), priority, effects);
            }
        });
        Ok(keys.into_iter().map(|key| PrefetchGuard::new(Arc::clone(shared), key)).collect())
    }

    /// Asks for a part of an object before it is needed: what [`ensure_local_range`](Self::ensure_local_range) is for
    /// [`ensure_local`](Self::ensure_local).
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::InvalidUri`] when the URI can't be served or the range is empty.
    pub fn prefetch_range(&self, uri: &str, range: Range<u64>) -> Result<PrefetchGuard, CacheError> {
        self.hold(uri, Some(range), 0)
    }

    fn hold(&self, uri: &str, range: Option<Range<u64>>, priority: i32) -> Result<PrefetchGuard, CacheError> {
        let key = self.key(uri, range.as_ref())?;
        let shared = &self.0.shared;
        shared.update(|table, effects| table.hold(key, || Target::new(uri, range), priority, effects));
        Ok(PrefetchGuard::new(Arc::clone(shared), key))
    }

    /// Returns whether the object is local now. With [`PruneBackend::Scan`], this looks into the directory.
    ///
    /// What is local of its parts alone does not count; see [`contains_range`](Self::contains_range).
    #[must_use]
    pub fn contains(&self, uri: &str) -> bool {
        self.is_local(uri, None)
    }

    /// Returns whether a part of the object is local now that was asked for by just this range, as
    /// [`ensure_local_range`](Self::ensure_local_range) does.
    #[must_use]
    pub fn contains_range(&self, uri: &str, range: Range<u64>) -> bool {
        self.is_local(uri, Some(&range))
    }

    fn is_local(&self, uri: &str, range: Option<&Range<u64>>) -> bool {
        let shared = &self.0.shared;
        self.key(uri, range).is_ok_and(|key| {
            shared.read(|table| table.is_local(key))
                || (shared.sharing.is_some() && shared.dir.find(key).is_ok_and(|found| found.is_some()))
        })
    }

    /// Has the object fetched anew by whoever asks for it next, since it has changed in the store. Guards on its old file
    /// keep that file.
    ///
    /// This is about the object as a whole. Each part that was asked for by a range is an object of its own, of which
    /// the cache does not know whose part it is: it stays as it was until
    /// [`invalidate_range`](Self::invalidate_range) is called for it. Where a shard of many samples is written again,
    /// call that for each sample, or write the shard under another key, which is cheaper and can't be forgotten.
    ///
    /// With [`PruneBackend::Scan`], an object that any guard of any process keeps stays as it is: a file can't have two
    /// contents for those who share it.
    ///
    /// Objects are taken as immutable otherwise: a local copy is not compared with the store again.
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::InvalidUri`] when the URI can't be served.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_cache::DiskCache;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let (source, mut bytes) = (folder.path().join("labels"), Vec::new());
    /// let uri = format!("file://{}", source.display());
    /// let cache = DiskCache::builder(folder.path().join("cache")).build()?;
    /// std::fs::write(&source, "old")?;
    /// cache.ensure_local(&uri)?.read_into(&mut bytes)?;
    /// std::fs::write(&source, "new")?;
    /// cache.invalidate(&uri)?;
    /// cache.ensure_local(&uri)?.read_into(&mut bytes)?;
    /// assert_eq!(bytes, b"new");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn invalidate(&self, uri: &str) -> Result<(), CacheError> {
        self.0.shared.invalidate(self.key(uri, None)?);
        Ok(())
    }

    /// Has a part of the object fetched anew by whoever asks for just this range next: what
    /// [`ensure_local_range`](Self::ensure_local_range) is for [`ensure_local`](Self::ensure_local), this is for
    /// [`invalidate`](Self::invalidate). Other parts, also overlapping ones, and the whole stay as they were.
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::InvalidUri`] when the URI can't be served or the range is empty.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_cache::DiskCache;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let (source, mut bytes) = (folder.path().join("shard"), Vec::new());
    /// let uri = format!("file://{}", source.display());
    /// let cache = DiskCache::builder(folder.path().join("cache")).build()?;
    /// std::fs::write(&source, "onetwothree")?;
    /// drop(cache.ensure_local_range(&uri, 3..6)?);
    /// std::fs::write(&source, "onesixthree")?;
    /// cache.invalidate_range(&uri, 3..6)?;
    /// cache.ensure_local_range(&uri, 3..6)?.read_into(&mut bytes)?;
    /// assert_eq!(bytes, b"six");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn invalidate_range(&self, uri: &str, range: Range<u64>) -> Result<(), CacheError> {
        self.0.shared.invalidate(self.key(uri, Some(&range))?);
        Ok(())
    }

    /// Says when an object is used next, if it is local and no guard keeps it: for what was there before this process.
    /// See [`EvictionMode::Clairvoyant`](crate::EvictionMode::Clairvoyant).
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::InvalidUri`] when the URI can't be served.
    pub fn set_next_use(&self, uri: &str, next_use: NextUse) -> Result<(), CacheError> {
        let key = self.key(uri, None)?;
        self.0.shared.update(|table, _| table.set_next_use(key, next_use));
        Ok(())
    }

    /// Says when a part of an object is used next, as [`set_next_use`](Self::set_next_use) does of a whole.
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::InvalidUri`] when the URI can't be served or the range is empty.
    pub fn set_next_use_range(&self, uri: &str, range: Range<u64>, next_use: NextUse) -> Result<(), CacheError> {
        let key = self.key(uri, Some(&range))?;
        self.0.shared.update(|table, _| table.set_next_use(key, next_use));
        Ok(())
    }

    /// Deletes files that nothing keeps, the least recently used first, until no more than `max_bytes` are left or all
    /// that are left are in use. Other processes' files count, and are spared, like one's own.
    ///
    /// With [`PruneBackend::Meta`], the files go on a thread of the cache, shortly after this returns.
    pub fn prune(&self, max_bytes: u64) {
        self.0.shared.shrink_to(Amount { bytes: max_bytes, files: u64::MAX });
    }

    /// Returns what the cache has done so far.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let shared = &self.0.shared;
        let local = match &shared.sharing {
            Some(sharing) => sharing.used(),
            None => shared.read(Table::local),
        };
        shared.counters.snapshot(local)
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &CacheSettings {
        &self.0.shared.settings
    }

    /// Returns which local files go, and when.
    #[must_use]
    pub fn eviction(&self) -> EvictionMode {
        self.settings().eviction
    }

    /// Returns the directory, as an absolute path.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.0.shared.dir.root()
    }

    fn key(&self, uri: &str, range: Option<&Range<u64>>) -> Result<ObjectKey, CacheError> {
        let parsed = ObjectUri::parse(uri)?;
        if let Some(range) = range
            && range.end <= range.start
        {
            return Err(CacheError::new(
                CacheErrorKind::InvalidUri,
                format!("{uri}: the range {}..{} is empty; its end must lie behind its start", range.start, range.end),
            ));
        }
        let stores = &self.0.shared.stores;
        stores.check(&parsed)?;
        Ok(ObjectKey::new(stores.scope(&parsed), uri, range))
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
        if Handle::try_current().is_err() {
            self.shared.finish_removals(Instant::now() + SHUTDOWN_TIMEOUT / 2);
        }
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
    io: Option<Handle>,
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

    /// Sets the runtime that talks to the stores. Default: one of the cache's own, with
    /// [`io_threads`](CacheSettings::io_threads) threads.
    ///
    /// It must have I/O and time enabled and not be of the single-threaded kind that runs only inside `block_on`; it
    /// should do no long computations, which hold up all downloads. When the cache is dropped, its downloads are stopped
    /// and the runtime goes on.
    pub fn with_io_runtime(mut self, io: Handle) -> Self {
        self.io = Some(io);
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
        let dir = CacheDir::open(&self.dir, self.settings.prune_backend)?;
        let concurrency = self.settings.download_concurrency;
        let (sharing, table) = match self.settings.prune_backend {
            PruneBackend::Scan => (Some(Sharing::open(&dir, &self.settings)?), Table::shared(concurrency)),
            PruneBackend::Meta => {
                let found = dir.scan(|_| true).and_then(|found| dir.without_twins(found.objects));
                let mut found = found.map_err(|source| {
                    let message = format!("can't list the cache directory {}", dir.root().display());
                    CacheError::with_source(CacheErrorKind::Directory, message, source)
                })?;
                let limits = self.settings.limits();
                let bytes: u64 = found.iter().map(|(_, stamp)| stamp.len).sum();
                if limits.max_bytes < bytes || limits.max_files < found.len() as u64 {
                    // Some go at once: those that were not used for the longest time.
                    found.sort_by_cached_key(|found| dir.last_use(*found));
                }
                (None, Table::new(concurrency, limits, found))
            }
        };
        // Last of what may fail: a runtime can't be dropped where other asynchronous code runs.
        let runtime = match &self.io {
            Some(_) => None,
            None => Some(start_runtime(self.settings.io_threads)?),
        };
        let io = match (&runtime, self.io) {
            (Some(own), _) => own.handle().clone(),
            (None, Some(given)) => given,
            (None, None) => unreachable!("where none is given, one is started"),
        };
        let limits = self.settings.limits();
        let stores = Stores::new(self.stores, &self.store_settings);
        let shared = Arc::new(Shared::new(dir, stores, self.settings, sharing, table, io));
        shared.shrink_to(Amount { bytes: limits.max_bytes, files: limits.max_files });
        Ok(DiskCache(Arc::new(Running { shared, runtime })))
    }
}

fn start_runtime(io_threads: usize) -> Result<Runtime, CacheError> {
    let runtime =
        Builder::new_multi_thread().worker_threads(io_threads).thread_name("planfetch-io").enable_all().build();
    runtime.map_err(|source| {
        CacheError::with_source(CacheErrorKind::InvalidSetting, "can't start the I/O threads", source)
    })
}
