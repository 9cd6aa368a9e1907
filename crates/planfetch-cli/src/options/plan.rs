//! The order of an epoch.

use std::str::FromStr;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use planfetch::prelude::*;

use crate::failure::Failure;

#[derive(Args, Debug)]
#[command(next_help_heading = "Plan")]
pub(crate) struct PlanOptions {
    /// The order of an epoch
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Strategy::Shuffle)]
    pub(crate) strategy: Strategy,
    /// Samples in a batch, over all ranks
    #[arg(long, value_name = "SAMPLES", default_value_t = 64)]
    pub(crate) batch_size: usize,
    /// The seed of the order, and of augmentation
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Which rank of how many, from 0, such as 3/8; env asks the launcher (torchrun, SLURM, MPI, Kubernetes) [default:
    /// one process that trains alone]
    #[arg(long, value_name = "RANK/SIZE")]
    world: Option<WorldOption>,
    /// What becomes of samples that the number of ranks does not divide
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = Remainder::Drop)]
    remainder: Remainder,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Strategy {
    /// Every sample once, in a fresh random order each epoch
    Shuffle,
    /// Every sample once, in the order of the index
    Sequential,
    /// Every sample once, each batch with the classes in their proportions
    Stratified,
    /// Each batch with the same number of samples of each class
    Balanced,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Remainder {
    /// They are left out
    Drop,
    /// Some ranks get one more
    Keep,
    /// Others are repeated, until every rank has the same
    Pad,
}

#[derive(Clone, Copy, Debug)]
enum WorldOption {
    Given(World),
    Env,
}

impl FromStr for WorldOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "env" {
            return Ok(Self::Env);
        }
        let (rank, size) = text.split_once('/').ok_or("write the rank and the number of ranks as 3/8, or env")?;
        let number = |text: &str| text.trim().parse().map_err(|_| format!("{text:?} is no number of ranks"));
        let world = World { rank: number(rank)?, world_size: number(size)? };
        world.check().map(Self::Given).map_err(|error| error.to_string())
    }
}

impl PlanOptions {
    /// Returns what makes the order.
    pub(crate) fn provider(&self, index: &SampleIndex) -> Result<Arc<dyn PlanProvider>, Failure> {
        let Self { batch_size, seed, .. } = *self;
        let (n, labels, classes) = (index.len(), index.labels(), index.num_classes());
        Ok(match self.strategy {
            Strategy::Shuffle => Arc::new(ShuffleOncePerEpochPlanProvider::new(n, batch_size, seed)?),
            Strategy::Sequential => Arc::new(SequentialPlanProvider::new(n, batch_size)?.with_seed(seed)),
            Strategy::Stratified => {
                Arc::new(StreamingStratifiedBatchPlanProvider::new(labels, classes, batch_size, seed)?)
            }
            Strategy::Balanced => {
                Arc::new(BalancedSubsamplingPlanProvider::from_batch_size(labels, classes, batch_size, seed)?)
            }
        })
    }

    /// Returns which rank this process is, and what becomes of what the number of ranks does not divide.
    pub(crate) fn world(&self) -> Result<(World, RemainderPolicy), Failure> {
        let world = match self.world {
            None => return Ok((World::SINGLE, RemainderPolicy::Keep)),
            Some(WorldOption::Given(world)) => world,
            Some(WorldOption::Env) => World::from_env()?.world,
        };
        Ok((world, self.policy()))
    }

    /// Returns what becomes of samples that a number of ranks does not divide.
    pub(crate) fn policy(&self) -> RemainderPolicy {
        match self.remainder {
            Remainder::Drop => RemainderPolicy::Drop,
            Remainder::Keep => RemainderPolicy::Keep,
            Remainder::Pad => RemainderPolicy::Pad,
        }
    }
}
