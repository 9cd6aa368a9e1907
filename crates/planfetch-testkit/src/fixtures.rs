//! Images and indexes for tests, made from numbers, so that nothing large lies in the repository.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, GrayImage, ImageFormat, Rgb, RgbImage};

use crate::server::S3Server;

/// Makes a picture with smooth areas, edges and noise, as photographs have; each `seed` gives another.
///
/// Its lightest corner, and its hue, tell its class (`seed % 4`) to the eye.
#[must_use]
pub fn photograph(width: u32, height: u32, seed: u64) -> RgbImage {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut noise = move || {
        // xorshift64 (G. Marsaglia, Journal of Statistical Software 8(14), 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 58) as i32 - 32
    };
    let class = seed % 4;
    RgbImage::from_fn(width, height, |x, y| {
        let (u, v) = (x as f32 / width as f32, y as f32 / height as f32);
        let (u, v) = (if class & 1 == 0 { u } else { 1.0 - u }, if class & 2 == 0 { v } else { 1.0 - v });
        let edge = if ((x / 40) + (y / 40) + seed as u32).is_multiple_of(3) { 40.0 } else { 0.0 };
        let n = noise();
        let channel = |weight: f32| ((u + v) * weight * 90.0 + edge + 20.0) as i32 + n / 2;
        let weights = [[1.2, 0.7, 0.4], [0.4, 1.2, 0.7], [0.7, 0.4, 1.2], [1.0, 1.0, 0.5]][class as usize];
        Rgb(weights.map(|weight| channel(weight).clamp(0, 255) as u8))
    })
}

/// Encodes a picture as JPEG of quality 88.
#[must_use]
pub fn jpeg(image: &RgbImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 88).encode_image(image).expect("memory can be written");
    bytes
}

/// Encodes a picture as PNG.
#[must_use]
pub fn png(image: impl Into<DynamicImage>) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.into().write_to(&mut bytes, ImageFormat::Png).expect("memory can be written");
    bytes.into_inner()
}

/// Puts `n` pictures of 500 by 375 pixels into `bucket` as `class_<c>/<i>.jpg`, with class `i % 4`, and returns the
/// index of them in CSV with the columns `s3_uri` and `label`.
///
/// Only 16 of the pictures differ, since making thousands would take longer than the tests that need them.
#[must_use]
pub fn put_photographs(server: &S3Server, bucket: &str, n: usize) -> String {
    let different: Vec<Vec<u8>> = (0..16.min(n as u64)).map(|seed| jpeg(&photograph(500, 375, seed))).collect();
    let mut csv = String::from("s3_uri,label\n");
    for i in 0..n {
        let class = i % 4;
        let key = format!("class_{class}/{i:06}.jpg");
        server.put(bucket, &key, &different[i % different.len()]);
        csv.push_str(&format!("s3://{bucket}/{key},{class}\n"));
    }
    csv
}

/// Puts 10,000 images of 12 by 12 pixels into `bucket` as `<row>.png`, and returns the index of them in CSV: the digits of
/// 8 by 8 pixels that the index at `digits` lists by names relative to it, each at several places of the larger image.
///
/// Every fifth row comes from a fifth row of the digits, so that those that are held out show digits that are not trained
/// on.
#[must_use]
pub fn put_moved_digits(server: &S3Server, bucket: &str, digits: &Path) -> String {
    let index = fs::read_to_string(digits).expect("the index of digits can be read");
    let folder = digits.parent().expect("the index lies in a folder");
    let rows = index.lines().skip(1).map(|line| {
        let (name, label) = line.rsplit_once(',').expect("a file's row");
        (image::open(folder.join(name)).expect("the digit can be read").to_luma8(), label)
    });
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for (row, digit) in rows.enumerate() {
        if row % 5 == 4 { test.push(digit) } else { train.push(digit) }
    }
    let mut csv = String::from("s3_uri,label\n");
    for row in 0..10_000_usize {
        let digits = if row % 5 == 4 { &test } else { &train };
        let (digit, label) = &digits[row % digits.len()];
        // One of 25.
        let place = row / digits.len() * 7 + row * 3;
        let mut moved = GrayImage::new(12, 12);
        image::imageops::replace(&mut moved, digit, (place % 5) as i64, (place / 5 % 5) as i64);
        server.put(bucket, &format!("{row}.png"), &png(moved));
        csv.push_str(&format!("s3://{bucket}/{row}.png,{label}\n"));
    }
    csv
}
