//! Whether what is drawn has the distribution of what torchvision draws.

use serde::Deserialize;

/// Quantiles of what torchvision draws for an image of 375 x 500 pixels, from 0 to 1 in hundredths; made by
/// `tests/data/make_torchvision.py`.
#[derive(Deserialize)]
pub(super) struct Manifest {
    #[serde(rename = "RandomResizedCrop")]
    pub(super) resized_crop: Drawn,
    #[serde(rename = "RandomErasing")]
    pub(super) erasing: Drawn,
}

#[derive(Deserialize)]
pub(super) struct Drawn {
    /// Parts of the image's area.
    pub(super) area: Vec<f64>,
    /// Widths divided by heights.
    pub(super) ratio: Vec<f64>,
}

/// How often torchvision drew.
const DRAWN: f64 = 20_000.0;

pub(super) fn manifest() -> Manifest {
    serde_json::from_str(include_str!("../../tests/data/torchvision/manifest.json")).expect("the script wrote it")
}

/// Checks that numbers have the distribution with these quantiles, by Kolmogorov and Smirnov, at one in a hundred.
#[track_caller]
pub(super) fn check(mut numbers: Vec<f64>, quantiles: &[f64]) {
    numbers.sort_by(f64::total_cmp);
    let n = numbers.len() as f64;
    let critical = 1.63 * (1.0 / n + 1.0 / DRAWN).sqrt();
    for (i, &quantile) in quantiles.iter().enumerate() {
        // Where many have the same value, it is both below and above.
        let below = numbers.partition_point(|&number| number < quantile - 1e-9) as f64 / n;
        let up_to = numbers.partition_point(|&number| number <= quantile + 1e-9) as f64 / n;
        let share = i as f64 / (quantiles.len() - 1) as f64;
        let distance = (below - share).max(share - up_to);
        assert!(
            distance < critical,
            "{share} lie below {quantile}, but {below} to {up_to} here; {critical} is the limit"
        );
    }
}

/// Checks that numbers are spread evenly over 0..=1.
#[track_caller]
pub(super) fn check_even(numbers: Vec<f64>) {
    let even: Vec<f64> = (0..=100).map(|i| f64::from(i) / 100.0).collect();
    check(numbers, &even);
}
