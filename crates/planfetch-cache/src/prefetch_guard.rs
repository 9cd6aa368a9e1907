//! A wish for an object that will be needed.

use std::fmt;
use std::sync::Arc;

use crate::eviction::NextUse;
use crate::key::ObjectKey;
use crate::shared::Shared;
use crate::table::Release;

/// Asks for an object before it is needed, and keeps it local. Made by [`DiskCache::prefetch`](crate::DiskCache::prefetch).
///
/// Dropping it takes the wish back: a download that nobody else wants is cancelled, a file that is there stays.
/// [`evict`](Self::evict) deletes the file as well, as soon as nothing else keeps it.
#[must_use = "dropping the guard takes the wish for the object back"]
pub struct PrefetchGuard {
    shared: Arc<Shared>,
    key: ObjectKey,
    /// Whether the wish has been taken back already.
    is_released: bool,
}

impl PrefetchGuard {
    /// Makes a guard for which the table has counted a hold.
    pub(crate) fn new(shared: Arc<Shared>, key: ObjectKey) -> Self {
        Self { shared, key, is_released: false }
    }

    /// Gives the object up: its file is deleted when no other guard keeps it.
    pub fn evict(self) {
        Self::evict_all([self]);
    }

    /// Gives many objects up at once, which takes less time than one by one.
    pub fn evict_all(guards: impl IntoIterator<Item = Self>) {
        Self::end_all(guards.into_iter().map(|guard| (guard, Release::Evict)).collect());
    }

    /// Takes many wishes back at once, and says when each object is used next. Their files stay until room is needed;
    /// with [`EvictionMode::Clairvoyant`](crate::EvictionMode::Clairvoyant), those go first whose next use is farthest.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_cache::{CacheSettings, DiskCache, EvictionMode, NextUse, PrefetchGuard};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # std::fs::write(folder.path().join("a"), "a")?;
    /// let settings = CacheSettings { eviction: EvictionMode::Clairvoyant, ..CacheSettings::default() };
    /// let cache = DiskCache::builder(folder.path().join("cache")).with_settings(settings).build()?;
    /// let uri = format!("file://{}/a", folder.path().display());
    /// let guard = cache.prefetch(&uri)?;
    /// drop(cache.ensure_local(&uri)?);
    /// PrefetchGuard::release_all([(guard, NextUse::At(1_000))]);
    /// assert!(cache.contains(&uri));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release_all(guards: impl IntoIterator<Item = (Self, NextUse)>) {
        Self::end_all(guards.into_iter().map(|(guard, next_use)| (guard, Release::Keep(next_use))).collect());
    }

    fn end_all(mut guards: Vec<(Self, Release)>) {
        // Usually all are of one cache, and the loop runs once.
        while let Some((first, _)) = guards.first() {
            let shared = Arc::clone(&first.shared);
            let (mut ours, others): (Vec<_>, Vec<_>) =
                guards.into_iter().partition(|(guard, _)| Arc::ptr_eq(&guard.shared, &shared));
            shared.update(|table, effects| {
                for (guard, release) in &mut ours {
                    guard.is_released = true;
                    table.release(guard.key, *release, effects);
                }
            });
            guards = others;
        }
    }
}

impl Drop for PrefetchGuard {
    fn drop(&mut self) {
        if !self.is_released {
            let release = Release::Keep(NextUse::Unknown);
            self.shared.update(|table, effects| table.release(self.key, release, effects));
        }
    }
}

impl fmt::Debug for PrefetchGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefetchGuard").field("key", &self.key).finish_non_exhaustive()
    }
}
