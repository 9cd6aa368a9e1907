//! Images into a batch.

use ndarray::{Array1, Array4};
use planfetch_loader::{BoxError, Collate};

use crate::dataset::{ImageSample, check_shape};
use crate::error::ImageError;
use crate::settings::ImageSettings;

/// A batch of images, all of one size, with their labels.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageBatch {
    /// The images, of shape `[batch, channels, height, width]`, normalised; in standard (C) layout.
    pub images: Array4<f32>,
    /// The labels, of shape `[batch]`.
    pub labels: Array1<i64>,
}

impl ImageBatch {
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
}

/// Collates images of the size that the settings give into an [`ImageBatch`].
///
/// Each value becomes `(value / 255 - mean) / std`, computed in single precision once for each of the 256 values of a
/// channel, while it is written into its slot: channels apart, rows from the top.
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
///     collate.put(ImageSample { image: image.clone(), label: 3 }, slot)?;
/// }
/// let batch = collate.finish(buffer);
/// assert_eq!(batch.images.shape(), [1, 3, 1, 2]);
/// assert_eq!(batch.images.as_slice().expect("standard layout"), [1.0, 0.0, 0.0, 1.0, 0.2, 0.2]);
/// assert_eq!(batch.labels[0], 3);
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageCollate {
    settings: ImageSettings,
    /// What each value of each channel becomes.
    tables: Vec<[f32; 256]>,
}

/// The place of one image in a batch.
#[derive(Debug)]
pub struct ImageSlot<'b> {
    /// Of shape `[channels, height, width]`.
    pixels: &'b mut [f32],
    label: &'b mut i64,
}

impl ImageCollate {
    /// Makes a collate for images of the size, colour, mean and standard deviation in `settings`.
    ///
    /// # Errors
    ///
    /// [`ImageError::Setting`] when a setting is out of its range.
    pub fn new(settings: &ImageSettings) -> Result<Self, ImageError> {
        settings.validate()?;
        let channels = settings.decode.color.channels();
        let table = |channel: usize| {
            let (mean, std) = (settings.mean[channel], settings.std[channel]);
            // OK because an index below 256 is exact in a float.
            std::array::from_fn(|value| (value as f32 / 255.0 - mean) / std)
        };
        Ok(Self { settings: settings.clone(), tables: (0..channels).map(table).collect() })
    }

    fn values_per_image(&self) -> usize {
        self.tables.len() * self.settings.height * self.settings.width
    }
}

impl Collate<ImageSample> for ImageCollate {
    type Buffer = ImageBatch;
    type Slot<'b> = ImageSlot<'b>;
    type Batch = ImageBatch;

    fn buffer(&self) -> ImageBatch {
        ImageBatch { images: Array4::default((0, 0, 0, 0)), labels: Array1::default(0) }
    }

    fn slots<'b>(&self, buffer: &'b mut ImageBatch, len: usize) -> Vec<ImageSlot<'b>> {
        let shape = (len, self.tables.len(), self.settings.height, self.settings.width);
        if buffer.images.dim() != shape || !buffer.images.is_standard_layout() {
            let (mut values, _) = std::mem::take(&mut buffer.images).into_raw_vec_and_offset();
            values.resize(len * self.values_per_image(), 0.0);
            buffer.images = Array4::from_shape_vec(shape, values).expect("the vector was given the shape's length");
        }
        if buffer.labels.len() != len || !buffer.labels.is_standard_layout() {
            buffer.labels = Array1::zeros(len);
        }
        let pixels = buffer.images.as_slice_mut().expect("it is in standard layout");
        let labels = buffer.labels.as_slice_mut().expect("it is in standard layout");
        // An image without a pixel has an empty slot.
        let chunks = pixels.chunks_exact_mut(self.values_per_image().max(1));
        chunks.zip(labels).map(|(pixels, label)| ImageSlot { pixels, label }).collect()
    }

    fn put(&self, sample: ImageSample, slot: ImageSlot<'_>) -> Result<(), BoxError> {
        check_shape(&sample.image, &self.settings)?;
        let pixels = sample.image.pixels();
        let plane_len = self.settings.height * self.settings.width;
        let planes = slot.pixels.chunks_exact_mut(plane_len.max(1));
        match &self.tables[..] {
            [table] => {
                for plane in planes {
                    for (value, &pixel) in plane.iter_mut().zip(pixels) {
                        *value = table[usize::from(pixel)];
                    }
                }
            }
            tables => {
                for (channel, (plane, table)) in planes.zip(tables).enumerate() {
                    let of_channel = pixels.chunks_exact(tables.len());
                    for (value, pixel) in plane.iter_mut().zip(of_channel) {
                        *value = table[usize::from(pixel[channel])];
                    }
                }
            }
        }
        *slot.label = sample.label;
        Ok(())
    }

    fn finish(&self, buffer: ImageBatch) -> ImageBatch {
        buffer
    }

    fn recycle(&self, batch: ImageBatch) -> Option<ImageBatch> {
        Some(batch)
    }
}
