//! `planfetch plan`: the order of an epoch, looked at before it is trained in.

mod diff;
mod digest;
mod show;
mod verify;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use planfetch::prelude::*;

use crate::context::Context;
use crate::failure::Failure;
use crate::options::{OpenCache, PlanOptions, SourceOptions, StoreOptions};
use crate::output::OutputOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Print the shape of a plan and its first batches, or save it
    Show(Box<show::ShowOptions>),
    /// Check that every sample comes once, count classes, and print the digest
    Verify(Box<verify::VerifyOptions>),
    /// Compare two saved plans, and say where they part
    Diff(diff::DiffOptions),
    /// Print the digest of a plan, which ranks compare before they begin, and of each rank's part
    Digest(Box<digest::DigestOptions>),
}

pub(crate) fn run(command: &PlanCommand, context: &Context) -> Result<(), Failure> {
    match command {
        PlanCommand::Show(options) => show::run(options, context),
        PlanCommand::Verify(options) => verify::run(options, context),
        PlanCommand::Diff(options) => diff::run(options),
        PlanCommand::Digest(options) => digest::run(options, context),
    }
}

#[derive(Args, Debug)]
pub(crate) struct Planned {
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    plan: PlanOptions,
    /// Take the plan that was saved in this file, instead of the one that the options make
    #[arg(long, value_name = "FILE", help_heading = "Plan", conflicts_with_all = ["strategy", "batch_size", "seed"])]
    saved: Option<PathBuf>,
    #[command(flatten)]
    store: StoreOptions,
    #[command(flatten)]
    output: OutputOptions,
}

/// An index, and what makes plans over it.
struct Order {
    index: SampleIndex,
    provider: Arc<dyn PlanProvider>,
    saved: Option<PlanView>,
}

impl Planned {
    /// Reads the index, and finds what makes the plan.
    fn order(&self, context: &Context) -> Result<Order, Failure> {
        let stores = self.store.settings(context);
        let open = OpenCache::temporary(&stores, context)?;
        let index = self.source.load(&open.cache, &stores)?;
        let saved = self.saved.as_deref().map(load).transpose()?;
        if let Some(saved) = &saved
            && saved.num_samples() != index.len()
        {
            return Err(Failure::usage(
                format!(
                    "the saved plan is for {} samples, and {} has {}",
                    saved.num_samples(),
                    self.source.index,
                    index.len()
                ),
                "name the index that the plan was made for, with the same --offset, --limit and --sample-frac",
            ));
        }
        Ok(Order { provider: self.plan.provider(&index)?, index, saved })
    }
}

impl Order {
    /// Returns the plan of an epoch; the saved one, where one was named.
    fn plan(&self, epoch: u64) -> Result<PlanView, Failure> {
        match &self.saved {
            Some(saved) => Ok(saved.clone()),
            None => Ok(self.provider.plan(epoch)?),
        }
    }
}

/// Reads a plan that was saved.
fn load(path: &Path) -> Result<PlanView, Failure> {
    let name = |error: &dyn std::fmt::Display| format!("can't read the plan {}: {error}", path.display());
    let file = File::open(path).map_err(|error| name(&error))?;
    Ok(PlanView::load(&mut BufReader::new(file)).map_err(|error| name(&error))?)
}
