//! What the loader, its controllers and its threads share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};

use crate::assemble::Event;
use crate::error::{FailedSample, LoaderError};
use crate::exchange::Exchange;
use crate::failures::Failures;
use crate::follow::{Move, Step};
use crate::insight::ledger::Ledger;
use crate::insight::report::LoaderReport;
use crate::insight::summary::report;
use crate::plans::Plans;
use crate::schedule::Place;
use crate::settings::LoaderSettings;
use crate::state::LoaderState;
use crate::stats::Counters;

/// How long a maker is given to say what its batch lacks.
const DESCRIBE_TIMEOUT: Duration = Duration::from_millis(50);

/// How many failed samples are warned of; a data set with many would fill the log. All are counted.
const MAX_WARNINGS: u64 = 20;

/// What the loader, its controllers and its threads share.
pub(crate) struct LoaderShared<B> {
    pub(crate) exchange: Exchange<B>,
    pub(crate) plans: Plans,
    pub(crate) counters: Arc<Counters>,
    pub(crate) failures: Failures,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) settings: LoaderSettings,
    /// That of the cache, where there is one.
    pub(crate) download_concurrency: Option<usize>,
    /// One for each assembler.
    pub(crate) makers: Vec<Sender<Event>>,
    /// The generation that is wanted: samples of earlier ones are not decoded any more.
    pub(crate) wanted: Arc<AtomicU64>,
    /// To the coordinator's thread; `None` without a cache, and when the loader has ended.
    pub(crate) moves: Mutex<Option<Sender<Move>>>,
}

impl<B> LoaderShared<B> {
    /// Goes to the beginning of an epoch, unless the reader is there already, or was sent into it by a restore.
    pub(crate) fn set_epoch(&self, epoch: u64) -> Result<(), LoaderError> {
        // A plan that can't be made is said here, and not in the middle of the loop.
        self.plans.get(epoch)?;
        if self.exchange.is_restored_to(epoch) {
            return Ok(());
        }
        let (position, _) = self.exchange.position();
        if epoch == position.epoch.saturating_add(1)
            && let Some(generation) = self.exchange.take_end_of_epoch()
        {
            // The reader took the last batch and did not ask for another; that was the end of its epoch all the same.
            self.tell(generation, Step::EndOfEpoch);
        }
        let place = Place::start_of(epoch);
        if self.exchange.position() != (place, true) {
            let generation = self.exchange.restart(place);
            self.begin(generation, place);
        }
        Ok(())
    }

    pub(crate) fn state(&self) -> LoaderState {
        let (place, taken_ahead) = self.exchange.progress();
        LoaderState::new(&self.plans, place, taken_ahead)
    }

    pub(crate) fn restore(&self, state: &LoaderState) -> Result<(), LoaderError> {
        let (place, taken_ahead) = state.resolve(&self.plans)?;
        let generation = self.exchange.restore(place, taken_ahead);
        self.begin(generation, place);
        Ok(())
    }

    /// Has everybody work on a new generation.
    fn begin(&self, generation: u64, place: Place) {
        self.ledger().give_up_pending();
        self.tell(generation, Step::To(place));
        self.cancel(generation);
    }

    /// Has assemblers and workers drop what belongs to earlier generations.
    pub(crate) fn cancel(&self, generation: u64) {
        self.wanted.fetch_max(generation, Ordering::Relaxed);
        for maker in &self.makers {
            // OK because an assembler that has ended needs no cancelling.
            let _ = maker.send(Event::Cancel { generation });
        }
    }

    /// Tells the coordinator about the reader.
    pub(crate) fn tell(&self, generation: u64, step: Step) {
        if let Some(moves) = &*self.moves.lock().unwrap_or_else(PoisonError::into_inner) {
            // OK because without a coordinator nothing is prefetched, which changes no batch.
            let _ = moves.send(Move { generation, step });
        }
    }

    /// Makes a report on the run so far.
    pub(crate) fn report(&self) -> LoaderReport {
        report(&self.ledger(), &self.counters, &self.settings, self.download_concurrency)
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of samples that failed.
    pub(crate) fn record_failed(&self, failed: &[FailedSample]) {
        if failed.is_empty() {
            return;
        }
        #[cfg(feature = "metrics")]
        crate::insight::export::failed(failed.len());
        let before = self.counters.snapshot().failed;
        for (sample, number) in failed.iter().zip(before..) {
            if number < MAX_WARNINGS {
                tracing::warn!(target: "planfetch::failed", %sample, "a sample could not be loaded");
            } else {
                tracing::debug!(target: "planfetch::failed", %sample, "a sample could not be loaded");
            }
        }
        self.counters.add_failed(failed.len());
        self.failures.add(failed);
    }

    /// Finds out what a batch lacks that did not come in time.
    pub(crate) fn lacks(&self, place: Place) -> String {
        let (answer, answers) = unbounded();
        for maker in &self.makers {
            // OK because an assembler that has ended has no batch to describe.
            let _ = maker.send(Event::Describe { place, answer: answer.clone() });
        }
        drop(answer);
        let lacks = answers.recv_timeout(DESCRIBE_TIMEOUT);
        lacks.unwrap_or_else(|_| "its samples are being decoded, or wait for a worker".into())
    }
}
