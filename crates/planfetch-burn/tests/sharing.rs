//! Tensors share the memory of batches, and nothing that a program does with one shows in another.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::data::dataloader::DataLoader;
use burn::tensor::{Device, Int, Tensor};
use planfetch::image::{DecodedImage, Element, ImageSample};
use planfetch::prelude::*;
use planfetch_burn::{Pixel, PlanDataLoader, PlanDataLoaderBuilder, SoftLabelCollate, ToTensors};

const LEN: u64 = 60;
const BATCH_SIZE: usize = 8;
const SIDE: usize = 16;

/// Images of one brightness each, which is that of their id.
struct Grey;

impl ObjectUris for Grey {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Grey {
    type Sample = ImageSample;

    fn len(&self) -> u64 {
        LEN
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<ImageSample, BoxError> {
        let id = ctx.id().0;
        let image = DecodedImage::new(vec![u8::try_from(id)?; SIDE * SIDE * 3], SIDE, SIDE, ColorMode::Rgb)
            .ok_or("it has three channels")?;
        Ok(ImageSample::new(image, id as i64))
    }
}

/// Counts how often memory for a batch is made.
struct Counted<C>(C, Arc<AtomicUsize>);

impl<C: Collate<ImageSample>> Collate<ImageSample> for Counted<C> {
    type Buffer = C::Buffer;
    type Slot<'b> = C::Slot<'b>;
    type Batch = C::Batch;

    fn buffer(&self) -> C::Buffer {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.buffer()
    }

    fn slots<'b>(&self, buffer: &'b mut C::Buffer, len: usize) -> Vec<C::Slot<'b>> {
        self.0.slots(buffer, len)
    }

    fn put(&self, sample: ImageSample, slot: C::Slot<'_>) -> Result<(), BoxError> {
        self.0.put(sample, slot)
    }

    fn finish(&self, buffer: C::Buffer) -> C::Batch {
        self.0.finish(buffer)
    }

    fn recycle(&self, batch: C::Batch) -> Option<C::Buffer> {
        self.0.recycle(batch)
    }
}

fn images() -> ImageSettings {
    ImageSettings { height: SIDE, width: SIDE, ..ImageSettings::default() }
}

fn loader<C>(collate: C, staging: bool) -> (PlanDataLoader<<C::Batch as ToTensors>::Tensors>, Arc<AtomicUsize>)
where
    C: Collate<ImageSample>,
    C::Batch: ToTensors,
    <C::Batch as ToTensors>::Tensors: 'static,
{
    let made = Arc::new(AtomicUsize::new(0));
    let plan = ShuffleOncePerEpochPlanProvider::new(LEN, BATCH_SIZE, 42).unwrap();
    let builder = PlanDataLoaderBuilder::new(Grey, plan).with_device(&Device::flex()).with_staging(staging);
    (builder.build(Counted(collate, Arc::clone(&made))).unwrap(), made)
}

#[track_caller]
fn check(images: Tensor<4>, labels: Tensor<1, Int>) {
    let labels = labels.into_data().convert::<i64>().try_to_vec::<i64>().unwrap();
    let values = images.into_data().try_to_vec::<f32>().unwrap();
    assert_eq!(values.len(), labels.len() * 3 * SIDE * SIDE);
    for (image, label) in values.chunks_exact(3 * SIDE * SIDE).zip(labels) {
        assert!(image.iter().all(|&value| value == label as f32 / 255.0), "an image of {label}");
    }
}

/// Takes five epochs, of which some tensors are kept to the end, some are written to, and some are dropped on another
/// thread.
fn keep_and_write<T: Element + Pixel>(staging: bool) {
    let (loader, _) = loader(ImageCollate::<T>::with_dtype(&images()).unwrap(), staging);
    let mut kept = Vec::new();
    for epoch in 0..5 {
        for (step, batch) in loader.iter().enumerate() {
            let (images, labels) = batch.unwrap();
            match (step + epoch) % 4 {
                // A view keeps the memory as well as the whole does.
                0 => kept.push((images.clone().narrow(0, 1, 3), labels.clone().narrow(0, 1, 3))),
                1 => {
                    let whole = images.clone();
                    let written = images.slice_assign([0..2, 0..3], Tensor::ones([2, 3, SIDE, SIDE], &Device::flex()));
                    assert_eq!(written.narrow(0, 0, 2).min().into_scalar::<f32>(), 1.0);
                    kept.push((whole, labels));
                    continue;
                }
                // Nobody else has this one: it may be written to in place.
                2 => drop(images.clone().mul_scalar(0.0) + images.mul_scalar(7.0)),
                _ => std::thread::spawn(move || drop(images)).join().unwrap(),
            }
        }
    }
    assert!(15 < kept.len());
    kept.into_iter().for_each(|(images, labels)| check(images, labels));
}

#[test]
fn what_is_kept_stays_as_it_was_whatever_the_program_does_with_others() {
    keep_and_write::<f32>(false);
    keep_and_write::<f32>(true);
    keep_and_write::<u8>(false);
    keep_and_write::<u8>(true);
}

#[test]
fn memory_comes_back_to_the_loader_with_the_last_tensor_and_not_before() {
    let (loader, made) = loader(ImageCollate::new(&images()).unwrap(), false);
    let ahead = LoaderSettings::default().prefetch_factor;
    for _ in 0..10 {
        for batch in loader.iter() {
            let (images, labels) = batch.unwrap();
            check(images, labels);
        }
    }
    let reused = made.load(Ordering::SeqCst);
    assert!(reused <= ahead + 2, "{reused} buffers for 80 batches");

    let kept: Vec<_> = (0..10).flat_map(|_| loader.iter().map(Result::unwrap).collect::<Vec<_>>()).collect();
    assert!(kept.len() <= made.load(Ordering::SeqCst), "each that is kept has memory of its own");
}

#[test]
fn mixed_images_without_soft_labels_are_an_error_that_says_what_to_do() {
    let mix = BatchTransform::CutMix { num_classes: LEN as usize, alpha: 1.0 };
    let images = ImageSettings { batch_transforms: vec![mix], ..images() };
    let (loader, _) = loader(ImageCollate::new(&images).unwrap(), false);
    let results: Vec<_> = loader.iter().map(|batch| batch.map_err(|error| error.to_string())).collect();
    assert_eq!(results.len(), 1);
    let error = results[0].as_ref().unwrap_err();
    assert!(error.contains("SoftLabelCollate"), "{error}");
}

#[test]
fn tensors_outlive_their_loader() {
    let (loader, _) = loader(ImageCollate::new(&images()).unwrap(), false);
    let kept: Vec<_> = loader.iter().take(3).map(Result::unwrap).collect();
    drop(loader);
    kept.into_iter().for_each(|(images, labels)| check(images, labels));
}

#[test]
fn mixed_images_are_shared_too() {
    let mix = BatchTransform::MixUp { num_classes: LEN as usize, alpha: 1.0 };
    let images = ImageSettings { batch_transforms: vec![mix], ..images() };
    let (loader, made) = loader(SoftLabelCollate::new(ImageCollate::<f32>::new(&images).unwrap()), false);
    for _ in 0..10 {
        for batch in loader.iter() {
            let (images, shares) = batch.unwrap();
            let classes = Tensor::<1, Int>::arange(0..LEN as i64, &Device::flex()).float().unsqueeze::<2>();
            // Of images of one brightness each, the mean of a mixture is that of its shares.
            let expected = (shares * classes).sum_dim(1) / 255.0;
            let means = images.flatten::<2>(1, 3).mean_dim(1);
            let error = (means - expected).abs().max().into_scalar::<f32>();
            assert!(error < 1e-4, "{error}");
        }
    }
    assert!(made.load(Ordering::SeqCst) <= LoaderSettings::default().prefetch_factor + 2);
}
