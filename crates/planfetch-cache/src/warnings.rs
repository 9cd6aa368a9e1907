//! What the cache says when its disk fails: once for each kind of fault, since a full disk would fill the log.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Faults of the directory that have been warned of.
#[derive(Debug)]
pub(crate) struct Warnings {
    dir: PathBuf,
    said: Mutex<BTreeSet<String>>,
}

impl Warnings {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, said: Mutex::default() }
    }

    /// Objects can't be written.
    pub(crate) fn unwritten(&self, error: &io::Error) {
        self.io("write to", "objects are read from the store into memory", error);
    }

    /// Files can't be deleted.
    pub(crate) fn undeleted(&self, error: &io::Error) {
        self.io("delete from", "files that are not needed stay", error);
    }

    /// A file can't be read.
    pub(crate) fn unread(&self, error: &io::Error) {
        self.io("read from", "the object is read from the store again", error);
    }

    /// Everything that the limit allows is in use.
    pub(crate) fn full(&self, max_bytes: u64) {
        if self.is_new("full".into()) {
            tracing::warn!(
                dir = %self.dir.display(),
                max_bytes,
                "all that the cache's limit allows is in use; objects are read from the store into memory; raise the \
                 limit, or narrow the window"
            );
        }
    }

    fn io(&self, what: &str, consequence: &str, error: &io::Error) {
        if self.is_new(format!("{what} {:?}", error.kind())) {
            tracing::warn!(dir = %self.dir.display(), %error, "can't {what} the cache directory; {consequence}");
        }
    }

    fn is_new(&self, what: String) -> bool {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(what)
    }
}
