//! How fast photographs come into a batch: decode, resize and normalise alone, and all together.
//!
//! `cargo bench -p planfetch-image` makes photographs of 500 x 375 pixels; `-- --files DIR` takes the JPEG files of a
//! folder, and `-- --write DIR` writes those that it made, for `pillow_torchvision.py` to be measured with. Everything
//! runs on one thread. It ends in an error when the whole is slower than 0.95 of the sum of its parts.

#![expect(clippy::print_stdout, reason = "a program that prints numbers")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use image::codecs::jpeg::JpegEncoder;
use planfetch_cache::LocalFile;
use planfetch_image::{
    ColorJitter, Compose, DecodeSettings, DecodedImage, IMAGENET_MEAN, IMAGENET_STD, ImageCollate, ImageDataset,
    ImageSettings, RandAugment, RandomHorizontalFlip, RandomResizedCrop, ToTensor, decode, resize,
};
use planfetch_index::SampleIndex;
use planfetch_loader::{BoxError, Collate, Dataset, SampleContext};
use planfetch_plan::SampleId;

/// Each time is the median of so many rounds; all parts are measured in each round, since a machine does other things.
const ROUNDS: usize = 15;

fn main() -> Result<(), BoxError> {
    let option = |name: &str| std::env::args().skip_while(|arg| arg != name).nth(1).map(PathBuf::from);
    let files = match option("--files") {
        Some(folder) => read_folder(&folder)?,
        None => (0..32).map(photograph).collect::<Result<_, _>>()?,
    };
    if let Some(folder) = option("--write") {
        std::fs::create_dir_all(&folder)?;
        for (i, file) in files.iter().enumerate() {
            std::fs::write(folder.join(format!("{i:03}.jpg")), file)?;
        }
    }
    let bytes: usize = files.iter().map(Vec::len).sum();
    println!(
        "{} JPEG files, {} kB each, one thread, median of {ROUNDS} rounds",
        files.len(),
        bytes / files.len() / 1_000
    );

    let plain = ImageSettings { mean: IMAGENET_MEAN, std: IMAGENET_STD, ..ImageSettings::default() };
    let crop = RandomResizedCrop::default();
    let flip = RandomHorizontalFlip::default();
    let with = |transforms: Compose| ImageSettings { transforms, ..plain.clone() };
    let mut wholes = [
        ("whole: resize to 224", Whole::new(&plain, &files)?),
        ("crop, flip", Whole::new(&with(Compose::new([crop.clone().into(), flip.clone().into()])), &files)?),
        (
            "crop, flip, jitter",
            Whole::new(
                &with(Compose::new([
                    crop.clone().into(),
                    flip.clone().into(),
                    ColorJitter::new(0.4, 0.4, 0.4, 0.1).into(),
                ])),
                &files,
            )?,
        ),
        (
            "crop, flip, RandAugment",
            Whole::new(&with(Compose::new([crop.into(), flip.into(), RandAugment::default().into()])), &files)?,
        ),
    ];
    let mut parts = Parts::new(&plain, &files)?;

    let mut times = vec![Vec::new(); 3 + wholes.len()];
    for _ in 0..ROUNDS {
        let [decoded, resized, normalised] = parts.round(&files)?;
        times[0].push(decoded);
        times[1].push(resized);
        times[2].push(normalised);
        for (i, (_, whole)) in wholes.iter_mut().enumerate() {
            times[3 + i].push(whole.round()?);
        }
    }
    let medians: Vec<f64> = times.into_iter().map(|times| median(times).as_secs_f64() / files.len() as f64).collect();
    let names = ["decode", "resize to 224", "normalise"].into_iter().chain(wholes.iter().map(|(name, _)| *name));
    for (name, seconds) in names.zip(&medians) {
        println!("{name:<26}{:>9.1} us {:>8.0} images/s", seconds * 1e6, 1.0 / seconds);
    }
    let ratio = medians[..3].iter().sum::<f64>() / medians[3];
    println!("whole / sum of its parts: {ratio:.3}, at least 0.95");

    let by_decoder = allocation_counter::measure(|| drop(black_box(decode(&files[0], &plain.decode))));
    let whole = &mut wholes[0].1;
    let by_sample = allocation_counter::measure(|| drop(black_box(whole.sample(0))));
    println!(
        "allocations of one sample: {} of {} kB in all, {} of them ({} kB) by the decoder",
        by_sample.count_total,
        by_sample.bytes_total / 1_000,
        by_decoder.count_total,
        by_decoder.bytes_total / 1_000
    );
    if ratio < 0.95 { Err("the whole is slower than its parts".into()) } else { Ok(()) }
}

fn read_folder(folder: &Path) -> Result<Vec<Vec<u8>>, std::io::Error> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jpg"));
    paths.sort();
    paths.iter().map(std::fs::read).collect()
}

/// Makes a file of smooth areas, edges and noise, about as hard to decode as a photograph.
fn photograph(seed: u32) -> Result<Vec<u8>, image::ImageError> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let picture = image::RgbImage::from_fn(500, 375, |x, y| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let noise = (state % 13) as i32 - 6;
        let is_inside = (x + seed * 7) % 90 < 40 && (y + seed * 11) % 70 < 45;
        let base =
            if is_inside { [190, 90, 60] } else { [(x * 200 / 500) as i32 + 20, (y * 200 / 375) as i32 + 20, 120] };
        image::Rgb(base.map(|value| (value + noise).clamp(0, 255) as u8))
    });
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 90).encode_image(&picture)?;
    Ok(bytes)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The steps, each on its own, with memory that is used again as far as the functions alone can.
struct Parts {
    decode: DecodeSettings,
    images: Vec<DecodedImage>,
    small: Vec<DecodedImage>,
    to_tensor: ToTensor,
    batch: Vec<f32>,
}

impl Parts {
    fn new(settings: &ImageSettings, files: &[Vec<u8>]) -> Result<Self, planfetch_image::ImageError> {
        let images: Vec<_> = files.iter().map(|file| decode(file, &settings.decode)).collect::<Result<_, _>>()?;
        let small = images.iter().map(|image| resize(image.clone(), 224, 224)).collect::<Result<_, _>>()?;
        let batch = vec![0.0; files.len() * 3 * 224 * 224];
        Ok(Self { decode: settings.decode.clone(), images, small, to_tensor: ToTensor::new(settings)?, batch })
    }

    fn round(&mut self, files: &[Vec<u8>]) -> Result<[Duration; 3], planfetch_image::ImageError> {
        let started = Instant::now();
        for file in files {
            black_box(decode(file, &self.decode)?);
        }
        let decoded = started.elapsed();
        // The copies are made outside of the time.
        let mut resized = Duration::ZERO;
        for image in &self.images {
            let image = image.clone();
            let started = Instant::now();
            black_box(resize(image, 224, 224)?);
            resized += started.elapsed();
        }
        let started = Instant::now();
        for (image, values) in self.small.iter().zip(self.batch.chunks_exact_mut(3 * 224 * 224)) {
            self.to_tensor.write(image, values);
        }
        black_box(&self.batch);
        Ok([decoded, resized, started.elapsed()])
    }
}

/// From files in memory into a batch, as a loader's worker does it.
struct Whole {
    dataset: ImageDataset,
    collate: ImageCollate,
    files: Vec<LocalFile>,
    buffer: Option<<ImageCollate as Collate<planfetch_image::ImageSample>>::Buffer>,
    epoch: u64,
}

impl Whole {
    fn new(settings: &ImageSettings, files: &[Vec<u8>]) -> Result<Self, BoxError> {
        let index = SampleIndex::from_rows((0..files.len()).map(|i| (format!("s3://b/{i}.jpg"), 0)))?;
        let collate = ImageCollate::new(settings)?;
        let files = files.iter().map(|file| LocalFile::from_bytes(file.clone())).collect();
        let buffer = Some(collate.buffer());
        Ok(Self { dataset: ImageDataset::new(index, settings.clone())?, collate, files, buffer, epoch: 0 })
    }

    fn sample(&self, i: usize) -> Result<planfetch_image::ImageSample, BoxError> {
        let id = SampleId(i as u64);
        self.dataset.get(&mut SampleContext::new(id, Some(&self.files[i]), 1, self.epoch, i as u64))
    }

    fn round(&mut self) -> Result<Duration, BoxError> {
        let mut buffer = self.buffer.take().ok_or("a round failed")?;
        let slots = self.collate.slots(&mut buffer, self.files.len());
        let started = Instant::now();
        for (i, slot) in slots.into_iter().enumerate() {
            self.collate.put(self.sample(i)?, slot)?;
        }
        let elapsed = started.elapsed();
        self.buffer = self.collate.recycle(self.collate.finish(buffer));
        self.epoch += 1;
        Ok(elapsed)
    }
}
