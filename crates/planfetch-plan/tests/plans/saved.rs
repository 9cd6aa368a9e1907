//! Plans as bytes.

use std::io::{self, Read};

use planfetch_plan::{LoadError, PlanProvider, PlanView, ShuffleOncePerEpochPlanProvider};
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn saved_bytes_never_change() {
    // Golden bytes: saved plans must stay readable. To change the format, raise its version.
    let plan = PlanView::from_ids([3, 1, 2], 2, 4).unwrap();
    assert_eq!(
        hex(&plan.to_bytes()),
        "706c66706c616e0001000000000000000200000000000000040000000000000003000000000000000300000001000000020000000ea20939eb1673be53ac4131d5adef93f5d038935379c4c2149494e340825acb"
    );
    let lazy = ShuffleOncePerEpochPlanProvider::new(10, 4, 7).unwrap().with_lazy(true).with_drop_last(true);
    assert_eq!(
        hex(&lazy.plan(2).unwrap().to_bytes()),
        "706c66706c616e00010000000100000004000000000000000a000000000000000800000000000000706c616e76696577020000000000000007000000000000000200000000000000646cb7fe90cea6e4546ccdf1120b49d3ec19e510fdf34af39c20b2c35956df12"
    );
    let wide = PlanView::from_ids([1 << 40], 1, 1 << 41).unwrap();
    assert_eq!(wide.to_bytes().len(), 40 + 8 + 32);
}

proptest! {
    #[test]
    fn a_plan_is_the_same_after_saving(n in 0_u64..20_000, batch_size in 1_usize..300, seed: u64, lazy: bool, drop_last: bool) {
        let provider = ShuffleOncePerEpochPlanProvider::new(n, batch_size, seed).unwrap();
        let plan = provider.with_lazy(lazy).with_drop_last(drop_last).plan(0).unwrap();
        let loaded = PlanView::from_bytes(&plan.to_bytes()).unwrap();
        prop_assert_eq!(loaded.is_lazy(), lazy);
        prop_assert_eq!(loaded.digest(), plan.digest());
        prop_assert_eq!(loaded, plan);
    }

    #[test]
    fn a_plan_of_wide_ids_is_the_same_after_saving(ids in proptest::collection::vec(0_u64..(1 << 50), 0..50)) {
        let plan = PlanView::from_ids(ids, 8, 1 << 50).unwrap();
        prop_assert_eq!(PlanView::from_bytes(&plan.to_bytes()).unwrap(), plan);
    }

    #[test]
    fn any_changed_byte_is_an_error(n in 0_u64..60, lazy: bool, at: prop::sample::Index, change in 1_u8..) {
        let provider = ShuffleOncePerEpochPlanProvider::new(n, 8, 1).unwrap().with_lazy(lazy);
        let mut bytes = provider.plan(0).unwrap().to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(PlanView::from_bytes(&bytes).is_err());
    }

    #[test]
    fn any_cut_and_anything_added_is_an_error(n in 0_u64..60, at: prop::sample::Index) {
        let mut bytes = ShuffleOncePerEpochPlanProvider::new(n, 8, 1).unwrap().plan(0).unwrap().to_bytes();
        let cut = at.index(bytes.len());
        let error = PlanView::from_bytes(&bytes[..cut]).expect_err("cut off");
        prop_assert!(matches!(error, LoadError::Truncated) || cut < 8 && matches!(error, LoadError::NotAPlan));
        bytes.push(0);
        let error = PlanView::from_bytes(&bytes).expect_err("one byte more");
        let one_more = matches!(error, LoadError::TrailingBytes { extra: 1 });
        prop_assert!(one_more);
    }

    #[test]
    fn bytes_by_chance_are_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(PlanView::from_bytes(&bytes).is_err());
        let mut with_magic = b"plfplan\0\x01\0\0\0".to_vec();
        with_magic.extend(bytes);
        prop_assert!(PlanView::from_bytes(&with_magic).is_err());
    }
}

#[test]
fn a_header_that_promises_the_world_costs_nothing() {
    let mut bytes = PlanView::from_ids([3, 1, 2], 2, 4).unwrap().to_bytes();
    for promise in [1_000_000, u64::MAX / 8, u64::MAX] {
        bytes[32..40].copy_from_slice(&promise.to_le_bytes());
        let error = PlanView::from_bytes(&bytes).expect_err("no such bytes");
        // The latter where the platform can't index as many.
        assert!(matches!(error, LoadError::Truncated | LoadError::Header { field: "num_ids", .. }));
    }
}

#[test]
fn another_format_and_a_broken_reader_are_told_apart() {
    let mut bytes = PlanView::from_ids([3, 1, 2], 2, 4).unwrap().to_bytes();
    bytes[8] = 9;
    let error = PlanView::from_bytes(&bytes).expect_err("format 9");
    assert_eq!(
        error.to_string(),
        "the plan was saved in format 9, but this version reads format 1; make the plan again"
    );

    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is on fire"))
        }
    }
    assert!(matches!(PlanView::load(&mut Broken), Err(LoadError::Io(_))));
}
