//! What a cache has done so far.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::table::Amount;
use crate::timeline::{FetchStage, FetchTimeline};

/// What a cache has done since it was opened. Made by [`DiskCache::stats`](crate::DiskCache::stats).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Requests for an object that was local.
    pub hits: u64,
    /// Requests for an object that had to be waited for: until it came, or until its file was checked.
    pub misses: u64,
    /// Objects downloaded whole.
    pub objects_downloaded: u64,
    /// Bytes received from the stores, those of failed attempts included.
    pub bytes_downloaded: u64,
    /// Requests sent to the stores.
    pub requests: u64,
    /// Requests sent again after a failed attempt; they count as requests too.
    pub retries: u64,
    /// Requests that the store refused since it was asked too fast (503, 429).
    pub throttled: u64,
    /// Objects whose download failed for good.
    pub failures: u64,
    /// Objects handed out from memory since they could not be written, or since there was no room.
    pub unwritten: u64,
    /// How often there was no room: all that the limit allows was in use.
    pub no_room: u64,
    /// Files deleted since their object left the window, or to make room.
    pub evictions: u64,
    /// Files that were found local, but not as their name says or not readable, and were fetched again.
    pub corrupt_files: u64,
    /// Objects in the cache now; with [`PruneBackend::Scan`](crate::PruneBackend::Scan), those of all processes, and
    /// those that are being written.
    pub local_files: u64,
    /// Their bytes.
    pub local_bytes: u64,
    /// How long fetches were in each stage, all added up, in the order of [`FetchStage::ALL`].
    pub time_by_stage: [Duration; FetchStage::ALL.len()],
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
    pub(crate) throttled: Counter,
    pub(crate) failures: Counter,
    pub(crate) unwritten: Counter,
    pub(crate) no_room: Counter,
    pub(crate) evictions: Counter,
    pub(crate) corrupt_files: Counter,
    nanos_by_stage: [Counter; FetchStage::ALL.len()],
}

impl Counters {
    /// Counts the time of a fetch that has ended.
    pub(crate) fn add_times(&self, timeline: &FetchTimeline) {
        for (stage, counter) in FetchStage::ALL.into_iter().zip(&self.nanos_by_stage) {
            counter.add(u64::try_from(timeline.time_in(stage).as_nanos()).unwrap_or(u64::MAX));
        }
    }

    pub(crate) fn snapshot(&self, local: Amount) -> CacheStats {
        CacheStats {
            hits: self.hits.get(),
            misses: self.misses.get(),
            objects_downloaded: self.objects_downloaded.get(),
            bytes_downloaded: self.bytes_downloaded.get(),
            requests: self.requests.get(),
            retries: self.retries.get(),
            throttled: self.throttled.get(),
            failures: self.failures.get(),
            unwritten: self.unwritten.get(),
            no_room: self.no_room.get(),
            evictions: self.evictions.get(),
            corrupt_files: self.corrupt_files.get(),
            local_files: local.files,
            local_bytes: local.bytes,
            time_by_stage: std::array::from_fn(|i| Duration::from_nanos(self.nanos_by_stage[i].get())),
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
