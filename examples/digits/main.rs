//! Trains a small convolutional net on handwritten digits: objects in a store → plan → cache → batches → burn.
//!
//! Without arguments it writes the digits as PNG files into `digits-data/` and trains from there. With `--index` and
//! `--endpoint` it trains from an S3 server: the index lists the URIs of the images and their labels. With
//! `--checkpoints` it may be killed at any moment, and goes on with the next batch when it is started again.

mod model;
mod run;
#[path = "../data/source.rs"]
mod source;
#[path = "../data/step_log.rs"]
mod step_log;

use std::path::PathBuf;
use std::time::Instant;

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::GradientsParams;
use burn::tensor::Device;
use clap::Parser;
use planfetch::prelude::*;
use planfetch_burn::ToTensors;

use crate::run::Run;
use crate::source::Source;
use crate::step_log::StepLog;

/// Trains a classifier of handwritten digits
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    source: Source,
    /// Passes over the data
    #[arg(long, default_value_t = 12)]
    epochs: u64,
    /// Images in a batch
    #[arg(long, default_value_t = 64)]
    batch_size: usize,
    /// The learning rate
    #[arg(long, default_value_t = 0.002)]
    learning_rate: f64,
    /// The seed of the order and of the weights
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Where checkpoints are kept; a run goes on from the newest one there
    #[arg(long)]
    checkpoints: Option<PathBuf>,
    /// After how many steps a checkpoint is saved, besides those at the end of each epoch
    #[arg(long, default_value_t = 0)]
    checkpoint_every: u64,
    /// A file that gets a line for each step: its number, its loss and the samples
    #[arg(long)]
    steps: Option<PathBuf>,
}

fn main() -> Result<(), BoxError> {
    train(&Options::parse())
}

#[expect(clippy::print_stdout, reason = "the trainer reports on standard output")]
fn train(options: &Options) -> Result<(), BoxError> {
    let started = Instant::now();
    let digits = options.source.open()?;
    let train_plan = ShuffleOncePerEpochPlanProvider::new(digits.train.len(), options.batch_size, options.seed)?;
    let test_plan = SequentialPlanProvider::new(digits.test.len(), options.batch_size)?;
    let loader = |index, plan: Box<dyn PlanProvider>| -> Result<_, BoxError> {
        let settings = LoaderSettings { num_epochs: Some(options.epochs), ..LoaderSettings::default() };
        let dataset = ImageDataset::new(index, digits.images.clone())?;
        let collate = ImageCollate::new(&digits.images)?;
        Ok(build_prefetching_loader(dataset, collate, plan, digits.cache.clone(), settings)?)
    };
    let (mut train_loader, train_controller) = loader(digits.train.clone(), Box::new(train_plan))?;
    let (mut test_loader, test_controller) = loader(digits.test.clone(), Box::new(test_plan))?;

    let plain = Device::flex();
    let device = plain.clone().autodiff();
    device.seed(options.seed);
    let mut run = Run::new(options.source.size, &device);
    let recorder = options.checkpoints.as_ref().map(CheckpointRecorder::new).transpose()?;
    let recorder = recorder.map(|recorder| recorder.with_every(options.checkpoint_every));
    if let Some(checkpoint) = recorder.as_ref().map(CheckpointRecorder::latest).transpose()?.flatten() {
        train_controller.restore(&checkpoint.state)?;
        run = run.load(&checkpoint)?;
        println!("going on after step {} from {}", checkpoint.step, checkpoint.path.display());
    }
    let mut steps = options.steps.as_ref().map(|path| StepLog::open(path, run.step)).transpose()?;
    let loss = CrossEntropyLossConfig::new().init(&device);

    for epoch in train_controller.epoch()..options.epochs {
        for batch in train_loader.epoch(epoch)? {
            let batch = batch?;
            let (images, labels) = batch.to_tensors(&device)?;
            let batch_loss = loss.forward(run.net.forward(images), labels);
            let value = batch_loss.clone().into_scalar::<f64>();
            let gradients = GradientsParams::from_grads(batch_loss.backward(), &run.net);
            run.net = run.optimizer.step(options.learning_rate, run.net, gradients);
            run.count(value, batch.len());
            if let Some(steps) = &mut steps {
                steps.write(run.step, value, batch.ids())?;
            }
            if let Some(recorder) = recorder.as_ref().filter(|recorder| recorder.is_due(run.step)) {
                let checkpoint = recorder.save(run.step, &train_controller.state(), |folder| run.save(folder))?;
                println!("saved {}", checkpoint.path.display());
            }
        }

        test_controller.set_epoch(epoch)?;
        let validated = run.net.valid();
        let (mut right, mut asked) = (0, 0);
        for batch in &mut test_loader {
            let batch = batch?;
            let (images, _) = batch.to_tensors(&plain)?;
            let guesses = validated.forward(images).argmax(1).into_data().convert::<i64>().try_to_vec::<i64>()?;
            right += guesses.iter().zip(&batch.labels).filter(|(guess, label)| guess == label).count();
            asked += batch.len();
        }
        println!(
            "epoch {:>2}  loss {:.4}  held-out accuracy {:.2} %  {:.1} s",
            epoch + 1,
            run.take_mean_loss(),
            100.0 * right as f64 / asked as f64,
            started.elapsed().as_secs_f64()
        );
        if let Some(recorder) = &recorder {
            recorder.save(run.step, &train_controller.state(), |folder| run.save(folder))?;
        }
    }
    let (loading, caching) = (train_controller.stats(), digits.cache.stats());
    println!(
        "the training loop waited {:.2} s for {} batches; {} objects were downloaded once, and found local {} times",
        loading.stalled.as_secs_f64(),
        loading.batches,
        caching.objects_downloaded,
        caching.hits
    );
    Ok(())
}
