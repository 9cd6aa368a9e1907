//! What all stores that are asked over HTTP have in common, and those that are opened from the environment alone.

use std::net::IpAddr;
#[cfg(any(feature = "gcp", feature = "azure", feature = "http"))]
use std::sync::Arc;
use std::time::Duration;

#[cfg(any(feature = "gcp", feature = "azure", feature = "http"))]
use object_store::ObjectStore;
use object_store::{ClientOptions, RetryConfig};
use url::{Host, Url};

use super::Retries;
use crate::error::{CacheError, CacheErrorKind};
#[cfg(any(feature = "gcp", feature = "azure", feature = "http"))]
use crate::exchange::ObservingConnector;
#[cfg(any(feature = "gcp", feature = "azure", feature = "http"))]
use crate::uri::ObjectUri;
use crate::uri::redacted;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl Retries {
    pub(super) fn config(self) -> RetryConfig {
        match self {
            Self::None => RetryConfig { max_retries: 0, ..RetryConfig::default() },
            Self::Own => RetryConfig::default(),
        }
    }
}

/// Takes the client's limit on the whole request away: the cache gives up a download that stalls, however long a healthy
/// one takes.
pub(super) fn without_timeout(client: ClientOptions) -> ClientOptions {
    client.with_timeout_disabled().with_connect_timeout(CONNECT_TIMEOUT)
}

/// Refuses a server that data would be shown to the network on the way to, unless that was allowed.
pub(super) fn check_endpoint(endpoint: &str, allow_http: bool) -> Result<(), CacheError> {
    let problem = match Url::parse(endpoint) {
        Ok(url) if url.scheme() == "https" => return Ok(()),
        Ok(url) if url.scheme() == "http" && (allow_http || is_loopback(endpoint)) => return Ok(()),
        Ok(url) if url.scheme() == "http" => {
            "is plain http, which shows data to the network; use https, or set allow_http (AWS_ALLOW_HTTP=true)"
        }
        _ => "is no URL; write https://host:port",
    };
    Err(CacheError::new(CacheErrorKind::InvalidSetting, format!("the endpoint {} {problem}", redacted(endpoint))))
}

pub(super) fn is_loopback(endpoint: &str) -> bool {
    Url::parse(endpoint).is_ok_and(|url| match url.host() {
        Some(Host::Domain(domain)) => domain == "localhost",
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        None => false,
    })
}

#[cfg(any(feature = "gcp", feature = "azure", feature = "http"))]
fn opened<S: ObjectStore>(
    uri: &ObjectUri<'_>,
    store: object_store::Result<S>,
) -> Result<Arc<dyn ObjectStore>, CacheError> {
    match store {
        Ok(store) => Ok(Arc::new(store)),
        Err(source) => Err(CacheError::with_source(
            CacheErrorKind::InvalidSetting,
            format!("can't open {}: {source}", uri.store_url),
            source,
        )),
    }
}

/// Takes the client's options out of the variables that object_store reads: the proxy, certificates and the like.
#[cfg(any(feature = "gcp", feature = "azure"))]
fn client_of_env(prefix: &str, key_of: impl Fn(&str) -> Option<object_store::ClientConfigKey>) -> ClientOptions {
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    variables.filter(|(name, _)| name.starts_with(prefix)).fold(ClientOptions::new(), |client, (name, value)| {
        match (key_of(&name.to_ascii_lowercase()), value.into_string()) {
            (Some(key), Ok(value)) => client.with_config(key, value),
            _ => client,
        }
    })
}

/// How any bucket of Google Cloud Storage is opened: as the variables `GOOGLE_*` say.
#[cfg(feature = "gcp")]
pub(super) struct GcsConfig {
    builder: object_store::gcp::GoogleCloudStorageBuilder,
    scope: String,
}

#[cfg(feature = "gcp")]
impl GcsConfig {
    pub(super) fn from_env() -> Self {
        let builder = object_store::gcp::GoogleCloudStorageBuilder::from_env();
        let scope = builder.get_config_value(&object_store::gcp::GoogleConfigKey::BaseUrl).unwrap_or_default();
        Self { builder, scope }
    }

    /// Returns what tells buckets of one name apart: the server.
    pub(super) fn scope(&self) -> &str {
        &self.scope
    }

    pub(super) fn open(&self, uri: &ObjectUri<'_>, retries: Retries) -> Result<Arc<dyn ObjectStore>, CacheError> {
        let builder = self.builder.clone().with_bucket_name(uri.store_url.trim_start_matches("gs://"));
        let client = without_timeout(client_of_env("GOOGLE_", |name| match name.parse() {
            Ok(object_store::gcp::GoogleConfigKey::Client(key)) => Some(key),
            _ => None,
        }));
        let builder = builder.with_client_options(client).with_http_connector(ObservingConnector);
        opened(uri, builder.with_retry(retries.config()).build())
    }
}

#[cfg(feature = "gcp")]
impl std::fmt::Debug for GcsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The builder holds keys.
        f.debug_struct("GcsConfig").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// How any container of Azure Blob Storage is opened: as the variables `AZURE_*` say.
#[cfg(feature = "azure")]
pub(super) struct AzureConfig {
    builder: object_store::azure::MicrosoftAzureBuilder,
    scope: String,
    is_emulator: bool,
}

#[cfg(feature = "azure")]
impl AzureConfig {
    pub(super) fn from_env() -> Self {
        use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
        let builder = MicrosoftAzureBuilder::from_env();
        let value = |key| builder.get_config_value(&key).unwrap_or_default();
        let scope = format!("{} {}", value(AzureConfigKey::AccountName), value(AzureConfigKey::Endpoint));
        let is_emulator = value(AzureConfigKey::UseEmulator) == "true";
        Self { builder, scope, is_emulator }
    }

    /// Returns what tells containers of one name apart: the account, and the server.
    pub(super) fn scope(&self) -> &str {
        &self.scope
    }

    pub(super) fn open(&self, uri: &ObjectUri<'_>, retries: Retries) -> Result<Arc<dyn ObjectStore>, CacheError> {
        let builder = self.builder.clone().with_container_name(uri.store_url.trim_start_matches("az://"));
        let mut client = without_timeout(client_of_env("AZURE_", |name| match name.parse() {
            Ok(object_store::azure::AzureConfigKey::Client(key)) => Some(key),
            _ => None,
        }));
        if self.is_emulator {
            client = client.with_allow_http(true);
        }
        let builder = builder.with_client_options(client).with_http_connector(ObservingConnector);
        opened(uri, builder.with_retry(retries.config()).build())
    }
}

#[cfg(feature = "azure")]
impl std::fmt::Debug for AzureConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The builder holds keys.
        f.debug_struct("AzureConfig").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// Opens a web server.
#[cfg(feature = "http")]
pub(super) fn open_http(
    uri: &ObjectUri<'_>,
    allow_http: bool,
    retries: Retries,
) -> Result<Arc<dyn ObjectStore>, CacheError> {
    check_endpoint(uri.store_url, allow_http)?;
    let builder = object_store::http::HttpBuilder::new()
        .with_url(uri.store_url)
        .with_client_options(without_timeout(ClientOptions::new()).with_allow_http(true))
        .with_http_connector(ObservingConnector)
        .with_retry(retries.config());
    opened(uri, builder.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for endpoint in ["http://localhost:9000", "http://127.0.0.1:1", "http://[::1]:1", "http://127.8.8.8"] {
            assert!(is_loopback(endpoint), "{endpoint}");
        }
        for endpoint in ["http://localhost.example.com", "http://10.0.0.1", "http://127.0.0.1.example.com", "", "x"] {
            assert!(!is_loopback(endpoint), "{endpoint}");
        }
    }
}
