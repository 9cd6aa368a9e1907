//! `planfetch index`: makes an index, describes one, and checks what it names.

mod check;
mod describe;
mod progress;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use planfetch::prelude::*;

use crate::context::Context;
use crate::failure::Failure;
use crate::index::describe::Prices;
use crate::options::{CacheOptions, SourceOptions, StoreOptions, WindowOptions, is_table};
use crate::output::{OutputOptions, note};
use crate::replace::replace;
use crate::units::{bytes, count};

#[derive(Args, Debug)]
pub(crate) struct IndexOptions {
    #[command(flatten)]
    source: SourceOptions,
    /// Say what the index holds, how fast S3 can serve it, and what an epoch costs
    #[arg(long, help_heading = "What is done (default: the index is written)", conflicts_with = "check")]
    describe: bool,
    /// Load every object, and list those that are missing, empty, or can't be decoded
    #[arg(long, help_heading = "What is done (default: the index is written)")]
    check: bool,
    /// Where the index is written, or with --check the list: .csv, .parquet or .index; with --check, a run that was
    /// interrupted goes on [default: standard output, as CSV]
    #[arg(short, long, value_name = "FILE", help_heading = "Output", conflicts_with = "describe")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: OutputOptions,
    /// What --check does with each object
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Decode::Image, help_heading = "Check")]
    decode: Decode,
    #[command(flatten)]
    prices: Prices,
    #[command(flatten)]
    window: WindowOptions,
    #[command(flatten)]
    cache: CacheOptions,
    #[command(flatten)]
    store: StoreOptions,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Decode {
    /// See that it is there and not empty
    None,
    /// Decode it as an image
    Image,
}

/// Does what the options ask for.
pub(crate) fn run(options: &IndexOptions, context: &Context) -> Result<(), Failure> {
    if let Some(out) = options.out.as_deref().filter(|_| !options.check) {
        Form::of(out)?;
    }
    let stores = options.store.settings(context);
    let open = options.cache.open(&stores, context)?;
    let selected = options.source.load_selected(&open.cache, &stores)?;
    if options.describe {
        return options.output.print(&describe::Page::new(&selected.index, &options.prices));
    }
    if options.check {
        return check::run(options, &selected, open.cache, context);
    }
    write(&selected.index, options, context)
}

/// Writes the index to where the options say.
fn write(index: &SampleIndex, options: &IndexOptions, context: &Context) -> Result<(), Failure> {
    match &options.out {
        None => index.write_csv(std::io::stdout().lock())?,
        Some(out) => {
            let form = Form::of(out)?;
            replace(out, &context.interrupt, |temporary| {
                let written = match form {
                    Form::Csv => index.save_csv(temporary),
                    Form::Parquet => index.save_parquet(temporary),
                    Form::Saved => index.save(temporary),
                };
                // The name that was asked for, and not that of a file which is gone.
                Ok(written.map_err(|error| match error {
                    IndexError::Write { source, .. } => IndexError::Write { file: out.display().to_string(), source },
                    other => other,
                })?)
            })?;
        }
    }
    let (rows, classes) = (count(index.len()), index.class_counts().len());
    let size = index.sizes().map(|sizes| format!(", {}", bytes(sizes.iter().map(|size| *size as f64).sum())));
    let what = if is_table(&options.source.index) { "rows" } else { "objects" };
    note(format_args!("{rows} {what} of {classes} classes{}", size.unwrap_or_default()));
    Ok(())
}

/// What an index is written in.
enum Form {
    Csv,
    Parquet,
    Saved,
}

impl Form {
    /// Tells it by the name.
    fn of(path: &Path) -> Result<Self, Failure> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("parquet") => Ok(Self::Parquet),
            Some("index") => Ok(Self::Saved),
            _ => Err(Failure::usage(
                format!("--out {} does not say what to write", path.display()),
                "end the name in .csv, .parquet or .index (which loads fastest)",
            )),
        }
    }
}
