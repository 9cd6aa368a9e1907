//! A run that is resumed delivers what it would have delivered, wherever it was stopped.

use std::collections::BTreeMap;

use planfetch_loader::{LoaderError, LoaderSettings, LoaderState};
use planfetch_plan::{PlanProvider, RemainderPolicy, SequentialPlanProvider, ShuffleOncePerEpochPlanProvider, World};
use proptest::prelude::*;

use crate::support::{Contents, Loader, Numbers, contents, load, load_rank, rest, settings};

/// A state on its way through a checkpoint.
fn saved(state: &LoaderState) -> LoaderState {
    serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
}

fn take(loader: &mut Loader, n: usize) -> Vec<Contents> {
    loader.by_ref().take(n).map(|batch| contents(batch.unwrap())).collect()
}

#[test]
fn every_step_of_a_plan_of_500_steps_can_be_resumed_in_another_loader() {
    let (data, provider) = (Numbers::new(1_998), ShuffleOncePerEpochPlanProvider::new(1_998, 4, 3).unwrap());
    let mut first = load(&data, &provider, settings(2));
    let whole = rest(&mut load(&data, &provider, settings(0)));
    assert_eq!(whole.len(), 500);
    // One loader that is sent everywhere, and at some places one that begins there.
    let mut second = load(&data, &provider, settings(1));
    for step in 0..=500 {
        let state = saved(&first.state());
        assert_eq!((state.epoch(), state.position()), (0, (step as u64 * 4).min(1_998)));
        second.controller().restore(&state).unwrap();
        assert_eq!(take(&mut second, 3.min(500 - step)), whole[step..(step + 3).min(500)]);
        if step % 50 == 0 || 498 < step {
            let mut third =
                load_rank(&data, &provider, settings(3), World::SINGLE, RemainderPolicy::Keep, Some(&state));
            assert_eq!(rest(&mut third), whole[step..]);
            // The epoch after is the one after.
            assert_eq!(take(&mut third, 1)[0].0, 1);
        }
        // What is taken is what the plan says, whatever was restored elsewhere.
        assert_eq!(take(&mut first, 1), whole[step..(step + 1).min(500)]);
    }
}

/// One part of a run, between two resumes.
#[derive(Clone, Debug)]
struct Life {
    num_workers: usize,
    prefetch_factor: usize,
    world_size: u32,
    steps: usize,
}

fn life() -> impl Strategy<Value = Life> {
    let parts = (0_usize..4, 1_usize..6, 1_u32..4, 0_usize..30);
    parts.prop_map(|(num_workers, prefetch_factor, world_size, steps)| Life {
        num_workers,
        prefetch_factor,
        world_size,
        steps,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_run_of_up_to_six_lives_with_other_workers_and_ranks_loses_and_repeats_nothing(
        n in 0_u64..200, batch_size in 1_usize..9, lives in prop::collection::vec(life(), 1..7)
    ) {
        let (data, provider) = (Numbers::new(n), ShuffleOncePerEpochPlanProvider::new(n, batch_size, 5).unwrap());
        // How often each sample of each epoch was delivered.
        let mut ledger = BTreeMap::<(u64, u64), u32>::new();
        let mut state: Option<LoaderState> = None;
        for Life { num_workers, prefetch_factor, world_size, steps } in lives {
            let mut states = Vec::new();
            for rank in 0..world_size {
                let settings = LoaderSettings { num_workers, prefetch_factor, ..LoaderSettings::default() };
                let world = World { rank, world_size };
                let mut loader = load_rank(&data, &provider, settings, world, RemainderPolicy::Keep, state.as_ref());
                // Ends of epochs count, so that a run without data ends too.
                for _ in 0..steps {
                    if let Some(batch) = loader.next() {
                        let (epoch, _, ids, numbers) = contents(batch.unwrap());
                        prop_assert!(ids.iter().zip(&numbers).all(|(id, number)| id.0 == number.0));
                        ids.iter().for_each(|id| *ledger.entry((epoch, id.0)).or_default() += 1);
                    }
                }
                states.push(saved(&loader.state()));
            }
            // Every rank is at the same place.
            prop_assert!(states.windows(2).all(|pair| pair[0] == pair[1]));
            state = states.pop();
        }
        let state = state.unwrap();
        let mut expected = BTreeMap::new();
        for epoch in 0..=state.epoch() {
            let plan = provider.plan(epoch).unwrap();
            let len = if epoch == state.epoch() { state.position() as usize } else { plan.num_ids() };
            for id in plan.range_flat(0, len).unwrap() {
                *expected.entry((epoch, id.0)).or_insert(0) += 1;
            }
        }
        prop_assert_eq!(ledger, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn ranks_that_leave_rests_out_have_one_state_and_the_steps_of_the_plan_after_every_batch(
        n in 0_u64..80,
        lives in prop::collection::vec((1_usize..12, 1_u32..6, 0_usize..3, 0_usize..9), 1..5),
    ) {
        let data = Numbers::new(n);
        let mut seen = BTreeMap::<(u64, u64), u32>::new();
        let mut state: Option<LoaderState> = None;
        for (batch_size, world_size, num_workers, steps) in lives {
            let world_size = world_size.min(batch_size as u32);
            let provider = ShuffleOncePerEpochPlanProvider::new(n, batch_size, 5).unwrap();
            let mut states = Vec::new();
            for rank in 0..world_size {
                let (world, policy) = (World { rank, world_size }, RemainderPolicy::Drop);
                let mut loader = load_rank(&data, &provider, settings(num_workers), world, policy, state.as_ref());
                let mut of_rank = vec![saved(&loader.state())];
                for _ in 0..steps {
                    if let Some(batch) = loader.next() {
                        let (epoch, step, ids, numbers) = contents(batch.unwrap());
                        // The step is the row of the plan.
                        prop_assert!(numbers.iter().all(|number| number.1 as usize / batch_size == step));
                        ids.iter().for_each(|id| *seen.entry((epoch, id.0)).or_default() += 1);
                    }
                    of_rank.push(saved(&loader.state()));
                }
                states.push(of_rank);
            }
            // At every step, and whether the workers have gone further by then or not.
            prop_assert!(states.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", states);
            state = states.pop().and_then(|mut states| states.pop());
        }
        prop_assert!(seen.values().all(|&times| times == 1));
    }
}

#[test]
fn a_loop_that_names_its_epochs_goes_on_in_the_middle_of_the_first() {
    let (data, provider) = (Numbers::new(40), ShuffleOncePerEpochPlanProvider::new(40, 4, 3).unwrap());
    let mut loader = load(&data, &provider, settings(2));
    let whole: Vec<_> = (0..3).map(|_| rest(&mut loader)).collect();
    for (epoch, step) in [(0, 0), (1, 4), (1, 9), (1, 10), (2, 1)] {
        let mut stopped = load(&data, &provider, settings(2));
        let controller = stopped.controller();
        controller.set_epoch(epoch).unwrap();
        take(&mut stopped, step);
        let state = saved(&stopped.state());
        for by_epoch in [false, true] {
            let mut loader =
                load_rank(&data, &provider, settings(1), World::SINGLE, RemainderPolicy::Keep, Some(&state));
            let controller = loader.controller();
            assert_eq!((controller.epoch(), controller.step()), (epoch, step));
            for epoch in controller.epoch()..3 {
                let batches: Vec<_> = if by_epoch {
                    loader.epoch(epoch).unwrap().map(|batch| contents(batch.unwrap())).collect()
                } else {
                    controller.set_epoch(epoch).unwrap();
                    rest(&mut loader)
                };
                let from = if epoch == state.epoch() { step } else { 0 };
                assert_eq!(batches, whole[epoch as usize][from..], "epoch {epoch}");
            }
            // Once a batch was taken, to name an epoch is to begin it.
            controller.set_epoch(2).unwrap();
            assert_eq!(rest(&mut loader), whole[2]);
        }
    }
}

#[test]
fn what_was_made_ahead_does_not_count_and_an_early_break_keeps_its_place() {
    let (data, provider) = (Numbers::new(100), ShuffleOncePerEpochPlanProvider::new(100, 4, 3).unwrap());
    let whole = rest(&mut load(&data, &provider, settings(2)));
    let mut loader = load(&data, &provider, LoaderSettings { prefetch_factor: 16, ..settings(4) });
    for batch in &mut loader {
        if batch.unwrap().step() == 6 {
            break;
        }
    }
    let state = loader.state();
    assert_eq!(state.position(), 28);
    assert_eq!(take(&mut loader, 2), whole[7..9]);
    loader.controller().restore(&state).unwrap();
    assert_eq!(rest(&mut loader), whole[7..]);
}

#[test]
fn another_batch_size_cuts_what_is_left_of_the_same_order() {
    let data = Numbers::new(100);
    let provider = |batch_size| ShuffleOncePerEpochPlanProvider::new(100, batch_size, 3).unwrap();
    let mut first = load(&data, &provider(6), settings(2));
    let mut ids: Vec<_> = take(&mut first, 5).into_iter().flat_map(|batch| batch.2).collect();
    let state = first.state();
    let mut second = load_rank(&data, &provider(8), settings(2), World::SINGLE, RemainderPolicy::Keep, Some(&state));
    let batches = rest(&mut second);
    // 30 of 100 were taken: two are left of the row of eight that they end in.
    assert_eq!(batches.iter().map(|batch| batch.2.len()).collect::<Vec<_>>()[..2], [2, 8]);
    ids.extend(batches.into_iter().flat_map(|batch| batch.2));
    assert_eq!(ids, provider(10).plan(0).unwrap().range_flat(0, 100).unwrap().to_vec());
}

#[test]
fn without_plan_order_a_state_knows_what_was_taken_before_its_turn() {
    // Step 0 is slow: the others overtake it.
    let (data, provider) = (Numbers::new(64), SequentialPlanProvider::new(64, 4).unwrap());
    let settings = LoaderSettings { in_order: false, ..settings(4) };
    for stop in 0..16 {
        let mut loader = load(&data, &provider, settings.clone());
        let mut batches = take(&mut loader, stop);
        let state = saved(&loader.state());
        let mut next =
            load_rank(&data, &provider, settings.clone(), World::SINGLE, RemainderPolicy::Keep, Some(&state));
        batches.extend(rest(&mut next));
        batches.sort_unstable();
        assert_eq!(batches, rest(&mut load(&data, &provider, crate::support::settings(2))), "{stop}");
    }
}

#[test]
fn a_state_of_another_run_is_refused_and_says_what_differs() {
    let (data, provider) = (Numbers::new(40), ShuffleOncePerEpochPlanProvider::new(40, 4, 3).unwrap());
    let mut loader = load(&data, &provider, settings(2));
    take(&mut loader, 3);
    let state = loader.state();
    let refused = |n, provider: &dyn Fn() -> ShuffleOncePerEpochPlanProvider| {
        let mut other = load(&Numbers::new(n), &provider(), settings(1));
        take(&mut other, 1);
        let error = other.controller().restore(&state).unwrap_err();
        assert!(matches!(error, LoaderError::Restore(_)));
        // It is as it was.
        assert_eq!(take(&mut other, 1)[0].1, 1);
        error.to_string()
    };
    assert_eq!(
        refused(40, &|| ShuffleOncePerEpochPlanProvider::new(40, 4, 4).unwrap()),
        "can't go on from this state: the cursor belongs to seed 3, but the provider has seed 4"
    );
    assert_eq!(
        refused(41, &|| ShuffleOncePerEpochPlanProvider::new(41, 4, 3).unwrap()),
        "can't go on from this state: the cursor belongs to a data set of 40 samples, but the provider's has 41"
    );
    let newer = serde_json::to_string(&state).unwrap().replacen("\"version\":1", "\"version\":9", 1);
    let newer: LoaderState = serde_json::from_str(&newer).unwrap();
    let error = loader.controller().restore(&newer).unwrap_err();
    assert_eq!(error.to_string(), "the state has version 9, but this version reads states of version 1");
}

#[test]
fn a_state_is_a_few_hundred_bytes_and_its_form_stays() {
    let (data, provider) = (Numbers::new(40), ShuffleOncePerEpochPlanProvider::new(40, 4, 3).unwrap());
    let mut loader = load(&data, &provider, settings(2));
    take(&mut loader, 3);
    let text = serde_json::to_string(&loader.state()).unwrap();
    // Golden: what a run has written must be read by later versions.
    let fingerprint = provider.fingerprint();
    assert_eq!(
        text,
        format!(
            "{{\"version\":1,\"cursor\":{{\"version\":1,\"epoch\":0,\"position\":12,\"fingerprint\":\"{fingerprint}\",\
             \"seed\":3,\"num_samples\":40}}}}"
        )
    );
}
