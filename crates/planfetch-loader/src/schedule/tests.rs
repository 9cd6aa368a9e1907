//! Tests of the schedule.

use std::collections::{BTreeMap, BTreeSet};

use planfetch_plan::{PlanProvider, RankPlan, ShuffleOncePerEpochPlanProvider};
use proptest::prelude::*;

use super::*;

fn plan(n: u64, batch_size: usize, epoch: u64) -> RankPlan {
    ShuffleOncePerEpochPlanProvider::new(n, batch_size, 1).unwrap().plan(epoch).unwrap().into()
}

fn rules(capacity: usize, num_epochs: Option<u64>) -> Rules {
    Rules { capacity, max_bytes: None, in_order: true, num_epochs }
}

fn place(epoch: u64, step: usize, batch_size: usize) -> Place {
    Place { epoch, step, position: step * batch_size }
}

/// A schedule, its makers and its reader, driven by choices.
struct Play {
    n: u64,
    batch_size: usize,
    schedule: Schedule<Place>,
    making: Vec<Job>,
    taken: Vec<Place>,
    ends: Vec<u64>,
}

impl Play {
    fn new(n: u64, batch_size: usize, rules: Rules) -> Self {
        let schedule = Schedule::new(rules);
        Self { n, batch_size, schedule, making: Vec::new(), taken: Vec::new(), ends: Vec::new() }
    }

    fn drive(&mut self, choices: &[u8]) {
        for &choice in choices {
            match choice % 3 {
                0 => match self.schedule.next() {
                    Next::Make(job) => self.making.push(job),
                    Next::FindPlan(epoch) => self.schedule.add_plan(epoch, plan(self.n, self.batch_size, epoch)),
                    Next::Wait | Next::Stop => {}
                },
                1 if !self.making.is_empty() => {
                    let job = self.making.remove(usize::from(choice) % self.making.len());
                    assert!(self.schedule.deliver(&job, job.place, Some(10)).is_none());
                }
                _ => match self.schedule.take(|_| false) {
                    Taken::Batch(batch, place) => {
                        assert_eq!(batch, place);
                        self.taken.push(place);
                    }
                    Taken::EndOfEpoch(epoch) => self.ends.push(epoch),
                    Taken::Wait | Taken::Ended => {}
                },
            }
            assert!(self.making.len() <= self.schedule.rules.capacity);
        }
    }
}

proptest! {
    #[test]
    fn batches_leave_in_plan_order_whatever_order_they_come_back_in(
        n in 0_u64..20, batch_size in 1_usize..6, capacity in 1_usize..6, choices in prop::collection::vec(any::<u8>(), 0..400)
    ) {
        let mut play = Play::new(n, batch_size, rules(capacity, None));
        play.drive(&choices);
        let per_epoch = (n as usize).div_ceil(batch_size);
        for (i, taken) in play.taken.iter().enumerate() {
            prop_assert_eq!(*taken, place((i / per_epoch) as u64, i % per_epoch, batch_size));
        }
        prop_assert_eq!(&play.ends, &(0..play.ends.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn without_plan_order_each_batch_still_comes_once_an_epoch_and_no_epoch_overtakes_another(
        n in 0_u64..20, batch_size in 1_usize..6, capacity in 1_usize..6, choices in prop::collection::vec(any::<u8>(), 0..600)
    ) {
        let mut play = Play::new(n, batch_size, Rules { in_order: false, ..rules(capacity, None) });
        play.drive(&choices);
        let per_epoch = (n as usize).div_ceil(batch_size);
        let mut by_epoch = BTreeMap::<u64, Vec<usize>>::new();
        for pair in play.taken.windows(2) {
            prop_assert!(pair[0].epoch <= pair[1].epoch);
        }
        play.taken.iter().for_each(|place| by_epoch.entry(place.epoch).or_default().push(place.step));
        for (epoch, mut steps) in by_epoch {
            steps.sort_unstable();
            prop_assert!(steps.windows(2).all(|pair| pair[0] != pair[1]));
            prop_assert!(!play.ends.contains(&epoch) || steps.len() == per_epoch);
        }
    }

    #[test]
    fn a_run_that_is_resumed_anywhere_loses_and_repeats_nothing(
        n in 0_u64..40,
        batch_size in 1_usize..6,
        in_order: bool,
        lives in prop::collection::vec((1_usize..6, prop::collection::vec(any::<u8>(), 0..60)), 1..6),
    ) {
        // What is taken in all lives together, with what the last one would still deliver, is one run.
        let mut ledger = Vec::new();
        let (mut at, mut ahead, mut ends) = (Place::START, BTreeSet::new(), 0);
        for (capacity, choices) in lives {
            let mut play = Play::new(n, batch_size, Rules { in_order, ..rules(capacity, None) });
            play.schedule.restore(at, ahead);
            play.drive(&choices);
            ledger.append(&mut play.taken);
            ends += play.ends.len();
            (at, ahead) = (play.schedule.position(), play.schedule.taken_ahead().into_iter().collect());
            prop_assert!(in_order <= ahead.is_empty());
        }
        prop_assert_eq!(ends as u64, at.epoch);
        let per_epoch = (n as usize).div_ceil(batch_size);
        let mut expected: Vec<Place> =
            (0..at.epoch).flat_map(|epoch| (0..per_epoch).map(move |step| place(epoch, step, batch_size))).collect();
        expected.extend((0..at.step).chain(ahead).map(|step| place(at.epoch, step, batch_size)));
        if !in_order {
            ledger.sort_unstable();
        }
        prop_assert_eq!(ledger, expected);
    }

    #[test]
    fn nothing_is_made_beyond_the_last_epoch(
        n in 0_u64..20, epochs in 1_u64..3, choices in prop::collection::vec(any::<u8>(), 0..400)
    ) {
        let mut play = Play::new(n, 3, rules(4, Some(epochs)));
        play.drive(&choices);
        prop_assert!(play.taken.iter().all(|place| place.epoch < epochs));
        prop_assert!(play.ends.len() as u64 <= epochs);
    }

    #[test]
    fn batches_under_way_stay_within_the_bound_of_bytes_but_for_one(
        max_bytes in 1_u64..60, choices in prop::collection::vec(any::<u8>(), 0..400)
    ) {
        let mut play = Play::new(1_000, 3, Rules { max_bytes: Some(max_bytes), ..rules(8, None) });
        // The first batch tells how large they are.
        play.drive(&[0, 0, 1, 2]);
        for choice in choices {
            play.drive(&[choice]);
            prop_assert!(play.schedule.under_way as u64 <= (max_bytes / 10).max(1));
        }
        // One at a time at the least: nothing stands still.
        let before = play.taken.len();
        play.drive(&[0, 1, 2].repeat(20));
        prop_assert!(before < play.taken.len());
    }
}

#[test]
fn makers_are_woken_before_the_reader_has_taken_all_that_is_ready() {
    for (capacity, max_bytes) in [(1, None), (2, None), (3, None), (4, None), (9, None), (9, Some(20)), (9, Some(1))] {
        let mut play = Play::new(1_000, 1, Rules { max_bytes, ..rules(capacity, None) });
        play.drive(&[0, 0, 1, 2]);
        // All makers make what they may, and wait.
        while let Next::Make(job) = play.schedule.next() {
            play.schedule.deliver(&job, job.place, Some(10));
        }
        let ready = play.schedule.under_way;
        let woken = (1..=ready).find(|_| {
            play.drive(&[2]);
            play.schedule.wants_makers()
        });
        assert_eq!(woken, Some((ready / 2).max(1)), "{capacity} {max_bytes:?}");
    }
}

#[test]
fn what_was_made_before_a_restart_is_given_back() {
    let mut schedule = Schedule::<u32>::new(rules(4, None));
    schedule.add_plan(0, plan(8, 2, 0));
    let (Next::Make(first), Next::Make(second)) = (schedule.next(), schedule.next()) else { panic!("two jobs") };
    assert_eq!(schedule.deliver(&first, 1, Some(0)), None);
    assert_eq!(schedule.restart(place(3, 2, 2)), [1]);
    assert_eq!(schedule.deliver(&second, 2, Some(0)), Some(2));
    assert!(matches!(schedule.take(|_| false), Taken::Wait));
    assert!(matches!(schedule.next(), Next::FindPlan(3)));
    schedule.add_plan(3, plan(8, 2, 3));
    let Next::Make(job) = schedule.next() else { panic!("a job") };
    assert_eq!(job.place, place(3, 2, 2));
}

#[test]
fn after_an_error_nothing_comes_and_the_position_stays_whatever_was_taken_behind_it() {
    for in_order in [true, false] {
        let mut schedule = Schedule::<u32>::new(Rules { in_order, ..rules(4, None) });
        schedule.add_plan(0, plan(8, 2, 0));
        let (Next::Make(first), Next::Make(second)) = (schedule.next(), schedule.next()) else { panic!("two jobs") };
        schedule.deliver(&second, 2, Some(0));
        let early = matches!(schedule.take(|_| false), Taken::Batch(2, _));
        assert_eq!(early, !in_order);
        schedule.deliver(&first, 1, Some(0));
        assert!(matches!(schedule.take(|_| true), Taken::Batch(1, _)));
        assert_eq!(schedule.position(), place(0, 0, 2));
        assert_eq!(schedule.taken_ahead(), if early { vec![1] } else { Vec::new() });
        assert!(matches!(schedule.take(|_| false), Taken::Ended));
        assert!(matches!(schedule.next(), Next::Wait));
    }
}

#[test]
fn the_end_of_the_announced_epochs_is_the_end() {
    let mut schedule = Schedule::<u32>::new(rules(4, Some(1)));
    schedule.add_plan(0, plan(0, 2, 0));
    assert!(matches!(schedule.next(), Next::Wait));
    assert!(matches!(schedule.take(|_| false), Taken::EndOfEpoch(0)));
    assert!(matches!(schedule.take(|_| false), Taken::Ended));
}

#[test]
fn set_epoch_after_a_restore_into_it_changes_nothing_until_a_batch_is_taken() {
    let mut schedule = Schedule::<u32>::new(rules(4, None));
    schedule.restore(place(2, 1, 2), BTreeSet::new());
    assert!(schedule.is_restored_to(2) && !schedule.is_restored_to(3));
    schedule.add_plan(2, plan(8, 2, 2));
    let Next::Make(job) = schedule.next() else { panic!("a job") };
    assert!(schedule.is_restored_to(2));
    schedule.deliver(&job, 1, Some(0));
    schedule.take(|_| false);
    assert!(!schedule.is_restored_to(2));
}

#[test]
fn a_run_may_go_on_in_the_middle_of_a_row() {
    let mut schedule = Schedule::<u32>::new(rules(4, None));
    schedule.restore(Place { epoch: 0, step: 1, position: 6 }, BTreeSet::new());
    schedule.add_plan(0, plan(10, 4, 0));
    let (Next::Make(rest), Next::Make(last)) = (schedule.next(), schedule.next()) else { panic!("two jobs") };
    assert_eq!((rest.batch.len(), rest.place.step, last.batch.len(), last.place.position), (2, 1, 2, 8));
}

proptest! {
    #[test]
    fn the_position_is_the_same_after_the_end(
        n in 0_u64..20, batch_size in 1_usize..6, capacity in 1_usize..6, in_order: bool,
        choices in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        let mut play = Play::new(n, batch_size, Rules { in_order, ..rules(capacity, None) });
        play.drive(&choices);
        let before = (play.schedule.position(), play.schedule.taken_ahead());
        play.schedule.stop();
        prop_assert_eq!((play.schedule.position(), play.schedule.taken_ahead()), before);
    }
}

#[test]
fn one_batch_that_is_much_larger_slows_the_next_ones_down_and_not_the_run() {
    let mut play = Play::new(1_000, 1, Rules { max_bytes: Some(80), ..rules(8, None) });
    let under_way = |play: &mut Play, bytes: Option<u64>| {
        play.drive(&[0; 20]);
        let most = play.making.len();
        let job = play.making.remove(0);
        assert!(play.schedule.deliver(&job, job.place, bytes).is_none());
        play.drive(&[2]);
        most
    };
    // What a batch takes isn't known before the first one.
    assert_eq!(under_way(&mut play, None), 1);
    // An error, or a batch of which every sample was skipped, says nothing either.
    assert_eq!(under_way(&mut play, Some(10)), 1);
    assert_eq!(under_way(&mut play, Some(80)), 8);
    // What was begun before is finished; after that, one at a time.
    let after: Vec<usize> = (0..100).map(|_| under_way(&mut play, Some(10))).collect();
    assert_eq!((after[6], after[20]), (1, 1), "{after:?}");
    assert_eq!(after[99], 8, "{after:?}");
}
