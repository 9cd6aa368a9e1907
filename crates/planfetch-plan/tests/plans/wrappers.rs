//! Providers around other providers.

use planfetch_plan::{
    ConcatPlanProvider, PlanError, PlanProvider, RepeatPlanProvider, SequentialPlanProvider,
    ShuffleOncePerEpochPlanProvider, SubsetPlanProvider,
};
use proptest::prelude::*;

use crate::{check, flat};

fn shuffle(n: u64, batch_size: usize, seed: u64) -> ShuffleOncePerEpochPlanProvider {
    ShuffleOncePerEpochPlanProvider::new(n, batch_size, seed).expect("valid settings")
}

proptest! {
    #[test]
    fn a_subset_is_the_inner_order_of_its_ids(
        ids in proptest::collection::vec(0_u64..1_000, 0..60), batch_size in 1_usize..20, seed: u64, epoch: u64
    ) {
        let inner = shuffle(ids.len() as u64, batch_size, seed);
        let expected: Vec<u64> = flat(&inner.plan(epoch).unwrap()).into_iter().map(|place| ids[place as usize]).collect();
        let plan = check(&SubsetPlanProvider::new(inner, ids, 1_000).unwrap(), epoch);
        prop_assert_eq!(flat(&plan), expected);
    }

    #[test]
    fn repeats_are_inner_epochs_in_a_row(n in 0_u64..40, times in 1_u64..5, batch_size in 1_usize..20, epoch: u64) {
        let inner = shuffle(n, batch_size, 3);
        let first = epoch.wrapping_mul(times);
        let expected: Vec<u64> =
            (0..times).flat_map(|index| flat(&inner.plan(first.wrapping_add(index)).unwrap())).collect();
        prop_assert_eq!(flat(&check(&RepeatPlanProvider::new(inner, times).unwrap(), epoch)), expected);
    }

    #[test]
    fn concatenated_data_sets_follow_each_other(sizes in proptest::collection::vec(0_u64..30, 1..5), batch_size in 1_usize..20, epoch: u64) {
        let parts = || sizes.iter().map(|&size| shuffle(size, batch_size, size));
        let mut expected = Vec::new();
        let mut offset = 0;
        for part in parts() {
            expected.extend(flat(&part.plan(epoch).unwrap()).into_iter().map(|id| offset + id));
            offset += part.num_samples();
        }
        let boxed = parts().map(|part| Box::new(part) as Box<dyn PlanProvider>).collect();
        let plan = check(&ConcatPlanProvider::new(boxed).unwrap(), epoch);
        prop_assert_eq!(flat(&plan), expected);
        for position in 0..plan.num_ids() {
            prop_assert!(plan.explain(position).unwrap().reason.contains("random order"));
        }
    }
}

#[test]
fn wrong_settings_are_errors_that_name_them() {
    assert!(matches!(
        SubsetPlanProvider::new(shuffle(2, 4, 0), [1, 10], 10),
        Err(PlanError::SampleId { id: 10, num_samples: 10 })
    ));
    let error = SubsetPlanProvider::new(shuffle(2, 4, 0), [1], 10).expect_err("one id for two");
    assert!(error.to_string().starts_with("number of ids of the subset is 1, but must be 2"), "{error}");
    assert!(RepeatPlanProvider::new(shuffle(2, 4, 0), 0).is_err());
    assert!(RepeatPlanProvider::new(shuffle(2, 4, 0), u64::MAX).unwrap().plan(0).is_err());
    // Nothing, repeated for ever, is done at once.
    assert_eq!(check(&RepeatPlanProvider::new(shuffle(0, 4, 0), u64::MAX).unwrap(), 1).num_ids(), 0);
    assert!(ConcatPlanProvider::new(Vec::new()).is_err());
    let error = ConcatPlanProvider::new(vec![Box::new(shuffle(2, 4, 0)), Box::new(shuffle(2, 5, 0))]);
    assert_eq!(
        error.expect_err("two batch sizes").to_string(),
        "batch_size of a provider is 5, but must be 4, as that of the first provider"
    );
}

#[test]
fn wrappers_nest_and_say_so() {
    let inner = SubsetPlanProvider::new(SequentialPlanProvider::new(2, 2).unwrap(), [7, 3], 10).unwrap();
    let nested = RepeatPlanProvider::new(inner, 2).unwrap();
    let plan = check(&nested, 0);
    assert_eq!(flat(&plan), [7, 3, 7, 3]);
    assert_eq!(
        plan.explain(3).unwrap().to_string(),
        "sample 3 is in slot 1 of step 1: it is in repetition 1 of 2, and it is number 1 of the subset, \
         and samples come in the order of the index"
    );
}
