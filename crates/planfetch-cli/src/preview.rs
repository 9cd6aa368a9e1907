//! `planfetch preview`: a picture of a batch, as a model would see it.

use std::path::PathBuf;
use std::sync::mpsc;

use clap::Args;
use planfetch::image::{caption, contact_sheet};
use planfetch::prelude::*;

use crate::context::Context;
use crate::failure::Failure;
use crate::options::{CacheOptions, ImageOptions, PlanOptions, SourceOptions, StoreOptions};
use crate::output::print;

#[derive(Args, Debug)]
pub(crate) struct PreviewOptions {
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    plan: PlanOptions,
    /// The epoch, from 0: in each, a sample is augmented in another way
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Batch")]
    epoch: u64,
    /// The step within the epoch, from 0
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Batch")]
    step: usize,
    #[command(flatten)]
    images: ImageOptions,
    #[command(flatten)]
    cache: CacheOptions,
    #[command(flatten)]
    store: StoreOptions,
    /// The picture that is written, a PNG file
    #[arg(short, long, value_name = "FILE", default_value = "preview.png", help_heading = "Output")]
    out: PathBuf,
    /// Images side by side
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Output")]
    columns: usize,
}

/// Makes the batch that a training loop would get at that step of an epoch, and writes the picture.
pub(crate) fn run(options: &PreviewOptions, context: &Context) -> Result<(), Failure> {
    let settings = options.images.settings(context)?;
    let stores = options.store.settings(context);
    let open = options.cache.open(&stores, context)?;
    let index = options.source.load(&open.cache, &stores)?;
    let batch = load_batch(&index, &settings, options, &open.cache)?;
    drop(open);
    let name = |label: i64| {
        let label = u32::try_from(label).ok()?;
        index.class_name(label).map(str::to_owned)
    };
    let sheet = contact_sheet(&batch, &settings, options.columns, |slot| caption(&batch, slot, name))?;
    sheet.write_png(&options.out)?;
    let PreviewOptions { out, step, epoch, .. } = options;
    let (n, height, width) = (batch.len(), settings.height, settings.width);
    print(format_args!(
        "{settings}\n{}: step {step} of epoch {epoch}, {n} images of {height} x {width}\n",
        out.display()
    ))
}

/// Loads one batch: as the loader would, but none of those before it.
fn load_batch(
    index: &SampleIndex,
    settings: &ImageSettings,
    options: &PreviewOptions,
    cache: &DiskCache,
) -> Result<ImageBatch, Failure> {
    let PreviewOptions { epoch, step, .. } = *options;
    let PlanOptions { batch_size, seed, .. } = options.plan;
    let (world, policy) = options.plan.world()?;
    let plan = options.plan.provider(index)?.plan(epoch)?.for_rank(world, policy)?;
    let batch = plan.batch(step).ok_or_else(|| {
        let steps = plan.num_steps();
        Failure::usage(
            format!("--step is {step}, but {} samples make {steps} batches of {batch_size}", index.len()),
            format!("steps are counted from 0; give one below {steps}"),
        )
    })?;
    let slots: Vec<_> = batch.iter().collect();
    let dataset = ImageDataset::new(index.clone(), settings.clone())?;
    let collate = ImageCollate::new(settings)?;

    let (sender, files) = mpsc::channel();
    let mut uri = String::new();
    for (slot, wanted) in slots.iter().enumerate() {
        dataset.write_uri(wanted.sample, &mut uri);
        let sender = sender.clone();
        // OK because where nobody receives, another sample has failed.
        let then = move |file| drop(sender.send((slot, file)));
        match dataset.object_range(wanted.sample) {
            None => cache.ensure_local_then(&uri, then),
            Some(range) => cache.ensure_local_range_then(&uri, range, then),
        }
    }
    drop(sender);
    let mut buffer = collate.buffer();
    let mut places: Vec<_> = collate.slots(&mut buffer, slots.len()).into_iter().map(Some).collect();
    for (slot, file) in files {
        let file = file?;
        let wanted = slots[slot];
        // OK because an index fits in 64 bits.
        let mut ctx = SampleContext::new(wanted.sample, Some(&file), seed, epoch, wanted.position as u64);
        let place = places[slot].take().expect("each file comes once");
        let put = dataset.get(&mut ctx).and_then(|sample| collate.put(sample, place));
        put.map_err(|error| {
            dataset.write_uri(wanted.sample, &mut uri);
            format!("{uri} (sample {}): {error}", wanted.sample.0)
        })?;
    }
    drop(places);
    Ok(collate.finish(buffer))
}
