//! The first frame of GIF files.

use std::num::NonZeroU64;

use gif::{ColorOutput, DecodeOptions, MemoryLimit};

use super::check_size;
use crate::color::{blend_over, luma};
use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::pool::Pixels;
use crate::settings::{ColorMode, DecodeSettings};

/// Around a frame that is smaller than the canvas, Pillow has the transparent colour, or the first of the palette where
/// nothing is transparent; a frame that ends beyond the canvas makes it larger. Here too.
pub(super) fn decode(bytes: &[u8], settings: &DecodeSettings) -> Result<DecodedImage, ImageError> {
    let failed = |problem: String| ImageError::Decode { format: "GIF", problem: problem.trim().into() };
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    let limit = NonZeroU64::new(settings.max_pixels.max(1 << 16)).expect("it is at least 2^16");
    options.set_memory_limit(MemoryLimit::Bytes(limit));
    let mut decoder = options.read_info(bytes).map_err(|error| failed(error.to_string()))?;
    let (mut width, mut height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    check_size(width as u64, height as u64, settings)?;
    let frame = decoder.next_frame_info().map_err(|error| failed(error.to_string()))?;
    let frame = frame.ok_or_else(|| failed("it has no frame".into()))?;
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let (frame_width, frame_height) = (usize::from(frame.width), usize::from(frame.height));
    let transparent = frame.transparent;
    (width, height) = (width.max(left + frame_width), height.max(top + frame_height));
    check_size(width as u64, height as u64, settings)?;
    let mut indices = Pixels::zeroed(frame_width * frame_height);
    decoder.read_into_buffer(&mut indices).map_err(|error| failed(error.to_string()))?;

    let palette = decoder.palette().map_err(|error| failed(error.to_string()))?;
    let table: [[u8; 3]; 256] = std::array::from_fn(|index| {
        // Behind the palette's end everything is black, as in Pillow.
        let mut rgb = palette.chunks_exact(3).nth(index).map_or([0; 3], |color| [color[0], color[1], color[2]]);
        if let Some(background) = settings.background
            && transparent.map(usize::from) == Some(index)
        {
            blend_over(&mut rgb, 0, background);
        }
        rgb
    });
    let colors = settings.color.channels();
    let color_of = |index: u8| {
        let rgb = table[usize::from(index)];
        if settings.color == ColorMode::Gray { [luma(rgb); 3] } else { rgb }
    };
    let mut image = DecodedImage::uninit(height, width, settings.color);
    let around = color_of(transparent.unwrap_or(0));
    image.pixels_mut().chunks_exact_mut(colors).for_each(|pixel| pixel.copy_from_slice(&around[..colors]));
    let rows = image.pixels_mut().chunks_exact_mut(width * colors).skip(top);
    for (row, source) in rows.zip(indices.chunks_exact(frame_width)) {
        let pixels = row.chunks_exact_mut(colors).skip(left);
        for (pixel, &index) in pixels.zip(source) {
            pixel.copy_from_slice(&color_of(index)[..colors]);
        }
    }
    Ok(image)
}
