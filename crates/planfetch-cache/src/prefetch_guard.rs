//! A wish for an object that will be needed.

use std::fmt;
use std::sync::Arc;

use crate::key::ObjectKey;
use crate::shared::Shared;

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
        let mut guards: Vec<Self> = guards.into_iter().collect();
        // Usually all are of one cache, and the loop runs once.
        while let Some(first) = guards.first() {
            let shared = Arc::clone(&first.shared);
            let (ours, others) = guards.into_iter().partition(|guard| Arc::ptr_eq(&guard.shared, &shared));
            let mut ours: Vec<Self> = ours;
            shared.update(|table, effects| {
                for guard in &mut ours {
                    guard.is_released = true;
                    table.release(guard.key, true, effects);
                }
            });
            guards = others;
        }
    }
}

impl Drop for PrefetchGuard {
    fn drop(&mut self) {
        if !self.is_released {
            self.shared.update(|table, effects| table.release(self.key, false, effects));
        }
    }
}

impl fmt::Debug for PrefetchGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefetchGuard").field("key", &self.key).finish_non_exhaustive()
    }
}
