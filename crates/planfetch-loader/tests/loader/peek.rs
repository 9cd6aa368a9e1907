//! Looking at what comes next changes nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use planfetch_loader::{LoaderSettings, PrefetchController};
use planfetch_plan::ShuffleOncePerEpochPlanProvider;
use proptest::prelude::*;

use crate::support::{Contents, Loader, Number, Numbers, contents, load, rest, settings};

type Shown = (u64, usize, Vec<Number>);

fn peek(loader: &mut Loader) -> Option<Shown> {
    loader.peek_ready(|batch| (batch.epoch(), batch.step(), batch.clone()))
}

/// Looks until something is ready.
fn peek_soon(loader: &mut Loader) -> Shown {
    let begun = Instant::now();
    loop {
        if let Some(shown) = peek(loader) {
            return shown;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing becomes ready");
        std::thread::yield_now();
    }
}

fn shown_of(contents: &Contents) -> Shown {
    (contents.0, contents.1, contents.3.clone())
}

proptest! {
    #[test]
    fn batches_and_states_are_the_same_however_often_one_looks(
        num_workers in 0_usize..4,
        prefetch_factor in 1_usize..4,
        in_order in any::<bool>(),
        looks in prop::collection::vec((0_usize..3, any::<bool>()), 60),
    ) {
        let (data, provider) = (Numbers::new(90), ShuffleOncePerEpochPlanProvider::new(90, 4, 7).unwrap());
        let settings = LoaderSettings { prefetch_factor, in_order, num_epochs: Some(2), ..settings(num_workers) };
        let mut undisturbed = load(&data, &provider, LoaderSettings { in_order: true, ..settings.clone() });
        let mut loader = load(&data, &provider, settings);
        let mut looks = looks.into_iter().cycle();
        for _ in 0..2 {
            let mut taken = Vec::new();
            loop {
                let (times, goes_astray) = looks.next().unwrap();
                let mut shown = Vec::new();
                for _ in 0..times {
                    let state = loader.state();
                    shown.extend(peek(&mut loader));
                    prop_assert_eq!(loader.state(), state);
                }
                if goes_astray && 0 < times {
                    // User code that panics takes nothing with it.
                    let _ = catch_unwind(AssertUnwindSafe(|| loader.peek_ready(|_| panic!("on purpose"))));
                }
                let Some(batch) = loader.next() else { break };
                let batch = contents(batch.unwrap());
                if in_order {
                    prop_assert!(shown.iter().all(|shown| *shown == shown_of(&batch)));
                }
                taken.push(batch);
            }
            taken.sort();
            prop_assert_eq!(taken, rest(&mut undisturbed));
        }
    }
}

#[test]
fn what_is_ready_is_shown_and_nothing_else() {
    let (data, provider) = (Numbers::new(8), ShuffleOncePerEpochPlanProvider::new(8, 4, 7).unwrap());
    let mut loader = load(&data, &provider, LoaderSettings { num_epochs: Some(1), ..settings(2) });
    for _ in 0..2 {
        let shown = peek_soon(&mut loader);
        assert_eq!(shown, shown_of(&contents(loader.next().unwrap().unwrap())));
    }
    assert_eq!(peek(&mut loader), None, "at the end of an epoch");
    assert!(loader.next().is_none());
    assert_eq!(peek(&mut loader), None);

    // Without workers, nothing is made before it is asked for.
    assert_eq!(peek(&mut load(&data, &provider, settings(0))), None);

    let mut broken = load(&Numbers { errors: (0..8).collect(), ..Numbers::new(8) }, &provider, settings(2));
    assert!(broken.next().unwrap().is_err());
    assert_eq!(peek(&mut broken), None, "after an error");
}

#[test]
fn a_restart_while_one_looks_is_obeyed() {
    let (data, provider) = (Numbers::new(40), ShuffleOncePerEpochPlanProvider::new(40, 4, 7).unwrap());
    let mut loader = load(&data, &provider, settings(2));
    peek_soon(&mut loader);
    let controller: PrefetchController<_> = loader.controller();
    loader.peek_ready(|_| controller.set_epoch(5).unwrap());
    let epoch = rest(&mut loader);
    assert_eq!((epoch.len(), epoch[0].0, epoch[0].1), (10, 5, 0));
    // What is changed in it is changed: the adapter has it to itself.
    peek_soon(&mut loader);
    loader.peek_ready(|batch| batch.truncate(1));
    assert_eq!(loader.next().unwrap().unwrap().len(), 1);
}
