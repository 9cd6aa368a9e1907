//! Trains a small convolutional net on handwritten digits: objects in a store → plan → cache → batches → tch.
//!
//! Without arguments it writes the digits as PNG files into `digits-data/` and trains from there. With `--index` and
//! `--endpoint` it trains from an S3 server. With `--checkpoints` it may be killed at any moment, and goes on with the next
//! batch when it is started again. The optimizer is plain SGD, since tch saves no state of one.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Parser;
use planfetch::prelude::*;
use planfetch_tch::{TchLoader, TchLoaderBuilder};
use tch::nn::{self, ModuleT, OptimizerConfig};
use tch::{Device, Kind, Tensor};

#[path = "data/digits.rs"]
mod digits;

/// Trains a classifier of handwritten digits
#[derive(Debug, Parser)]
struct Options {
    /// The index: a CSV file or the URI of one, with the columns s3_uri and label [default: the shipped digits]
    #[arg(long)]
    index: Option<String>,
    /// The URL of an S3 server; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
    #[arg(long)]
    endpoint: Option<String>,
    /// Where the shipped digits are written, and the cache lies
    #[arg(long, default_value = "digits-data")]
    data_dir: PathBuf,
    /// The height and width that images are resized to
    #[arg(long, default_value_t = 8)]
    size: usize,
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
    let stores = StoreSettings { endpoint: options.endpoint.clone(), ..StoreSettings::default() };
    let cache = DiskCache::builder(options.data_dir.join("cache")).with_store_settings(stores).build()?;
    let location = match &options.index {
        Some(location) => location.clone(),
        None => digits::write_digits(&options.data_dir.join("store"))?.display().to_string(),
    };
    let index = load_index(&location, &CsvSettings::default(), &cache)?;
    let n = usize::try_from(index.len())?;
    let (train, test) =
        (index.select((0..n).filter(|row| row % 5 != 4)), index.select((0..n).filter(|row| row % 5 == 4)));
    let images = ImageSettings {
        height: options.size,
        width: options.size,
        mean: [0.3; 3],
        std: [0.38; 3],
        decode: DecodeSettings { color: ColorMode::Gray, ..DecodeSettings::default() },
        ..ImageSettings::default()
    };
    let device = Device::cuda_if_available();
    let loader = |index: SampleIndex, plan: Box<dyn PlanProvider>| -> Result<TchLoader<ImageBatch>, BoxError> {
        let settings = LoaderSettings { num_epochs: Some(options.epochs), ..LoaderSettings::default() };
        let builder = TchLoaderBuilder::new(ImageDataset::new(index, images.clone())?, plan)
            .with_cache(cache.clone())
            .with_settings(settings);
        Ok(builder.build(ImageCollate::new(&images)?)?.to_device(device).return_smaller_last_batch())
    };
    let train_plan = ShuffleOncePerEpochPlanProvider::new(train.len(), options.batch_size, options.seed)?;
    let test_plan = SequentialPlanProvider::new(test.len(), options.batch_size)?;
    let (mut train, mut test) = (loader(train, Box::new(train_plan))?, loader(test, Box::new(test_plan))?);
    let controller = train.controller();

    tch::manual_seed(i64::try_from(options.seed)?);
    let mut vs = nn::VarStore::new(device);
    let net = net(&vs.root(), i64::try_from(options.size)?);
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
    let mut log = options.steps.as_ref().map(|path| open_log(path, steps)).transpose()?;

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
                let ids: Vec<String> = batch.ids.iter().map(ToString::to_string).collect();
                writeln!(log, "{steps} {} {}", loss.double_value(&[]), ids.join(" "))?;
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

/// Opens the log of a run that has done `steps` steps; those behind, which the model has lost, are taken out.
fn open_log(path: &Path, steps: u64) -> Result<File, BoxError> {
    let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
    let mut file = File::create(path)?;
    for line in text.lines().take(usize::try_from(steps)?) {
        writeln!(file, "{line}")?;
    }
    Ok(file)
}
