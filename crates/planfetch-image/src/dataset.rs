//! A data set of images.

use std::cell::Cell;

use planfetch_index::SampleIndex;
use planfetch_loader::{BoxError, Dataset, ObjectUris, SampleContext};
use planfetch_plan::SampleId;

use crate::decode::{DecodedImage, decode};
use crate::error::ImageError;
use crate::resize::resize;
use crate::settings::ImageSettings;

thread_local! {
    /// The bytes of the file that is being decoded.
    static FILE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// One image for each row of an index, decoded and resized as the settings say.
#[derive(Clone, Debug)]
pub struct ImageDataset {
    index: SampleIndex,
    settings: ImageSettings,
}

/// An image with its label.
#[derive(Clone, Debug)]
pub struct ImageSample {
    /// The image.
    pub image: DecodedImage,
    /// The label: the number of its class.
    pub label: i64,
}

impl ImageDataset {
    /// Makes a data set of the objects in `index`.
    ///
    /// # Errors
    ///
    /// [`ImageError::Setting`] when a setting is out of its range.
    pub fn new(index: SampleIndex, settings: ImageSettings) -> Result<Self, ImageError> {
        settings.validate()?;
        Ok(Self { index, settings })
    }

    /// Returns the index.
    #[must_use]
    pub fn index(&self) -> &SampleIndex {
        &self.index
    }
}

impl ObjectUris for ImageDataset {
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
        // Taken out and not borrowed: a library that is called here may run another sample on this thread.
        let mut bytes = FILE.take();
        let image = file
            .read_into(&mut bytes)
            .map_err(BoxError::from)
            .and_then(|()| decode(&bytes, &self.settings.decode).map_err(BoxError::from));
        FILE.set(bytes);
        let image = image?;
        let image = resize(image, self.settings.height, self.settings.width)?;
        let label = self.index.label(ctx.id().index()).ok_or("the sample has no label")?;
        Ok(ImageSample { image, label: i64::from(label) })
    }
}

/// Checks the shape of an image against that of a batch.
pub(crate) fn check_shape(image: &DecodedImage, settings: &ImageSettings) -> Result<(), ImageError> {
    let actual = [image.height(), image.width(), image.color().channels()];
    let expected = [settings.height, settings.width, settings.decode.color.channels()];
    if actual == expected { Ok(()) } else { Err(ImageError::Shape { actual, expected }) }
}
