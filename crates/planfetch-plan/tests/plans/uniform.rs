//! Every sample once: the shuffle, dense and lazy, and the order of the index.

use std::collections::BTreeSet;

use planfetch_plan::{PlanError, PlanProvider, PlanView, SequentialPlanProvider, ShuffleOncePerEpochPlanProvider};
use proptest::prelude::*;

use crate::{check, flat};

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

// A 32-bit platform can index neither.
#[cfg(target_pointer_width = "64")]
#[test]
fn a_dense_plan_without_memory_for_it_is_an_error() {
    let provider = ShuffleOncePerEpochPlanProvider::new(1 << 58, 64, 0).unwrap();
    assert_eq!(provider.plan(0), Err(PlanError::Memory { num_ids: 1 << 58 }));
    let lazy = provider.with_lazy(true).plan(0).unwrap();
    assert!(lazy.batch(1 << 50).expect("within the plan").into_iter().all(|id| id.0 < 1 << 58));
    assert!(lazy.to_dense().is_err());
}

#[test]
fn a_lazy_plan_of_two_lengths_and_widths_is_its_dense_form() {
    // A table, the longest table, the shortest network.
    for n in [1_000, 65_536, 65_537, 100_003] {
        let provider = ShuffleOncePerEpochPlanProvider::new(n, 1_000, 3).unwrap().with_lazy(true);
        let lazy = provider.plan(5).unwrap();
        let dense = lazy.to_dense().unwrap();
        assert!(lazy.is_lazy() && !dense.is_lazy());
        assert_eq!(lazy, dense);
        assert_eq!(lazy.digest(), dense.digest());
        let mut ids = flat(&lazy);
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..n));
    }
}

#[cfg(target_pointer_width = "64")]
#[test]
fn a_lazy_plan_beyond_32_bits_gives_ids_in_range_that_differ() {
    let n = 5_000_000_000;
    let plan = ShuffleOncePerEpochPlanProvider::new(n, 4_096, 3).unwrap().with_lazy(true).plan(0).unwrap();
    let ids: BTreeSet<u64> =
        plan.range_flat(4_000_000_000, 4_000_100_000).unwrap().into_iter().map(|id| id.0).collect();
    assert_eq!(ids.len(), 100_000);
    assert!(ids.last() < Some(&n) && Some(&(n - n / 1_000)) < ids.last());
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

    #[test]
    fn a_lazy_shuffle_keeps_to_all_that_a_dense_one_does(
        n in 0_u64..500, batch_size in 1_usize..60, seed: u64, epoch: u64, drop_last: bool
    ) {
        let provider = ShuffleOncePerEpochPlanProvider::new(n, batch_size, seed).unwrap().with_drop_last(drop_last);
        let lazy = check(&provider.clone().with_lazy(true), epoch);
        prop_assert_eq!(lazy.num_ids(), check(&provider, epoch).num_ids());
        prop_assert_eq!(&lazy, &lazy.to_dense().unwrap());
        let ids: BTreeSet<u64> = flat(&lazy).into_iter().collect();
        prop_assert_eq!(ids.len(), lazy.num_ids());
    }

    #[test]
    fn a_range_is_the_ids_between_and_beyond_the_plan_there_is_none(
        n in 0_u64..300, batch_size in 1_usize..40, low in 0_usize..350, high in 0_usize..350, lazy: bool
    ) {
        let plan = ShuffleOncePerEpochPlanProvider::new(n, batch_size, 1).unwrap().with_lazy(lazy).plan(0).unwrap();
        match plan.range_flat(low, high) {
            Some(range) => {
                let ids: Vec<u64> = range.into_iter().map(|id| id.0).collect();
                prop_assert_eq!(ids, &flat(&plan)[low..high]);
            }
            None => prop_assert!(high < low || n < high as u64),
        }
    }
}
