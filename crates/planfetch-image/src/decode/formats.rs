//! PNG, WebP, BMP and TIFF files, by the image crate.

use std::io::Cursor;

use image::metadata::Orientation;
use image::{ColorType, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::check_size;
use super::orient::{of_xmp, turn};
use crate::color::{blend_over, luma};
use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::pool::Pixels;
use crate::settings::{ColorMode, DecodeSettings};

/// What the largest colour type that is accepted takes.
const MAX_BYTES_PER_PIXEL: u64 = 8;

pub(super) fn decode(bytes: &[u8], format: ImageFormat, settings: &DecodeSettings) -> Result<DecodedImage, ImageError> {
    let name = match format {
        ImageFormat::Png => "PNG",
        ImageFormat::WebP => "WebP",
        ImageFormat::Bmp => "BMP",
        _ => "TIFF",
    };
    let failed = |problem: String| ImageError::Decode { format: name, problem: problem.trim().into() };
    if format == ImageFormat::WebP && !is_whole_riff(bytes) {
        return Err(failed("it is cut short: it or a part of it says that it is longer".into()));
    }
    let reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut decoder = reader.into_decoder().map_err(|error| failed(error.to_string()))?;
    let (width, height) = decoder.dimensions();
    check_size(u64::from(width), u64::from(height), settings)?;
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(settings.max_pixels.saturating_mul(MAX_BYTES_PER_PIXEL).max(1 << 20));
    decoder.set_limits(limits).map_err(|error| failed(error.to_string()))?;
    let exif = decoder.exif_metadata().ok().flatten().and_then(|exif| Orientation::from_exif_chunk(&exif));
    let orientation = exif
        // A TIFF has a tag of its own for it.
        .or_else(|| decoder.orientation().ok().filter(|&orientation| orientation != Orientation::NoTransforms))
        .or_else(|| decoder.xmp_metadata().ok().flatten().and_then(|xmp| of_xmp(&xmp)))
        .unwrap_or(Orientation::NoTransforms);
    let color_type = decoder.color_type();
    let len = usize::try_from(decoder.total_bytes()).map_err(|_| failed("it does not fit in memory".into()))?;
    let layout = Layout::of(color_type).ok_or_else(|| failed(format!("pixels of {color_type:?} are not supported")))?;
    let mut samples = Pixels::zeroed(len);
    decoder.read_image(&mut samples).map_err(|error| failed(error.to_string()))?;
    let pixels = layout.convert(samples, settings);
    let image = DecodedImage::from_pixels(pixels, height as usize, width as usize, settings.color)
        .ok_or_else(|| failed("it has another number of pixels than its header says".into()))?;
    Ok(if settings.apply_orientation { turn(image, orientation) } else { image })
}

/// Returns whether a RIFF file and each of its chunks are as long as they say. The decoder takes memory for a chunk of
/// metadata before it looks, and takes a file for whole that lacks the chunks behind its pixels.
fn is_whole_riff(bytes: &[u8]) -> bool {
    let len_at = |at: usize| {
        let len = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize)
    };
    let Some(end) = len_at(4).and_then(|len| len.checked_add(8)).filter(|&end| end <= bytes.len()) else {
        return false;
    };
    let mut at = 12;
    while at + 8 <= end {
        // The byte that fills up a chunk of odd length may be missing at the end.
        match len_at(at + 4).and_then(|len| len.checked_add(at + 8)) {
            Some(chunk_end) if chunk_end <= end => at = chunk_end + chunk_end % 2,
            _ => return false,
        }
    }
    true
}

/// How the samples of a pixel lie in memory.
#[derive(Clone, Copy)]
struct Layout {
    /// 1 for gray, 3 for RGB.
    colors: usize,
    has_alpha: bool,
    /// 1, or 2 in the order of the machine.
    bytes_per_sample: usize,
}

impl Layout {
    fn of(color_type: ColorType) -> Option<Self> {
        let (colors, has_alpha, bytes_per_sample) = match color_type {
            ColorType::L8 => (1, false, 1),
            ColorType::La8 => (1, true, 1),
            ColorType::Rgb8 => (3, false, 1),
            ColorType::Rgba8 => (3, true, 1),
            ColorType::L16 => (1, false, 2),
            ColorType::La16 => (1, true, 2),
            ColorType::Rgb16 => (3, false, 2),
            ColorType::Rgba16 => (3, true, 2),
            _ => return None,
        };
        Some(Self { colors, has_alpha, bytes_per_sample })
    }

    fn convert(self, samples: Pixels, settings: &DecodeSettings) -> Pixels {
        let stored = Self { colors: settings.color.channels(), has_alpha: false, bytes_per_sample: 1 };
        let is_same = self.colors == stored.colors && !self.has_alpha && self.bytes_per_sample == 1;
        if is_same {
            return samples;
        }
        let stride = (self.colors + usize::from(self.has_alpha)) * self.bytes_per_sample;
        let mut pixels = Pixels::uninit(samples.len() / stride * stored.colors);
        // Within a sample of 16 bits, which byte is the high one.
        let high = if cfg!(target_endian = "big") { 0 } else { self.bytes_per_sample - 1 };
        let sample = |pixel: &[u8], i: usize| pixel[i * self.bytes_per_sample + high];
        let background = settings.background.filter(|_| self.has_alpha);
        let sources = samples.chunks_exact(stride);
        for (pixel, source) in pixels.chunks_exact_mut(stored.colors).zip(sources) {
            let mut rgb = if self.colors == 1 { [sample(source, 0); 3] } else { [0, 1, 2].map(|i| sample(source, i)) };
            if let Some(background) = background {
                blend_over(&mut rgb, sample(source, self.colors), background);
            }
            match settings.color {
                ColorMode::Rgb => pixel.copy_from_slice(&rgb),
                // Gray stays as it is.
                ColorMode::Gray if self.colors == 1 && background.is_none() => pixel[0] = rgb[0],
                ColorMode::Gray => pixel[0] = luma(rgb),
            }
        }
        pixels
    }
}
