//! Batches in plan order, as tensors.

use std::collections::BTreeSet;
use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use planfetch::prelude::*;
use tch::{Device, Kind};

use crate::ahead::Ahead;
use crate::foreign::share;
use crate::to_tensors::{Taken, ToTensors};
use crate::transfer::Transfer;

/// Batches in plan order, as tensors. Made by [`TchLoaderBuilder`](crate::TchLoaderBuilder).
///
/// As with tch's own `Iter2`, a last batch that is smaller than the others is left out unless
/// [`return_smaller_last_batch`](Self::return_smaller_last_batch) is called.
///
/// # Memory
///
/// On the CPU, a tensor of 16 KiB or more shares the memory of the batch, which goes back to the loader when the last
/// tensor that shares it is gone; a smaller one is a copy. On a GPU it is copied to pinned memory and uploaded from
/// there, without waiting for the copy: while the loop computes with one batch, the next one is uploaded on a stream of its
/// own, if it is ready. So there are two on the device.
pub struct TchLoader<B> {
    pub(crate) loader: PrefetchingLoader<B>,
    provider: Arc<dyn PlanProvider>,
    world: World,
    transfer: Transfer,
    returns_smaller: bool,
    pub(crate) ahead: Ahead,
}

impl<B: ToTensors> TchLoader<B> {
    pub(crate) fn new(loader: PrefetchingLoader<B>, provider: Arc<dyn PlanProvider>, world: World) -> Self {
        Self { loader, provider, world, transfer: Transfer::default(), returns_smaller: false, ahead: Ahead::default() }
    }

    /// Sets the device that tensors are on. Default: the CPU.
    #[must_use]
    pub fn to_device(mut self, device: Device) -> Self {
        self.transfer.device = device;
        self
    }

    /// Sets whether tensors go by way of pinned memory, from which a GPU copies without holding up the program.
    /// Default: true for a GPU. Where CUDA is not available it has no effect.
    #[must_use]
    pub fn pin_memory(mut self, pin_memory: bool) -> Self {
        self.transfer.pin_memory = Some(pin_memory);
        self
    }

    /// Sets the kind of images and of all tensors of floating-point numbers: `Half`, `BFloat16`, `Float` or `Double`.
    /// Default: that of the batch. Images of bytes are divided by 255.
    ///
    /// They cross to the device as they are, and are converted there.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.transfer.kind = Some(kind);
        self
    }

    /// Sets whether images have the shape `[batch, channels, height, width]` in channels-last memory format. Default:
    /// false. Of a batch in [`Layout::Nhwc`] it costs nothing; of one in [`Layout::Nchw`] it is a copy on the device.
    #[must_use]
    pub fn channels_last(mut self, channels_last: bool) -> Self {
        self.transfer.channels_last = channels_last;
        self
    }

    /// Has images of bytes become `(value / 255 - mean) / std` on the device, channel by channel. Default: they stay as
    /// they are. Gray images use the first numbers. Images of floats, which the collate normalises, are an error.
    #[must_use]
    pub fn normalize(mut self, mean: [f32; 3], std: [f32; 3]) -> Self {
        self.transfer.normalize = Some((mean, std));
        self
    }

    /// Has the last batch of an epoch returned too where the plan's last row is shorter than the others. Default: it is
    /// left out, on all ranks alike.
    #[must_use]
    pub fn return_smaller_last_batch(mut self) -> Self {
        self.returns_smaller = true;
        self
    }

    /// Returns what says which epoch comes next, and where the run is.
    #[must_use]
    pub fn controller(&self) -> PrefetchController<B> {
        self.loader.controller()
    }

    /// Returns where the run is: the next batch that the loop takes.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.loader.state()
    }

    /// Returns what is left of the epoch that the loader stands in; after its end, the next epoch. The controller sets
    /// another.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Setting`] when a device is not there, or a kind or a normalisation is out of its range.
    pub fn iter(&mut self) -> Result<TchEpoch<'_, B>, LoaderError> {
        self.transfer.validate()?;
        self.ahead.prepare(&self.transfer);
        Ok(TchEpoch { loader: self, has_ended: false })
    }

    /// Returns the batches of `epoch`, counted from 0, or what is left of it after a restore.
    ///
    /// # Errors
    ///
    /// As for [`iter`](Self::iter), and [`LoaderError::Plan`] when the epoch has no plan.
    pub fn epoch(&mut self, epoch: u64) -> Result<TchEpoch<'_, B>, LoaderError> {
        self.loader.controller().set_epoch(epoch)?;
        self.iter()
    }

    /// As [`iter`](Self::iter), for sketches.
    ///
    /// # Panics
    ///
    /// When `iter` or an item is an error.
    pub fn iter_unwrapped(&mut self) -> impl Iterator<Item = B::Tensors> + '_ {
        let epoch = self.iter().unwrap_or_else(|error| panic!("{error}"));
        epoch.map(|tensors| tensors.unwrap_or_else(|error| panic!("{error}")))
    }

    pub(crate) fn next_batch(&mut self) -> Option<Result<TensorBatch<B::Tensors>, LoaderError>> {
        loop {
            let batch = match self.loader.next()? {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            };
            match self.is_left_out(&batch) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
            if !batch.ids().is_empty() {
                let tensors = self.convert(batch);
                self.ahead.begin(&mut self.loader);
                return Some(tensors);
            }
            // It has no loss; but all ranks need equal numbers of batches.
            if self.world.world_size != 1 {
                return Some(Err(self.without_samples(&batch)));
            }
        }
    }

    fn without_samples(&self, batch: &Batch<B>) -> LoaderError {
        let (step, world) = (batch.step(), self.world);
        let problem = if batch.failed().is_empty() {
            format!(
                "step {step} has fewer samples than there are ranks, and none for {world}; use RemainderPolicy::Pad or \
                 RemainderPolicy::Drop, or leave the smaller last batch out"
            )
        } else {
            format!(
                "every sample of step {step} was skipped on {world}, but all ranks need equal numbers of batches; use \
                 OnError::Substitute"
            )
        };
        LoaderError::Mismatch { problem }
    }

    /// Returns whether it is the rest of an epoch. All ranks find the same, since they look at the plan's row.
    fn is_left_out(&self, batch: &Batch<B>) -> Result<bool, LoaderError> {
        if self.returns_smaller {
            return Ok(false);
        }
        if batch.step() + 1 < self.loader.controller().num_steps(batch.epoch())? {
            return Ok(false);
        }
        let plan = self.provider.plan(batch.epoch())?;
        Ok(!plan.num_ids().is_multiple_of(plan.batch_size()))
    }

    fn convert(&mut self, batch: Batch<B>) -> Result<TensorBatch<B::Tensors>, LoaderError> {
        let (epoch, step, num_padding) = (batch.epoch(), batch.step(), batch.num_padding());
        let (ids, failed) = (batch.ids().to_vec(), batch.failed().to_vec());
        let tensors = self.tensors(batch).map_err(|cause| LoaderError::Collate { epoch, step, cause })?;
        Ok(TensorBatch { tensors, epoch, step, ids, num_padding, failed })
    }

    fn tensors(&mut self, batch: Batch<B>) -> Result<B::Tensors, BoxError> {
        let mut shared = match self.ahead.take(&batch) {
            Some(uploaded) => uploaded?,
            None => {
                // What is lent goes back with the guard of the batch, which the tensors own from here on.
                let mut shared = share(batch, |batch, arrays| (**batch).lend(arrays))?;
                self.transfer.upload(&mut shared)?;
                shared
            }
        };
        self.transfer.finish(&mut shared)?;
        let (num_arrays, names) = (shared.tensors.len(), shared.names.clone());
        let mut taken = Taken::new(shared.tensors, shared.names);
        B::collect(&mut taken).ok_or_else(|| match names {
            Some(names) => {
                let different = names.iter().collect::<BTreeSet<_>>().len();
                format!("the batch has {num_arrays} arrays, but there are {different} different names: {names:?}")
                    .into()
            }
            None => format!("the batch lent {num_arrays} arrays, and takes more").into(),
        })
    }
}

impl<B: ToTensors> fmt::Debug for TchLoader<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TchLoader")
            .field("loader", &self.loader)
            .field("transfer", &self.transfer)
            .finish_non_exhaustive()
    }
}

/// The tensors of a batch, and where in the run it stands.
#[derive(Debug)]
#[non_exhaustive]
pub struct TensorBatch<T> {
    /// What the training step takes.
    pub tensors: T,
    /// The epoch, from 0.
    pub epoch: u64,
    /// The step within the epoch, from 0.
    pub step: usize,
    /// The ids of the samples, in slot order.
    pub ids: Vec<SampleId>,
    /// How many of the last slots only repeat samples; see [`Batch::num_padding`].
    pub num_padding: usize,
    /// The samples that were skipped or substituted; see [`Batch::failed`].
    pub failed: Vec<FailedSample>,
}

/// The batches of one epoch, up to its end. Made by [`TchLoader::iter`].
///
/// A batch of which every sample was skipped ([`OnError::Skip`]) is passed over; on one of several ranks it is an error.
/// After an error the iterator has ended, but for [`LoaderError::Timeout`], after which it waits on.
#[must_use = "iterators do nothing unless they are consumed"]
pub struct TchEpoch<'a, B> {
    loader: &'a mut TchLoader<B>,
    has_ended: bool,
}

impl<B: ToTensors> TchEpoch<'_, B> {
    /// Returns the next batch with its ids and its place.
    ///
    /// # Errors
    ///
    /// As the items of the iterator.
    pub fn next_batch(&mut self) -> Option<Result<TensorBatch<B::Tensors>, LoaderError>> {
        if self.has_ended {
            return None;
        }
        let next = self.loader.next_batch();
        // Where a wait has timed out, nothing is lost, and the next call waits on.
        self.has_ended = !matches!(next, Some(Ok(_) | Err(LoaderError::Timeout { .. })));
        next
    }

    /// Returns where the run is: the next batch that the loop takes.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.loader.state()
    }
}

impl<B: ToTensors> Iterator for TchEpoch<'_, B> {
    type Item = Result<B::Tensors, LoaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map(|batch| batch.map(|batch| batch.tensors))
    }
}

impl<B: ToTensors> FusedIterator for TchEpoch<'_, B> {}

impl<B> fmt::Debug for TchEpoch<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TchEpoch").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}
