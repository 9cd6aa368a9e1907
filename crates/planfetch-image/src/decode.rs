//! From the bytes of a file to pixels.

use std::io::Cursor;

use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use crate::error::ImageError;
use crate::settings::{ColorMode, DecodeSettings};

/// An image in memory: rows from the top, pixels from the left, channels interleaved, 8 bits each.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DecodedImage {
    // Invariant: `height * width * color.channels()` bytes.
    pixels: Vec<u8>,
    height: usize,
    width: usize,
    color: ColorMode,
}

impl DecodedImage {
    /// Makes an image of pixels of shape `[height, width, channels]`, or returns `None` when their number is another.
    #[must_use]
    pub fn new(pixels: Vec<u8>, height: usize, width: usize, color: ColorMode) -> Option<Self> {
        let expected = height.checked_mul(width)?.checked_mul(color.channels())?;
        (pixels.len() == expected).then_some(Self { pixels, height, width, color })
    }

    /// Returns the pixels, of shape `[height, width, channels]`.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns which channels there are.
    #[must_use]
    pub fn color(&self) -> ColorMode {
        self.color
    }

    /// Returns the pixels without a copy.
    #[must_use]
    pub fn into_pixels(self) -> Vec<u8> {
        self.pixels
    }
}

/// Decodes the bytes of a JPEG or PNG file.
///
/// # Errors
///
/// [`ImageError`] when the bytes are of another format, damaged or cut short, or claim more pixels than the settings
/// allow.
pub fn decode(bytes: &[u8], settings: &DecodeSettings) -> Result<DecodedImage, ImageError> {
    if bytes.is_empty() {
        return Err(ImageError::Empty);
    }
    match image::guess_format(bytes) {
        Ok(ImageFormat::Jpeg) => decode_jpeg(bytes, settings),
        Ok(ImageFormat::Png) => decode_png(bytes, settings),
        _ => Err(ImageError::Format { beginning: beginning(bytes) }),
    }
}

fn decode_jpeg(bytes: &[u8], settings: &DecodeSettings) -> Result<DecodedImage, ImageError> {
    let failed = |problem: String| ImageError::Decode { format: "JPEG", problem: problem.trim().into() };
    // Strict, so that a file cut short is an error and not an image that is gray from some row on.
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| failed(error.to_string()))?;
    let info = decoder.info().ok_or_else(|| failed("it has no frame header".into()))?;
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    check_size(width as u64, height as u64, settings)?;
    let orientation = decoder.exif().and_then(|exif| Orientation::from_exif_chunk(exif));
    // Of these two the decoder gives the brightness as it is stored; of all others, gray is made of RGB.
    let has_luma = matches!(decoder.input_colorspace(), Some(ColorSpace::YCbCr | ColorSpace::Luma));
    let is_luma = settings.color == ColorMode::Gray && has_luma;
    if is_luma {
        decoder.set_options(options.jpeg_set_out_colorspace(ColorSpace::Luma));
    }
    let mut pixels = decoder.decode().map_err(|error| failed(error.to_string()))?;
    if settings.color == ColorMode::Gray && !is_luma {
        pixels = pixels.chunks_exact(3).map(|pixel| luma([pixel[0], pixel[1], pixel[2]])).collect();
    }
    let image = DecodedImage::new(pixels, height, width, settings.color)
        .ok_or_else(|| failed("it has another number of pixels than its header says".into()))?;
    turn(image, orientation, settings)
}

fn decode_png(bytes: &[u8], settings: &DecodeSettings) -> Result<DecodedImage, ImageError> {
    let failed = |problem: String| ImageError::Decode { format: "PNG", problem: problem.trim().into() };
    let reader = ImageReader::with_format(Cursor::new(bytes), ImageFormat::Png);
    let mut decoder = reader.into_decoder().map_err(|error| failed(error.to_string()))?;
    let (width, height) = decoder.dimensions();
    check_size(u64::from(width), u64::from(height), settings)?;
    // Eight bytes a pixel is what the largest colour type takes.
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(settings.max_pixels.saturating_mul(8).max(1 << 20));
    decoder.set_limits(limits).map_err(|error| failed(error.to_string()))?;
    let orientation = decoder.orientation().ok();
    let image = DynamicImage::from_decoder(decoder).map_err(|error| failed(error.to_string()))?;
    let pixels = match settings.color {
        ColorMode::Rgb => to_rgb(image),
        ColorMode::Gray => to_gray(image),
    };
    let image = DecodedImage::new(pixels, height as usize, width as usize, settings.color)
        .ok_or_else(|| failed("it has another number of pixels than its header says".into()))?;
    turn(image, orientation, settings)
}

/// Keeps the high byte of 16-bit samples, and drops alpha.
fn to_rgb(image: DynamicImage) -> Vec<u8> {
    match high_bytes(image) {
        DynamicImage::ImageRgb8(image) => image.into_raw(),
        // OK because the conversions of 8-bit images repeat gray and drop alpha, and change no value.
        image => image.into_rgb8().into_raw(),
    }
}

fn to_gray(image: DynamicImage) -> Vec<u8> {
    match high_bytes(image) {
        DynamicImage::ImageLuma8(image) => image.into_raw(),
        DynamicImage::ImageLumaA8(image) => image.pixels().map(|pixel| pixel.0[0]).collect(),
        image => image.into_rgb8().pixels().map(|pixel| luma(pixel.0)).collect(),
    }
}

fn high_bytes(image: DynamicImage) -> DynamicImage {
    fn halve(samples: Vec<u16>) -> Vec<u8> {
        // OK because the shift leaves eight bits.
        samples.into_iter().map(|sample| (sample >> 8) as u8).collect()
    }
    let (width, height) = (image.width(), image.height());
    let same_size = "an image of the same size has the same number of samples";
    match image {
        DynamicImage::ImageLuma16(image) => {
            GrayImage::from_raw(width, height, halve(image.into_raw())).expect(same_size).into()
        }
        DynamicImage::ImageLumaA16(image) => {
            image::GrayAlphaImage::from_raw(width, height, halve(image.into_raw())).expect(same_size).into()
        }
        DynamicImage::ImageRgb16(image) => {
            RgbImage::from_raw(width, height, halve(image.into_raw())).expect(same_size).into()
        }
        DynamicImage::ImageRgba16(image) => {
            image::RgbaImage::from_raw(width, height, halve(image.into_raw())).expect(same_size).into()
        }
        image => image,
    }
}

/// ITU-R BT.601 luma in 16-bit fixed point, rounded, as Pillow's `convert("L")` has it.
fn luma([r, g, b]: [u8; 3]) -> u8 {
    let sum = 19_595 * u32::from(r) + 38_470 * u32::from(g) + 7_471 * u32::from(b) + 0x8000;
    // OK because the weights add up to 2^16.
    (sum >> 16) as u8
}

fn turn(
    image: DecodedImage,
    orientation: Option<Orientation>,
    settings: &DecodeSettings,
) -> Result<DecodedImage, ImageError> {
    let orientation = orientation.unwrap_or(Orientation::NoTransforms);
    if !settings.apply_orientation || orientation == Orientation::NoTransforms {
        return Ok(image);
    }
    let DecodedImage { pixels, height, width, color } = image;
    let (w, h) = (width as u32, height as u32);
    let same_size = "the pixels were counted when the image was made";
    let mut image: DynamicImage = match color {
        ColorMode::Rgb => RgbImage::from_raw(w, h, pixels).expect(same_size).into(),
        ColorMode::Gray => GrayImage::from_raw(w, h, pixels).expect(same_size).into(),
    };
    image.apply_orientation(orientation);
    let (width, height) = (image.width() as usize, image.height() as usize);
    Ok(DecodedImage { pixels: image.into_bytes(), height, width, color })
}

fn check_size(width: u64, height: u64, settings: &DecodeSettings) -> Result<(), ImageError> {
    let max_pixels = settings.max_pixels;
    let pixels = width.saturating_mul(height);
    if (1..=max_pixels).contains(&pixels) { Ok(()) } else { Err(ImageError::Size { width, height, max_pixels }) }
}

/// Returns what a file begins with, for people: web pages and error messages are often saved as images.
fn beginning(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(24)];
    match std::str::from_utf8(start) {
        Ok(text) => format!("{text:?}"),
        Err(_) => format!("the bytes {:02x?}", &start[..start.len().min(8)]),
    }
}
