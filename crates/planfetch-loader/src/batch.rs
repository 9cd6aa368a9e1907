//! A batch on its way through the training loop.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crossbeam_channel::Sender;
use planfetch_plan::SampleId;

use crate::error::FailedSample;
use crate::schedule::Place;

/// A batch, and where in the run it stands. It is used like the `B` that it holds.
///
/// When it is dropped, its memory goes back to the loader to be filled again; [`into_inner`](Self::into_inner) keeps it.
pub struct Batch<B> {
    // `Some` until it is dropped or taken out.
    inner: Option<B>,
    contents: Contents,
    recycler: Sender<B>,
}

/// What is in a batch.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) place: Place,
    pub(crate) ids: Vec<SampleId>,
    pub(crate) num_padding: usize,
    pub(crate) failed: Vec<FailedSample>,
}

impl<B> Batch<B> {
    pub(crate) fn new(inner: B, contents: Contents, recycler: Sender<B>) -> Self {
        Self { inner: Some(inner), contents, recycler }
    }

    /// Returns the epoch, from 0.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.contents.place.epoch
    }

    /// Returns the step within the epoch, from 0.
    #[must_use]
    pub fn step(&self) -> usize {
        self.contents.place.step
    }

    /// Returns the ids of the samples, in slot order, as they are in the batch: without those that were skipped, and with
    /// those that stand in for others.
    #[must_use]
    pub fn ids(&self) -> &[SampleId] {
        &self.contents.ids
    }

    /// Returns how many of the last slots repeat samples only to make the ranks even, under
    /// [`RemainderPolicy::Pad`](planfetch_plan::RemainderPolicy::Pad). An evaluation leaves them out.
    #[must_use]
    pub fn num_padding(&self) -> usize {
        self.contents.num_padding
    }

    /// Returns the samples that could not be loaded and were skipped or substituted, in slot order.
    #[must_use]
    pub fn failed(&self) -> &[FailedSample] {
        &self.contents.failed
    }

    pub(crate) fn take_failed(&mut self) -> Vec<FailedSample> {
        std::mem::take(&mut self.contents.failed)
    }

    /// Takes the batch out. Its memory then does not go back to the loader, which allocates another.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "a batch is taken out once, since that consumes its guard")]
    pub fn into_inner(mut self) -> B {
        self.inner.take().expect("it is taken out only here and on drop")
    }
}

impl<B> Deref for Batch<B> {
    type Target = B;

    fn deref(&self) -> &B {
        self.inner.as_ref().expect("it is taken out only when the guard is gone")
    }
}

impl<B> DerefMut for Batch<B> {
    fn deref_mut(&mut self) -> &mut B {
        self.inner.as_mut().expect("it is taken out only when the guard is gone")
    }
}

impl<B> Drop for Batch<B> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            // OK because where the loader is gone, or has enough, nobody needs the memory.
            let _ = self.recycler.try_send(inner);
        }
    }
}

impl<B: fmt::Debug> fmt::Debug for Batch<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("contents", &self.contents).field("inner", &self.inner).finish_non_exhaustive()
    }
}
