//! When the parts of a batch came.

use std::time::{Duration, Instant};

use planfetch_plan::SampleId;

use crate::insight::cause::Cause;

/// What happened to one batch, as far as its reader may have waited for it.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// A maker took it on.
    pub(crate) begun: Instant,
    /// The attempt began that succeeded; the first one, where no sample failed.
    pub(crate) attempted: Instant,
    /// Whether it was made on the reader's thread, which asks for a sample when those before it are made.
    pub(crate) inline: bool,
    /// The sample that was finished last, which all others waited for.
    pub(crate) last: Option<SampleTrace>,
    /// Every slot was filled.
    pub(crate) filled: Instant,
    /// The collate had finished.
    pub(crate) finished: Instant,
}

/// What happened to one sample.
#[derive(Clone, Debug)]
pub(crate) struct SampleTrace {
    pub(crate) id: SampleId,
    /// Its object was asked for, or it was ready to be made where it has none.
    pub(crate) asked: Instant,
    /// The stages of its download with their ends, in order, where it had to be waited for.
    pub(crate) fetch: Vec<(Cause, Instant)>,
    /// Its object was local.
    pub(crate) local: Instant,
    /// A worker began.
    pub(crate) started: Instant,
    /// A worker was done.
    pub(crate) done: Instant,
}

impl Trace {
    /// Returns how long the last download took, from its request on, where the batch had to wait for it. The time that it
    /// was queued is left out: it tells how much is asked for, and not how long the store takes.
    pub(crate) fn late(&self) -> Option<Duration> {
        let fetch = &self.last.as_ref()?.fetch;
        let requested = fetch.iter().take_while(|(stage, _)| *stage == Cause::Queue).last()?.1;
        Some(fetch.last()?.1.saturating_duration_since(requested))
    }
}
