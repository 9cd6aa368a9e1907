//! What can be set about images.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::batch_transform::BatchTransform;
use crate::error::ImageError;
use crate::to_tensor::Normalize;
use crate::transform::{Compose, Resize, Size};

/// The mean of ImageNet's training images by channel (R, G, B), for pixels in 0..=1, as torchvision's models expect it.
pub const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// The standard deviation of ImageNet's training images by channel (R, G, B), for pixels in 0..=1.
pub const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];

/// Which channels an image has.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ColorMode {
    /// Red, green and blue.
    #[default]
    Rgb,
    /// Brightness alone: ITU-R BT.601 luma of colour images.
    Gray,
}

impl ColorMode {
    /// Returns the number of channels: 3 or 1.
    #[must_use]
    pub fn channels(self) -> usize {
        match self {
            Self::Rgb => 3,
            Self::Gray => 1,
        }
    }
}

/// How [`decode`](crate::decode) reads a file.
///
/// # Example
///
/// ```
/// use planfetch_image::{ColorMode, DecodeSettings};
///
/// let settings = DecodeSettings { color: ColorMode::Gray, ..DecodeSettings::default() };
/// assert!(settings.apply_orientation);
/// ```
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DecodeSettings {
    /// Which channels come out, whatever the file has. Default: RGB.
    pub color: ColorMode,
    /// Whether the image is turned upright as its EXIF orientation says. Default: true.
    pub apply_orientation: bool,
    /// The colour (R, G, B) that transparent pixels are composited over. Default: none; alpha is dropped, and what lies
    /// under transparent pixels shows.
    pub background: Option<[u8; 3]>,
    /// The most pixels that a file may claim, checked before memory for them is taken. Default: 2^27, 134 million.
    /// A worker needs up to 8 bytes for each.
    pub max_pixels: u64,
    /// The most bytes that a file may have, checked before it is read. Default: 2^28, 268 million.
    pub max_file_bytes: u64,
}

impl Default for DecodeSettings {
    fn default() -> Self {
        Self {
            color: ColorMode::Rgb,
            apply_orientation: true,
            background: None,
            max_pixels: 1 << 27,
            max_file_bytes: 1 << 28,
        }
    }
}

/// The order of the axes of a batch of images.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Layout {
    /// `[batch, channels, height, width]`, as burn and PyTorch take images.
    #[default]
    Nchw,
    /// `[batch, height, width, channels]`.
    Nhwc,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nchw => "NCHW",
            Self::Nhwc => "NHWC",
        })
    }
}

/// What becomes of an image on its way from a file into a batch: decoding, transforms, normalisation.
///
/// It prints as the pipeline that it is, in torchvision's words, and is what a program saves to train with the same
/// pipeline again.
///
/// # Example
///
/// ```
/// use planfetch_image::{Compose, IMAGENET_MEAN, IMAGENET_STD, ImageSettings, RandomHorizontalFlip, RandomResizedCrop};
///
/// let settings = ImageSettings {
///     transforms: Compose::new([RandomResizedCrop::default().into(), RandomHorizontalFlip::default().into()]),
///     mean: IMAGENET_MEAN,
///     std: IMAGENET_STD,
///     ..ImageSettings::default()
/// };
/// assert_eq!((settings.height, settings.width), (224, 224));
/// let json = serde_json::to_string(&settings)?;
/// assert_eq!(serde_json::from_str::<ImageSettings>(&json)?, settings);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImageSettings {
    /// The height of the images in a batch, in pixels. Default: 224.
    pub height: usize,
    /// The width of the images in a batch, in pixels. Default: 224.
    pub width: usize,
    /// What is done with each image after decoding; it has to leave every image `height` by `width` pixels. Default:
    /// empty, and each image is resized to `height` by `width`, whatever its aspect ratio.
    pub transforms: Compose,
    /// What is done with each batch: one of these, each as likely as the others. Default: none.
    pub batch_transforms: Vec<BatchTransform>,
    /// What is subtracted from each channel of pixels in 0..=1. Gray images use the first number. Default: 0.
    pub mean: [f32; 3],
    /// What each channel is then divided by; not 0. Gray images use the first number. Default: 1.
    pub std: [f32; 3],
    /// The order of the axes. Default: NCHW.
    pub layout: Layout,
    /// How files are decoded, the channels included.
    pub decode: DecodeSettings,
}

impl Default for ImageSettings {
    fn default() -> Self {
        Self {
            height: 224,
            width: 224,
            transforms: Compose::default(),
            batch_transforms: Vec::new(),
            mean: [0.0; 3],
            std: [1.0; 3],
            layout: Layout::default(),
            decode: DecodeSettings::default(),
        }
    }
}

impl ImageSettings {
    /// The normalisation.
    #[must_use]
    pub fn normalize(&self) -> Normalize {
        Normalize { mean: self.mean, std: self.std }
    }

    /// The shape of one image in a batch, in the order of [`layout`](Self::layout).
    #[must_use]
    pub fn image_shape(&self) -> [usize; 3] {
        let channels = self.decode.color.channels();
        match self.layout {
            Layout::Nchw => [channels, self.height, self.width],
            Layout::Nhwc => [self.height, self.width, channels],
        }
    }

    /// The transforms, with what an empty list stands for.
    pub(crate) fn pipeline(&self) -> Compose {
        if self.transforms.is_empty() {
            Compose::new([Resize { size: Size::Exact([self.height, self.width]), ..Resize::default() }.into()])
        } else {
            self.transforms.clone()
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ImageError> {
        for (name, value) in [("height", self.height), ("width", self.width)] {
            if !(1..=MAX_SIDE).contains(&value) {
                return Err(setting(name, value, "must lie in 1..=65535"));
            }
        }
        self.normalize().validate()?;
        let pipeline = self.pipeline();
        pipeline.validate()?;
        let expected = [self.height, self.width];
        match pipeline.output_size() {
            Some(size) if size == expected => {}
            Some([height, width]) => {
                return Err(setting(
                    "transforms",
                    format!("a pipeline that ends in images of {height} x {width}"),
                    "height and width must be the same",
                ));
            }
            None => {
                return Err(setting(
                    "transforms",
                    "a pipeline that leaves the size of images open",
                    "a batch needs one size: add a CenterCrop, a RandomCrop, a RandomResizedCrop, or a Resize to [height, width]",
                ));
            }
        }
        self.batch_transforms.iter().try_for_each(BatchTransform::validate)
    }
}

impl fmt::Display for ImageSettings {
    /// Writes the pipeline as torchvision prints one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Compose(")?;
        for transform in self.pipeline().transforms() {
            writeln!(f, "    {transform}")?;
        }
        writeln!(f, "    ToTensor(layout={})", self.layout)?;
        writeln!(f, "    {}", self.normalize())?;
        for transform in &self.batch_transforms {
            writeln!(f, "    {transform}")?;
        }
        write!(f, ")")
    }
}

/// The longest side of an image in a batch, or that a transform makes.
pub(crate) const MAX_SIDE: usize = 65_535;

pub(crate) fn setting(name: &'static str, value: impl fmt::Display, allowed: &str) -> ImageError {
    ImageError::Setting { name, value: value.to_string(), allowed: allowed.into() }
}
