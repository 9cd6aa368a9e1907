//! `planfetch plan digest`.

use std::fmt;

use clap::Args;
use planfetch::prelude::*;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::plan::Planned;
use crate::units::count;

#[derive(Args, Debug)]
pub(crate) struct DigestOptions {
    #[command(flatten)]
    planned: Planned,
    /// The epoch, from 0
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Digest", conflicts_with = "saved")]
    epoch: u64,
    /// Digests of the parts of so many ranks too [default: as --world says]
    #[arg(long, value_name = "N", help_heading = "Digest", conflicts_with = "world")]
    world_size: Option<u32>,
}

#[derive(Debug, Serialize)]
struct Digests {
    epoch: u64,
    /// That of the global plan, which all ranks share.
    digest: String,
    fingerprint: Option<String>,
    ranks: Vec<Rank>,
}

/// A rank's part, as a plan of its own.
#[derive(Debug, Serialize)]
struct Rank {
    rank: u32,
    samples: usize,
    digest: String,
}

pub(crate) fn run(options: &DigestOptions, context: &Context) -> Result<(), Failure> {
    let order = options.planned.order(context)?;
    let plan = order.plan(options.epoch)?;
    let (world, _) = options.planned.plan.world()?;
    let world_size = options.world_size.unwrap_or(world.world_size);
    let ranks = (0..world_size).filter(|_| 1 < world_size);
    let ranks = ranks.map(|rank| part(&plan, World { rank, world_size }, options.planned.plan.policy()));
    let digests = Digests {
        epoch: options.epoch,
        digest: plan.digest().to_string(),
        fingerprint: options.planned.saved.is_none().then(|| order.provider.fingerprint().to_string()),
        ranks: ranks.collect::<Result<_, _>>()?,
    };
    options.planned.output.print(&digests)
}

fn part(plan: &PlanView, world: World, policy: RemainderPolicy) -> Result<Rank, Failure> {
    let part = plan.for_rank(world, policy)?;
    let ids: Vec<u64> = part.iter().flat_map(|batch| batch.to_vec()).map(|id| id.0).collect();
    // All rows but the last are equally wide.
    let width = part.batch(0).map_or(1, |batch| batch.len()).max(1);
    let samples = ids.len();
    let digest = PlanView::from_ids(ids, width, plan.num_samples())?.digest().to_string();
    Ok(Rank { rank: world.rank, samples, digest })
}

impl fmt::Display for Digests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  epoch {}, all ranks together", self.digest, self.epoch)?;
        for Rank { rank, samples, digest } in &self.ranks {
            writeln!(f, "{digest}  rank {rank} of {}, {} samples", self.ranks.len(), count(*samples as u64))?;
        }
        Ok(())
    }
}
