//! What can be set about a cache and the stores behind it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{CacheError, CacheErrorKind};

/// How a [`DiskCache`](crate::DiskCache) downloads.
///
/// # Example
///
/// ```
/// use planfetch_cache::CacheSettings;
///
/// let settings = CacheSettings { download_concurrency: 128, ..CacheSettings::default() };
/// assert_eq!(settings.max_attempts, 6);
/// ```
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSettings {
    /// How many objects are downloaded at once. Default: 64.
    ///
    /// The rate of small objects is this number divided by the store's latency: 64 at 30 ms are 2,100 a second.
    /// Too low leaves a fast store idle; too high opens more connections than the store or the machine bears.
    pub download_concurrency: usize,
    /// How many files are written at once. Default: 1.
    ///
    /// Small files are written fastest by few writers, since a file system creates and renames them under its own
    /// locks. Raise it for large objects on a disk that one writer can't fill.
    pub write_concurrency: usize,
    /// How often an object is asked for before its download fails, the first time included. Default: 6.
    pub max_attempts: u32,
    /// The pause before the second attempt; each further one is twice as long, up to 5 s, and varies by half
    /// so that many clients don't return at once. Default: 100 ms.
    pub initial_backoff: Duration,
    /// How long a download may go without receiving a byte before the attempt is given up. Default: 30 s.
    ///
    /// There is no limit on the time that a whole download takes: a slow stream is healthy while it moves.
    pub progress_timeout: Duration,
    /// The number of threads that talk to the stores. Default: 2.
    ///
    /// Each carries some thousand small objects a second; more are needed for fast networks with encryption.
    pub io_threads: usize,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            download_concurrency: 64,
            write_concurrency: 1,
            max_attempts: 6,
            initial_backoff: Duration::from_millis(100),
            progress_timeout: Duration::from_secs(30),
            io_threads: 2,
        }
    }
}

impl CacheSettings {
    pub(crate) fn validate(&self) -> Result<(), CacheError> {
        let positive = [
            ("download_concurrency", self.download_concurrency as u64),
            ("write_concurrency", self.write_concurrency as u64),
            ("max_attempts", u64::from(self.max_attempts)),
            ("io_threads", self.io_threads as u64),
        ];
        for (name, value) in positive {
            if !(1..=100_000).contains(&value) {
                return Err(out_of_range(name, value, "must lie in 1..=100000"));
            }
        }
        if self.progress_timeout.is_zero() {
            return Err(out_of_range("progress_timeout", "0", "must be longer than 0"));
        }
        Ok(())
    }
}

fn out_of_range(name: &str, value: impl fmt::Display, range: &str) -> CacheError {
    CacheError::new(CacheErrorKind::InvalidSetting, format!("{name} is {value}, but {range}"))
}

/// How object stores are opened that a cache opens by itself.
///
/// What is not set comes from the environment (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL` and the others
/// that object_store reads), then from the chain of credentials: web identity, container, instance.
///
/// # Example
///
/// ```
/// use planfetch_cache::StoreSettings;
///
/// let settings = StoreSettings {
///     endpoint: Some("http://127.0.0.1:9000".into()),
///     access_key_id: Some("me".into()),
///     secret_access_key: Some("hunter2".into()),
///     ..StoreSettings::default()
/// };
/// // Secrets are not printed.
/// assert!(!format!("{settings:?}").contains("hunter2"));
/// ```
#[derive(Clone, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSettings {
    /// The URL of a server that speaks the S3 protocol. Default: Amazon's, or `AWS_ENDPOINT_URL`.
    pub endpoint: Option<String>,
    /// The region. Default: `AWS_REGION`, else `us-east-1`.
    pub region: Option<String>,
    /// The access key. Default: `AWS_ACCESS_KEY_ID`, else the chain of credentials.
    pub access_key_id: Option<String>,
    /// The secret key. Default: `AWS_SECRET_ACCESS_KEY`, else the chain of credentials.
    #[serde(skip_serializing)]
    pub secret_access_key: Option<String>,
    /// The token of temporary keys. Default: `AWS_SESSION_TOKEN`, where the keys come from the environment too.
    #[serde(skip_serializing)]
    pub session_token: Option<String>,
    /// Whether requests go unsigned, as public buckets allow. Default: false, or `AWS_SKIP_SIGNATURE`.
    pub anonymous: bool,
    /// Whether an endpoint may be plain `http://`, which shows data to the network. Default: false, or
    /// `AWS_ALLOW_HTTP`; an endpoint on this machine's loopback interface needs no permission.
    pub allow_http: bool,
}

impl fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSettings")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("access_key_id", &self.access_key_id.as_ref().map(|_| "***"))
            .field("secret_access_key", &self.secret_access_key.as_ref().map(|_| "***"))
            .field("session_token", &self.session_token.as_ref().map(|_| "***"))
            .field("anonymous", &self.anonymous)
            .field("allow_http", &self.allow_http)
            .finish()
    }
}
