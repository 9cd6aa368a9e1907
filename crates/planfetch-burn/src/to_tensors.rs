//! From a batch on the host to tensors.

use burn::tensor::{Device, Element as BurnElement, Int, Tensor, TensorData};
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
    /// The images, of the shape that the layout gives them (`[batch, channels, height, width]` by default), in the
    /// device's float type, and the labels, of shape `[batch]`.
    type Tensors = (Tensor<4>, Tensor<1, Int>);

    fn to_tensors(&self, device: &Device) -> Self::Tensors {
        let [images, labels] = data(self);
        (Tensor::from_data(images, device), Tensor::from_data(labels, device))
    }

    fn to_tensors_staged(&self, device: &Device) -> Self::Tensors {
        let [images, labels] = staged(data(self), device);
        (Tensor::from_data(images, device), Tensor::from_data(labels, device))
    }
}

/// Pixels are uploaded as bytes, a quarter of what floats take, and become numbers in 0..=1 on the device.
impl ToTensors for ImageBatch<u8> {
    /// As for a batch of floats.
    type Tensors = (Tensor<4>, Tensor<1, Int>);

    fn to_tensors(&self, device: &Device) -> Self::Tensors {
        let [images, labels] = data(self);
        (Tensor::<4, Int>::from_data(images, device).float() / 255.0, Tensor::from_data(labels, device))
    }

    fn to_tensors_staged(&self, device: &Device) -> Self::Tensors {
        let [images, labels] = staged(data(self), device);
        (Tensor::<4, Int>::from_data(images, device).float() / 255.0, Tensor::from_data(labels, device))
    }
}

/// Copies a batch, once, into fresh memory that the tensors then own.
fn data<T: BurnElement + Copy>(batch: &ImageBatch<T>) -> [TensorData; 2] {
    let values = match batch.images.as_slice() {
        Some(values) => values.to_vec(),
        None => batch.images.iter().copied().collect(),
    };
    let (len, a, b, c) = batch.images.dim();
    [TensorData::new(values, [len, a, b, c]), TensorData::new(batch.labels.to_vec(), [len])]
}

/// Moves data to memory from which the device copies faster, where there is such memory.
fn staged(mut data: [TensorData; 2], device: &Device) -> [TensorData; 2] {
    device.staging(data.iter_mut());
    data
}

#[cfg(test)]
mod tests {
    use planfetch::image::{DecodedImage, Element, ImageSample};
    use planfetch::prelude::*;

    use super::*;

    fn batch<T: Element>(settings: &ImageSettings) -> ImageBatch<T> {
        let collate = ImageCollate::<T>::with_dtype(settings).unwrap();
        let mut buffer = collate.buffer();
        for (i, slot) in collate.slots(&mut buffer, 4).into_iter().enumerate() {
            let pixels = (0..5 * 7 * 3).map(|j| (i * 50 + j * 3) as u8).collect();
            let image = DecodedImage::new(pixels, 5, 7, ColorMode::Rgb).unwrap();
            collate.put(ImageSample::new(image, i as i64 * 10), slot).unwrap();
        }
        collate.finish(buffer)
    }

    #[track_caller]
    fn check((images, labels): (Tensor<4>, Tensor<1, Int>), expected: &[f32]) {
        assert_eq!(images.dims(), [4, 3, 5, 7]);
        assert_eq!(images.into_data().try_to_vec::<f32>().unwrap(), expected);
        assert_eq!(labels.into_data().convert::<i64>().try_to_vec::<i64>().unwrap(), [0, 10, 20, 30]);
    }

    #[test]
    fn values_are_those_of_the_batch_bit_for_bit() {
        let settings =
            ImageSettings { height: 5, width: 7, mean: IMAGENET_MEAN, std: IMAGENET_STD, ..Default::default() };
        let batch = batch::<f32>(&settings);
        check(batch.to_tensors(&Device::flex()), batch.images.as_slice().unwrap());
        check(batch.to_tensors_staged(&Device::flex()), batch.images.as_slice().unwrap());
    }

    #[test]
    fn bytes_become_the_same_numbers_on_the_device_as_on_the_host() {
        let settings = ImageSettings { height: 5, width: 7, ..Default::default() };
        let (bytes, floats) = (batch::<u8>(&settings), batch::<f32>(&settings));
        check(bytes.to_tensors(&Device::flex()), floats.images.as_slice().unwrap());
        check(bytes.to_tensors_staged(&Device::flex()), floats.images.as_slice().unwrap());
    }
}
