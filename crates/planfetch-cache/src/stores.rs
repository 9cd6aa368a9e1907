//! The object stores behind the cache.

#[cfg(feature = "aws")]
mod s3;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use tokio::sync::Mutex as AsyncMutex;

use crate::error::{CacheError, CacheErrorKind};
use crate::settings::StoreSettings;
use crate::uri::ObjectUri;

/// How long a store that could not be opened is not tried again: thousands of requests may ask for it.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Stores by the beginning of their URIs, opened when they are first asked for.
#[derive(Debug)]
pub(crate) struct Stores {
    registered: BTreeMap<String, Arc<dyn ObjectStore>>,
    #[cfg(feature = "aws")]
    s3: s3::S3Config,
    opened: Mutex<BTreeMap<String, Arc<AsyncMutex<Slot>>>>,
}

#[derive(Debug)]
enum Slot {
    Closed,
    Open(Arc<dyn ObjectStore>),
    Failed(CacheError, Instant),
}

impl Stores {
    /// Takes the registered stores, and how others are opened. The environment is read here, once.
    pub(crate) fn new(registered: BTreeMap<String, Arc<dyn ObjectStore>>, settings: &StoreSettings) -> Self {
        #[cfg(not(feature = "aws"))]
        let _ = settings;
        Self {
            registered,
            #[cfg(feature = "aws")]
            s3: s3::S3Config::new(settings, std::env::vars_os()),
            opened: Mutex::default(),
        }
    }

    /// Returns what tells two stores apart that share a URI: the endpoint. Registered stores are told apart by URL.
    pub(crate) fn scope(&self, uri: &ObjectUri<'_>) -> &str {
        #[cfg(feature = "aws")]
        if uri.scheme == "s3" && !self.registered.contains_key(uri.store_url) {
            return self.s3.endpoint().unwrap_or_default();
        }
        let _ = uri;
        ""
    }

    /// Says whether the URI's scheme can be served, before anything is queued.
    pub(crate) fn check(&self, uri: &ObjectUri<'_>) -> Result<(), CacheError> {
        let known = matches!(uri.scheme, "file") || (cfg!(feature = "aws") && uri.scheme == "s3");
        if known || self.registered.contains_key(uri.store_url) {
            return Ok(());
        }
        Err(CacheError::new(
            CacheErrorKind::InvalidUri,
            format!(
                "{:?}: no store for {}; {} are opened by themselves, any other is registered with \
                 DiskCacheBuilder::with_store({:?}, …)",
                uri.uri,
                uri.store_url,
                if cfg!(feature = "aws") {
                    "s3:// and file://"
                } else {
                    "file:// URIs (and s3:// with the feature aws)"
                },
                uri.store_url,
            ),
        ))
    }

    /// Returns the store that holds the object, and opens it if need be.
    pub(crate) async fn get(&self, uri: &ObjectUri<'_>) -> Result<Arc<dyn ObjectStore>, CacheError> {
        if let Some(store) = self.registered.get(uri.store_url) {
            return Ok(Arc::clone(store));
        }
        self.check(uri)?;
        let slot = {
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(opened.entry(uri.store_url.into()).or_insert_with(|| Arc::new(AsyncMutex::new(Slot::Closed))))
        };
        let mut slot = slot.lock().await;
        match &*slot {
            Slot::Open(store) => return Ok(Arc::clone(store)),
            Slot::Failed(error, at) if at.elapsed() < OPEN_AGAIN_AFTER => return Err(error.clone()),
            Slot::Closed | Slot::Failed(..) => {}
        }
        match self.open(uri).await {
            Ok(store) => {
                *slot = Slot::Open(Arc::clone(&store));
                Ok(store)
            }
            Err(error) => {
                *slot = Slot::Failed(error.clone(), Instant::now());
                Err(error)
            }
        }
    }

    async fn open(&self, uri: &ObjectUri<'_>) -> Result<Arc<dyn ObjectStore>, CacheError> {
        match uri.scheme {
            "file" => Ok(Arc::new(LocalFileSystem::new())),
            #[cfg(feature = "aws")]
            _ => self.s3.open(uri).await,
            #[cfg(not(feature = "aws"))]
            _ => unreachable!("`check` lets no other scheme pass"),
        }
    }
}
