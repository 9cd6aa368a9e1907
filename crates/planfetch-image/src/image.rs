//! An image in memory.

use crate::pool::Pixels;
use crate::settings::ColorMode;

/// An image in memory: rows from the top, pixels from the left, channels interleaved, 8 bits each.
///
/// Its memory is kept for the next image of the thread that drops it.
///
/// # Example
///
/// ```
/// use planfetch_image::{ColorMode, DecodedImage};
///
/// let image = DecodedImage::new(vec![255, 0, 0, 0, 0, 255], 1, 2, ColorMode::Rgb).expect("1 x 2 pixels");
/// assert_eq!(image.pixel(0, 1), [0, 0, 255]);
/// assert_eq!(DecodedImage::new(vec![255], 1, 2, ColorMode::Rgb), None);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DecodedImage {
    // Invariant: `height * width * color.channels()` bytes.
    pixels: Pixels,
    height: usize,
    width: usize,
    color: ColorMode,
}

impl DecodedImage {
    /// Makes an image of pixels of shape `[height, width, channels]`, or returns `None` when their number is another.
    #[must_use]
    pub fn new(pixels: Vec<u8>, height: usize, width: usize, color: ColorMode) -> Option<Self> {
        Self::from_pixels(pixels.into(), height, width, color)
    }

    pub(crate) fn from_pixels(pixels: Pixels, height: usize, width: usize, color: ColorMode) -> Option<Self> {
        let expected = height.checked_mul(width)?.checked_mul(color.channels())?;
        (pixels.len() == expected).then_some(Self { pixels, height, width, color })
    }

    /// Makes an image with any content.
    ///
    /// # Panics
    ///
    /// When the number of bytes does not fit in `usize`; callers have checked the size.
    pub(crate) fn uninit(height: usize, width: usize, color: ColorMode) -> Self {
        let len = height.checked_mul(width).and_then(|n| n.checked_mul(color.channels()));
        let pixels = Pixels::uninit(len.expect("the size was checked"));
        Self { pixels, height, width, color }
    }

    /// Returns the pixels, of shape `[height, width, channels]`.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Returns the pixels to be changed, of shape `[height, width, channels]`.
    #[must_use]
    pub fn pixels_mut(&mut self) -> &mut [u8] {
        &mut self.pixels
    }

    /// Returns the channels of one pixel.
    ///
    /// # Panics
    ///
    /// When `row` or `column` lies outside of the image.
    #[must_use]
    pub fn pixel(&self, row: usize, column: usize) -> &[u8] {
        assert!(
            row < self.height && column < self.width,
            "pixel ({row}, {column}) of {} x {}",
            self.height,
            self.width
        );
        let channels = self.color.channels();
        &self.pixels[(row * self.width + column) * channels..][..channels]
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns which channels there are.
    #[must_use]
    pub fn color(&self) -> ColorMode {
        self.color
    }

    /// Returns the pixels without a copy.
    #[must_use]
    pub fn into_pixels(self) -> Vec<u8> {
        self.pixels.into_vec()
    }

    /// The number of bytes in a row.
    pub(crate) fn stride(&self) -> usize {
        self.width * self.color.channels()
    }

    /// Returns the rectangle of `height` by `width` pixels at (`top`, `left`), which lies in the image.
    pub(crate) fn crop(&self, top: usize, left: usize, height: usize, width: usize) -> Self {
        let mut cropped = Self::uninit(height, width, self.color);
        let (from, to) = (self.stride(), cropped.stride());
        if 0 < to {
            let rows = self.pixels.chunks_exact(from).skip(top);
            let left = left * self.color.channels();
            for (row, source) in cropped.pixels.chunks_exact_mut(to).zip(rows) {
                row.copy_from_slice(&source[left..left + to]);
            }
        }
        cropped
    }

    /// Returns an image of some size (height, width), each pixel of which is one of this image: for its row and column,
    /// `from` says which.
    pub(crate) fn pick(&self, [height, width]: [usize; 2], from: impl Fn(usize, usize) -> (usize, usize)) -> Self {
        let channels = self.color.channels();
        let mut picked = Self::uninit(height, width, self.color);
        for (y, row) in picked.pixels.chunks_exact_mut((width * channels).max(1)).enumerate() {
            for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
                let (from_y, from_x) = from(y, x);
                pixel.copy_from_slice(&self.pixels[(from_y * self.width + from_x) * channels..][..channels]);
            }
        }
        picked
    }
}
