//! Transforms compute what torchvision's do.
//!
//! `tests/data/make_torchvision.py` makes the results that these tests compare with.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use planfetch_image::{
    CenterCrop, Compose, DecodeSettings, DecodedImage, IMAGENET_MEAN, IMAGENET_STD, ImageSettings, Interpolation,
    Resize, Size, ToTensor, Transform, decode, functional as f,
};
use planfetch_loader::SampleContext;
use planfetch_plan::SampleId;
use serde::Deserialize;

#[derive(Deserialize)]
struct Manifest {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    backend: String,
    mean: f64,
    most: u8,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchvision")
}

fn manifest() -> Manifest {
    serde_json::from_slice(&std::fs::read(folder().join("manifest.json")).unwrap()).unwrap()
}

fn read(name: &str) -> DecodedImage {
    decode(&std::fs::read(folder().join(name)).unwrap(), &DecodeSettings::default()).unwrap()
}

fn apply(transforms: impl IntoIterator<Item = Transform>, image: DecodedImage) -> DecodedImage {
    let transforms = Compose::new(transforms);
    transforms.validate().unwrap();
    transforms.apply(image, SampleContext::new(SampleId(0), None, 1, 0, 0).rng()).unwrap()
}

fn resize(size: Size, interpolation: Interpolation) -> impl Fn(DecodedImage) -> DecodedImage {
    move |image| apply([Resize { size, max_size: None, interpolation }.into()], image)
}

fn center_crop(size: [usize; 2]) -> impl Fn(DecodedImage) -> DecodedImage {
    move |image| apply([CenterCrop { size }.into()], image)
}

fn changed(change: impl Fn(&mut DecodedImage)) -> impl Fn(DecodedImage) -> DecodedImage {
    move |mut image| {
        change(&mut image);
        image
    }
}

/// What each result of the manifest is made by here.
fn transforms() -> BTreeMap<&'static str, Box<dyn Fn(DecodedImage) -> DecodedImage>> {
    use Interpolation::{Bicubic, Bilinear, Nearest};
    use Size::{Exact, ShorterSide};
    let lean = |tangent: f64| tangent.atan().to_degrees();
    let mut all: BTreeMap<&'static str, Box<dyn Fn(DecodedImage) -> DecodedImage>> = BTreeMap::new();
    let mut add = |name, transform: Box<dyn Fn(DecodedImage) -> DecodedImage>| {
        assert!(all.insert(name, transform).is_none());
    };
    add("resize_shorter_20", Box::new(resize(ShorterSide(20), Bilinear)));
    add(
        "resize_shorter_20_max_24",
        Box::new(|image| {
            apply([Resize { size: ShorterSide(20), max_size: Some(24), ..Resize::default() }.into()], image)
        }),
    );
    add("resize_exact_bilinear", Box::new(resize(Exact([16, 31]), Bilinear)));
    add("resize_exact_bicubic", Box::new(resize(Exact([16, 31]), Bicubic)));
    add("resize_exact_nearest", Box::new(resize(Exact([16, 32]), Nearest)));
    add("resize_larger_bilinear", Box::new(resize(Exact([60, 70]), Bilinear)));
    add("resize_larger_bicubic", Box::new(resize(Exact([60, 70]), Bicubic)));
    add("resized_crop", Box::new(|image| resize(Exact([14, 14]), Bilinear)(f::crop(&image, 5, 9, 23, 30, [0; 3]))));
    add("center_crop", Box::new(center_crop([20, 31])));
    add("center_crop_larger", Box::new(center_crop([44, 31])));
    add("resize_center_crop", Box::new(|image| center_crop([20, 20])(resize(ShorterSide(24), Bilinear)(image))));
    add("horizontal_flip", Box::new(changed(f::horizontal_flip)));
    add("vertical_flip", Box::new(changed(f::vertical_flip)));
    add("rotate_30_nearest", Box::new(|image| f::rotate(&image, 30.0, Nearest, false, [9, 8, 7])));
    add("rotate_30_bilinear", Box::new(|image| f::rotate(&image, 30.0, Bilinear, false, [9, 8, 7])));
    add("rotate_minus_100_expand", Box::new(|image| f::rotate(&image, -100.0, Nearest, true, [0; 3])));
    add("rotate_90_expand", Box::new(|image| f::rotate(&image, 90.0, Nearest, true, [0; 3])));
    add("shear_x", Box::new(move |image| f::affine(&image, [0.0; 2], [lean(0.3), 0.0], [0.0; 2], Nearest, [0; 3])));
    add("shear_y", Box::new(move |image| f::affine(&image, [0.0; 2], [0.0, lean(-0.3)], [0.0; 2], Bilinear, [0; 3])));
    add("translate", Box::new(|image| f::affine(&image, [7.0, -4.0], [0.0; 2], [0.0; 2], Nearest, [1, 2, 3])));
    add("brightness_0.5", Box::new(changed(|image| f::adjust_brightness(image, 0.5))));
    add("brightness_1.7", Box::new(changed(|image| f::adjust_brightness(image, 1.7))));
    add("contrast_0.3", Box::new(changed(|image| f::adjust_contrast(image, 0.3))));
    add("contrast_1.8", Box::new(changed(|image| f::adjust_contrast(image, 1.8))));
    add("saturation_0.4", Box::new(changed(|image| f::adjust_saturation(image, 0.4))));
    add("saturation_2.1", Box::new(changed(|image| f::adjust_saturation(image, 2.1))));
    add("sharpness_0.2", Box::new(changed(|image| f::adjust_sharpness(image, 0.2))));
    add("sharpness_1.9", Box::new(changed(|image| f::adjust_sharpness(image, 1.9))));
    add("grayscale", Box::new(changed(f::rgb_to_grayscale)));
    add("posterize_3", Box::new(changed(|image| f::posterize(image, 3))));
    add("solarize_100", Box::new(changed(|image| f::solarize(image, 100.0))));
    add(
        "autocontrast",
        Box::new(changed(|image| {
            f::adjust_contrast(image, 0.4);
            f::autocontrast(image);
        })),
    );
    add("equalize", Box::new(changed(f::equalize)));
    add("hue_0.1", Box::new(changed(|image| f::adjust_hue(image, 0.1))));
    add("hue_minus_0.3", Box::new(changed(|image| f::adjust_hue(image, -0.3))));
    add("hue_0.5", Box::new(changed(|image| f::adjust_hue(image, 0.5))));
    add("tensor_resize_shorter_20", Box::new(resize(ShorterSide(20), Bilinear)));
    add("tensor_resize_exact_bicubic", Box::new(resize(Exact([16, 31]), Bicubic)));
    add("tensor_center_crop", Box::new(center_crop([20, 31])));
    add("tensor_brightness_1.7", Box::new(changed(|image| f::adjust_brightness(image, 1.7))));
    add("tensor_contrast_1.8", Box::new(changed(|image| f::adjust_contrast(image, 1.8))));
    add("tensor_saturation_2.1", Box::new(changed(|image| f::adjust_saturation(image, 2.1))));
    all
}

#[test]
fn transforms_compute_what_torchvisions_do() {
    let transforms = transforms();
    let manifest = manifest();
    assert_eq!(transforms.len(), manifest.cases.len(), "a transform without a result, or a result without a transform");
    let mut wrong = Vec::new();
    for Case { name, backend, mean, most } in manifest.cases {
        let result = transforms[&*name](read("input.png"));
        let expected = read(&format!("{name}.png"));
        if (result.height(), result.width()) != (expected.height(), expected.width()) {
            wrong.push(format!("{name}: {} x {}", result.height(), result.width()));
            continue;
        }
        let differences = result.pixels().iter().zip(expected.pixels()).map(|(a, b)| a.abs_diff(*b));
        let sum: f64 = differences.clone().map(f64::from).sum();
        let actual = (sum / result.pixels().len() as f64, differences.max().unwrap());
        if mean < actual.0 || most < actual.1 {
            wrong.push(format!("{name} ({backend}): off by {actual:?}, may be {:?}", (mean, most)));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn normalising_is_torchvisions_to_a_millionth() {
    let image = f::crop(&read("input.png"), 0, 0, 8, 48, [0; 3]);
    let settings =
        ImageSettings { height: 8, width: 48, mean: IMAGENET_MEAN, std: IMAGENET_STD, ..ImageSettings::default() };
    let mut values = vec![0.0_f32; 3 * 8 * 48];
    ToTensor::new(&settings).unwrap().write(&image, &mut values);
    let expected = std::fs::read(folder().join("normalized.f32")).unwrap();
    let (expected, _) = expected.as_chunks::<4>();
    assert_eq!(expected.len(), values.len());
    for (value, expected) in values.iter().zip(expected) {
        let expected = f32::from_le_bytes(*expected);
        assert!((value - expected).abs() <= 1e-6, "{value} is not {expected}");
    }
}
