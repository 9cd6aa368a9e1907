//! A loader of any batches, as a source of what a training step takes.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use burn::tensor::Device;
use planfetch::loader::LoaderStats;
use planfetch::prelude::*;

/// Turns a batch on the host into what a training step takes, on the thread that takes it.
pub(crate) type Convert<B, O> = dyn Fn(Batch<B>, &Device) -> Result<O, BoxError> + Send + Sync;

/// What was made of a batch.
pub(crate) struct Given<O> {
    /// The row of the plan.
    pub(crate) step: usize,
    /// `None` where every sample of the batch was skipped.
    pub(crate) output: Option<O>,
}

/// A loader whose batches are converted.
pub(crate) trait Batches<O>: Send {
    /// Returns the next batch of the epoch on a device, or `None` at its end.
    fn next(&mut self, device: &Device) -> Option<Result<Given<O>, LoaderError>>;

    fn steer(&self) -> Arc<dyn Steer>;
}

/// A [`PrefetchController`] of any batches, which outlives its loader.
pub(crate) trait Steer: Send + Sync {
    fn set_epoch(&self, epoch: u64) -> Result<(), LoaderError>;
    fn restore(&self, state: &LoaderState) -> Result<(), LoaderError>;
    fn state(&self) -> LoaderState;
    fn step(&self) -> usize;
    fn report(&self) -> LoaderReport;
    fn stats(&self) -> LoaderStats;
    fn failed_samples(&self) -> Vec<FailedSample>;
}

pub(crate) struct Converted<B: Send + 'static, O> {
    loader: PrefetchingLoader<B>,
    convert: Arc<Convert<B, O>>,
    handle: Handle<B>,
}

impl<B: Send + 'static, O> Converted<B, O> {
    pub(crate) fn new(loader: PrefetchingLoader<B>, convert: Arc<Convert<B, O>>) -> Self {
        let handle = Handle { controller: loader.controller(), last: Arc::default() };
        Self { loader, convert, handle }
    }
}

impl<B: Send + 'static, O> Drop for Converted<B, O> {
    fn drop(&mut self) {
        // A loader that has ended does not know any more what was taken of what it had made.
        let _ = self.handle.last.set((self.loader.state(), self.handle.controller.step()));
    }
}

impl<B: Send + 'static, O> Batches<O> for Converted<B, O> {
    fn next(&mut self, device: &Device) -> Option<Result<Given<O>, LoaderError>> {
        let batch = match self.loader.next()? {
            Ok(batch) => batch,
            Err(error) => return Some(Err(error)),
        };
        let (epoch, step) = (batch.epoch(), batch.step());
        if batch.ids().is_empty() {
            return Some(Ok(Given { step, output: None }));
        }
        // A batcher is user code that can't return an error: its panic ends the training with one.
        let output = catch_unwind(AssertUnwindSafe(|| (self.convert)(batch, device)));
        let output = output.unwrap_or_else(|panic| Err(Panicked::new(&*panic).into()));
        Some(match output {
            Ok(output) => Ok(Given { step, output: Some(output) }),
            Err(cause) => Err(LoaderError::Collate { epoch, step, cause }),
        })
    }

    fn steer(&self) -> Arc<dyn Steer> {
        Arc::new(self.handle.clone())
    }
}

/// What is known of a loader, while it lives and after.
struct Handle<B> {
    controller: PrefetchController<B>,
    /// The state and the step when the loader ended.
    last: Arc<OnceLock<(LoaderState, usize)>>,
}

impl<B> Clone for Handle<B> {
    fn clone(&self) -> Self {
        Self { controller: self.controller.clone(), last: Arc::clone(&self.last) }
    }
}

impl<B: Send + 'static> Steer for Handle<B> {
    fn set_epoch(&self, epoch: u64) -> Result<(), LoaderError> {
        self.controller.set_epoch(epoch)
    }

    fn restore(&self, state: &LoaderState) -> Result<(), LoaderError> {
        self.controller.restore(state)
    }

    fn state(&self) -> LoaderState {
        self.last.get().map_or_else(|| self.controller.state(), |(state, _)| state.clone())
    }

    fn step(&self) -> usize {
        self.last.get().map_or_else(|| self.controller.step(), |(_, step)| *step)
    }

    fn report(&self) -> LoaderReport {
        self.controller.report()
    }

    fn stats(&self) -> LoaderStats {
        self.controller.stats()
    }

    fn failed_samples(&self) -> Vec<FailedSample> {
        self.controller.failed_samples()
    }
}

/// What user code said when it panicked.
#[derive(Debug)]
pub(crate) struct Panicked(String);

impl Panicked {
    pub(crate) fn new(payload: &(dyn Any + Send)) -> Self {
        let message = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = message.or_else(|| payload.downcast_ref::<String>().cloned());
        Self(message.unwrap_or_else(|| "a value that is no text".into()))
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user code panicked: {}", self.0)
    }
}

impl Error for Panicked {}
