//! From the bytes of a file to pixels.

mod formats;
mod gif;
mod jpeg;
mod orient;
#[cfg(feature = "turbojpeg")]
mod turbo;

use image::ImageFormat;

use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::settings::DecodeSettings;
use crate::transform::Resize;

/// The extensions that files have which [`decode`] takes, without the dot, to tell images from other files by: `jpg`,
/// `jpeg`, `png`, `webp`, `gif`, `bmp`, `tif`, `tiff`.
pub const IMAGE_EXTENSIONS: [&str; 8] = ["jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff"];

/// Decodes the bytes of a JPEG, PNG, WebP, GIF, BMP or TIFF file; the first frame of an animation.
///
/// The format is told by the content. Conversions are those of Pillow's `ImageOps.exif_transpose` and `convert("RGB")`
/// (or `convert("L")`), but for samples of 16 bits, which keep their high byte where Pillow cuts off what is above 255.
///
/// # Errors
///
/// [`ImageError`] when the bytes are of another format, damaged or cut short, or claim more pixels than the settings
/// allow; that is checked before memory for them is taken.
///
/// # Example
///
/// ```
/// use planfetch_image::{DecodeSettings, decode};
///
/// let error = decode(b"<html>404</html>", &DecodeSettings::default()).expect_err("this is a web page");
/// assert!(error.to_string().contains("it begins with \"<html>404</html>\""));
/// ```
pub fn decode(bytes: &[u8], settings: &DecodeSettings) -> Result<DecodedImage, ImageError> {
    decode_for(bytes, settings, None)
}

/// Decodes a file that `resize` will be applied to first. It may have been applied already when the image comes out: with
/// the feature `turbojpeg`, a large JPEG file is decoded at a fraction of its size.
pub(crate) fn decode_for(
    bytes: &[u8],
    settings: &DecodeSettings,
    resize: Option<&Resize>,
) -> Result<DecodedImage, ImageError> {
    if bytes.is_empty() {
        return Err(ImageError::Empty);
    }
    check_file_len(bytes.len() as u64, settings)?;
    let format = match image::guess_format(bytes) {
        Ok(ImageFormat::Jpeg) => return jpeg::decode(bytes, settings, resize),
        Ok(ImageFormat::Gif) => return gif::decode(bytes, settings),
        Ok(format) => format,
        Err(_) => return Err(ImageError::Format { beginning: beginning(bytes) }),
    };
    match format {
        ImageFormat::Png | ImageFormat::WebP | ImageFormat::Bmp | ImageFormat::Tiff => {
            formats::decode(bytes, format, settings)
        }
        _ => Err(ImageError::Format { beginning: beginning(bytes) }),
    }
}

/// Checks the number of bytes of a file, so that it need not be read.
pub(crate) fn check_file_len(len: u64, settings: &DecodeSettings) -> Result<(), ImageError> {
    let max_file_bytes = settings.max_file_bytes;
    if len <= max_file_bytes { Ok(()) } else { Err(ImageError::FileSize { len, max_file_bytes }) }
}

fn check_size(width: u64, height: u64, settings: &DecodeSettings) -> Result<(), ImageError> {
    let max_pixels = settings.max_pixels;
    let pixels = width.saturating_mul(height);
    // A side that does not fit in 32 bits fits no decoder and no resizer.
    let fits = width.max(height) <= u64::from(u32::MAX);
    if fits && (1..=max_pixels).contains(&pixels) {
        Ok(())
    } else {
        Err(ImageError::Size { width, height, max_pixels })
    }
}

/// Returns what a file begins with, for people: web pages and error messages are often saved as images.
fn beginning(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(24)];
    match std::str::from_utf8(start) {
        Ok(text) => format!("{text:?}"),
        Err(_) => format!("the bytes {:02x?}", &start[..start.len().min(8)]),
    }
}
