//! What makes plans.

pub(crate) mod sequential;
pub(crate) mod shuffle;

use std::fmt;

use crate::error::PlanError;
use crate::view::PlanView;

/// Makes the plan of any epoch.
///
/// # Contract
///
/// [`plan`](Self::plan) is a pure function of the provider's settings, its seed and the epoch.
/// It does no I/O and reads no clock, it may be called for any epoch in any order and from any thread,
/// and the same call gives the same plan in every process and on every platform.
/// Loaders rely on it: they resume by making the plan again.
///
/// Every plan has the same [`batch_size`](Self::batch_size), and ids in `0..num_samples`.
///
/// # Example
///
/// An order of one's own: the even samples in even epochs, the odd ones in odd epochs.
///
/// ```
/// use planfetch_plan::{PlanError, PlanProvider, PlanView};
///
/// #[derive(Debug)]
/// struct Alternate;
///
/// impl PlanProvider for Alternate {
///     fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
///         PlanView::from_ids((epoch % 2..self.num_samples()).step_by(2), self.batch_size(), self.num_samples())
///     }
///     fn num_samples(&self) -> u64 { 10 }
///     fn batch_size(&self) -> usize { 2 }
///     fn seed(&self) -> u64 { 0 }
/// }
///
/// assert_eq!(Alternate.plan(1)?.batch(0).expect("not empty").to_vec(), [1, 3].map(planfetch_plan::SampleId));
/// # Ok::<(), PlanError>(())
/// ```
pub trait PlanProvider: fmt::Debug + Send + Sync {
    /// Returns the plan of `epoch`, counted from 0.
    ///
    /// # Errors
    ///
    /// When the settings allow no plan for this epoch.
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError>;

    /// Returns the number of samples in the data set; ids lie in `0..num_samples`.
    fn num_samples(&self) -> u64;

    /// Returns the global batch size: the samples of a step over all ranks.
    fn batch_size(&self) -> usize;

    /// Returns the seed, from which a loader also derives the random numbers of each sample.
    /// Providers without randomness of their own return a seed all the same, 0 by default in those of this crate.
    fn seed(&self) -> u64;
}

impl<P: PlanProvider + ?Sized> PlanProvider for Box<P> {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        (**self).plan(epoch)
    }

    fn num_samples(&self) -> u64 {
        (**self).num_samples()
    }

    fn batch_size(&self) -> usize {
        (**self).batch_size()
    }

    fn seed(&self) -> u64 {
        (**self).seed()
    }
}

/// Checks what every provider is given, and returns both numbers as this platform's index type.
fn check_sizes(num_samples: u64, batch_size: usize) -> Result<usize, PlanError> {
    if batch_size == 0 {
        return Err(PlanError::BatchSize { batch_size: 0, max: u64::from(u32::MAX) });
    }
    if u32::try_from(batch_size).is_err() {
        return Err(PlanError::BatchSize { batch_size: batch_size as u64, max: u64::from(u32::MAX) });
    }
    // A slice may span at most `isize::MAX` bytes, and an id takes up to eight.
    let max = isize::MAX as u64 / 8;
    match usize::try_from(num_samples) {
        Ok(n) if num_samples <= max => Ok(n),
        _ => Err(PlanError::NumSamples { num_samples, max }),
    }
}
