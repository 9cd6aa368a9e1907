//! burn's own loader and this one, side by side on the same local photographs.
//!
//! Both give batches of 64 float tensors of `[64, 3, 224, 224]`, normalised, from JPEG files of 500 by 375 pixels, with
//! the same number of workers and in an order that is new in each epoch:
//!
//! - `burn_image`: burn's `DataLoaderBuilder` over its `ImageFolderDataset`, with a batcher that resizes by the image
//!   crate, bilinear;
//! - `burn_fast`: the same, with a batcher that resizes by fast_image_resize;
//! - `planfetch`: `PlanDataLoader` over the same files through a cache, which holds them from the round before;
//! - `ceiling`: what planfetch does to a file, reading, decoding, resizing and collating, by as many threads and nothing
//!   beside it: no order, no loader, no tensor.
//!
//! Each round measures four epochs of all four, one after the other; the medians count.
//!
//! ```text
//! cd benches/side-by-side && cargo run --release [-- FOLDER]
//! ```
//!
//! `FOLDER` has RGB photographs in a folder for each class; without it, some are made.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_dataset::vision::{Annotation, ImageDatasetItem, ImageFolderDataset};
use fast_image_resize::images::Image;
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use image::RgbImage;
use image::imageops;
use planfetch::image::{ImageSample, decode, resize};
use planfetch::index::{FolderSettings, load_index_folder};
use planfetch::prelude::*;
use planfetch_burn::PlanDataLoaderBuilder;
use planfetch_testkit::fixtures;
use serde_json::json;

type Tensors = (Tensor<4>, Tensor<1, Int>);

const SIDE: usize = 224;
const BATCH_SIZE: usize = 64;
const WORKERS: usize = 2;
const EPOCHS: usize = 4;
const ROUNDS: usize = 3;

/// Takes what `ImageFolderDataset` gives, as a burn project's batcher does.
#[derive(Clone)]
struct Photographs {
    fast: bool,
}

impl Photographs {
    fn resize(&self, image: RgbImage) -> Vec<u8> {
        if !self.fast {
            return imageops::resize(&image, SIDE as u32, SIDE as u32, imageops::FilterType::Triangle).into_raw();
        }
        let (width, height) = image.dimensions();
        let from =
            Image::from_vec_u8(width, height, image.into_raw(), PixelType::U8x3).expect("as many bytes as pixels");
        let mut to = Image::new(SIDE as u32, SIDE as u32, PixelType::U8x3);
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        Resizer::new().resize(&from, &mut to, &options).expect("both are of three bytes");
        to.into_vec()
    }
}

impl Batcher<ImageDatasetItem, Tensors> for Photographs {
    fn batch(&self, items: Vec<ImageDatasetItem>, device: &Device) -> Tensors {
        let len = items.len();
        let mut values = vec![0.0_f32; len * 3 * SIDE * SIDE];
        let mut labels = Vec::with_capacity(len);
        for (item, slot) in items.into_iter().zip(values.chunks_exact_mut(3 * SIDE * SIDE)) {
            let pixels: Vec<u8> = item.image.try_into().expect("JPEG files have bytes");
            let image = RgbImage::from_raw(item.image_width as u32, item.image_height as u32, pixels);
            let pixels = self.resize(image.expect("they are RGB"));
            for (channel, plane) in slot.chunks_exact_mut(SIDE * SIDE).enumerate() {
                let (scale, mean) =
                    (1.0 / (255.0 * IMAGENET_STD[channel]), IMAGENET_MEAN[channel] / IMAGENET_STD[channel]);
                for (value, pixel) in plane.iter_mut().zip(pixels.chunks_exact(3)) {
                    *value = f32::from(pixel[channel]) * scale - mean;
                }
            }
            let Annotation::Label(label) = item.annotation else { unreachable!("a folder per class gives labels") };
            labels.push(label as i64);
        }
        let images = TensorData::new(values, [len, 3, SIDE, SIDE]);
        (Tensor::from_data(images, device), Tensor::from_data(TensorData::new(labels, [len]), device))
    }
}

/// Makes a loader, takes some epochs and returns the samples per second. Each measurement has a loader of its own, so that
/// none decodes ahead while another is measured.
fn epochs(make: &dyn Fn() -> Result<Arc<dyn DataLoader<Tensors>>, BoxError>, files: usize) -> Result<f64, BoxError> {
    let started = Instant::now();
    let loader = make()?;
    let mut taken = 0;
    for _ in 0..EPOCHS {
        for batch in loader.iter() {
            let (images, labels) = batch?;
            assert_eq!(images.dims()[1..], [3, SIDE, SIDE]);
            taken += labels.dims()[0];
        }
    }
    assert_eq!(taken, EPOCHS * files);
    Ok(taken as f64 / started.elapsed().as_secs_f64())
}

/// Makes photographs in `folder`, of which 16 differ.
fn make_photographs(folder: &Path) -> std::io::Result<PathBuf> {
    let different: Vec<_> = (0..16).map(|seed| fixtures::jpeg(&fixtures::photograph(500, 375, seed))).collect();
    for i in 0..1_500 {
        let class = folder.join(format!("class_{}", i % 4));
        std::fs::create_dir_all(&class)?;
        std::fs::write(class.join(format!("{i:06}.jpg")), &different[i % different.len()])?;
    }
    Ok(folder.to_path_buf())
}

/// Does to each file what planfetch does, without a loader, and returns the samples per second.
fn bare(index: &SampleIndex, settings: &ImageSettings) -> Result<f64, BoxError> {
    let (started, next) = (Instant::now(), AtomicUsize::new(0));
    let (files, samples) = (index.labels().len(), EPOCHS * index.labels().len());
    std::thread::scope(|scope| {
        let work = || -> Result<(), BoxError> {
            let collate = ImageCollate::new(settings)?;
            let mut buffer = collate.buffer();
            loop {
                let first = next.fetch_add(BATCH_SIZE, Ordering::Relaxed);
                if samples <= first {
                    return Ok(());
                }
                let rows = first..samples.min(first + BATCH_SIZE);
                for (slot, row) in collate.slots(&mut buffer, rows.len()).into_iter().zip(rows) {
                    let uri = index.uri(row % files).ok_or("the index has as many rows")?;
                    let file = std::fs::read(uri.strip_prefix("file://").unwrap_or(&uri))?;
                    let image = resize(decode(&file, &settings.decode)?, settings.height, settings.width)?;
                    collate.put(ImageSample::new(image, 0), slot)?;
                }
            }
        };
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })?;
    Ok(samples as f64 / started.elapsed().as_secs_f64())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() -> Result<(), BoxError> {
    let (made, cache_dir) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let folder = given.map_or_else(|| make_photographs(made.path()), |folder| Ok(folder.into()))?;
    let theirs = |fast| -> Result<Arc<dyn DataLoader<Tensors>>, BoxError> {
        let dataset = ImageFolderDataset::new_classification(&folder)?;
        let loader = DataLoaderBuilder::new(Photographs { fast }).batch_size(BATCH_SIZE).shuffle(42);
        Ok(loader.num_workers(WORKERS).set_device(Device::flex()).build(dataset))
    };
    let index = load_index_folder(&folder, &FolderSettings::default())?;
    // OK because so many names fit in memory.
    let files = index.len() as usize;
    // The cache copies local files too; a round that is not counted does it.
    let settings = CacheSettings { eviction: EvictionMode::Pressure, ..CacheSettings::default() };
    let cache = DiskCache::builder(cache_dir.path().join("cache")).with_settings(settings).build()?;
    let images = ImageSettings { mean: IMAGENET_MEAN, std: IMAGENET_STD, ..ImageSettings::default() };
    let ours = || -> Result<Arc<dyn DataLoader<Tensors>>, BoxError> {
        let plan = ShuffleOncePerEpochPlanProvider::new(index.len(), BATCH_SIZE, 42)?;
        let settings =
            LoaderSettings { num_workers: WORKERS, num_epochs: Some(EPOCHS as u64), ..LoaderSettings::default() };
        let builder = PlanDataLoaderBuilder::new(ImageDataset::new(index.clone(), images.clone())?, plan)
            .with_cache(cache.clone())
            .with_device(&Device::flex())
            .with_settings(settings);
        Ok(Arc::new(builder.build(ImageCollate::new(&images)?)?))
    };
    let (with_image, with_fast) = (|| theirs(false), || theirs(true));
    let loaders: [&dyn Fn() -> Result<Arc<dyn DataLoader<Tensors>>, BoxError>; 3] = [&with_image, &with_fast, &ours];

    let mut rates = [const { Vec::new() }; 4];
    for round in 0..=ROUNDS {
        let mut round_rates = Vec::new();
        for loader in loaders {
            round_rates.push(epochs(loader, files)?);
        }
        round_rates.push(bare(&index, &images)?);
        if 0 < round {
            rates.iter_mut().zip(round_rates).for_each(|(rates, rate)| rates.push(rate));
        }
    }
    let [with_image, with_fast, ours, ceiling] = rates.map(median);
    let ratio = |other: f64| (1_000.0 * ours / other).round() / 1_000.0;
    let result = json!({
        "benchmark": "side-by-side",
        "files": files,
        "workers": WORKERS,
        "cores": std::thread::available_parallelism()?.get(),
        "burn_image_per_s": with_image.round(),
        "burn_fast_per_s": with_fast.round(),
        "planfetch_per_s": ours.round(),
        "ceiling_per_s": ceiling.round(),
        "over_burn_image": ratio(with_image),
        "over_burn_fast": ratio(with_fast),
        "over_ceiling": ratio(ceiling),
    });
    println!("{result:#}");
    Ok(())
}
