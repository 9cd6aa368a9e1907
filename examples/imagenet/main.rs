//! Trains a small residual net on photographs, as on ImageNet: any folder with a folder for each class, or any index.
//!
//! Training images are cropped and flipped at random, and come through a cache that holds the window;
//! validation images are cropped at the centre, in the order of the index, and stay in a second cache as long as there is
//! room. burn's `Learner` keeps a checkpoint of each epoch, shows the progress, and counts top-1 and top-5.

mod model;
#[path = "../data/photographs.rs"]
mod photographs;

use std::path::PathBuf;
use std::sync::Arc;

use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::train::metric::{AccuracyMetric, LossMetric, TopKAccuracyMetric};
use burn::train::{Learner, SupervisedTraining};
use clap::Parser;
use planfetch::prelude::*;
use planfetch_burn::{PlanDataLoader, PlanDataLoaderBuilder, ReportLogger, ToTensors};

use crate::model::Net;
use crate::photographs::{Part, Photographs};

/// Trains a classifier of photographs
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    photographs: Photographs,
    /// Where the caches lie
    #[arg(long, default_value = "imagenet-cache")]
    cache_dir: PathBuf,
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
    fn loader(&self, part: Part, plan: impl PlanProvider + 'static) -> Result<Loader, BoxError> {
        let images = ImageSettings { mean: IMAGENET_MEAN, std: IMAGENET_STD, ..part.images };
        let builder = PlanDataLoaderBuilder::new(ImageDataset::new(part.index, images.clone())?, plan)
            .with_cache(part.cache)
            .with_settings(photographs::settings(u64::try_from(self.epochs)?))
            // burn counts epochs from 1, so the epoch behind those that are done has their number.
            .with_start_epoch(u64::try_from(self.resume)?);
        Ok(builder.build(ImageCollate::new(&images)?)?)
    }
}

fn main() -> Result<(), BoxError> {
    train(&Options::parse())
}

#[expect(clippy::print_stdout, reason = "the trainer reports on standard output")]
fn train(options: &Options) -> Result<(), BoxError> {
    let (train, valid) = options.photographs.open(&options.cache_dir, options.seed)?;
    let num_classes = usize::try_from(train.index.num_classes())?;
    let train_plan = ShuffleOncePerEpochPlanProvider::new(train.index.len(), options.batch_size, options.seed)?;
    let valid_plan = SequentialPlanProvider::new(valid.index.len(), options.batch_size)?;
    // Batch normalisation has no use for a short last batch.
    let train = options.loader(train, train_plan.with_drop_last(true))?;
    let valid = options.loader(valid, valid_plan)?;
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
