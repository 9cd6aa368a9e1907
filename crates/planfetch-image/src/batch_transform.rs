//! MixUp and CutMix.

use std::fmt;

use ndarray::Array2;
use planfetch_loader::rand_chacha::ChaCha8Rng;
use rand_distr::{Beta, Distribution};
use serde::{Deserialize, Serialize};

use crate::error::ImageError;
use crate::random::below;
use crate::settings::{Layout, setting};
use crate::to_tensor::Element;

/// Mixes the images of a batch, and their labels with them.
///
/// As in torchvision, each image is mixed with the one before it, and the first with the last; so the order of samples
/// should be random. The share that an image keeps is drawn from a Beta distribution, once for the batch. Labels become
/// [`soft_labels`](crate::ImageBatch::soft_labels): the share of each class.
///
/// # Example
///
/// ```
/// use planfetch_image::BatchTransform;
///
/// let transforms: Vec<BatchTransform> =
///     serde_json::from_str(r#"[{"CutMix": {"num_classes": 10}}, {"MixUp": {"num_classes": 10, "alpha": 0.2}}]"#)?;
/// assert_eq!(transforms[1].to_string(), "MixUp(alpha=0.2, num_classes=10)");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub enum BatchTransform {
    /// The weighted mean of both images, as mixup does (Zhang et al. 2017,
    /// [arXiv:1710.09412](https://arxiv.org/abs/1710.09412)).
    MixUp {
        /// The number of classes; labels must be below it.
        num_classes: usize,
        /// Both parameters of the Beta distribution, above 0. Default: 1, all shares equally likely.
        #[serde(default = "one")]
        alpha: f64,
    },
    /// A rectangle of the other image, as CutMix does (Yun et al. 2019,
    /// [arXiv:1905.04899](https://arxiv.org/abs/1905.04899)). The share is what the rectangle leaves.
    CutMix {
        /// The number of classes; labels must be below it.
        num_classes: usize,
        /// Both parameters of the Beta distribution, above 0. Default: 1, all shares equally likely.
        #[serde(default = "one")]
        alpha: f64,
    },
}

fn one() -> f64 {
    1.0
}

impl BatchTransform {
    fn parameters(&self) -> (&'static str, usize, f64) {
        match *self {
            Self::MixUp { num_classes, alpha } => ("MixUp", num_classes, alpha),
            Self::CutMix { num_classes, alpha } => ("CutMix", num_classes, alpha),
        }
    }

    pub(crate) fn num_classes(&self) -> usize {
        self.parameters().1
    }

    pub(crate) fn validate(&self) -> Result<(), ImageError> {
        let (_, num_classes, alpha) = self.parameters();
        if num_classes == 0 {
            return Err(setting("num_classes", num_classes, "must be at least 1"));
        }
        if !(alpha.is_normal() && 0.0 < alpha) {
            return Err(setting("alpha", alpha, "must be finite and above 0"));
        }
        Ok(())
    }

    /// Mixes images, all of `shape` and one after the other, and returns the share that each keeps of itself.
    pub(crate) fn apply<T: Element>(
        &self,
        images: &mut [T],
        shape: [usize; 3],
        layout: Layout,
        rng: &mut ChaCha8Rng,
    ) -> f64 {
        let image_len = shape.iter().product::<usize>().max(1);
        let beta =
            |alpha: f64, rng: &mut ChaCha8Rng| Beta::new(alpha, alpha).expect("the settings were checked").sample(rng);
        match *self {
            Self::MixUp { alpha, .. } => {
                let share = beta(alpha, rng);
                let (own, other) = (share as f32, (1.0 - share) as f32);
                roll(images, image_len, |image, before| {
                    for (value, before) in image.iter_mut().zip(before) {
                        *value = T::from_f32(own * value.to_f32() + other * before.to_f32());
                    }
                });
                share
            }
            Self::CutMix { alpha, .. } => {
                let share = beta(alpha, rng);
                let (height, width) = match layout {
                    Layout::Nchw => (shape[1], shape[2]),
                    Layout::Nhwc => (shape[0], shape[1]),
                };
                let half = 0.5 * (1.0 - share).sqrt();
                let mut side = |len: usize| {
                    let (middle, half) = (below(rng, len.max(1)), (half * len as f64) as usize);
                    middle.saturating_sub(half)..(middle + half).min(len)
                };
                let (columns, rows) = (side(width), side(height));
                // Values that lie together: a row of a channel, or of all channels.
                let per_pixel = if layout == Layout::Nchw { 1 } else { shape[2] };
                let columns_of_values = columns.start * per_pixel..columns.end * per_pixel;
                roll(images, image_len, |image, before| {
                    let planes = image.chunks_exact_mut(height * width * per_pixel);
                    for (plane, before) in planes.zip(before.chunks_exact(height * width * per_pixel)) {
                        for row in rows.clone() {
                            let at = row * width * per_pixel;
                            let values = at + columns_of_values.start..at + columns_of_values.end;
                            plane[values.clone()].copy_from_slice(&before[values]);
                        }
                    }
                });
                1.0 - (columns.len() * rows.len()) as f64 / (height * width) as f64
            }
        }
    }
}

/// Calls `mix` for each image with the one before it, as it was; the first one's is the last.
fn roll<T: Copy>(images: &mut [T], image_len: usize, mut mix: impl FnMut(&mut [T], &[T])) {
    let Some(last_at) = images.len().checked_sub(image_len) else { return };
    let last = images[last_at..].to_vec();
    // From the last to the first, so that the one before has not been mixed yet.
    let mut rest = images;
    while image_len <= rest.len() {
        let (before, image) = rest.split_at_mut(rest.len() - image_len);
        let previous = before.len().checked_sub(image_len).map_or(&last[..], |at| &before[at..]);
        mix(image, previous);
        rest = before;
    }
}

/// Makes soft labels: each sample keeps `share` of its own class and gets the rest of that of the one before it.
pub(crate) fn mix_labels(labels: &[i64], share: f64, soft: &mut Array2<f32>) {
    soft.fill(0.0);
    let n = labels.len();
    for (row, &label) in labels.iter().enumerate() {
        let other = labels[(row + n - 1) % n];
        // OK because labels were checked when they came into the batch.
        soft[[row, label as usize]] += share as f32;
        soft[[row, other as usize]] += (1.0 - share) as f32;
    }
}

impl fmt::Display for BatchTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, num_classes, alpha) = self.parameters();
        write!(f, "{name}(alpha={alpha:?}, num_classes={num_classes})")
    }
}
