//! The object stores behind the cache.

#[cfg(feature = "_cloud")]
mod cloud;
#[cfg(feature = "aws")]
mod s3;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use tokio::sync::Mutex as AsyncMutex;

use crate::error::{CacheError, CacheErrorKind};
use crate::pace::Pace;
use crate::settings::StoreSettings;
use crate::uri::{ObjectUri, redacted};

/// How long a store that could not be opened is not tried again: thousands of requests may ask for it.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Stores by the beginning of their URIs, opened when they are first asked for.
#[derive(Debug)]
pub(crate) struct Stores {
    registered: BTreeMap<String, Arc<dyn ObjectStore>>,
    #[cfg(feature = "aws")]
    s3: s3::S3Config,
    #[cfg(feature = "gcp")]
    gcs: cloud::GcsConfig,
    #[cfg(feature = "azure")]
    azure: cloud::AzureConfig,
    #[cfg(feature = "http")]
    allow_http: bool,
    opened: Mutex<BTreeMap<String, Arc<AsyncMutex<Slot>>>>,
    started: Instant,
}

#[derive(Debug)]
enum Slot {
    Closed,
    Open(Opened),
    Failed(CacheError, Instant),
}

/// Whether a store tries failed requests again by itself.
#[derive(Clone, Copy, Debug)]
enum Retries {
    /// No: the cache counts attempts and paces them, resumes a broken body too, and tells an endless stall from a slow
    /// stream, which the client's own retries would work against.
    None,
    /// As object_store does by default.
    Own,
}

/// A store, and the pace at which it is asked.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn ObjectStore>,
    pace: Arc<Mutex<Pace>>,
    turns: Arc<AsyncMutex<()>>,
    started: Instant,
}

impl Opened {
    /// Returns the time in which the pace is told.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits for the next request's turn. `on_wait` is called before it waits, if it has to.
    pub(crate) async fn turn(&self, on_wait: impl FnOnce()) {
        if self.pace().poll(self.elapsed()).is_none() {
            return;
        }
        on_wait();
        // One waits for the next turn, and all others for that one, in order.
        let _head = self.turns.lock().await;
        loop {
            let wait = self.pace().poll(self.elapsed());
            let Some(wait) = wait else { return };
            tokio::time::sleep(wait).await;
        }
    }

    pub(crate) fn on_answer(&self) {
        self.pace().on_answer(self.elapsed());
    }

    /// Takes note that the store refused a request, which was sent at `sent`.
    pub(crate) fn on_throttle(&self, sent: Duration) {
        self.pace().on_throttle(sent, self.elapsed());
    }

    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The schemes of stores that are opened by themselves, and the features that bring them.
const SCHEMES: [(&str, &str, bool); 6] = [
    ("file", "", true),
    ("s3", "aws", cfg!(feature = "aws")),
    ("gs", "gcp", cfg!(feature = "gcp")),
    ("az", "azure", cfg!(feature = "azure")),
    ("https", "http", cfg!(feature = "http")),
    ("http", "http", cfg!(feature = "http")),
];

impl Stores {
    /// Takes the registered stores, and how others are opened. The environment is read here, once.
    pub(crate) fn new(registered: BTreeMap<String, Arc<dyn ObjectStore>>, settings: &StoreSettings) -> Self {
        #[cfg(not(any(feature = "aws", feature = "http")))]
        let _ = settings;
        Self {
            registered,
            #[cfg(feature = "aws")]
            s3: s3::S3Config::new(settings, std::env::vars_os()),
            #[cfg(feature = "gcp")]
            gcs: cloud::GcsConfig::from_env(),
            #[cfg(feature = "azure")]
            azure: cloud::AzureConfig::from_env(),
            #[cfg(feature = "http")]
            allow_http: settings.allow_http,
            opened: Mutex::default(),
            started: Instant::now(),
        }
    }

    /// Returns what tells two stores apart that share a URI: the endpoint, the account. Registered stores are told apart by URL.
    pub(crate) fn scope(&self, uri: &ObjectUri<'_>) -> &str {
        if self.registered.contains_key(uri.store_url) {
            return "";
        }
        match uri.scheme {
            #[cfg(feature = "aws")]
            "s3" => self.s3.endpoint().unwrap_or_default(),
            #[cfg(feature = "gcp")]
            "gs" => self.gcs.scope(),
            #[cfg(feature = "azure")]
            "az" => self.azure.scope(),
            _ => "",
        }
    }

    /// Says whether the URI's scheme can be served, before anything is queued.
    pub(crate) fn check(&self, uri: &ObjectUri<'_>) -> Result<(), CacheError> {
        let known = SCHEMES.iter().find(|(scheme, ..)| *scheme == uri.scheme);
        if matches!(known, Some((.., true))) || self.registered.contains_key(uri.store_url) {
            return Ok(());
        }
        let store_url = redacted(uri.store_url);
        let advice = match known {
            Some((_, feature, _)) => format!("enable the feature {feature} of planfetch-cache, or register it"),
            None => {
                let opened = SCHEMES.iter().filter(|(.., is_on)| *is_on).map(|(scheme, ..)| format!("{scheme}://"));
                format!("{} are opened by themselves, any other is registered", opened.collect::<Vec<_>>().join(", "))
            }
        };
        Err(CacheError::new(
            CacheErrorKind::InvalidUri,
            format!(
                "{:?}: no store for {store_url}; {advice} with DiskCacheBuilder::with_store({store_url:?}, …)",
                redacted(uri.uri)
            ),
        ))
    }

    /// Returns the store that holds the object, and opens it if need be.
    pub(crate) async fn get(&self, uri: &ObjectUri<'_>) -> Result<Opened, CacheError> {
        self.check(uri)?;
        let slot = self.slot(uri);
        let mut slot = slot.lock().await;
        match &*slot {
            Slot::Open(opened) => return Ok(opened.clone()),
            Slot::Failed(error, at) if at.elapsed() < OPEN_AGAIN_AFTER => return Err(error.clone()),
            Slot::Closed | Slot::Failed(..) => {}
        }
        let store = match self.registered.get(uri.store_url) {
            Some(store) => Ok(Arc::clone(store)),
            None => self.open(uri, Retries::None).await,
        };
        match store {
            Ok(store) => {
                let opened = Opened { store, pace: Arc::default(), turns: Arc::default(), started: self.started };
                *slot = Slot::Open(opened.clone());
                Ok(opened)
            }
            Err(error) => {
                *slot = Slot::Failed(error.clone(), Instant::now());
                Err(error)
            }
        }
    }

    /// Has a store opened anew by whoever asks for it next, if it is still the one that `opened` is: with credentials
    /// that are asked for anew.
    pub(crate) async fn forget(&self, uri: &ObjectUri<'_>, opened: &Opened) {
        let slot = self.slot(uri);
        let mut slot = slot.lock().await;
        if let Slot::Open(current) = &*slot
            && Arc::ptr_eq(&current.store, &opened.store)
        {
            *slot = Slot::Closed;
        }
    }

    fn slot(&self, uri: &ObjectUri<'_>) -> Arc<AsyncMutex<Slot>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        match opened.get(uri.store_url) {
            Some(slot) => Arc::clone(slot),
            None => {
                let slot = Arc::new(AsyncMutex::new(Slot::Closed));
                opened.insert(uri.store_url.into(), Arc::clone(&slot));
                slot
            }
        }
    }

    async fn open(&self, uri: &ObjectUri<'_>, retries: Retries) -> Result<Arc<dyn ObjectStore>, CacheError> {
        #[cfg(not(feature = "_cloud"))]
        let _ = retries;
        match uri.scheme {
            #[cfg(feature = "aws")]
            "s3" => self.s3.open(uri, retries).await,
            #[cfg(feature = "gcp")]
            "gs" => self.gcs.open(uri, retries),
            #[cfg(feature = "azure")]
            "az" => self.azure.open(uri, retries),
            #[cfg(feature = "http")]
            "http" | "https" => cloud::open_http(uri, self.allow_http, retries),
            _ => Ok(Arc::new(LocalFileSystem::new())),
        }
    }
}

impl StoreSettings {
    /// Opens the store that `url` names, a scheme and a bucket as in `s3://photos`, as a cache with these settings does:
    /// for what a cache does not do, such as listing. Unlike a cache's own, it tries failed requests again by itself.
    ///
    /// Call it on a runtime with I/O and time enabled.
    ///
    /// # Errors
    ///
    /// [`CacheErrorKind::InvalidUri`] when there is no store for the scheme, [`CacheErrorKind::InvalidSetting`] when the
    /// endpoint is none or plain http that was not allowed, and [`CacheErrorKind::Denied`] when there are no credentials.
    ///
    /// # Example
    ///
    /// ```
    /// use object_store::{ObjectStoreExt, path::Path};
    /// use planfetch_cache::{StoreSettings, object_store};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// std::fs::write(folder.path().join("a.txt"), "hello")?;
    /// let store = StoreSettings::default().open("file://").await?;
    /// assert_eq!(store.head(&Path::from_filesystem_path(folder.path().join("a.txt"))?).await?.size, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn open(&self, url: &str) -> Result<Arc<dyn ObjectStore>, CacheError> {
        let any = format!("{}/any", url.trim_end_matches(|c| c == '/' && url != "file://"));
        let uri = ObjectUri::parse(&any)?;
        let stores = Stores::new(BTreeMap::new(), self);
        stores.check(&uri)?;
        stores.open(&uri, Retries::Own).await
    }
}
