//! What ranks take of a plan.

use std::collections::BTreeSet;

use planfetch_plan::{
    BalancedSubsamplingPlanProvider, PlanError, PlanProvider, PlanView, RankSlot, RemainderPolicy,
    SequentialPlanProvider, ShuffleOncePerEpochPlanProvider, StreamingStratifiedBatchPlanProvider, World,
};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

/// Returns what all ranks together deliver, in the order of steps and slots.
fn stream(plan: &PlanView, world_size: u32, policy: RemainderPolicy) -> Vec<RankSlot> {
    let mut slots: Vec<RankSlot> = (0..world_size)
        .flat_map(|rank| {
            let plan = plan.for_rank(World { rank, world_size }, policy).expect("a rank of its world");
            plan.iter().flat_map(|batch| batch.iter().collect::<Vec<_>>()).collect::<Vec<_>>()
        })
        .collect();
    slots.sort_by_key(|slot| (slot.step, slot.slot));
    slots
}

fn sha256(ids: impl Iterator<Item = u64>) -> [u8; 32] {
    let mut hash = Sha256::new();
    ids.for_each(|id| hash.update(id.to_le_bytes()));
    hash.finalize().into()
}

fn ids(slots: &[RankSlot]) -> impl Iterator<Item = u64> + '_ {
    slots.iter().filter(|slot| !slot.padding).map(|slot| slot.sample.0)
}

#[test]
fn the_global_sample_stream_is_the_same_for_every_world_size_up_to_64() {
    let labels: Vec<u32> = (0..2_003).map(|sample| sample % 5).collect();
    let providers: [Box<dyn PlanProvider>; 5] = [
        Box::new(ShuffleOncePerEpochPlanProvider::new(2_003, 96, 42).unwrap()),
        Box::new(ShuffleOncePerEpochPlanProvider::new(2_003, 96, 42).unwrap().with_lazy(true)),
        Box::new(SequentialPlanProvider::new(2_003, 100).unwrap()),
        Box::new(StreamingStratifiedBatchPlanProvider::new(&labels, 5, 64, 42).unwrap()),
        Box::new(BalancedSubsamplingPlanProvider::new(&labels, 5, 13, 42).unwrap()),
    ];
    for provider in &providers {
        let plan = provider.plan(3).unwrap();
        let whole = sha256(plan.iter().flatten().map(|id| id.0));
        for world_size in 1..=64 {
            for policy in [RemainderPolicy::Keep, RemainderPolicy::Pad] {
                let slots = stream(&plan, world_size, policy);
                assert_eq!(sha256(ids(&slots)), whole, "{provider:?} over {world_size} ranks with {policy:?}");
            }
        }
    }
}

#[test]
fn the_stream_does_not_depend_on_how_a_uniform_epoch_is_cut() {
    let plan = |batch_size| ShuffleOncePerEpochPlanProvider::new(2_003, batch_size, 42).unwrap().plan(3).unwrap();
    let hashes: BTreeSet<_> = [1, 7, 64, 96, 2_003, 5_000]
        .into_iter()
        .flat_map(|batch_size| [1, 3, 8].map(|world_size| (batch_size, world_size)))
        .map(|(batch_size, world_size)| sha256(ids(&stream(&plan(batch_size), world_size, RemainderPolicy::Keep))))
        .collect();
    assert_eq!(hashes.len(), 1);
}

#[cfg(feature = "serde")]
#[test]
fn worlds_and_policies_are_the_same_after_a_checkpoint() {
    let world = World { rank: 3, world_size: 8 };
    let text = serde_json::to_string(&(world, RemainderPolicy::Pad)).unwrap();
    assert_eq!(text, r#"[{"rank":3,"world_size":8},"Pad"]"#);
    assert_eq!(serde_json::from_str::<(World, RemainderPolicy)>(&text).unwrap(), (world, RemainderPolicy::Pad));
}

proptest! {
    #[test]
    fn every_rank_has_the_same_steps_and_every_policy_keeps_its_word(
        n in 0_u64..200, batch_size in 1_usize..40, world_size in 1_u32..50,
        policy in prop_oneof![Just(RemainderPolicy::Drop), Just(RemainderPolicy::Keep), Just(RemainderPolicy::Pad)],
    ) {
        let plan = ShuffleOncePerEpochPlanProvider::new(n, batch_size, 1).unwrap().plan(0).unwrap();
        let ranks: Result<Vec<_>, PlanError> =
            (0..world_size).map(|rank| plan.for_rank(World { rank, world_size }, policy)).collect();
        let Ok(ranks) = ranks else {
            // Only where `Drop` would leave nothing at all.
            prop_assert!(policy == RemainderPolicy::Drop && batch_size < world_size as usize);
            return Ok(());
        };
        let steps = ranks[0].num_steps();
        for step in 0..=steps {
            let lens: Vec<Option<usize>> = ranks.iter().map(|rank| rank.batch(step).map(|batch| batch.len())).collect();
            prop_assert!(lens.iter().all(|len| len.is_some() == (step < steps)), "{:?}", lens);
            let (least, most) = (lens.iter().min().unwrap(), lens.iter().max().unwrap());
            match policy {
                RemainderPolicy::Keep => prop_assert!(most.unwrap_or(0) - least.unwrap_or(0) <= 1),
                _ => prop_assert_eq!(least, most),
            }
        }
        let slots = stream(&plan, world_size, policy);
        // Each position once, in order; what a row lacks under `Drop` is fewer samples than there are ranks.
        let positions: Vec<usize> = slots.iter().filter(|slot| !slot.padding).map(|slot| slot.position).collect();
        prop_assert!(positions.is_sorted_by(|a, b| a < b));
        match policy {
            RemainderPolicy::Drop => {
                let lost = plan.num_ids() - positions.len();
                prop_assert!(lost <= plan.num_batches() * (world_size as usize - 1));
            }
            _ => prop_assert_eq!(positions.len() as u64, n),
        }
        for slot in &slots {
            let real = plan.range_flat(slot.position, slot.position + 1).and_then(|ids| ids.get(0));
            prop_assert_eq!(real, Some(slot.sample), "padding too repeats the sample at its position");
            prop_assert_eq!(slot.position / batch_size, slot.step);
            prop_assert!(slot.padding || slot.position % batch_size == slot.slot);
            prop_assert!(policy == RemainderPolicy::Pad || !slot.padding);
        }
        for rank in &ranks {
            for batch in rank.iter() {
                prop_assert_eq!(batch.num_padding(), batch.iter().filter(|slot| slot.padding).count());
                prop_assert!(batch.get(batch.len()).is_none());
            }
        }
        let places: BTreeSet<(usize, usize)> = slots.iter().map(|slot| (slot.step, slot.slot)).collect();
        prop_assert_eq!(places.len(), slots.len(), "no two slots share a place");
    }
}

#[test]
fn a_rank_outside_its_world_and_a_batch_too_small_to_share_are_errors() {
    let plan = SequentialPlanProvider::new(10, 4).unwrap().plan(0).unwrap();
    for (rank, world_size) in [(0, 0), (2, 2), (u32::MAX, 5)] {
        let error = plan.for_rank(World { rank, world_size }, RemainderPolicy::Keep).expect_err("outside its world");
        assert_eq!(error, PlanError::Rank { rank, world_size });
    }
    let error = plan.for_rank(World { rank: 0, world_size: 8 }, RemainderPolicy::Drop).expect_err("4 over 8");
    assert_eq!(
        error.to_string(),
        "a global batch of 4 over 8 ranks leaves no sample with RemainderPolicy::Drop; \
         make batch_size at least 8, or use Keep or Pad"
    );
}

#[test]
fn a_world_as_large_as_numbers_go_is_shared_without_overflow() {
    let plan = SequentialPlanProvider::new(10, 4).unwrap().plan(0).unwrap();
    for policy in [RemainderPolicy::Keep, RemainderPolicy::Pad] {
        let last = plan.for_rank(World { rank: u32::MAX - 1, world_size: u32::MAX }, policy).unwrap();
        assert_eq!(last.num_steps(), 3);
        assert!(last.iter().all(|batch| batch.len() <= 1));
    }
}
