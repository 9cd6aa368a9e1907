//! Flips and crops.

use crate::image::DecodedImage;

/// Mirrors an image left to right.
pub fn horizontal_flip(image: &mut DecodedImage) {
    let stride = image.stride().max(1);
    match image.color().channels() {
        1 => image.pixels_mut().chunks_exact_mut(stride).for_each(<[u8]>::reverse),
        _ => {
            for row in image.pixels_mut().chunks_exact_mut(stride) {
                let (pixels, _) = row.as_chunks_mut::<3>();
                pixels.reverse();
            }
        }
    }
}

/// Mirrors an image top to bottom.
pub fn vertical_flip(image: &mut DecodedImage) {
    let (height, stride) = (image.height(), image.stride());
    let (top, bottom) = image.pixels_mut().split_at_mut(height / 2 * stride);
    let stride = stride.max(1);
    for (above, below) in top.chunks_exact_mut(stride).zip(bottom.chunks_exact_mut(stride).rev()) {
        above.swap_with_slice(below);
    }
}

/// Returns the `height` by `width` pixels at row `top` and column `left`, either of which may be negative. What lies
/// outside of the image gets the colour `fill`; a gray image uses its first number.
///
/// # Panics
///
/// When the number of bytes does not fit in `usize`.
///
/// # Example
///
/// ```
/// use planfetch_image::{ColorMode, DecodedImage, functional};
///
/// let image = DecodedImage::new(vec![1, 2, 3, 4], 2, 2, ColorMode::Gray).expect("2 x 2 pixels");
/// assert_eq!(functional::crop(&image, 1, -1, 1, 3, [9; 3]).pixels(), [9, 3, 4]);
/// ```
#[must_use]
pub fn crop(image: &DecodedImage, top: i64, left: i64, height: usize, width: usize, fill: [u8; 3]) -> DecodedImage {
    let (bottom, right) = (top.saturating_add_unsigned(height as u64), left.saturating_add_unsigned(width as u64));
    if let (Ok(inner_top), Ok(inner_left)) = (usize::try_from(top), usize::try_from(left))
        && bottom <= image.height() as i64
        && right <= image.width() as i64
    {
        return image.crop(inner_top, inner_left, height, width);
    }
    let channels = image.color().channels();
    let mut cropped = DecodedImage::uninit(height, width, image.color());
    cropped.pixels_mut().chunks_exact_mut(channels).for_each(|pixel| pixel.copy_from_slice(&fill[..channels]));
    // Columns and rows of the image that show.
    let columns = left.clamp(0, image.width() as i64) as usize..right.clamp(0, image.width() as i64) as usize;
    let rows = top.clamp(0, image.height() as i64) as usize..bottom.clamp(0, image.height() as i64) as usize;
    let (stride, cropped_stride) = (image.stride(), cropped.stride());
    for row in rows {
        let source =
            &image.pixels()[row * stride..][columns.start * channels..columns.end.max(columns.start) * channels];
        // OK because the row and the column lie in the crop.
        let at =
            (row as i64 - top) as usize * cropped_stride + (columns.start as i64 - left).max(0) as usize * channels;
        if !source.is_empty() {
            cropped.pixels_mut()[at..at + source.len()].copy_from_slice(source);
        }
    }
    cropped
}

/// Returns the middle `height` by `width` pixels. Where the image is smaller, it is surrounded by black.
///
/// # Panics
///
/// When the number of bytes does not fit in `usize`.
#[must_use]
pub fn center_crop(image: &DecodedImage, height: usize, width: usize) -> DecodedImage {
    let start = |size: usize, cropped: usize| {
        if cropped <= size {
            ((size - cropped) as f64 / 2.0).round_ties_even() as i64
        } else {
            -(((cropped - size) / 2) as i64)
        }
    };
    crop(image, start(image.height(), height), start(image.width(), width), height, width, [0; 3])
}
