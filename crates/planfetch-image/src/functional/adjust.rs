//! Brightness, contrast, saturation, hue, sharpness.

use super::look_up;
use crate::color::luma;
use crate::image::DecodedImage;
use crate::settings::ColorMode;

/// `degenerate + factor * (value - degenerate)`, cut to 0..=255, its fraction cut off: PIL's `Image.blend`.
fn blend(degenerate: u8, value: u8, factor: f32) -> u8 {
    let (degenerate, value) = (f32::from(degenerate), f32::from(value));
    // OK because a conversion from a float to an integer saturates and cuts off the fraction.
    (degenerate + factor * (value - degenerate)) as u8
}

/// Multiplies each value by `factor`: 0 gives black, 1 the image.
pub fn adjust_brightness(image: &mut DecodedImage, factor: f64) {
    let table = std::array::from_fn(|value| blend(0, value as u8, factor as f32));
    look_up(image, &table);
}

/// Moves each value away from the mean luma of the image: 0 gives that gray, 1 the image.
pub fn adjust_contrast(image: &mut DecodedImage, factor: f64) {
    let pixels = image.pixels();
    if pixels.is_empty() {
        return;
    }
    let sum: u64 = match image.color() {
        ColorMode::Gray => pixels.iter().map(|&value| u64::from(value)).sum(),
        ColorMode::Rgb => pixels.chunks_exact(3).map(|p| u64::from(luma([p[0], p[1], p[2]]))).sum(),
    };
    let n = (pixels.len() / image.color().channels()) as u64;
    // Rounded. OK because a mean of bytes is a byte.
    let mean = ((2 * sum + n) / (2 * n)) as u8;
    let table = std::array::from_fn(|value| blend(mean, value as u8, factor as f32));
    look_up(image, &table);
}

/// Moves each pixel away from its own luma: 0 gives a gray image, 1 the image. A gray image stays as it is.
pub fn adjust_saturation(image: &mut DecodedImage, factor: f64) {
    if image.color() == ColorMode::Gray {
        return;
    }
    let factor = factor as f32;
    for pixel in image.pixels_mut().chunks_exact_mut(3) {
        let gray = luma([pixel[0], pixel[1], pixel[2]]);
        pixel.iter_mut().for_each(|value| *value = blend(gray, *value, factor));
    }
}

/// Turns each pixel's hue by `shift` of a full circle, which is taken modulo 1. A gray image stays as it is.
pub fn adjust_hue(image: &mut DecodedImage, shift: f64) {
    if image.color() == ColorMode::Gray {
        return;
    }
    let sixths = 6.0 * shift.rem_euclid(1.0) as f32;
    for pixel in image.pixels_mut().chunks_exact_mut(3) {
        pixel.copy_from_slice(&turn_hue([pixel[0], pixel[1], pixel[2]], sixths));
    }
}

/// Turns the hue of a pixel by so many sixths of a circle, in 0..6: to HSV and back, with what cancels left out.
fn turn_hue([r, g, b]: [u8; 3], sixths: f32) -> [u8; 3] {
    let (max, min) = (r.max(g).max(b), r.min(g).min(b));
    if max == min {
        return [r, g, b];
    }
    let [r, g, b] = [r, g, b].map(f32::from);
    let (high, chroma) = (f32::from(max), f32::from(max - min));
    let own = if r == high {
        (g - b) / chroma
    } else if g == high {
        2.0 + (b - r) / chroma
    } else {
        4.0 + (r - g) / chroma
    };
    // In -1..11 before, in 0..6 behind.
    let mut hue = own + sixths;
    if hue < 0.0 {
        hue += 6.0;
    } else if 6.0 <= hue {
        hue -= 6.0;
    }
    // OK because a conversion from a float to an integer cuts off the fraction. Bytes as torchvision scales them.
    let sector = hue as u8;
    let part = chroma * (hue - f32::from(sector));
    let byte = |value: f32| (value * ((256.0 - 1e-3) / 255.0)) as u8;
    let (falling, rising) = (byte(high - part), byte(high - (chroma - part)));
    match sector {
        0 => [max, rising, min],
        1 => [falling, max, min],
        2 => [min, max, rising],
        3 => [min, falling, max],
        4 => [rising, min, max],
        5 => [max, min, falling],
        // A hue that was rounded to a full circle.
        _ => [max, min, min],
    }
}

/// Moves each pixel away from the mean of its neighbourhood: 0 gives a smoothed image, 1 the image, 2 a sharpened one.
///
/// The neighbourhood is 3 by 3 pixels, the middle weighted five times. The outermost rows and columns stay as they are.
pub fn adjust_sharpness(image: &mut DecodedImage, factor: f64) {
    let (height, width, channels) = (image.height(), image.width(), image.color().channels());
    if height < 3 || width < 3 {
        return;
    }
    let factor = factor as f32;
    let source = image.clone();
    let source = source.pixels();
    let stride = width * channels;
    let inner = image.pixels_mut().chunks_exact_mut(stride).enumerate().take(height - 1).skip(1);
    for (y, row) in inner {
        let above = &source[(y - 1) * stride..][..stride];
        let same = &source[y * stride..][..stride];
        let below = &source[(y + 1) * stride..][..stride];
        for i in channels..stride - channels {
            let column = |i: usize| u32::from(above[i]) + u32::from(same[i]) + u32::from(below[i]);
            let sum = column(i - channels) + column(i) + column(i + channels) + 4 * u32::from(same[i]);
            // Divided by 13 and rounded. OK because a mean of bytes is a byte.
            let smooth = ((2 * sum + 13) / 26) as u8;
            row[i] = blend(smooth, same[i], factor);
        }
    }
}

/// Gives each pixel of an RGB image its luma (ITU-R BT.601) in all three channels. A gray image stays as it is.
pub fn rgb_to_grayscale(image: &mut DecodedImage) {
    if image.color() == ColorMode::Rgb {
        for pixel in image.pixels_mut().chunks_exact_mut(3) {
            let gray = luma([pixel[0], pixel[1], pixel[2]]);
            pixel.fill(gray);
        }
    }
}
