//! A crop of random size and shape, resized.

use std::fmt;

use planfetch_loader::rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Apply, check_range, check_size};
use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::random::{between, uniform};
use crate::resize::{Interpolation, Region, resize_region};

/// Takes a part of an image, of random area and aspect ratio, and resizes it; torchvision's `RandomResizedCrop`.
///
/// The area is drawn evenly from `scale`, as a part of the image's, and the aspect ratio log-evenly from `ratio`. Where
/// ten draws fit in no place, the middle of the image is taken, as much of it as `ratio` allows. Only that part is
/// resized.
///
/// # Example
///
/// ```
/// use planfetch_image::RandomResizedCrop;
///
/// let crop = RandomResizedCrop { size: [96, 96], scale: [0.35, 1.0], ..RandomResizedCrop::default() };
/// assert_eq!(
///     crop.to_string(),
///     "RandomResizedCrop(size=(96, 96), scale=(0.35, 1.0), ratio=(0.75, 1.3333333333333333), \
///      interpolation=bilinear, antialias=True)"
/// );
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomResizedCrop {
    /// The height and the width of the result, in pixels. Default: 224 by 224.
    pub size: [usize; 2],
    /// The least and the most area, as parts of the image's, in 0..=1. Default: 0.08 to 1.
    pub scale: [f64; 2],
    /// The least and the most width divided by height. Default: 3/4 to 4/3.
    pub ratio: [f64; 2],
    /// How pixels are made. Default: bilinear.
    pub interpolation: Interpolation,
}

impl Default for RandomResizedCrop {
    fn default() -> Self {
        Self {
            size: [224, 224],
            scale: [0.08, 1.0],
            ratio: [3.0 / 4.0, 4.0 / 3.0],
            interpolation: Interpolation::default(),
        }
    }
}

/// How often a random rectangle is drawn before there is another way.
pub(super) const DRAWS: usize = 10;

/// Draws a rectangle by its area, as a part of the image's, and its ratio: of the first number returned to the second.
pub(super) fn draw_sides(rng: &mut ChaCha8Rng, area: f64, scale: [f64; 2], ratio: [f64; 2]) -> [usize; 2] {
    let area = area * uniform(rng, scale);
    let ratio = uniform(rng, ratio.map(f64::ln)).exp();
    // OK because a conversion from a float to an integer saturates.
    [(area * ratio).sqrt().round_ties_even() as usize, (area / ratio).sqrt().round_ties_even() as usize]
}

impl RandomResizedCrop {
    fn draw(&self, height: usize, width: usize, rng: &mut ChaCha8Rng) -> Region {
        let area = height as f64 * width as f64;
        for _ in 0..DRAWS {
            let [w, h] = draw_sides(rng, area, self.scale, self.ratio);
            if (1..=width).contains(&w) && (1..=height).contains(&h) {
                let (top, left) = (between(rng, 0, height - h), between(rng, 0, width - w));
                return Region { top, left, height: h, width: w };
            }
        }
        let [least, most] = self.ratio;
        let image_ratio = width as f64 / height as f64;
        let (h, w) = if image_ratio < least {
            ((width as f64 / least).round_ties_even() as usize, width)
        } else if most < image_ratio {
            (height, (height as f64 * most).round_ties_even() as usize)
        } else {
            (height, width)
        };
        // A side of a very thin image could become 0.
        let (h, w) = (h.clamp(1, height), w.clamp(1, width));
        Region { top: (height - h) / 2, left: (width - w) / 2, height: h, width: w }
    }
}

impl Apply for RandomResizedCrop {
    fn validate(&self) -> Result<(), ImageError> {
        check_size(self.size)?;
        check_range("scale", self.scale, [0.0, 1.0], "must be in order and lie in 0..=1")?;
        check_range("ratio", self.ratio, [f64::MIN_POSITIVE, f64::MAX], "must be in order and above 0")
    }

    fn apply(&self, image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        let region = self.draw(image.height(), image.width(), rng);
        resize_region(image, region, self.size, self.interpolation)
    }

    fn output_size(&self, _: Option<[usize; 2]>) -> Option<[usize; 2]> {
        Some(self.size)
    }
}

impl fmt::Display for RandomResizedCrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size: [height, width], scale: [s0, s1], ratio: [r0, r1], interpolation } = self;
        write!(
            f,
            "RandomResizedCrop(size=({height}, {width}), scale=({s0:?}, {s1:?}), ratio=({r0:?}, {r1:?}), \
             interpolation={interpolation}, antialias=True)"
        )
    }
}

#[cfg(test)]
mod tests {
    use planfetch_loader::rand_chacha::rand_core::SeedableRng;

    use super::super::distribution::{check, check_even, manifest};
    use super::*;

    #[test]
    fn areas_and_ratios_are_distributed_as_torchvisions() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let drawn: Vec<Region> = (0..20_000).map(|_| RandomResizedCrop::default().draw(375, 500, &mut rng)).collect();
        let expected = manifest().resized_crop;
        check(drawn.iter().map(|r| (r.height * r.width) as f64 / (375.0 * 500.0)).collect(), &expected.area);
        check(drawn.iter().map(|r| r.width as f64 / r.height as f64).collect(), &expected.ratio);
        let free = drawn.iter().filter(|r| r.height + 50 < 375);
        check_even(free.map(|r| r.top as f64 / (375 - r.height) as f64).collect());
        assert!(drawn.iter().all(|r| r.top + r.height <= 375 && r.left + r.width <= 500));
    }

    #[test]
    fn an_image_that_no_draw_fits_in_is_cut_in_the_middle() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let crop = RandomResizedCrop { scale: [1.0, 1.0], ..RandomResizedCrop::default() };
        assert_eq!(crop.draw(100, 10, &mut rng), Region { top: 43, left: 0, height: 13, width: 10 });
        assert_eq!(crop.draw(10, 100, &mut rng), Region { top: 0, left: 43, height: 10, width: 13 });
        assert_eq!(crop.draw(1, 60_000, &mut rng), Region { top: 0, left: 29_999, height: 1, width: 1 });
    }
}
