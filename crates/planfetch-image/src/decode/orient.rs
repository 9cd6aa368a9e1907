//! Turning an image upright.

use image::metadata::Orientation;

use memchr::memmem;

use crate::image::DecodedImage;

/// Returns the orientation that a packet of XMP names, which counts where there is no EXIF one, as it does for Pillow.
pub(super) fn of_xmp(packet: &[u8]) -> Option<Orientation> {
    const NAME: &[u8] = b"tiff:Orientation";
    let values = memmem::find_iter(packet, NAME).map(|at| &packet[at + NAME.len()..]);
    // An attribute, or an element.
    let mut digits = values.filter_map(|value| value.strip_prefix(b"=\"").or_else(|| value.strip_prefix(b">")));
    let &digit = digits.find_map(|value| value.first().filter(|digit| digit.is_ascii_digit()))?;
    Orientation::from_exif(digit - b'0')
}

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
