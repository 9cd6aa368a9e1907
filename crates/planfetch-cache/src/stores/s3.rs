//! Buckets of Amazon S3, or of a server that speaks its protocol.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientOptions, ObjectStore};

use super::Retries;
use super::cloud::{check_endpoint, is_loopback, without_timeout};
use crate::error::{CacheError, CacheErrorKind};
use crate::exchange::ObservingConnector;
use crate::settings::StoreSettings;
use crate::uri::ObjectUri;

/// How long the chain of credentials may take: an instance's metadata service answers in milliseconds, and where there
/// is none, the connection may hang.
const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(5);

/// How any bucket is opened: the settings, and the environment for what they leave open.
#[derive(Debug)]
pub(super) struct S3Config {
    builder: AmazonS3Builder,
    client: ClientOptions,
    endpoint: Option<String>,
    allow_http: bool,
}

impl S3Config {
    /// Takes the settings, and the variables of the environment.
    pub(super) fn new(settings: &StoreSettings, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut builder = AmazonS3Builder::new();
        let mut client = ClientOptions::new();
        for (name, value) in variables {
            let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
            if !name.starts_with("AWS_") {
                continue;
            }
            match name.to_ascii_lowercase().parse() {
                // Keys that were set by hand go with no token, and with no other half, of other keys.
                Ok(AmazonS3ConfigKey::AccessKeyId | AmazonS3ConfigKey::SecretAccessKey | AmazonS3ConfigKey::Token)
                    if settings.access_key_id.is_some() => {}
                // An endpoint that was set wins over both variables for it.
                Ok(AmazonS3ConfigKey::Endpoint | AmazonS3ConfigKey::S3Endpoint) if settings.endpoint.is_some() => {}
                // The client's options are kept apart, since the cache sets some of them for every bucket.
                Ok(AmazonS3ConfigKey::Client(key)) => client = client.with_config(key, value),
                Ok(key) => builder = builder.with_config(key, value),
                Err(_) => {}
            }
        }
        let given = [
            (AmazonS3ConfigKey::Endpoint, &settings.endpoint),
            (AmazonS3ConfigKey::Region, &settings.region),
            (AmazonS3ConfigKey::AccessKeyId, &settings.access_key_id),
            (AmazonS3ConfigKey::SecretAccessKey, &settings.secret_access_key),
            (AmazonS3ConfigKey::Token, &settings.session_token),
        ];
        for (key, value) in given {
            if let Some(value) = value {
                builder = builder.with_config(key, value);
            }
        }
        if let Some(idle) = settings.max_idle_connections {
            client = client.with_pool_max_idle_per_host(idle);
        }
        if settings.anonymous {
            builder = builder.with_skip_signature(true);
        }
        // The variable that names S3 alone wins over the one for all of Amazon's services.
        let endpoint = builder
            .get_config_value(&AmazonS3ConfigKey::S3Endpoint)
            .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
        let allow_http = settings.allow_http
            || client.get_config_value(&object_store::ClientConfigKey::AllowHttp).is_some_and(is_true)
            || endpoint.as_deref().is_some_and(is_loopback);
        Self { builder, client, endpoint, allow_http }
    }

    /// Returns the URL of the server, or `None` for Amazon's.
    pub(super) fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    /// Opens the bucket that `uri` lies in.
    pub(super) async fn open(&self, uri: &ObjectUri<'_>, retries: Retries) -> Result<Arc<dyn ObjectStore>, CacheError> {
        if let Some(endpoint) = &self.endpoint {
            check_endpoint(endpoint, self.allow_http)?;
        }
        let client = without_timeout(self.client.clone());
        let builder = self.builder.clone();
        let is_anonymous = builder.get_config_value(&AmazonS3ConfigKey::SkipSignature).is_some_and(is_true);
        let store = builder
            .with_bucket_name(uri.store_url.trim_start_matches("s3://"))
            .with_retry(retries.config())
            .with_http_connector(ObservingConnector)
            .with_client_options(client.with_allow_http(self.allow_http))
            .build()
            .map_err(|source| {
                CacheError::with_source(
                    CacheErrorKind::InvalidSetting,
                    format!("can't open {}: {source}", uri.store_url),
                    source,
                )
            })?;
        if !is_anonymous {
            check_credentials(uri, &store).await?;
        }
        Ok(Arc::new(store))
    }
}

/// Asks for credentials once, so that their absence is said in words and not as a stall of each object.
async fn check_credentials(uri: &ObjectUri<'_>, store: &AmazonS3) -> Result<(), CacheError> {
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

/// Reads a switch as object_store does.
fn is_true(value: String) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "on" | "yes" | "y")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &StoreSettings, variables: &[(&str, &str)]) -> S3Config {
        S3Config::new(settings, variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))))
    }

    #[test]
    fn the_endpoint_is_the_one_that_is_asked() {
        let none = StoreSettings::default();
        let set = StoreSettings { endpoint: Some("https://set".into()), ..StoreSettings::default() };
        let general = ("AWS_ENDPOINT_URL", "https://general");
        let of_s3 = ("AWS_ENDPOINT_URL_S3", "https://of-s3");
        for (settings, variables, expected) in [
            (&none, vec![], None),
            (&none, vec![general], Some("https://general")),
            (&none, vec![general, of_s3], Some("https://of-s3")),
            (&none, vec![of_s3, general], Some("https://of-s3")),
            (&set, vec![general, of_s3], Some("https://set")),
        ] {
            assert_eq!(config(settings, &variables).endpoint(), expected, "{variables:?}");
        }
    }

    #[test]
    fn keys_that_were_set_go_with_no_token_of_the_environment() {
        let variables = [("AWS_ACCESS_KEY_ID", "env"), ("AWS_SECRET_ACCESS_KEY", "env"), ("AWS_SESSION_TOKEN", "env")];
        let value = |settings: &StoreSettings, key| config(settings, &variables).builder.get_config_value(&key);
        let none = StoreSettings::default();
        assert_eq!(value(&none, AmazonS3ConfigKey::Token).as_deref(), Some("env"));
        let set = StoreSettings {
            access_key_id: Some("me".into()),
            secret_access_key: Some("mine".into()),
            ..StoreSettings::default()
        };
        assert_eq!(value(&set, AmazonS3ConfigKey::AccessKeyId).as_deref(), Some("me"));
        assert_eq!(value(&set, AmazonS3ConfigKey::SecretAccessKey).as_deref(), Some("mine"));
        assert_eq!(value(&set, AmazonS3ConfigKey::Token), None);
    }

    #[test]
    fn options_of_the_client_and_switches_are_read_as_object_store_reads_them() {
        let variables = [
            ("AWS_PROXY_URL", "http://proxy:3128"),
            ("AWS_SKIP_SIGNATURE", "1"),
            ("AWS_ALLOW_HTTP", "TRUE"),
            ("AWS_UNKNOWN", "x"),
            ("HOME", "/root"),
        ];
        let config = config(&StoreSettings::default(), &variables);
        let proxy = config.client.get_config_value(&object_store::ClientConfigKey::ProxyUrl);
        assert_eq!(proxy.as_deref(), Some("http://proxy:3128"));
        let skip = config.builder.get_config_value(&AmazonS3ConfigKey::SkipSignature);
        assert!(skip.is_some_and(is_true) && config.allow_http);
    }
}
