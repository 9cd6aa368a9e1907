//! Crops that keep the scale.

use std::fmt;

use planfetch_loader::rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Apply, check_size};
use crate::error::ImageError;
use crate::functional;
use crate::image::DecodedImage;
use crate::random::between;
use crate::settings::{MAX_SIDE, setting};

/// Takes the middle of an image; torchvision's `CenterCrop`. Where the image is smaller, it is surrounded by black.
///
/// # Example
///
/// ```
/// use planfetch_image::CenterCrop;
///
/// assert_eq!(CenterCrop::default().to_string(), "CenterCrop(size=(224, 224))");
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CenterCrop {
    /// The height and the width, in pixels. Default: 224 by 224.
    pub size: [usize; 2],
}

impl Default for CenterCrop {
    fn default() -> Self {
        Self { size: [224, 224] }
    }
}

impl Apply for CenterCrop {
    fn validate(&self) -> Result<(), ImageError> {
        check_size(self.size)
    }

    fn apply(&self, image: DecodedImage, _: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        if [image.height(), image.width()] == self.size {
            return Ok(image);
        }
        Ok(functional::center_crop(&image, self.size[0], self.size[1]))
    }

    fn output_size(&self, _: Option<[usize; 2]>) -> Option<[usize; 2]> {
        Some(self.size)
    }
}

impl fmt::Display for CenterCrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CenterCrop(size=({}, {}))", self.size[0], self.size[1])
    }
}

/// Takes a part of an image at random; torchvision's `RandomCrop`. Each place is as likely as any other.
///
/// # Example
///
/// The crop of small images that CIFAR's recipes use:
///
/// ```
/// use planfetch_image::RandomCrop;
///
/// let crop = RandomCrop { size: [32, 32], padding: 4, ..RandomCrop::default() };
/// assert_eq!(crop.to_string(), "RandomCrop(size=(32, 32), padding=4, pad_if_needed=False, fill=(0, 0, 0))");
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomCrop {
    /// The height and the width, in pixels. Default: 224 by 224.
    pub size: [usize; 2],
    /// How many pixels are put around the image first, on each side. Default: 0.
    pub padding: usize,
    /// Whether a side that is too short gets padding at both of its ends, each as long as what it lacks. If not, such an
    /// image is an error. Default: false.
    pub pad_if_needed: bool,
    /// The colour of padding. Gray images use the first number. Default: black.
    pub fill: [u8; 3],
}

impl Default for RandomCrop {
    fn default() -> Self {
        Self { size: [224, 224], padding: 0, pad_if_needed: false, fill: [0; 3] }
    }
}

impl Apply for RandomCrop {
    fn validate(&self) -> Result<(), ImageError> {
        if MAX_SIDE < self.padding {
            return Err(setting("padding", self.padding, "must lie in 0..=65535"));
        }
        check_size(self.size)
    }

    fn apply(&self, image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        let [height, width] = self.size;
        // Where the crop may begin along a side, counted from the image's first pixel.
        let mut place = |size: usize, cropped: usize| {
            let mut padding = self.padding;
            if self.pad_if_needed {
                padding += cropped.saturating_sub(size + 2 * padding);
            }
            let space = (size + 2 * padding).checked_sub(cropped)?;
            // OK because sides are far below 2^63.
            Some(between(rng, 0, space) as i64 - padding as i64)
        };
        match (place(image.height(), height), place(image.width(), width)) {
            (Some(top), Some(left)) => Ok(functional::crop(&image, top, left, height, width, self.fill)),
            _ => Err(ImageError::Transform {
                transform: "RandomCrop",
                height: image.height(),
                width: image.width(),
                problem: format!("it takes {height} x {width} pixels; resize images first, or set pad_if_needed"),
            }),
        }
    }

    fn output_size(&self, _: Option<[usize; 2]>) -> Option<[usize; 2]> {
        Some(self.size)
    }
}

impl fmt::Display for RandomCrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size: [height, width], padding, pad_if_needed, fill: [r, g, b] } = self;
        let needed = if *pad_if_needed { "True" } else { "False" };
        write!(
            f,
            "RandomCrop(size=({height}, {width}), padding={padding}, pad_if_needed={needed}, fill=({r}, {g}, {b}))"
        )
    }
}
