//! What is measured, for exporters of the `metrics` crate.
//!
//! | name | kind | what |
//! | --- | --- | --- |
//! | `planfetch_batches_total` | counter | batches that were taken |
//! | `planfetch_samples_total` | counter | samples in them |
//! | `planfetch_failed_samples_total` | counter | samples that could not be loaded |
//! | `planfetch_wait_seconds` | histogram | how long the training loop waited for a batch |
//! | `planfetch_waited_microseconds_total` | counter, label `cause` | the same by cause, added up |

use std::time::Duration;

use crate::insight::cause::PerCause;

/// Reports a wait.
pub(crate) fn waited(charges: &PerCause<Duration>) {
    metrics::histogram!("planfetch_wait_seconds").record(charges.iter().map(|(_, part)| *part).sum::<Duration>());
    for (cause, part) in charges.iter().filter(|(_, part)| !part.is_zero()) {
        let micros = u64::try_from(part.as_micros()).unwrap_or(u64::MAX);
        metrics::counter!("planfetch_waited_microseconds_total", "cause" => cause.name()).increment(micros);
    }
}

/// Reports a batch.
pub(crate) fn taken(samples: usize) {
    metrics::counter!("planfetch_batches_total").increment(1);
    // OK because an index fits in 64 bits, here and below.
    metrics::counter!("planfetch_samples_total").increment(samples as u64);
}

/// Reports samples that could not be loaded.
pub(crate) fn failed(samples: usize) {
    metrics::counter!("planfetch_failed_samples_total").increment(samples as u64);
}
