//! Orders by weight, proportion and difficulty.

use std::collections::BTreeSet;

use planfetch_plan::{
    CurriculumOrder, CurriculumPlanProvider, MixtureMode, MixturePlanProvider, MixtureSource, Pacing, PlanError,
    PlanProvider, PlanView, SequentialPlanProvider, ShuffleOncePerEpochPlanProvider, WeightedPlanProvider,
};
use proptest::prelude::*;

use crate::{check, flat};

fn weights() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(prop_oneof![Just(0.0), 0.0..1.0, 1e-12..1e12], 1..60)
        .prop_filter("some weight above 0", |weights| weights.iter().any(|&weight| 0.0 < weight))
}

proptest! {
    #[test]
    fn no_sample_of_weight_zero_is_ever_drawn(
        weights in weights(), batch_size in 1_usize..20, len in 0_u64..200, seed: u64, epoch: u64
    ) {
        let provider = WeightedPlanProvider::new(&weights, batch_size, seed).unwrap().with_epoch_samples(len).unwrap();
        let plan = check(&provider, epoch);
        prop_assert_eq!(plan.num_ids() as u64, len);
        prop_assert!(flat(&plan).into_iter().all(|id| 0.0 < weights[id as usize]));
    }

    #[test]
    fn without_replacement_every_sample_of_some_weight_comes_once(
        weights in weights(), batch_size in 1_usize..20, seed: u64, epoch: u64
    ) {
        let provider = WeightedPlanProvider::new(&weights, batch_size, seed).unwrap().with_replacement(false);
        let mut ids = flat(&check(&provider, epoch));
        ids.sort_unstable();
        let positive = (0..weights.len() as u64).filter(|&id| 0.0 < weights[id as usize]);
        prop_assert!(ids.iter().copied().eq(positive));
        let longer = provider.with_epoch_samples(ids.len() as u64 + 1).unwrap();
        prop_assert!(longer.plan(epoch).is_err());
    }

    #[test]
    fn only_the_proportions_of_weights_count(weights in weights(), seed: u64) {
        let scaled: Vec<f64> = weights.iter().map(|weight| weight * 0.25).collect();
        let plan = |weights: &[f64]| WeightedPlanProvider::new(weights, 8, seed).unwrap().plan(0).unwrap();
        prop_assert_eq!(plan(&weights), plan(&scaled));
    }

    #[test]
    fn exact_mixtures_keep_every_batch_within_one_of_every_part_and_sources_go_on(
        parts in proptest::collection::vec((0_u32..9, 1_u64..30), 1..5),
        batch_size in 1_usize..25,
        epoch_samples in 0_u64..150,
        mode in prop_oneof![Just(MixtureMode::ExactPerBatch), Just(MixtureMode::InExpectation)],
        drop_last: bool,
        seed: u64,
    ) {
        prop_assume!(parts.iter().any(|&(parts, _)| 0 < parts));
        let sources = parts.iter().zip(0..).map(|(&(parts, size), seed)| {
            MixtureSource::new(ShuffleOncePerEpochPlanProvider::new(size, 1, seed).unwrap(), parts)
        });
        let mixture = MixturePlanProvider::new(sources.collect(), batch_size, epoch_samples, seed).unwrap();
        let mixture = mixture.with_mode(mode).with_drop_last(drop_last);
        let total: u64 = parts.iter().map(|&(parts, _)| u64::from(parts)).sum();
        let mut seen = vec![0_u32; mixture.num_samples() as usize];
        for epoch in 0..4 {
            let plan = check(&mixture, epoch);
            let batch = epoch_samples / batch_size as u64 * batch_size as u64;
            prop_assert_eq!(plan.num_ids() as u64, if drop_last { batch } else { epoch_samples });
            // Of every batch, or in expectation of the epoch.
            let whole = plan.range_flat(0, plan.num_ids()).unwrap();
            let exact: Vec<_> =
                if mode == MixtureMode::ExactPerBatch { plan.iter().collect() } else { vec![whole] };
            for ids in exact {
                let mut start = 0;
                for &(parts, size) in &parts {
                    let count = ids.clone().into_iter().filter(|id| (start..start + size).contains(&id.0)).count() as u64;
                    prop_assert!((count * total).abs_diff(ids.len() as u64 * u64::from(parts)) < total);
                    start += size;
                }
            }
            flat(&plan).into_iter().for_each(|id| seen[id as usize] += 1);
        }
        // Each source has given every sample as often as every other, or once more.
        let mut rest = seen.as_slice();
        for &(_, size) in &parts {
            let (source, others) = rest.split_at(size as usize);
            prop_assert!(source.iter().max() <= source.iter().min().map(|least| least + 1).as_ref());
            rest = others;
        }
    }

    #[test]
    fn a_curriculum_opens_the_easiest_samples_each_once(
        difficulty in proptest::collection::vec(-5.0_f64..5.0, 0..200),
        start in 0.0_f64..=1.0, epochs in 0_u64..6, epoch in 0_u64..8, root: bool, batch_size in 1_usize..30, seed: u64,
    ) {
        let pacing = if root { Pacing::Root { start, epochs } } else { Pacing::Linear { start, epochs } };
        let fraction = pacing.fraction(epoch);
        prop_assert!((0.0..=1.0).contains(&fraction) && pacing.fraction(epoch) <= pacing.fraction(epoch + 1));
        let provider = CurriculumPlanProvider::new(&difficulty, pacing, batch_size, seed).unwrap();
        let ids = flat(&check(&provider, epoch));
        prop_assert!(ids.len() as f64 >= fraction * difficulty.len() as f64);
        prop_assert!(ids.len() as f64 - 1.0 <= fraction * difficulty.len() as f64 || ids.len() == 1);
        let open: BTreeSet<u64> = ids.iter().copied().collect();
        prop_assert_eq!(open.len(), ids.len());
        let hardest = ids.iter().map(|&id| difficulty[id as usize]).fold(f64::NEG_INFINITY, f64::max);
        prop_assert!((0..difficulty.len() as u64).filter(|id| !open.contains(id)).all(|id| hardest <= difficulty[id as usize]));
        let sorted = flat(&check(&provider.with_order(CurriculumOrder::EasyToHard), epoch));
        prop_assert!(sorted.is_sorted_by_key(|&id| difficulty[id as usize]));
        prop_assert_eq!(sorted.into_iter().collect::<BTreeSet<_>>(), open);
    }
}

#[test]
fn epochs_and_seeds_give_other_orders() {
    let weights: Vec<f64> = (0..200).map(f64::from).collect();
    let weighted = |seed| WeightedPlanProvider::new(&weights, 16, seed).unwrap();
    let mixture = |seed, mode| {
        let source = |parts| MixtureSource::new(ShuffleOncePerEpochPlanProvider::new(100, 1, 0).unwrap(), parts);
        MixturePlanProvider::new(vec![source(1), source(2)], 16, 150, seed).unwrap().with_mode(mode)
    };
    let curriculum = |seed| CurriculumPlanProvider::new(&weights, Pacing::All, 16, seed).unwrap();
    let providers: [&dyn Fn(u64) -> Box<dyn PlanProvider>; 5] = [
        &|seed| Box::new(weighted(seed)),
        &|seed| Box::new(weighted(seed).with_replacement(false)),
        &|seed| Box::new(mixture(seed, MixtureMode::ExactPerBatch)),
        &|seed| Box::new(mixture(seed, MixtureMode::InExpectation)),
        &|seed| Box::new(curriculum(seed)),
    ];
    for make in providers {
        let plans = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(seed, epoch)| flat(&check(&make(seed), epoch)));
        assert_eq!(plans.iter().collect::<BTreeSet<_>>().len(), 4);
        assert_ne!(make(0).fingerprint(), make(1).fingerprint());
    }
}

#[test]
fn draws_are_in_proportion_to_weights_with_and_without_replacement() {
    let weights = [1.0, 2.0, 0.0, 5.0];
    let provider = WeightedPlanProvider::new(&weights, 100, 11).unwrap();
    let ids = flat(&provider.clone().with_epoch_samples(80_000).unwrap().plan(0).unwrap());
    // Without replacement, the first of each epoch.
    let once = provider.with_replacement(false).with_epoch_samples(1).unwrap();
    let firsts: Vec<u64> = (0..8_000).map(|epoch| flat(&once.plan(epoch).unwrap())[0]).collect();
    for ids in [ids, firsts] {
        for (id, weight) in (0..).zip(weights) {
            let count = ids.iter().filter(|&&other| other == id).count() as f64;
            let mean = ids.len() as f64 * weight / 8.0;
            assert!((count - mean).abs() <= 5.0 * mean.sqrt(), "sample {id} came {count} times, not {mean}");
        }
    }
}

#[test]
fn weights_that_are_no_weights_are_errors_that_name_them() {
    for (weight, text) in [(f64::NAN, "NaN"), (-1.0, "-1"), (f64::INFINITY, "inf")] {
        let error = WeightedPlanProvider::new(&[1.0, weight], 4, 0).expect_err("not a weight");
        assert_eq!(error.to_string(), format!("weight 1 is {text}, but must be finite and at least 0"));
    }
    let error = WeightedPlanProvider::new(&[0.0, 0.0], 4, 0).expect_err("no weight above 0");
    assert_eq!(error.to_string(), "number of weights above 0 is 0, but must be at least 1");
    assert!(WeightedPlanProvider::new(&[0.0, -0.0], 4, 0).is_err());
    assert!(WeightedPlanProvider::new(&[1.0], 0, 0).is_err());
    assert!(matches!(
        WeightedPlanProvider::from_class_weights(&[0, 2], &[1.0, 1.0], 4, 0),
        Err(PlanError::Label { .. })
    ));
    assert!(WeightedPlanProvider::from_class_weights(&[0], &[f64::NAN], 4, 0).is_err());
    // No samples are no draws.
    assert_eq!(check(&WeightedPlanProvider::new(&[], 4, 0).unwrap(), 0).num_ids(), 0);
    assert!(WeightedPlanProvider::new(&[], 4, 0).unwrap().with_epoch_samples(1).is_err());
    // The smallest of positive weights still can be drawn, and takes no forever.
    let provider = WeightedPlanProvider::new(&[f64::MIN_POSITIVE, f64::MAX], 4, 0).unwrap().with_replacement(false);
    assert_eq!(flat(&check(&provider, 0)), [1, 0]);
}

#[test]
fn a_mixture_with_nothing_to_mix_is_an_error() {
    assert!(MixturePlanProvider::new(Vec::new(), 4, 10, 0).is_err());
    let empty = || SequentialPlanProvider::new(0, 1).unwrap();
    assert!(MixturePlanProvider::new(vec![MixtureSource::new(empty(), 1)], 4, 10, 0).is_err());
    let one = SequentialPlanProvider::new(3, 1).unwrap();
    assert!(MixturePlanProvider::new(vec![MixtureSource::new(one.clone(), 0)], 4, 10, 0).is_err());
    let sources = vec![MixtureSource::new(empty(), 0), MixtureSource::new(one, 2), MixtureSource::new(empty(), 0)];
    for mode in [MixtureMode::ExactPerBatch, MixtureMode::InExpectation] {
        let mixture = MixturePlanProvider::new(sources.clone(), 4, 7, 0).unwrap().with_mode(mode);
        let ids = flat(&check(&mixture, 0));
        assert!((0..3).all(|id| [2, 3].contains(&ids.iter().filter(|&&other| other == id).count())));
    }
}

#[test]
fn a_source_whose_epochs_change_their_length_is_an_error() {
    #[derive(Debug)]
    struct Growing;
    impl PlanProvider for Growing {
        fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
            PlanView::from_ids(0..=epoch.min(9), 1, 10)
        }
        fn num_samples(&self) -> u64 {
            10
        }
        fn batch_size(&self) -> usize {
            1
        }
        fn seed(&self) -> u64 {
            0
        }
        fn fingerprint(&self) -> planfetch_plan::Fingerprint {
            planfetch_plan::Fingerprint::of("growing", &[])
        }
    }
    let mixture = MixturePlanProvider::new(vec![MixtureSource::new(Growing, 1)], 4, 8, 0).unwrap();
    let error = mixture.plan(0).expect_err("the second epoch is longer");
    assert!(error.to_string().starts_with("provider 0 planned 2 samples for epoch 1 but 1 for epoch 0"), "{error}");
}

#[test]
fn difficulties_and_paces_that_are_none_are_errors() {
    let new = |difficulty: &[f64], pacing| CurriculumPlanProvider::new(difficulty, pacing, 4, 0);
    let error = new(&[1.0, f64::NAN], Pacing::All).expect_err("not a number");
    assert_eq!(error.to_string(), "difficulty 1 is NaN, but must be a number, infinity included");
    for start in [-0.1, 1.1, f64::NAN] {
        assert!(new(&[1.0], Pacing::Linear { start, epochs: 3 }).is_err());
        assert!(new(&[1.0], Pacing::Table(vec![0.5, start])).is_err());
    }
    assert!(new(&[1.0], Pacing::Table(Vec::new())).is_err());
    // One sample is always open; ties and zeros of either sign are ranked by their ids.
    let ties = new(&[0.0, -0.0, f64::NEG_INFINITY], Pacing::Table(vec![0.0, 0.6, 1.0])).unwrap();
    let ties = ties.with_order(CurriculumOrder::EasyToHard);
    assert_eq!(
        [0, 1, 2, 9].map(|epoch| flat(&check(&ties, epoch))),
        [vec![2], vec![2, 0], vec![2, 0, 1], vec![2, 0, 1]]
    );
    assert_eq!(check(&new(&[], Pacing::All).unwrap(), 0).num_ids(), 0);
}
