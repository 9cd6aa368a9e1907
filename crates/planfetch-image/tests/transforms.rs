//! Pipelines: what they are written as, where their random numbers come from, and that they take any image.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use planfetch_image::{
    CenterCrop, ColorJitter, ColorMode, Compose, DecodedImage, ErasingValue, ImageSettings, Interpolation, Noise,
    RandAugment, RandomCrop, RandomErasing, RandomGrayscale, RandomHorizontalFlip, RandomResizedCrop, RandomRotation,
    RandomVerticalFlip, Resize, Size, Transform, TrivialAugmentWide,
};
use planfetch_loader::SampleContext;
use planfetch_plan::SampleId;
use proptest::prelude::*;

/// One of each, with settings that are not the default ones.
fn all() -> Vec<Transform> {
    vec![
        Resize { size: Size::ShorterSide(40), max_size: Some(90), interpolation: Interpolation::Bicubic }.into(),
        RandomRotation { expand: true, fill: [1, 2, 3], ..RandomRotation::new(20.0) }.into(),
        Resize { size: Size::Exact([36, 30]), interpolation: Interpolation::Nearest, ..Resize::default() }.into(),
        RandomCrop { size: [33, 34], padding: 3, pad_if_needed: true, fill: [9; 3] }.into(),
        RandAugment { num_ops: 3, magnitude: 14, ..RandAugment::default() }.into(),
        TrivialAugmentWide { interpolation: Interpolation::Bilinear, ..TrivialAugmentWide::default() }.into(),
        ColorJitter::new(0.3, 0.2, 0.5, 0.4).into(),
        RandomGrayscale { p: 0.3 }.into(),
        RandomVerticalFlip { p: 0.25 }.into(),
        RandomResizedCrop { size: [28, 29], scale: [0.3, 0.9], ..RandomResizedCrop::default() }.into(),
        RandomHorizontalFlip { p: 0.75 }.into(),
        RandomErasing { p: 0.9, value: ErasingValue::Noise(Noise::Random), ..RandomErasing::default() }.into(),
        CenterCrop { size: [26, 27] }.into(),
    ]
}

fn picture(height: usize, width: usize, color: ColorMode) -> DecodedImage {
    let channels = color.channels();
    let pixels = (0..height * width * channels).map(|i| (i * 37 % 251 + i / 7 % 5) as u8).collect();
    DecodedImage::new(pixels, height, width, color).unwrap()
}

fn apply(transforms: &Compose, image: DecodedImage, epoch: u64) -> DecodedImage {
    transforms.apply(image, SampleContext::new(SampleId(5), None, 42, epoch, 17).rng()).unwrap()
}

#[test]
fn a_pipeline_is_read_as_it_was_written() {
    let pipeline = Compose::new(all());
    let json = serde_json::to_string(&pipeline).unwrap();
    assert_eq!(serde_json::from_str::<Compose>(&json).unwrap(), pipeline);
    // What is left out has its default, and what is not known is an error.
    let pipeline: Compose =
        serde_json::from_str(r#"[{"RandomErasing": {"value": "random"}}, {"Resize": {}}]"#).unwrap();
    let erasing = RandomErasing { value: ErasingValue::Noise(Noise::Random), ..RandomErasing::default() };
    assert_eq!(pipeline, Compose::new([erasing.into(), Resize::default().into()]));
    for wrong in [r#"[{"Resize": {"sise": 3}}]"#, r#"[{"Enlarge": {}}]"#, r#"[{"CenterCrop": {"size": 224}}]"#] {
        assert!(serde_json::from_str::<Compose>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_pipeline_prints_as_torchvision_prints_one() {
    let settings = ImageSettings {
        transforms: Compose::new([
            Resize { size: Size::ShorterSide(256), ..Resize::default() }.into(),
            CenterCrop { size: [224, 224] }.into(),
            ColorJitter::new(0.4, 0.0, 0.0, 0.1).into(),
        ]),
        ..ImageSettings::default()
    };
    let expected = "\
Compose(
    Resize(size=[256], interpolation=bilinear, antialias=True)
    CenterCrop(size=(224, 224))
    ColorJitter(brightness=(0.6, 1.4), contrast=(1.0, 1.0), saturation=(1.0, 1.0), hue=(-0.1, 0.1))
    ToTensor(layout=NCHW)
    Normalize(mean=[0.0, 0.0, 0.0], std=[1.0, 1.0, 1.0])
)";
    assert_eq!(settings.to_string(), expected);
    assert_eq!(settings.transforms.to_string().lines().count(), 5);
}

#[test]
fn augmentation_depends_on_the_samples_generator_alone() {
    let pipeline = Compose::new(all());
    for color in [ColorMode::Rgb, ColorMode::Gray] {
        let first = apply(&pipeline, picture(50, 70, color), 3);
        let again = std::thread::spawn({
            let pipeline = pipeline.clone();
            move || apply(&pipeline, picture(50, 70, color), 3)
        });
        assert_eq!(first, again.join().unwrap());
        assert_ne!(first, apply(&pipeline, picture(50, 70, color), 4));
    }
}

#[test]
fn augmentation_does_not_change_between_versions() {
    // FNV-1a of the pixels. Where one of these changes, training runs can't be repeated: say so in the changelog.
    // Not of what resizes: that differs in the last bit between processors.
    let golden: [(Transform, u64); 8] = [
        (RandomCrop { size: [33, 34], padding: 3, ..RandomCrop::default() }.into(), 0x7e38_ebe2_0c14_be74),
        (
            RandomRotation { interpolation: Interpolation::Bilinear, ..RandomRotation::new(20.0) }.into(),
            0xb499_cb2a_6365_d0c3,
        ),
        (RandAugment { num_ops: 3, magnitude: 14, ..RandAugment::default() }.into(), 0x6733_19c3_a027_2760),
        (TrivialAugmentWide::default().into(), 0xb27e_8190_344e_f0ef),
        (ColorJitter::new(0.3, 0.2, 0.5, 0.4).into(), 0xe2fd_578e_e758_297e),
        (RandomHorizontalFlip { p: 0.99 }.into(), 0xcde6_7fbd_598e_ea5f),
        (RandomErasing { p: 0.99, ..RandomErasing::default() }.into(), 0xf52c_7c6f_25d4_9b7f),
        (
            RandomErasing { p: 0.99, value: ErasingValue::Noise(Noise::Random), ..RandomErasing::default() }.into(),
            0x0ad6_7907_f3ab_1792,
        ),
    ];
    for (transform, expected) in golden {
        let image = apply(&Compose::new([transform.clone()]), picture(50, 70, ColorMode::Rgb), 0);
        let hash = image.pixels().iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        assert_eq!(hash, expected, "{transform}: {hash:#018x}");
    }
}

#[test]
fn settings_out_of_range_are_errors_that_say_the_range() {
    let wrong: [(Transform, &str); 14] = [
        (
            Resize { size: Size::ShorterSide(0), ..Resize::default() }.into(),
            "size is [0, 0], but each side must lie in",
        ),
        (Resize { size: Size::Exact([1, 70_000]), ..Resize::default() }.into(), "size is [1, 70000]"),
        (Resize { max_size: Some(224), ..Resize::default() }.into(), "max_size is 224, but must lie above"),
        (Resize { size: Size::Exact([5, 5]), max_size: Some(9), ..Resize::default() }.into(), "max_size is 9"),
        (CenterCrop { size: [0, 5] }.into(), "size is [0, 5]"),
        (RandomCrop { padding: 1 << 20, ..RandomCrop::default() }.into(), "padding is 1048576"),
        (RandomHorizontalFlip { p: -0.1 }.into(), "p is -0.1, but must lie in 0..=1"),
        (RandomVerticalFlip { p: f64::NAN }.into(), "p is NaN"),
        (RandomResizedCrop { scale: [0.5, 0.1], ..Default::default() }.into(), "scale is [0.5, 0.1]"),
        (RandomResizedCrop { ratio: [0.0, 1.0], ..Default::default() }.into(), "ratio is [0, 1]"),
        (ColorJitter { hue: [-0.6, 0.0], ..Default::default() }.into(), "hue is [-0.6, 0]"),
        (RandomRotation::new(f64::INFINITY).into(), "degrees is [-inf, inf]"),
        (RandAugment { magnitude: 31, ..Default::default() }.into(), "magnitude is 31, but must be below"),
        (TrivialAugmentWide { num_magnitude_bins: 1, ..Default::default() }.into(), "num_magnitude_bins is 1"),
    ];
    for (transform, expected) in wrong {
        let error = Compose::new([transform]).validate().unwrap_err().to_string();
        assert!(error.contains(expected), "{error} does not say {expected:?}");
    }
    Compose::new(all()).validate().unwrap();
}

#[test]
fn an_image_that_a_transform_cannot_take_is_an_error_that_says_what_to_do() {
    let error = |transform: Transform, image| {
        let mut ctx = SampleContext::new(SampleId(0), None, 0, 0, 0);
        Compose::new([transform]).apply(image, ctx.rng()).unwrap_err().to_string()
    };
    let small = || picture(20, 300, ColorMode::Rgb);
    assert_eq!(
        error(RandomCrop::default().into(), small()),
        "RandomCrop can't be applied to an image of 20 x 300 pixels: it takes 224 x 224 pixels; resize images first, \
         or set pad_if_needed"
    );
    let long = picture(1, 1_000, ColorMode::Gray);
    assert_eq!(
        error(Resize::default().into(), long),
        "Resize can't be applied to an image of 1 x 1000 pixels: it would become 224 x 224000 pixels; give max_size"
    );
}

#[test]
fn a_random_crop_is_everywhere_equally_often_and_pads_with_its_fill() {
    // Each pixel is its own place, so that the crop says where it is.
    let image = DecodedImage::new((0..20).collect(), 4, 5, ColorMode::Gray).unwrap();
    let crop = Compose::new([RandomCrop { size: [2, 2], padding: 1, fill: [99; 3], ..RandomCrop::default() }.into()]);
    let mut counts = std::collections::BTreeMap::new();
    for id in 0..6_000 {
        let mut ctx = SampleContext::new(SampleId(id), None, 0, 0, 0);
        let cropped = crop.apply(image.clone(), ctx.rng()).unwrap();
        *counts.entry(cropped.into_pixels()).or_insert(0) += 1;
    }
    assert!(counts.contains_key(&vec![99, 99, 99, 0]) && counts.contains_key(&vec![19, 99, 99, 99]));
    // Five rows and six columns, each expected 200 times.
    assert_eq!(counts.len(), 30);
    assert!(counts.values().all(|count| (140..270).contains(count)), "{counts:?}");
}

#[test]
fn flips_happen_as_often_as_they_should() {
    let image = DecodedImage::new(vec![1, 2], 1, 2, ColorMode::Gray).unwrap();
    let flip = Compose::new([RandomHorizontalFlip { p: 0.3 }.into()]);
    let flipped = (0..5_000).filter(|&id| {
        let mut ctx = SampleContext::new(SampleId(id), None, 0, 0, 0);
        flip.apply(image.clone(), ctx.rng()).unwrap().pixels() == [2, 1]
    });
    assert!((1_400..1_600).contains(&flipped.count()));
}

#[test]
fn a_batch_takes_one_size_and_says_so() {
    let settings =
        |transforms: Vec<Transform>| ImageSettings { transforms: Compose::new(transforms), ..Default::default() };
    let new = |settings| planfetch_image::ImageCollate::new(&settings);
    let open = settings(vec![Resize::default().into(), RandomHorizontalFlip::default().into()]);
    let error = new(open).unwrap_err().to_string();
    assert!(error.contains("leaves the size of images open") && error.contains("add a CenterCrop"), "{error}");
    let other = settings(vec![CenterCrop { size: [96, 96] }.into()]);
    let error = new(other).unwrap_err().to_string();
    assert!(error.contains("ends in images of 96 x 96"), "{error}");
    let expanded = vec![CenterCrop::default().into(), RandomRotation { expand: true, ..Default::default() }.into()];
    assert!(new(settings(expanded)).is_err());
    new(settings(vec![RandomResizedCrop::default().into(), RandAugment::default().into()])).unwrap();
    // A shorter side is enough where both sides are known.
    new(settings(vec![CenterCrop { size: [300, 300] }.into(), Resize::default().into()])).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_pipeline_takes_any_image(
        height in 1_usize..60,
        width in 1_usize..60,
        is_gray: bool,
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        epoch: u64,
    ) {
        let color = if is_gray { ColorMode::Gray } else { ColorMode::Rgb };
        let all = all();
        let pipeline: Compose = picks.iter().map(|pick| pick.get(&all).clone()).collect();
        let image = apply(&pipeline, picture(height, width, color), epoch);
        prop_assert_eq!(image.pixels().len(), image.height() * image.width() * color.channels());
        if let Some(size) = pipeline.output_size() {
            prop_assert_eq!([image.height(), image.width()], size);
        }
    }
}
