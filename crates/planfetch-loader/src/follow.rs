//! The thread of the coordinator: follows the reader through the epochs.

use crossbeam_channel::{Receiver, TryRecvError};

use crate::coordinator::PrefetchCoordinator;
use crate::depth::{Depth, Pace};
use crate::plans::Plans;
use crate::schedule::Place;
use crate::settings::{BatchesAhead, LoaderSettings};

/// What the coordinator is told about the reader, with the generation: words of earlier ones may come late.
pub(crate) struct Move {
    pub(crate) generation: u64,
    pub(crate) step: Step,
}

pub(crate) enum Step {
    /// It goes on at this place, wherever it was.
    To(Place),
    /// It has taken a batch, this is the first that it has not taken, and this is its pace.
    At(Place, Pace),
    /// It has come to the end of an epoch.
    EndOfEpoch,
}

/// How many steps the coordinator asks for before it listens again: a wide window is thousands of objects.
const STEPS_AT_ONCE: usize = 16;

/// The thread of the coordinator: follows the reader until the loader ends.
pub(crate) fn coordinate(
    mut coordinator: PrefetchCoordinator,
    moves: &Receiver<Move>,
    plans: &Plans,
    settings: &LoaderSettings,
) {
    let num_epochs = settings.num_epochs;
    let mut depth = (settings.batches_ahead == BatchesAhead::Auto).then(Depth::new);
    let mut generation = 0;
    // The epoch that the reader is in, and the last one whose plan the coordinator knows.
    let (mut epoch, mut last_epoch) = (0, 0);
    let mut is_behind = false;
    loop {
        let next = if is_behind {
            match moves.try_recv() {
                Ok(next) => Some(next),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return,
            }
        } else {
            match moves.recv() {
                Ok(next) => Some(next),
                Err(_) => return,
            }
        };
        if let Some(Move { generation: of, step }) = next {
            match step {
                Step::To(place) if generation <= of => {
                    // An epoch without a plan is reported where its batches are made.
                    let Ok(plan) = plans.get(place.epoch) else { continue };
                    generation = of;
                    (epoch, last_epoch) = (place.epoch, place.epoch);
                    coordinator.move_to(plan, place.step);
                }
                Step::At(place, pace) if of == generation && place.epoch == epoch => {
                    coordinator.move_within(place.step);
                    if let Some(depth) = &mut depth {
                        coordinator.set_batches_ahead(depth.on_batch(pace));
                    }
                }
                Step::EndOfEpoch if of == generation => {
                    // The reader may have overtaken a coordinator that is behind, and so does not know the next plan.
                    if last_epoch == epoch {
                        last_epoch += u64::from(add_next_plan(&mut coordinator, plans, last_epoch, num_epochs));
                    }
                    epoch = epoch.saturating_add(1);
                    coordinator.move_to_next_plan();
                }
                // It belongs to another place than the one that the coordinator was sent to last.
                Step::To(_) | Step::At(..) | Step::EndOfEpoch => {}
            }
        }
        is_behind = coordinator.follow(STEPS_AT_ONCE);
        // No further than one epoch beyond the reader's, however wide the window and small the data.
        while !is_behind && coordinator.wants_next_plan() && last_epoch <= epoch {
            if !add_next_plan(&mut coordinator, plans, last_epoch, num_epochs) {
                break;
            }
            last_epoch += 1;
            is_behind = coordinator.follow(STEPS_AT_ONCE);
        }
    }
}

/// Tells the coordinator the plan that follows that of `epoch`, and returns whether there is one.
fn add_next_plan(coordinator: &mut PrefetchCoordinator, plans: &Plans, epoch: u64, num_epochs: Option<u64>) -> bool {
    let Some(next) = epoch.checked_add(1).filter(|next| num_epochs.is_none_or(|end| *next < end)) else { return false };
    // An epoch without a plan is reported where its batches are made.
    let Ok(plan) = plans.get(next) else { return false };
    coordinator.add_plan(plan);
    true
}
