//! Which batch is made next, and which one the reader gets.
//!
//! A plain state machine: no threads and no clock. Batches are handed out to makers in plan order, come back in any
//! order, and leave in plan order.

use std::collections::BTreeMap;

use planfetch_plan::PlanView;

/// A place in a run: an epoch, and a step of its plan.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    pub(crate) epoch: u64,
    pub(crate) step: usize,
}

/// A batch to make.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Counts restarts; what belongs to an earlier one is thrown away.
    pub(crate) generation: u64,
    pub(crate) number: u64,
    pub(crate) place: Place,
    pub(crate) plan: PlanView,
}

/// What a maker does next.
#[derive(Debug)]
pub(crate) enum Next {
    Make(Job),
    /// Find the plan of this epoch, hand it to `add_plan`, and ask again.
    FindPlan(u64),
    /// Wait until something changes.
    Wait,
    Stop,
}

/// What the reader gets.
#[derive(Debug)]
pub(crate) enum Taken<T> {
    Batch(T, Place),
    /// The epoch of this number has ended.
    EndOfEpoch(#[cfg_attr(not(test), expect(dead_code, reason = "told for tests"))] u64),
    /// Wait until something changes.
    Wait,
    /// Nothing comes until a restart.
    Ended,
}

#[derive(Debug)]
enum Item<T> {
    Batch(T, Place),
    EndOfEpoch(u64),
}

#[derive(Debug)]
pub(crate) struct Schedule<T> {
    generation: u64,
    /// The next batch to hand out, and its number since the restart.
    next_in: Place,
    number_in: u64,
    /// The next batch that the reader takes.
    next_out: Place,
    number_out: u64,
    /// Handed out and not yet taken; ends of epochs count too, so that empty epochs don't run away.
    under_way: usize,
    capacity: usize,
    num_epochs: Option<u64>,
    /// The first epoch that is not made: `num_epochs`, or behind the one that the reader went to by itself.
    end: Option<u64>,
    plan: Option<(u64, PlanView)>,
    ready: BTreeMap<u64, Item<T>>,
    /// The reader was given an error; it gets nothing more until a restart.
    failed: bool,
    stopped: bool,
}

impl<T> Schedule<T> {
    pub(crate) fn new(capacity: usize, num_epochs: Option<u64>) -> Self {
        let start = Place { epoch: 0, step: 0 };
        Self {
            generation: 0,
            next_in: start,
            number_in: 0,
            next_out: start,
            number_out: 0,
            under_way: 0,
            capacity,
            num_epochs,
            end: end(num_epochs, start),
            plan: None,
            ready: BTreeMap::new(),
            failed: false,
            stopped: false,
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the next batch that the reader takes.
    pub(crate) fn position(&self) -> Place {
        self.next_out
    }

    /// Returns whether a batch comes without a restart.
    pub(crate) fn can_go_on(&self) -> bool {
        !self.failed && !self.stopped && self.end.is_none_or(|end| self.next_out.epoch < end)
    }

    /// Takes the end of the epoch, if that is what comes next.
    pub(crate) fn take_end_of_epoch(&mut self) -> bool {
        let is_next = matches!(self.ready.get(&self.number_out), Some(Item::EndOfEpoch(_)));
        is_next && matches!(self.take(), Taken::EndOfEpoch(_))
    }

    /// Begins anew at `place`, and returns what was ready and is not wanted any more.
    pub(crate) fn restart(&mut self, place: Place) -> Vec<T> {
        self.generation += 1;
        (self.next_in, self.next_out) = (place, place);
        (self.number_in, self.number_out) = (0, 0);
        self.under_way = 0;
        self.failed = false;
        self.plan = None;
        self.end = end(self.num_epochs, place);
        self.clear()
    }

    /// Ends for good, and returns what was ready.
    pub(crate) fn stop(&mut self) -> Vec<T> {
        self.stopped = true;
        self.clear()
    }

    fn clear(&mut self) -> Vec<T> {
        let ready = std::mem::take(&mut self.ready);
        ready
            .into_values()
            .filter_map(|item| if let Item::Batch(batch, _) = item { Some(batch) } else { None })
            .collect()
    }

    pub(crate) fn add_plan(&mut self, epoch: u64, plan: PlanView) {
        if epoch == self.next_in.epoch {
            self.plan = Some((epoch, plan));
        }
    }

    /// Takes note that an epoch has no plan: the reader gets `error` in place of its next batch.
    pub(crate) fn add_failed_plan(&mut self, epoch: u64, error: T) {
        if epoch == self.next_in.epoch {
            self.ready.insert(self.number_in, Item::Batch(error, self.next_in));
            self.number_in += 1;
            self.under_way += 1;
            self.next_in = Place { epoch: epoch.saturating_add(1), step: 0 };
        }
    }

    /// Returns what a maker does next.
    pub(crate) fn next(&mut self) -> Next {
        if self.stopped {
            return Next::Stop;
        }
        while !self.failed && self.under_way < self.capacity {
            if self.end.is_some_and(|end| end <= self.next_in.epoch) {
                return Next::Wait;
            }
            let epoch = self.next_in.epoch;
            let Some(plan) = self.plan.as_ref().filter(|(of, _)| *of == epoch).map(|(_, plan)| plan) else {
                return Next::FindPlan(epoch);
            };
            let number = self.number_in;
            self.number_in += 1;
            self.under_way += 1;
            if self.next_in.step < plan.num_batches() {
                let place = self.next_in;
                let job = Job { generation: self.generation, number, place, plan: plan.clone() };
                self.next_in.step += 1;
                return Next::Make(job);
            }
            self.ready.insert(number, Item::EndOfEpoch(epoch));
            self.next_in = Place { epoch: epoch.saturating_add(1), step: 0 };
        }
        Next::Wait
    }

    /// Takes a batch that has been made, or returns it when it is not wanted any more.
    pub(crate) fn deliver(&mut self, job: &Job, batch: T) -> Option<T> {
        if job.generation != self.generation || self.stopped {
            return Some(batch);
        }
        self.ready.insert(job.number, Item::Batch(batch, job.place));
        None
    }

    /// Returns what the reader gets next. The position moves on with it.
    pub(crate) fn take(&mut self) -> Taken<T> {
        if self.failed || self.stopped {
            return Taken::Ended;
        }
        let Some(item) = self.ready.remove(&self.number_out) else {
            return if self.is_exhausted() { Taken::Ended } else { Taken::Wait };
        };
        self.number_out += 1;
        self.under_way -= 1;
        match item {
            Item::Batch(batch, place) => {
                self.next_out = Place { step: place.step + 1, ..place };
                Taken::Batch(batch, place)
            }
            Item::EndOfEpoch(epoch) => {
                self.next_out = Place { epoch: epoch.saturating_add(1), step: 0 };
                Taken::EndOfEpoch(epoch)
            }
        }
    }

    /// Takes note that the batch at `place` was an error: the position stays there, and nothing comes until a restart.
    pub(crate) fn fail(&mut self, place: Place) {
        self.failed = true;
        self.next_out = place;
    }

    /// Returns whether every epoch that was announced has been taken, so that waiting would never end.
    fn is_exhausted(&self) -> bool {
        self.under_way == 0 && self.end.is_some_and(|end| end <= self.next_out.epoch)
    }
}

fn end(num_epochs: Option<u64>, place: Place) -> Option<u64> {
    num_epochs.map(|n| n.max(place.epoch.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use planfetch_plan::{PlanProvider, ShuffleOncePerEpochPlanProvider};
    use proptest::prelude::*;

    use super::*;

    fn drive(
        n: u64,
        batch_size: usize,
        capacity: usize,
        num_epochs: Option<u64>,
        choices: &[u8],
    ) -> (Vec<Place>, Vec<u64>) {
        let provider = ShuffleOncePerEpochPlanProvider::new(n, batch_size, 1).unwrap();
        let mut schedule = Schedule::<Place>::new(capacity, num_epochs);
        let mut out: Vec<Job> = Vec::new();
        let (mut taken, mut ends) = (Vec::new(), Vec::new());
        for &choice in choices {
            match choice % 3 {
                0 => match schedule.next() {
                    Next::Make(job) => out.push(job),
                    Next::FindPlan(epoch) => schedule.add_plan(epoch, provider.plan(epoch).unwrap()),
                    Next::Wait | Next::Stop => {}
                },
                1 if !out.is_empty() => {
                    let job = out.remove(usize::from(choice) % out.len());
                    assert!(schedule.deliver(&job, job.place).is_none());
                }
                _ => match schedule.take() {
                    Taken::Batch(batch, place) => {
                        assert_eq!(batch, place);
                        taken.push(place);
                    }
                    Taken::EndOfEpoch(epoch) => ends.push(epoch),
                    Taken::Wait | Taken::Ended => {}
                },
            }
            assert!(out.len() <= capacity);
        }
        (taken, ends)
    }

    proptest! {
        #[test]
        fn batches_leave_in_plan_order_whatever_order_they_come_back_in(
            n in 0_u64..20, batch_size in 1_usize..6, capacity in 1_usize..6, choices in prop::collection::vec(any::<u8>(), 0..400)
        ) {
            let (taken, ends) = drive(n, batch_size, capacity, None, &choices);
            let per_epoch = (n as usize).div_ceil(batch_size);
            for (i, place) in taken.iter().enumerate() {
                let expected = Place { epoch: (i / per_epoch) as u64, step: i % per_epoch };
                prop_assert_eq!(*place, expected);
            }
            prop_assert_eq!(&ends, &(0..ends.len() as u64).collect::<Vec<_>>());
        }

        #[test]
        fn nothing_is_made_beyond_the_last_epoch(
            n in 0_u64..20, epochs in 1_u64..3, choices in prop::collection::vec(any::<u8>(), 0..400)
        ) {
            let (taken, ends) = drive(n, 3, 4, Some(epochs), &choices);
            prop_assert!(taken.iter().all(|place| place.epoch < epochs));
            prop_assert!(ends.len() as u64 <= epochs);
        }
    }

    #[test]
    fn what_was_made_before_a_restart_is_given_back() {
        let plan = ShuffleOncePerEpochPlanProvider::new(8, 2, 0).unwrap().plan(0).unwrap();
        let mut schedule = Schedule::<u32>::new(4, None);
        schedule.add_plan(0, plan.clone());
        let (Next::Make(first), Next::Make(second)) = (schedule.next(), schedule.next()) else { panic!("two jobs") };
        assert_eq!(schedule.deliver(&first, 1), None);
        assert_eq!(schedule.restart(Place { epoch: 3, step: 2 }), [1]);
        assert_eq!(schedule.deliver(&second, 2), Some(2));
        assert!(matches!(schedule.take(), Taken::Wait));
        assert!(matches!(schedule.next(), Next::FindPlan(3)));
        schedule.add_plan(3, plan);
        let Next::Make(job) = schedule.next() else { panic!("a job") };
        assert_eq!(job.place, Place { epoch: 3, step: 2 });
    }

    #[test]
    fn after_an_error_nothing_comes_and_the_position_stays() {
        let plan = ShuffleOncePerEpochPlanProvider::new(8, 2, 0).unwrap().plan(0).unwrap();
        let mut schedule = Schedule::<u32>::new(4, None);
        schedule.add_plan(0, plan);
        let Next::Make(job) = schedule.next() else { panic!("a job") };
        schedule.deliver(&job, 1);
        let Taken::Batch(_, place) = schedule.take() else { panic!("a batch") };
        schedule.fail(place);
        assert_eq!(schedule.position(), Place { epoch: 0, step: 0 });
        assert!(matches!(schedule.take(), Taken::Ended));
        assert!(matches!(schedule.next(), Next::Wait));
    }

    #[test]
    fn the_end_of_the_announced_epochs_is_the_end() {
        let mut schedule = Schedule::<u32>::new(4, Some(1));
        schedule.add_plan(0, ShuffleOncePerEpochPlanProvider::new(0, 2, 0).unwrap().plan(0).unwrap());
        assert!(matches!(schedule.next(), Next::Wait));
        assert!(matches!(schedule.take(), Taken::EndOfEpoch(0)));
        assert!(matches!(schedule.take(), Taken::Ended));
    }
}
