//! Flips with some probability.

use std::fmt;

use planfetch_loader::rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Apply, check_probability};
use crate::error::ImageError;
use crate::functional;
use crate::image::DecodedImage;
use crate::random::happens;

/// Mirrors an image left to right with some probability; torchvision's `RandomHorizontalFlip`.
///
/// # Example
///
/// ```
/// use planfetch_image::RandomHorizontalFlip;
///
/// assert_eq!(RandomHorizontalFlip::default().to_string(), "RandomHorizontalFlip(p=0.5)");
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomHorizontalFlip {
    /// The probability, in 0..=1. Default: 0.5.
    pub p: f64,
}

/// Mirrors an image top to bottom with some probability; torchvision's `RandomVerticalFlip`.
///
/// # Example
///
/// ```
/// use planfetch_image::RandomVerticalFlip;
///
/// assert_eq!(RandomVerticalFlip { p: 0.25 }.to_string(), "RandomVerticalFlip(p=0.25)");
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomVerticalFlip {
    /// The probability, in 0..=1. Default: 0.5.
    pub p: f64,
}

impl Default for RandomHorizontalFlip {
    fn default() -> Self {
        Self { p: 0.5 }
    }
}

impl Default for RandomVerticalFlip {
    fn default() -> Self {
        Self { p: 0.5 }
    }
}

impl Apply for RandomHorizontalFlip {
    fn validate(&self) -> Result<(), ImageError> {
        check_probability(self.p)
    }

    fn apply(&self, mut image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        if happens(rng, self.p) {
            functional::horizontal_flip(&mut image);
        }
        Ok(image)
    }
}

impl Apply for RandomVerticalFlip {
    fn validate(&self) -> Result<(), ImageError> {
        check_probability(self.p)
    }

    fn apply(&self, mut image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        if happens(rng, self.p) {
            functional::vertical_flip(&mut image);
        }
        Ok(image)
    }
}

impl fmt::Display for RandomHorizontalFlip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RandomHorizontalFlip(p={:?})", self.p)
    }
}

impl fmt::Display for RandomVerticalFlip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RandomVerticalFlip(p={:?})", self.p)
    }
}
