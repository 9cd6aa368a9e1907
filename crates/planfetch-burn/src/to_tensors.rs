//! From a batch on the host to tensors.

use burn::tensor::{Device, Int, Tensor, TensorData};
use planfetch::image::ImageBatch;

/// Turns a batch on the host into tensors on a device.
///
/// # Example
///
/// ```
/// use burn::tensor::Device;
/// use planfetch::prelude::*;
/// use planfetch_burn::ToTensors;
///
/// let collate = ImageCollate::new(&ImageSettings { height: 2, width: 2, ..ImageSettings::default() })?;
/// let mut buffer = collate.buffer();
/// collate.slots(&mut buffer, 3);
/// let batch = collate.finish(buffer);
///
/// let (images, labels) = batch.to_tensors(&Device::flex());
/// assert_eq!(images.dims(), [3, 3, 2, 2]);
/// assert_eq!(labels.dims(), [3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ToTensors {
    /// What a training step takes.
    type Tensors;

    /// Makes the tensors, on the calling thread. The batch is copied and stays as it is, so that its memory can be used
    /// again for another batch.
    fn to_tensors(&self, device: &Device) -> Self::Tensors;

    /// As [`to_tensors`](Self::to_tensors), by way of memory from which the device copies faster, where the backend has
    /// such memory ([`Device::staging`]). Without an implementation of its own it is `to_tensors`.
    fn to_tensors_staged(&self, device: &Device) -> Self::Tensors {
        self.to_tensors(device)
    }
}

impl ToTensors for ImageBatch {
    /// The images, of shape `[batch, channels, height, width]` in the device's float type, and the labels, of shape
    /// `[batch]`.
    type Tensors = (Tensor<4>, Tensor<1, Int>);

    fn to_tensors(&self, device: &Device) -> Self::Tensors {
        let [images, labels] = data(self);
        (Tensor::from_data(images, device), Tensor::from_data(labels, device))
    }

    fn to_tensors_staged(&self, device: &Device) -> Self::Tensors {
        let [mut images, mut labels] = data(self);
        device.staging([&mut images, &mut labels].into_iter());
        (Tensor::from_data(images, device), Tensor::from_data(labels, device))
    }
}

/// Copies a batch, once, into fresh memory that the tensors then own.
fn data(batch: &ImageBatch) -> [TensorData; 2] {
    let (len, channels, height, width) = batch.images.dim();
    let images: Vec<f32> = match batch.images.as_slice() {
        Some(values) => values.to_vec(),
        None => batch.images.iter().copied().collect(),
    };
    [TensorData::new(images, [len, channels, height, width]), TensorData::new(batch.labels.to_vec(), [len])]
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
            collate.put(ImageSample { image, label: i as i64 * 10 }, slot).unwrap();
        }
        let batch = collate.finish(buffer);
        let device = Device::flex();
        for (images, labels) in [batch.to_tensors(&device), batch.to_tensors_staged(&device)] {
            assert_eq!(images.into_data().try_to_vec::<f32>().unwrap(), batch.images.as_slice().unwrap());
            assert_eq!(labels.into_data().convert::<i64>().try_to_vec::<i64>().unwrap(), [0, 10, 20, 30]);
        }
    }
}
