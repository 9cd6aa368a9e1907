//! What makes plans.

pub(crate) mod balanced;
pub(crate) mod bucket;
pub(crate) mod concat;
pub(crate) mod curriculum;
pub(crate) mod mixture;
pub(crate) mod repeat;
pub(crate) mod sequential;
pub(crate) mod shuffle;
pub(crate) mod stratified;
pub(crate) mod subset;
pub(crate) mod weighted;

use std::fmt;
use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
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
/// use planfetch_plan::{Fingerprint, PlanError, PlanProvider, PlanView};
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
///     fn fingerprint(&self) -> Fingerprint { Fingerprint::of("alternate", &[]) }
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

    /// Returns the identity of the order that this provider makes: its name, and all that decides which samples come
    /// in which order. Two providers with the same fingerprint make the same order, cut into batches of any size.
    ///
    /// A [`Cursor`](crate::Cursor) keeps it, so that a run is never resumed in another order.
    fn fingerprint(&self) -> Fingerprint;
}

macro_rules! delegate {
    ($($pointer:ty),*) => {$(
        impl<P: PlanProvider + ?Sized> PlanProvider for $pointer {
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

            fn fingerprint(&self) -> Fingerprint {
                (**self).fingerprint()
            }
        }
    )*};
}

delegate!(&P, Box<P>, Arc<P>);

/// Checks what every provider is given.
fn check_sizes(num_samples: u64, batch_size: usize) -> Result<usize, PlanError> {
    check_batch_size(batch_size)?;
    check_len(num_samples)
}

/// Checks that slots can be numbered in 32 bits, from 0.
pub(crate) fn check_batch_size(batch_size: usize) -> Result<(), PlanError> {
    if batch_size == 0 || u32::try_from(batch_size).is_err() {
        // OK because an index fits in 64 bits.
        return Err(PlanError::BatchSize { batch_size: batch_size as u64, max: u64::from(u32::MAX) });
    }
    Ok(())
}

/// Checks that a plan of `num_ids` ids can be indexed, and returns the number as this platform's index type.
pub(crate) fn check_len(num_ids: u64) -> Result<usize, PlanError> {
    // A slice may span at most `isize::MAX` bytes, and an id takes up to eight.
    let max = isize::MAX as u64 / 8;
    match usize::try_from(num_ids) {
        Ok(len) if num_ids <= max => Ok(len),
        _ => Err(PlanError::NumSamples { num_samples: num_ids, max }),
    }
}

/// Returns how many of `len` ids are left when a short last batch is dropped, or all where it is not.
fn kept(len: u64, batch_size: usize, drop_last: bool) -> u64 {
    // OK because an index fits in 64 bits.
    if drop_last { len - len % batch_size as u64 } else { len }
}
