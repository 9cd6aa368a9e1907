//! Images into a batch.

use ndarray::{Array1, Array2, Array4};
use planfetch_loader::rand_chacha::ChaCha8Rng;
use planfetch_loader::rand_chacha::rand_core::SeedableRng;
use planfetch_loader::{BoxError, Collate};

use crate::batch::ImageBatch;
use crate::batch_transform::mix_labels;
use crate::dataset::{ImageSample, check_shape};
use crate::error::ImageError;
use crate::random::below;
use crate::settings::{ImageSettings, setting};
use crate::to_tensor::{Element, ToTensor};

/// Collates images of the size that the settings give into an [`ImageBatch`].
///
/// Each image is normalised, brought into the order of the axes and written into its slot in one pass; see
/// [`ToTensor`]. A batch transform, where there is one, is applied when all slots are full; its random numbers come from
/// the generator of the batch's first sample.
///
/// # Example
///
/// ```
/// use planfetch_image::{ColorMode, DecodedImage, ImageCollate, ImageSample, ImageSettings};
/// use planfetch_loader::{BoxError, Collate};
///
/// let collate = ImageCollate::new(&ImageSettings { height: 1, width: 2, ..ImageSettings::default() })?;
/// let image = DecodedImage::new(vec![255, 0, 51, 0, 255, 51], 1, 2, ColorMode::Rgb).expect("1 x 2 pixels");
///
/// let mut buffer = collate.buffer();
/// for slot in collate.slots(&mut buffer, 1) {
///     collate.put(ImageSample::new(image.clone(), 3), slot)?;
/// }
/// let batch = collate.finish(buffer);
/// assert_eq!(batch.images.shape(), [1, 3, 1, 2]);
/// assert_eq!(batch.images.as_slice().expect("standard layout"), [1.0, 0.0, 0.0, 1.0, 0.2, 0.2]);
/// assert_eq!((batch.labels[0], batch.weights[0], batch.padding[0]), (3, 1.0, false));
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageCollate<T = f32> {
    settings: ImageSettings,
    to_tensor: ToTensor<T>,
    /// Of the batch transforms; 0 without one.
    num_classes: usize,
}

/// The place of one image in a batch.
#[derive(Debug)]
pub struct ImageSlot<'b, T = f32> {
    values: &'b mut [T],
    label: &'b mut i64,
    weight: &'b mut f32,
    seed: &'b mut u64,
}

impl ImageCollate {
    /// Makes a collate of single precision for images as `settings` describe them.
    ///
    /// # Errors
    ///
    /// [`ImageError::Setting`] when a setting is out of its range.
    pub fn new(settings: &ImageSettings) -> Result<Self, ImageError> {
        Self::with_dtype(settings)
    }
}

impl<T: Element> ImageCollate<T> {
    /// Makes a collate of numbers of type `T`: `f32`, `f16`, `bf16`, or `u8`, for which `mean` and `std` stay 0 and 1.
    ///
    /// # Errors
    ///
    /// [`ImageError::Setting`] when a setting is out of its range, or does not go with `T`.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_image::half::bf16;
    /// use planfetch_image::{ImageCollate, ImageSettings};
    /// use planfetch_loader::Collate;
    ///
    /// let collate = ImageCollate::<bf16>::with_dtype(&ImageSettings::default())?;
    /// let mut buffer = collate.buffer();
    /// collate.slots(&mut buffer, 8);
    /// assert_eq!(collate.finish(buffer).images.shape(), [8, 3, 224, 224]);
    /// # Ok::<(), planfetch_image::ImageError>(())
    /// ```
    pub fn with_dtype(settings: &ImageSettings) -> Result<Self, ImageError> {
        settings.validate()?;
        let transforms = &settings.batch_transforms;
        let num_classes = transforms.first().map_or(0, |transform| transform.num_classes());
        if let Some(other) = transforms.iter().find(|transform| transform.num_classes() != num_classes) {
            return Err(setting("num_classes", other.num_classes(), "must be the same for all batch transforms"));
        }
        if let Some(transform) = transforms.first().filter(|_| !T::IS_FLOAT) {
            return Err(setting("batch_transforms", transform, "a batch of uint8 can't be mixed: take a float type"));
        }
        Ok(Self { settings: settings.clone(), to_tensor: ToTensor::new(settings)?, num_classes })
    }

    fn values_per_image(&self) -> usize {
        self.settings.image_shape().iter().product()
    }

    /// Mixes the images of a full batch, and makes soft labels.
    fn mix(&self, batch: &mut ImageBatch<T>) {
        let transforms = &self.settings.batch_transforms;
        let (Some(&seed), false) = (batch.seeds.first(), transforms.is_empty()) else {
            batch.soft_labels = None;
            return;
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let transform = &transforms[below(&mut rng, transforms.len())];
        let images = batch.images.as_slice_mut().expect("it is in standard layout");
        let share = transform.apply(images, self.settings.image_shape(), self.settings.layout, &mut rng);
        let labels = batch.labels.as_slice().expect("it is in standard layout");
        let shape = (labels.len(), self.num_classes);
        let soft = batch.soft_labels.take().filter(|soft| soft.dim() == shape);
        let mut soft = soft.unwrap_or_else(|| Array2::zeros(shape));
        mix_labels(labels, share, &mut soft);
        batch.soft_labels = Some(soft);
    }
}

impl<T: Element> Collate<ImageSample> for ImageCollate<T> {
    type Buffer = ImageBatch<T>;
    type Slot<'b> = ImageSlot<'b, T>;
    type Batch = ImageBatch<T>;

    fn buffer(&self) -> ImageBatch<T> {
        ImageBatch::empty(self.settings.layout)
    }

    fn slots<'b>(&self, buffer: &'b mut ImageBatch<T>, len: usize) -> Vec<ImageSlot<'b, T>> {
        let [a, b, c] = self.settings.image_shape();
        let shape = (len, a, b, c);
        if buffer.images.dim() != shape || !buffer.images.is_standard_layout() {
            let (mut values, _) = std::mem::take(&mut buffer.images).into_raw_vec_and_offset();
            values.resize(len * self.values_per_image(), T::default());
            buffer.images = Array4::from_shape_vec(shape, values).expect("the vector was given the shape's length");
        }
        reset(&mut buffer.labels, len, 0);
        reset(&mut buffer.weights, len, 1.0);
        reset(&mut buffer.padding, len, false);
        buffer.seeds.clear();
        buffer.seeds.resize(len, 0);
        let standard = "it is in standard layout";
        let values = buffer.images.as_slice_mut().expect(standard).chunks_exact_mut(self.values_per_image());
        let labels = buffer.labels.as_slice_mut().expect(standard);
        let weights = buffer.weights.as_slice_mut().expect(standard);
        let parts = values.zip(labels).zip(weights).zip(&mut buffer.seeds);
        parts.map(|(((values, label), weight), seed)| ImageSlot { values, label, weight, seed }).collect()
    }

    fn put(&self, sample: ImageSample, slot: ImageSlot<'_, T>) -> Result<(), BoxError> {
        check_shape(&sample.image, &self.settings)?;
        let num_classes = self.num_classes;
        let is_class = usize::try_from(sample.label).is_ok_and(|label| label < num_classes);
        if 0 < num_classes && !is_class {
            return Err(ImageError::Label { label: sample.label, num_classes }.into());
        }
        self.to_tensor.write(&sample.image, slot.values);
        *slot.label = sample.label;
        *slot.weight = sample.weight;
        *slot.seed = sample.seed;
        Ok(())
    }

    fn finish(&self, mut buffer: ImageBatch<T>) -> ImageBatch<T> {
        self.mix(&mut buffer);
        buffer
    }

    fn set_padding(&self, batch: &mut ImageBatch<T>, num_padding: usize) {
        batch.set_padding(num_padding);
    }

    fn num_bytes(&self, batch: &ImageBatch<T>) -> Option<u64> {
        // OK because no machine has memory for more bytes than fit in 64 bits.
        Some(batch.num_bytes() as u64)
    }

    fn recycle(&self, batch: ImageBatch<T>) -> Option<ImageBatch<T>> {
        Some(batch)
    }
}

/// Gives an array `len` elements of `value`, in standard layout, in the memory that it has where that is enough.
fn reset<E: Clone>(array: &mut Array1<E>, len: usize, value: E)
where
    Array1<E>: Default,
{
    let (mut elements, _) = std::mem::take(array).into_raw_vec_and_offset();
    elements.clear();
    elements.resize(len, value);
    *array = elements.into();
}
