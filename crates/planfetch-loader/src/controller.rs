//! Steering a loader from beside the loop that iterates over it.

use std::fmt;
use std::sync::Arc;

use crate::error::LoaderError;
use crate::loader::LoaderShared;
use crate::schedule::Place;
use crate::stats::LoaderStats;

/// Says which epoch a loader delivers, and tells how it is doing. A clone steers the same loader.
///
/// # Example
///
/// ```no_run
/// # fn f<B>(mut loader: planfetch_loader::PrefetchingLoader<B>, controller: planfetch_loader::PrefetchController<B>)
/// # -> Result<(), planfetch_loader::LoaderError> {
/// // A run that was stopped after epoch 2 goes on with epoch 3.
/// for epoch in 3..10 {
///     controller.set_epoch(epoch)?;
///     for batch in &mut loader {
///         let batch = batch?;
///         println!("epoch {} step {}", batch.epoch(), batch.step());
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct PrefetchController<B> {
    shared: Arc<LoaderShared<B>>,
}

impl<B> PrefetchController<B> {
    pub(crate) fn new(shared: Arc<LoaderShared<B>>) -> Self {
        Self { shared }
    }

    /// Has the loader go on with the first batch of `epoch`, counted from 0.
    ///
    /// Where the loader stands there already, as after the last batch of the epoch before, nothing changes and nothing
    /// that was made ahead is lost.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Plan`] when the epoch has no plan.
    pub fn set_epoch(&self, epoch: u64) -> Result<(), LoaderError> {
        // A plan that can't be made is said here, and not in the middle of the loop.
        self.shared.plans.get(epoch)?;
        self.shared.go_to(Place { epoch, step: 0 });
        Ok(())
    }

    /// Returns the epoch of the next batch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.shared.exchange.position().0.epoch
    }

    /// Returns the step of the next batch within its epoch.
    #[must_use]
    pub fn step(&self) -> usize {
        self.shared.exchange.position().0.step
    }

    /// Returns what the loader has done so far.
    #[must_use]
    pub fn stats(&self) -> LoaderStats {
        self.shared.counters.snapshot()
    }
}

impl<B> Clone for PrefetchController<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<B> fmt::Debug for PrefetchController<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefetchController")
            .field("epoch", &self.epoch())
            .field("step", &self.step())
            .finish_non_exhaustive()
    }
}
