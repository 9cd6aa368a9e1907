//! `planfetch speedtest`: a training loop without a model.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use planfetch::prelude::*;

use crate::options::{Decode, SpeedtestOptions, Strategy};
use crate::summary::{Latencies, Summary};

/// Reads the index, runs epochs over it, and prints what was measured.
pub(crate) fn run(options: &SpeedtestOptions) -> Result<(), BoxError> {
    // Removed when this function is left, by an error too.
    let (temporary, dir) = match &options.cache_dir {
        Some(dir) => (None, dir.clone()),
        None => {
            let folder = tempfile::Builder::new().prefix("planfetch-speedtest-").tempdir()?;
            let dir = folder.path().join("cache");
            (Some(folder), dir)
        }
    };
    let settings = CacheSettings { download_concurrency: options.download_threads, ..CacheSettings::default() };
    let stores =
        StoreSettings { endpoint: options.endpoint.clone(), anonymous: options.anonymous, ..StoreSettings::default() };
    let cache = DiskCache::builder(dir).with_settings(settings).with_store_settings(stores).build()?;
    let columns = CsvSettings {
        uri_col: options.s3_uri_col.clone(),
        label_col: options.class_col.clone(),
        ..CsvSettings::default()
    };
    let index = load_index(&options.index, &columns, &cache)?;
    let index = select(index, options)?;

    let summary = match options.decode {
        Decode::None => {
            measure(&index, Bytes(index.clone()), collate_fn(|sizes: Vec<u64>| sizes.len()), options, cache)?
        }
        Decode::Image => {
            let images =
                ImageSettings { height: options.image_size, width: options.image_size, ..ImageSettings::default() };
            measure(
                &index,
                ImageDataset::new(index.clone(), images.clone())?,
                ImageCollate::new(&images)?,
                options,
                cache,
            )?
        }
    };
    drop(temporary);
    print(&summary);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what was measured is what the program is for")]
fn print(summary: &Summary) {
    print!("{summary}");
}

/// Returns the rows that the options leave.
fn select(index: SampleIndex, options: &SpeedtestOptions) -> Result<SampleIndex, BoxError> {
    if options.offset == 0 && options.limit.is_none() {
        return Ok(index);
    }
    let all = usize::try_from(index.len())?;
    let end = options.limit.map_or(all, |limit| options.offset.saturating_add(limit)).min(all);
    if end <= options.offset {
        return Err(format!(
            "--offset {} and --limit {} leave no row of the {all} in {}",
            options.offset,
            options.limit.map_or("(none)".into(), |limit| limit.to_string()),
            options.index
        )
        .into());
    }
    Ok(index.select(options.offset..end))
}

fn measure<D: Dataset, C: Collate<D::Sample>>(
    index: &SampleIndex,
    dataset: D,
    collate: C,
    options: &SpeedtestOptions,
    cache: DiskCache,
) -> Result<Summary, BoxError> {
    let settings = LoaderSettings {
        batches_ahead: options.batches_ahead.into(),
        batches_back: options.batches_back,
        prune_every: options.prune_every,
        num_epochs: Some(options.epochs),
        ..LoaderSettings::default()
    };
    let settings = LoaderSettings { num_workers: options.num_workers.unwrap_or(settings.num_workers), ..settings };
    let before = cache.stats();
    let started = Instant::now();
    let plan = provider(index, options)?;
    let samples_per_epoch = plan.plan(0)?.num_ids() as u64;
    let builder = LoaderBuilder::new(dataset, collate, plan);
    let (mut loader, controller) = builder.with_cache(cache.clone()).with_settings(settings).build()?;

    let bar = progress_bar(samples_per_epoch.saturating_mul(options.epochs));
    let mut latencies = Latencies::default();
    let mut samples = 0;
    for epoch in 0..options.epochs {
        controller.set_epoch(epoch)?;
        loop {
            let asked = Instant::now();
            let Some(batch) = loader.next() else { break };
            let batch = batch?;
            latencies.record(asked.elapsed(), started.elapsed());
            let len = batch.ids().len() as u64;
            samples += len;
            bar.inc(len);
            bar.set_message(format!("epoch {}/{}", epoch + 1, options.epochs));
        }
    }
    bar.finish_and_clear();
    Ok(Summary { samples, elapsed: started.elapsed(), latencies, cache: Summary::difference(&cache.stats(), &before) })
}

/// Returns what makes the order that the options ask for.
fn provider(index: &SampleIndex, options: &SpeedtestOptions) -> Result<Box<dyn PlanProvider>, BoxError> {
    let SpeedtestOptions { batch_size, seed, .. } = *options;
    let (n, labels, classes) = (index.len(), index.labels(), index.num_classes());
    Ok(match options.strategy {
        Strategy::Shuffle => Box::new(ShuffleOncePerEpochPlanProvider::new(n, batch_size, seed)?),
        Strategy::Sequential => Box::new(SequentialPlanProvider::new(n, batch_size)?.with_seed(seed)),
        Strategy::Stratified => Box::new(StreamingStratifiedBatchPlanProvider::new(labels, classes, batch_size, seed)?),
        Strategy::Balanced => {
            Box::new(BalancedSubsamplingPlanProvider::from_batch_size(labels, classes, batch_size, seed)?)
        }
    })
}

fn progress_bar(samples: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(samples), ProgressDrawTarget::stderr());
    let template = "{msg} {wide_bar} {human_pos}/{human_len} samples  {per_sec}  {eta}";
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The objects as they are: each is read, and only its length is kept.
struct Bytes(SampleIndex);

impl ObjectUris for Bytes {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.0.write_uri(id, uri)
    }

    fn object_range(&self, id: SampleId) -> Option<std::ops::Range<u64>> {
        self.0.object_range(id)
    }
}

impl Dataset for Bytes {
    type Sample = u64;

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
        thread_local! {
            static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
        }
        let file = ctx.file().ok_or("every sample has a file")?;
        BUFFER.with_borrow_mut(|buffer| file.read_into(buffer))?;
        Ok(file.len())
    }
}
