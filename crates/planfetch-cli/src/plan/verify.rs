//! `planfetch plan verify`.

use std::fmt;

use clap::{Args, ValueEnum};
use planfetch::prelude::*;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::options::Strategy;
use crate::plan::{Order, Planned};
use crate::units::count;

/// How many classes are shown to people; programs get all.
const SHOWN: usize = 10;

#[derive(Args, Debug)]
pub(crate) struct VerifyOptions {
    #[command(flatten)]
    planned: Planned,
    /// How many epochs are checked, from 0
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Check",
        conflicts_with = "saved",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    epochs: u64,
    /// How often samples must come [default: as often as --strategy has them, and any for a saved plan]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Check")]
    expect: Option<Expect>,
    /// The digest that epoch 0 must have, as plan digest prints it [default: any]
    #[arg(long, value_name = "HEX", help_heading = "Check")]
    expect_digest: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Expect {
    /// Every sample once
    Once,
    /// All classes equally often
    Balanced,
    /// Any number of times: they are counted, and that is all
    Any,
}

impl VerifyOptions {
    /// Returns what an epoch must be. How a saved plan was made is not in it, and balanced or weighted plans repeat
    /// samples and leave others out.
    fn expected(&self) -> Expect {
        self.expect.unwrap_or(match (&self.planned.saved, self.planned.plan.strategy) {
            (Some(_), _) => Expect::Any,
            (None, Strategy::Balanced) => Expect::Balanced,
            (None, Strategy::Shuffle | Strategy::Sequential | Strategy::Stratified) => Expect::Once,
        })
    }
}

#[derive(Debug, Serialize)]
struct Verified {
    epochs: Vec<Epoch>,
    /// What is not as it should be; nothing, where the plan is in order.
    problems: Vec<String>,
}

/// What one epoch does.
#[derive(Debug, Serialize)]
struct Epoch {
    epoch: u64,
    digest: String,
    steps: usize,
    /// Slots, samples that come again counted each time.
    slots: u64,
    missing: u64,
    repeated: u64,
    classes: Vec<Class>,
    ranks: Option<Ranks>,
}

#[derive(Debug, Serialize)]
struct Class {
    label: u32,
    name: Option<String>,
    in_index: u64,
    in_plan: u64,
}

/// How ranks share an epoch.
#[derive(Debug, Default, Serialize)]
struct Ranks {
    world_size: u32,
    steps: usize,
    left_out: u64,
    padding: u64,
}

pub(crate) fn run(options: &VerifyOptions, context: &Context) -> Result<(), Failure> {
    let order = options.planned.order(context)?;
    let (world, policy) = options.planned.plan.world()?;
    let mut verified = Verified { epochs: Vec::new(), problems: Vec::new() };
    for epoch in 0..options.epochs {
        let plan = order.plan(epoch)?;
        let (found, problems) = check(&order, &plan, epoch, options.expected());
        verified.problems.extend(problems);
        let ranks = (1 < world.world_size).then(|| ranks(&plan, world.world_size, policy)).transpose()?;
        verified.problems.extend(ranks.iter().flat_map(|(_, problems)| problems.clone()));
        verified.epochs.push(Epoch { ranks: ranks.map(|(ranks, _)| ranks), ..found });
    }
    if let (Some(expected), Some(first)) = (&options.expect_digest, verified.epochs.first())
        && !expected.eq_ignore_ascii_case(&first.digest)
    {
        verified.problems.push(format!("epoch 0 has the digest {}, and not {expected}", first.digest));
    }
    options.planned.output.print(&verified)?;
    match verified.problems.len() {
        0 => Ok(()),
        n => Err(Failure::Found(format!("the plan is not as it should be, in {n} points"))),
    }
}

/// Counts how often each sample and each class comes.
fn check(order: &Order, plan: &PlanView, epoch: u64, expect: Expect) -> (Epoch, Vec<String>) {
    // OK because the index is in memory, and so its length fits.
    let mut times = vec![0_u32; order.index.len() as usize];
    let (labels, mut problems) = (order.index.labels(), Vec::new());
    for batch in plan {
        batch.into_iter().for_each(|id| times[id.index()] += 1);
    }
    let missing = times.iter().filter(|&&n| n == 0).count() as u64;
    let repeated = times.iter().filter(|&&n| 1 < n).count() as u64;
    let mut in_plan = std::collections::BTreeMap::<u32, u64>::new();
    times.iter().zip(labels).for_each(|(&n, &label)| *in_plan.entry(label).or_default() += u64::from(n));
    let classes: Vec<Class> = order
        .index
        .class_counts()
        .into_iter()
        .map(|(label, in_index)| Class {
            label,
            name: order.index.class_name(label).map(str::to_owned),
            in_index,
            in_plan: in_plan.get(&label).copied().unwrap_or(0),
        })
        .collect();
    match expect {
        Expect::Balanced => {
            let mut counts = classes.iter().filter(|class| 0 < class.in_index).map(|class| class.in_plan);
            let first = counts.next();
            if !counts.all(|n| Some(n) == first) {
                problems.push(format!("epoch {epoch}: classes don't come equally often"));
            }
        }
        Expect::Once if 0 < missing + repeated => {
            problems.push(format!("epoch {epoch}: {missing} samples are missing, and {repeated} come more than once"));
        }
        Expect::Once | Expect::Any => {}
    }
    let digest = plan.digest().to_string();
    let (steps, slots) = (plan.num_batches(), plan.num_ids() as u64);
    (Epoch { epoch, digest, steps, slots, missing, repeated, classes, ranks: None }, problems)
}

/// Checks that all ranks have the same steps, and that together they take each row once.
fn ranks(plan: &PlanView, world_size: u32, policy: RemainderPolicy) -> Result<(Ranks, Vec<String>), Failure> {
    let parts = (0..world_size).map(|rank| plan.for_rank(World { rank, world_size }, policy));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let steps = parts.iter().map(planfetch::plan::RankPlan::num_steps);
    let mut problems = Vec::new();
    let mut ranks = Ranks { world_size, steps: steps.clone().min().unwrap_or(0), ..Ranks::default() };
    if steps.max() != Some(ranks.steps) {
        problems.push("ranks have different numbers of steps".to_owned());
    }
    let mut taken = 0;
    for step in 0..ranks.steps {
        let mut positions: Vec<usize> = Vec::new();
        for batch in parts.iter().filter_map(|part| part.batch(step)) {
            ranks.padding += batch.num_padding() as u64;
            positions.extend(batch.iter().filter(|slot| !slot.padding).map(|slot| slot.position));
        }
        taken += positions.len() as u64;
        positions.sort_unstable();
        if positions.windows(2).any(|pair| pair[0] == pair[1]) {
            problems.push(format!("step {step}: two ranks take the same slot"));
        }
    }
    ranks.left_out = plan.num_ids() as u64 - taken;
    if 0 < ranks.left_out && policy != RemainderPolicy::Drop {
        problems.push(format!("{} slots are taken by no rank", ranks.left_out));
    }
    Ok((ranks, problems))
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for epoch in &self.epochs {
            let Epoch { slots, steps, missing, repeated, digest, .. } = epoch;
            writeln!(f, "epoch {}: {} slots in {} steps", epoch.epoch, count(*slots), count(*steps as u64))?;
            writeln!(f, "  digest {digest}")?;
            match (missing, repeated) {
                (0, 0) => writeln!(f, "  every sample comes once")?,
                _ => writeln!(f, "  {} samples don't come, {} come more than once", count(*missing), count(*repeated))?,
            }
            if let Some(Ranks { world_size, steps, left_out, padding }) = &epoch.ranks {
                writeln!(f, "  {world_size} ranks: {steps} steps, {left_out} slots left out, {padding} padding")?;
            }
            for Class { label, name, in_index, in_plan } in epoch.classes.iter().take(SHOWN) {
                let name = name.as_deref().map_or(String::new(), |name| format!(" ({name})"));
                writeln!(f, "  class {label}{name}: {} of {}", count(*in_plan), count(*in_index))?;
            }
            if let more @ 1.. = epoch.classes.len().saturating_sub(SHOWN) {
                writeln!(f, "  and {more} more classes; --json shows all")?;
            }
        }
        self.problems.iter().try_for_each(|problem| writeln!(f, "problem: {problem}"))
    }
}
