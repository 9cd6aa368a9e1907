//! What every plan keeps to, through the public API.

use std::collections::BTreeSet;

use planfetch_plan::{PlanError, PlanProvider, PlanView, SequentialPlanProvider, ShuffleOncePerEpochPlanProvider};
use proptest::prelude::*;

fn flat(plan: &PlanView) -> Vec<u64> {
    plan.iter().flatten().map(|id| id.0).collect()
}

#[test]
fn order_is_the_same_on_every_platform_and_in_every_version() {
    // Golden digests, computed by a second implementation in another language. A change here changes the order of every run that is resumed: never regenerate them.
    let digest =
        |provider: &dyn PlanProvider, epoch| provider.plan(epoch).expect("valid settings").digest().to_string();
    let shuffle = ShuffleOncePerEpochPlanProvider::new(10_000, 64, 42).expect("valid settings");
    assert_eq!(digest(&shuffle, 0), "bd9c284d45bf68d052aaaf0fae0bbad5f1c4c0ebe4eba0cfb96e697a52a5eb68");
    assert_eq!(digest(&shuffle, 7), "899824860a62c514e923940d6dfa3a1c4624c0c9af43fc2b12b5efaea8a19924");
    let sequential = SequentialPlanProvider::new(10_000, 64).expect("valid settings");
    assert_eq!(digest(&sequential, 0), "6f91a516fcc4ed82b3ad5d21e308acc779a7afc31262c46e2d39ba181df2adc7");
}

#[test]
fn batch_size_zero_is_an_error_that_names_the_range() {
    let error = ShuffleOncePerEpochPlanProvider::new(10, 0, 0).expect_err("batch size 0");
    assert_eq!(error.to_string(), "batch_size is 0, but must lie in 1..=4294967295");
    assert_eq!(SequentialPlanProvider::new(10, 0).expect_err("batch size 0"), error);
    assert!(PlanView::from_ids([], 0, 10).is_err());
}

#[test]
fn more_samples_than_can_be_indexed_are_an_error() {
    assert!(matches!(SequentialPlanProvider::new(u64::MAX, 1), Err(PlanError::NumSamples { .. })));
}

#[test]
fn an_id_beyond_the_data_set_is_an_error_that_names_it() {
    let error = PlanView::from_ids([0, 9, 10], 2, 10).expect_err("id 10 of 10 samples");
    assert_eq!(
        error.to_string(),
        "the plan holds sample id 10, but the data set has 10 samples: ids must lie in 0..10"
    );
}

proptest! {
    #[test]
    fn every_sample_comes_exactly_once(n in 0_u64..2_000, batch_size in 1_usize..300, seed: u64, epoch: u64) {
        let shuffled = ShuffleOncePerEpochPlanProvider::new(n, batch_size, seed).unwrap().plan(epoch).unwrap();
        let sequential = SequentialPlanProvider::new(n, batch_size).unwrap().plan(epoch).unwrap();
        prop_assert_eq!(flat(&sequential), (0..n).collect::<Vec<_>>());
        let ids = flat(&shuffled);
        prop_assert_eq!(ids.len() as u64, n);
        prop_assert_eq!(ids.into_iter().collect::<BTreeSet<_>>().len() as u64, n);
        // Only the last batch may be short.
        for plan in [&shuffled, &sequential] {
            let lens: Vec<usize> = plan.iter().map(|batch| batch.len()).collect();
            prop_assert_eq!(lens.len(), plan.num_batches());
            if let Some((last, full)) = lens.split_last() {
                prop_assert!(full.iter().all(|&len| len == batch_size));
                prop_assert!((1..=batch_size).contains(last));
            }
        }
    }

    #[test]
    fn drop_last_leaves_full_batches_of_the_same_order(n in 0_u64..500, batch_size in 1_usize..60, seed: u64, epoch in 0_u64..5) {
        let provider = ShuffleOncePerEpochPlanProvider::new(n, batch_size, seed).unwrap();
        let kept = flat(&provider.plan(epoch).unwrap());
        let dropped = provider.with_drop_last(true).plan(epoch).unwrap();
        prop_assert!(dropped.iter().all(|batch| batch.len() == batch_size));
        let full = n as usize / batch_size * batch_size;
        prop_assert_eq!(flat(&dropped), &kept[..full]);
    }

    #[test]
    fn the_order_does_not_depend_on_the_batch_size(n in 0_u64..500, seed: u64, a in 1_usize..60, b in 1_usize..60) {
        let order = |batch_size| flat(&ShuffleOncePerEpochPlanProvider::new(n, batch_size, seed).unwrap().plan(1).unwrap());
        prop_assert_eq!(order(a), order(b));
    }

    #[test]
    fn epochs_and_seeds_give_other_orders(n in 50_u64..500, seed: u64, epoch: u64) {
        let order = |seed, epoch| ShuffleOncePerEpochPlanProvider::new(n, 8, seed).unwrap().plan(epoch).unwrap();
        prop_assert_eq!(order(seed, epoch), order(seed, epoch));
        prop_assert_ne!(order(seed, epoch), order(seed, epoch.wrapping_add(1)));
        prop_assert_ne!(order(seed, epoch), order(seed.wrapping_add(1), epoch));
    }
}
