//! Arithmetic on single pixels.

use crate::pool::Pixels;

/// ITU-R BT.601 luma in 16-bit fixed point, rounded, as Pillow's `convert("L")` has it.
pub(crate) fn luma([r, g, b]: [u8; 3]) -> u8 {
    let sum = 19_595 * u32::from(r) + 38_470 * u32::from(g) + 7_471 * u32::from(b) + 0x8000;
    // OK because the weights add up to 2^16.
    (sum >> 16) as u8
}

/// Returns the luma of each pixel of an RGB image.
pub(crate) fn luma_of(rgb: &[u8]) -> Pixels {
    let mut gray = Pixels::uninit(rgb.len() / 3);
    for (value, pixel) in gray.iter_mut().zip(rgb.chunks_exact(3)) {
        *value = luma([pixel[0], pixel[1], pixel[2]]);
    }
    gray
}

/// Puts a pixel of opacity `alpha` over a background, rounded as by Pillow's `paste` with a mask.
pub(crate) fn blend_over(pixel: &mut [u8; 3], alpha: u8, background: [u8; 3]) {
    for (value, behind) in pixel.iter_mut().zip(background) {
        let sum = u32::from(*value) * u32::from(alpha) + u32::from(behind) * u32::from(255 - alpha) + 128;
        // Division by 255, rounded. OK because the sum is at most 255 * 255 + 128.
        *value = (((sum >> 8) + sum) >> 8) as u8;
    }
}
