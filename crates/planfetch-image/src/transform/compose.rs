//! Several transforms in a row.

use std::fmt;

use planfetch_loader::rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Resize, Transform};
use crate::error::ImageError;
use crate::image::DecodedImage;

/// Applies transforms one after the other.
///
/// It is written, as JSON for example, as the list of its transforms, and prints as torchvision's `Compose` does.
///
/// # Example
///
/// ```
/// use planfetch_image::{CenterCrop, ColorMode, Compose, DecodedImage, Resize, Size};
/// use planfetch_loader::SampleContext;
/// use planfetch_plan::SampleId;
///
/// let transforms = Compose::new([
///     Resize { size: Size::ShorterSide(256), ..Resize::default() }.into(),
///     CenterCrop { size: [224, 224] }.into(),
/// ]);
/// let image = DecodedImage::new(vec![0; 375 * 500 * 3], 375, 500, ColorMode::Rgb).expect("375 x 500 pixels");
/// let mut ctx = SampleContext::new(SampleId(0), None, 42, 0, 0);
/// let image = transforms.apply(image, ctx.rng())?;
/// assert_eq!((image.height(), image.width()), (224, 224));
///
/// let json = r#"[{"Resize": {"size": 256}}, {"CenterCrop": {"size": [224, 224]}}]"#;
/// assert_eq!(serde_json::from_str::<Compose>(json)?, transforms);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Compose(Vec<Transform>);

impl Compose {
    /// Puts transforms together, in the order in which they are applied.
    pub fn new(transforms: impl IntoIterator<Item = Transform>) -> Self {
        Self(transforms.into_iter().collect())
    }

    /// Returns the transforms.
    #[must_use]
    pub fn transforms(&self) -> &[Transform] {
        &self.0
    }

    /// Returns whether there is no transform.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks the settings of all transforms. [`ImageDataset::new`](crate::ImageDataset::new) does it too.
    ///
    /// # Errors
    ///
    /// [`ImageError::Setting`] for the first one that is out of its range.
    pub fn validate(&self) -> Result<(), ImageError> {
        self.0.iter().try_for_each(Transform::validate)
    }

    /// Returns the size (height, width) of every image behind the last transform, or `None` when it depends on the
    /// image.
    #[must_use]
    pub fn output_size(&self) -> Option<[usize; 2]> {
        self.0.iter().fold(None, |size, transform| transform.output_size(size))
    }

    /// Returns the first transform, if it is one that resizes the whole image.
    pub(crate) fn first_resize(&self) -> Option<&Resize> {
        match self.0.first() {
            Some(Transform::Resize(resize)) => Some(resize),
            _ => None,
        }
    }

    /// Applies the transforms to an image. Random numbers come from `rng` alone.
    ///
    /// Settings have to be valid; see [`validate`](Self::validate).
    ///
    /// # Errors
    ///
    /// [`ImageError::Transform`] when an image is of a size that a transform can't take, and [`ImageError::Resize`] when
    /// it can't be resized.
    pub fn apply(&self, image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        self.0.iter().try_fold(image, |image, transform| transform.apply(image, rng))
    }
}

impl fmt::Display for Compose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Compose(")?;
        self.0.iter().try_for_each(|transform| writeln!(f, "    {transform}"))?;
        write!(f, ")")
    }
}

impl FromIterator<Transform> for Compose {
    fn from_iter<I: IntoIterator<Item = Transform>>(transforms: I) -> Self {
        Self::new(transforms)
    }
}
