//! planfetch for [burn](https://burn.dev): batches as tensors on a burn device.
//!
//! ```
//! use burn::tensor::Device;
//! use planfetch::prelude::*;
//! use planfetch_burn::ToTensors;
//!
//! let collate = ImageCollate::new(&ImageSettings { height: 2, width: 2, ..ImageSettings::default() })?;
//! let mut buffer = collate.buffer();
//! collate.slots(&mut buffer, 3);
//! let batch = collate.finish(buffer);
//!
//! let (images, labels) = batch.to_tensors(&Device::flex());
//! assert_eq!(images.dims(), [3, 3, 2, 2]);
//! assert_eq!(labels.dims(), [3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A training loop takes batches from a [`PrefetchingLoader`](planfetch::loader::PrefetchingLoader) and turns each into
//! tensors on its own thread by [`ToTensors`]. That it is the training thread matters: burn's GPU backends keep a stream
//! and a memory pool for every thread that makes tensors, so a loader that made them on its workers would hold device
//! memory for each.
//!
//! # What it does not do
//!
//! It does not implement burn's `DataLoader`, so burn's `Learner` can't drive it yet: write the loop, which is a
//! `for` over the loader.

use burn::tensor::{Device, Int, Tensor, TensorData};
use planfetch::image::ImageBatch;

/// Turns a batch on the host into tensors on a device.
pub trait ToTensors {
    /// What a training step takes.
    type Tensors;

    /// Makes the tensors, on the calling thread. The batch is copied and stays as it is, so that its memory can be used
    /// again for another batch.
    fn to_tensors(&self, device: &Device) -> Self::Tensors;
}

impl ToTensors for ImageBatch {
    /// The images, of shape `[batch, channels, height, width]` in the device's float type, and the labels, of shape
    /// `[batch]`.
    type Tensors = (Tensor<4>, Tensor<1, Int>);

    fn to_tensors(&self, device: &Device) -> Self::Tensors {
        let (batch, channels, height, width) = self.images.dim();
        // One copy into fresh memory, which the tensor then owns.
        let images: Vec<f32> = match self.images.as_slice() {
            Some(values) => values.to_vec(),
            None => self.images.iter().copied().collect(),
        };
        let labels = self.labels.to_vec();
        (
            Tensor::from_data(TensorData::new(images, [batch, channels, height, width]), device),
            Tensor::from_data(TensorData::new(labels, [batch]), device),
        )
    }
}

#[cfg(test)]
mod tests {
    use planfetch::image::{DecodedImage, ImageSample};
    use planfetch::prelude::*;

    use super::*;

    #[test]
    fn values_are_those_of_the_batch_bit_for_bit() {
        let settings =
            ImageSettings { height: 5, width: 7, mean: IMAGENET_MEAN, std: IMAGENET_STD, ..Default::default() };
        let collate = ImageCollate::new(&settings).unwrap();
        let mut buffer = collate.buffer();
        for (i, slot) in collate.slots(&mut buffer, 4).into_iter().enumerate() {
            let pixels = (0..5 * 7 * 3).map(|j| (i * 50 + j * 3) as u8).collect();
            let image = DecodedImage::new(pixels, 5, 7, ColorMode::Rgb).unwrap();
            collate.put(ImageSample::new(image, i as i64 * 10), slot).unwrap();
        }
        let batch = collate.finish(buffer);
        let (images, labels) = batch.to_tensors(&Device::flex());
        assert_eq!(images.into_data().try_to_vec::<f32>().unwrap(), batch.images.as_slice().unwrap());
        assert_eq!(labels.into_data().convert::<i64>().try_to_vec::<i64>().unwrap(), [0, 10, 20, 30]);
    }
}
