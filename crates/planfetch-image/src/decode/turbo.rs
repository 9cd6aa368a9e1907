//! JPEG files, by libjpeg-turbo: gray and YCbCr, which is what photographs are.

use std::cell::Cell;

use image::metadata::Orientation;
use turbojpeg::{Decompressor, Image, PixelFormat, ScalingFactor};

use super::jpeg::failed;
use super::orient::turn;
use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::resize::{Region, resize_extent};
use crate::settings::ColorMode;
use crate::transform::{Interpolation, Resize};

thread_local! {
    static DECOMPRESSOR: Cell<Option<Decompressor>> = const { Cell::new(None) };
}

/// A progressive file with more scans is refused: each costs as much as a whole image.
const MAX_SCANS: u32 = 100;

/// Decodes a file of some size (height, width), as it is stored.
///
/// Where `resize` makes the image smaller than a half, a quarter or an eighth, the decoder gives it at that fraction,
/// which costs less, and it is resized here, to the size that `resize` gives the whole image.
pub(super) fn decode(
    bytes: &[u8],
    stored: [usize; 2],
    orientation: Orientation,
    color: ColorMode,
    resize: Option<&Resize>,
) -> Result<DecodedImage, ImageError> {
    let is_turned = matches!(
        orientation,
        Orientation::Rotate90 | Orientation::Rotate270 | Orientation::Rotate90FlipH | Orientation::Rotate270FlipH
    );
    let upright = if is_turned { [stored[1], stored[0]] } else { stored };
    // With a longest side, resizing twice could give another size than resizing once; and the nearest pixel is one of the
    // whole image, not a mean of several.
    let target = resize
        .filter(|resize| resize.max_size.is_none() && resize.interpolation != Interpolation::Nearest)
        .map(|resize| (resize, resize.target(upright)));
    let fractions = [ScalingFactor::ONE_EIGHTH, ScalingFactor::ONE_QUARTER, ScalingFactor::ONE_HALF];
    let fits = |factor: &ScalingFactor, target: [usize; 2]| {
        upright.iter().zip(target).all(|(&side, target)| target <= factor.scale(side))
    };
    let fraction = target.and_then(|(_, target)| fractions.into_iter().find(|factor| fits(factor, target)));
    let factor = fraction.unwrap_or(ScalingFactor::ONE);

    let mut decompressor = match DECOMPRESSOR.take() {
        Some(decompressor) => decompressor,
        None => Decompressor::new().map_err(failed)?,
    };
    decompressor.set_scan_limit(MAX_SCANS).map_err(failed)?;
    decompressor.set_scaling_factor(factor).map_err(failed)?;
    let mut image = DecodedImage::uninit(factor.scale(stored[0]), factor.scale(stored[1]), color);
    image.pixels_mut().fill(0);
    let format = match color {
        ColorMode::Rgb => PixelFormat::RGB,
        ColorMode::Gray => PixelFormat::GRAY,
    };
    let (height, width, pitch) = (image.height(), image.width(), image.stride());
    let output = Image { pixels: image.pixels_mut(), width, pitch, height, format };
    let done = decompressor.decompress(bytes, output);
    DECOMPRESSOR.set(Some(decompressor));
    done.map_err(failed)?;

    let image = match target.filter(|_| fraction.is_some()) {
        Some((resize, upright)) => {
            // Turned afterwards, when there is less to turn. A side that is no multiple ends within the last pixel.
            let target = if is_turned { [upright[1], upright[0]] } else { upright };
            let extent = stored.map(|side| side as f64 * factor.num() as f64 / factor.denom() as f64);
            let whole = Region::whole(&image);
            resize_extent(image, whole, extent, target, resize.interpolation)?
        }
        None => image,
    };
    Ok(turn(image, orientation))
}
