//! `planfetch plan show`.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::note;
use crate::plan::Planned;
use crate::replace::{replace, write_whole};
use crate::units::count;

#[derive(Args, Debug)]
pub(crate) struct ShowOptions {
    #[command(flatten)]
    planned: Planned,
    /// The epoch, from 0
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Batches", conflicts_with = "saved")]
    epoch: u64,
    /// The first step that is shown, from 0
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Batches")]
    step: usize,
    /// How many steps are shown
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Batches")]
    steps: usize,
    /// Save the whole plan of the epoch [default: it is not saved]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    save: Option<PathBuf>,
}

/// A plan, and some of its batches: those of one rank, where a world was given.
#[derive(Debug, Serialize)]
struct Shown {
    epoch: u64,
    order: String,
    num_samples: u64,
    batch_size: usize,
    num_steps: usize,
    world: String,
    batches: Vec<ShownBatch>,
}

#[derive(Debug, Serialize)]
struct ShownBatch {
    step: usize,
    samples: Vec<ShownSample>,
}

#[derive(Debug, Serialize)]
struct ShownSample {
    id: u64,
    label: Option<u32>,
    uri: Option<String>,
    padding: bool,
}

pub(crate) fn run(options: &ShowOptions, context: &Context) -> Result<(), Failure> {
    let order = options.planned.order(context)?;
    let plan = order.plan(options.epoch)?;
    let (world, policy) = options.planned.plan.world()?;
    let part = plan.for_rank(world, policy)?;
    if part.num_steps() <= options.step {
        return Err(Failure::usage(
            format!("--step is {}, but the plan has {} steps", options.step, part.num_steps()),
            "steps are counted from 0",
        ));
    }
    let steps = options.step..options.step.saturating_add(options.steps).min(part.num_steps());
    let batches = steps.filter_map(|step| {
        let batch = part.batch(step)?;
        let samples = batch.iter().map(|slot| ShownSample {
            id: slot.sample.0,
            label: order.index.label(slot.sample.index()),
            uri: order.index.uri(slot.sample.index()),
            padding: slot.padding,
        });
        Some(ShownBatch { step, samples: samples.collect() })
    });
    let shown = Shown {
        epoch: options.epoch,
        order: match &options.planned.saved {
            Some(path) => format!("saved in {}", path.display()),
            None => order.provider.fingerprint().to_string(),
        },
        num_samples: plan.num_samples(),
        batch_size: plan.batch_size(),
        num_steps: part.num_steps(),
        world: world.to_string(),
        batches: batches.collect(),
    };
    options.planned.output.print(&shown)?;
    if let Some(path) = &options.save {
        replace(path, &context.interrupt, |temporary| {
            let written = write_whole(temporary, |file| plan.save(file));
            Ok(written.map_err(|error| format!("can't write the plan {}: {error}", path.display()))?)
        })?;
        note(format_args!("the plan of epoch {} is saved in {}", options.epoch, path.display()));
    }
    Ok(())
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "epoch {}: {} steps of {} samples, of a data set of {}; {}",
            self.epoch,
            count(self.num_steps as u64),
            self.batch_size,
            count(self.num_samples),
            self.world
        )?;
        writeln!(f, "order {}", self.order)?;
        for batch in &self.batches {
            writeln!(f, "\nstep {}", batch.step)?;
            for sample in &batch.samples {
                let (label, uri) = (sample.label.unwrap_or_default(), sample.uri.as_deref().unwrap_or_default());
                let padding = if sample.padding { "  (padding)" } else { "" };
                writeln!(f, "  {:>10}  class {label:<5} {uri}{padding}", sample.id)?;
            }
        }
        Ok(())
    }
}
