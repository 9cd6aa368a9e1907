//! Large photographs come out as if they had been decoded whole.
//!
//! `cargo test -p planfetch-image --features turbojpeg` runs this, and the conformance set, with libjpeg-turbo.

#![cfg(feature = "turbojpeg")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use image::codecs::jpeg::JpegEncoder;
use image::{Rgb, RgbImage};
use planfetch_cache::LocalFile;
use planfetch_image::{
    CenterCrop, ColorMode, Compose, DecodeSettings, ImageDataset, ImageSettings, Interpolation, Resize, Size, decode,
};
use planfetch_index::SampleIndex;
use planfetch_loader::{Dataset, SampleContext};
use planfetch_plan::SampleId;

fn photograph(width: u32, height: u32) -> Vec<u8> {
    let picture = RgbImage::from_fn(width, height, |x, y| {
        let wave = |a: u32, b: u32| ((f64::from(x * a + y * b) / 90.0).sin() * 100.0 + 128.0) as u8;
        Rgb([wave(1, 0), wave(1, 2), wave(0, 3)])
    });
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 92).encode_image(&picture).unwrap();
    bytes
}

#[test]
fn a_fraction_that_is_resized_is_what_the_whole_resized_is() {
    for (width, height) in [(1_600, 1_068), (1_601, 1_067), (1_067, 1_601), (3_000, 2_000), (500, 375)] {
        let interpolations = [Interpolation::Bilinear, Interpolation::Bicubic, Interpolation::Nearest];
        for (color, interpolation) in
            [ColorMode::Rgb, ColorMode::Gray].into_iter().flat_map(|color| interpolations.map(|way| (color, way)))
        {
            let bytes = photograph(width, height);
            let settings = ImageSettings {
                transforms: Compose::new([
                    Resize { size: Size::ShorterSide(256), interpolation, ..Resize::default() }.into(),
                    CenterCrop::default().into(),
                ]),
                decode: DecodeSettings { color, ..DecodeSettings::default() },
                ..ImageSettings::default()
            };
            let index = SampleIndex::from_rows([("s3://b/a.jpg".to_owned(), 0)]).unwrap();
            let dataset = ImageDataset::new(index, settings.clone()).unwrap();
            let file = LocalFile::from_bytes(bytes.clone());
            let mut ctx = SampleContext::new(SampleId(0), Some(&file), 0, 0, 0);
            let by_fraction = dataset.get(&mut ctx).unwrap().image;
            let whole = settings.transforms.apply(decode(&bytes, &settings.decode).unwrap(), ctx.rng()).unwrap();
            assert_eq!((by_fraction.height(), by_fraction.width()), (224, 224));
            let differences = by_fraction.pixels().iter().zip(whole.pixels()).map(|(a, b)| f64::from(a.abs_diff(*b)));
            let mean = differences.sum::<f64>() / whole.pixels().len() as f64;
            assert!(mean < 0.7, "{width} x {height} as {color:?} by {interpolation:?}: off by {mean}");
        }
    }
}
