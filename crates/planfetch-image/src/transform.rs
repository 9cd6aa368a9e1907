//! Transforms of images, in torchvision's words.

mod auto_augment;
mod color;
mod compose;
mod crop;
#[cfg(test)]
mod distribution;
mod erasing;
mod flip;
mod resize;
mod resized_crop;
mod rotation;

use std::fmt;

use planfetch_loader::rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

pub use auto_augment::{RandAugment, TrivialAugmentWide};
pub use color::{ColorJitter, RandomGrayscale};
pub use compose::Compose;
pub use crop::{CenterCrop, RandomCrop};
pub use erasing::{ErasingValue, Noise, RandomErasing};
pub use flip::{RandomHorizontalFlip, RandomVerticalFlip};
pub use resize::{Resize, Size};
pub use resized_crop::RandomResizedCrop;
pub use rotation::RandomRotation;

use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::settings::{MAX_SIDE, setting};

/// What every transform can do. Its settings are checked before it is applied.
trait Apply: fmt::Display {
    fn validate(&self) -> Result<(), ImageError>;

    /// Takes random numbers from `rng` alone, and as many of them as it likes: what comes later sees others when a
    /// pipeline changes.
    fn apply(&self, image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError>;

    /// Returns the size (height, width) that images have behind it, or `None` when that depends on the image.
    fn output_size(&self, input: Option<[usize; 2]>) -> Option<[usize; 2]> {
        input
    }
}

macro_rules! transforms {
    ($($name:ident),* $(,)?) => {
        /// One step of a [`Compose`].
        ///
        /// Each struct of the same name converts into it.
        #[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
        #[non_exhaustive]
        pub enum Transform {
            $(
                #[doc = concat!("See [`", stringify!($name), "`].")]
                $name($name),
            )*
        }

        $(
            impl From<$name> for Transform {
                fn from(transform: $name) -> Self {
                    Self::$name(transform)
                }
            }
        )*

        impl Transform {
            fn as_apply(&self) -> &dyn Apply {
                match self {
                    $(Self::$name(transform) => transform,)*
                }
            }
        }
    };
}

transforms!(
    Resize,
    CenterCrop,
    RandomCrop,
    RandomResizedCrop,
    RandomHorizontalFlip,
    RandomVerticalFlip,
    RandomRotation,
    ColorJitter,
    RandomGrayscale,
    RandAugment,
    TrivialAugmentWide,
    RandomErasing,
);

impl Transform {
    pub(crate) fn validate(&self) -> Result<(), ImageError> {
        self.as_apply().validate()
    }

    fn apply(&self, image: DecodedImage, rng: &mut ChaCha8Rng) -> Result<DecodedImage, ImageError> {
        self.as_apply().apply(image, rng)
    }

    fn output_size(&self, input: Option<[usize; 2]>) -> Option<[usize; 2]> {
        self.as_apply().output_size(input)
    }
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_apply().fmt(f)
    }
}

fn check_probability(value: f64) -> Result<(), ImageError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(setting("p", value, "must lie in 0..=1")) }
}

fn check_size([height, width]: [usize; 2]) -> Result<(), ImageError> {
    if [height, width].iter().all(|side| (1..=MAX_SIDE).contains(side)) {
        Ok(())
    } else {
        Err(setting("size", format!("[{height}, {width}]"), "each side must lie in 1..=65535"))
    }
}

/// Checks that a range is in order and within bounds, which a range with a NaN never is.
fn check_range(
    name: &'static str,
    [low, high]: [f64; 2],
    [least, most]: [f64; 2],
    rule: &'static str,
) -> Result<(), ImageError> {
    if least <= low && low <= high && high <= most && high.is_finite() {
        Ok(())
    } else {
        Err(setting(name, format!("[{low}, {high}]"), rule))
    }
}
