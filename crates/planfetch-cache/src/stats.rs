//! What a cache has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a cache has done since it was opened. Made by [`DiskCache::stats`](crate::DiskCache::stats).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Requests for an object that was local.
    pub hits: u64,
    /// Requests for an object that had to be waited for.
    pub misses: u64,
    /// Objects downloaded whole.
    pub objects_downloaded: u64,
    /// Bytes received from the stores, those of failed attempts included.
    pub bytes_downloaded: u64,
    /// Requests sent to the stores.
    pub requests: u64,
    /// Requests sent again after a failed attempt; they count as requests too.
    pub retries: u64,
    /// Objects whose download failed for good.
    pub failures: u64,
    /// Objects handed out from memory since they could not be written.
    pub unwritten: u64,
    /// Files deleted since their object left the window.
    pub evictions: u64,
    /// Files that were found local, but not as their name says, and were fetched again.
    pub corrupt_files: u64,
    /// Objects in the cache now.
    pub local_files: u64,
    /// Their bytes.
    pub local_bytes: u64,
}

/// The counters behind [`CacheStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) objects_downloaded: Counter,
    pub(crate) bytes_downloaded: Counter,
    pub(crate) requests: Counter,
    pub(crate) retries: Counter,
    pub(crate) failures: Counter,
    pub(crate) unwritten: Counter,
    pub(crate) evictions: Counter,
    pub(crate) corrupt_files: Counter,
}

impl Counters {
    pub(crate) fn snapshot(&self, local_files: u64, local_bytes: u64) -> CacheStats {
        CacheStats {
            hits: self.hits.get(),
            misses: self.misses.get(),
            objects_downloaded: self.objects_downloaded.get(),
            bytes_downloaded: self.bytes_downloaded.get(),
            requests: self.requests.get(),
            retries: self.retries.get(),
            failures: self.failures.get(),
            unwritten: self.unwritten.get(),
            evictions: self.evictions.get(),
            corrupt_files: self.corrupt_files.get(),
            local_files,
            local_bytes,
        }
    }
}

/// A number that only grows. Relaxed is enough: no other memory is ordered by it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
