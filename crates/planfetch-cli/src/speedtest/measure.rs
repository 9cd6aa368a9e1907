//! Running the loop, and watching it.
//!
//! The loop runs on a thread of its own and does what a training loop does: it takes batches, and waits as long as a
//! step would take. This thread looks at counters ten times a second, draws the bar, and hears of Ctrl-C; the loop does
//! not notice it, but for the time that counting takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use planfetch::cache::CacheStats;
use planfetch::loader::LoaderStats;
use planfetch::prelude::*;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{note, progress_bar};
use crate::speedtest::samples::Latencies;
use crate::speedtest::timeline::{Point, Timeline, WindowProbe};
use crate::units::{bytes, count, percent, rate};

/// How often counters are looked at.
const TICK: Duration = Duration::from_millis(100);

/// How often it is said how far the run is.
const TICKS_PER_LINE: u64 = 10;

/// How long an interrupted loop is waited for. One that waits for a store that does not answer takes longer.
const GRACE: Duration = Duration::from_secs(2);

/// What is to be loaded, and how.
pub(crate) struct Work {
    pub(crate) index: SampleIndex,
    pub(crate) provider: Arc<dyn PlanProvider>,
    pub(crate) world: World,
    pub(crate) policy: RemainderPolicy,
    pub(crate) settings: LoaderSettings,
    pub(crate) cache: DiskCache,
    pub(crate) epochs: u64,
    /// Say once a second how far it is, where no bar is drawn.
    pub(crate) verbose: bool,
    /// How long a training step takes.
    pub(crate) step: Duration,
}

/// What was measured.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) elapsed: Duration,
    pub(crate) latencies: Latencies,
    pub(crate) loader: LoaderStats,
    /// What the cache did meanwhile.
    pub(crate) cache: CacheStats,
    pub(crate) report: LoaderReport,
    pub(crate) timeline: Timeline,
    pub(crate) is_interrupted: bool,
}

/// What the loop and the one who watches it share.
#[derive(Debug, Default)]
struct Shared {
    latencies: Mutex<Latencies>,
    stop: AtomicBool,
}

impl Shared {
    fn latencies(&self) -> MutexGuard<'_, Latencies> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Loads the epochs, and returns what was measured until their end, or until Ctrl-C.
pub(crate) fn measure<D, C>(dataset: D, collate: C, work: Work, interrupt: &Interrupt) -> Result<Measured, Failure>
where
    D: Dataset,
    C: Collate<D::Sample>,
    C::Batch: Send + 'static,
{
    let interrupted = interrupt.listen();
    let before = work.cache.stats();
    let started = Instant::now();
    let builder = LoaderBuilder::new(dataset, collate, Arc::clone(&work.provider)).with_cache(work.cache.clone());
    let builder = builder.with_settings(work.settings.clone()).with_world(work.world, work.policy);
    let (loader, controller) = builder.build()?;
    let (shared, (done, ended), (wake, sleep)) = (Arc::new(Shared::default()), channel(), channel());
    let the_loop = Loop { loader, controller: controller.clone(), shared: Arc::clone(&shared), started, sleep };
    let (epochs, step) = (work.epochs, work.step);
    let thread = std::thread::Builder::new().name("planfetch-loop".into());
    thread.spawn(move || {
        let result = the_loop.run(epochs, step);
        // OK because where nobody waits any more, nobody wants to know.
        let _ = done.send(result);
    })?;

    let mut watch = Watch::new(work, controller.clone(), before, started)?;
    let is_interrupted = watch.until_end(&ended, &interrupted, &shared, wake)?;
    watch.look();
    watch.bar.finish_and_clear();
    let latencies = shared.latencies().clone();
    Ok(Measured {
        elapsed: latencies.end(),
        latencies,
        loader: controller.stats(),
        cache: difference(&watch.work.cache.stats(), &before),
        report: controller.report(),
        timeline: watch.timeline,
        is_interrupted,
    })
}

/// The training loop.
struct Loop<B> {
    loader: PrefetchingLoader<B>,
    controller: PrefetchController<B>,
    shared: Arc<Shared>,
    started: Instant,
    /// Closed when the loop is to stop, which ends a step early.
    sleep: Receiver<()>,
}

impl<B> Loop<B> {
    fn run(mut self, epochs: u64, step: Duration) -> Result<(), LoaderError> {
        for epoch in 0..epochs {
            self.controller.set_epoch(epoch)?;
            loop {
                if self.shared.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let asked = Instant::now();
                let Some(batch) = self.loader.next() else { break };
                let given = Instant::now();
                let batch = batch?;
                self.shared.latencies().record(given - asked, given - self.started);
                // The accelerator computes meanwhile, and this processor waits for it.
                if !step.is_zero() && self.sleep.recv_timeout(step) == Err(RecvTimeoutError::Disconnected) {
                    return Ok(());
                }
                drop(batch);
                self.shared.latencies().step_ended(self.started.elapsed());
            }
        }
        Ok(())
    }
}

/// Who watches.
struct Watch<B> {
    work: Work,
    controller: PrefetchController<B>,
    before: CacheStats,
    started: Instant,
    timeline: Timeline,
    probe: WindowProbe,
    bar: ProgressBar,
    looks: u64,
}

impl<B> Watch<B> {
    fn new(
        work: Work,
        controller: PrefetchController<B>,
        before: CacheStats,
        started: Instant,
    ) -> Result<Self, Failure> {
        let samples = work.provider.plan(0)?.for_rank(work.world, work.policy)?;
        let per_epoch: u64 = samples.iter().map(|batch| batch.len() as u64).sum();
        let template = "{wide_bar} {human_pos}/{human_len} samples  {msg}  {eta}";
        let bar = progress_bar(Some(per_epoch.saturating_mul(work.epochs)), template);
        let probe = WindowProbe::new(&work);
        Ok(Self { work, controller, before, started, timeline: Timeline::default(), probe, bar, looks: 0 })
    }

    /// Looks at the counters until the loop ends; returns whether it was interrupted.
    fn until_end(
        &mut self,
        ended: &Receiver<Result<(), LoaderError>>,
        interrupted: &Receiver<()>,
        shared: &Shared,
        step: Sender<()>,
    ) -> Result<bool, Failure> {
        loop {
            match ended.recv_timeout(TICK) {
                Ok(result) => return Ok(result.map(|()| false)?),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the loop has ended without a word".to_owned().into());
                }
            }
            if interrupted.try_recv().is_ok() {
                shared.stop.store(true, Ordering::Relaxed);
                drop(step);
                // OK because the loop may take too long to end; what was measured is there all the same.
                let _ = ended.recv_timeout(GRACE);
                return Ok(true);
            }
        }
    }

    /// Notes what the counters say, and draws the bar.
    fn look(&mut self) {
        let (loader, cache) = (self.controller.stats(), difference(&self.work.cache.stats(), &self.before));
        let fill = self.probe.fill(&self.work, self.controller.epoch(), self.controller.step());
        let point = Point {
            seconds: self.started.elapsed().as_secs_f64(),
            samples: loader.samples,
            bytes: cache.bytes_downloaded,
            local_bytes: cache.local_bytes,
            window_fill: fill,
        };
        self.bar.set_position(loader.samples);
        self.looks += 1;
        let says = self.work.verbose && self.bar.is_hidden() && self.looks.is_multiple_of(TICKS_PER_LINE);
        if says || !self.bar.is_hidden() {
            let (samples, received) = self.timeline.recent_rates(&point);
            let fill = fill.map_or(String::new(), |fill| format!("  window {}", percent(fill)));
            let message = format!("{}/s{fill}  {}/s", rate(samples), bytes(received));
            if says {
                let all = self.bar.length().unwrap_or_default();
                note(format_args!("{}/{} samples  {message}", count(loader.samples), count(all)));
            }
            self.bar.set_message(message);
        }
        self.timeline.push(point);
    }
}

/// Returns what was counted between two moments; what is local is as it is at the later one.
fn difference(after: &CacheStats, before: &CacheStats) -> CacheStats {
    let mut stats = *after;
    stats.hits -= before.hits;
    stats.misses -= before.misses;
    stats.objects_downloaded -= before.objects_downloaded;
    stats.bytes_downloaded -= before.bytes_downloaded;
    stats.requests -= before.requests;
    stats.retries -= before.retries;
    stats.throttled -= before.throttled;
    stats.failures -= before.failures;
    stats.unwritten -= before.unwritten;
    stats.no_room -= before.no_room;
    stats.evictions -= before.evictions;
    stats
}
