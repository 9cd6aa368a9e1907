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
//! - [`ImageDataset`] is a loader's `Dataset`: it decodes and transforms the object of each sample.
//! - [`ImageCollate`] is its `Collate`: it normalises each image into its slot of an [`ImageBatch`].
//! - [`ImageSettings`] says for both what comes out: size, transforms, colour, mean and standard deviation, order of axes.
//! - [`Compose`] is a pipeline of [`Transform`]s, in torchvision's words.
//! - [`contact_sheet`] shows a batch to people.
//! - [`decode`], [`resize`], [`functional`] and [`ToTensor`] are the steps alone.
//!
//! # What is decoded
//!
//! JPEG (baseline and progressive; gray, YCbCr, RGB, CMYK and YCCK), PNG (all colour types and bit depths), WebP, GIF,
//! BMP and TIFF (gray, RGB and CMYK), told apart by content and not by name; of an animation, the first frame. Alpha is
//! dropped or composited, samples of 16 bits keep their high byte, and the EXIF orientation is applied, as Pillow's
//! `exif_transpose` and `convert("RGB")` do. A file that is damaged, or claims more pixels than allowed, is an error: no
//! pixel is invented.
//!
//! # Where random numbers come from
//!
//! From the generator of the sample, [`SampleContext::rng`](planfetch_loader::SampleContext::rng), and from nowhere else:
//! a sample is augmented in the same way for any number of workers and ranks, and after a resume, and in another way in
//! another epoch.
//!
//! # What it does not do
//!
//! It does not transform boxes, masks or key points, and it reads no ICC profiles.
//!
//! # Features
//!
//! | feature | default | what it brings |
//! | --- | --- | --- |
//! | `turbojpeg` | no | JPEG by libjpeg-turbo, a C library that is built with it (CMake, NASM and a C compiler), or found by pkg-config with `TURBOJPEG_SOURCE=pkg-config`; large photographs that a [`Resize`] comes first for are decoded at a fraction of their size |

/// The floats of 16 bits that a batch can hold, in the version that it uses.
pub use half;
/// The arrays of [`ImageBatch`], in the version that it uses.
pub use ndarray;

mod batch;
mod batch_transform;
mod collate;
mod color;
mod dataset;
mod decode;
mod error;
pub mod functional;
mod image;
mod pool;
mod preview;
mod random;
mod resize;
mod settings;
mod to_tensor;
mod transform;

pub use crate::batch::ImageBatch;
pub use crate::batch_transform::BatchTransform;
pub use crate::collate::{ImageCollate, ImageSlot};
pub use crate::dataset::{ImageDataset, ImageSample};
pub use crate::decode::{IMAGE_EXTENSIONS, decode};
pub use crate::error::ImageError;
pub use crate::image::DecodedImage;
pub use crate::preview::{caption, contact_sheet};
pub use crate::resize::{Interpolation, resize};
pub use crate::settings::{ColorMode, DecodeSettings, IMAGENET_MEAN, IMAGENET_STD, ImageSettings, Layout};
pub use crate::to_tensor::{Element, Normalize, ToTensor};
pub use crate::transform::{
    CenterCrop, ColorJitter, Compose, ErasingValue, Noise, RandAugment, RandomCrop, RandomErasing, RandomGrayscale,
    RandomHorizontalFlip, RandomResizedCrop, RandomRotation, RandomVerticalFlip, Resize, Size, Transform,
    TrivialAugmentWide,
};
