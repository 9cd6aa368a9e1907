//! Trains a ResNet-18 on photographs: any folder with a folder for each class, or any index.
//!
//! Pixels cross to the device as bytes and are normalised there. A run goes on from its checkpoint with the next batch.
//! Started by torchrun or another launcher, each process trains on its columns of the plan. tch itself sums no gradients
//! between processes; `ranks.rs` does it over TCP through rank 0, which is enough to try several ranks out, and no match
//! for NCCL. The folder of checkpoints must be one that all ranks see.

mod momentum;
mod ranks;

use std::path::{Path, PathBuf};

use clap::Parser;
use planfetch::cache::{CacheLimit, EvictionMode};
use planfetch::prelude::*;
use planfetch::rank_path;
use planfetch_tch::{TchLoader, TchLoaderBuilder};
use tch::nn::{self, ModuleT};
use tch::vision::resnet::resnet18;
use tch::{Cuda, Device, Kind, Tensor};

use crate::momentum::Momentum;
use crate::ranks::Ranks;

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
    /// Where the caches lie; {rank} stands for the rank, and must be there where there are several
    #[arg(long, default_value = "resnet-cache")]
    cache_dir: String,
    /// The most bytes of validation images that are kept on disk
    #[arg(long, default_value_t = 20_000_000_000)]
    valid_cache_bytes: u64,
    /// Where checkpoints are kept; a run goes on from the newest one there
    #[arg(long)]
    checkpoints: Option<PathBuf>,
    /// After how many steps a checkpoint is saved, besides those at the end of each epoch
    #[arg(long, default_value_t = 1_000)]
    checkpoint_every: u64,
    /// Host and port where rank 0 sums gradients; needed where there are several ranks
    #[arg(long)]
    sum_at: Option<String>,
    /// Passes over the data
    #[arg(long, default_value_t = 90)]
    epochs: u64,
    /// Images in a batch, of all ranks together
    #[arg(long, default_value_t = 256)]
    batch_size: usize,
    /// The height and width of images
    #[arg(long, default_value_t = 224)]
    size: usize,
    /// The learning rate at the beginning; it falls to 0 along a cosine
    #[arg(long, default_value_t = 0.1)]
    learning_rate: f64,
    /// The seed of the order, of the augmentation and of the weights
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

type Loader = TchLoader<ImageBatch<u8>>;

impl Options {
    fn cache(&self, name: &str, world: World, settings: CacheSettings) -> Result<DiskCache, BoxError> {
        if 1 < world.world_size && !self.cache_dir.contains("{rank}") {
            return Err(format!("--cache-dir is {:?}, without {{rank}}, but there are several", self.cache_dir).into());
        }
        let stores = StoreSettings { endpoint: self.endpoint.clone(), ..StoreSettings::default() };
        let builder = DiskCache::builder(rank_path(&self.cache_dir, world).join(name)).with_settings(settings);
        Ok(builder.with_store_settings(stores).build()?)
    }

    fn loader(
        &self,
        index: SampleIndex,
        plan: impl PlanProvider + 'static,
        cache: DiskCache,
        transforms: Compose,
        ranks: (World, RemainderPolicy),
        device: Device,
    ) -> Result<Loader, BoxError> {
        // As the channels-last net reads them, so that no pixel is moved again.
        let layout = Layout::Nhwc;
        let images =
            ImageSettings { height: self.size, width: self.size, transforms, layout, ..ImageSettings::default() };
        let settings = LoaderSettings {
            num_epochs: Some(self.epochs),
            // A file that is damaged does not end a training of days.
            on_error: OnError::Substitute { max: 100 },
            ..LoaderSettings::default()
        };
        let builder = TchLoaderBuilder::new(ImageDataset::new(index, images.clone())?, plan)
            .with_cache(cache)
            .with_settings(settings)
            .with_world(ranks.0, ranks.1);
        let loader = builder.build(ImageCollate::<u8>::with_dtype(&images)?)?;
        Ok(loader.to_device(device).normalize(IMAGENET_MEAN, IMAGENET_STD).channels_last(true))
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

/// Returns the device of a rank: one for each rank of a machine, as its launcher numbers them there.
fn device(world: World) -> Device {
    let local = ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"];
    let local = local.iter().find_map(|name| std::env::var(name).ok()?.parse().ok()).unwrap_or(world.rank);
    match u32::try_from(Cuda::device_count()) {
        Ok(count) if 0 < count => Device::Cuda((local % count) as usize),
        _ => Device::Cpu,
    }
}

#[expect(clippy::print_stdout, reason = "the trainer reports on standard output")]
fn train(options: &Options) -> Result<(), BoxError> {
    let found = World::from_env()?;
    let world = found.world;
    println!("{found}");
    if !options.batch_size.is_multiple_of(world.world_size as usize) {
        return Err(format!("--batch-size is {}, not a multiple of the number of ranks", options.batch_size).into());
    }
    let mut ranks = Ranks::join(world, options.sum_at.as_deref())?;
    let device = device(world);

    let train_cache = options.cache("train", world, CacheSettings::default())?;
    let valid_settings = CacheSettings {
        eviction: EvictionMode::Pressure,
        limit: CacheLimit::TotalSize(options.valid_cache_bytes),
        ..CacheSettings::default()
    };
    let valid_cache = options.cache("valid", world, valid_settings)?;
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
    let num_classes = i64::from(train.num_classes());
    println!("{} images of {num_classes} classes to train on, {} to validate with", train.len(), valid.len());

    let size = options.size;
    let augmentation = Compose::new([
        RandomResizedCrop { size: [size, size], ..RandomResizedCrop::default() }.into(),
        RandomHorizontalFlip::default().into(),
    ]);
    let centre = Compose::new([
        // As torchvision's models do: 256 for 224.
        Resize { size: Size::ShorterSide(size * 8 / 7), ..Resize::default() }.into(),
        CenterCrop { size: [size, size] }.into(),
    ]);
    let train_plan = ShuffleOncePerEpochPlanProvider::new(train.len(), options.batch_size, options.seed)?;
    // A validation sees each image once: ranks that have one too few repeat one, which is left out of the count.
    let valid_plan = SequentialPlanProvider::new(valid.len(), options.batch_size)?;
    let (drop, pad) = ((world, RemainderPolicy::Drop), (world, RemainderPolicy::Pad));
    let mut train = options.loader(train, train_plan.with_drop_last(true), train_cache, augmentation, drop, device)?;
    let valid = options.loader(valid, valid_plan, valid_cache, centre, pad, device)?;
    let mut valid = valid.return_smaller_last_batch();
    let controller = train.controller();

    // The same weights on all ranks.
    tch::manual_seed(i64::try_from(options.seed)?);
    let mut vs = nn::VarStore::new(device);
    let net = resnet18(&vs.root(), num_classes);
    let mut momentum = Momentum::new(&vs, 0.9, 1e-4);
    let mut steps = 0;
    let recorder = options.checkpoints.as_ref().map(CheckpointRecorder::new).transpose()?;
    let recorder = recorder.map(|recorder| recorder.with_every(options.checkpoint_every));
    if let Some(checkpoint) = recorder.as_ref().map(CheckpointRecorder::latest).transpose()?.flatten() {
        vs.load(checkpoint.path.join("model.safetensors"))?;
        momentum.set(Tensor::read_safetensors(checkpoint.path.join("momentum.safetensors"))?)?;
        controller.restore(&checkpoint.state)?;
        steps = checkpoint.step;
        println!("going on after step {steps}");
    }
    let save = |recorder: &CheckpointRecorder, momentum: &Momentum, state: &LoaderState, steps| {
        let saved = recorder.save(steps, state, |folder| {
            vs.save(folder.join("model.safetensors"))?;
            Ok(Tensor::write_safetensors(&momentum.named(), folder.join("momentum.safetensors"))?)
        });
        saved.map(|_| println!("saved {steps}"))
    };

    for epoch in controller.epoch()..options.epochs {
        let all_steps = options.epochs as f64 * controller.num_steps(epoch)?.max(1) as f64;
        let (mut sum, mut count) = (0.0, 0);
        let mut batches = train.epoch(epoch)?;
        while let Some(batch) = batches.next_batch() {
            let (images, labels) = batch?.tensors;
            let loss = net.forward_t(&images, true).cross_entropy_for_logits(&labels);
            let mut gradients = momentum.gradients(&loss)?;
            ranks.average(&mut gradients)?;
            let rate = options.learning_rate * 0.5 * (1.0 + (std::f64::consts::PI * steps as f64 / all_steps).cos());
            momentum.step(&gradients, rate)?;
            steps += 1;
            (sum, count) = (sum + loss.double_value(&[]), count + 1);
            if let Some(recorder) = recorder.as_ref().filter(|recorder| recorder.is_due(steps)) {
                // The running means of batch normalisation differ between ranks.
                ranks.average(&mut momentum.buffers())?;
                if world.rank == 0 {
                    save(recorder, &momentum, &batches.state(), steps)?;
                }
            }
        }
        ranks.average(&mut momentum.buffers())?;
        let [top1, top5, total] = validate(&net, &mut valid, epoch, num_classes.min(5), &mut ranks)?;
        println!(
            "epoch {:>2}  loss {:.6}  top-1 {:.2} %  top-5 {:.2} %",
            epoch + 1,
            sum / f64::from(count.max(1)),
            100.0 * top1 / total,
            100.0 * top5 / total
        );
        if let Some(recorder) = recorder.as_ref().filter(|_| world.rank == 0) {
            save(recorder, &momentum, &train.state(), steps)?;
        }
    }
    // Ranks that were given the same gradients have the same weights.
    println!("weights {:.12e}", momentum.sum_of_squares());
    println!("{}", controller.report());
    for sample in controller.failed_samples() {
        println!("{sample}");
    }
    Ok(())
}

/// Returns how many are right at the first guess and within `k`, and how many there are, of all ranks.
fn validate(
    net: &impl ModuleT,
    valid: &mut Loader,
    epoch: u64,
    k: i64,
    ranks: &mut Ranks,
) -> Result<[f64; 3], BoxError> {
    let mut counts = [0, 0, 0];
    let mut batches = valid.epoch(epoch)?;
    while let Some(batch) = batches.next_batch() {
        let batch = batch?;
        let (images, labels) = batch.tensors;
        let len = labels.size()[0] - i64::try_from(batch.num_padding)?;
        let labels = labels.narrow(0, 0, len);
        let logits = tch::no_grad(|| net.forward_t(&images, false)).narrow(0, 0, len);
        let (_, guesses) = logits.topk(k, 1, true, true);
        let hits = guesses.eq_tensor(&labels.unsqueeze(1));
        counts[0] += hits.narrow(1, 0, 1).sum(Kind::Int64).int64_value(&[]);
        counts[1] += hits.sum(Kind::Int64).int64_value(&[]);
        counts[2] += len;
    }
    // OK because sums of up to 16 million are exact.
    let mut sums = [Tensor::from_slice(&counts.map(|count| count as f32))];
    ranks.sum(&mut sums)?;
    Ok([0, 1, 2].map(|i| sums[0].double_value(&[i])))
}
