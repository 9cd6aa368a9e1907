//! Trains a small residual net on photographs, as on ImageNet: any folder with a folder for each class, or any index.
//!
//! Training images are cropped, flipped and jittered at random, and come through a cache that holds the window;
//! validation images are cropped at the centre, in the order of the index, and stay in a second cache as long as there is
//! room. burn's `Learner` keeps a checkpoint of each epoch, shows the progress, and counts top-1 and top-5.

mod model;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::train::metric::{AccuracyMetric, LossMetric, TopKAccuracyMetric};
use burn::train::{Learner, SupervisedTraining};
use clap::Parser;
use planfetch::cache::{CacheLimit, EvictionMode};
use planfetch::prelude::*;
use planfetch_burn::{PlanDataLoader, PlanDataLoaderBuilder, ReportLogger, ToTensors};

use crate::model::Net;

/// Trains a classifier of photographs
#[derive(Debug, Parser)]
struct Options {
    /// What to train on: a folder with a folder for each class, or a CSV file, or the URI of one, with the columns s3_uri
    /// and label
    #[arg(long)]
    train: String,
    /// What to validate with, in the same forms [default: a tenth of what to train on, held out]
    #[arg(long)]
    valid: Option<String>,
    /// The URL of an S3 server; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
    #[arg(long)]
    endpoint: Option<String>,
    /// Where the caches lie
    #[arg(long, default_value = "imagenet-cache")]
    cache_dir: PathBuf,
    /// The most bytes of validation images that are kept on disk
    #[arg(long, default_value_t = 20_000_000_000)]
    valid_cache_bytes: u64,
    /// Where burn keeps checkpoints, metrics and its log
    #[arg(long, default_value = "imagenet-artifacts")]
    artifacts: PathBuf,
    /// The epoch to go on from: that of a checkpoint, counted from 1
    #[arg(long, default_value_t = 0)]
    resume: usize,
    /// Passes over the data
    #[arg(long, default_value_t = 90)]
    epochs: usize,
    /// Images in a batch
    #[arg(long, default_value_t = 64)]
    batch_size: usize,
    /// The height and width of images
    #[arg(long, default_value_t = 224)]
    size: usize,
    /// The learning rate
    #[arg(long, default_value_t = 0.001)]
    learning_rate: f64,
    /// The seed of the order, of the augmentation and of the weights
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

/// A loader of images and labels.
type Loader = PlanDataLoader<<ImageBatch as ToTensors>::Tensors>;

impl Options {
    /// Makes a cache of its own in `name`.
    fn cache(&self, name: &str, settings: CacheSettings) -> Result<DiskCache, BoxError> {
        let stores = StoreSettings { endpoint: self.endpoint.clone(), ..StoreSettings::default() };
        let builder = DiskCache::builder(self.cache_dir.join(name)).with_settings(settings);
        Ok(builder.with_store_settings(stores).build()?)
    }

    fn loader(
        &self,
        index: SampleIndex,
        plan: impl PlanProvider + 'static,
        cache: DiskCache,
        transforms: Compose,
    ) -> Result<Loader, BoxError> {
        let images = ImageSettings {
            height: self.size,
            width: self.size,
            transforms,
            mean: IMAGENET_MEAN,
            std: IMAGENET_STD,
            ..ImageSettings::default()
        };
        let settings = LoaderSettings {
            num_epochs: Some(u64::try_from(self.epochs)?),
            // A file that is damaged does not end a training of days.
            on_error: OnError::Substitute { max: 100 },
            ..LoaderSettings::default()
        };
        let builder = PlanDataLoaderBuilder::new(ImageDataset::new(index, images.clone())?, plan)
            .with_cache(cache)
            .with_settings(settings)
            // burn counts epochs from 1, so the epoch behind those that are done has their number.
            .with_start_epoch(u64::try_from(self.resume)?);
        Ok(builder.build(ImageCollate::new(&images)?)?)
    }
}

/// Reads a folder of classes or an index.
fn load(location: &str, cache: &DiskCache) -> Result<SampleIndex, BoxError> {
    if Path::new(location).is_dir() {
        return Ok(load_index_folder(location, &FolderSettings::with_extensions(IMAGE_EXTENSIONS))?);
    }
    Ok(load_index(location, &CsvSettings::default(), cache)?)
}

fn main() -> Result<(), BoxError> {
    train(&Options::parse())
}

#[expect(clippy::print_stdout, reason = "the trainer reports on standard output")]
fn train(options: &Options) -> Result<(), BoxError> {
    let train_cache = options.cache("train", CacheSettings::default())?;
    let valid_cache = options.cache(
        "valid",
        CacheSettings {
            eviction: EvictionMode::Pressure,
            limit: CacheLimit::TotalSize(options.valid_cache_bytes),
            ..CacheSettings::default()
        },
    )?;
    let index = load(&options.train, &train_cache)?;
    let (train, valid) = match &options.valid {
        // By name, since each folder numbers the classes that it has.
        Some(location) => {
            let valid = load(location, &valid_cache)?.with_classes_of(&index)?;
            (index, valid)
        }
        None => {
            let split = index.split(0.9, 0.1, SplitBy::ExactPerClass, options.seed)?;
            (split.train, split.val)
        }
    };
    let num_classes = usize::try_from(train.num_classes())?;
    println!("{} images of {num_classes} classes to train on, {} to validate with", train.len(), valid.len());

    let size = options.size;
    let augmentation = Compose::new([
        RandomResizedCrop { size: [size, size], ..RandomResizedCrop::default() }.into(),
        RandomHorizontalFlip::default().into(),
        ColorJitter::new(0.2, 0.2, 0.2, 0.0).into(),
    ]);
    let centre = Compose::new([
        // As torchvision's models do: 256 for 224.
        Resize { size: Size::ShorterSide(size * 8 / 7), ..Resize::default() }.into(),
        CenterCrop { size: [size, size] }.into(),
    ]);
    let train_plan = ShuffleOncePerEpochPlanProvider::new(train.len(), options.batch_size, options.seed)?;
    let valid_plan = SequentialPlanProvider::new(valid.len(), options.batch_size)?;
    // Batch normalisation has no use for a short last batch.
    let train = options.loader(train, train_plan.with_drop_last(true), train_cache, augmentation)?;
    let valid = options.loader(valid, valid_plan, valid_cache, centre)?;
    let controller = train.controller();

    let device = Device::default().autodiff();
    device.seed(options.seed);
    let learner = Learner::new(Net::new(num_classes, &device), AdamConfig::new().init(), options.learning_rate);
    let mut training = SupervisedTraining::new(&options.artifacts, Arc::new(train), Arc::new(valid))
        .metrics((LossMetric::new(), AccuracyMetric::new(), TopKAccuracyMetric::new(num_classes.min(5))))
        .with_progress_logger(ReportLogger::new(controller.clone()))
        .with_default_checkpointers()
        .num_epochs(options.epochs)
        .summary();
    if 0 < options.resume {
        training = training.checkpoint(options.resume);
    }
    if let Some(error) = training.launch(learner).error {
        return Err(error.to_string().into());
    }
    println!("{}", controller.report());
    for sample in controller.failed_samples() {
        println!("{sample}");
    }
    Ok(())
}
