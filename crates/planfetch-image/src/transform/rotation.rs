//! Rotations by a random angle.

use std::fmt;

use planfetch_loader::rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Apply, check_range};
use crate::error::ImageError;
use crate::functional;
use crate::image::DecodedImage;
use crate::random::uniform;
use crate::resize::Interpolation;

/// Rotates an image by a random angle; torchvision's `RandomRotation`.
///
/// # Example
///
/// ```
/// use planfetch_image::RandomRotation;
///
/// assert_eq!(
///     RandomRotation::new(10.0).to_string(),
///     "RandomRotation(degrees=(-10.0, 10.0), interpolation=nearest, expand=False, fill=(0, 0, 0))"
/// );
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomRotation {
    /// The least and the most angle, counter-clockwise, in degrees. Default: 0 to 0.
    pub degrees: [f64; 2],
    /// How pixels are made; bicubic is done as bilinear. Default: nearest.
    pub interpolation: Interpolation,
    /// Whether the result grows to hold all of the image. Default: false, it keeps the image's size.
    pub expand: bool,
    /// The colour of what lies outside of the image. Gray images use the first number. Default: black.
    pub fill: [u8; 3],
}

impl RandomRotation {
    /// Rotates by up to `degrees` either way.
    #[must_use]
    pub fn new(degrees: f64) -> Self {
        Self { degrees: [-degrees, degrees], ..Self::default() }
    }
}

impl Default for RandomRotation {
    fn default() -> Self {
        Self { degrees: [0.0, 0.0], interpolation: Interpolation::Nearest, expand: false, fill: [0; 3] }
    }
}

impl Apply for RandomRotation {
    fn validate(&self) -> Result<(), ImageError> {
        check_range("degrees", self.degrees, [f64::MIN, f64::MAX], "must be finite and in order")
    }

    fn apply(&self, image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        let degrees = uniform(rng, self.degrees);
        Ok(functional::rotate(&image, degrees, self.interpolation, self.expand, self.fill))
    }

    fn output_size(&self, input: Option<[usize; 2]>) -> Option<[usize; 2]> {
        input.filter(|_| !self.expand)
    }
}

impl fmt::Display for RandomRotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { degrees: [low, high], interpolation, expand, fill: [r, g, b] } = self;
        let expand = if *expand { "True" } else { "False" };
        write!(
            f,
            "RandomRotation(degrees=({low:?}, {high:?}), interpolation={interpolation}, expand={expand}, fill=({r}, {g}, {b}))"
        )
    }
}
