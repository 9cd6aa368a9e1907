//! `planfetch speedtest`: a training loop without a model.

mod measure;
mod page;
mod plots;
mod samples;
mod summary;
mod timeline;

use std::cell::RefCell;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use planfetch::prelude::*;

use crate::context::Context;
use crate::failure::Failure;
use crate::options::{CacheOptions, ImageOptions, PlanOptions, SourceOptions, StoreOptions, WindowOptions};
use crate::output::{OutputOptions, note};
use crate::speedtest::measure::{Measured, Work, measure};
use crate::speedtest::summary::{Asked, Summary};

#[derive(Args, Debug)]
pub(crate) struct SpeedtestOptions {
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    plan: PlanOptions,
    /// Passes over the data
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Work", value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// What is done with each object
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Decode::Image, help_heading = "Work")]
    decode: Decode,
    /// The time that a training step takes, in milliseconds; with 0, the loader runs as fast as it can
    #[arg(long, value_name = "MS", default_value_t = 0, help_heading = "Work")]
    step_ms: u64,
    #[command(flatten)]
    images: ImageOptions,
    #[command(flatten)]
    window: WindowOptions,
    #[command(flatten)]
    cache: CacheOptions,
    #[command(flatten)]
    store: StoreOptions,
    #[command(flatten)]
    output: OutputOptions,
    /// Write a report with plots, a page that needs no network [default: none]
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Decode {
    /// Read its bytes
    None,
    /// Decode, resize and normalise it as an image
    Image,
}

/// Reads the index, runs epochs over it, and prints what was measured, also when it is interrupted.
pub(crate) fn run(options: &SpeedtestOptions, context: &Context) -> Result<(), Failure> {
    if let (Decode::None, Some(option)) = (options.decode, options.images.given()) {
        return Err(Failure::usage(
            format!("{option} can't go with --decode none, which makes no image of an object"),
            format!("leave {option} out, or measure with --decode image"),
        ));
    }
    if let Some(report) = &options.report {
        check_writable(report)?;
    }
    let stores = options.store.settings(context);
    let open = options.cache.open(&stores, context)?;
    let index = options.source.load(&open.cache, &stores)?;
    let (world, policy) = options.plan.world()?;
    let settings = LoaderSettings { num_epochs: Some(options.epochs), ..options.window.settings(context) };
    let asked = Asked {
        index: options.source.index.clone(),
        strategy: name(&options.plan.strategy),
        batch_size: options.plan.batch_size,
        seed: options.plan.seed,
        rank: world.rank,
        world_size: world.world_size,
        epochs: options.epochs,
        decode: name(&options.decode),
        step_ms: options.step_ms,
        loader: settings.clone(),
        cache: open.cache.settings().clone(),
    };
    let work = Work {
        provider: options.plan.provider(&index)?,
        world,
        policy,
        settings,
        epochs: options.epochs,
        verbose: context.verbose,
        step: std::time::Duration::from_millis(options.step_ms),
        index: index.clone(),
        cache: open.cache,
    };
    let measured = match options.decode {
        Decode::None => {
            let dataset = ObjectPathDataset::new(index, read);
            measure(dataset, collate_fn(|samples: Vec<(u64, i64)>| samples.len()), work, &context.interrupt)?
        }
        Decode::Image => {
            let images = options.images.settings(context)?;
            let collate = ImageCollate::new(&images)?;
            measure(ImageDataset::new(index, images)?, collate, work, &context.interrupt)?
        }
    };
    // Nothing is loaded any more, so the temporary folder can go before anything else fails.
    drop(open.temporary);
    report(options, &measured, asked)
}

/// Reads an object, of which only the length is kept.
fn read(file: &LocalFile) -> Result<u64, BoxError> {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| file.read_into(buffer))?;
    Ok(file.len())
}

/// Prints what was measured, and writes the page.
fn report(options: &SpeedtestOptions, measured: &Measured, asked: Asked) -> Result<(), Failure> {
    let summary = Summary::new(measured, asked);
    options.output.print(&summary)?;
    if let Some(path) = &options.report {
        let page = page::page(&summary, measured)?;
        std::fs::write(path, page).map_err(|error| format!("can't write {}: {error}", path.display()))?;
        note(format_args!("the report is in {}", path.display()));
    }
    if measured.is_interrupted { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Returns the name that a value has on the command line.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Says before the run, and not after it, that a file can't be written.
fn check_writable(path: &std::path::Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
        let hint = "name a file in a folder that exists, such as --report report.html";
        return Err(Failure::usage(format!("--report {} can't be written", path.display()), hint));
    }
    Ok(())
}
