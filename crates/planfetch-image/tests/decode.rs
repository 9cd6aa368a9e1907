//! The conformance set: files of every kind become what Pillow makes of them, and what is no image is refused.
//!
//! `tests/data/make_decode.py` makes the files, and tells what each of them is.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::{Path, PathBuf};

use planfetch_image::{ColorMode, DecodeSettings, DecodedImage, decode};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Image { file: String, mean_abs_tolerance: f64, why: String, width: usize, height: usize, rgb: String, gray: String },
    Damaged { file: String, why: String, error: String },
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/decode")
}

fn entries() -> Vec<Entry> {
    serde_json::from_slice(&std::fs::read(folder().join("manifest.json")).unwrap()).unwrap()
}

fn settings(color: ColorMode) -> DecodeSettings {
    DecodeSettings { color, ..DecodeSettings::default() }
}

/// Expected pixels, by a decoder that is not ours.
fn expected(name: &str, color: ColorMode) -> DecodedImage {
    let image = image::open(folder().join(name)).unwrap();
    let (height, width) = (image.height() as usize, image.width() as usize);
    let pixels = match color {
        ColorMode::Gray => image.into_luma8().into_raw(),
        _ => image.into_rgb8().into_raw(),
    };
    DecodedImage::new(pixels, height, width, color).unwrap()
}

fn mean_difference(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>() / a.len() as f64
}

#[test]
fn every_file_becomes_what_pillow_makes_of_it() {
    let mut wrong = Vec::new();
    let mut files = 0;
    for entry in entries() {
        let Entry::Image { file, mean_abs_tolerance, why, width, height, rgb, gray } = entry else { continue };
        files += 1;
        let bytes = std::fs::read(folder().join(&file)).unwrap();
        for (color, name) in [(ColorMode::Rgb, rgb), (ColorMode::Gray, gray)] {
            match decode(&bytes, &settings(color)) {
                Err(error) => wrong.push(format!("{file} ({why}) as {color:?}: {error}")),
                Ok(image) if (image.height(), image.width()) != (height, width) => {
                    wrong.push(format!("{file} ({why}) as {color:?}: {} x {}", image.height(), image.width()));
                }
                Ok(image) => {
                    let difference = mean_difference(image.pixels(), expected(&name, color).pixels());
                    if mean_abs_tolerance < difference {
                        wrong.push(format!("{file} ({why}) as {color:?}: off by {difference}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(60 <= files, "{files} files");
}

#[test]
fn what_is_no_image_is_an_error_that_says_why() {
    let mut wrong = Vec::new();
    let mut files = 0;
    for entry in entries() {
        let Entry::Damaged { file, why, error: expected } = entry else { continue };
        files += 1;
        let bytes = std::fs::read(folder().join(&file)).unwrap();
        for color in [ColorMode::Rgb, ColorMode::Gray] {
            match decode(&bytes, &settings(color)) {
                Ok(image) => wrong.push(format!("{file} ({why}) became {} x {}", image.height(), image.width())),
                Err(error) if error.to_string().contains(&expected) => {}
                Err(error) => wrong.push(format!("{file} ({why}): {error}, which does not say {expected:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(20 <= files, "{files} files");
}

#[test]
fn every_file_cut_anywhere_is_an_error_or_the_whole_image() {
    for entry in entries() {
        let Entry::Image { file, .. } = entry else { continue };
        let bytes = std::fs::read(folder().join(&file)).unwrap();
        let whole = decode(&bytes, &settings(ColorMode::Rgb)).unwrap();
        for cut in (0..bytes.len()).step_by(13) {
            // What lies behind the pixels, end markers and further frames for example, may be missing.
            if let Ok(image) = decode(&bytes[..cut], &settings(ColorMode::Rgb)) {
                assert!(image == whole, "{file} cut at {cut} of {} became another image", bytes.len());
            }
        }
    }
}

/// A decoder may take a damaged file for whole and write only some of its pixels; fuzzing found one.
#[test]
fn no_image_shows_what_lay_in_memory_before() {
    let twice = |bytes: &[u8], what: &str| {
        let decode_over = |value: u8| {
            // Dropped, so that its memory is what the decoder gets.
            drop(DecodedImage::new(vec![value; 1 << 20], 1 << 10, 1 << 10, ColorMode::Gray));
            decode(bytes, &DecodeSettings { max_pixels: 1 << 20, ..DecodeSettings::default() }).ok()
        };
        assert!(decode_over(0x55) == decode_over(0xaa), "{what} depends on the image before");
    };
    let found = std::fs::read(folder().with_file_name("unwritten.jpg")).unwrap();
    assert!(decode(&found, &settings(ColorMode::Rgb)).is_ok(), "it is no example any more");
    twice(&found, "unwritten.jpg");
    let mut state = 1_u32;
    let mut random = |n: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % n
    };
    for entry in entries() {
        let Entry::Image { file, .. } = entry else { continue };
        let bytes = std::fs::read(folder().join(&file)).unwrap();
        for _ in 0..10 {
            let mut damaged = bytes.clone();
            (0..3).for_each(|_| damaged[random(bytes.len())] = random(256) as u8);
            twice(&damaged, &file);
        }
    }
}
