//! A batch of images.

use ndarray::{Array1, Array2, Array4};

use crate::settings::Layout;
use crate::to_tensor::Element;

/// A batch of images, all of one size, with their labels.
///
/// `T` is `f32`, `f16`, `bf16` or `u8`.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageBatch<T = f32> {
    /// The images, of shape `[batch, channels, height, width]`, or `[batch, height, width, channels]` with
    /// [`Layout::Nhwc`](crate::Layout::Nhwc), normalised; in standard (C) layout.
    pub images: Array4<T>,
    /// The labels, of shape `[batch]`: those of the images before any batch transform.
    pub labels: Array1<i64>,
    /// The share of each class, of shape `[batch, num_classes]`, each row with the sum 1: what MixUp and CutMix make of
    /// the labels. `None` without a batch transform.
    pub soft_labels: Option<Array2<f32>>,
    /// How much each sample counts in the loss, of shape `[batch]`; 1 unless the data set has weights.
    pub weights: Array1<f32>,
    /// Which slots repeat samples only to fill the batch, of shape `[batch]`; see [`set_padding`](Self::set_padding).
    pub padding: Array1<bool>,
    /// A random number of each sample, from its own generator.
    pub(crate) seeds: Vec<u64>,
    pub(crate) layout: Layout,
}

impl<T: Element> ImageBatch<T> {
    pub(crate) fn empty(layout: Layout) -> Self {
        Self {
            images: Array4::default((0, 0, 0, 0)),
            labels: Array1::default(0),
            soft_labels: None,
            weights: Array1::default(0),
            padding: Array1::default(0),
            seeds: Vec::new(),
            layout,
        }
    }

    /// Returns the order of the axes of `images`.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the number of images.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there is no image.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Marks the last `num_padding` slots as padding, and all others as samples.
    ///
    /// The loader does it where a plan was cut for several ranks with `RemainderPolicy::Pad`. An evaluation leaves them
    /// out.
    pub fn set_padding(&mut self, num_padding: usize) {
        let samples = self.padding.len().saturating_sub(num_padding);
        self.padding.iter_mut().enumerate().for_each(|(slot, padding)| *padding = samples <= slot);
    }

    /// Returns how many bytes the numbers of the batch take.
    #[must_use]
    pub fn num_bytes(&self) -> usize {
        let soft_labels = self.soft_labels.as_ref().map_or(0, Array2::len);
        self.images.len() * size_of::<T>() + soft_labels * 4 + self.len() * (8 + 4 + 1 + 8)
    }
}
