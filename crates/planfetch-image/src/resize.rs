//! Images of another size.

use std::cell::Cell;

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use crate::decode::DecodedImage;
use crate::error::ImageError;
use crate::settings::ColorMode;

thread_local! {
    /// Holds the resizer's tables and intermediate rows, which are the same for images of the same size.
    static RESIZER: Cell<Resizer> = Cell::new(Resizer::new());
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
    if (image.height(), image.width()) == (height, width) {
        return Ok(image);
    }
    let (from, to) = ([image.height(), image.width()], [height, width]);
    let failed = |problem: String| ImageError::Resize { from, to, problem };
    let side = |n: usize| match u32::try_from(n) {
        Ok(n) if 0 < n => Ok(n),
        _ => Err(failed(format!("a side of {n} pixels"))),
    };
    let pixel_type = match image.color() {
        ColorMode::Rgb => PixelType::U8x3,
        ColorMode::Gray => PixelType::U8,
    };
    let source = ImageRef::new(side(image.width())?, side(image.height())?, image.pixels(), pixel_type)
        .map_err(|error| failed(error.to_string()))?;
    let mut target = Image::new(side(width)?, side(height)?, pixel_type);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    // Taken out and not borrowed: the library may run another sample on this thread.
    let mut resizer = RESIZER.take();
    let resized = resizer.resize(&source, &mut target, &options);
    RESIZER.set(resizer);
    resized.map_err(|error| failed(error.to_string()))?;
    DecodedImage::new(target.into_vec(), height, width, image.color())
        .ok_or_else(|| failed("the resizer returned another number of pixels".into()))
}
