//! From samples to batches.

mod pad;
mod stack;
mod tuple;

pub use crate::collate::pad::{PadCollate, PaddedBatch};
pub use crate::collate::stack::StackCollate;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::BoxError;

/// Makes batches of samples.
///
/// A batch begins as a [`Buffer`](Self::Buffer) that is divided into slots. Each worker puts its sample straight into
/// its slot, all at once, and when the last slot is full the buffer becomes a batch. A batch that the training loop has
/// dropped comes back to be filled again, since the pages of a fresh large buffer cost more time than what is
/// written into them.
///
/// [`buffer`](Self::buffer) is also where an adapter brings in memory of its own: host memory that is pinned for a GPU,
/// or a tensor of its framework. It is allocated once for each batch under way, written by the workers in place, and
/// comes back by [`recycle`](Self::recycle).
///
/// Where samples are skipped ([`OnError::Skip`](crate::OnError::Skip)), the batch is made anew of the samples that are
/// left, with fewer slots; `slots` is then called again for the same buffer, and with a length of 0 when none is left.
///
/// The ready ones: [`VecCollate`] and [`collate_fn`] for samples of any type, [`StackCollate`] for arrays of one shape,
/// [`PadCollate`] for sequences of different lengths. A tuple of up to four collates collates samples that are tuples of
/// as many parts.
///
/// # Example
///
/// Numbers into one vector, without a copy and without an allocation after the first batches:
///
/// ```
/// use planfetch_loader::{BoxError, Collate};
///
/// struct Numbers;
///
/// impl Collate<f32> for Numbers {
///     type Buffer = Vec<f32>;
///     type Slot<'b> = &'b mut f32;
///     type Batch = Vec<f32>;
///
///     fn buffer(&self) -> Vec<f32> { Vec::new() }
///     fn slots<'b>(&self, buffer: &'b mut Vec<f32>, len: usize) -> Vec<&'b mut f32> {
///         buffer.resize(len, 0.0);
///         buffer.iter_mut().collect()
///     }
///     fn put(&self, sample: f32, slot: &mut f32) -> Result<(), BoxError> {
///         *slot = sample;
///         Ok(())
///     }
///     fn finish(&self, buffer: Vec<f32>) -> Vec<f32> { buffer }
///     fn recycle(&self, batch: Vec<f32>) -> Option<Vec<f32>> { Some(batch) }
/// }
///
/// let mut buffer = Numbers.buffer();
/// for (slot, sample) in Numbers.slots(&mut buffer, 2).into_iter().zip([1.0, 2.0]) {
///     Numbers.put(sample, slot)?;
/// }
/// assert_eq!(Numbers.finish(buffer), [1.0, 2.0]);
/// # Ok::<(), BoxError>(())
/// ```
pub trait Collate<S>: Send + Sync + 'static {
    /// A batch in the making.
    type Buffer: Send + 'static;
    /// The place of one sample.
    type Slot<'b>: Send;
    /// What the training loop takes.
    type Batch: Send + 'static;

    /// Makes a buffer for a first use.
    fn buffer(&self) -> Self::Buffer;

    /// Makes room for `len` samples and returns exactly `len` slots, in order.
    fn slots<'b>(&self, buffer: &'b mut Self::Buffer, len: usize) -> Vec<Self::Slot<'b>>;

    /// Puts a sample into its slot. Called from many threads at once.
    ///
    /// # Errors
    ///
    /// When the sample does not fit in the batch. The loader adds its id and URI.
    fn put(&self, sample: S, slot: Self::Slot<'_>) -> Result<(), BoxError>;

    /// Makes the batch, when every slot has been filled.
    fn finish(&self, buffer: Self::Buffer) -> Self::Batch;

    /// Marks the last `num_padding` slots of a batch, which only repeat samples so that all ranks have equally many; see
    /// [`Batch::num_padding`](crate::Batch::num_padding). Called where there are such slots, right after
    /// [`finish`](Self::finish). By default it does nothing, for batches that have no place to mark them in.
    fn set_padding(&self, batch: &mut Self::Batch, num_padding: usize) {
        let _ = (batch, num_padding);
    }

    /// Returns how many bytes of memory a batch takes, or `None` where that is not known, which is what this method does
    /// by default. [`LoaderSettings::max_batch_bytes`](crate::LoaderSettings::max_batch_bytes) needs it.
    fn num_bytes(&self, batch: &Self::Batch) -> Option<u64> {
        let _ = batch;
        None
    }

    /// Returns the buffer behind a batch that is no longer used, or `None` where batches are not used again, which is
    /// what this method does by default.
    fn recycle(&self, batch: Self::Batch) -> Option<Self::Buffer> {
        drop(batch);
        None
    }
}

/// What several loaders share is one as it is.
impl<S, C: Collate<S>> Collate<S> for Arc<C> {
    type Buffer = C::Buffer;
    type Slot<'b> = C::Slot<'b>;
    type Batch = C::Batch;

    fn buffer(&self) -> C::Buffer {
        (**self).buffer()
    }

    fn slots<'b>(&self, buffer: &'b mut C::Buffer, len: usize) -> Vec<C::Slot<'b>> {
        (**self).slots(buffer, len)
    }

    fn put(&self, sample: S, slot: C::Slot<'_>) -> Result<(), BoxError> {
        (**self).put(sample, slot)
    }

    fn finish(&self, buffer: C::Buffer) -> C::Batch {
        (**self).finish(buffer)
    }

    fn set_padding(&self, batch: &mut C::Batch, num_padding: usize) {
        (**self).set_padding(batch, num_padding);
    }

    fn num_bytes(&self, batch: &C::Batch) -> Option<u64> {
        (**self).num_bytes(batch)
    }

    fn recycle(&self, batch: C::Batch) -> Option<C::Buffer> {
        (**self).recycle(batch)
    }
}

/// Keeps the samples of a batch in a `Vec`, in slot order.
#[derive(Clone, Copy, Debug, Default)]
pub struct VecCollate;

impl<S: Send + 'static> Collate<S> for VecCollate {
    type Buffer = Vec<Option<S>>;
    type Slot<'b> = &'b mut Option<S>;
    type Batch = Vec<S>;

    fn buffer(&self) -> Vec<Option<S>> {
        Vec::new()
    }

    fn slots<'b>(&self, buffer: &'b mut Vec<Option<S>>, len: usize) -> Vec<&'b mut Option<S>> {
        buffer.clear();
        buffer.resize_with(len, || None);
        buffer.iter_mut().collect()
    }

    fn put(&self, sample: S, slot: &mut Option<S>) -> Result<(), BoxError> {
        *slot = Some(sample);
        Ok(())
    }

    fn finish(&self, buffer: Vec<Option<S>>) -> Vec<S> {
        buffer.into_iter().flatten().collect()
    }
}

/// Makes a [`Collate`] of a function from the samples of a batch, in slot order, to the batch.
///
/// # Example
///
/// ```
/// use planfetch_loader::{Collate, collate_fn};
///
/// let sum = collate_fn(|samples: Vec<u32>| samples.iter().sum::<u32>());
/// assert_eq!(sum.finish(vec![Some(1), Some(2)]), 3);
/// ```
pub fn collate_fn<S, B, F>(collate: F) -> CollateFn<S, B, F>
where
    F: Fn(Vec<S>) -> B + Send + Sync + 'static,
{
    CollateFn { collate, types: PhantomData }
}

/// A function as a [`Collate`]. Made by [`collate_fn`].
pub struct CollateFn<S, B, F> {
    collate: F,
    types: PhantomData<fn(S) -> B>,
}

impl<S, B, F> fmt::Debug for CollateFn<S, B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollateFn").finish_non_exhaustive()
    }
}

impl<S, B, F> Collate<S> for CollateFn<S, B, F>
where
    S: Send + 'static,
    B: Send + 'static,
    F: Fn(Vec<S>) -> B + Send + Sync + 'static,
{
    type Buffer = Vec<Option<S>>;
    type Slot<'b> = &'b mut Option<S>;
    type Batch = B;

    fn buffer(&self) -> Vec<Option<S>> {
        Vec::new()
    }

    fn slots<'b>(&self, buffer: &'b mut Vec<Option<S>>, len: usize) -> Vec<&'b mut Option<S>> {
        VecCollate.slots(buffer, len)
    }

    fn put(&self, sample: S, slot: &mut Option<S>) -> Result<(), BoxError> {
        VecCollate.put(sample, slot)
    }

    fn finish(&self, buffer: Vec<Option<S>>) -> B {
        (self.collate)(VecCollate.finish(buffer))
    }
}
