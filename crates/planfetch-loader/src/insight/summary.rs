//! Making a report of what was written down.

use std::time::Duration;

use crate::insight::cause::Cause;
use crate::insight::ledger::Ledger;
use crate::insight::report::{CauseReport, HeldUp, LoaderReport, StageReport};
use crate::insight::verdict::Measured;
use crate::settings::{BatchesAhead, LoaderSettings};
use crate::stats::Counters;

/// Makes the report.
pub(crate) fn report(
    ledger: &Ledger,
    counters: &Counters,
    settings: &LoaderSettings,
    download_concurrency: Option<usize>,
) -> LoaderReport {
    let (stats, stages) = (counters.snapshot(), counters.stages());
    let elapsed = ledger.elapsed();
    let waited = ledger.waited.iter().map(|(_, part)| *part).sum();
    let causes = ledger.waited.iter().filter(|(_, part)| !part.is_zero());
    let causes = causes.map(|(cause, part)| CauseReport { cause, waited: *part, batches: ledger.batches[cause] });
    let stage = |stage: &str, count: u64, time: Duration| StageReport {
        stage: stage.into(),
        count,
        time,
        occupancy: if elapsed.is_zero() { 0.0 } else { time.as_secs_f64() / elapsed.as_secs_f64() },
    };
    let mut stage_reports: Vec<StageReport> = stages
        .iter()
        .filter(|(_, meter)| 0 < meter.count())
        .map(|(cause, meter)| stage(cause.name(), meter.count(), meter.time()))
        .collect();
    stage_reports.push(stage("consumer", stats.batches, ledger.consumer));
    let held_up = ledger.longest.iter().map(|held| HeldUp {
        id: held.id.0,
        uri: held.uri.clone(),
        epoch: held.epoch,
        step: held.step,
        cause: held.cause,
        waited: held.waited,
    });
    let measured = Measured {
        batches: stats.batches,
        samples: stats.samples,
        waited: ledger.waited,
        consumer: ledger.consumer,
        num_workers: settings.num_workers,
        // Where it finds the number out, there is nothing to advise.
        batches_ahead: match settings.batches_ahead {
            BatchesAhead::Auto => usize::MAX,
            BatchesAhead::Fixed(batches) => batches,
        },
        download_concurrency,
        busy: stats.busy,
        fetches: stages[Cause::Request].count(),
        fetching: stages[Cause::Request].time() + stages[Cause::Body].time(),
    };
    LoaderReport {
        elapsed,
        batches: stats.batches,
        samples: stats.samples,
        failed: stats.failed,
        waited,
        consumer: ledger.consumer,
        causes: causes.collect(),
        stages: stage_reports,
        held_up: held_up.collect(),
        verdict: measured.verdict(),
    }
}
