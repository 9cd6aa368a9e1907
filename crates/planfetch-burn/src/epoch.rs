//! One epoch, as burn's iterator.

use std::marker::PhantomData;
use std::sync::Mutex;

use burn::data::dataloader::{DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use planfetch::prelude::*;

use crate::batches::Batches;
use crate::controller::lock;
use crate::slices::Shape;

/// Where a loader waits until somebody iterates over it again.
type Idle<O> = Mutex<Option<Box<dyn Batches<O>>>>;

/// The batches of one epoch.
pub(crate) struct PlanEpoch<'a, O> {
    // `Some` until it is dropped.
    batches: Option<Box<dyn Batches<O>>>,
    idle: &'a Idle<O>,
    device: &'a Device,
    world: World,
    shape: Shape,
    processed: usize,
    has_ended: bool,
}

impl<'a, O> PlanEpoch<'a, O> {
    pub(crate) fn new(
        batches: Box<dyn Batches<O>>,
        idle: &'a Idle<O>,
        device: &'a Device,
        world: World,
        shape: Shape,
        processed: usize,
    ) -> Self {
        Self { batches: Some(batches), idle, device, world, shape, processed, has_ended: false }
    }

    fn next_batch(&mut self) -> Option<Result<O, LoaderError>> {
        let batches = self.batches.as_mut()?;
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
        if self.has_ended {
            return None;
        }
        let next = self.next_batch();
        self.has_ended = !matches!(next, Some(Ok(_)));
        next.map(|batch| batch.map_err(DatasetError::new))
    }
}

impl<O> DataLoaderIterator<O> for PlanEpoch<'_, O> {
    fn progress(&self) -> Progress {
        progress(self.processed, self.shape.num_items())
    }
}

impl<O> Drop for PlanEpoch<'_, O> {
    fn drop(&mut self) {
        let mut idle = lock(self.idle);
        // Of several that were iterated over at once, one stays.
        if idle.is_none() {
            *idle = self.batches.take();
        }
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
