//! RandAugment and TrivialAugment.

use std::fmt;

use planfetch_loader::rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::Apply;
use crate::error::ImageError;
use crate::functional as f;
use crate::image::DecodedImage;
use crate::random::{below, happens};
use crate::resize::Interpolation;
use crate::settings::setting;

/// Applies `num_ops` random operations of one magnitude; torchvision's `RandAugment` (Cubuk et al. 2019,
/// [arXiv:1909.13719](https://arxiv.org/abs/1909.13719)).
///
/// # Example
///
/// ```
/// use planfetch_image::RandAugment;
///
/// assert_eq!(
///     RandAugment::default().to_string(),
///     "RandAugment(num_ops=2, magnitude=9, num_magnitude_bins=31, interpolation=nearest, fill=(0, 0, 0))"
/// );
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandAugment {
    /// How many operations are applied. Default: 2.
    pub num_ops: usize,
    /// Which of the magnitudes they have, below `num_magnitude_bins`. Default: 9.
    pub magnitude: usize,
    /// How many magnitudes there are, evenly spaced; at least 2. Default: 31.
    pub num_magnitude_bins: usize,
    /// How pixels are made by rotations, shears and translations; bicubic is done as bilinear. Default: nearest.
    pub interpolation: Interpolation,
    /// The colour of what lies outside of the image. Gray images use the first number. Default: black.
    pub fill: [u8; 3],
}

/// Applies one random operation of random magnitude; torchvision's `TrivialAugmentWide` (Müller and Hutter 2021,
/// [arXiv:2103.10158](https://arxiv.org/abs/2103.10158)).
///
/// # Example
///
/// ```
/// use planfetch_image::TrivialAugmentWide;
///
/// assert_eq!(
///     TrivialAugmentWide::default().to_string(),
///     "TrivialAugmentWide(num_magnitude_bins=31, interpolation=nearest, fill=(0, 0, 0))"
/// );
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrivialAugmentWide {
    /// How many magnitudes there are, evenly spaced; at least 2. Default: 31.
    pub num_magnitude_bins: usize,
    /// How pixels are made by rotations, shears and translations; bicubic is done as bilinear. Default: nearest.
    pub interpolation: Interpolation,
    /// The colour of what lies outside of the image. Gray images use the first number. Default: black.
    pub fill: [u8; 3],
}

impl Default for RandAugment {
    fn default() -> Self {
        Self { num_ops: 2, magnitude: 9, num_magnitude_bins: 31, interpolation: Interpolation::Nearest, fill: [0; 3] }
    }
}

impl Default for TrivialAugmentWide {
    fn default() -> Self {
        Self { num_magnitude_bins: 31, interpolation: Interpolation::Nearest, fill: [0; 3] }
    }
}

/// The operations, in torchvision's order.
#[derive(Clone, Copy, Debug)]
enum Op {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
}

const OPS: [Op; 14] = [
    Op::Identity,
    Op::ShearX,
    Op::ShearY,
    Op::TranslateX,
    Op::TranslateY,
    Op::Rotate,
    Op::Brightness,
    Op::Color,
    Op::Contrast,
    Op::Sharpness,
    Op::Posterize,
    Op::Solarize,
    Op::AutoContrast,
    Op::Equalize,
];

/// How strong the strongest magnitude of each operation is.
struct Space {
    shear: f64,
    /// In pixels, along x and y.
    translate: [f64; 2],
    degrees: f64,
    /// By how much a factor differs from 1.
    factor: f64,
    /// How many bits are taken away.
    bits: f64,
}

impl Op {
    /// Applies it at `strength`, in 0..=1, in one of both directions where there are two.
    fn apply(
        self,
        image: DecodedImage,
        strength: f64,
        space: &Space,
        (interpolation, fill): (Interpolation, [u8; 3]),
        rng: &mut ChaCha8Rng,
    ) -> DecodedImage {
        let mut image = image;
        let signed =
            |most: f64, rng: &mut ChaCha8Rng| if happens(rng, 0.5) { -most * strength } else { most * strength };
        let affine = |image: &DecodedImage, translate: [f64; 2], shear: [f64; 2]| {
            f::affine(image, translate, shear, [0.0; 2], interpolation, fill)
        };
        match self {
            Self::Identity => {}
            Self::ShearX => {
                let degrees = signed(space.shear, rng).atan().to_degrees();
                image = affine(&image, [0.0; 2], [degrees, 0.0]);
            }
            Self::ShearY => {
                let degrees = signed(space.shear, rng).atan().to_degrees();
                image = affine(&image, [0.0; 2], [0.0, degrees]);
            }
            Self::TranslateX => image = affine(&image, [signed(space.translate[0], rng).trunc(), 0.0], [0.0; 2]),
            Self::TranslateY => image = affine(&image, [0.0, signed(space.translate[1], rng).trunc()], [0.0; 2]),
            Self::Rotate => image = f::rotate(&image, signed(space.degrees, rng), interpolation, false, fill),
            Self::Brightness => f::adjust_brightness(&mut image, 1.0 + signed(space.factor, rng)),
            Self::Color => f::adjust_saturation(&mut image, 1.0 + signed(space.factor, rng)),
            Self::Contrast => f::adjust_contrast(&mut image, 1.0 + signed(space.factor, rng)),
            Self::Sharpness => f::adjust_sharpness(&mut image, 1.0 + signed(space.factor, rng)),
            // OK because at most six of eight bits are taken away.
            Self::Posterize => f::posterize(&mut image, 8 - (space.bits * strength).round_ties_even() as u8),
            Self::Solarize => f::solarize(&mut image, 255.0 * (1.0 - strength)),
            Self::AutoContrast => f::autocontrast(&mut image),
            Self::Equalize => f::equalize(&mut image),
        }
        image
    }
}

fn check_bins(bins: usize) -> Result<(), ImageError> {
    if 2 <= bins { Ok(()) } else { Err(setting("num_magnitude_bins", bins, "must be at least 2")) }
}

impl Apply for RandAugment {
    fn validate(&self) -> Result<(), ImageError> {
        check_bins(self.num_magnitude_bins)?;
        if self.num_magnitude_bins <= self.magnitude {
            return Err(setting("magnitude", self.magnitude, "must be below num_magnitude_bins"));
        }
        Ok(())
    }

    fn apply(&self, mut image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        let (height, width) = (image.height() as f64, image.width() as f64);
        let translate = [width, height].map(|side| 150.0 / 331.0 * side);
        let space = Space { shear: 0.3, translate, degrees: 30.0, factor: 0.9, bits: 4.0 };
        let strength = self.magnitude as f64 / (self.num_magnitude_bins - 1) as f64;
        for _ in 0..self.num_ops {
            let op = OPS[below(rng, OPS.len())];
            image = op.apply(image, strength, &space, (self.interpolation, self.fill), rng);
        }
        Ok(image)
    }
}

impl Apply for TrivialAugmentWide {
    fn validate(&self) -> Result<(), ImageError> {
        check_bins(self.num_magnitude_bins)
    }

    fn apply(&self, image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        let space = Space { shear: 0.99, translate: [32.0; 2], degrees: 135.0, factor: 0.99, bits: 6.0 };
        let op = OPS[below(rng, OPS.len())];
        let strength = below(rng, self.num_magnitude_bins) as f64 / (self.num_magnitude_bins - 1) as f64;
        Ok(op.apply(image, strength, &space, (self.interpolation, self.fill), rng))
    }
}

impl fmt::Display for RandAugment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { num_ops, magnitude, num_magnitude_bins, interpolation, fill: [r, g, b] } = self;
        write!(
            f,
            "RandAugment(num_ops={num_ops}, magnitude={magnitude}, num_magnitude_bins={num_magnitude_bins}, \
             interpolation={interpolation}, fill=({r}, {g}, {b}))"
        )
    }
}

impl fmt::Display for TrivialAugmentWide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { num_magnitude_bins, interpolation, fill: [r, g, b] } = self;
        write!(
            f,
            "TrivialAugmentWide(num_magnitude_bins={num_magnitude_bins}, interpolation={interpolation}, \
             fill=({r}, {g}, {b}))"
        )
    }
}
