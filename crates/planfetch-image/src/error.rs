//! What can be wrong with an image.

use std::fmt;
/// Why bytes do not become an image.
///
/// It does not name the file, which only its caller knows; a loader adds the sample's id and URI.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// There are no bytes.
    #[error("the file is empty")]
    Empty,
    /// The bytes are not those of a file in a format that is read.
    #[error("this is no JPEG, PNG, WebP, GIF, BMP or TIFF file; it begins with {beginning}")]
    Format {
        /// The first bytes, as text where they are text.
        beginning: String,
    },
    /// The image has more pixels than are allowed, or none.
    #[error(
        "the image is {width} x {height} pixels, but must have 1 to {max_pixels}; raise max_pixels if it is meant to"
    )]
    Size {
        /// The width that the file claims, in pixels.
        width: u64,
        /// The height that the file claims, in pixels.
        height: u64,
        /// The largest number of pixels that the settings allow.
        max_pixels: u64,
    },
    /// The file has more bytes than are allowed.
    #[error("the file has {len} bytes, but may have {max_file_bytes}; raise max_file_bytes if it is meant to")]
    FileSize {
        /// The bytes of the file.
        len: u64,
        /// The most bytes that the settings allow.
        max_file_bytes: u64,
    },
    /// The file is damaged, cut short, or of a kind that is not supported.
    #[error("the {format} file can't be decoded: {problem}")]
    Decode {
        /// `JPEG`, `PNG`, `WebP`, `GIF`, `BMP` or `TIFF`.
        format: &'static str,
        /// What the decoder says.
        problem: String,
    },
    /// An image does not fit in its batch.
    #[error(
        "the image has shape {actual:?} (height, width, channels), but the batch takes {expected:?}; give data set and collate the same settings"
    )]
    Shape {
        /// The shape of the image: height, width, channels.
        actual: [usize; 3],
        /// The shape of the batch's images: height, width, channels.
        expected: [usize; 3],
    },
    /// A setting is out of its range.
    #[error("{name} is {value}, but {allowed}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is allowed, as a clause such as "must lie in 1..=65535", and where it helps, what to do.
        allowed: String,
    },
    /// A transform can't be applied to an image.
    #[error("{transform} can't be applied to an image of {height} x {width} pixels: {problem}")]
    Transform {
        /// The transform.
        transform: &'static str,
        /// The height of the image, in pixels.
        height: usize,
        /// The width of the image, in pixels.
        width: usize,
        /// Why not, and what to do.
        problem: String,
    },
    /// A label is not below the number of classes of a batch transform.
    #[error("the label is {label}, but num_classes of the batch transforms is {num_classes}")]
    Label {
        /// The label.
        label: i64,
        /// The number of classes.
        num_classes: usize,
    },
    /// A picture can't be written.
    #[error("can't write {path}: {problem}")]
    Write {
        /// The path of the file.
        path: String,
        /// What went wrong.
        problem: String,
    },
    /// Resizing failed.
    #[error("can't resize from {from:?} to {to:?} (height, width): {problem}")]
    Resize {
        /// The size of the image: height, width.
        from: [usize; 2],
        /// The size that was asked for: height, width.
        to: [usize; 2],
        /// What the resizer says.
        problem: String,
    },
}

/// As `Display`, since `main` prints the error that it returns by this.
impl fmt::Debug for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
