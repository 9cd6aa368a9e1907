//! From pixels to the numbers of a batch.

use std::fmt;

use half::{bf16, f16};

use crate::error::ImageError;
use crate::image::DecodedImage;
use crate::settings::{ImageSettings, Layout, setting};

/// Normalises each channel of pixels in 0..=1: `(value - mean) / std`; torchvision's `Normalize`.
///
/// # Example
///
/// ```
/// use planfetch_image::Normalize;
///
/// assert_eq!(Normalize::IMAGENET.to_string(), "Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    /// What is subtracted. Gray images use the first number.
    pub mean: [f32; 3],
    /// What each channel is then divided by; not 0. Gray images use the first number.
    pub std: [f32; 3],
}

impl Normalize {
    /// That of torchvision's models.
    pub const IMAGENET: Self = Self { mean: crate::IMAGENET_MEAN, std: crate::IMAGENET_STD };

    pub(crate) fn validate(&self) -> Result<(), ImageError> {
        if let Some(value) = self.mean.iter().find(|value| !value.is_finite()) {
            return Err(setting("mean", value, "must be finite"));
        }
        if let Some(value) = self.std.iter().find(|value| !value.is_normal()) {
            return Err(setting("std", value, "must be finite and not 0"));
        }
        Ok(())
    }
}

impl Default for Normalize {
    /// Changes nothing.
    fn default() -> Self {
        Self { mean: [0.0; 3], std: [1.0; 3] }
    }
}

impl fmt::Display for Normalize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Normalize(mean={:?}, std={:?})", self.mean, self.std)
    }
}

/// What the numbers of a batch can be: `u8`, `f32`, `f16` or `bf16`.
///
/// No other type can implement it.
pub trait Element: Copy + Default + fmt::Debug + PartialEq + Send + Sync + sealed::Sealed + 'static {
    /// Its name, as PyTorch says it.
    const NAME: &'static str;
    /// Whether it holds fractions, so that images can be normalised and mixed. `u8` holds pixels as they are, 0..=255.
    const IS_FLOAT: bool;

    /// Returns the nearest number. `u8` saturates.
    fn from_f32(value: f32) -> Self;

    /// Returns the number in single precision.
    fn to_f32(self) -> f32;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($type:ty, $name:literal, $is_float:literal, $from:expr, $to:expr) => {
        impl sealed::Sealed for $type {}

        impl Element for $type {
            const NAME: &'static str = $name;
            const IS_FLOAT: bool = $is_float;

            fn from_f32(value: f32) -> Self {
                $from(value)
            }

            fn to_f32(self) -> f32 {
                $to(self)
            }
        }
    };
}

element!(u8, "uint8", false, |value: f32| value.round() as Self, f32::from);
element!(f32, "float32", true, |value| value, |value| value);
element!(f16, "float16", true, Self::from_f32, Self::to_f32);
element!(bf16, "bfloat16", true, Self::from_f32, Self::to_f32);

/// Writes an image as numbers: scaled to 0..=1, normalised, in the order of a layout, all in one pass.
///
/// Each float becomes `(value / 255 - mean) / std`, computed in single precision once for each of the 256 values of a
/// channel, and rounded to `T`. A `u8` stays as it is.
///
/// # Example
///
/// ```
/// use planfetch_image::{ColorMode, DecodedImage, ImageSettings, Layout, ToTensor};
///
/// let settings = ImageSettings { height: 1, width: 2, ..ImageSettings::default() };
/// let image = DecodedImage::new(vec![255, 0, 51, 0, 255, 51], 1, 2, ColorMode::Rgb).expect("1 x 2 pixels");
/// let mut values = [0.0_f32; 6];
/// ToTensor::new(&settings)?.write(&image, &mut values);
/// assert_eq!(values, [1.0, 0.0, 0.0, 1.0, 0.2, 0.2]);
///
/// ToTensor::new(&ImageSettings { layout: Layout::Nhwc, ..settings })?.write(&image, &mut values);
/// assert_eq!(values, [1.0, 0.0, 0.2, 0.0, 1.0, 0.2]);
/// # Ok::<(), planfetch_image::ImageError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToTensor<T = f32> {
    /// What each value of each channel becomes.
    tables: Vec<[T; 256]>,
    layout: Layout,
}

impl<T: Element> ToTensor<T> {
    /// Takes colour, mean, standard deviation and layout from settings.
    ///
    /// # Errors
    ///
    /// [`ImageError::Setting`] when the mean or the standard deviation is out of its range, or set for `u8`.
    pub fn new(settings: &ImageSettings) -> Result<Self, ImageError> {
        let normalize = settings.normalize();
        normalize.validate()?;
        if !T::IS_FLOAT && normalize != Normalize::default() {
            return Err(setting(
                "mean and std",
                normalize,
                "a batch of uint8 holds pixels as they are: leave them 0 and 1",
            ));
        }
        let table = |channel: usize| {
            let (mean, std) = (normalize.mean[channel], normalize.std[channel]);
            std::array::from_fn(|value| {
                // OK because an index below 256 is exact in a float.
                let value = value as f32;
                T::from_f32(if T::IS_FLOAT { (value / 255.0 - mean) / std } else { value })
            })
        };
        let tables = (0..settings.decode.color.channels()).map(table).collect();
        Ok(Self { tables, layout: settings.layout })
    }

    /// Writes the numbers of an image, as many as it has values.
    ///
    /// # Panics
    ///
    /// When the image has other channels than the settings, or `values` another length.
    pub fn write(&self, image: &DecodedImage, values: &mut [T]) {
        let pixels = image.pixels();
        assert_eq!(image.color().channels(), self.tables.len(), "the channels are not those of the settings");
        assert_eq!(values.len(), pixels.len(), "the slot has another size than the image");
        match (&self.tables[..], self.layout) {
            ([table], _) => {
                for (value, &pixel) in values.iter_mut().zip(pixels) {
                    *value = table[usize::from(pixel)];
                }
            }
            ([r, g, b], Layout::Nchw) => {
                let plane = values.len() / 3;
                let (reds, rest) = values.split_at_mut(plane);
                let (greens, blues) = rest.split_at_mut(plane);
                let (pixels, _) = pixels.as_chunks::<3>();
                let values = reds.iter_mut().zip(greens).zip(blues);
                for (((red, green), blue), pixel) in values.zip(pixels) {
                    *red = r[usize::from(pixel[0])];
                    *green = g[usize::from(pixel[1])];
                    *blue = b[usize::from(pixel[2])];
                }
            }
            (tables, _) => {
                let channels = tables.len();
                for (value, pixel) in values.chunks_exact_mut(channels).zip(pixels.chunks_exact(channels)) {
                    for ((value, &pixel), table) in value.iter_mut().zip(pixel).zip(tables) {
                        *value = table[usize::from(pixel)];
                    }
                }
            }
        }
    }
}
