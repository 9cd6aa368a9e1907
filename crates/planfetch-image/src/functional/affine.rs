//! Rotations, shears, translations.

use crate::image::DecodedImage;
use crate::resize::Interpolation;

/// Where a pixel of the result comes from: `x = m[0] x' + m[1] y' + m[2]`, `y = m[3] x' + m[4] y' + m[5]`.
type Matrix = [f64; 6];

fn apply(m: &Matrix, x: f64, y: f64) -> (f64, f64) {
    (m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5])
}

/// Rotates an image by `degrees` counter-clockwise about its middle.
///
/// With `expand`, the result is as large as it takes to hold all of the image; else it has the image's size. What lies
/// outside of the image gets the colour `fill`; a gray image uses its first number. `Bicubic` is done as `Bilinear`.
///
/// # Example
///
/// ```
/// use planfetch_image::{ColorMode, DecodedImage, Interpolation, functional};
///
/// let image = DecodedImage::new(vec![1, 2, 3, 4, 5, 6], 2, 3, ColorMode::Gray).expect("2 x 3 pixels");
/// let turned = functional::rotate(&image, 90.0, Interpolation::Nearest, true, [0; 3]);
/// assert_eq!((turned.height(), turned.width()), (3, 2));
/// assert_eq!(turned.pixels(), [3, 6, 2, 5, 1, 4]);
/// ```
#[must_use]
pub fn rotate(
    image: &DecodedImage,
    degrees: f64,
    interpolation: Interpolation,
    expand: bool,
    fill: [u8; 3],
) -> DecodedImage {
    let (h, w) = (image.height(), image.width());
    let turns = degrees.rem_euclid(360.0) / 90.0;
    if turns == 0.0 {
        return image.clone();
    } else if turns == 2.0 {
        return image.pick([h, w], |y, x| (h - 1 - y, w - 1 - x));
    } else if turns == 1.0 && (expand || h == w) {
        return image.pick([w, h], |y, x| (x, w - 1 - y));
    } else if turns == 3.0 && (expand || h == w) {
        return image.pick([w, h], |y, x| (h - 1 - x, y));
    }
    let angle = -degrees.to_radians();
    // As PIL rounds them.
    let rounded = |value: f64| (value * 1e15).round() / 1e15;
    let (sin, cos) = (rounded(angle.sin()), rounded(angle.cos()));
    let (w, h) = (image.width() as f64, image.height() as f64);
    let mut m = [cos, sin, 0.0, -sin, cos, 0.0];
    let (x, y) = apply(&m, -w / 2.0, -h / 2.0);
    (m[2], m[5]) = (x + w / 2.0, y + h / 2.0);
    let (mut width, mut height) = (image.width(), image.height());
    if expand {
        let corners = [(0.0, 0.0), (w, 0.0), (w, h), (0.0, h)].map(|(x, y)| apply(&m, x, y));
        let extent = |values: [f64; 4]| {
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
            high - values.iter().copied().fold(f64::INFINITY, f64::min).floor()
        };
        let (nw, nh) = (extent(corners.map(|corner| corner.0)), extent(corners.map(|corner| corner.1)));
        (m[2], m[5]) = apply(&m, -(nw - w) / 2.0, -(nh - h) / 2.0);
        (width, height) = (nw as usize, nh as usize);
    }
    transform(image, &m, [height, width], interpolation, fill)
}

/// Shears and translates an image, keeping its size.
///
/// `translate` is how far the image moves right and down, in pixels, `shear` by how many degrees it leans along x and y,
/// and `center` (x, y) the point that a shear leaves in place. What lies outside of the image gets the colour `fill`; a
/// gray image uses its first number. `Bicubic` is done as `Bilinear`.
///
/// # Example
///
/// ```
/// use planfetch_image::{ColorMode, DecodedImage, Interpolation, functional};
///
/// let image = DecodedImage::new(vec![1, 2, 3, 4, 5, 6], 2, 3, ColorMode::Gray).expect("2 x 3 pixels");
/// let moved = functional::affine(&image, [1.0, 0.0], [0.0, 0.0], [0.0, 0.0], Interpolation::Nearest, [9; 3]);
/// assert_eq!(moved.pixels(), [9, 1, 2, 9, 4, 5]);
/// ```
#[must_use]
pub fn affine(
    image: &DecodedImage,
    translate: [f64; 2],
    shear: [f64; 2],
    center: [f64; 2],
    interpolation: Interpolation,
    fill: [u8; 3],
) -> DecodedImage {
    let [sx, sy] = shear.map(f64::to_radians);
    let [tx, ty] = translate;
    let [cx, cy] = center;
    // torchvision's matrix without rotation and scale, inverted.
    let (a, b) = (1.0, -sx.tan());
    let (c, d) = (-sy.tan(), sy.tan() * sx.tan() + 1.0);
    let mut m = [d, -b, 0.0, -c, a, 0.0];
    let (x, y) = apply(&m, -cx - tx, -cy - ty);
    (m[2], m[5]) = (x + cx, y + cy);
    transform(image, &m, [image.height(), image.width()], interpolation, fill)
}

fn transform(
    image: &DecodedImage,
    m: &Matrix,
    [height, width]: [usize; 2],
    interpolation: Interpolation,
    fill: [u8; 3],
) -> DecodedImage {
    let channels = image.color().channels();
    let mut out = DecodedImage::uninit(height, width, image.color());
    let stride = out.stride().max(1);
    let rows = out.pixels_mut().chunks_exact_mut(stride).enumerate();
    match interpolation {
        Interpolation::Nearest => {
            // In 16.16 fixed point, as PIL has it. A shear near 90 degrees leads beyond any number; that is outside.
            let fix = |value: f64| (value * 65_536.0 + 0.5).floor() as i64;
            let [a, b, d, e] = [fix(m[0]), fix(m[1]), fix(m[3]), fix(m[4])];
            let (x0, y0) = apply(m, 0.5, 0.5);
            let (x0, y0) = (fix(x0), fix(y0));
            let along = |start: i64, step: i64, n: usize| start.saturating_add(step.saturating_mul(n as i64));
            for (y, row) in rows {
                let (mut xx, mut yy) = (along(x0, b, y), along(y0, e, y));
                for pixel in row.chunks_exact_mut(channels) {
                    let inside = usize::try_from(xx >> 16).ok().zip(usize::try_from(yy >> 16).ok());
                    let inside = inside.filter(|&(x, y)| x < image.width() && y < image.height());
                    pixel.copy_from_slice(inside.map_or(&fill[..channels], |(x, y)| image.pixel(y, x)));
                    xx = xx.saturating_add(a);
                    yy = yy.saturating_add(d);
                }
            }
        }
        Interpolation::Bilinear | Interpolation::Bicubic => {
            for (y, row) in rows {
                for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
                    let (x, y) = apply(m, x as f64 + 0.5, y as f64 + 0.5);
                    let is_inside = 0.0 <= x && x < image.width() as f64 && 0.0 <= y && y < image.height() as f64;
                    if is_inside {
                        bilinear(image, x - 0.5, y - 0.5, pixel)
                    } else {
                        pixel.copy_from_slice(&fill[..channels])
                    }
                }
            }
        }
    }
    out
}

/// Writes the mean of the four pixels about a point, weighted by how near they are.
fn bilinear(image: &DecodedImage, x: f64, y: f64, out: &mut [u8]) {
    let axis = |at: f64, len: usize| {
        let low = at.floor();
        let clip = |i: f64| i.clamp(0.0, (len - 1) as f64) as usize;
        (clip(low), clip(low + 1.0), at - low)
    };
    let (x0, x1, dx) = axis(x, image.width());
    let (y0, y1, dy) = axis(y, image.height());
    let corners = [(y0, x0), (y0, x1), (y1, x0), (y1, x1)].map(|(y, x)| image.pixel(y, x));
    for (channel, value) in out.iter_mut().enumerate() {
        let [a, b, c, d] = corners.map(|pixel| f64::from(pixel[channel]));
        let (above, below) = (a + (b - a) * dx, c + (d - c) * dx);
        // OK because a mean of bytes is a byte.
        *value = (above + (below - above) * dy) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ColorMode;

    #[test]
    fn what_leads_beyond_any_number_is_outside() {
        let image = DecodedImage::new(vec![7; 12], 4, 3, ColorMode::Gray).unwrap();
        for far in [90.0, -90.0, 89.999_999_999, f64::NAN, f64::INFINITY, 1e300] {
            for shear in [[far, 0.0], [0.0, far], [far, far]] {
                for interpolation in [Interpolation::Nearest, Interpolation::Bilinear] {
                    let out = affine(&image, [0.0; 2], shear, [0.0; 2], interpolation, [9; 3]);
                    assert!(out.pixels().iter().all(|&pixel| pixel == 7 || pixel == 9), "{shear:?}");
                    let out = affine(&image, shear, [0.0; 2], [0.0; 2], interpolation, [9; 3]);
                    assert!(out.pixels().iter().all(|&pixel| pixel == 7 || pixel == 9), "moved by {shear:?}");
                }
            }
        }
    }
}
