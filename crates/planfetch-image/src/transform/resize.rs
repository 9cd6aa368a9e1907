//! Resizing to one size.

use std::fmt;

use planfetch_loader::rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Apply, check_size};
use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::resize::{Interpolation, Region, resize_region};
use crate::settings::{MAX_SIDE, setting};

/// What an image is resized to: `256`, or `[224, 224]` in JSON.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Size {
    /// So that the shorter side has so many pixels; the aspect ratio stays.
    ShorterSide(usize),
    /// To this height and width; the aspect ratio becomes theirs.
    Exact([usize; 2]),
}

/// Resizes an image; torchvision's `Resize`.
///
/// With [`Size::ShorterSide`], the longer side is cut down to a whole number of pixels.
///
/// # Example
///
/// ```
/// use planfetch_image::Resize;
///
/// assert_eq!(Resize::default().to_string(), "Resize(size=[224], interpolation=bilinear, antialias=True)");
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resize {
    /// The size. Default: a shorter side of 224 pixels.
    pub size: Size,
    /// The most pixels of the longer side; the shorter one gets fewer where it takes that. Only with
    /// [`Size::ShorterSide`], and larger than it. Default: none.
    pub max_size: Option<usize>,
    /// How pixels are made. Default: bilinear.
    pub interpolation: Interpolation,
}

impl Default for Resize {
    fn default() -> Self {
        Self { size: Size::ShorterSide(224), max_size: None, interpolation: Interpolation::default() }
    }
}

impl Resize {
    /// Returns the size (height, width) that an image of some size gets.
    pub(crate) fn target(&self, [height, width]: [usize; 2]) -> [usize; 2] {
        match self.size {
            Size::Exact(size) => size,
            Size::ShorterSide(requested) => {
                let (short, long) = (height.min(width), height.max(width));
                let scale = |size: usize, by: usize, of: usize| {
                    // OK because what does not fit is refused when it is applied.
                    usize::try_from(size as u128 * by as u128 / of.max(1) as u128).unwrap_or(usize::MAX)
                };
                let (mut new_short, mut new_long) = (requested, scale(requested, long, short));
                if let Some(max_size) = self.max_size
                    && max_size < new_long
                {
                    (new_short, new_long) = (scale(max_size, new_short, new_long).max(1), max_size);
                }
                if width <= height { [new_long, new_short] } else { [new_short, new_long] }
            }
        }
    }
}

impl Apply for Resize {
    fn validate(&self) -> Result<(), ImageError> {
        match (self.size, self.max_size) {
            (Size::Exact(_), Some(max_size)) => {
                Err(setting("max_size", max_size, "is only for a size that is the shorter side alone"))
            }
            (Size::ShorterSide(side), Some(max_size)) if max_size <= side || MAX_SIDE < max_size => {
                Err(setting("max_size", max_size, "must lie above the size of the shorter side, and in 1..=65535"))
            }
            (Size::Exact(size), None) => check_size(size),
            (Size::ShorterSide(side), _) => check_size([side, side]),
        }
    }

    fn apply(&self, image: DecodedImage, _: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        let (height, width) = (image.height(), image.width());
        let target = self.target([height, width]);
        if target.iter().any(|&side| MAX_SIDE < side) {
            return Err(ImageError::Transform {
                transform: "Resize",
                height,
                width,
                problem: format!("it would become {} x {} pixels; give max_size", target[0], target[1]),
            });
        }
        let whole = Region::whole(&image);
        resize_region(image, whole, target, self.interpolation)
    }

    fn output_size(&self, input: Option<[usize; 2]>) -> Option<[usize; 2]> {
        match self.size {
            Size::Exact(size) => Some(size),
            Size::ShorterSide(_) => input.map(|size| self.target(size)),
        }
    }
}

impl fmt::Display for Resize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            Size::ShorterSide(side) => write!(f, "Resize(size=[{side}]")?,
            Size::Exact([height, width]) => write!(f, "Resize(size=[{height}, {width}]")?,
        }
        if let Some(max_size) = self.max_size {
            write!(f, ", max_size={max_size}")?;
        }
        write!(f, ", interpolation={}, antialias=True)", self.interpolation)
    }
}
