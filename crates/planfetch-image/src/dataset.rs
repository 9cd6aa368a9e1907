//! A data set of images.

use std::cell::Cell;
use std::sync::Arc;

use planfetch_index::SampleIndex;
use planfetch_loader::rand_chacha::rand_core::Rng;
use planfetch_loader::{BoxError, Dataset, ObjectUris, SampleContext};
use planfetch_plan::SampleId;

use crate::decode::{check_file_len, decode_for};
use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::settings::{ImageSettings, setting};
use crate::transform::Compose;

thread_local! {
    /// The bytes of the file that is being decoded.
    static FILE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A file buffer with more bytes is not kept for the next file.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// One image for each row of an index, decoded and transformed as the settings say.
#[derive(Clone, Debug)]
pub struct ImageDataset {
    index: SampleIndex,
    settings: ImageSettings,
    /// What the settings' transforms stand for.
    transforms: Compose,
    weights: Option<Arc<[f32]>>,
}

/// An image with its label.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ImageSample {
    /// The image, transformed.
    pub image: DecodedImage,
    /// The label: the number of its class.
    pub label: i64,
    /// How much the sample counts in the loss.
    pub weight: f32,
    /// A random number of the sample's own generator, for what is done with its batch.
    pub seed: u64,
}

impl ImageSample {
    /// Makes a sample of weight 1 and seed 0.
    #[must_use]
    pub fn new(image: DecodedImage, label: i64) -> Self {
        Self { image, label, weight: 1.0, seed: 0 }
    }
}

impl ImageDataset {
    /// Makes a data set of the objects in `index`.
    ///
    /// # Errors
    ///
    /// [`ImageError::Setting`] when a setting is out of its range.
    pub fn new(index: SampleIndex, settings: ImageSettings) -> Result<Self, ImageError> {
        settings.validate()?;
        let transforms = settings.pipeline();
        Ok(Self { index, settings, transforms, weights: None })
    }

    /// Gives each sample the weight of its row, which comes into the batch. Without it every weight is 1.
    ///
    /// # Errors
    ///
    /// [`ImageError::Setting`] when there are more or fewer weights than samples.
    pub fn with_weights(mut self, weights: impl Into<Arc<[f32]>>) -> Result<Self, ImageError> {
        let weights = weights.into();
        if weights.len() as u64 != self.index.len() {
            let value = format!("a list of {} for {} samples", weights.len(), self.index.len());
            return Err(setting("weights", value, "there must be one for each sample"));
        }
        self.weights = Some(weights);
        Ok(self)
    }

    /// Returns the index.
    #[must_use]
    pub fn index(&self) -> &SampleIndex {
        &self.index
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &ImageSettings {
        &self.settings
    }
}

impl ObjectUris for ImageDataset {
    fn object_range(&self, id: SampleId) -> Option<std::ops::Range<u64>> {
        self.index.object_range(id)
    }

    fn object_size(&self, id: SampleId) -> Option<u64> {
        self.index.object_size(id)
    }

    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.index.write_uri(id, uri)
    }
}

impl Dataset for ImageDataset {
    type Sample = ImageSample;

    fn len(&self) -> u64 {
        self.index.len()
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<ImageSample, BoxError> {
        let file = ctx.file().ok_or("an image needs a local file")?;
        check_file_len(file.len(), &self.settings.decode)?;
        // Taken out and not borrowed: a library that is called here may run another sample on this thread.
        let mut bytes = FILE.take();
        let image = file.read_into(&mut bytes).map_err(BoxError::from).and_then(|()| {
            decode_for(&bytes, &self.settings.decode, self.transforms.first_resize()).map_err(BoxError::from)
        });
        if bytes.capacity() <= MAX_KEPT_BYTES {
            FILE.set(bytes);
        }
        let image = self.transforms.apply(image?, ctx.rng())?;
        let row = ctx.id().index();
        let label = i64::from(self.index.label(row).ok_or("the sample has no label")?);
        let weight = self.weights.as_ref().and_then(|weights| weights.get(row)).copied().unwrap_or(1.0);
        Ok(ImageSample { image, label, weight, seed: ctx.rng().next_u64() })
    }
}

/// Checks the shape of an image against that of a batch.
pub(crate) fn check_shape(image: &DecodedImage, settings: &ImageSettings) -> Result<(), ImageError> {
    let actual = [image.height(), image.width(), image.color().channels()];
    let expected = [settings.height, settings.width, settings.decode.color.channels()];
    if actual == expected { Ok(()) } else { Err(ImageError::Shape { actual, expected }) }
}
