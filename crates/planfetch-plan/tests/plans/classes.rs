//! Batches by class: stratified, balanced, and by bucket.

use std::collections::{BTreeMap, BTreeSet};

use planfetch_plan::{
    BalancedSubsamplingPlanProvider, BatchIds, BucketPlanProvider, PlanError, PlanProvider,
    StreamingStratifiedBatchPlanProvider as Stratified,
};
use proptest::prelude::*;

use crate::{check, flat};

/// Labels of up to `max` samples of up to ten classes, some of which are empty or rare.
fn labels(max: usize) -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(prop_oneof![0_u32..3, 0_u32..10, Just(7)], 0..max)
}

fn count(batch: &BatchIds<'_>, labels: &[u32], class: u32) -> usize {
    batch.clone().into_iter().filter(|id| labels[id.index()] == class).count()
}

/// Returns the number of samples of each class.
fn sizes(labels: &[u32]) -> [u64; 10] {
    std::array::from_fn(|class| labels.iter().filter(|&&label| label as usize == class).count() as u64)
}

proptest! {
    #[test]
    fn a_stratified_pass_is_every_sample_once_and_every_batch_within_one_of_every_share(
        labels in labels(400), batch_size in 1_usize..60, seed: u64, epoch: u64
    ) {
        let plan = check(&Stratified::new(&labels, 10, batch_size, seed).unwrap(), epoch);
        let mut ids = flat(&plan);
        ids.sort_unstable();
        prop_assert!(ids.into_iter().eq(0..labels.len() as u64));
        let all = labels.len() as u64;
        for batch in &plan {
            for (class, size) in (0..).zip(sizes(&labels)) {
                let slots = count(&batch, &labels, class) as u64;
                // |slots - share| < 1, in whole numbers; so exact where the share is whole.
                prop_assert!((slots * all).abs_diff(batch.len() as u64 * size) < all, "class {}: {} slots", class, slots);
            }
        }
    }

    #[test]
    fn a_stratified_pass_that_drops_its_last_batch_keeps_the_others_proportional(
        labels in labels(300), batch_size in 1_usize..60, seed: u64
    ) {
        let plan = check(&Stratified::new(&labels, 10, batch_size, seed).unwrap().with_drop_last(true), 0);
        prop_assert_eq!(plan.num_ids(), labels.len() / batch_size * batch_size);
        prop_assert_eq!(flat(&plan).into_iter().collect::<BTreeSet<_>>().len(), plan.num_ids());
        for batch in &plan {
            for (class, size) in (0..).zip(sizes(&labels)) {
                let all = labels.len() as u64;
                prop_assert!((count(&batch, &labels, class) as u64 * all).abs_diff(batch_size as u64 * size) < all);
            }
        }
    }

    #[test]
    fn stratified_epochs_of_any_length_stream_on_class_by_class(
        labels in labels(120), epoch_samples in 1_u64..250, batch_size in 1_usize..40, seed: u64, drop_last: bool
    ) {
        prop_assume!(!labels.is_empty() && epoch_samples != labels.len() as u64);
        let provider = Stratified::new(&labels, 10, batch_size, seed).unwrap();
        let provider = provider.with_epoch_samples(epoch_samples).unwrap().with_drop_last(drop_last);
        let mut seen = vec![0_u32; labels.len()];
        for epoch in 0..6 {
            let plan = check(&provider, epoch);
            let expected = if drop_last { epoch_samples / batch_size as u64 * batch_size as u64 } else { epoch_samples };
            prop_assert_eq!(plan.num_ids() as u64, expected);
            for batch in &plan {
                for (class, size) in (0..).zip(sizes(&labels)) {
                    let all = labels.len() as u64;
                    prop_assert!((count(&batch, &labels, class) as u64 * all).abs_diff(batch.len() as u64 * size) < all);
                }
            }
            flat(&plan).into_iter().for_each(|id| seen[id as usize] += 1);
            // No sample comes again before all of its class have come.
            let mut ranges = BTreeMap::<u32, (u32, u32)>::new();
            for (&times, &label) in seen.iter().zip(&labels) {
                let range = ranges.entry(label).or_insert((times, times));
                *range = (range.0.min(times), range.1.max(times));
            }
            prop_assert!(ranges.values().all(|(least, most)| most - least <= 1), "{:?}", ranges);
        }
    }

    #[test]
    fn balanced_batches_hold_every_class_exactly_and_stream_on(
        labels in labels(120), samples_per_class in 1_usize..5, num_batches in 0_u64..12, seed: u64
    ) {
        prop_assume!(!labels.is_empty());
        let provider = BalancedSubsamplingPlanProvider::new(&labels, 10, samples_per_class, seed).unwrap();
        let provider = provider.with_num_batches(num_batches).unwrap();
        let mut seen = vec![0_u32; labels.len()];
        for epoch in 0..4 {
            let plan = check(&provider, epoch);
            prop_assert_eq!(plan.num_batches() as u64, num_batches);
            for batch in &plan {
                prop_assert_eq!(batch.len(), plan.batch_size());
                for (class, size) in (0..).zip(sizes(&labels)) {
                    prop_assert_eq!(count(&batch, &labels, class), if size == 0 { 0 } else { samples_per_class });
                }
            }
            flat(&plan).into_iter().for_each(|id| seen[id as usize] += 1);
        }
        for class in 0..10 {
            let times = || seen.iter().zip(&labels).filter(|&(_, &label)| label == class).map(|(&times, _)| times);
            prop_assert!(times().max() <= times().min().map(|least| least + 1));
        }
    }

    #[test]
    fn buckets_give_every_sample_once_and_few_batches_of_more_than_one(
        buckets in labels(400), batch_size in 1_usize..40, seed: u64, epoch: u64
    ) {
        let provider = BucketPlanProvider::new(&buckets, 10, batch_size, seed).unwrap();
        let plan = check(&provider, epoch);
        let mut ids = flat(&plan);
        ids.sort_unstable();
        prop_assert!(ids.into_iter().eq(0..buckets.len() as u64));
        let mixed = plan.iter().filter(|batch| {
            batch.clone().into_iter().map(|id| buckets[id.index()]).collect::<BTreeSet<_>>().len() > 1
        });
        let non_empty = buckets.iter().collect::<BTreeSet<_>>().len();
        prop_assert!(mixed.count() < non_empty.max(1));
        let dropped = check(&provider.with_drop_last(true), epoch);
        let kept = buckets.len() / batch_size * batch_size;
        prop_assert_eq!(flat(&dropped), &flat(&plan)[..kept]);
    }
}

#[test]
fn the_order_of_classes_differs_from_epoch_to_epoch_and_seed_to_seed() {
    let labels: Vec<u32> = (0..200).map(|sample| sample % 7).collect();
    let stratified = |seed| Stratified::new(&labels, 7, 32, seed).unwrap();
    let balanced = |seed| BalancedSubsamplingPlanProvider::new(&labels, 7, 2, seed).unwrap();
    let bucket = |seed| BucketPlanProvider::new(&labels, 7, 16, seed).unwrap();
    let providers: [&dyn Fn(u64) -> Box<dyn PlanProvider>; 4] = [
        &|seed| Box::new(stratified(seed)),
        &|seed| Box::new(stratified(seed).with_epoch_samples(150).unwrap()),
        &|seed| Box::new(balanced(seed)),
        &|seed| Box::new(bucket(seed)),
    ];
    for make in providers {
        let plans = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(seed, epoch)| flat(&check(&make(seed), epoch)));
        assert_eq!(plans.iter().collect::<BTreeSet<_>>().len(), 4);
        assert_ne!(make(0).fingerprint(), make(1).fingerprint());
    }
}

#[test]
fn classes_are_spread_over_the_slots_of_a_batch() {
    // Were a class always first, one rank would see little else. 200 batches with four slots of class 1 each.
    let labels: Vec<u32> = (0..3_200).map(|sample| u32::from(sample % 4 == 0)).collect();
    let plan = Stratified::new(&labels, 2, 16, 9).unwrap().plan(0).unwrap();
    let mut of_class = [0_u32; 16];
    for batch in &plan {
        for (slot, id) in batch.into_iter().enumerate() {
            of_class[slot] += labels[id.index()];
        }
    }
    // Mean 50, six standard deviations of 6.1.
    assert!(of_class.iter().all(|&count| (13..=87).contains(&count)), "{of_class:?}");
}

#[test]
fn a_hundred_thousand_classes_are_dealt_like_ten() {
    let labels: Vec<u32> = (0..300_000).map(|sample| sample % 100_000).collect();
    let plan = check(&Stratified::new(&labels, 100_000, 256, 1).unwrap(), 0);
    let mut ids = flat(&plan);
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..300_000));
    // A class of three samples has at most one of them in a batch.
    for batch in &plan {
        let classes: BTreeSet<u32> = batch.clone().into_iter().map(|id| labels[id.index()]).collect();
        assert_eq!(classes.len(), batch.len());
    }
    let streaming = Stratified::new(&labels, 100_000, 256, 1).unwrap().with_epoch_samples(10_000).unwrap();
    let seen: BTreeSet<u64> = (0..30).flat_map(|epoch| flat(&streaming.plan(epoch).unwrap())).collect();
    assert!(seen.len() > 290_000, "thirty epochs of a thirtieth see nearly all samples, but saw {}", seen.len());
    assert_eq!(check(&BalancedSubsamplingPlanProvider::new(&labels, 100_000, 1, 1).unwrap(), 0).num_batches(), 3);
}

#[test]
fn no_samples_and_one_sample_make_plans() {
    assert_eq!(check(&Stratified::new(&[], 0, 4, 1).unwrap(), 0).num_batches(), 0);
    assert_eq!(check(&Stratified::new(&[], 5, 4, 1).unwrap(), 0).num_batches(), 0);
    assert_eq!(flat(&check(&Stratified::new(&[2], 5, 4, 1).unwrap(), 0)), [0]);
    assert_eq!(check(&Stratified::new(&[2], 5, 4, 1).unwrap().with_drop_last(true), 0).num_batches(), 0);
    let repeated = Stratified::new(&[2], 5, 4, 1).unwrap().with_epoch_samples(9).unwrap();
    assert_eq!(flat(&check(&repeated, u64::MAX)), [0; 9]);
    assert_eq!(flat(&check(&BalancedSubsamplingPlanProvider::new(&[2], 5, 3, 1).unwrap(), u64::MAX)), [0; 3]);
    assert_eq!(check(&BucketPlanProvider::new(&[], 0, 4, 1).unwrap(), 0).num_batches(), 0);
    assert_eq!(flat(&check(&BucketPlanProvider::from_lengths(&[5], &[], 4, 1).unwrap(), 0)), [0]);
}

#[test]
fn a_class_too_large_for_a_table_is_streamed_as_any_other() {
    let labels: Vec<u32> = (0..70_000).map(|sample| u32::from(sample % 1_000 == 0)).collect();
    let provider = Stratified::new(&labels, 2, 512, 1).unwrap();
    let mut ids = flat(&provider.plan(3).unwrap());
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..70_000));
    // Two passes within an epoch, that begins within one.
    let mut times = vec![0_u32; 70_000];
    let streaming = provider.with_epoch_samples(140_000).unwrap();
    flat(&streaming.plan(3).unwrap()).into_iter().for_each(|id| times[id as usize] += 1);
    assert!(times.into_iter().all(|times| (1..=3).contains(&times)));
}

#[test]
fn a_provider_of_many_samples_is_told_in_a_line() {
    let labels = vec![0; 100_000];
    let provider = Stratified::new(&labels, u32::MAX, 4, 1).unwrap();
    let plan = provider.plan(0).unwrap();
    assert!(format!("{provider:?}").len() < 300 && format!("{plan:?}").len() < 300);
    // Classes above the largest label cost nothing, and change nothing.
    assert_eq!(provider.fingerprint(), Stratified::new(&labels, 1, 4, 1).unwrap().fingerprint());
}

#[test]
fn wrong_settings_are_errors_that_name_them() {
    let error = Stratified::new(&[0, 1, 5], 5, 4, 1).expect_err("label 5 of 5 classes");
    assert_eq!(error.to_string(), "sample 2 has label 5, but there are 5 classes: labels must lie in 0..5");
    assert!(matches!(Stratified::new(&[0], 0, 4, 1), Err(PlanError::Label { .. })));
    assert!(matches!(Stratified::new(&[0], 1, 0, 1), Err(PlanError::BatchSize { .. })));
    assert!(Stratified::new(&[], 1, 4, 1).unwrap().with_epoch_samples(1).is_err());
    assert!(Stratified::new(&[0], 1, 4, 1).unwrap().with_epoch_samples(u64::MAX).is_err());

    let error = BalancedSubsamplingPlanProvider::new(&[], 3, 4, 1).expect_err("no samples");
    assert_eq!(error.to_string(), "number of classes that have samples is 0, but must be at least 1");
    assert!(BalancedSubsamplingPlanProvider::new(&[0], 1, 0, 1).is_err());
    assert!(BalancedSubsamplingPlanProvider::new(&[0, 1], 2, usize::MAX, 1).is_err());
    assert!(BalancedSubsamplingPlanProvider::from_batch_size(&[0, 1, 2], 3, 0, 1).is_err());
    assert!(BalancedSubsamplingPlanProvider::from_batch_size(&[0, 1, 2], 3, 2, 1).is_err());
    assert!(BalancedSubsamplingPlanProvider::new(&[0], 1, 1, 1).unwrap().with_num_batches(u64::MAX).is_err());
    // Empty classes take no slot, so they do not count.
    assert_eq!(BalancedSubsamplingPlanProvider::from_batch_size(&[0, 4, 2], 9, 6, 1).unwrap().batch_size(), 6);

    let error = BucketPlanProvider::from_lengths(&[5], &[3, 3], 4, 1).expect_err("boundaries that do not ascend");
    assert_eq!(error.to_string(), "boundary 1 is 3, but must be a number above the boundary before it");
    assert!(BucketPlanProvider::from_aspect_ratios(&[1.0, f64::NAN], &[1.0], 4, 1).is_err());
    assert!(BucketPlanProvider::from_aspect_ratios(&[1.0], &[f64::NAN], 4, 1).is_err());
}

#[test]
fn lengths_and_ratios_fall_into_the_bucket_between_their_boundaries() {
    let lengths = [0, 99, 100, 199, 200, u64::MAX];
    let by_length = BucketPlanProvider::from_lengths(&lengths, &[100, 200], 2, 1).unwrap();
    let by_hand = BucketPlanProvider::new(&[0, 0, 1, 1, 2, 2], 3, 2, 1).unwrap();
    assert_eq!(by_length.plan(0), by_hand.plan(0));
    assert_eq!(by_length.fingerprint(), by_hand.fingerprint());
    let ratios = [0.5, 0.75, 1.0, 1.2, f64::INFINITY, 2.0];
    let by_ratio = BucketPlanProvider::from_aspect_ratios(&ratios, &[1.0, 1.5], 2, 1).unwrap();
    assert_eq!(by_ratio.plan(0), by_hand.plan(0));
}

#[test]
fn epochs_far_beyond_any_training_still_make_plans() {
    let labels: Vec<u32> = (0..50).map(|sample| sample % 3).collect();
    let stratified = Stratified::new(&labels, 3, 8, 1).unwrap();
    for epoch in [u64::MAX - 1, u64::MAX] {
        check(&stratified, epoch);
        check(&stratified.clone().with_epoch_samples(77).unwrap(), epoch);
        check(&BalancedSubsamplingPlanProvider::new(&labels, 3, 2, 1).unwrap(), epoch);
    }
}
