//! What can be set about a cache and the stores behind it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{CacheError, CacheErrorKind};
use crate::eviction::{CacheLimit, EvictionMode};
use crate::table::Limits;
use crate::uri::redacted;

/// Who keeps the books of a cache directory.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PruneBackend {
    /// This process, in memory. It is the only one that uses the directory; a second one is refused.
    #[default]
    Meta,
    /// The directory itself, so that any number of processes share it: each object is downloaded once for all of them,
    /// and what one of them uses none deletes. Each of them must use this back end.
    ///
    /// Costs a look at the directory for each object that this process does not use already. Needs Linux, and a file
    /// system with working locks, which is checked when the cache is opened; so not most network file systems.
    Scan,
}

/// How a [`DiskCache`](crate::DiskCache) downloads, and what it keeps.
///
/// # Example
///
/// ```
/// use planfetch_cache::CacheSettings;
///
/// let settings = CacheSettings { download_concurrency: 128, ..CacheSettings::default() };
/// assert_eq!(settings.max_attempts, 6);
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSettings {
    /// Which local files go, and when. Default: [`EvictionMode::Window`].
    pub eviction: EvictionMode,
    /// Whether this process has the directory for itself. Default: [`PruneBackend::Meta`], it has.
    pub prune_backend: PruneBackend,
    /// How much of the disk the cache may take. Default: [`CacheLimit::Unlimited`].
    ///
    /// It is never exceeded, by one process or by several ([`PruneBackend::Scan`]): where all that it allows is in use,
    /// objects are read into memory and not written, and nothing is prefetched.
    /// Too low a limit makes the window narrower than the latency of the store needs.
    /// Counted are the lengths of the objects, not what the file system adds to each.
    pub limit: CacheLimit,
    /// How many files the cache may hold, for file systems that run out of inodes first. Default: no limit.
    pub max_files: Option<u64>,
    /// To what share of the limit files go once it is reached, in [`EvictionMode::Pressure`] and with
    /// [`PruneBackend::Scan`]. Default: 0.9.
    ///
    /// Lower deletes more at once, and so less often; what was deleted too early has to be fetched again.
    pub low_watermark: f64,
    /// How old a file must be before it may go. Default: 0.
    ///
    /// A file that leaves the window earlier goes with what the cache does first once the file has reached that age. If
    /// the process ends before, the file stays until room is needed, like all that an earlier process left; without a
    /// limit, for good. One that is too young does not go to make room either: objects are then read into memory.
    pub min_age_before_delete: Duration,
    /// How many objects are downloaded at once. Default: 64.
    ///
    /// The rate of small objects is this number divided by the store's latency: 64 at 30 ms are 2,100 a second.
    /// Too low leaves a fast store idle; too high opens more connections than the store or the machine bears.
    pub download_concurrency: usize,
    /// Whether a store that refuses requests (503, 429), or does not answer, is asked more slowly, at a pace that finds
    /// out how much it bears. Default: true.
    ///
    /// Without it, each refusal counts as a failed attempt.
    pub adaptive_concurrency: bool,
    /// How many bytes of objects on their way may be in memory at once. Default: 1 GiB.
    ///
    /// Of an object that is written as it comes, some 16 MiB count; one that finds no place on disk counts whole, until
    /// it is handed out, and waits until that much is free. One that is larger than all of it comes alone.
    pub max_bytes_in_flight: u64,
    /// Objects of at least twice this length are downloaded by several ranges at once. Default: 32 MiB.
    ///
    /// One connection carries some 50 to 100 MB/s from a cloud store, whatever the line.
    pub part_size: u64,
    /// How many ranges of one object are downloaded at once. 1 takes each object as one stream. Default: 4.
    pub part_concurrency: usize,
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
    ///
    /// With [`PruneBackend::Scan`], another process is waited for as long: one that is stopped (SIGSTOP, a debugger)
    /// while it downloads an object, or has the directory's count locked, costs the others that much, and the objects
    /// are read into memory.
    pub progress_timeout: Duration,
    /// The number of threads that talk to the stores. Default: 2.
    ///
    /// Each carries some thousand small objects a second; more are needed for fast networks with encryption.
    pub io_threads: usize,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            eviction: EvictionMode::default(),
            prune_backend: PruneBackend::default(),
            limit: CacheLimit::default(),
            max_files: None,
            low_watermark: 0.9,
            min_age_before_delete: Duration::ZERO,
            download_concurrency: 64,
            adaptive_concurrency: true,
            max_bytes_in_flight: 1 << 30,
            part_size: 32 << 20,
            part_concurrency: 4,
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
            ("download_concurrency", self.download_concurrency as u64, 100_000),
            // Threads, these two.
            ("write_concurrency", self.write_concurrency as u64, 4_096),
            ("io_threads", self.io_threads as u64, 4_096),
            ("part_concurrency", self.part_concurrency as u64, 100_000),
            ("max_attempts", u64::from(self.max_attempts), 100_000),
        ];
        for (name, value, max) in positive {
            if !(1..=max).contains(&value) {
                return Err(out_of_range(name, value, &format!("must lie in 1..={max}")));
            }
        }
        const MIB: u64 = 1 << 20;
        for (name, value) in [("part_size", self.part_size), ("max_bytes_in_flight", self.max_bytes_in_flight)] {
            if !(MIB..=1 << 40).contains(&value) {
                return Err(out_of_range(name, value, "must lie in 1 MiB..=1 TiB (1048576..=1099511627776)"));
            }
        }
        if !(0.01..=1.0).contains(&self.low_watermark) {
            return Err(out_of_range("low_watermark", self.low_watermark, "must lie in 0.01..=1"));
        }
        match self.limit {
            CacheLimit::TotalSize(0) => return Err(out_of_range("limit", "0 bytes", "must be at least 1 byte")),
            CacheLimit::AvailableSpace { min_ratio } if !(0.0..1.0).contains(&min_ratio) => {
                return Err(out_of_range("min_ratio", min_ratio, "must lie in 0..1"));
            }
            CacheLimit::AvailableSpace { .. } if self.prune_backend == PruneBackend::Scan => {
                return Err(out_of_range(
                    "limit",
                    "a share of the file system",
                    "the prune backend scan needs a total size; all processes must set the same one",
                ));
            }
            _ => {}
        }
        if self.max_files == Some(0) {
            return Err(out_of_range("max_files", 0, "must be at least 1"));
        }
        if self.eviction == EvictionMode::Clairvoyant && self.prune_backend == PruneBackend::Scan {
            return Err(out_of_range(
                "eviction",
                self.eviction,
                "the prune backend scan knows no process's future but its own; use window or pressure, or the prune \
                 backend meta",
            ));
        }
        if self.progress_timeout.is_zero() {
            return Err(out_of_range("progress_timeout", "0", "must be longer than 0"));
        }
        Ok(())
    }

    /// Returns the bytes that the limit allows, where it is a number.
    pub(crate) fn max_bytes(&self) -> u64 {
        if let CacheLimit::TotalSize(bytes) = self.limit { bytes } else { u64::MAX }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_bytes: self.max_bytes(),
            max_files: self.max_files.unwrap_or(u64::MAX),
            low_watermark: self.low_watermark,
            min_age: self.min_age_before_delete,
            mode: self.eviction,
        }
    }

    /// Returns the bytes that may be in memory at once, in the unit in which they are counted.
    pub(crate) fn in_flight_kib(&self) -> u64 {
        self.max_bytes_in_flight / 1024
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
    /// The URL of a server that speaks the S3 protocol. Default: Amazon's, or `AWS_ENDPOINT_URL`. Other stores are
    /// opened from the environment alone.
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
    /// How many connections to an S3 server are kept open while no request uses them. Default: all of them, or
    /// `AWS_POOL_MAX_IDLE_PER_HOST`.
    ///
    /// Fewer than requests run at once means connecting anew, which takes several times as long as a request.
    pub max_idle_connections: Option<usize>,
}

impl fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSettings")
            .field("endpoint", &self.endpoint.as_deref().map(redacted))
            .field("region", &self.region)
            .field("access_key_id", &self.access_key_id.as_ref().map(|_| "***"))
            .field("secret_access_key", &self.secret_access_key.as_ref().map(|_| "***"))
            .field("session_token", &self.session_token.as_ref().map(|_| "***"))
            .field("anonymous", &self.anonymous)
            .field("allow_http", &self.allow_http)
            .field("max_idle_connections", &self.max_idle_connections)
            .finish()
    }
}
