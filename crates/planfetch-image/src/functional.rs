//! What the transforms do once their numbers are drawn: torchvision's functional transforms, by its names.
//!
//! Results are those that torchvision gives for PIL images, rounding included, but for two. [`adjust_hue`] computes in
//! single precision as torchvision does for tensors: PIL's hues have 256 levels. [`rotate`] and [`affine`] may take
//! another pixel where a point lies on the border of two.
//!
//! ```
//! use planfetch_image::{ColorMode, DecodedImage, functional};
//!
//! let mut image = DecodedImage::new(vec![10, 20, 200], 1, 1, ColorMode::Rgb).expect("one pixel");
//! functional::adjust_brightness(&mut image, 1.5);
//! assert_eq!(image.pixels(), [15, 30, 255]);
//! ```

mod adjust;
mod affine;
mod geometry;
mod tone;

pub use adjust::{
    adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation, adjust_sharpness, rgb_to_grayscale,
};
pub use affine::{affine, rotate};
pub use geometry::{center_crop, crop, horizontal_flip, vertical_flip};
pub use tone::{autocontrast, equalize, posterize, solarize};

use crate::image::DecodedImage;

/// Replaces each value by that of a table.
fn look_up(image: &mut DecodedImage, table: &[u8; 256]) {
    image.pixels_mut().iter_mut().for_each(|value| *value = table[usize::from(*value)]);
}
