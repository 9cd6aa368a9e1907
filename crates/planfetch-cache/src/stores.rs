//! The object stores behind the cache.

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
    settings: StoreSettings,
    opened: Mutex<BTreeMap<String, Arc<AsyncMutex<Slot>>>>,
}

#[derive(Debug)]
enum Slot {
    Closed,
    Open(Arc<dyn ObjectStore>),
    Failed(CacheError, Instant),
}

impl Stores {
    pub(crate) fn new(registered: BTreeMap<String, Arc<dyn ObjectStore>>, settings: StoreSettings) -> Self {
        Self { registered, settings, opened: Mutex::default() }
    }

    /// Returns what tells two stores apart that share a URI: the endpoint. Registered stores are told apart by URL.
    pub(crate) fn scope(&self, uri: &ObjectUri<'_>) -> &str {
        match &self.settings.endpoint {
            Some(endpoint) if uri.scheme == "s3" && !self.registered.contains_key(uri.store_url) => endpoint,
            _ => "",
        }
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
            _ => s3::open(uri, &self.settings).await,
            #[cfg(not(feature = "aws"))]
            _ => unreachable!("`check` lets no other scheme pass"),
        }
    }
}

#[cfg(feature = "aws")]
mod s3 {
    //! Opening a bucket of Amazon S3, or of a server that speaks its protocol.

    use std::net::IpAddr;

    use object_store::ClientOptions;
    use object_store::RetryConfig;
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
    use url::{Host, Url};

    use super::*;

    /// How long the chain of credentials may take: an instance's metadata service answers in milliseconds, and where
    /// there is none, the connection may hang.
    const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(5);

    pub(super) async fn open(
        uri: &ObjectUri<'_>,
        settings: &StoreSettings,
    ) -> Result<Arc<dyn ObjectStore>, CacheError> {
        let bucket = uri.store_url.trim_start_matches("s3://");
        // Attempts are counted and paced by the cache, which resumes a broken body too and tells an endless stall from
        // a slow stream; the client's own retries and its limit on the whole request would work against that.
        let client = ClientOptions::new().with_timeout_disabled().with_connect_timeout(Duration::from_secs(5));
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
        if let Some(region) = &settings.region {
            builder = builder.with_region(region);
        }
        if let Some(id) = &settings.access_key_id {
            builder = builder.with_access_key_id(id);
        }
        if let Some(secret) = &settings.secret_access_key {
            builder = builder.with_secret_access_key(secret);
        }
        if settings.anonymous {
            builder = builder.with_skip_signature(true);
        }
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
        let allow_http = settings.allow_http
            || std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value == "true" || value == "1")
            || endpoint.as_deref().is_some_and(is_loopback);
        if let Some(endpoint) = endpoint {
            let scheme = Url::parse(&endpoint).map(|url| url.scheme().to_owned()).unwrap_or_default();
            match &*scheme {
                "https" => {}
                "http" if allow_http => {}
                "http" => {
                    return Err(CacheError::new(
                        CacheErrorKind::InvalidSetting,
                        format!(
                            "the endpoint {endpoint} is plain http, which shows data to the network; use https, or \
                             set allow_http (AWS_ALLOW_HTTP=true)"
                        ),
                    ));
                }
                _ => {
                    return Err(CacheError::new(
                        CacheErrorKind::InvalidSetting,
                        format!("the endpoint {endpoint:?} is no URL; write https://host:port"),
                    ));
                }
            }
        }
        let unusable = |source: object_store::Error| {
            CacheError::with_source(CacheErrorKind::InvalidSetting, format!("can't open {}", uri.store_url), source)
        };
        let store = builder.with_client_options(client.with_allow_http(allow_http)).build().map_err(unusable)?;
        if !settings.anonymous && !std::env::var("AWS_SKIP_SIGNATURE").is_ok_and(|value| value == "true") {
            check_credentials(uri, &store).await?;
        }
        Ok(Arc::new(store))
    }

    /// Asks for credentials once, so that their absence is said in words and not as a stall of each object.
    async fn check_credentials(uri: &ObjectUri<'_>, store: &object_store::aws::AmazonS3) -> Result<(), CacheError> {
        let advice = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ask anonymously (AWS_SKIP_SIGNATURE=true) \
                      where the bucket is public";
        match tokio::time::timeout(CREDENTIALS_TIMEOUT, store.credentials().get_credential()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(source)) => Err(CacheError::with_source(
                CacheErrorKind::Denied,
                format!("no credentials for {}; {advice}", uri.store_url),
                source,
            )),
            Err(_) => Err(CacheError::new(
                CacheErrorKind::Denied,
                format!("no credentials for {} within {} s; {advice}", uri.store_url, CREDENTIALS_TIMEOUT.as_secs()),
            )),
        }
    }

    fn is_loopback(endpoint: &str) -> bool {
        Url::parse(endpoint).is_ok_and(|url| match url.host() {
            Some(Host::Domain(domain)) => domain == "localhost",
            Some(Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
            Some(Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
            None => false,
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_this_machine_is_loopback() {
            for endpoint in ["http://localhost:9000", "http://127.0.0.1:1", "http://[::1]:1", "http://127.8.8.8"] {
                assert!(is_loopback(endpoint), "{endpoint}");
            }
            for endpoint in ["http://localhost.example.com", "http://10.0.0.1", "http://127.0.0.1.example.com", "", "x"]
            {
                assert!(!is_loopback(endpoint), "{endpoint}");
            }
        }
    }
}
