//! Which batch is made next, and which one the reader gets.
//!
//! A plain state machine: no threads and no clock. Batches are handed out to makers in plan order, come back in any
//! order, and leave in plan order, or as they come back where that is wanted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use planfetch_plan::{RankBatch, RankPlan};

/// A place in a run: an epoch, a step of its plan, and how many samples of the epoch lie before it, over all ranks.
///
/// A step begins at `step * batch_size`, but for the first after a resume with another batch size, which may begin
/// within its row.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    pub(crate) epoch: u64,
    pub(crate) step: usize,
    pub(crate) position: usize,
}

impl Place {
    /// The place before everything.
    pub(crate) const START: Self = Self::start_of(0);

    pub(crate) const fn start_of(epoch: u64) -> Self {
        Self { epoch, step: 0, position: 0 }
    }

    /// Returns the place itself, or where nothing is left of its row for any rank, the next one of which something is.
    ///
    /// Whoever names a place settles it at once: the state of a run may be asked for at any moment, and all ranks have
    /// the same. The start of an epoch is named before there is a plan, so it stays where it is: nothing is left of the
    /// first row only where there is nothing in the whole epoch.
    pub(crate) fn settled(mut self, plan: &RankPlan) -> Self {
        let (batch_size, num_ids) = (plan.plan().batch_size(), plan.plan().num_ids());
        while 0 < self.position && self.position < num_ids && plan.batch_from(self.position).is_none() {
            self.step = self.position / batch_size + 1;
            self.position = self.step.saturating_mul(batch_size).min(num_ids);
        }
        self
    }

    fn next_epoch(self) -> Self {
        Self::start_of(self.epoch.saturating_add(1))
    }
}

/// A batch to make.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Counts restarts; what belongs to an earlier one is thrown away.
    pub(crate) generation: u64,
    pub(crate) number: u64,
    pub(crate) place: Place,
    /// What this rank takes of the step.
    pub(crate) batch: RankBatch,
}

impl Job {
    /// Returns the place behind the step.
    fn next_place(&self, plan: &RankPlan) -> Place {
        let behind = Place { epoch: self.place.epoch, step: self.place.step + 1, position: self.batch.end() };
        behind.settled(plan)
    }
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

/// What the reader gets next, lent before it is taken.
#[derive(Debug)]
pub(crate) struct Lent<T> {
    pub(crate) batch: T,
    generation: u64,
    number: u64,
}

/// How a schedule works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// How many batches may be in the making, or ready.
    pub(crate) capacity: usize,
    /// How many bytes they may take together, where that is bounded. One batch is made in any case.
    pub(crate) max_bytes: Option<u64>,
    /// Whether batches leave in plan order, or as they are finished.
    pub(crate) in_order: bool,
    pub(crate) num_epochs: Option<u64>,
}

/// Without plan order, by how many batches for each of the capacity one may be overtaken: what was taken before its turn
/// has to be remembered, and a batch that never comes must not be passed over for a whole epoch.
pub(crate) const MAX_OVERTAKEN: usize = 16;

/// Of how many batches the largest stands for the next one.
const RECENT: usize = 32;

/// A batch that was handed out, or the end of an epoch.
#[derive(Debug)]
struct Entry<T> {
    place: Place,
    what: What<T>,
}

#[derive(Debug)]
enum What<T> {
    Making,
    Ready(T),
    /// Taken before its turn.
    Taken,
    EndOfEpoch,
}

#[derive(Debug)]
pub(crate) struct Schedule<T> {
    rules: Rules,
    generation: u64,
    /// The next batch to hand out, and its number since the restart.
    next_in: Place,
    number_in: u64,
    // Invariant: the first is not `Taken`. What is not here was taken, or not handed out.
    entries: BTreeMap<u64, Entry<T>>,
    /// Entries that are not `Taken`; ends of epochs count too, so that empty epochs don't run away.
    under_way: usize,
    /// How many bytes the last batches took.
    recent_bytes: VecDeque<u64>,
    /// The first epoch that is not made: `num_epochs`, or behind the one that the reader went to by itself.
    end: Option<u64>,
    plan: Option<(u64, RankPlan)>,
    /// The steps of one epoch that were taken before their turn in an earlier life.
    taken_before: Option<(u64, BTreeSet<usize>)>,
    /// The reader was sent here by a restore, and has taken nothing since.
    is_restored: bool,
    /// The reader was given an error; it gets nothing more until a restart.
    failed: bool,
    stopped: bool,
}

impl<T> Schedule<T> {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            generation: 0,
            next_in: Place::START,
            number_in: 0,
            entries: BTreeMap::new(),
            under_way: 0,
            recent_bytes: VecDeque::with_capacity(RECENT),
            end: end(rules.num_epochs, Place::START),
            plan: None,
            taken_before: None,
            is_restored: false,
            failed: false,
            stopped: false,
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the place of the first batch that the reader has not taken.
    pub(crate) fn position(&self) -> Place {
        self.entries.first_key_value().map_or(self.next_in, |(_, first)| first.place)
    }

    /// Returns the steps behind the position that were taken before their turn, in order.
    pub(crate) fn taken_ahead(&self) -> Vec<usize> {
        let taken = self.entries.values().filter(|entry| matches!(entry.what, What::Taken));
        let mut steps: Vec<usize> = taken.map(|entry| entry.place.step).collect();
        if let Some((epoch, before)) = &self.taken_before
            && *epoch == self.position().epoch
        {
            steps.extend(before);
        }
        steps
    }

    /// Returns whether a batch comes without a restart.
    pub(crate) fn can_go_on(&self) -> bool {
        !self.failed && !self.stopped && self.end.is_none_or(|end| self.position().epoch < end)
    }

    /// Returns whether a restore has sent the reader into this epoch, and it has taken nothing since.
    pub(crate) fn is_restored_to(&self, epoch: u64) -> bool {
        self.is_restored && self.can_go_on() && self.position().epoch == epoch
    }

    /// Takes the end of the epoch, if that is what comes next.
    pub(crate) fn take_end_of_epoch(&mut self) -> bool {
        let is_next = self.entries.first_entry().is_some_and(|first| matches!(first.get().what, What::EndOfEpoch));
        is_next && matches!(self.take(|_| false), Taken::EndOfEpoch(_))
    }

    /// Begins anew at `place`, and returns what was ready and is not wanted any more.
    pub(crate) fn restart(&mut self, place: Place) -> Vec<T> {
        self.generation += 1;
        self.next_in = place;
        self.number_in = 0;
        self.failed = false;
        self.plan = None;
        self.taken_before = None;
        self.is_restored = false;
        self.end = end(self.rules.num_epochs, place);
        self.clear()
    }

    /// Begins anew at `place`, without the steps that were taken before their turn, as an earlier life left it.
    pub(crate) fn restore(&mut self, place: Place, taken_ahead: BTreeSet<usize>) -> Vec<T> {
        let unwanted = self.restart(place);
        self.taken_before = (!taken_ahead.is_empty()).then_some((place.epoch, taken_ahead));
        self.is_restored = true;
        unwanted
    }

    /// Ends for good, and returns what was ready. The position stays: a checkpoint may be written after that.
    pub(crate) fn stop(&mut self) -> Vec<T> {
        self.stopped = true;
        let (position, taken) = (self.position(), self.taken_ahead());
        self.taken_before = (!taken.is_empty()).then(|| (position.epoch, taken.into_iter().collect()));
        self.next_in = position;
        self.clear()
    }

    fn clear(&mut self) -> Vec<T> {
        self.under_way = 0;
        let entries = std::mem::take(&mut self.entries).into_values();
        entries.filter_map(|entry| if let What::Ready(batch) = entry.what { Some(batch) } else { None }).collect()
    }

    pub(crate) fn add_plan(&mut self, epoch: u64, plan: RankPlan) {
        if epoch == self.next_in.epoch {
            self.plan = Some((epoch, plan));
        }
    }

    /// Takes note that an epoch has no plan: the reader gets `error` in place of its next batch.
    pub(crate) fn add_failed_plan(&mut self, epoch: u64, error: T) {
        if epoch == self.next_in.epoch {
            self.enter(What::Ready(error), self.next_in.next_epoch());
        }
    }

    /// Enters what comes next, and returns its number.
    fn enter(&mut self, what: What<T>, next: Place) -> u64 {
        let number = self.number_in;
        self.under_way += usize::from(!matches!(what, What::Taken));
        self.entries.insert(number, Entry { place: self.next_in, what });
        self.number_in += 1;
        self.next_in = next;
        number
    }

    /// Returns how many batches may be under way, by their number and by what they take.
    fn capacity(&self) -> usize {
        if self.rules.max_bytes.is_some() && self.recent_bytes.is_empty() {
            // What one takes isn't known yet.
            return 1;
        }
        // Of the last ones only: one that is much larger than the others must not slow a whole run down.
        let largest = self.recent_bytes.iter().copied().max().unwrap_or(0);
        let fitting = self.rules.max_bytes.and_then(|max_bytes| max_bytes.checked_div(largest));
        let fitting = fitting.map_or(usize::MAX, |fitting| usize::try_from(fitting).unwrap_or(usize::MAX).max(1));
        self.rules.capacity.min(fitting)
    }

    /// Returns whether one more batch may be begun.
    pub(crate) fn has_room(&self) -> bool {
        let first = self.entries.first_key_value().map_or(self.number_in, |(&number, _)| number);
        let span = self.number_in - first;
        self.under_way < self.capacity() && span < (self.rules.capacity.saturating_mul(MAX_OVERTAKEN)) as u64
    }

    /// Returns whether makers that wait should be woken: when half of what may be under way was taken, or the reader is
    /// about to wait. To wake one for each batch costs the reader more than all else about a batch that is ready.
    pub(crate) fn wants_makers(&self) -> bool {
        let capacity = self.capacity();
        self.under_way <= capacity - (capacity / 2).max(1) || self.next_out().is_none()
    }

    /// Returns what a maker does next.
    pub(crate) fn next(&mut self) -> Next {
        if self.stopped {
            return Next::Stop;
        }
        while !self.failed && self.has_room() {
            let place = self.next_in;
            if self.end.is_some_and(|end| end <= place.epoch) {
                return Next::Wait;
            }
            let Some((_, plan)) = self.plan.as_ref().filter(|(of, _)| *of == place.epoch) else {
                return Next::FindPlan(place.epoch);
            };
            let Some(batch) = plan.batch_from(place.position) else {
                self.enter(What::EndOfEpoch, place.next_epoch());
                continue;
            };
            let job = Job { generation: self.generation, number: self.number_in, place, batch };
            let was_taken = self
                .taken_before
                .as_mut()
                .is_some_and(|(epoch, steps)| *epoch == place.epoch && steps.remove(&place.step));
            let next = job.next_place(plan);
            if was_taken && self.entries.is_empty() {
                self.next_in = next;
                continue;
            }
            self.enter(if was_taken { What::Taken } else { What::Making }, next);
            if !was_taken {
                return Next::Make(job);
            }
        }
        Next::Wait
    }

    /// Takes a batch that has been made, of so many bytes where it says something of others, or returns it when it is not
    /// wanted any more.
    pub(crate) fn deliver(&mut self, job: &Job, batch: T, bytes: Option<u64>) -> Option<T> {
        if job.generation != self.generation || self.stopped {
            return Some(batch);
        }
        if let Some(bytes) = bytes {
            if self.recent_bytes.len() == RECENT {
                self.recent_bytes.pop_front();
            }
            self.recent_bytes.push_back(bytes);
        }
        if let Some(entry) = self.entries.get_mut(&job.number) {
            entry.what = What::Ready(batch);
        }
        None
    }

    /// Returns whether a reader that waits should look again.
    pub(crate) fn has_news(&self) -> bool {
        self.failed || self.stopped || self.next_out().is_some() || self.is_exhausted() || self.another_is_ready()
    }

    /// Returns whether a batch is ready that is not the next in plan order.
    pub(crate) fn another_is_ready(&self) -> bool {
        self.entries.values().skip(1).any(|entry| matches!(entry.what, What::Ready(_)))
    }

    /// Returns what the reader gets next. The position moves on with it, unless `fails` says that it is an error: then
    /// the position stays, and nothing comes until a restart.
    pub(crate) fn take(&mut self, fails: impl FnOnce(&mut T) -> bool) -> Taken<T> {
        if self.failed || self.stopped {
            return Taken::Ended;
        }
        let next = self.next_out();
        let Some((number, entry)) = next.and_then(|number| Some((number, self.entries.get_mut(&number)?))) else {
            return if self.is_exhausted() { Taken::Ended } else { Taken::Wait };
        };
        let place = entry.place;
        match std::mem::replace(&mut entry.what, What::Taken) {
            What::Ready(mut batch) => {
                if fails(&mut batch) {
                    entry.what = What::Making;
                    self.failed = true;
                } else {
                    self.leave();
                }
                Taken::Batch(batch, place)
            }
            _ => {
                debug_assert_eq!(Some(number), self.entries.keys().next().copied(), "an epoch ends when all was taken");
                self.leave();
                Taken::EndOfEpoch(place.epoch)
            }
        }
    }

    /// Lends what the reader gets next, if it is there. Until it is given back, it counts as being made.
    pub(crate) fn lend(&mut self) -> Option<Lent<T>> {
        let number = self.next_out().filter(|_| !self.failed && !self.stopped)?;
        let what = &mut self.entries.get_mut(&number)?.what;
        match std::mem::replace(what, What::Making) {
            What::Ready(batch) => Some(Lent { batch, generation: self.generation, number }),
            other => {
                *what = other;
                None
            }
        }
    }

    /// Takes what was lent, or returns it when it is not wanted any more.
    pub(crate) fn give_back(&mut self, Lent { batch, generation, number }: Lent<T>) -> Option<T> {
        if generation != self.generation || self.stopped {
            return Some(batch);
        }
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.what = What::Ready(batch);
        }
        None
    }

    /// Takes note that an entry has been taken.
    fn leave(&mut self) {
        self.under_way -= 1;
        self.is_restored = false;
        while let Some(first) = self.entries.first_entry()
            && matches!(first.get().what, What::Taken)
        {
            first.remove();
        }
    }

    /// Returns the number of what the reader gets next, if it is there.
    fn next_out(&self) -> Option<u64> {
        let (&first, entry) = self.entries.first_key_value()?;
        if matches!(entry.what, What::Ready(_) | What::EndOfEpoch) {
            return Some(first);
        }
        if self.rules.in_order {
            return None;
        }
        // No batch of the next epoch comes before the end of this one.
        let this_epoch = self.entries.iter().take_while(|(_, entry)| !matches!(entry.what, What::EndOfEpoch));
        this_epoch.filter(|(_, entry)| matches!(entry.what, What::Ready(_))).map(|(&number, _)| number).next()
    }

    /// Returns whether every epoch that was announced has been taken, so that waiting would never end.
    fn is_exhausted(&self) -> bool {
        self.entries.is_empty() && self.end.is_some_and(|end| end <= self.next_in.epoch)
    }
}

fn end(num_epochs: Option<u64>, place: Place) -> Option<u64> {
    num_epochs.map(|n| n.max(place.epoch.saturating_add(1)))
}

#[cfg(test)]
mod tests;
