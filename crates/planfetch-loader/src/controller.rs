//! Steering a loader from beside the loop that iterates over it.

use std::sync::Arc;
use std::{fmt, io};

use crate::error::{FailedSample, LoaderError};
use crate::failures::write_csv;
use crate::insight::report::LoaderReport;
use crate::shared::LoaderShared;
use crate::state::LoaderState;
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
    /// that was made ahead is lost. Nothing changes either where a restore has just sent the loader into this epoch: a
    /// loop that names each of its epochs goes on in the middle of the first.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Plan`] when the epoch has no plan.
    pub fn set_epoch(&self, epoch: u64) -> Result<(), LoaderError> {
        self.shared.set_epoch(epoch)
    }

    /// Returns where the run is: the next batch that the training loop takes. See [`LoaderState`].
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.shared.state()
    }

    /// Has the loader go on from a state, which takes the same time wherever it is. Nothing is loaded that was taken.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Restore`] when the state belongs to another order, and says what differs;
    /// [`LoaderError::Mismatch`] when another version wrote it, or it belongs to another rank.
    /// The loader is then as it was.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # fn f<B>(mut loader: planfetch_loader::PrefetchingLoader<B>, controller: planfetch_loader::PrefetchController<B>)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// controller.restore(&serde_json::from_str(&std::fs::read_to_string("checkpoint.json")?)?)?;
    /// for epoch in controller.epoch()..10 {
    ///     controller.set_epoch(epoch)?;
    ///     for batch in &mut loader {
    ///         let batch = batch?;
    ///         std::fs::write("checkpoint.json", serde_json::to_string(&controller.state())?)?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn restore(&self, state: &LoaderState) -> Result<(), LoaderError> {
        self.shared.restore(state)
    }

    /// Returns the samples that could not be loaded, in the order in which their batches were taken: skipped,
    /// substituted, or the reason of an error. The first 10,000 are kept; [`LoaderStats::failed`] counts all.
    #[must_use]
    pub fn failed_samples(&self) -> Vec<FailedSample> {
        self.shared.failures.to_vec()
    }

    /// Writes [`failed_samples`](Self::failed_samples) as CSV with a header: sample, uri, epoch, step, slot, position,
    /// substitute, cause.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write_failed_samples(&self, writer: impl io::Write) -> io::Result<()> {
        write_csv(&self.failed_samples(), writer)
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

    /// Returns the number of steps of an epoch, which is the same for every rank.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Plan`] when the epoch has no plan.
    pub fn num_steps(&self, epoch: u64) -> Result<usize, LoaderError> {
        Ok(self.shared.plans.get(epoch)?.num_steps())
    }

    /// Returns where the time of the run went so far, and what it was bound by. See [`LoaderReport`].
    #[must_use]
    pub fn report(&self) -> LoaderReport {
        self.shared.report()
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
