//! A picture of a batch.

use std::path::Path;

use font8x8::{BASIC_FONTS, LATIN_FONTS, UnicodeFonts};
use image::ExtendedColorType;

use crate::batch::ImageBatch;
use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::settings::{ColorMode, ImageSettings, Layout, MAX_SIDE};
use crate::to_tensor::Element;

/// The side of a letter, in pixels.
const LETTER: usize = 8;
/// The height of a line of text, with space around it.
const LINE: usize = 14;
/// What lies between images.
const GAP: usize = 4;
/// Small images are enlarged until they are so wide.
const LEAST_WIDTH: usize = 128;
const BACKGROUND: u8 = 24;
const TEXT: u8 = 235;

/// Puts the images of a batch side by side, each above its caption, so that people can look at what a model sees.
///
/// The normalisation of `settings` is undone. Images under 128 pixels wide are enlarged by a whole factor. A caption that
/// is too long is cut; letters that are not of Latin-1 become `?`. See [`caption`] for that of a slot's label.
///
/// # Errors
///
/// [`ImageError::Shape`] when the batch was not made with `settings`, and [`ImageError::Setting`] when `columns` is 0, or
/// the picture would have a side of more than 65,535 pixels.
///
/// # Example
///
/// ```no_run
/// use planfetch_image::{ImageBatch, ImageError, ImageSettings, caption, contact_sheet};
///
/// fn look_at(batch: &ImageBatch, settings: &ImageSettings) -> Result<(), ImageError> {
///     let sheet = contact_sheet(batch, settings, 8, |slot| caption(batch, slot, |_| None))?;
///     sheet.write_png("batch.png")
/// }
/// ```
pub fn contact_sheet<T: Element>(
    batch: &ImageBatch<T>,
    settings: &ImageSettings,
    columns: usize,
    mut caption: impl FnMut(usize) -> String,
) -> Result<DecodedImage, ImageError> {
    let [a, b, c] = settings.image_shape();
    let (n, shape) = (batch.len(), batch.images.dim());
    if shape != (n, a, b, c) {
        return Err(ImageError::Shape { actual: [shape.1, shape.2, shape.3], expected: [a, b, c] });
    }
    let columns = columns.min(n.max(1));
    let scale = LEAST_WIDTH.div_ceil(settings.width).max(1);
    let (cell_height, cell_width) = (settings.height * scale + LINE + GAP, settings.width * scale + GAP);
    let (height, width) = (n.div_ceil(columns.max(1)) * cell_height + GAP, columns * cell_width + GAP);
    if columns == 0 || MAX_SIDE < width || MAX_SIDE < height {
        return Err(ImageError::Setting {
            name: "columns",
            value: columns.to_string(),
            allowed: "must be at least 1, and leave no side of the picture longer than 65535 pixels".into(),
        });
    }
    let mut sheet = DecodedImage::uninit(height, width, ColorMode::Rgb);
    sheet.pixels_mut().fill(BACKGROUND);
    for slot in 0..n {
        let (top, left) = (GAP + slot / columns * cell_height, GAP + slot % columns * cell_width);
        for y in 0..settings.height * scale {
            for x in 0..settings.width * scale {
                let pixel = pixel(batch, settings, slot, y / scale, x / scale);
                put(&mut sheet, top + y, left + x, pixel);
            }
        }
        write(&mut sheet, top + settings.height * scale + (LINE - LETTER) / 2, left, cell_width - GAP, &caption(slot));
    }
    Ok(sheet)
}

/// Says what a slot of a batch is: the name of its class, where `name` knows one, or its label; with soft labels, the
/// classes with their shares; and whether the slot is padding.
///
/// # Panics
///
/// When there is no such slot.
///
/// # Example
///
/// ```
/// use planfetch_image::{ImageCollate, ImageSettings, caption};
/// use planfetch_loader::Collate;
///
/// let collate = ImageCollate::new(&ImageSettings { height: 2, width: 2, ..ImageSettings::default() })?;
/// let mut buffer = collate.buffer();
/// collate.slots(&mut buffer, 2);
/// let mut batch = collate.finish(buffer);
/// batch.set_padding(1);
/// assert_eq!(caption(&batch, 0, |label| (label == 0).then(|| "cat".to_owned())), "cat");
/// assert_eq!(caption(&batch, 1, |_| None), "0 (padding)");
/// # Ok::<(), planfetch_image::ImageError>(())
/// ```
#[must_use]
pub fn caption<T: Element>(batch: &ImageBatch<T>, slot: usize, name: impl Fn(i64) -> Option<String>) -> String {
    let name = |label: i64| name(label).unwrap_or_else(|| label.to_string());
    let mut caption = match &batch.soft_labels {
        Some(soft) => {
            let mut shares: Vec<(usize, f32)> = soft.row(slot).iter().copied().enumerate().collect();
            shares.retain(|&(_, share)| 0.005 <= share);
            shares.sort_by(|a, b| b.1.total_cmp(&a.1));
            // OK because the number of classes fits in a label.
            let parts =
                shares.into_iter().map(|(class, share)| format!("{} {:.0}%", name(class as i64), share * 100.0));
            parts.collect::<Vec<_>>().join(" + ")
        }
        None => name(batch.labels[slot]),
    };
    if batch.padding[slot] {
        caption.push_str(" (padding)");
    }
    caption
}

/// The colour of a pixel of a batch, its normalisation undone.
fn pixel<T: Element>(batch: &ImageBatch<T>, settings: &ImageSettings, slot: usize, y: usize, x: usize) -> [u8; 3] {
    let channels = settings.decode.color.channels();
    std::array::from_fn(|channel| {
        let channel = channel.min(channels - 1);
        let at = match settings.layout {
            Layout::Nchw => [slot, channel, y, x],
            Layout::Nhwc => [slot, y, x, channel],
        };
        let value = batch.images[at].to_f32();
        let value = if T::IS_FLOAT { (value * settings.std[channel] + settings.mean[channel]) * 255.0 } else { value };
        // OK because a conversion from a float to an integer saturates.
        value.round() as u8
    })
}

fn put(sheet: &mut DecodedImage, y: usize, x: usize, pixel: [u8; 3]) {
    let at = (y * sheet.width() + x) * 3;
    sheet.pixels_mut()[at..at + 3].copy_from_slice(&pixel);
}

/// Writes as many letters as fit.
fn write(sheet: &mut DecodedImage, top: usize, left: usize, width: usize, text: &str) {
    for (i, letter) in text.chars().take(width / LETTER).enumerate() {
        let glyph = BASIC_FONTS.get(letter).or_else(|| LATIN_FONTS.get(letter)).or_else(|| BASIC_FONTS.get('?'));
        let rows = glyph.unwrap_or_default();
        for (y, row) in rows.into_iter().enumerate() {
            for x in (0..LETTER).filter(|x| row >> x & 1 == 1) {
                put(sheet, top + y, left + i * LETTER + x, [TEXT; 3]);
            }
        }
    }
}

impl DecodedImage {
    /// Writes the image to a PNG file.
    ///
    /// # Errors
    ///
    /// [`ImageError::Write`] when the file can't be written, and for an image without a pixel.
    pub fn write_png(&self, path: impl AsRef<Path>) -> Result<(), ImageError> {
        let path = path.as_ref();
        let color = match self.color() {
            ColorMode::Rgb => ExtendedColorType::Rgb8,
            ColorMode::Gray => ExtendedColorType::L8,
        };
        let failed = |problem: String| ImageError::Write { path: path.display().to_string(), problem };
        let side = |n: usize| u32::try_from(n).map_err(|error| failed(error.to_string()));
        let (width, height) = (side(self.width())?, side(self.height())?);
        image::save_buffer_with_format(path, self.pixels(), width, height, color, image::ImageFormat::Png)
            .map_err(|error| failed(error.to_string()))
    }
}
