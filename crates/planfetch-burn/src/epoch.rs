//! One epoch, as burn's iterator.

use std::marker::PhantomData;
use std::sync::Mutex;

use burn::data::dataloader::{DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use planfetch::prelude::*;

use crate::batches::Batches;
use crate::controller::{PlanController, lock};
use crate::loader::Ahead;
use crate::slices::Shape;

/// The batches of one epoch.
pub(crate) struct PlanEpoch<'a, O> {
    // `Some` until the epoch has ended.
    batches: Option<Box<dyn Batches<O>>>,
    /// Where the source goes back to, if it is the one that works ahead.
    ahead: Option<&'a Mutex<Ahead<O>>>,
    controller: &'a PlanController,
    device: &'a Device,
    world: World,
    shape: Shape,
    processed: usize,
}

impl<'a, O> PlanEpoch<'a, O> {
    pub(crate) fn new(
        batches: Box<dyn Batches<O>>,
        ahead: Option<&'a Mutex<Ahead<O>>>,
        controller: &'a PlanController,
        device: &'a Device,
        world: World,
        shape: Shape,
        processed: usize,
    ) -> Self {
        Self { batches: Some(batches), ahead, controller, device, world, shape, processed }
    }

    fn next_batch(&mut self) -> Option<Result<O, LoaderError>> {
        let batches = self.batches.as_mut()?;
        // Another iterator may have been begun, or given a batch, in between.
        self.controller.attach(self.world, batches.steer());
        loop {
            let given = match batches.next(self.device)? {
                Ok(given) => given,
                Err(error) => return Some(Err(error)),
            };
            if self.shape.steps <= given.step {
                // A last row with fewer samples than there are parts.
                continue;
            }
            self.processed = self.shape.items(given.step + 1);
            match given.output {
                Some(output) => return Some(Ok(output)),
                None if self.world.world_size == 1 => {}
                None => {
                    return Some(Err(LoaderError::Mismatch {
                        problem: format!(
                            "every sample of step {} was skipped on {}, but all devices need equal numbers of batches; \
                             use OnError::Substitute",
                            given.step, self.world
                        ),
                    }));
                }
            }
        }
    }
}

impl<O> Iterator for PlanEpoch<'_, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        if !matches!(next, Some(Ok(_))) {
            self.end();
        }
        next.map(|batch| batch.map_err(DatasetError::new))
    }
}

impl<O> DataLoaderIterator<O> for PlanEpoch<'_, O> {
    fn progress(&self) -> Progress {
        progress(self.processed, self.shape.num_items())
    }
}

impl<O> PlanEpoch<'_, O> {
    /// Gives the source back, so that the next iterator has it whether this one is dropped before or after.
    fn end(&mut self) {
        if let (Some(batches), Some(ahead)) = (self.batches.take(), self.ahead) {
            *lock(ahead) = Ahead::Idle(batches);
        }
    }
}

impl<O> Drop for PlanEpoch<'_, O> {
    fn drop(&mut self) {
        self.end();
    }
}

/// An epoch that can't begin: its error, once.
pub(crate) struct Failed<O> {
    error: Option<LoaderError>,
    output: PhantomData<fn() -> O>,
}

impl<O> Failed<O> {
    pub(crate) fn new(error: LoaderError) -> Self {
        Self { error: Some(error), output: PhantomData }
    }
}

impl<O> Iterator for Failed<O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.error.take().map(|error| Err(DatasetError::new(error)))
    }
}

impl<O> DataLoaderIterator<O> for Failed<O> {
    fn progress(&self) -> Progress {
        progress(0, 0)
    }
}

fn progress(processed: usize, total: usize) -> Progress {
    Progress::new(processed, total, Some("items".into()))
}
