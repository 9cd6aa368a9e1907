//! When a sample comes again.
//!
//! A plain function of the plans that are known.

use std::collections::HashMap;

use planfetch_cache::NextUse;
use planfetch_plan::{PlanView, RankPlan, SampleId};

/// Where the samples of a plan are.
#[derive(Debug)]
pub(crate) enum Occurrences {
    /// Of a plan in memory that holds each sample at most once: the position of each sample, plus 1.
    Once(Positions),
    /// Of one that repeats samples: the first position of each sample, and for each position the next one of the same
    /// sample, all plus 1.
    Repeated { first: Positions, after: Vec<u32> },
    /// Of one that computes its ids, each at most once.
    Lazy(PlanView),
    /// The plan is too long for a list of its positions.
    Unknown,
}

impl Occurrences {
    pub(crate) fn new(plan: &PlanView) -> Self {
        if plan.is_lazy() {
            return Self::Lazy(plan.clone());
        }
        let Ok(_) = u32::try_from(plan.num_ids()) else { return Self::Unknown };
        let Some(ids) = plan.range_flat(0, plan.num_ids()) else { return Self::Unknown };
        let mut first = Positions::new(plan);
        let mut last = None::<Positions>;
        let mut after = Vec::new();
        // OK because the number of ids fits in 32 bits, and so do positions plus 1.
        for (position, id) in (0_u32..).zip(ids) {
            let number = position + 1;
            if first.get(id) == 0 {
                first.set(id, number);
            } else {
                if after.is_empty() {
                    after = vec![0; plan.num_ids()];
                }
                // At the first that is repeated: up to here, the last position of each sample is its first.
                let last = last.get_or_insert_with(|| first.clone());
                after[last.get(id) as usize - 1] = number;
            }
            if let Some(last) = &mut last {
                last.set(id, number);
            }
        }
        if after.is_empty() { Self::Once(first) } else { Self::Repeated { first, after } }
    }

    /// Returns the first position of a sample.
    fn first(&self, sample: SampleId) -> Option<usize> {
        match self {
            Self::Once(first) | Self::Repeated { first, .. } => {
                first.get(sample).checked_sub(1).map(|position| position as usize)
            }
            Self::Lazy(plan) => plan.lazy_position_of(sample),
            Self::Unknown => None,
        }
    }

    /// Returns the next position at which the sample of this position comes again.
    fn after(&self, position: usize) -> Option<usize> {
        let Self::Repeated { after, .. } = self else { return None };
        after.get(position).and_then(|number| number.checked_sub(1)).map(|position| position as usize)
    }
}

/// A position, plus 1, for each sample; 0 where it has none.
#[derive(Clone, Debug)]
pub(crate) enum Positions {
    /// By the index of the sample.
    Dense(Vec<u32>),
    /// Of a plan with few of many samples, for which a list of all would be much larger than the plan.
    Sparse(HashMap<SampleId, u32>),
}

/// With fewer ids than one in so many samples, a table of the ids takes less memory than a list of the samples.
const SPARSE: usize = 8;

impl Positions {
    fn new(plan: &PlanView) -> Self {
        match usize::try_from(plan.num_samples()) {
            Ok(num_samples) if num_samples / SPARSE <= plan.num_ids() => Self::Dense(vec![0; num_samples]),
            _ => Self::Sparse(HashMap::with_capacity(plan.num_ids())),
        }
    }

    fn get(&self, sample: SampleId) -> u32 {
        match self {
            Self::Dense(numbers) => numbers.get(sample.index()).copied().unwrap_or(0),
            Self::Sparse(numbers) => numbers.get(&sample).copied().unwrap_or(0),
        }
    }

    fn set(&mut self, sample: SampleId, number: u32) {
        match self {
            Self::Dense(numbers) => numbers[sample.index()] = number,
            Self::Sparse(numbers) => drop(numbers.insert(sample, number)),
        }
    }
}

/// A plan as far as the next uses of its samples are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uses<'a> {
    pub(crate) plan: &'a RankPlan,
    pub(crate) occurrences: &'a Occurrences,
    /// The place of its first sample in the order of all plans.
    pub(crate) start: u64,
}

impl Uses<'_> {
    /// Returns whether a position is one of this rank's.
    fn is_ours(&self, position: usize) -> bool {
        let batch = self.plan.batch(position / self.plan.plan().batch_size());
        batch.is_some_and(|batch| {
            let len = batch.len() - batch.num_padding();
            batch.get(0).is_some_and(|first| (first.position..first.position + len).contains(&position))
        })
    }
}

/// Returns when the sample at `position` of `current` is used next by this rank: later in this plan, else in the next one.
pub(crate) fn next_use(current: Uses<'_>, next: Option<Uses<'_>>, position: usize, sample: SampleId) -> NextUse {
    let mut at = position;
    while let Some(again) = current.occurrences.after(at) {
        if current.is_ours(again) {
            return NextUse::At(current.start + again as u64);
        }
        at = again;
    }
    let Some(next) = next else { return NextUse::Unknown };
    let mut again = next.occurrences.first(sample);
    while let Some(at) = again {
        if next.is_ours(at) {
            return NextUse::At(next.start + at as u64);
        }
        again = next.occurrences.after(at);
    }
    NextUse::Unknown
}

#[cfg(test)]
mod tests {
    use planfetch_plan::{PlanProvider, RemainderPolicy, ShuffleOncePerEpochPlanProvider, World};
    use proptest::prelude::*;

    use super::*;

    fn check(plans: [PlanView; 2], world: World) -> Result<(), TestCaseError> {
        let ranks = plans.each_ref().map(|plan| plan.for_rank(world, RemainderPolicy::Keep).unwrap());
        let occurrences = plans.each_ref().map(Occurrences::new);
        let len = plans[0].num_ids();
        let start = [0, len as u64];
        let uses = |i: usize| Uses { plan: &ranks[i], occurrences: &occurrences[i], start: start[i] };
        // By looking at every place of both plans.
        let mut places = Vec::new();
        for (plan, start) in plans.iter().zip(start) {
            for rank in 0..world.world_size {
                let of_rank = plan.for_rank(World { rank, ..world }, RemainderPolicy::Keep).unwrap();
                for slot in of_rank.iter().flat_map(|batch| batch.iter().collect::<Vec<_>>()) {
                    places.push((start + slot.position as u64, slot.sample, rank == world.rank));
                }
            }
        }
        for position in 0..len {
            let sample = plans[0].range_flat(position, position + 1).unwrap().get(0).unwrap();
            let later = places.iter().filter(|(at, of, is_ours)| (position as u64) < *at && *of == sample && *is_ours);
            let expected = later.map(|(at, ..)| *at).min().map_or(NextUse::Unknown, NextUse::At);
            prop_assert_eq!(next_use(uses(0), Some(uses(1)), position, sample), expected);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn the_next_use_is_what_looking_at_every_place_finds(
            ids in prop::collection::vec(0_u64..12, 0..60), batch_size in 1_usize..7, split in 0_usize..60,
            world_size in 1_u32..4, num_samples in prop_oneof![Just(12), Just(1_000_000_000)],
        ) {
            let (first, second) = ids.split_at(split.min(ids.len()));
            let plan = |ids: &[u64]| PlanView::from_ids(ids.iter().copied(), batch_size, num_samples).unwrap();
            check([plan(first), plan(second)], World { rank: world_size - 1, world_size })?;
        }

        #[test]
        fn lazy_plans_say_the_same(n in 0_u64..80, batch_size in 1_usize..7, world_size in 1_u32..4) {
            let provider = ShuffleOncePerEpochPlanProvider::new(n, batch_size, 3).unwrap().with_lazy(true);
            let plans = [provider.plan(0).unwrap(), provider.plan(1).unwrap()];
            check(plans, World { rank: 0, world_size })?;
        }
    }
}
