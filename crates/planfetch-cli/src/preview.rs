//! `planfetch preview`: a picture of a batch, as a model would see it.

use std::path::{Path, PathBuf};
use std::sync::mpsc;

use clap::Args;
use planfetch::image::{caption, contact_sheet};
use planfetch::prelude::*;

#[derive(Args, Debug)]
pub(crate) struct PreviewOptions {
    /// The index: a CSV file, or the URI of one (s3://bucket/train.csv)
    #[arg(value_name = "CSV")]
    index: String,
    /// The column with the URIs of the objects
    #[arg(long, value_name = "NAME", default_value = "s3_uri", help_heading = "Index")]
    s3_uri_col: String,
    /// The column with the labels
    #[arg(long, value_name = "NAME", default_value = "label", help_heading = "Index")]
    class_col: String,

    /// Samples in the batch
    #[arg(long, value_name = "SAMPLES", default_value_t = 32, help_heading = "Batch")]
    batch_size: usize,
    /// The seed of the order and of the augmentation
    #[arg(long, value_name = "SEED", default_value_t = 0, help_heading = "Batch")]
    seed: u64,
    /// The epoch, from 0: in each, a sample is augmented in another way
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Batch")]
    epoch: u64,
    /// The step within the epoch, from 0
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Batch")]
    step: usize,

    /// A JSON file with the image settings: {"height": 224, "width": 224, "transforms": [{"RandomResizedCrop": {}}]}
    #[arg(long, value_name = "FILE", help_heading = "Images")]
    settings: Option<PathBuf>,
    /// The side that images are resized to without --settings, in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 224, conflicts_with = "settings", help_heading = "Images")]
    image_size: usize,

    /// The picture that is written, a PNG file
    #[arg(short, long, value_name = "FILE", default_value = "preview.png", help_heading = "Output")]
    out: PathBuf,
    /// Images side by side
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Output")]
    columns: usize,

    /// The directory of the cache [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR", help_heading = "Cache")]
    cache_dir: Option<PathBuf>,
    /// The URL of a server that speaks the S3 protocol [default: Amazon S3, or AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL", help_heading = "Cache")]
    endpoint: Option<String>,
    /// Ask for objects without a signature, as public buckets allow
    #[arg(long, help_heading = "Cache")]
    anonymous: bool,
}

/// Makes the batch that a training loop would get at that step of a shuffled epoch, and writes the picture.
pub(crate) fn run(options: &PreviewOptions) -> Result<(), BoxError> {
    let settings = match &options.settings {
        Some(path) => read_settings(path)?,
        None => ImageSettings { height: options.image_size, width: options.image_size, ..ImageSettings::default() },
    };
    // Removed when this function is left, by an error too.
    let (temporary, dir) = match &options.cache_dir {
        Some(dir) => (None, dir.clone()),
        None => {
            let folder = tempfile::Builder::new().prefix("planfetch-preview-").tempdir()?;
            let dir = folder.path().join("cache");
            (Some(folder), dir)
        }
    };
    let stores =
        StoreSettings { endpoint: options.endpoint.clone(), anonymous: options.anonymous, ..StoreSettings::default() };
    let cache = DiskCache::builder(dir).with_store_settings(stores).build()?;
    let columns = CsvSettings {
        uri_col: options.s3_uri_col.clone(),
        label_col: options.class_col.clone(),
        ..CsvSettings::default()
    };
    let index = load_index(&options.index, &columns, &cache)?;
    let batch = load_batch(&index, &settings, options, &cache)?;
    drop(temporary);
    let name = |label: i64| {
        let label = u32::try_from(label).ok()?;
        index.class_name(label).map(str::to_owned)
    };
    let sheet = contact_sheet(&batch, &settings, options.columns, |slot| caption(&batch, slot, name))?;
    sheet.write_png(&options.out)?;
    print(options, &batch, &settings);
    Ok(())
}

fn read_settings(path: &Path) -> Result<ImageSettings, BoxError> {
    let json = std::fs::read(path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
    Ok(serde_json::from_slice(&json).map_err(|error| format!("{} holds no image settings: {error}", path.display()))?)
}

/// Loads one batch: as the loader would, but none of those before it.
fn load_batch(
    index: &SampleIndex,
    settings: &ImageSettings,
    options: &PreviewOptions,
    cache: &DiskCache,
) -> Result<ImageBatch, BoxError> {
    let PreviewOptions { batch_size, seed, epoch, step, .. } = *options;
    let plan = ShuffleOncePerEpochPlanProvider::new(index.len(), batch_size, seed)?.plan(epoch)?;
    let ids = plan.batch(step).ok_or_else(|| {
        format!("--step is {step}, but {} samples make {} batches of {batch_size}", index.len(), plan.num_batches())
    })?;
    let ids = ids.to_vec();
    let dataset = ImageDataset::new(index.clone(), settings.clone())?;
    let collate = ImageCollate::new(settings)?;

    let (sender, files) = mpsc::channel();
    let mut uri = String::new();
    for (slot, &id) in ids.iter().enumerate() {
        dataset.write_uri(id, &mut uri);
        let sender = sender.clone();
        // OK because where nobody receives, another sample has failed.
        cache.ensure_local_then(&uri, move |file| drop(sender.send((slot, file))));
    }
    drop(sender);
    let mut buffer = collate.buffer();
    let mut slots: Vec<_> = collate.slots(&mut buffer, ids.len()).into_iter().map(Some).collect();
    for (slot, file) in files {
        let file = file?;
        let position = step as u64 * plan.batch_size() as u64 + slot as u64;
        let mut ctx = SampleContext::new(ids[slot], Some(&file), seed, epoch, position);
        let place = slots[slot].take().expect("each file comes once");
        let put = dataset.get(&mut ctx).and_then(|sample| collate.put(sample, place));
        put.map_err(|error| {
            dataset.write_uri(ids[slot], &mut uri);
            format!("{uri} (sample {}): {error}", ids[slot].0)
        })?;
    }
    drop(slots);
    Ok(collate.finish(buffer))
}

#[expect(clippy::print_stdout, reason = "the program says what it wrote")]
fn print(options: &PreviewOptions, batch: &ImageBatch, settings: &ImageSettings) {
    println!("{settings}");
    println!(
        "{}: step {} of epoch {}, {} images of {} x {}",
        options.out.display(),
        options.step,
        options.epoch,
        batch.len(),
        settings.height,
        settings.width
    );
}
