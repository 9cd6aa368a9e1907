//! Trains a small convolutional net on handwritten digits: objects in a store → plan → cache → batches → tch.
//!
//! Without arguments it writes the digits as PNG files into `digits-data/` and trains from there. With `--index` and
//! `--endpoint` it trains from an S3 server. With `--checkpoints` it may be killed at any moment, and goes on with the next
//! batch when it is started again. The optimizer is plain SGD, since tch saves no state of one.

#[path = "data/source.rs"]
mod source;
#[path = "data/step_log.rs"]
mod step_log;

use std::path::{Path, PathBuf};

use clap::Parser;
use planfetch::prelude::*;
use planfetch_tch::{TchLoader, TchLoaderBuilder};
use tch::nn::{self, ModuleT, OptimizerConfig};
use tch::{Device, Kind, Tensor};

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
    #[arg(long, default_value_t = 32)]
    batch_size: usize,
    /// The learning rate at the beginning; it falls to 0 in a straight line
    #[arg(long, default_value_t = 0.05)]
    learning_rate: f64,
    /// The seed of the order and of the weights
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Where checkpoints are kept; a run goes on from the newest one there
    #[arg(long)]
    checkpoints: Option<PathBuf>,
    /// After how many steps a checkpoint is saved
    #[arg(long, default_value_t = 10)]
    checkpoint_every: u64,
    /// A file that gets a line for each step: its number, its loss and the samples
    #[arg(long)]
    steps: Option<PathBuf>,
}

fn net(root: &nn::Path<'_>, size: i64) -> impl ModuleT + use<> {
    let same = nn::ConvConfig { padding: 1, ..Default::default() };
    let wide = 32 * (size / 2) * (size / 2);
    nn::seq_t()
        .add(nn::conv2d(root / "conv1", 1, 16, 3, same))
        .add_fn(|x| x.relu())
        .add(nn::conv2d(root / "conv2", 16, 32, 3, same))
        .add_fn(move |x| x.relu().max_pool2d_default(2).view([-1, wide]))
        .add(nn::linear(root / "dense1", wide, 64, Default::default()))
        .add_fn(|x| x.relu())
        .add(nn::linear(root / "dense2", 64, 10, Default::default()))
}

fn main() -> Result<(), BoxError> {
    train(&Options::parse())
}

#[expect(clippy::print_stdout, reason = "the trainer reports on standard output")]
fn train(options: &Options) -> Result<(), BoxError> {
    let digits = options.source.open()?;
    let (images, cache) = (digits.images, digits.cache);
    let device = Device::cuda_if_available();
    let loader = |index: SampleIndex, plan: Box<dyn PlanProvider>| -> Result<TchLoader<ImageBatch>, BoxError> {
        let settings = LoaderSettings { num_epochs: Some(options.epochs), ..LoaderSettings::default() };
        let builder = TchLoaderBuilder::new(ImageDataset::new(index, images.clone())?, plan)
            .with_cache(cache.clone())
            .with_settings(settings);
        Ok(builder.build(ImageCollate::new(&images)?)?.to_device(device).return_smaller_last_batch())
    };
    let train_plan = ShuffleOncePerEpochPlanProvider::new(digits.train.len(), options.batch_size, options.seed)?;
    let test_plan = SequentialPlanProvider::new(digits.test.len(), options.batch_size)?;
    let (mut train, mut test) =
        (loader(digits.train, Box::new(train_plan))?, loader(digits.test, Box::new(test_plan))?);
    let controller = train.controller();

    tch::manual_seed(i64::try_from(options.seed)?);
    let mut vs = nn::VarStore::new(device);
    let net = net(&vs.root(), i64::try_from(options.source.size)?);
    let mut steps = 0;
    let recorder = options.checkpoints.as_ref().map(CheckpointRecorder::new).transpose()?;
    let recorder = recorder.map(|recorder| recorder.with_every(options.checkpoint_every));
    if let Some(checkpoint) = recorder.as_ref().map(CheckpointRecorder::latest).transpose()?.flatten() {
        controller.restore(&checkpoint.state)?;
        vs.load(checkpoint.path.join("model.safetensors"))?;
        steps = checkpoint.step;
        println!("going on after step {steps}");
    }
    let mut optimizer = nn::Sgd::default().build(&vs, options.learning_rate)?;
    let mut log = options.steps.as_ref().map(|path| StepLog::open(path, steps)).transpose()?;

    for epoch in controller.epoch()..options.epochs {
        let all_steps = options.epochs as f64 * controller.num_steps(epoch)? as f64;
        let mut batches = train.epoch(epoch)?;
        while let Some(batch) = batches.next_batch() {
            let batch = batch?;
            let (images, labels) = batch.tensors;
            let loss = net.forward_t(&images, true).cross_entropy_for_logits(&labels);
            optimizer.set_lr(options.learning_rate * (1.0 - steps as f64 / all_steps));
            optimizer.backward_step(&loss);
            steps += 1;
            if let Some(log) = &mut log {
                log.write(steps, loss.double_value(&[]), &batch.ids)?;
            }
            if let Some(recorder) = recorder.as_ref().filter(|recorder| recorder.is_due(steps)) {
                let save = |folder: &Path| Ok(vs.save(folder.join("model.safetensors"))?);
                recorder.save(steps, &batches.state(), save)?;
                println!("saved {steps}");
            }
        }
        let (mut right, mut asked) = (0, 0);
        for batch in test.epoch(epoch)? {
            let (images, labels) = batch?;
            let guesses: Tensor = tch::no_grad(|| net.forward_t(&images, false)).argmax(1, false);
            right += guesses.eq_tensor(&labels).sum(Kind::Int64).int64_value(&[]);
            asked += labels.size()[0];
        }
        println!("epoch {:>2}  held-out accuracy {:.2} %", epoch + 1, 100.0 * right as f64 / asked as f64);
    }
    println!("{}", controller.report());
    Ok(())
}
