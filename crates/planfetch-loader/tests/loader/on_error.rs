//! Samples that can't be loaded: named, counted, left out or replaced, the same way every time.

use std::collections::BTreeSet;

use planfetch_loader::{
    BoxError, Collate, LoaderBuilder, LoaderError, LoaderSettings, OnError, VecCollate, collate_fn,
};
use planfetch_plan::{
    PlanProvider, RemainderPolicy, SampleId, SequentialPlanProvider, ShuffleOncePerEpochPlanProvider, World,
};
use proptest::prelude::*;

use crate::support::{Contents, Loader, Number, Numbers, contents, load, load_rank, rest, settings};

fn with(on_error: OnError, num_workers: usize) -> LoaderSettings {
    LoaderSettings { on_error, ..settings(num_workers) }
}

fn broken(n: u64, errors: &[u64], panics: &[u64]) -> Numbers {
    Numbers { n, errors: errors.iter().copied().collect(), panics: panics.iter().copied().collect() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn skipping_leaves_out_the_failed_alone_and_keeps_plan_order(
        n in 0_u64..80, batch_size in 1_usize..9, num_workers in 0_usize..5,
        failing in prop::collection::btree_set((0_u64..80, any::<bool>()), 0..30),
    ) {
        let (panics, errors): (BTreeSet<_>, BTreeSet<_>) = failing.iter().partition(|(_, panics)| *panics);
        let ids = |set: BTreeSet<(u64, bool)>| set.into_iter().map(|(id, _)| id).collect::<BTreeSet<u64>>();
        let data = Numbers { n, errors: ids(errors), panics: ids(panics) };
        let fails = |id: &SampleId| data.errors.contains(&id.0) || data.panics.contains(&id.0);
        let provider = ShuffleOncePerEpochPlanProvider::new(n, batch_size, 5).unwrap();
        let mut loader = load(&data, &provider, with(OnError::Skip, num_workers));
        let controller = loader.controller();
        let clean = rest(&mut load(&Numbers::new(n), &provider, settings(0)));
        let mut failed = Vec::new();
        for (_, step, ids, numbers) in clean {
            let batch = loader.next().unwrap().unwrap();
            failed.extend(batch.failed().iter().map(|sample| (sample.step, sample.slot, sample.id)));
            let expected = ids.iter().zip(numbers).filter(|(id, _)| !fails(id)).map(|(_, number)| number);
            prop_assert_eq!(batch.step(), step);
            prop_assert_eq!(&*batch, &expected.collect::<Vec<_>>());
            prop_assert_eq!(batch.ids(), &ids.iter().copied().filter(|id| !fails(id)).collect::<Vec<_>>()[..]);
        }
        prop_assert!(loader.next().is_none());
        let plan = provider.plan(0).unwrap();
        let slots = plan.iter().enumerate().flat_map(|(step, batch)| {
            batch.into_iter().enumerate().map(move |(slot, id)| (step, slot, id)).collect::<Vec<_>>()
        });
        prop_assert_eq!(&failed, &slots.filter(|(_, _, id)| fails(id)).collect::<Vec<_>>());
        prop_assert_eq!(controller.stats().failed, failed.len() as u64);
        prop_assert_eq!(controller.failed_samples().len(), failed.len());
    }

    #[test]
    fn substitutes_are_the_same_for_every_number_of_workers_and_ranks_and_after_a_resume(
        n in 8_u64..80, batch_size in 2_usize..9, num_workers in 0_usize..5, world_size in 1_u32..4, stop in 0_usize..6,
        failing in prop::collection::btree_set(0_u64..80, 0..8),
    ) {
        prop_assume!((failing.iter().filter(|&&id| id < n).count() as u64) < n / 4);
        let data = Numbers { n, errors: failing, panics: BTreeSet::new() };
        let provider = ShuffleOncePerEpochPlanProvider::new(n, batch_size, 5).unwrap();
        let on_error = OnError::Substitute { max: 1_000 };
        let whole = rest(&mut load(&data, &provider, with(on_error, 0)));
        let clean = rest(&mut load(&Numbers::new(n), &provider, settings(0)));
        for ((_, _, ids, _), (_, _, planned, _)) in whole.iter().zip(&clean) {
            for (id, planned) in ids.iter().zip(planned) {
                prop_assert!(!data.errors.contains(&id.0));
                prop_assert!(id == planned || data.errors.contains(&planned.0));
            }
        }
        // In parts, on ranks.
        let mut numbers: Vec<Number> = Vec::new();
        let mut state = None;
        for steps in [stop, usize::MAX] {
            let mut last = None;
            for rank in 0..world_size {
                let world = World { rank, world_size };
                let settings = with(on_error, num_workers);
                let mut loader = load_rank(&data, &provider, settings, world, RemainderPolicy::Keep, state.as_ref());
                if state.is_none() || loader.controller().epoch() == 0 {
                    let batches = loader.by_ref().take(steps).map(|batch| contents(batch.unwrap()));
                    numbers.extend(batches.flat_map(|batch| batch.3));
                }
                last = Some(loader.state());
            }
            state = last;
        }
        numbers.sort_unstable_by_key(|number| number.1);
        let expected: Vec<Number> = whole.into_iter().flat_map(|batch| batch.3).collect();
        prop_assert_eq!(numbers, expected);
    }
}

#[test]
fn of_several_failed_samples_the_first_in_slot_order_is_named_whatever_failed_first() {
    let data = broken(16, &[5, 7], &[6, 9]);
    for num_workers in [0, 1, 2, 7] {
        for _ in 0..20 {
            let mut loader = load(&data, &SequentialPlanProvider::new(16, 4).unwrap(), settings(num_workers));
            assert_eq!(loader.next().unwrap().unwrap().step(), 0);
            let error = loader.next().unwrap().unwrap_err();
            assert_eq!(error.to_string(), "can't load sample 5 (epoch 0, step 1, slot 1): sample 5 is broken");
            assert!(loader.next().is_none());
        }
    }
}

#[test]
fn after_a_failure_the_loader_goes_on_where_a_restore_sends_it() {
    let data = broken(16, &[5], &[]);
    let provider = SequentialPlanProvider::new(16, 4).unwrap();
    let mut loader = load(&data, &provider, settings(2));
    let error = loader.find_map(Result::err).unwrap();
    assert!(matches!(error, LoaderError::Sample(_)));
    // The position stays at the batch that failed.
    let state = loader.state();
    assert_eq!(state.position(), 4);
    loader.controller().restore(&state).unwrap();
    assert!(loader.next().unwrap().is_err());
    // Behind it there is another.
    let mut skipping =
        load_rank(&data, &provider, with(OnError::Skip, 2), World::SINGLE, RemainderPolicy::Keep, Some(&state));
    let steps: Vec<_> = rest(&mut skipping).into_iter().map(|batch: Contents| (batch.1, batch.2.len())).collect();
    assert_eq!(steps, [(1, 3), (2, 4), (3, 4)]);
    assert_eq!(loader.controller().stats().failed, 2);
}

#[test]
fn more_substitutes_than_allowed_are_an_error_of_the_first_beyond_in_plan_order_and_epochs_count_anew() {
    let data = broken(40, &[3, 9, 10, 30], &[]);
    let provider = SequentialPlanProvider::new(40, 4).unwrap();
    for num_workers in [0, 1, 5] {
        // Substitutes may fail as well, and are listed too.
        let mut loader = load(&data, &provider, with(OnError::Substitute { max: 99 }, num_workers));
        let failed = |loader: &mut Loader| loader.map(|batch| batch.unwrap().failed().len() as u64).sum::<u64>();
        let by_epoch = [failed(&mut loader), failed(&mut loader), failed(&mut loader)];
        assert!(by_epoch.iter().all(|&failed| (4..9).contains(&failed)), "{by_epoch:?}");
        assert_eq!(loader.controller().stats().failed, by_epoch.iter().sum::<u64>());
        assert!(by_epoch.iter().any(|&failed| 4 < failed), "no substitute has failed: {by_epoch:?}");
        // But a sample that needs several counts once.
        let mut loader = load(&data, &provider, with(OnError::Substitute { max: 4 }, num_workers));
        assert_eq!([failed(&mut loader), failed(&mut loader), failed(&mut loader)], by_epoch);
        let mut loader = load(&data, &provider, with(OnError::Substitute { max: 2 }, num_workers));
        assert_eq!(loader.by_ref().take(2).map(Result::unwrap).count(), 2);
        let error = loader.next().unwrap().unwrap_err();
        assert!(error.to_string().starts_with("can't load sample 10 (epoch 0, step 2, slot 2)"), "{error}");
        assert!(loader.next().is_none());
    }
}

#[test]
fn where_no_substitute_can_be_had_the_sample_of_the_plan_is_named() {
    let all: Vec<u64> = (0..12).collect();
    let mut loader = load(
        &broken(12, &all, &[]),
        &SequentialPlanProvider::new(12, 4).unwrap(),
        with(OnError::Substitute { max: 99 }, 2),
    );
    let error = loader.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "can't load sample 0 (epoch 0, step 0, slot 0): sample 0 is broken");
}

#[test]
fn where_a_batch_becomes_an_error_all_of_its_failed_samples_are_listed_in_slot_order() {
    // The first batch is within the limit; the second one has two samples beyond it.
    let data = broken(12, &[1, 4, 6], &[7]);
    let provider = SequentialPlanProvider::new(12, 4).unwrap();
    for num_workers in [0, 2] {
        let mut loader = load(&data, &provider, with(OnError::Substitute { max: 2 }, num_workers));
        assert!(loader.next().unwrap().is_ok());
        let error = loader.next().unwrap().unwrap_err();
        assert!(error.to_string().starts_with("can't load sample 6 (epoch 0, step 1, slot 2)"), "{error}");
        let failed = loader.controller().failed_samples();
        // What stood in and failed as well stands behind.
        let planned: Vec<u64> =
            failed.chunk_by(|a, b| (a.step, a.slot) == (b.step, b.slot)).map(|s| s[0].id.0).collect();
        assert_eq!(planned, [1, 4, 6, 7]);
        assert_eq!(loader.controller().stats().failed, failed.len() as u64);

        // Where nothing can stand in, those that were not tried again are listed as well.
        let all: Vec<u64> = (0..12).collect();
        let mut loader = load(&broken(12, &all, &[]), &provider, with(OnError::Substitute { max: 99 }, num_workers));
        assert!(loader.next().unwrap().is_err());
        let slots: BTreeSet<_> = loader.controller().failed_samples().iter().map(|sample| sample.slot).collect();
        assert_eq!(slots, (0..4).collect());
    }
}

#[test]
fn a_batch_of_which_nothing_is_left_comes_empty_so_that_ranks_have_equal_steps() {
    let mut loader = load(&broken(6, &[2], &[3]), &SequentialPlanProvider::new(6, 2).unwrap(), with(OnError::Skip, 2));
    let lens: Vec<_> = rest(&mut loader).iter().map(|batch| batch.2.len()).collect();
    assert_eq!(lens, [2, 0, 2]);
}

#[test]
fn failed_samples_can_be_written_as_a_table() {
    let data = broken(12, &[1], &[6]);
    let mut loader = load(&data, &SequentialPlanProvider::new(12, 4).unwrap(), with(OnError::Substitute { max: 9 }, 2));
    rest(&mut loader);
    let mut csv = Vec::new();
    loader.controller().write_failed_samples(&mut csv).unwrap();
    let failed = loader.controller().failed_samples();
    let [first, second] = &failed[..] else { panic!("{failed:?}") };
    let (one, two) = (first.substitute.unwrap(), second.substitute.unwrap());
    assert_eq!(
        String::from_utf8(csv).unwrap(),
        format!(
            "sample,uri,epoch,step,slot,position,substitute,cause\n\
             1,,0,0,1,1,{one},sample 1 is broken\n\
             6,,0,1,2,6,{two},user code panicked: sample 6 is unlucky\n"
        )
    );
}

/// Panics where it is told to.
struct Panicking {
    in_slots: bool,
    in_put: bool,
}

impl Collate<Number> for Panicking {
    type Buffer = Vec<Option<Number>>;
    type Slot<'b> = &'b mut Option<Number>;
    type Batch = Vec<Number>;

    fn buffer(&self) -> Self::Buffer {
        Vec::new()
    }

    fn slots<'b>(&self, buffer: &'b mut Self::Buffer, len: usize) -> Vec<Self::Slot<'b>> {
        assert!(!self.in_slots, "no room");
        <VecCollate as Collate<Number>>::slots(&VecCollate, buffer, len)
    }

    fn put(&self, sample: Number, slot: Self::Slot<'_>) -> Result<(), BoxError> {
        assert!(!self.in_put || sample.0 != 6, "it does not fit");
        VecCollate.put(sample, slot)
    }

    fn finish(&self, buffer: Self::Buffer) -> Vec<Number> {
        VecCollate.finish(buffer)
    }
}

#[test]
fn a_panic_of_the_collate_is_blamed_on_the_sample_at_work_or_else_on_the_collate() {
    for num_workers in [0, 2] {
        let provider = SequentialPlanProvider::new(12, 4).unwrap();
        let first_error = |collate: Panicking| {
            let builder = LoaderBuilder::new(Numbers::new(12), collate, provider.clone());
            let (mut loader, _) = builder.with_settings(settings(num_workers)).build().unwrap();
            loader.find_map(Result::err).unwrap().to_string()
        };
        assert_eq!(
            first_error(Panicking { in_slots: true, in_put: false }),
            "can't collate the batch of epoch 0, step 0: user code panicked: no room"
        );
        assert_eq!(
            first_error(Panicking { in_slots: false, in_put: true }),
            "can't load sample 6 (epoch 0, step 1, slot 2): user code panicked: it does not fit"
        );
        let finish = collate_fn(|samples: Vec<Number>| assert!(samples[0].0 < 4, "too many"));
        let builder = LoaderBuilder::new(Numbers::new(12), finish, provider.clone());
        let (mut loader, _) = builder.with_settings(with(OnError::Skip, num_workers)).build().unwrap();
        let error = loader.find_map(Result::err).unwrap();
        assert_eq!(error.to_string(), "can't collate the batch of epoch 0, step 1: user code panicked: too many");
    }
}
