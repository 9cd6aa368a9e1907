//! What burn expects of a `DataLoader`, and what its built-in one gets wrong.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use burn::data::dataloader::DataLoader;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::split::split_dataloader;
use burn::tensor::Device;
use planfetch::prelude::*;
use planfetch_burn::{PlanDataLoader, PlanDataLoaderBuilder};

/// Numbers, some of which can't be had, and some of which take long.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    len: u64,
    fails: Option<u64>,
    panics: Option<u64>,
}

impl ObjectUris for Numbers {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Numbers {
    type Sample = u64;

    fn len(&self) -> u64 {
        self.len
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
        let id = ctx.id().0;
        assert_ne!(self.panics, Some(id), "a decoder's panic");
        // So that batches are finished in another order than they were begun in.
        let work = (0..id % 7 * 2_000).fold(id, |x, i| std::hint::black_box(x.wrapping_mul(31).wrapping_add(i)));
        std::hint::black_box(work);
        if self.fails == Some(id) { Err("a broken file".into()) } else { Ok(id) }
    }
}

/// What a batcher got, and where.
type Made = (Vec<u64>, Device, ThreadId);

struct Whole;

impl Batcher<u64, Made> for Whole {
    fn batch(&self, items: Vec<u64>, device: &Device) -> Made {
        (items, device.clone(), thread::current().id())
    }
}

fn builder(dataset: Numbers, batch_size: usize) -> PlanDataLoaderBuilder<Numbers> {
    let plan = ShuffleOncePerEpochPlanProvider::new(dataset.len, batch_size, 42).unwrap();
    PlanDataLoaderBuilder::new(dataset, plan)
}

fn numbers(len: u64, batch_size: usize) -> PlanDataLoader<Made> {
    builder(Numbers { len, ..Numbers::default() }, batch_size).build_with_batcher(Whole).unwrap()
}

fn with_settings(dataset: Numbers, batch_size: usize, settings: LoaderSettings) -> PlanDataLoader<Made> {
    builder(dataset, batch_size).with_settings(settings).build_with_batcher(Whole).unwrap()
}

/// The batches of the next epoch.
#[track_caller]
fn epoch(loader: &dyn DataLoader<Made>) -> Vec<Vec<u64>> {
    loader.iter().map(|batch| batch.unwrap().0).collect()
}

/// The plan itself.
fn planned(len: u64, batch_size: usize, epoch: u64) -> Vec<Vec<u64>> {
    let plan = ShuffleOncePerEpochPlanProvider::new(len, batch_size, 42).unwrap().plan(epoch).unwrap();
    let rows = (0..plan.num_batches()).map(|row| plan.batch(row).unwrap());
    rows.map(|batch| batch.to_vec().into_iter().map(|id| id.0).collect()).collect()
}

#[test]
fn batches_come_in_plan_order_epoch_after_epoch_for_any_number_of_workers() {
    for num_workers in [0, 1, 4] {
        let settings = LoaderSettings { num_workers, ..LoaderSettings::default() };
        let loader = with_settings(Numbers { len: 50, ..Numbers::default() }, 8, settings);
        for e in 0..3 {
            assert_eq!(epoch(&loader), planned(50, 8, e), "{num_workers} workers, epoch {e}");
        }
    }
}

#[test]
fn items_are_counted_and_not_batches() {
    assert_eq!(numbers(50, 8).num_items(), 50);
    assert_eq!(numbers(0, 8).num_items(), 0);
    assert_eq!(epoch(&numbers(0, 8)), [[0; 0]; 0]);
}

#[test]
fn progress_counts_items_and_is_complete_with_the_last_batch_and_not_before() {
    let loader = numbers(50, 8);
    let mut iterator = loader.iter();
    assert_eq!((iterator.progress().items_processed, iterator.progress().items_total), (0, 50));
    for expected in [8, 16, 24, 32, 40, 48, 50] {
        iterator.next().unwrap().unwrap();
        let progress = iterator.progress();
        assert_eq!((progress.items_processed, progress.items_total), (expected, 50));
        assert_eq!(progress.is_completed(), expected == 50);
    }
    assert!(iterator.next().is_none());
    assert!(iterator.next().is_none(), "it stays at its end");
}

#[test]
fn a_plan_without_its_short_last_batch_has_a_total_without_it() {
    let plan = ShuffleOncePerEpochPlanProvider::new(50, 8, 42).unwrap().with_drop_last(true);
    let dataset = Numbers { len: 50, ..Numbers::default() };
    let loader = PlanDataLoaderBuilder::new(dataset, plan).build_with_batcher(Whole).unwrap();
    let mut iterator = loader.iter();
    assert_eq!(iterator.by_ref().map(Result::unwrap).count(), 6);
    assert_eq!(loader.num_items(), 48);
    assert!(iterator.progress().is_completed());
}

#[test]
fn slices_cover_all_without_overlap_in_equal_numbers_of_batches_and_every_epoch_shuffles_over_all() {
    let loader: Arc<dyn DataLoader<Made>> = Arc::new(numbers(8_000, 64));
    for devices in [2, 3, 8] {
        let slices = split_dataloader(Arc::clone(&loader), &vec![Device::flex(); devices]);
        assert_eq!(slices.iter().map(|slice| slice.num_items()).sum::<usize>(), 8_000);
        let mut of_slice_0 = Vec::new();
        for e in 0..2 {
            let parts: Vec<_> = slices.iter().map(|slice| epoch(&**slice)).collect();
            assert!(parts.iter().all(|part| part.len() == 125), "equal numbers of batches");
            for (row, expected) in planned(8_000, 64, e).iter().enumerate() {
                // The devices together train on the plan's batch.
                let together: Vec<u64> = parts.iter().flat_map(|part| part[row].clone()).collect();
                assert_eq!(&together, expected);
            }
            of_slice_0.push(parts[0].concat().into_iter().collect::<BTreeSet<_>>());
        }
        let stayed = of_slice_0[0].intersection(&of_slice_0[1]).count();
        let expected = 8_000 / devices / devices;
        assert!((expected / 2..expected * 2).contains(&stayed), "{stayed} stayed with their device");
    }
}

#[test]
fn a_slices_progress_is_that_of_its_own_items() {
    let loader = numbers(100, 10);
    for (start, end, total) in [(0, 33, 30), (33, 66, 30), (66, 100, 40)] {
        let slice = loader.slice(start, end);
        assert_eq!(slice.num_items(), total);
        let mut iterator = slice.iter();
        let mut items = 0;
        while let Some(batch) = iterator.next() {
            items += batch.unwrap().0.len();
            assert_eq!(iterator.progress().items_processed, items);
        }
        assert!(iterator.progress().is_completed());
    }
}

#[test]
fn a_last_row_with_fewer_samples_than_devices_is_left_out_by_all_of_them() {
    let loader = numbers(1_002, 10);
    let slices: Vec<_> =
        [(0, 334), (334, 668), (668, 1_002)].into_iter().map(|(start, end)| loader.slice(start, end)).collect();
    for slice in &slices {
        let mut iterator = slice.iter();
        let batches = iterator.by_ref().map(|batch| batch.unwrap().0).collect::<Vec<_>>();
        assert_eq!(batches.len(), 100);
        assert!(batches.iter().all(|batch| !batch.is_empty()));
        assert!(iterator.progress().is_completed());
    }
    assert_eq!(slices.iter().map(|slice| slice.num_items()).sum::<usize>(), 1_000);
}

#[test]
fn a_range_that_is_no_devices_part_is_one_error_and_not_other_samples() {
    let loader = numbers(8_000, 64);
    let slice = loader.slice(10, 20).to_device(&Device::flex());
    let mut iterator = slice.iter();
    let error = iterator.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("10..20 of 8000"), "{error}");
    assert!(iterator.next().is_none());
    assert_eq!(slice.num_items(), 0);
}

#[test]
fn to_device_twice_gives_the_same_epochs_on_both_devices() {
    let loader = numbers(50, 8);
    assert_eq!(epoch(&loader), planned(50, 8, 0));
    let devices = [Device::flex(), Device::flex().autodiff()];
    let copies = devices.clone().map(|device| loader.to_device(&device));
    for e in 1..3 {
        for (copy, device) in copies.iter().zip(&devices) {
            let made: Vec<Made> = copy.iter().map(Result::unwrap).collect();
            assert!(made.iter().all(|(_, of, _)| of == device));
            assert_eq!(made.into_iter().map(|(items, ..)| items).collect::<Vec<_>>(), planned(50, 8, e));
        }
    }
    // The original counts for itself.
    assert_eq!(epoch(&loader), planned(50, 8, 1));
}

#[test]
fn two_iterators_at_once_are_two_whole_epochs() {
    let loader = numbers(50, 8);
    let (first, second) = (loader.iter(), loader.iter());
    let pairs: Vec<_> = first.zip(second).map(|(a, b)| (a.unwrap().0, b.unwrap().0)).collect();
    let (first, second): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    assert_eq!((first, second), (planned(50, 8, 0), planned(50, 8, 1)));
    assert_eq!(epoch(&loader), planned(50, 8, 2));
}

#[test]
fn a_look_at_another_epoch_takes_nothing_from_the_iterator_under_way() {
    let loader = numbers(50, 8);
    let controller = loader.controller();
    let mut training = loader.iter();
    assert_eq!(training.next().unwrap().unwrap().0, planned(50, 8, 0)[0]);
    assert_eq!(loader.iter().next().unwrap().unwrap().0, planned(50, 8, 1)[0]);
    assert_eq!(training.next().unwrap().unwrap().0, planned(50, 8, 0)[1]);
    // It tells of the one that gave the last batch.
    assert_eq!((controller.epoch(), controller.step(), controller.state().position()), (0, 2, 16));
    assert_eq!(training.by_ref().map(|batch| batch.unwrap().0).collect::<Vec<_>>(), planned(50, 8, 0)[2..]);

    // One that takes the place of another has its source, once that one has come to its end.
    training = loader.iter();
    training.next().unwrap().unwrap();
    assert_eq!((controller.epoch(), controller.step()), (2, 1));
}

#[test]
fn an_iterator_that_is_dropped_early_has_used_up_its_epoch_and_no_more() {
    let loader = numbers(50, 8);
    assert_eq!(loader.iter().next().unwrap().unwrap().0, planned(50, 8, 0)[0]);
    assert_eq!(epoch(&loader), planned(50, 8, 1));
}

#[test]
fn tensors_are_made_on_the_consuming_thread_only() {
    let settings = LoaderSettings { num_workers: 4, ..LoaderSettings::default() };
    let loader = with_settings(Numbers { len: 50, ..Numbers::default() }, 8, settings);
    let threads: HashSet<ThreadId> = loader.iter().map(|batch| batch.unwrap().2).collect();
    assert_eq!(threads, HashSet::from([thread::current().id()]));
}

#[test]
fn the_count_of_epochs_begins_where_it_is_told_and_goes_on_in_copies_and_slices() {
    let loader = builder(Numbers { len: 2_000, ..Numbers::default() }, 10)
        .with_start_epoch(5)
        .build_with_batcher(Whole)
        .unwrap();
    assert_eq!((loader.next_epoch(), loader.controller().epoch()), (5, 5));
    let copy = loader.to_device(&Device::flex());
    assert_eq!(epoch(&*copy), planned(2_000, 10, 5));
    let slice = copy.slice(0, 1_000);
    let halves: Vec<Vec<u64>> = planned(2_000, 10, 6).into_iter().map(|row| row[..5].to_vec()).collect();
    assert_eq!(epoch(&*slice), halves);
    // The controller holds for all of them.
    loader.controller().set_epoch(9);
    assert_eq!(epoch(&*copy), planned(2_000, 10, 9));
    assert_eq!(epoch(&*slice).concat().len(), 1_000);
    assert_eq!(epoch(&loader), planned(2_000, 10, 9));
    assert_eq!(epoch(&loader), planned(2_000, 10, 10));
}

#[test]
fn a_state_goes_on_with_the_next_batch_with_progress_that_completes() {
    let loader = numbers(50, 8);
    let mut iterator = loader.iter();
    iterator.by_ref().take(3).for_each(drop);
    let state: LoaderState =
        serde_json::from_str(&serde_json::to_string(&loader.controller().state()).unwrap()).unwrap();
    assert_eq!((state.epoch(), state.position()), (0, 24));
    drop(iterator);

    let dataset = Numbers { len: 50, ..Numbers::default() };
    let built = builder(dataset, 8).with_state(&state).build_with_batcher(Whole).unwrap();
    let steered = numbers(50, 8);
    assert_eq!(epoch(&steered), planned(50, 8, 0));
    steered.controller().restore(&state).unwrap();
    for resumed in [built, steered] {
        // burn moves it to a device before it iterates.
        let resumed = resumed.to_device(&Device::flex());
        let mut iterator = resumed.iter();
        assert_eq!(iterator.progress().items_processed, 24);
        let rest: Vec<_> = iterator.by_ref().map(|batch| batch.unwrap().0).collect();
        assert_eq!(rest, planned(50, 8, 0)[3..]);
        assert!(iterator.progress().is_completed());
        drop(iterator);
        assert_eq!(epoch(&*resumed), planned(50, 8, 1));
    }
}

#[test]
fn an_epoch_that_is_named_is_the_rest_of_the_one_that_a_state_leads_into_for_a_whole_loader_and_for_slices() {
    let loader = numbers(48, 8);
    loader.iter().take(3).for_each(drop);
    let state = loader.controller().state();
    let dataset = Numbers { len: 48, ..Numbers::default() };
    let expected = planned(48, 8, 0);
    for devices in [1, 2] {
        for by_builder in [true, false] {
            let resumed = if by_builder {
                builder(dataset, 8).with_state(&state).build_with_batcher(Whole).unwrap()
            } else {
                let resumed = numbers(48, 8);
                resumed.controller().restore(&state).unwrap();
                resumed
            };
            let controller = resumed.controller();
            controller.set_epoch(0);
            let slices = split_dataloader(Arc::new(resumed), &vec![Device::flex(); devices]);
            let parts: Vec<_> = slices.iter().map(|slice| epoch(&**slice)).collect();
            let together: Vec<Vec<u64>> =
                (0..parts[0].len()).map(|step| parts.iter().flat_map(|part| part[step].clone()).collect()).collect();
            let sorted = |mut rows: Vec<Vec<u64>>| {
                rows.iter_mut().for_each(|row| row.sort_unstable());
                rows
            };
            assert_eq!(sorted(together), sorted(expected[3..].to_vec()), "{devices} devices");
            // Once it has begun, its name is that of the whole.
            controller.set_epoch(0);
            assert_eq!(epoch(&*slices[0]).len(), 6);
        }
    }
}

#[test]
fn an_epoch_that_cannot_begin_is_not_used_up() {
    let loader = numbers(50, 8);
    let state = serde_json::to_value(loader.controller().state()).unwrap();
    let changed = |key: &str, value: serde_json::Value| -> LoaderState {
        let mut state = state.clone();
        state[key] = value;
        serde_json::from_value(state).unwrap()
    };
    let error = loader.controller().restore(&changed("version", 99.into())).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
    // What only the loader itself finds out.
    let ahead = serde_json::json!({"steps": [3], "batch_size": 9, "world": {"rank": 0, "world_size": 1}});
    loader.controller().restore(&changed("taken_ahead", ahead)).unwrap();
    for _ in 0..2 {
        let results: Vec<_> = loader.iter().collect();
        assert_eq!((results.len(), results[0].is_err()), (1, true));
    }
    loader.controller().set_epoch(0);
    assert_eq!(epoch(&loader).len(), 7, "after another start");
}

#[test]
fn a_state_that_is_asked_for_when_the_loader_is_gone_is_where_the_loop_was() {
    let loader = numbers(50, 8);
    let controller = loader.controller();
    loader.iter().take(3).for_each(drop);
    drop(loader);
    assert_eq!((controller.state().epoch(), controller.state().position()), (0, 24));
    assert_eq!((controller.epoch(), controller.step()), (0, 3));
}

#[test]
fn a_state_of_another_order_is_refused() {
    let state = numbers(50, 8).controller().state();
    let plan = ShuffleOncePerEpochPlanProvider::new(50, 8, 43).unwrap();
    let builder = || PlanDataLoaderBuilder::new(Numbers { len: 50, ..Numbers::default() }, plan.clone());
    let error = builder().with_state(&state).build_with_batcher(Whole).unwrap_err().to_string();
    assert!(error.contains("seed 42"), "{error}");
    let loader = builder().build_with_batcher(Whole).unwrap();
    assert!(loader.controller().restore(&state).is_err());
    assert_eq!(loader.next_epoch(), 0, "it is as it was");
}

#[test]
fn an_error_comes_once_then_the_epoch_ends_and_the_next_one_is_whole() {
    // Beyond the first batch of epoch 0, and in each later epoch somewhere.
    let broken = planned(50, 8, 0)[2][3];
    for num_workers in [0, 4] {
        let settings = LoaderSettings { num_workers, ..LoaderSettings::default() };
        let dataset = Numbers { len: 50, fails: Some(broken), ..Numbers::default() };
        let loader = with_settings(dataset, 8, settings);
        for e in 0..3 {
            let rows = planned(50, 8, e);
            let row = rows.iter().position(|row| row.contains(&broken)).unwrap();
            let mut iterator = loader.iter();
            for expected in &rows[..row] {
                assert_eq!(&iterator.next().unwrap().unwrap().0, expected);
            }
            let error = iterator.next().unwrap().unwrap_err().to_string();
            assert!(error.contains(&format!("sample {broken}")) && error.contains("a broken file"), "{error}");
            // An endless error would be met here, and batches of other workers after it.
            assert!((0..100).all(|_| iterator.next().is_none()));
            assert!(!iterator.progress().is_completed());
        }
    }
}

#[test]
fn a_panic_in_a_decoder_is_an_error_and_never_the_silent_end_of_an_epoch() {
    let broken = planned(64, 8, 0)[1][0];
    let settings = LoaderSettings { num_workers: 4, ..LoaderSettings::default() };
    let dataset = Numbers { len: 64, panics: Some(broken), ..Numbers::default() };
    let loader = with_settings(dataset, 8, settings.clone());
    let batches: Vec<_> = loader.iter().collect();
    assert_eq!(batches.len(), 2);
    let error = batches[1].as_ref().unwrap_err().to_string();
    assert!(error.contains("a decoder's panic"), "{error}");

    // Where it is borne, no other item is lost, in this epoch and in the next.
    let loader = with_settings(dataset, 8, LoaderSettings { on_error: OnError::Skip, ..settings });
    for e in 0..2 {
        let mut expected = planned(64, 8, e);
        expected.iter_mut().for_each(|row| row.retain(|&id| id != broken));
        assert_eq!(epoch(&loader), expected);
    }
    assert_eq!(loader.controller().failed_samples().len(), 2);
}

#[test]
fn a_batcher_that_panics_is_an_error_that_names_its_batch() {
    struct Strict;
    impl Batcher<u64, u64> for Strict {
        fn batch(&self, items: Vec<u64>, _device: &Device) -> u64 {
            assert!(!items.contains(&7), "a batcher's panic");
            items.len() as u64
        }
    }
    let plan = SequentialPlanProvider::new(20, 5).unwrap();
    let dataset = Numbers { len: 20, ..Numbers::default() };
    let loader = PlanDataLoaderBuilder::new(dataset, plan).build_with_batcher(Strict).unwrap();
    let batches: Vec<_> = loader.iter().collect();
    assert_eq!(batches.len(), 2);
    let error = batches[1].as_ref().unwrap_err().to_string();
    assert!(error.contains("epoch 0, step 1") && error.contains("a batcher's panic"), "{error}");
}

#[test]
fn progress_completes_where_samples_are_skipped_and_an_empty_batch_is_passed_over() {
    let plan = SequentialPlanProvider::new(5, 1).unwrap();
    let dataset = Numbers { len: 5, fails: Some(2), ..Numbers::default() };
    let settings = LoaderSettings { on_error: OnError::Skip, ..LoaderSettings::default() };
    let loader = PlanDataLoaderBuilder::new(dataset, plan).with_settings(settings).build_with_batcher(Whole).unwrap();
    let mut iterator = loader.iter();
    let items: Vec<u64> = iterator.by_ref().flat_map(|batch| batch.unwrap().0).collect();
    assert_eq!(items, [0, 1, 3, 4]);
    assert!(iterator.progress().is_completed());
}

#[test]
fn every_item_meets_every_other_in_a_batch_sooner_or_later() {
    let settings = LoaderSettings { num_workers: 4, ..LoaderSettings::default() };
    let loader = with_settings(Numbers { len: 64, ..Numbers::default() }, 4, settings);
    let mut met = BTreeSet::new();
    for _ in 0..200 {
        met.extend(epoch(&loader).into_iter().find(|batch| batch.contains(&0)).unwrap());
    }
    assert_eq!(met.len(), 64, "a loader that shuffles inside of each worker's share meets 16");
}

#[test]
fn settings_that_give_up_the_order_are_refused() {
    let settings = LoaderSettings { in_order: false, ..LoaderSettings::default() };
    let dataset = Numbers { len: 50, ..Numbers::default() };
    let error = builder(dataset, 8).with_settings(settings).build_with_batcher(Whole).unwrap_err().to_string();
    assert!(error.contains("in_order"), "{error}");
}

#[test]
fn a_loader_is_iterated_over_from_another_thread() {
    let loader: Arc<dyn DataLoader<Made>> = Arc::new(numbers(50, 8));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handle = thread::spawn({
        let (loader, seen) = (Arc::clone(&loader), Arc::clone(&seen));
        move || *seen.lock().unwrap() = epoch(&*loader)
    });
    handle.join().unwrap();
    assert_eq!(*seen.lock().unwrap(), planned(50, 8, 0));
}
