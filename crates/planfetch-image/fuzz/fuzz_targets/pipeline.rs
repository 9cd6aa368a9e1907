//! Any bytes become an error, or an image that every pipeline takes and that fits in its slot; the same each time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use planfetch_image::{
    CenterCrop, ColorJitter, ColorMode, Compose, DecodeSettings, DecodedImage, ErasingValue, ImageCollate, ImageSample,
    ImageSettings, Interpolation, Noise, RandAugment, RandomCrop, RandomErasing, RandomGrayscale, RandomHorizontalFlip,
    RandomResizedCrop, RandomRotation, RandomVerticalFlip, Resize, Size, Transform, TrivialAugmentWide, decode,
};
use planfetch_loader::{Collate, SampleContext};
use planfetch_plan::SampleId;

fn transforms() -> [Transform; 14] {
    [
        Resize { size: Size::ShorterSide(20), max_size: Some(64), interpolation: Interpolation::Bicubic }.into(),
        Resize { size: Size::Exact([17, 19]), interpolation: Interpolation::Nearest, ..Resize::default() }.into(),
        Resize { size: Size::ShorterSide(3), ..Resize::default() }.into(),
        CenterCrop { size: [15, 40] }.into(),
        RandomCrop { size: [12, 13], padding: 2, pad_if_needed: true, fill: [1, 2, 3] }.into(),
        RandomResizedCrop { size: [24, 23], ..RandomResizedCrop::default() }.into(),
        RandomHorizontalFlip::default().into(),
        RandomVerticalFlip::default().into(),
        RandomRotation { expand: true, interpolation: Interpolation::Bilinear, ..RandomRotation::new(180.0) }.into(),
        ColorJitter::new(0.9, 0.9, 0.9, 0.5).into(),
        RandomGrayscale { p: 0.5 }.into(),
        RandAugment { num_ops: 3, magnitude: 25, ..RandAugment::default() }.into(),
        TrivialAugmentWide { interpolation: Interpolation::Bilinear, ..TrivialAugmentWide::default() }.into(),
        RandomErasing { p: 0.9, value: ErasingValue::Noise(Noise::Random), ..RandomErasing::default() }.into(),
    ]
}

// The last bytes choose, so that files begin as files do.
fuzz_target!(|input: &[u8]| {
    let (file, choice) = input.split_at(input.len().saturating_sub(6));
    let byte = |i: usize| usize::from(choice.get(i).copied().unwrap_or(0));
    let settings = DecodeSettings {
        color: if byte(0) & 1 == 0 { ColorMode::Rgb } else { ColorMode::Gray },
        apply_orientation: byte(0) & 2 == 0,
        background: (byte(0) & 4 != 0).then_some([200, 100, 50]),
        max_pixels: 1 << 18,
        ..DecodeSettings::default()
    };
    // A file with these six bytes behind its end decodes as it does without them, mostly; both are tried.
    let _ = decode(input, &settings);
    let Ok(image) = decode(file, &settings) else { return };
    assert!(image.height() * image.width() <= 1 << 18);
    assert_eq!(image.pixels().len(), image.height() * image.width() * image.color().channels());
    assert_eq!(decode(file, &settings).expect("it was decoded before"), image);

    let all = transforms();
    let last = RandomResizedCrop { size: [9, 8], ..RandomResizedCrop::default() }.into();
    let picks = (1..5).map(|i| all[byte(i) % all.len()].clone());
    let transforms: Compose = picks.chain([last]).collect();
    let settings = ImageSettings { height: 9, width: 8, transforms, decode: settings, ..ImageSettings::default() };
    let augment = |image: DecodedImage| {
        let mut ctx = SampleContext::new(SampleId(0), None, byte(5) as u64, 0, 0);
        settings.transforms.apply(image, ctx.rng())
    };
    // Only an image that is thin beyond what a pipeline can take may be refused.
    let Ok(augmented) = augment(image.clone()) else { return };
    assert_eq!(augment(image).expect("it was augmented before"), augmented);
    let collate = ImageCollate::new(&settings).expect("the settings are in range");
    let mut buffer = collate.buffer();
    let slot = collate.slots(&mut buffer, 1).pop().expect("one slot was asked for");
    collate.put(ImageSample::new(augmented, 0), slot).expect("it has the size of the batch");
    let batch = collate.finish(buffer);
    assert!(batch.images.iter().all(|value| (0.0..=1.0).contains(value)));
});
