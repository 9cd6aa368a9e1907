//! JPEG files, by zune-jpeg.

use std::fmt::Display;

use image::metadata::Orientation;
use memchr::memmem;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::check_size;
use super::orient::{of_xmp, turn};
use crate::color::luma_of;
use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::pool::Pixels;
use crate::settings::{ColorMode, DecodeSettings};
use crate::transform::Resize;

pub(super) fn decode(
    bytes: &[u8],
    settings: &DecodeSettings,
    resize: Option<&Resize>,
) -> Result<DecodedImage, ImageError> {
    // Strict, so that a file cut short is an error and not an image that is gray from some row on.
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(failed)?;
    let info = decoder.info().ok_or_else(|| failed("it has no frame header"))?;
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    check_size(width as u64, height as u64, settings)?;
    if !has_end(bytes) {
        return Err(failed("it is cut short: there is no end-of-image marker behind its pixels"));
    }
    let orientation = decoder
        .exif()
        .and_then(|exif| Orientation::from_exif_chunk(exif))
        .or_else(|| decoder.xmp().and_then(|xmp| of_xmp(xmp)));
    let orientation = orientation.filter(|_| settings.apply_orientation).unwrap_or(Orientation::NoTransforms);
    // Of these two the decoder gives the brightness as it is stored; of all others, gray is made of RGB.
    let has_luma = matches!(decoder.input_colorspace(), Some(ColorSpace::YCbCr | ColorSpace::Luma));
    #[cfg(feature = "turbojpeg")]
    if has_luma {
        return super::turbo::decode(bytes, [height, width], orientation, settings.color, resize);
    }
    #[cfg(not(feature = "turbojpeg"))]
    let _ = resize;
    let is_luma = settings.color == ColorMode::Gray && has_luma;
    if is_luma {
        decoder.set_options(options.jpeg_set_out_colorspace(ColorSpace::Luma));
    }
    let len = decoder.output_buffer_size().ok_or_else(|| failed("it has no frame header"))?;
    let mut pixels = Pixels::zeroed(len);
    decoder.decode_into(&mut pixels).map_err(failed)?;
    if settings.color == ColorMode::Gray && !is_luma {
        pixels = luma_of(&pixels);
    }
    let image = DecodedImage::from_pixels(pixels, height, width, settings.color)
        .ok_or_else(|| failed("it has another number of pixels than its header says"))?;
    Ok(turn(image, orientation))
}

pub(super) fn failed(problem: impl Display) -> ImageError {
    ImageError::Decode { format: "JPEG", problem: problem.to_string().trim().into() }
}

/// Returns whether an end-of-image marker (`FF D9`) lies behind the first scan's beginning.
///
/// The decoder takes a file that lacks its last bytes for whole: it reads zeros in their place.
fn has_end(bytes: &[u8]) -> bool {
    let mut at = 2;
    // Over the segments, each of which says how long it is, to the start of scan (`FF DA`). So the end marker of a
    // thumbnail is none.
    while let Some(&[0xff, marker]) = bytes.get(at..at + 2) {
        at += match marker {
            0xda => break,
            // Fill bytes, and markers without a segment.
            0xff => 1,
            0x01 | 0xd0..=0xd8 => 2,
            _ => match bytes.get(at + 2..at + 4) {
                Some(&[high, low]) => 2 + usize::from(u16::from_be_bytes([high, low])),
                _ => return false,
            },
        };
    }
    bytes.get(at..).is_some_and(|scans| memmem::find(scans, &[0xff, 0xd9]).is_some())
}
