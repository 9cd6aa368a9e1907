//! burn's `DataLoader`, in plan order.

use std::fmt;
use std::sync::{Arc, Mutex};

use burn::data::dataloader::{DataLoader, DataLoaderIterator};
use burn::tensor::Device;
use planfetch::prelude::*;

use crate::batches::Batches;
use crate::controller::{Count, PlanController, lock};
use crate::epoch::{Failed, PlanEpoch};
use crate::parts::Open;
use crate::slices::{Shape, part, part_of};

/// Batches in plan order, as burn's [`DataLoader`]. Made by [`PlanDataLoaderBuilder`](crate::PlanDataLoaderBuilder).
///
/// # Epochs
///
/// burn tells a loader no epoch: each call of [`iter`](DataLoader::iter) is the next one, counted from what
/// [`with_start_epoch`](crate::PlanDataLoaderBuilder::with_start_epoch) says. Each epoch has an order of its own, over
/// all samples. What [`to_device`](DataLoader::to_device) and [`slice`](DataLoader::slice) return goes on from the epoch
/// that the original would begin next, and then counts for itself: two copies give the same epochs, whoever is asked
/// first. [`PlanController::set_epoch`] holds for the original and for all copies.
///
/// An iterator that is dropped before its end has used up its epoch.
///
/// # Several iterators at once
///
/// Each is an epoch of its own. The first has the loader that works ahead from epoch to epoch; another, begun while that
/// one has not come to its end, has one with threads of its own, which end with it. The controller tells of the one
/// that gave the last batch.
///
/// # Progress
///
/// It counts the items of the plan, in this loader's columns. The total is what the epoch delivers, so the last batch
/// completes it, and gradients that burn accumulates are applied. Under [`OnError::Skip`] the samples that were left out
/// count as processed with their batch. A batch of which every sample was skipped is passed over; on one of several
/// devices it is an error, since the others would wait for its gradients. That the last batch is one of these shows only
/// when it is asked for: the progress is complete then, and not with the batch before, so whoever accumulates gradients
/// takes [`OnError::Substitute`].
///
/// # Several devices
///
/// burn cuts a loader into one [`slice`](DataLoader::slice) for each device by ranges of items. Here each is a part of
/// the columns of every batch: all devices have equally many batches, a batch of the plan is one step of all devices
/// together, and each epoch shuffles over all of them. The batch size is that of all devices. A last batch with fewer
/// samples than devices is left out, so that none waits for another. Ranges that burn does not cut make a loader whose
/// iterators return an error.
///
/// # Errors
///
/// What [`LoaderSettings::on_error`] does not bear, ends the epoch: the iterator returns it once, and then `None`.
/// burn's `Learner` stops the training and returns it. A panic in a data set, a collate or a batcher is such an error
/// too.
pub struct PlanDataLoader<O> {
    parts: Arc<dyn Open<O>>,
    /// The loader that works ahead. A batch on the host is for any device.
    ahead: Arc<Mutex<Ahead<O>>>,
    /// Which columns, or why there are none.
    world: Result<World, String>,
    device: Device,
    controller: PlanController,
    count: Mutex<Count>,
}

/// The one of a loader's sources that lives from epoch to epoch.
pub(crate) enum Ahead<O> {
    /// It has not been made.
    None,
    /// It waits until somebody iterates over it.
    Idle(Box<dyn Batches<O>>),
    /// Somebody does.
    Taken,
}

impl<O: 'static> PlanDataLoader<O> {
    /// Makes a loader, which begins to work ahead at once.
    pub(crate) fn start(
        parts: Arc<dyn Open<O>>,
        world: World,
        device: Device,
        controller: PlanController,
    ) -> Result<Self, LoaderError> {
        let batches = parts.open(world)?;
        // Said here, and not in the middle of the training.
        match controller.start() {
            (_, Some(state)) => batches.steer().restore(&state)?,
            (epoch, None) => batches.steer().set_epoch(epoch)?,
        }
        controller.attach(world, batches.steer());
        let count = Mutex::new(controller.count());
        Ok(Self {
            parts,
            ahead: Arc::new(Mutex::new(Ahead::Idle(batches))),
            world: Ok(world),
            device,
            controller,
            count,
        })
    }

    /// Returns what steers this loader and all that burn makes of it.
    #[must_use]
    pub fn controller(&self) -> PlanController {
        self.controller.clone()
    }

    /// Returns the epoch that the next call of `iter` begins, counted from 0.
    #[must_use]
    pub fn next_epoch(&self) -> u64 {
        self.controller.upcoming(&lock(&self.count))
    }

    fn shape(&self, world: World, epoch: u64) -> Result<Shape, LoaderError> {
        Shape::new(&**self.parts.provider(), epoch, world, self.parts.policy())
    }

    /// Begins the next epoch. One that can't begin is not used up.
    fn begin(&self) -> Result<PlanEpoch<'_, O>, LoaderError> {
        let before = *lock(&self.count);
        let begun = self.try_begin();
        if begun.is_err() {
            *lock(&self.count) = before;
        }
        begun
    }

    fn try_begin(&self) -> Result<PlanEpoch<'_, O>, LoaderError> {
        let (epoch, state) = self.controller.claim(&mut lock(&self.count));
        let world = self.world.clone().map_err(|problem| LoaderError::Mismatch { problem })?;
        let ahead = std::mem::replace(&mut *lock(&self.ahead), Ahead::Taken);
        let works_ahead = !matches!(ahead, Ahead::Taken);
        let batches = match ahead {
            Ahead::Idle(batches) => batches,
            Ahead::None | Ahead::Taken => match self.parts.open(world) {
                Ok(batches) => batches,
                Err(error) => {
                    if works_ahead {
                        *lock(&self.ahead) = Ahead::None;
                    }
                    return Err(error);
                }
            },
        };
        let steer = batches.steer();
        let begun = match &state {
            Some(state) => steer.restore(state),
            None => steer.set_epoch(epoch),
        };
        let shape = begun.and_then(|()| self.shape(world, epoch));
        match shape {
            Ok(shape) => {
                let processed = shape.items(steer.step());
                let ahead = works_ahead.then_some(&*self.ahead);
                if works_ahead {
                    self.controller.attach(world, steer);
                }
                Ok(PlanEpoch::new(batches, ahead, &self.controller, &self.device, world, shape, processed))
            }
            Err(error) => {
                if works_ahead {
                    *lock(&self.ahead) = Ahead::Idle(batches);
                }
                Err(error)
            }
        }
    }

    /// Returns a loader of other columns or on another device, which goes on from the same epoch.
    fn with(&self, world: Result<World, String>, device: &Device) -> Self {
        let ahead = if world == self.world {
            Arc::clone(&self.ahead)
        } else {
            // Nothing is made ahead any more that the slices make themselves.
            let mut ahead = lock(&self.ahead);
            if let Ahead::Idle(_) = *ahead {
                *ahead = Ahead::None;
            }
            Arc::new(Mutex::new(Ahead::None))
        };
        Self {
            parts: Arc::clone(&self.parts),
            ahead,
            world,
            device: device.clone(),
            controller: self.controller.clone(),
            count: Mutex::new(*lock(&self.count)),
        }
    }
}

impl<O: 'static> DataLoader<O> for PlanDataLoader<O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        match self.begin() {
            Ok(epoch) => Box::new(epoch),
            Err(error) => Box::new(Failed::new(error)),
        }
    }

    /// Returns the number of items of the next epoch, in this loader's columns; 0 where it has no plan, which the
    /// iterator then says.
    fn num_items(&self) -> usize {
        let Ok(world) = self.world else { return 0 };
        self.shape(world, self.next_epoch()).map_or(0, |shape| shape.num_items())
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        Arc::new(self.with(self.world.clone(), device))
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        let world = self.world.clone().and_then(|world| {
            let part = part(start..end, self.num_items(), self.parts.provider().batch_size())?;
            part_of(world, part).ok_or_else(|| format!("{part} of {world} is more than there may be"))
        });
        Arc::new(self.with(world, &self.device))
    }
}

impl<O> fmt::Debug for PlanDataLoader<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanDataLoader")
            .field("controller", &self.controller)
            .field("world", &self.world)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
