//! What becomes of images of each kind, and of what only claims to be one.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, GrayImage, ImageFormat, Luma, LumaA, Rgb, RgbImage, Rgba};
use planfetch_image::{ColorMode, DecodeSettings, DecodedImage, ImageError, decode, resize};
use proptest::prelude::*;

fn rgb() -> DecodeSettings {
    DecodeSettings::default()
}

fn gray() -> DecodeSettings {
    DecodeSettings { color: ColorMode::Gray, ..DecodeSettings::default() }
}

fn png(image: impl Into<DynamicImage>) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.into().write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn jpeg(image: &DynamicImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 95).encode_image(image).unwrap();
    bytes
}

/// Red to the right, green downwards, blue from both.
fn gradient(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        Rgb([(x * 255 / width.max(2)) as u8, (y * 255 / height.max(2)) as u8, ((x + y) % 256) as u8])
    })
}

/// Puts an EXIF orientation into a JPEG file, right behind its first marker.
fn with_orientation(jpeg: &[u8], orientation: u16) -> Vec<u8> {
    let mut exif = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01".to_vec();
    exif.extend(orientation.to_be_bytes());
    exif.extend([0; 6]);
    let mut bytes = jpeg[..2].to_vec();
    bytes.extend([0xff, 0xe1]);
    bytes.extend((exif.len() as u16 + 2).to_be_bytes());
    bytes.extend(exif);
    bytes.extend(&jpeg[2..]);
    bytes
}

fn mean_difference(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>() / a.len() as f64
}

#[test]
fn png_pixels_come_out_exactly() {
    let image = gradient(37, 23);
    let decoded = decode(&png(image.clone()), &rgb()).unwrap();
    assert_eq!((decoded.height(), decoded.width()), (23, 37));
    assert_eq!(decoded.pixels(), image.as_raw().as_slice());
}

#[test]
fn every_kind_of_png_becomes_rgb_and_gray() {
    let expected = [10_u8, 130, 250];
    let luma = 90; // (19595 * 10 + 38470 * 130 + 7471 * 250 + 32768) >> 16 is 108; gray files keep their own value.
    let kinds: [(&str, DynamicImage, [u8; 3], u8); 6] = [
        ("gray", GrayImage::from_pixel(5, 4, Luma([luma])).into(), [luma; 3], luma),
        ("gray with alpha", image::GrayAlphaImage::from_pixel(5, 4, LumaA([luma, 3])).into(), [luma; 3], luma),
        ("rgb", RgbImage::from_pixel(5, 4, Rgb(expected)).into(), expected, 108),
        ("rgb with alpha", image::RgbaImage::from_pixel(5, 4, Rgba([10, 130, 250, 0])).into(), expected, 108),
        ("16-bit gray", image::ImageBuffer::<Luma<u16>, _>::from_pixel(5, 4, Luma([0x5aff])).into(), [0x5a; 3], 0x5a),
        (
            "16-bit rgb",
            image::ImageBuffer::<Rgb<u16>, _>::from_pixel(5, 4, Rgb([0x0aff, 0x82ff, 0xfaff])).into(),
            expected,
            108,
        ),
    ];
    for (kind, image, rgb_pixel, gray_pixel) in kinds {
        let bytes = png(image);
        let decoded = decode(&bytes, &rgb()).unwrap();
        assert!(decoded.pixels().chunks(3).all(|pixel| pixel == rgb_pixel), "{kind}: {:?}", &decoded.pixels()[..3]);
        assert_eq!(decoded.pixels().len(), 60);
        let decoded = decode(&bytes, &gray()).unwrap();
        assert!(decoded.pixels().iter().all(|&pixel| pixel == gray_pixel), "{kind}: {:?}", &decoded.pixels()[..3]);
        assert_eq!(decoded.pixels().len(), 20);
    }
}

#[test]
fn jpegs_come_out_close_to_what_went_in() {
    for (width, height) in [(1, 1), (8, 8), (17, 13), (64, 1), (1, 64), (200, 150)] {
        let image = gradient(width, height);
        let decoded = decode(&jpeg(&image.clone().into()), &rgb()).unwrap();
        assert_eq!((decoded.width(), decoded.height()), (width as usize, height as usize));
        assert!(mean_difference(decoded.pixels(), image.as_raw()) < 4.0, "{width} x {height}");
        let flat = DynamicImage::from(image).into_luma8();
        let decoded = decode(&jpeg(&flat.clone().into()), &gray()).unwrap();
        assert!(mean_difference(decoded.pixels(), flat.as_raw()) < 3.0, "{width} x {height} gray");
        let tripled = decode(&jpeg(&flat.into()), &rgb()).unwrap();
        assert!(tripled.pixels().chunks(3).all(|pixel| pixel[0] == pixel[1] && pixel[1] == pixel[2]));
    }
}

#[test]
fn the_exif_orientation_is_applied_unless_it_is_turned_off() {
    let image = DynamicImage::from(gradient(48, 32));
    let upright = jpeg(&image);
    // What each orientation asks for, by the image crate's own operations.
    let turned: [DynamicImage; 8] = [
        image.clone(),
        image.fliph(),
        image.rotate180(),
        image.flipv(),
        image.rotate90().fliph(),
        image.rotate90(),
        image.rotate270().fliph(),
        image.rotate270(),
    ];
    for (i, expected) in turned.iter().enumerate() {
        let bytes = with_orientation(&upright, i as u16 + 1);
        let decoded = decode(&bytes, &rgb()).unwrap();
        assert_eq!((decoded.width() as u32, decoded.height() as u32), (expected.width(), expected.height()));
        let difference = mean_difference(decoded.pixels(), expected.to_rgb8().as_raw());
        assert!(difference < 4.0, "orientation {}: {difference}", i + 1);
        let as_stored = decode(&bytes, &DecodeSettings { apply_orientation: false, ..rgb() }).unwrap();
        assert_eq!((as_stored.width(), as_stored.height()), (48, 32));
    }
    // A number that means nothing changes nothing.
    assert_eq!(decode(&with_orientation(&upright, 77), &rgb()).unwrap().width(), 48);
}

#[test]
fn formats_are_told_apart_by_content() {
    assert!(matches!(decode(b"", &rgb()), Err(ImageError::Empty)));
    let error = decode(b"<html>not found</html>", &rgb()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this is no JPEG, PNG, WebP, GIF, BMP or TIFF file; it begins with \"<html>not found</html>\""
    );
    let error = decode(&[0xde, 0xad, 0xbe, 0xef, 0xff], &rgb()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this is no JPEG, PNG, WebP, GIF, BMP or TIFF file; it begins with the bytes [de, ad, be, ef, ff]"
    );
}

#[test]
fn a_file_that_is_cut_short_is_an_error_wherever_it_is_cut() {
    let image = DynamicImage::from(gradient(60, 40));
    for (name, bytes) in [("jpeg", jpeg(&image)), ("png", png(image))] {
        // Behind the last byte of image data only an end marker is missing.
        for cut in (0..bytes.len() * 98 / 100).step_by(7) {
            let decoded = decode(&bytes[..cut], &rgb());
            assert!(decoded.is_err(), "{name} cut at {cut} of {}", bytes.len());
        }
    }
}

#[test]
fn more_pixels_than_allowed_are_refused_before_memory_is_taken() {
    // The header of a PNG file that claims 60,000 by 60,000 pixels.
    let mut bytes = png(gradient(4, 4));
    let claim = [60_000_u32.to_be_bytes(), 60_000_u32.to_be_bytes()].concat();
    bytes[16..24].copy_from_slice(&claim);
    let crc = crc32(&bytes[12..29]).to_be_bytes();
    bytes[29..33].copy_from_slice(&crc);
    let error = decode(&bytes, &rgb()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the image is 60000 x 60000 pixels, but must have 1 to 134217728; raise max_pixels if it is meant to"
    );
    let settings = DecodeSettings { max_pixels: 99, ..rgb() };
    for bytes in [png(gradient(10, 10)), jpeg(&gradient(10, 10).into())] {
        assert!(matches!(decode(&bytes, &settings), Err(ImageError::Size { width: 10, height: 10, max_pixels: 99 })));
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn shrinking_averages_what_it_leaves_out() {
    // A checkerboard of single pixels becomes an even gray, which a filter without antialiasing would not give.
    let pixels = (0..64 * 64).map(|i| if (i / 64 + i % 64) % 2 == 0 { 0 } else { 255 }).collect();
    let board = DecodedImage::new(pixels, 64, 64, ColorMode::Gray).unwrap();
    let small = resize(board, 8, 8).unwrap();
    assert!(small.pixels().iter().all(|&pixel| (120..=135).contains(&pixel)), "{:?}", small.pixels());
}

#[test]
fn sizes_that_are_no_sizes_are_errors() {
    let image = || DecodedImage::new(vec![0; 12], 2, 2, ColorMode::Rgb).unwrap();
    for (height, width) in [(0, 2), (2, 0), (usize::MAX, 1)] {
        assert!(matches!(resize(image(), height, width), Err(ImageError::Resize { .. })));
    }
    assert!(DecodedImage::new(vec![0; 11], 2, 2, ColorMode::Rgb).is_none());
    assert!(DecodedImage::new(vec![], usize::MAX, 2, ColorMode::Rgb).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_make_it_panic(
        mut damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        which in 0_usize..2,
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let image = DynamicImage::from(gradient(30, 20));
        let mut bytes = if which == 0 { jpeg(&image) } else { png(image) };
        for (index, byte) in damage.drain(..) {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        let settings = DecodeSettings { max_pixels: 1 << 20, ..rgb() };
        if let Ok(image) = decode(&bytes, &settings) {
            prop_assert_eq!(image.pixels().len(), image.height() * image.width() * 3);
        }
        let _ = decode(&noise, &settings);
    }

    #[test]
    fn any_size_resizes_to_any_size(h in 1_usize..40, w in 1_usize..40, to_h in 1_usize..40, to_w in 1_usize..40, value: u8) {
        let image = DecodedImage::new(vec![value; h * w * 3], h, w, ColorMode::Rgb).unwrap();
        let resized = resize(image, to_h, to_w).unwrap();
        prop_assert_eq!((resized.height(), resized.width()), (to_h, to_w));
        prop_assert!(resized.pixels().iter().all(|&pixel| pixel.abs_diff(value) <= 1));
    }
}
