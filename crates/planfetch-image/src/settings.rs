//! What can be set about images.

use serde::{Deserialize, Serialize};

use crate::error::ImageError;

/// The mean of ImageNet's training images by channel (R, G, B), for pixels in 0..=1, as torchvision's models expect it.
pub const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// The standard deviation of ImageNet's training images by channel (R, G, B), for pixels in 0..=1.
pub const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];

/// Which channels an image has.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ColorMode {
    /// Red, green and blue.
    #[default]
    Rgb,
    /// Brightness alone: ITU-R BT.601 luma of colour images.
    Gray,
}

impl ColorMode {
    /// Returns the number of channels: 3 or 1.
    #[must_use]
    pub fn channels(self) -> usize {
        match self {
            Self::Rgb => 3,
            Self::Gray => 1,
        }
    }
}

/// How [`decode`](crate::decode) reads a file.
///
/// # Example
///
/// ```
/// use planfetch_image::{ColorMode, DecodeSettings};
///
/// let settings = DecodeSettings { color: ColorMode::Gray, ..DecodeSettings::default() };
/// assert!(settings.apply_orientation);
/// ```
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DecodeSettings {
    /// Which channels come out, whatever the file has. Default: RGB.
    pub color: ColorMode,
    /// Whether the image is turned upright as its EXIF orientation says. Default: true.
    pub apply_orientation: bool,
    /// The most pixels that a file may claim, checked before memory for them is taken. Default: 2^27, 134 million.
    pub max_pixels: u64,
}

impl Default for DecodeSettings {
    fn default() -> Self {
        Self { color: ColorMode::Rgb, apply_orientation: true, max_pixels: 1 << 27 }
    }
}

/// What an image is when it comes into a batch.
///
/// # Example
///
/// ```
/// use planfetch_image::{IMAGENET_MEAN, IMAGENET_STD, ImageSettings};
///
/// let settings = ImageSettings { mean: IMAGENET_MEAN, std: IMAGENET_STD, ..ImageSettings::default() };
/// assert_eq!((settings.height, settings.width), (224, 224));
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImageSettings {
    /// The height that each image is resized to, in pixels. Default: 224.
    pub height: usize,
    /// The width that each image is resized to, in pixels. Default: 224. The aspect ratio is not kept.
    pub width: usize,
    /// What is subtracted from each channel of pixels in 0..=1. Gray images use the first number. Default: 0.
    pub mean: [f32; 3],
    /// What each channel is then divided by; not 0. Gray images use the first number. Default: 1.
    pub std: [f32; 3],
    /// How files are decoded, the channels included.
    pub decode: DecodeSettings,
}

impl Default for ImageSettings {
    fn default() -> Self {
        Self { height: 224, width: 224, mean: [0.0; 3], std: [1.0; 3], decode: DecodeSettings::default() }
    }
}

impl ImageSettings {
    pub(crate) fn validate(&self) -> Result<(), ImageError> {
        for (name, value) in [("height", self.height), ("width", self.width)] {
            if !(1..=65_535).contains(&value) {
                return Err(ImageError::Setting { name, value: value.to_string(), range: "must lie in 1..=65535" });
            }
        }
        if let Some(value) = self.mean.iter().find(|value| !value.is_finite()) {
            return Err(ImageError::Setting { name: "mean", value: value.to_string(), range: "must be finite" });
        }
        if let Some(value) = self.std.iter().find(|value| !value.is_normal()) {
            return Err(ImageError::Setting {
                name: "std",
                value: value.to_string(),
                range: "must be finite and not 0",
            });
        }
        Ok(())
    }
}
