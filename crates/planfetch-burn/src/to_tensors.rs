//! From a batch on the host to tensors.

use burn::tensor::{
    AllocationProperty, Bytes, DType, Device, Element as BurnElement, Int, Tensor, TensorCreationOptions, TensorData,
};
use planfetch::image::{Element, ImageBatch};
use planfetch::prelude::*;
use std::fmt;

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
/// let (images, labels) = batch.to_tensors(&Device::flex())?;
/// assert_eq!(images.dims(), [3, 3, 2, 2]);
/// assert_eq!(labels.dims(), [3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ToTensors {
    /// What a training step takes.
    type Tensors;

    /// Makes the tensors, on the calling thread. The batch is copied and stays as it is.
    ///
    /// # Errors
    ///
    /// When the batch holds what these tensors can't. A batch of images is one where it is mixed (MixUp, CutMix): what it
    /// is trained on are its soft labels, which [`SoftLabels`] makes a tensor of.
    fn to_tensors(&self, device: &Device) -> Result<Self::Tensors, ToTensorsError>;

    /// Makes the tensors of a batch that is given away, as [`PlanDataLoader`](crate::PlanDataLoader) does for each of
    /// its batches. Tensors may share the batch's memory and keep it: the loader fills it again when the last of them is
    /// gone. By default it is [`to_tensors`](Self::to_tensors), which copies; a batch of images is shared.
    ///
    /// With `staging`, the data goes by way of memory from which the device copies faster, where the backend has such
    /// memory ([`Device::staging`]).
    ///
    /// # Errors
    ///
    /// As for [`to_tensors`](Self::to_tensors).
    fn into_tensors(batch: Batch<Self>, device: &Device, staging: bool) -> Result<Self::Tensors, ToTensorsError>
    where
        Self: Sized,
    {
        let _ = staging;
        batch.to_tensors(device)
    }
}

/// Why a batch can't become tensors. Made by [`ToTensors::to_tensors`].
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct ToTensorsError(BoxError);

/// As `Display`, since `main` prints the error that it returns by this.
impl fmt::Debug for ToTensorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ToTensorsError {
    /// Makes an error of what is wrong: a message, or another error.
    pub fn new(problem: impl Into<BoxError>) -> Self {
        Self(problem.into())
    }
}

/// Pixels of bytes are uploaded as bytes where the device computes with them, a quarter of what floats take, and become
/// numbers in 0..=1 on the device.
impl<T: Pixel> ToTensors for ImageBatch<T> {
    /// The images, of the shape that the layout gives them (`[batch, channels, height, width]` by default), in the
    /// device's float type, and the labels, of shape `[batch]`.
    type Tensors = (Tensor<4>, Tensor<1, Int>);

    fn to_tensors(&self, device: &Device) -> Result<Self::Tensors, ToTensorsError> {
        Ok((T::upload(copied(self), device), Tensor::from_data(labels(self)?, device)))
    }

    fn into_tensors(batch: Batch<Self>, device: &Device, staging: bool) -> Result<Self::Tensors, ToTensorsError> {
        let labels = labels(&batch)?;
        let [images, labels] = staged([shared(batch, |batch| batch), labels], device, staging);
        Ok((T::upload(images, device), Tensor::from_data(labels, device)))
    }
}

/// A batch of images of which the share of each class is trained on, not the label: what MixUp and CutMix make.
/// [`SoftLabelCollate`](crate::SoftLabelCollate) makes it.
#[derive(Clone, Debug)]
pub struct SoftLabels<B>(pub B);

impl<T: Pixel> ToTensors for SoftLabels<ImageBatch<T>> {
    /// The images as for an [`ImageBatch`], and the share of each class, of shape `[batch, num_classes]`.
    type Tensors = (Tensor<4>, Tensor<2>);

    fn to_tensors(&self, device: &Device) -> Result<Self::Tensors, ToTensorsError> {
        Ok((T::upload(copied(&self.0), device), Tensor::from_data(shares(&self.0)?, device)))
    }

    fn into_tensors(batch: Batch<Self>, device: &Device, staging: bool) -> Result<Self::Tensors, ToTensorsError> {
        let shares = shares(&batch.0)?;
        let [images, shares] = staged([shared(batch, |batch| &batch.0), shares], device, staging);
        Ok((T::upload(images, device), Tensor::from_data(shares, device)))
    }
}

/// What the pixels of a batch are: `f32` or `u8`.
pub trait Pixel: Element + BurnElement + sealed::Sealed {
    #[doc(hidden)]
    fn upload(data: TensorData, device: &Device) -> Tensor<4>;
}

mod sealed {
    pub trait Sealed: bytemuck::Pod {}
    impl Sealed for f32 {}
    impl Sealed for u8 {}
}

impl Pixel for f32 {
    fn upload(data: TensorData, device: &Device) -> Tensor<4> {
        Tensor::from_data(data, device)
    }
}

impl Pixel for u8 {
    fn upload(data: TensorData, device: &Device) -> Tensor<4> {
        upload_bytes(data, device).float() / 255.0
    }
}

fn upload_bytes(data: TensorData, device: &Device) -> Tensor<4, Int> {
    // Without a type of its own, burn makes the device's integers of them on the host first.
    let has_bytes = device.supports_dtype(DType::U8);
    let options: TensorCreationOptions = if has_bytes { (device, DType::U8).into() } else { device.into() };
    Tensor::from_data(data, options)
}

fn labels<T>(batch: &ImageBatch<T>) -> Result<TensorData, ToTensorsError> {
    if batch.soft_labels.is_some() {
        let problem = "the images are mixed, so their labels are shares of classes: collate them by SoftLabelCollate";
        return Err(ToTensorsError::new(problem));
    }
    Ok(TensorData::new(batch.labels.to_vec(), [batch.labels.len()]))
}

fn shares<T>(batch: &ImageBatch<T>) -> Result<TensorData, ToTensorsError> {
    let soft = batch.soft_labels.as_ref();
    let problem = "the batch has no soft labels: ImageSettings::batch_transforms names no MixUp or CutMix";
    let soft = soft.ok_or_else(|| ToTensorsError::new(problem))?;
    Ok(TensorData::new(soft.iter().copied().collect(), [soft.nrows(), soft.ncols()]))
}

/// Copies the images, once, into fresh memory that the tensor then owns.
fn copied<T: Pixel>(batch: &ImageBatch<T>) -> TensorData {
    let values = match batch.images.as_slice() {
        Some(values) => values.to_vec(),
        None => batch.images.iter().copied().collect(),
    };
    TensorData::new(values, shape(batch))
}

/// Lends the images of a batch, without a copy. A tensor over them that is written to makes a copy of its own first, and
/// keeps both until it is gone.
fn shared<B: Send + 'static, T: Pixel>(batch: Batch<B>, images: fn(&B) -> &ImageBatch<T>) -> TensorData {
    if !images(&batch).images.is_standard_layout() {
        return copied(images(&batch));
    }
    let shape = shape(images(&batch));
    let bytes = bytes::Bytes::from_owner(Lent { batch, images });
    TensorData::from_bytes(Bytes::from_shared(bytes, AllocationProperty::Native), shape, T::dtype())
}

/// The pixels of a batch, which goes back to the loader when nobody reads them any more.
struct Lent<B: Send + 'static, T: 'static> {
    batch: Batch<B>,
    images: fn(&B) -> &ImageBatch<T>,
}

impl<B: Send, T: Pixel> AsRef<[u8]> for Lent<B, T> {
    fn as_ref(&self) -> &[u8] {
        let values = (self.images)(&self.batch).images.as_slice();
        bytemuck::cast_slice(values.expect("the layout was seen before the batch was lent"))
    }
}

fn shape<T>(batch: &ImageBatch<T>) -> [usize; 4] {
    let (len, a, b, c) = batch.images.dim();
    [len, a, b, c]
}

/// Moves data to memory from which the device copies faster, where it is asked for and there is such memory.
fn staged(mut data: [TensorData; 2], device: &Device, staging: bool) -> [TensorData; 2] {
    if staging {
        device.staging(data.iter_mut());
    }
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
    fn check(tensors: Result<(Tensor<4>, Tensor<1, Int>), ToTensorsError>, expected: &[f32]) {
        let (images, labels) = tensors.unwrap();
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
    }

    #[test]
    fn bytes_become_the_same_numbers_on_the_device_as_on_the_host() {
        let settings = ImageSettings { height: 5, width: 7, ..Default::default() };
        let (bytes, floats) = (batch::<u8>(&settings), batch::<f32>(&settings));
        check(bytes.to_tensors(&Device::flex()), floats.images.as_slice().unwrap());
    }

    #[test]
    fn bytes_reach_the_device_as_bytes() {
        let device = Device::flex();
        assert!(device.supports_dtype(DType::U8));
        let data = copied(&batch::<u8>(&ImageSettings { height: 5, width: 7, ..Default::default() }));
        assert_eq!(data.dtype(), DType::U8);
        assert_eq!(upload_bytes(data, &device).dtype(), DType::U8);
    }

    #[test]
    fn mixed_images_come_with_their_soft_labels_or_not_at_all() {
        let mix = BatchTransform::MixUp { num_classes: 31, alpha: 1.0 };
        let settings = ImageSettings { height: 5, width: 7, batch_transforms: vec![mix], ..Default::default() };
        let mixed = batch::<f32>(&settings);
        let error = mixed.to_tensors(&Device::flex()).unwrap_err().to_string();
        assert!(error.contains("SoftLabelCollate"), "{error}");

        let expected: Vec<f32> = mixed.soft_labels.as_ref().unwrap().iter().copied().collect();
        let (images, shares) = SoftLabels(mixed.clone()).to_tensors(&Device::flex()).unwrap();
        assert_eq!((images.dims(), shares.dims()), ([4, 3, 5, 7], [4, 31]));
        assert_eq!(images.into_data().try_to_vec::<f32>().unwrap(), mixed.images.as_slice().unwrap());
        assert_eq!(shares.into_data().try_to_vec::<f32>().unwrap(), expected);

        let plain = batch::<f32>(&ImageSettings { height: 5, width: 7, ..Default::default() });
        assert!(SoftLabels(plain).to_tensors(&Device::flex()).is_err());
    }
}
