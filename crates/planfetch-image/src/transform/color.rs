//! Random colours.

use std::fmt;

use planfetch_loader::rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Apply, check_probability, check_range};
use crate::error::ImageError;
use crate::functional;
use crate::image::DecodedImage;
use crate::random::{below, happens, uniform};

/// Changes brightness, contrast, saturation and hue at random, in random order; torchvision's `ColorJitter`.
///
/// # Example
///
/// ```
/// use planfetch_image::ColorJitter;
///
/// let jitter = ColorJitter::new(0.4, 0.4, 0.4, 0.1);
/// assert_eq!(jitter.brightness, [0.6, 1.4]);
/// assert_eq!(jitter.hue, [-0.1, 0.1]);
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ColorJitter {
    /// The least and the most factor of [`adjust_brightness`](functional::adjust_brightness); from 0 on. Default: 1 to 1.
    pub brightness: [f64; 2],
    /// The least and the most factor of [`adjust_contrast`](functional::adjust_contrast); from 0 on. Default: 1 to 1.
    pub contrast: [f64; 2],
    /// The least and the most factor of [`adjust_saturation`](functional::adjust_saturation); from 0 on. Default: 1 to 1.
    pub saturation: [f64; 2],
    /// The least and the most shift of [`adjust_hue`](functional::adjust_hue), in -0.5..=0.5. Default: 0 to 0.
    pub hue: [f64; 2],
}

impl ColorJitter {
    /// Changes by up to so much either way: factors of `1 - x` (but not below 0) to `1 + x`, and hues from `-x` to `x`.
    #[must_use]
    pub fn new(brightness: f64, contrast: f64, saturation: f64, hue: f64) -> Self {
        let around = |x: f64| [(1.0 - x).max(0.0), 1.0 + x];
        Self {
            brightness: around(brightness),
            contrast: around(contrast),
            saturation: around(saturation),
            hue: [-hue, hue],
        }
    }
}

impl Default for ColorJitter {
    fn default() -> Self {
        Self { brightness: [1.0; 2], contrast: [1.0; 2], saturation: [1.0; 2], hue: [0.0; 2] }
    }
}

impl Apply for ColorJitter {
    fn validate(&self) -> Result<(), ImageError> {
        let factors = [("brightness", self.brightness), ("contrast", self.contrast), ("saturation", self.saturation)];
        for (name, factor) in factors {
            check_range(name, factor, [0.0, f64::MAX], "must be in order and not below 0")?;
        }
        check_range("hue", self.hue, [-0.5, 0.5], "must be in order and lie in -0.5..=0.5")
    }

    fn apply(&self, mut image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        let mut order = [0, 1, 2, 3];
        for i in (1..order.len()).rev() {
            order.swap(i, below(rng, i + 1));
        }
        let ranges = [self.brightness, self.contrast, self.saturation, self.hue];
        let drawn = ranges.map(|range| uniform(rng, range));
        // What changes nothing costs nothing.
        let neutral = [1.0, 1.0, 1.0, 0.0];
        for which in order.into_iter().filter(|&which| drawn[which] != neutral[which]) {
            let adjust = [
                functional::adjust_brightness,
                functional::adjust_contrast,
                functional::adjust_saturation,
                functional::adjust_hue,
            ][which];
            adjust(&mut image, drawn[which]);
        }
        Ok(image)
    }
}

impl fmt::Display for ColorJitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = |[low, high]: [f64; 2]| format!("({low:?}, {high:?})");
        write!(
            f,
            "ColorJitter(brightness={}, contrast={}, saturation={}, hue={})",
            pair(self.brightness),
            pair(self.contrast),
            pair(self.saturation),
            pair(self.hue)
        )
    }
}

/// Makes an image gray with some probability; torchvision's `RandomGrayscale`. The image keeps its channels.
///
/// # Example
///
/// ```
/// use planfetch_image::RandomGrayscale;
///
/// assert_eq!(RandomGrayscale::default().to_string(), "RandomGrayscale(p=0.1)");
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomGrayscale {
    /// The probability, in 0..=1. Default: 0.1.
    pub p: f64,
}

impl Default for RandomGrayscale {
    fn default() -> Self {
        Self { p: 0.1 }
    }
}

impl Apply for RandomGrayscale {
    fn validate(&self) -> Result<(), ImageError> {
        check_probability(self.p)
    }

    fn apply(&self, mut image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        if happens(rng, self.p) {
            functional::rgb_to_grayscale(&mut image);
        }
        Ok(image)
    }
}

impl fmt::Display for RandomGrayscale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RandomGrayscale(p={:?})", self.p)
    }
}
