//! Images of another size.

use std::cell::Cell;
use std::fmt;

use fast_image_resize::images::{CroppedImage, Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use serde::{Deserialize, Serialize};

use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::settings::ColorMode;

thread_local! {
    /// Holds the resizer's intermediate rows.
    static RESIZER: Cell<Resizer> = Cell::new(Resizer::new());
}

/// How pixels of another size are made, in torchvision's words.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Interpolation {
    /// The pixel that is nearest.
    Nearest,
    /// A weighted mean that falls off linearly. Where an image is resized smaller it is antialiased: its support grows
    /// with the scale, as with torchvision's `antialias=True` and in Pillow.
    #[default]
    Bilinear,
    /// A cubic filter with a = -0.5, antialiased as well. Rotations and shears use `Bilinear` in its place.
    Bicubic,
}

impl fmt::Display for Interpolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nearest => "nearest",
            Self::Bilinear => "bilinear",
            Self::Bicubic => "bicubic",
        })
    }
}

/// A rectangle of an image, in pixels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Region {
    pub(crate) top: usize,
    pub(crate) left: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl Region {
    pub(crate) fn whole(image: &DecodedImage) -> Self {
        Self { top: 0, left: 0, height: image.height(), width: image.width() }
    }
}

/// Resizes an image to `height` by `width` pixels, without keeping its aspect ratio.
///
/// The filter is bilinear with antialiasing: where the image shrinks, its support grows with the scale, as torchvision's
/// `Resize(antialias=True)` and Pillow do. An image that has the size already is returned as it is.
///
/// # Errors
///
/// [`ImageError::Resize`] when a side is 0 or larger than 2^32.
///
/// # Example
///
/// ```
/// use planfetch_image::{ColorMode, DecodedImage, resize};
///
/// let image = DecodedImage::new(vec![7; 4 * 6 * 3], 4, 6, ColorMode::Rgb).expect("4 x 6 pixels of 3 channels");
/// let small = resize(image, 2, 2)?;
/// assert_eq!(small.pixels(), [7; 12]);
/// # Ok::<(), planfetch_image::ImageError>(())
/// ```
pub fn resize(image: DecodedImage, height: usize, width: usize) -> Result<DecodedImage, ImageError> {
    let whole = Region::whole(&image);
    resize_region(image, whole, [height, width], Interpolation::Bilinear)
}

/// Resizes a part of an image to `height` by `width` pixels. What lies around the part has no influence.
pub(crate) fn resize_region(
    image: DecodedImage,
    region: Region,
    [height, width]: [usize; 2],
    interpolation: Interpolation,
) -> Result<DecodedImage, ImageError> {
    if [region.height, region.width] == [height, width] {
        let is_whole = region == Region::whole(&image);
        return Ok(if is_whole { image } else { image.crop(region.top, region.left, height, width) });
    }
    resize_extent(image, region, [region.height as f64, region.width as f64], [height, width], interpolation)
}

/// Resizes the first rows and columns of a part of an image, as many as `extent` (height, width) says, which may end
/// within a pixel.
pub(crate) fn resize_extent(
    image: DecodedImage,
    region: Region,
    extent: [f64; 2],
    [height, width]: [usize; 2],
    interpolation: Interpolation,
) -> Result<DecodedImage, ImageError> {
    let (from, to) = ([region.height, region.width], [height, width]);
    let failed = |problem: String| ImageError::Resize { from, to, problem };
    let side = |n: usize| match u32::try_from(n) {
        Ok(n) if 0 < n => Ok(n),
        _ => Err(failed(format!("a side of {n} pixels"))),
    };
    let pixel_type = match image.color() {
        ColorMode::Rgb => PixelType::U8x3,
        ColorMode::Gray => PixelType::U8,
    };
    let algorithm = match interpolation {
        Interpolation::Nearest => ResizeAlg::Nearest,
        Interpolation::Bilinear => ResizeAlg::Convolution(FilterType::Bilinear),
        Interpolation::Bicubic => ResizeAlg::Convolution(FilterType::CatmullRom),
    };
    let source = ImageRef::new(side(image.width())?, side(image.height())?, image.pixels(), pixel_type)
        .map_err(|error| failed(error.to_string()))?;
    // OK because the region lies in the image, whose sides fit.
    let [top, left] = [region.top as u32, region.left as u32];
    let source = CroppedImage::new(&source, left, top, side(region.width)?, side(region.height)?)
        .map_err(|error| failed(error.to_string()))?;
    let (to_width, to_height) = (side(width)?, side(height)?);
    if height.checked_mul(width).and_then(|n| n.checked_mul(3)).is_none() {
        return Err(failed("it does not fit in memory".into()));
    }
    let mut resized = DecodedImage::uninit(height, width, image.color());
    let mut target = Image::from_slice_u8(to_width, to_height, resized.pixels_mut(), pixel_type)
        .map_err(|error| failed(error.to_string()))?;
    let options = ResizeOptions::new().resize_alg(algorithm).crop(0.0, 0.0, extent[1], extent[0]);
    // Taken out and not borrowed: the library may run another sample on this thread.
    let mut resizer = RESIZER.take();
    let done = resizer.resize(&source, &mut target, &options);
    RESIZER.set(resizer);
    done.map_err(|error| failed(error.to_string()))?;
    Ok(resized)
}
