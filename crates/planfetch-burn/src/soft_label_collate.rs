//! Images that are mixed, with the share of each class.

use planfetch::image::{Element, ImageBatch, ImageSample, ImageSlot};
use planfetch::prelude::*;

use crate::to_tensors::SoftLabels;

/// Collates images that [`MixUp` or `CutMix`](planfetch::image::BatchTransform) mixes: what becomes a tensor beside the
/// images is the share of each class, of shape `[batch, num_classes]`, and not the label.
///
/// # Example
///
/// ```
/// use burn::tensor::Device;
/// use planfetch::prelude::*;
/// use planfetch_burn::{SoftLabelCollate, ToTensors};
///
/// let mix = BatchTransform::MixUp { num_classes: 10, alpha: 0.2 };
/// let images = ImageSettings { height: 2, width: 2, batch_transforms: vec![mix], ..ImageSettings::default() };
/// let collate = SoftLabelCollate::new(ImageCollate::new(&images)?);
/// let mut buffer = collate.buffer();
/// collate.slots(&mut buffer, 3);
///
/// let (images, shares) = collate.finish(buffer).to_tensors(&Device::flex())?;
/// assert_eq!((images.dims(), shares.dims()), ([3, 3, 2, 2], [3, 10]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SoftLabelCollate<T = f32>(ImageCollate<T>);

impl<T: Element> SoftLabelCollate<T> {
    /// Makes one of a collate whose settings name batch transforms. Without any, each batch is an error.
    #[must_use]
    pub fn new(collate: ImageCollate<T>) -> Self {
        Self(collate)
    }
}

impl<T: Element> Collate<ImageSample> for SoftLabelCollate<T> {
    type Buffer = ImageBatch<T>;
    type Slot<'b> = ImageSlot<'b, T>;
    type Batch = SoftLabels<ImageBatch<T>>;

    fn buffer(&self) -> ImageBatch<T> {
        self.0.buffer()
    }

    fn slots<'b>(&self, buffer: &'b mut ImageBatch<T>, len: usize) -> Vec<ImageSlot<'b, T>> {
        self.0.slots(buffer, len)
    }

    fn put(&self, sample: ImageSample, slot: ImageSlot<'_, T>) -> Result<(), BoxError> {
        self.0.put(sample, slot)
    }

    fn finish(&self, buffer: ImageBatch<T>) -> SoftLabels<ImageBatch<T>> {
        SoftLabels(self.0.finish(buffer))
    }

    fn set_padding(&self, batch: &mut SoftLabels<ImageBatch<T>>, num_padding: usize) {
        self.0.set_padding(&mut batch.0, num_padding);
    }

    fn num_bytes(&self, batch: &SoftLabels<ImageBatch<T>>) -> Option<u64> {
        self.0.num_bytes(&batch.0)
    }

    fn recycle(&self, batch: SoftLabels<ImageBatch<T>>) -> Option<ImageBatch<T>> {
        self.0.recycle(batch.0)
    }
}
