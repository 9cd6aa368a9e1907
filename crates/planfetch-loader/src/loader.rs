//! The loader: its public face.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use crate::batch::Batch;
use crate::controller::PrefetchController;
use crate::dataset::{ObjectUris, uri_of};
use crate::depth::Pace;
use crate::epoch::Epoch;
use crate::error::LoaderError;
use crate::exchange::{Made, Read, Wait};
use crate::follow::Step;
use crate::insight::ledger::Waited;
use crate::insight::report::LoaderReport;
use crate::insight::trace::Trace;
use crate::schedule::{Job, Place};
use crate::shared::LoaderShared;
use crate::state::LoaderState;

/// Batches in plan order, made ahead of the training loop.
///
/// It is an iterator over the batches of an epoch: `for batch in &mut loader` is the whole loop. After the last batch of
/// an epoch it returns `None` once, and then goes on with the next epoch, in that epoch's own order;
/// [`PrefetchController::set_epoch`] goes to any other. A loop that was left early goes on where it was left.
///
/// After an error it returns `None` until the controller sets an epoch or restores a state: an error never repeats itself, and no sample is
/// left out in silence. [`LoaderError::Timeout`] is the exception: it loses nothing, and the next call waits again.
///
/// Dropping it stops its threads; what the cache has local stays.
///
/// # Example
///
/// ```
/// use planfetch_loader::{BoxError, Dataset, LoaderBuilder, ObjectUris, SampleContext, VecCollate};
/// use planfetch_plan::{SampleId, ShuffleOncePerEpochPlanProvider};
///
/// struct Squares;
/// impl ObjectUris for Squares {
///     fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool { false }
/// }
/// impl Dataset for Squares {
///     type Sample = u64;
///     fn len(&self) -> u64 { 100 }
///     fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> { Ok(ctx.id().0.pow(2)) }
/// }
///
/// let plan = ShuffleOncePerEpochPlanProvider::new(100, 16, 42)?;
/// let (mut loader, controller) = LoaderBuilder::new(Squares, VecCollate, plan).build()?;
/// for epoch in 0..2 {
///     controller.set_epoch(epoch)?;
///     let mut sum: u64 = 0;
///     for batch in &mut loader {
///         sum += batch?.iter().sum::<u64>();
///     }
///     assert_eq!(sum, (0..100_u64).map(|i| i * i).sum::<u64>());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PrefetchingLoader<B> {
    shared: Arc<LoaderShared<B>>,
    /// Makes batches on the reader's thread, where there are no workers.
    inline: Option<InlineAssembler<B>>,
    /// To name the object that held up a batch.
    uris: Arc<dyn ObjectUris>,
    /// When the last batch was handed out.
    last_given: Option<Instant>,
    threads: Vec<JoinHandle<()>>,
}

/// A loader, and what steers it.
pub type LoaderAndController<B> = (PrefetchingLoader<B>, PrefetchController<B>);

/// Makes a batch on the thread that calls it.
pub(crate) type InlineAssembler<B> = Box<dyn FnMut(&Job) -> Option<Made<B>> + Send>;

impl<B> PrefetchingLoader<B> {
    /// Makes a loader without threads. Dropping it ends those that it is given.
    pub(crate) fn new(shared: Arc<LoaderShared<B>>, uris: Arc<dyn ObjectUris>) -> Self {
        Self { shared, inline: None, uris, last_given: None, threads: Vec::new() }
    }

    pub(crate) fn set_inline(&mut self, inline: InlineAssembler<B>) {
        self.inline = Some(inline);
    }

    pub(crate) fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), LoaderError> {
        let thread = Builder::new().name(name.into()).spawn(run);
        self.threads.push(thread.map_err(|error| LoaderError::Threads(Box::new(error)))?);
        Ok(())
    }

    /// Returns the batches of `epoch`, from the first one on, or from where a restore has sent the loader within it.
    ///
    /// # Errors
    ///
    /// As [`PrefetchController::set_epoch`].
    ///
    /// # Example
    ///
    /// ```no_run
    /// # fn f(mut loader: planfetch_loader::PrefetchingLoader<Vec<u64>>) -> Result<(), planfetch_loader::LoaderError> {
    /// for epoch in 0..10 {
    ///     for batch in loader.epoch(epoch)? {
    ///         let batch = batch?;
    ///         println!("epoch {epoch} step {}: {} samples", batch.step(), batch.len());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn epoch(&mut self, epoch: u64) -> Result<Epoch<'_, B>, LoaderError> {
        self.shared.set_epoch(epoch)?;
        Ok(Epoch::new(self))
    }

    /// Returns where the run is: the next batch that the training loop takes. See [`LoaderState`].
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.shared.state()
    }

    /// Returns where the time of the run went so far. See [`LoaderReport`].
    #[must_use]
    pub fn report(&self) -> LoaderReport {
        self.shared.report()
    }

    /// Returns how much of the run the training loop has waited.
    #[cfg(feature = "indicatif")]
    pub(crate) fn waited_share(&self) -> f64 {
        self.shared.ledger().waited_share()
    }

    /// Returns a controller of this loader, as building it did.
    #[must_use]
    pub fn controller(&self) -> PrefetchController<B> {
        PrefetchController::new(Arc::clone(&self.shared))
    }

    /// Shows the batch that the next call of `next` returns, where it is ready, and returns what `see` makes of it. It
    /// waits for nothing, and takes nothing: the state stays as it is.
    ///
    /// For adapters that begin with a batch while the one before is trained on. `None` where no batch is ready: at the
    /// end of an epoch, before an error, or without workers too. A restart in between, or a sample too many that
    /// [`on_error`](crate::LoaderSettings::on_error) does not bear, may have `next` return something else after all: compare
    /// [`Batch::epoch`], [`Batch::step`] and [`Batch::ids`], which say what a batch holds.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # fn upload(batch: &[f32]) -> usize { batch.len() }
    /// # fn f(mut loader: planfetch_loader::PrefetchingLoader<Vec<f32>>) {
    /// let ahead = loader.peek_ready(|batch| (batch.epoch(), batch.step(), batch.ids().to_vec(), upload(batch)));
    /// # let _ = ahead;
    /// # }
    /// ```
    pub fn peek_ready<R>(&mut self, see: impl FnOnce(&mut Batch<B>) -> R) -> Option<R> {
        self.shared.exchange.peek(see)
    }

    fn take(&mut self, asked: Instant) -> (Read<B>, Wait) {
        match &mut self.inline {
            None => {
                let timeout = self.shared.settings.timeout;
                self.shared.exchange.take(timeout.and_then(|timeout| asked.checked_add(timeout)))
            }
            Some(assemble) => (take_inline(&self.shared, assemble), Wait::default()),
        }
    }
}

impl<B> Iterator for PrefetchingLoader<B> {
    type Item = Result<Batch<B>, LoaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        let asked = Instant::now();
        let (read, wait) = self.take(asked);
        // To find out what the batch lacks takes a moment, for which the training loop waits too.
        let timed_out = match read {
            Read::TimedOut(place) => Some((place, self.shared.lacks(place))),
            _ => None,
        };
        let given = Instant::now();
        self.shared.counters.add_stall(given - asked);
        let (place, trace) = match &read {
            Read::Batch { made, place, .. } => (Some(*place), made.trace.as_ref()),
            _ => (None, None),
        };
        let late = trace.and_then(Trace::late);
        let step = self.last_given.map(|last| asked - last);
        self.last_given = Some(given);
        let waited = Waited { asked, given, another_since: wait.another_since };
        if let Some((Place { epoch, step, .. }, lacks)) = timed_out {
            self.shared.ledger().record_pending(waited);
            return Some(Err(LoaderError::Timeout { epoch, step, waited: given - asked, lacks }));
        }
        let uri = |id| uri_of(&*self.uris, id);
        let charges = self.shared.ledger().record(waited, place, trace, uri);
        #[cfg(feature = "metrics")]
        crate::insight::export::waited(&charges);
        tracing::trace!(
            target: "planfetch::wait",
            waited = ?(given - asked),
            place = ?place,
            cause = charges.largest().name(),
            "a batch was asked for"
        );
        match read {
            Read::Batch { made: Made { batch: Ok(batch), .. }, generation, next, .. } => {
                self.shared.counters.add_batch(batch.ids().len());
                #[cfg(feature = "metrics")]
                crate::insight::export::taken(batch.ids().len());
                self.shared.record_failed(batch.failed());
                self.shared.tell(generation, Step::At(next, Pace { step, late }));
                Some(Ok(batch))
            }
            Read::Batch { made: Made { batch: Err(error), failed, .. }, .. } => {
                self.shared.record_failed(&failed);
                Some(Err(error))
            }
            Read::EndOfEpoch(generation) => {
                self.shared.tell(generation, Step::EndOfEpoch);
                None
            }
            Read::TimedOut(_) | Read::Ended => None,
        }
    }
}

/// Makes the next batch on this thread.
fn take_inline<B>(shared: &LoaderShared<B>, assemble: &mut InlineAssembler<B>) -> Read<B> {
    loop {
        if let Some(read) = shared.exchange.try_take() {
            return read;
        }
        let Some(job) = shared.exchange.try_next_job(&shared.plans) else {
            // The end of an epoch may have become ready.
            return shared.exchange.try_take().unwrap_or(Read::Ended);
        };
        if let Some(made) = assemble(&job) {
            shared.exchange.deliver(&job, made);
        }
    }
}

impl<B> Drop for PrefetchingLoader<B> {
    fn drop(&mut self) {
        self.shared.exchange.stop();
        self.shared.cancel(u64::MAX);
        *self.shared.moves.lock().unwrap_or_else(PoisonError::into_inner) = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing left to say: panics of user code were caught.
            let _ = thread.join();
        }
    }
}

impl<B> fmt::Debug for PrefetchingLoader<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, _) = self.shared.exchange.position();
        f.debug_struct("PrefetchingLoader")
            .field("epoch", &place.epoch)
            .field("step", &place.step)
            .finish_non_exhaustive()
    }
}
