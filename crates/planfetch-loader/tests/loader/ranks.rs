//! Ranks take their columns of the same plan, in equal numbers of steps.

use std::sync::Arc;

use planfetch_loader::{BoxError, Collate, LoaderBuilder, VecCollate};
use planfetch_plan::{PlanProvider, RemainderPolicy, ShuffleOncePerEpochPlanProvider, World};
use proptest::prelude::*;

use crate::support::{Number, Numbers, load_rank, rest, settings};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn ranks_have_equal_steps_and_together_the_plan(
        n in 0_u64..60, batch_size in 1_usize..12, world_size in 1_u32..6, num_workers in 0_usize..4,
        policy in prop::sample::select(vec![RemainderPolicy::Drop, RemainderPolicy::Keep, RemainderPolicy::Pad]),
    ) {
        prop_assume!(policy != RemainderPolicy::Drop || world_size as usize <= batch_size);
        let (data, provider) = (Numbers::new(n), ShuffleOncePerEpochPlanProvider::new(n, batch_size, 5).unwrap());
        let plan = provider.plan(0).unwrap();
        let ranks: Vec<_> = (0..world_size)
            .map(|rank| {
                let world = World { rank, world_size };
                let mut loader = load_rank(&data, &provider, settings(num_workers), world, policy, None);
                (rest(&mut loader), plan.for_rank(world, policy).unwrap())
            })
            .collect();
        let steps = ranks[0].1.num_steps();
        for (batches, rank_plan) in &ranks {
            prop_assert_eq!(batches.len(), steps);
            for ((_, step, ids, numbers), expected) in batches.iter().zip(rank_plan.iter()) {
                prop_assert_eq!(*step, expected.step());
                prop_assert_eq!(ids, &expected.to_vec());
                // The position, and so the random numbers, are those of the global plan.
                let positions: Vec<_> = numbers.iter().map(|number| number.1 as usize).collect();
                prop_assert_eq!(positions, expected.iter().map(|slot| slot.position).collect::<Vec<_>>());
            }
        }
        if policy == RemainderPolicy::Keep {
            let mut all: Vec<_> = ranks.iter().flat_map(|rank| rank.0.iter().flat_map(|batch| batch.2.clone())).collect();
            all.sort_unstable();
            let mut expected = plan.range_flat(0, plan.num_ids()).unwrap().to_vec();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }
}

#[test]
fn padding_is_marked() {
    let (data, provider) = (Numbers::new(10), ShuffleOncePerEpochPlanProvider::new(10, 4, 5).unwrap());
    let padding = |rank| -> Vec<usize> {
        let world = World { rank, world_size: 3 };
        let loader = load_rank(&data, &provider, settings(2), world, RemainderPolicy::Pad, None);
        loader.take(3).map(|batch| batch.unwrap().num_padding()).collect()
    };
    assert_eq!([padding(0), padding(1), padding(2)], [[0, 0, 0], [0, 0, 0], [2, 2, 1]]);
}

/// Keeps the numbers, and how many of them a collate was told to mark.
struct Marked;

impl Collate<Number> for Marked {
    type Buffer = <VecCollate as Collate<Number>>::Buffer;
    type Slot<'b> = &'b mut Option<Number>;
    type Batch = (Vec<Number>, usize);

    fn buffer(&self) -> Self::Buffer {
        Vec::new()
    }

    fn slots<'b>(&self, buffer: &'b mut Self::Buffer, len: usize) -> Vec<&'b mut Option<Number>> {
        VecCollate.slots(buffer, len)
    }

    fn put(&self, sample: Number, slot: &mut Option<Number>) -> Result<(), BoxError> {
        VecCollate.put(sample, slot)
    }

    fn finish(&self, buffer: Self::Buffer) -> Self::Batch {
        (VecCollate.finish(buffer), 0)
    }

    fn set_padding(&self, batch: &mut Self::Batch, num_padding: usize) {
        batch.1 = num_padding;
    }
}

#[test]
fn every_collate_is_told_which_slots_are_padding_also_by_those_around_it() {
    let provider = ShuffleOncePerEpochPlanProvider::new(10, 4, 5).unwrap();
    let world = World { rank: 2, world_size: 3 };
    let builder = || LoaderBuilder::new(Numbers::new(10), Arc::new(Marked), provider.clone());
    let (loader, _) = builder().with_world(world, RemainderPolicy::Pad).build().unwrap();
    let marked: Vec<usize> = loader.take(3).map(|batch| batch.unwrap().1).collect();
    assert_eq!(marked, [2, 2, 1]);

    let mut batch = ((Vec::new(), 0), (Vec::new(), 0));
    (Marked, Arc::new(Marked)).set_padding(&mut batch, 3);
    assert_eq!((batch.0.1, batch.1.1), (3, 3));
}

#[test]
fn a_rank_outside_its_world_and_a_batch_that_leaves_ranks_without_samples_are_refused() {
    let build = |rank, world_size| {
        let provider = ShuffleOncePerEpochPlanProvider::new(10, 4, 5).unwrap();
        let builder = LoaderBuilder::new(Numbers::new(10), VecCollate, provider);
        builder.with_world(World { rank, world_size }, RemainderPolicy::Drop).build().map(drop)
    };
    assert!(build(3, 4).is_ok());
    assert!(build(4, 4).unwrap_err().to_string().contains("rank"));
    assert!(build(0, 5).unwrap_err().to_string().contains('5'));
}
