//! Posterize, solarize, autocontrast, equalize.

use super::look_up;
use crate::image::DecodedImage;

/// Keeps the highest `bits` bits of each value; 8 keep all.
pub fn posterize(image: &mut DecodedImage, bits: u8) {
    // OK because the shift leaves eight bits of the sixteen.
    let mask = (0xff00_u16 >> bits.min(8)) as u8;
    image.pixels_mut().iter_mut().for_each(|value| *value &= mask);
}

/// Inverts each value that is not below `threshold`.
pub fn solarize(image: &mut DecodedImage, threshold: f64) {
    let table = std::array::from_fn(|value| {
        let byte = value as u8;
        if (value as f64) < threshold { byte } else { 255 - byte }
    });
    look_up(image, &table);
}

/// Stretches the values of each channel over 0..=255.
pub fn autocontrast(image: &mut DecodedImage) {
    by_channel(image, |histogram| {
        let low = histogram.iter().position(|&n| 0 < n)?;
        let high = histogram.iter().rposition(|&n| 0 < n)?;
        (low < high).then(|| {
            let scale = 255.0 / (high - low) as f64;
            let offset = -(low as f64) * scale;
            std::array::from_fn(|value| (value as f64 * scale + offset) as u8)
        })
    });
}

/// Makes the values of each channel about equally frequent.
pub fn equalize(image: &mut DecodedImage) {
    by_channel(image, |histogram| {
        let total: usize = histogram.iter().sum();
        let last = *histogram.iter().rev().find(|&&n| 0 < n)?;
        let step = (total - last) / 255;
        (0 < step).then(|| {
            let mut below = step / 2;
            let mut table = [0; 256];
            for (new, n) in table.iter_mut().zip(histogram) {
                // OK because it is at most 255.
                *new = (below / step).min(255) as u8;
                below += n;
            }
            table
        })
    });
}

/// Replaces the values of each channel by a table that is made of their histogram, where there is one.
fn by_channel(image: &mut DecodedImage, table: impl Fn(&[usize; 256]) -> Option<[u8; 256]>) {
    let channels = image.color().channels();
    for channel in 0..channels {
        let mut histogram = [0; 256];
        image.pixels().iter().skip(channel).step_by(channels).for_each(|&value| histogram[usize::from(value)] += 1);
        if let Some(table) = table(&histogram) {
            let values = image.pixels_mut().iter_mut().skip(channel).step_by(channels);
            values.for_each(|value| *value = table[usize::from(*value)]);
        }
    }
}
