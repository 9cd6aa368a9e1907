//! Trains the net of `digits` by burn's `Learner`: `SupervisedTraining` drives the loader, keeps checkpoints of each epoch
//! and logs the metrics.
//!
//! What a project changes to go over from burn's own loader is the two lines that build the loaders.

mod model;
#[path = "../data/source.rs"]
mod source;

use std::path::PathBuf;
use std::sync::Arc;

use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::AdamConfig;
use burn::tensor::{Device, Int, Tensor};
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{
    ClassificationOutput, InferenceStep, Learner, LearnerSummary, SupervisedTraining, TrainOutput, TrainStep,
};
use clap::Parser;
use planfetch::prelude::*;
use planfetch_burn::{PlanDataLoaderBuilder, ReportLogger};

use crate::model::Net;
use crate::source::Source;

/// Trains a classifier of handwritten digits by burn's Learner
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    source: Source,
    /// Where burn keeps checkpoints, metrics and its log
    #[arg(long, default_value = "digits-artifacts")]
    artifacts: PathBuf,
    /// The epoch to go on from: that of a checkpoint, counted from 1
    #[arg(long)]
    resume: Option<usize>,
    /// Passes over the data
    #[arg(long, default_value_t = 12)]
    epochs: usize,
    /// Images in a batch
    #[arg(long, default_value_t = 64)]
    batch_size: usize,
    /// The learning rate
    #[arg(long, default_value_t = 0.002)]
    learning_rate: f64,
    /// The seed of the order and of the weights
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

/// Images of shape `[batch, 1, size, size]` and labels of shape `[batch]`.
type Digits = (Tensor<4>, Tensor<1, Int>);

impl Net {
    fn classify(&self, (images, labels): Digits) -> ClassificationOutput {
        let output = self.forward(images);
        let loss = CrossEntropyLossConfig::new().init(&output.device()).forward(output.clone(), labels.clone());
        ClassificationOutput::new(loss, output, labels)
    }
}

impl TrainStep for Net {
    type Input = Digits;
    type Output = ClassificationOutput;

    fn step(&self, digits: Digits) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(digits);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Net {
    type Input = Digits;
    type Output = ClassificationOutput;

    fn step(&self, digits: Digits) -> ClassificationOutput {
        self.classify(digits)
    }
}

fn main() -> Result<(), BoxError> {
    train(&Options::parse())
}

#[expect(clippy::print_stdout, reason = "the trainer reports on standard output")]
fn train(options: &Options) -> Result<(), BoxError> {
    let digits = options.source.open()?;
    let train_plan = ShuffleOncePerEpochPlanProvider::new(digits.train.len(), options.batch_size, options.seed)?;
    let test_plan = SequentialPlanProvider::new(digits.test.len(), options.batch_size)?;
    // burn counts epochs from 1, so the epoch behind those that are done has their number.
    let done = options.resume.unwrap_or(0);
    let settings = LoaderSettings { num_epochs: Some(u64::try_from(options.epochs)?), ..LoaderSettings::default() };
    let builder = |index, plan: Box<dyn PlanProvider>| -> Result<_, BoxError> {
        let builder = PlanDataLoaderBuilder::new(ImageDataset::new(index, digits.images.clone())?, plan)
            .with_cache(digits.cache.clone())
            .with_settings(settings.clone())
            .with_start_epoch(u64::try_from(done)?);
        Ok(builder.build(ImageCollate::new(&digits.images)?)?)
    };
    let train = builder(digits.train.clone(), Box::new(train_plan))?;
    let test = builder(digits.test.clone(), Box::new(test_plan))?;
    let controller = train.controller();

    let device = Device::flex().autodiff();
    device.seed(options.seed);
    let learner = Learner::new(Net::new(options.source.size, &device), AdamConfig::new().init(), options.learning_rate);
    let mut training = SupervisedTraining::new(&options.artifacts, Arc::new(train), Arc::new(test))
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .with_progress_logger(ReportLogger::new(controller.clone()))
        .with_default_checkpointers()
        .num_epochs(options.epochs);
    if 0 < done {
        training = training.checkpoint(done);
    }
    let result = training.launch(learner);
    if let Some(error) = result.error {
        return Err(error.to_string().into());
    }

    let summary = LearnerSummary::new(&options.artifacts, &["Accuracy", "Loss"])?;
    for (split, metrics) in [("training", &summary.metrics.train), ("held-out", &summary.metrics.valid)] {
        for (metric, entry) in metrics.iter().flat_map(|metric| metric.entries.iter().map(move |entry| (metric, entry)))
        {
            println!("epoch {:>2}  {split} {} {}", entry.step, metric.name.to_lowercase(), entry.value);
        }
    }
    println!("{}", controller.report());
    Ok(())
}
