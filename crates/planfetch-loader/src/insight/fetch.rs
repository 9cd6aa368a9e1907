//! The stages of a download, as causes of a wait.

use std::time::Instant;

use planfetch_cache::LocalFile;

use crate::insight::cause::Cause;

/// Returns the stages of the download that the request for this file had to wait for: each with its start and end.
pub(crate) fn stages(_file: &LocalFile) -> Vec<(Cause, Instant, Instant)> {
    Vec::new()
}
