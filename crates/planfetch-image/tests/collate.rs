//! From images to batches: types, layouts, mixing, and how much memory it takes.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::Path;

use planfetch_image::half::{bf16, f16};
use planfetch_image::{
    BatchTransform, ColorJitter, ColorMode, Compose, DecodeSettings, DecodedImage, Element, IMAGENET_MEAN,
    IMAGENET_STD, ImageBatch, ImageCollate, ImageDataset, ImageSample, ImageSettings, Layout, RandomHorizontalFlip,
    RandomResizedCrop, contact_sheet, decode,
};
use planfetch_index::SampleIndex;
use planfetch_loader::{Collate, Dataset, SampleContext};
use planfetch_plan::SampleId;

const HEIGHT: usize = 6;
const WIDTH: usize = 5;

fn settings() -> ImageSettings {
    ImageSettings { height: HEIGHT, width: WIDTH, mean: IMAGENET_MEAN, std: IMAGENET_STD, ..ImageSettings::default() }
}

fn image(seed: usize, color: ColorMode) -> DecodedImage {
    let pixels = (0..HEIGHT * WIDTH * color.channels()).map(|i| (i * 7 + seed * 61) as u8).collect();
    DecodedImage::new(pixels, HEIGHT, WIDTH, color).unwrap()
}

fn sample(slot: usize, settings: &ImageSettings) -> ImageSample {
    let mut sample = ImageSample::new(image(slot, settings.decode.color), slot as i64 % 3);
    sample.seed = 1_000 + slot as u64;
    sample
}

fn collate<T: Element>(settings: &ImageSettings, n: usize) -> ImageBatch<T> {
    let collate = ImageCollate::<T>::with_dtype(settings).unwrap();
    let mut buffer = collate.buffer();
    for (i, slot) in collate.slots(&mut buffer, n).into_iter().enumerate() {
        collate.put(sample(i, settings), slot).unwrap();
    }
    collate.finish(buffer)
}

#[test]
fn every_value_is_where_its_layout_says_in_every_type() {
    fn check<T: Element>(layout: Layout, color: ColorMode, tolerance: f32) {
        let plain = ImageSettings { height: HEIGHT, width: WIDTH, ..ImageSettings::default() };
        let base = if T::IS_FLOAT { settings() } else { plain };
        let settings = ImageSettings { layout, decode: DecodeSettings { color, ..Default::default() }, ..base };
        let batch = collate::<T>(&settings, 4);
        for slot in 0..4 {
            let image = image(slot, color);
            for (y, x, c) in (0..HEIGHT).flat_map(|y| (0..WIDTH).flat_map(move |x| (0..3).map(move |c| (y, x, c)))) {
                let Some(&pixel) = image.pixel(y, x).get(c) else { continue };
                let expected = if T::IS_FLOAT {
                    (f32::from(pixel) / 255.0 - IMAGENET_MEAN[c]) / IMAGENET_STD[c]
                } else {
                    f32::from(pixel)
                };
                let at = if layout == Layout::Nchw { [slot, c, y, x] } else { [slot, y, x, c] };
                assert_eq!(batch.layout(), layout);
                let value = batch.images[at].to_f32();
                assert!((value - expected).abs() <= tolerance * expected.abs(), "{}: {value} {expected}", T::NAME);
            }
        }
    }
    for layout in [Layout::Nchw, Layout::Nhwc] {
        for color in [ColorMode::Rgb, ColorMode::Gray] {
            check::<f32>(layout, color, 0.0);
            // Half of the distance of two numbers with 11 and with 8 bits.
            check::<f16>(layout, color, 1.0 / 2048.0);
            check::<bf16>(layout, color, 1.0 / 256.0);
            check::<u8>(layout, color, 0.0);
        }
    }
}

#[test]
fn a_batch_of_bytes_is_neither_normalised_nor_mixed() {
    let error = ImageCollate::<u8>::with_dtype(&settings()).unwrap_err().to_string();
    assert!(error.contains("leave them 0 and 1"), "{error}");
    let mixed = ImageSettings {
        batch_transforms: vec![BatchTransform::MixUp { num_classes: 3, alpha: 1.0 }],
        ..ImageSettings::default()
    };
    let error = ImageCollate::<u8>::with_dtype(&mixed).unwrap_err().to_string();
    assert!(error.contains("take a float type"), "{error}");
}

#[test]
fn mixup_is_the_mean_of_an_image_and_the_one_before_it_and_so_are_the_labels() {
    let plain = collate::<f32>(&settings(), 5);
    let transforms = vec![BatchTransform::MixUp { num_classes: 3, alpha: 0.8 }];
    let mixed = collate::<f32>(&ImageSettings { batch_transforms: transforms, ..settings() }, 5);
    let soft = mixed.soft_labels.as_ref().unwrap();
    assert_eq!(mixed.labels, plain.labels);
    // The labels of the second image and of the one before it are not the same.
    let share = soft[[1, 1]];
    assert!(0.0 < share && share < 1.0);
    for slot in 0..5 {
        let before = (slot + 4) % 5;
        let (own, other) =
            (plain.images.index_axis(ndarray::Axis(0), slot), plain.images.index_axis(ndarray::Axis(0), before));
        for ((value, own), other) in mixed.images.index_axis(ndarray::Axis(0), slot).iter().zip(own).zip(other) {
            let expected = share * own + (1.0 - share) * other;
            assert!((value - expected).abs() < 1e-5, "{value} {expected}");
        }
        let mut expected = [0.0; 3];
        expected[plain.labels[slot] as usize] += share;
        expected[plain.labels[before] as usize] += 1.0 - share;
        for (class, expected) in expected.into_iter().enumerate() {
            assert!((soft[[slot, class]] - expected).abs() < 1e-6);
        }
    }
}

#[test]
fn cutmix_takes_one_rectangle_of_the_image_before_and_its_area_is_the_share() {
    for layout in [Layout::Nchw, Layout::Nhwc] {
        let base = ImageSettings { layout, ..settings() };
        let plain = collate::<f32>(&base, 4);
        // So large an alpha that half of the area is cut out, more or less.
        let transforms = vec![BatchTransform::CutMix { num_classes: 3, alpha: 50.0 }];
        let mixed = collate::<f32>(&ImageSettings { batch_transforms: transforms, ..base }, 4);
        let mut replaced = [[[false; WIDTH]; HEIGHT]; 4];
        for (slot, y, x) in (0..4).flat_map(|s| (0..HEIGHT).flat_map(move |y| (0..WIDTH).map(move |x| (s, y, x)))) {
            let pixel = |batch: &ImageBatch, slot: usize| {
                [0, 1, 2].map(|c| batch.images[if layout == Layout::Nchw { [slot, c, y, x] } else { [slot, y, x, c] }])
            };
            let (own, other) = (pixel(&plain, slot), pixel(&plain, (slot + 3) % 4));
            assert_ne!(own, other, "images of this test differ at every pixel");
            replaced[slot][y][x] = pixel(&mixed, slot) == other;
            assert!(replaced[slot][y][x] || pixel(&mixed, slot) == own);
        }
        assert!(replaced.iter().all(|of_slot| *of_slot == replaced[0]), "the rectangle is the same for all");
        let area = replaced[0].iter().flatten().filter(|&&is_replaced| is_replaced).count();
        let share = mixed.soft_labels.as_ref().unwrap()[[1, 1]];
        assert!((share - (1.0 - area as f32 / (HEIGHT * WIDTH) as f32)).abs() < 1e-6, "{share} {area}");
        assert!(0 < area && area < HEIGHT * WIDTH, "this seed shows something");
    }
}

#[test]
fn one_batch_transform_is_chosen_by_the_first_samples_number() {
    let transforms = vec![
        BatchTransform::MixUp { num_classes: 3, alpha: 0.4 },
        BatchTransform::CutMix { num_classes: 3, alpha: 1.0 },
    ];
    let settings = ImageSettings { batch_transforms: transforms, ..settings() };
    let collate = ImageCollate::new(&settings).unwrap();
    let batch = |seed: u64| {
        let mut buffer = collate.buffer();
        for (i, slot) in collate.slots(&mut buffer, 3).into_iter().enumerate() {
            let mut sample = sample(i, &settings);
            sample.seed = if i == 0 { seed } else { 77 };
            collate.put(sample, slot).unwrap();
        }
        collate.finish(buffer)
    };
    assert_eq!(batch(1), batch(1));
    let shares: std::collections::BTreeSet<u32> =
        (0..20).map(|seed| batch(seed).soft_labels.unwrap()[[1, 1]].to_bits()).collect();
    assert!(10 < shares.len());
    let mut buffer = collate.buffer();
    let slot = collate.slots(&mut buffer, 1).pop().unwrap();
    let error = collate.put(ImageSample::new(image(0, ColorMode::Rgb), 3), slot).unwrap_err().to_string();
    assert_eq!(error, "the label is 3, but num_classes of the batch transforms is 3");
}

#[test]
fn a_buffer_that_comes_back_holds_nothing_of_its_last_batch() {
    let settings = settings();
    let collate = ImageCollate::new(&settings).unwrap();
    let mut first = collate.buffer();
    for (i, slot) in collate.slots(&mut first, 4).into_iter().enumerate() {
        let mut sample = sample(i, &settings);
        sample.weight = 9.0;
        collate.put(sample, slot).unwrap();
    }
    let mut batch = collate.finish(first);
    let address = batch.images.as_ptr();
    // As the loader does, where ranks are padded.
    collate.set_padding(&mut batch, 3);
    assert_eq!(batch.padding.to_vec(), [false, true, true, true]);
    let mut again = collate.recycle(batch).unwrap();
    for (i, slot) in collate.slots(&mut again, 3).into_iter().enumerate() {
        collate.put(sample(i, &settings), slot).unwrap();
    }
    let again = collate.finish(again);
    assert_eq!(again.images.as_ptr(), address);
    assert_eq!(again, self::collate::<f32>(&settings, 3));
    assert_eq!((again.weights.to_vec(), again.padding.to_vec()), (vec![1.0; 3], vec![false; 3]));
    // A batch of which nothing is left.
    let mut empty = collate.recycle(again).unwrap();
    assert!(collate.slots(&mut empty, 0).is_empty());
    assert!(collate.finish(empty).is_empty());
}

#[test]
fn an_image_of_another_shape_is_an_error() {
    let collate = ImageCollate::new(&settings()).unwrap();
    let mut buffer = collate.buffer();
    let slot = collate.slots(&mut buffer, 1).pop().unwrap();
    let error = collate.put(ImageSample::new(image(0, ColorMode::Gray), 3), slot).unwrap_err().to_string();
    assert!(error.contains("the image has shape [6, 5, 1]") && error.contains("takes [6, 5, 3]"), "{error}");
}

fn photograph() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/decode/420.jpg")).unwrap()
}

#[test]
fn a_data_set_gives_weights_and_refuses_what_is_too_large() {
    let index = SampleIndex::from_rows([("s3://b/a.jpg".to_owned(), 4), ("s3://b/b.jpg".to_owned(), 5)]).unwrap();
    let settings = ImageSettings { height: 8, width: 8, ..ImageSettings::default() };
    let dataset = ImageDataset::new(index, settings.clone()).unwrap();
    let error = dataset.clone().with_weights([1.0]).unwrap_err().to_string();
    assert_eq!(error, "weights is a list of 1 for 2 samples, but there must be one for each sample");
    let dataset = dataset.with_weights([0.5, 2.0]).unwrap();
    let file = planfetch_cache::LocalFile::from_bytes(photograph());
    let get = |dataset: &ImageDataset| dataset.get(&mut SampleContext::new(SampleId(1), Some(&file), 1, 2, 3));
    let sample = get(&dataset).unwrap();
    assert_eq!((sample.label, sample.weight, sample.image.height()), (5, 2.0, 8));
    assert_eq!(sample, get(&dataset).unwrap());

    let decode = DecodeSettings { max_file_bytes: 100, ..DecodeSettings::default() };
    let small = ImageDataset::new(dataset.index().clone(), ImageSettings { decode, ..settings }).unwrap();
    let error = get(&small).unwrap_err().to_string();
    assert!(error.ends_with("but may have 100; raise max_file_bytes if it is meant to"), "{error}");
}

/// What a sample costs once a worker has made a few: the allocations of the decoder, and those of the resizer, which
/// makes its tables of weights anew for each image, in a vector of its own for each row and each column of the result.
#[test]
fn a_sample_allocates_nothing_but_what_decoder_and_resizer_do() {
    let (height, width) = (24, 20);
    let settings = ImageSettings {
        height,
        width,
        transforms: Compose::new([
            RandomResizedCrop { size: [height, width], ..RandomResizedCrop::default() }.into(),
            RandomHorizontalFlip::default().into(),
            ColorJitter::new(0.4, 0.4, 0.4, 0.1).into(),
        ]),
        ..settings()
    };
    let bytes = photograph();
    let index = SampleIndex::from_rows([("s3://b/a.jpg".to_owned(), 1)]).unwrap();
    let dataset = ImageDataset::new(index, settings.clone()).unwrap();
    let collate = ImageCollate::new(&settings).unwrap();
    let file = planfetch_cache::LocalFile::from_bytes(bytes.clone());
    let mut buffer = collate.buffer();
    let count = |work: &mut dyn FnMut()| allocation_counter::measure(work).count_total;
    let mut make = |epoch| {
        let mut ctx = SampleContext::new(SampleId(0), Some(&file), 1, epoch, 0);
        let mut slot = collate.slots(&mut buffer, 1).pop();
        count(&mut || {
            let sample = dataset.get(&mut ctx).unwrap();
            collate.put(sample, slot.take().unwrap()).unwrap();
        })
    };
    // The first ones fill what is kept.
    (0..5).for_each(|epoch| _ = make(epoch));
    let most = (5..40).map(&mut make).max().unwrap();
    let by_decoder = count(&mut || drop(decode(&bytes, &settings.decode).unwrap()));
    let tables = (height + width) as u64;
    assert!(most <= by_decoder + tables + 10, "{most} for a sample, {by_decoder} of them by the decoder");
    assert!(tables <= most - by_decoder, "the resizer has become better than this test and its documentation say");
}

#[test]
fn a_contact_sheet_shows_the_images_as_they_were_before_normalising() {
    for layout in [Layout::Nchw, Layout::Nhwc] {
        for color in [ColorMode::Rgb, ColorMode::Gray] {
            let decode = DecodeSettings { color, ..DecodeSettings::default() };
            let settings = ImageSettings { layout, decode, ..settings() };
            let sheet = contact_sheet(&collate::<f32>(&settings, 5), &settings, 2, |slot| format!("{slot}")).unwrap();
            // Enlarged 26 times, so that 5 pixels become 130, with a line of 14 pixels below and gaps of 4.
            assert_eq!((sheet.height(), sheet.width()), (3 * (156 + 14 + 4) + 4, 2 * 134 + 4));
            for slot in 0..5 {
                let image = image(slot, color);
                for (y, x) in (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (y, x))) {
                    let shown = sheet.pixel(4 + slot / 2 * 174 + y * 26 + 13, 4 + slot % 2 * 134 + x * 26 + 13);
                    let expected = [0, 1, 2].map(|c| image.pixel(y, x)[c.min(color.channels() - 1)]);
                    assert_eq!(shown, expected);
                }
            }
            // Below each image there is text.
            let lit = (4 + 156..4 + 170).flat_map(|y| (4..20).map(move |x| (y, x)));
            assert!(5 < lit.filter(|&(y, x)| sheet.pixel(y, x) == [235; 3]).count());
        }
    }
    let batch = collate::<f32>(&settings(), 2);
    assert!(contact_sheet(&batch, &settings(), 0, |_| String::new()).is_err());
    assert!(contact_sheet(&batch, &ImageSettings::default(), 2, |_| String::new()).is_err());
}
