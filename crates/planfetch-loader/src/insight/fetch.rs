//! The stages of a download, as causes of a wait.

use std::time::Instant;

use planfetch_cache::{FetchStage, LocalFile};

use crate::insight::cause::Cause;

/// Returns the stages of the download that the request for this file had to wait for, each with its start and end, or
/// nothing where it did not have to wait.
pub(crate) fn stages(file: &LocalFile) -> impl Iterator<Item = (Cause, Instant, Instant)> {
    file.timeline()
        .into_iter()
        .flat_map(|timeline| timeline.stages())
        .map(|(stage, start, end)| (cause(stage), start, end))
}

fn cause(stage: FetchStage) -> Cause {
    match stage {
        FetchStage::Queued => Cause::Queue,
        FetchStage::Request => Cause::Request,
        FetchStage::Body => Cause::Body,
        FetchStage::Backoff => Cause::Backoff,
        FetchStage::Write => Cause::Write,
        FetchStage::Verify => Cause::Verify,
        // A stage of a later version of the cache.
        _ => Cause::Handover,
    }
}
