//! One epoch of a loader.

use std::iter::FusedIterator;

use crate::batch::Batch;
use crate::error::LoaderError;
use crate::loader::PrefetchingLoader;

/// The batches of one epoch, up to its end. Made by [`PrefetchingLoader::epoch`].
///
/// Unlike the loader itself, it does not go on with the next epoch when it is asked for more.
#[derive(Debug)]
#[must_use = "iterators do nothing unless they are consumed"]
pub struct Epoch<'a, B> {
    loader: &'a mut PrefetchingLoader<B>,
    has_ended: bool,
}

impl<'a, B> Epoch<'a, B> {
    pub(crate) fn new(loader: &'a mut PrefetchingLoader<B>) -> Self {
        Self { loader, has_ended: false }
    }

    #[cfg(feature = "indicatif")]
    pub(crate) fn loader(&self) -> &PrefetchingLoader<B> {
        self.loader
    }
}

impl<B> Iterator for Epoch<'_, B> {
    type Item = Result<Batch<B>, LoaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.loader.next();
        self.has_ended = next.is_none();
        next
    }
}

impl<B> FusedIterator for Epoch<'_, B> {}
