//! A progress bar for a training loop.

use std::iter::FusedIterator;

use indicatif::ProgressBar;

use crate::batch::Batch;
use crate::epoch::Epoch;
use crate::error::LoaderError;

/// The batches of one epoch, shown by a progress bar. Made by [`Epoch::with_progress`].
#[derive(Debug)]
#[must_use = "iterators do nothing unless they are consumed"]
pub struct WithProgress<'a, B> {
    epoch: Epoch<'a, B>,
    bar: ProgressBar,
    has_failed: bool,
}

impl<'a, B> Epoch<'a, B> {
    /// Shows the epoch's steps by an indicatif bar, whose style is the caller's. Feature `indicatif`.
    ///
    /// The bar begins where the epoch does, also after a resume. Its message says how long the training loop has waited
    /// for batches so far, of all that it did. It is finished with the epoch; after an error it stays where it was.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Plan`] when the epoch has no plan.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # fn f(mut loader: planfetch_loader::PrefetchingLoader<Vec<u64>>) -> Result<(), planfetch_loader::LoaderError> {
    /// for epoch in 0..10 {
    ///     let bar = indicatif::ProgressBar::new(0).with_prefix(format!("epoch {epoch}"));
    ///     for batch in loader.epoch(epoch)?.with_progress(bar)? {
    ///         let batch = batch?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_progress(self, bar: ProgressBar) -> Result<WithProgress<'a, B>, LoaderError> {
        let controller = self.loader().controller();
        // OK because an index fits in 64 bits, here and below.
        bar.set_length(controller.num_steps(controller.epoch())? as u64);
        bar.set_position(controller.step() as u64);
        Ok(WithProgress { epoch: self, bar, has_failed: false })
    }
}

impl<B> Iterator for WithProgress<'_, B> {
    type Item = Result<Batch<B>, LoaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.epoch.next();
        match &next {
            Some(Ok(batch)) => {
                self.has_failed = false;
                self.bar.set_position(batch.step() as u64 + 1);
                self.bar.set_message(format!("waited {:.1} %", 100.0 * self.epoch.loader().waited_share()));
            }
            Some(Err(_)) => self.has_failed = true,
            // The bar stays where the epoch broke off.
            None if self.has_failed => self.bar.abandon(),
            None => self.bar.finish(),
        }
        next
    }
}

impl<B> FusedIterator for WithProgress<'_, B> {}
