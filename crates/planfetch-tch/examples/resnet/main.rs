//! Trains a ResNet-18 on photographs: any folder with a folder for each class, or any index.
//!
//! Pixels cross to the device as bytes and are normalised there. A run goes on from its checkpoint with the next batch.
//! Started by torchrun or another launcher, each process trains on its columns of the plan. tch itself sums no gradients
//! between processes; `ranks.rs` does it over TCP through rank 0, which is enough to try several ranks out, and no match
//! for NCCL. The folder of checkpoints must be one that all ranks see.

mod momentum;
#[path = "../data/photographs.rs"]
mod photographs;
mod ranks;

use std::path::PathBuf;

use clap::Parser;
use planfetch::prelude::*;
use planfetch::rank_path;
use planfetch_tch::{TchLoader, TchLoaderBuilder};
use tch::nn::{self, ModuleT};
use tch::vision::resnet::resnet18;
use tch::{Cuda, Device, Kind, Tensor};

use crate::momentum::Momentum;
use crate::photographs::{Part, Photographs};
use crate::ranks::Ranks;

/// Trains a classifier of photographs
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    photographs: Photographs,
    /// Where the caches lie; {rank} stands for the rank, and must be there where there are several
    #[arg(long, default_value = "resnet-cache")]
    cache_dir: String,
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
    /// The learning rate at the beginning; it falls to 0 along a cosine
    #[arg(long, default_value_t = 0.1)]
    learning_rate: f64,
    /// The seed of the order, of the augmentation and of the weights
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

type Loader = TchLoader<ImageBatch<u8>>;

impl Options {
    /// Returns where the caches of a rank lie.
    fn cache_dir(&self, world: World) -> Result<PathBuf, BoxError> {
        if 1 < world.world_size && !self.cache_dir.contains("{rank}") {
            return Err(format!("--cache-dir is {:?}, without {{rank}}, but there are several", self.cache_dir).into());
        }
        Ok(rank_path(&self.cache_dir, world))
    }

    fn loader(
        &self,
        part: Part,
        plan: impl PlanProvider + 'static,
        (world, policy): (World, RemainderPolicy),
        device: Device,
    ) -> Result<Loader, BoxError> {
        // Bytes, which are normalised on the device, and as the channels-last net reads them: no pixel is moved again.
        let images = ImageSettings { layout: Layout::Nhwc, ..part.images };
        let builder = TchLoaderBuilder::new(ImageDataset::new(part.index, images.clone())?, plan)
            .with_cache(part.cache)
            .with_settings(photographs::settings(self.epochs))
            .with_world(world, policy);
        let loader = builder.build(ImageCollate::<u8>::with_dtype(&images)?)?;
        Ok(loader.to_device(device).normalize(IMAGENET_MEAN, IMAGENET_STD).channels_last(true))
    }
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

    let (train, valid) = options.photographs.open(&options.cache_dir(world)?, options.seed)?;
    let num_classes = i64::from(train.index.num_classes());
    let train_plan = ShuffleOncePerEpochPlanProvider::new(train.index.len(), options.batch_size, options.seed)?;
    // A validation sees each image once: ranks that have one too few repeat one, which is left out of the count.
    let valid_plan = SequentialPlanProvider::new(valid.index.len(), options.batch_size)?;
    let (drop, pad) = ((world, RemainderPolicy::Drop), (world, RemainderPolicy::Pad));
    let mut train = options.loader(train, train_plan.with_drop_last(true), drop, device)?;
    let valid = options.loader(valid, valid_plan, pad, device)?;
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
