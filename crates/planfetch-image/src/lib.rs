//! Images for a planfetch loader: decode, resize, normalise and collate straight into NCHW batches.
//!
//! ```
//! use planfetch_image::{ColorMode, DecodeSettings, decode};
//! # let mut png = std::io::Cursor::new(Vec::new());
//! # image::RgbImage::from_pixel(3, 2, image::Rgb([255, 0, 0])).write_to(&mut png, image::ImageFormat::Png)?;
//! # let bytes = png.into_inner();
//!
//! // `bytes` are those of a PNG of 3 by 2 red pixels.
//! let image = decode(&bytes, &DecodeSettings::default())?;
//! assert_eq!((image.height(), image.width(), image.color()), (2, 3, ColorMode::Rgb));
//! assert_eq!(&image.pixels()[..3], [255, 0, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`ImageDataset`] is a loader's `Dataset`: it decodes and resizes the object of each sample.
//! - [`ImageCollate`] is its `Collate`: it normalises each image into its slot of an [`ImageBatch`].
//! - [`ImageSettings`] says for both what comes out: size, colour, mean and standard deviation.
//! - [`decode`] and [`resize`] are the steps alone.
//!
//! # What is decoded
//!
//! JPEG (baseline and progressive; gray, YCbCr, RGB, CMYK and YCCK) and PNG (all colour types and bit depths), told apart
//! by content and not by name. Alpha is dropped, samples of 16 bits keep their high byte, and the EXIF orientation is
//! applied, as Pillow's `exif_transpose` and `convert("RGB")` do. A file that is damaged, or claims more pixels than
//! allowed, is an error: no pixel is invented.

/// The arrays of [`ImageBatch`], in the version that it uses.
pub use ndarray;

mod collate;
mod dataset;
mod decode;
mod error;
mod resize;
mod settings;

pub use crate::collate::{ImageBatch, ImageCollate, ImageSlot};
pub use crate::dataset::{ImageDataset, ImageSample};
pub use crate::decode::{DecodedImage, decode};
pub use crate::error::ImageError;
pub use crate::resize::resize;
pub use crate::settings::{ColorMode, DecodeSettings, IMAGENET_MEAN, IMAGENET_STD, ImageSettings};
