//! Trains a small convolutional net on handwritten digits: objects in a store → plan → cache → batches → burn.
//!
//! Without arguments it writes the digits as PNG files into `digits-data/` and trains from there. With `--index` and
//! `--endpoint` it trains from an S3 server: the index lists the URIs of the images and their labels.

mod data;
mod model;

use std::path::PathBuf;
use std::time::Instant;

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::Device;
use clap::Parser;
use planfetch::prelude::*;
use planfetch_burn::ToTensors;

use crate::model::Net;

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
    /// Passes over the data
    #[arg(long, default_value_t = 12)]
    epochs: u64,
    /// Images in a batch
    #[arg(long, default_value_t = 64)]
    batch_size: usize,
    /// The learning rate
    #[arg(long, default_value_t = 0.005)]
    learning_rate: f64,
    /// The seed of the order and of the weights
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

fn main() -> Result<(), BoxError> {
    train(&Options::parse())
}

#[expect(clippy::print_stdout, reason = "the trainer reports on standard output")]
fn train(options: &Options) -> Result<(), BoxError> {
    let started = Instant::now();
    let stores = StoreSettings { endpoint: options.endpoint.clone(), ..StoreSettings::default() };
    let cache = DiskCache::builder(options.data_dir.join("cache")).with_store_settings(stores).build()?;
    let location = match &options.index {
        Some(location) => location.clone(),
        None => data::write_digits(&options.data_dir.join("store"))?,
    };
    let index = load_index(&location, &CsvSettings::default(), &cache)?;

    // Every fifth image is held out.
    let n = usize::try_from(index.len())?;
    let train_index = index.select((0..n).filter(|row| row % 5 != 4));
    let test_index = index.select((0..n).filter(|row| row % 5 == 4));
    println!("{} images to train on, {} held out, from {location}", train_index.len(), test_index.len());

    let train_plan = ShuffleOncePerEpochPlanProvider::new(train_index.len(), options.batch_size, options.seed)?;
    let test_plan = SequentialPlanProvider::new(test_index.len(), options.batch_size)?;
    let images = ImageSettings {
        height: 8,
        width: 8,
        mean: [0.3; 3],
        std: [0.38; 3],
        decode: DecodeSettings { color: ColorMode::Gray, ..DecodeSettings::default() },
    };
    let loader = |index, plan: Box<dyn PlanProvider>| -> Result<_, BoxError> {
        let settings = LoaderSettings { num_epochs: Some(options.epochs), ..LoaderSettings::default() };
        let dataset = ImageDataset::new(index, images.clone())?;
        Ok(build_prefetching_loader(dataset, ImageCollate::new(&images)?, plan, cache.clone(), settings)?)
    };
    let (mut train_loader, train_controller) = loader(train_index, Box::new(train_plan))?;
    let (mut test_loader, test_controller) = loader(test_index, Box::new(test_plan))?;

    let plain = Device::flex();
    let device = plain.clone().autodiff();
    device.seed(options.seed);
    let mut net = Net::new(&device);
    let mut optimizer = AdamConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(&device);

    for epoch in 0..options.epochs {
        train_controller.set_epoch(epoch)?;
        let (mut loss_sum, mut seen) = (0.0, 0.0);
        for batch in &mut train_loader {
            let (images, labels) = batch?.to_tensors(&device);
            let batch_len = images.dims()[0] as f64;
            let batch_loss = loss.forward(net.forward(images), labels);
            loss_sum += batch_loss.clone().into_scalar::<f64>() * batch_len;
            seen += batch_len;
            let gradients = GradientsParams::from_grads(batch_loss.backward(), &net);
            net = optimizer.step(options.learning_rate, net, gradients);
        }

        test_controller.set_epoch(epoch)?;
        let validated = net.valid();
        let (mut right, mut asked) = (0, 0);
        for batch in &mut test_loader {
            let batch = batch?;
            let (images, _) = batch.to_tensors(&plain);
            let guesses = validated.forward(images).argmax(1).into_data().convert::<i64>().try_to_vec::<i64>()?;
            right += guesses.iter().zip(&batch.labels).filter(|(guess, label)| guess == label).count();
            asked += batch.len();
        }
        println!(
            "epoch {:>2}  loss {:.4}  held-out accuracy {:.2} %  {:.1} s",
            epoch + 1,
            loss_sum / seen,
            100.0 * right as f64 / asked as f64,
            started.elapsed().as_secs_f64()
        );
    }
    let (loading, caching) = (train_controller.stats(), cache.stats());
    println!(
        "the training loop waited {:.2} s for {} batches; {} objects were downloaded once, and found local {} times",
        loading.stalled.as_secs_f64(),
        loading.batches,
        caching.objects_downloaded,
        caching.hits
    );
    Ok(())
}
