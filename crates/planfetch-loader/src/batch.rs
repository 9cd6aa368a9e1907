//! A batch on its way through the training loop.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crossbeam_channel::Sender;
use planfetch_plan::{BatchIds, PlanView};

use crate::schedule::Place;

/// A batch, and where in the run it stands. It is used like the `B` that it holds.
///
/// When it is dropped, its memory goes back to the loader to be filled again; [`into_inner`](Self::into_inner) keeps it.
pub struct Batch<B> {
    // `Some` until it is dropped or taken out.
    inner: Option<B>,
    place: Place,
    plan: PlanView,
    recycler: Sender<B>,
}

impl<B> Batch<B> {
    pub(crate) fn new(inner: B, place: Place, plan: PlanView, recycler: Sender<B>) -> Self {
        Self { inner: Some(inner), place, plan, recycler }
    }

    /// Returns the epoch, from 0.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.place.epoch
    }

    /// Returns the step within the epoch, from 0.
    #[must_use]
    pub fn step(&self) -> usize {
        self.place.step
    }

    /// Returns the ids of the samples, in slot order.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "the step of a batch that was made lies in its plan")]
    pub fn ids(&self) -> BatchIds<'_> {
        self.plan.batch(self.place.step).expect("the step of a batch that was made lies in its plan")
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
        f.debug_struct("Batch").field("place", &self.place).field("inner", &self.inner).finish_non_exhaustive()
    }
}
