//! Turning an image upright.

use image::metadata::Orientation;

use crate::image::DecodedImage;

/// Turns an image as its orientation says.
pub(super) fn turn(image: DecodedImage, orientation: Orientation) -> DecodedImage {
    let (h, w) = (image.height(), image.width());
    match orientation {
        Orientation::NoTransforms => image,
        Orientation::FlipHorizontal => image.pick([h, w], |y, x| (y, w - 1 - x)),
        Orientation::Rotate180 => image.pick([h, w], |y, x| (h - 1 - y, w - 1 - x)),
        Orientation::FlipVertical => image.pick([h, w], |y, x| (h - 1 - y, x)),
        Orientation::Rotate90FlipH => image.pick([w, h], |y, x| (x, y)),
        Orientation::Rotate90 => image.pick([w, h], |y, x| (h - 1 - x, y)),
        Orientation::Rotate270FlipH => image.pick([w, h], |y, x| (h - 1 - x, w - 1 - y)),
        Orientation::Rotate270 => image.pick([w, h], |y, x| (x, w - 1 - y)),
    }
}
