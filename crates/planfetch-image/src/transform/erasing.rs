//! Erasing a random rectangle.

use std::fmt;

use planfetch_loader::rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::resized_crop::{DRAWS, draw_sides};
use super::{Apply, check_probability, check_range};
use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::random::{between, happens, normal};
use crate::resize::Region;
use crate::settings::{IMAGENET_MEAN, IMAGENET_STD};

/// What an erased rectangle becomes: `"random"`, or `[124, 116, 104]` in JSON.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ErasingValue {
    /// This colour. Gray images use the first number.
    Color([u8; 3]),
    /// Noise of its own for each value.
    Noise(Noise),
}

/// The word `"random"`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    /// Normal noise with ImageNet's mean and standard deviation, cut to 0..=255: what standard normal noise is once
    /// images have been normalised by them.
    Random,
}

/// Erases a rectangle of random area and aspect ratio with some probability; torchvision's `RandomErasing`.
///
/// The area is drawn evenly from `scale`, as a part of the image's, and the ratio of height to width log-evenly from
/// `ratio`. Where ten draws fit in no place, nothing is erased.
///
/// Recipes that erase with zeros after normalising erase with the mean colour: that is `[124, 116, 104]` for ImageNet's
/// mean.
///
/// # Example
///
/// ```
/// use planfetch_image::RandomErasing;
///
/// assert_eq!(
///     RandomErasing { p: 0.1, ..RandomErasing::default() }.to_string(),
///     "RandomErasing(p=0.1, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=(0, 0, 0))"
/// );
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomErasing {
    /// The probability, in 0..=1. Default: 0.5.
    pub p: f64,
    /// The least and the most area, as parts of the image's, in 0..=1. Default: 0.02 to 0.33.
    pub scale: [f64; 2],
    /// The least and the most height divided by width. Default: 0.3 to 3.3.
    pub ratio: [f64; 2],
    /// What the rectangle becomes. Default: black.
    pub value: ErasingValue,
}

impl Default for RandomErasing {
    fn default() -> Self {
        Self { p: 0.5, scale: [0.02, 0.33], ratio: [0.3, 3.3], value: ErasingValue::Color([0; 3]) }
    }
}

impl Apply for RandomErasing {
    fn validate(&self) -> Result<(), ImageError> {
        check_probability(self.p)?;
        check_range("scale", self.scale, [0.0, 1.0], "must be in order and lie in 0..=1")?;
        check_range("ratio", self.ratio, [f64::MIN_POSITIVE, f64::MAX], "must be in order and above 0")
    }

    fn apply(&self, mut image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        if !happens(rng, self.p) {
            return Ok(image);
        }
        if let Some(region) = self.draw(image.height(), image.width(), rng) {
            self.erase(&mut image, region, rng);
        }
        Ok(image)
    }
}

impl RandomErasing {
    fn draw(&self, height: usize, width: usize, rng: &mut ChaCha8Rng) -> Option<Region> {
        let area = height as f64 * width as f64;
        let mut sides = (0..DRAWS).map(|_| draw_sides(rng, area, self.scale, self.ratio));
        let [h, w] = sides.find(|&[h, w]| h < height && w < width)?;
        let (top, left) = (between(rng, 0, height - h), between(rng, 0, width - w));
        Some(Region { top, left, height: h, width: w })
    }

    fn erase(&self, image: &mut DecodedImage, region: Region, rng: &mut ChaCha8Rng) {
        let (stride, channels) = (image.stride(), image.color().channels());
        for row in image.pixels_mut().chunks_exact_mut(stride).skip(region.top).take(region.height) {
            let erased = &mut row[region.left * channels..(region.left + region.width) * channels];
            for (i, value) in erased.iter_mut().enumerate() {
                let channel = i % channels;
                *value = match self.value {
                    ErasingValue::Color(color) => color[channel],
                    ErasingValue::Noise(Noise::Random) => {
                        let (mean, std) = (f64::from(IMAGENET_MEAN[channel]), f64::from(IMAGENET_STD[channel]));
                        // OK because a conversion from a float to an integer saturates.
                        ((mean + std * normal(rng)) * 255.0).round() as u8
                    }
                };
            }
        }
    }
}

impl fmt::Display for RandomErasing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p, scale: [s0, s1], ratio: [r0, r1], value } = self;
        write!(f, "RandomErasing(p={p:?}, scale=({s0:?}, {s1:?}), ratio=({r0:?}, {r1:?}), value=")?;
        match value {
            ErasingValue::Color([r, g, b]) => write!(f, "({r}, {g}, {b}))"),
            ErasingValue::Noise(Noise::Random) => write!(f, "random)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use planfetch_loader::rand_chacha::rand_core::SeedableRng;

    use super::super::distribution::{check, check_even, manifest};
    use super::*;
    use crate::settings::ColorMode;

    #[test]
    fn areas_and_ratios_are_distributed_as_torchvisions() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let erase = RandomErasing { scale: [0.02, 0.2], ..RandomErasing::default() };
        let drawn: Vec<Region> = (0..20_000).filter_map(|_| erase.draw(375, 500, &mut rng)).collect();
        let expected = manifest().erasing;
        check(drawn.iter().map(|r| (r.height * r.width) as f64 / (375.0 * 500.0)).collect(), &expected.area);
        check(drawn.iter().map(|r| r.width as f64 / r.height as f64).collect(), &expected.ratio);
        check_even(
            drawn.iter().filter(|r| r.width + 50 < 500).map(|r| r.left as f64 / (500 - r.width) as f64).collect(),
        );
    }

    #[test]
    fn nothing_but_the_rectangle_changes() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let region = Region { top: 2, left: 3, height: 4, width: 5 };
        for value in [ErasingValue::Color([9, 8, 7]), ErasingValue::Noise(Noise::Random)] {
            let erase = RandomErasing { value, ..RandomErasing::default() };
            let mut image = DecodedImage::new(vec![1; 10 * 12 * 3], 10, 12, ColorMode::Rgb).expect("10 x 12 pixels");
            erase.erase(&mut image, region, &mut rng);
            for (y, x) in (0..10).flat_map(|y| (0..12).map(move |x| (y, x))) {
                let is_inside = (2..6).contains(&y) && (3..8).contains(&x);
                match value {
                    ErasingValue::Color(color) if is_inside => assert_eq!(image.pixel(y, x), color),
                    // Noise may hit upon the value that was there, but not on all three.
                    ErasingValue::Noise(_) if is_inside => assert_ne!(image.pixel(y, x), [1; 3]),
                    _ => assert_eq!(image.pixel(y, x), [1; 3]),
                }
            }
        }
    }
}
