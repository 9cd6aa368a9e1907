//! What a download is written to before it is whole.

use std::fs::File;
use std::io;

use tempfile::{NamedTempFile, TempPath};

use crate::key::{ObjectKey, Stamp};
use crate::shared::Shared;
use crate::table::Ticket;

/// A temporary file, for which there is room in the directory.
#[derive(Debug)]
pub(crate) struct TempFile {
    pub(crate) file: File,
    /// Deletes the file when it is dropped. Where processes share the directory, what a fetch has taken of it is given
    /// back when it has ended, and its file is deleted then.
    path: Option<TempPath>,
}

impl TempFile {
    /// Wraps the file of a directory that is this process's own.
    pub(crate) fn own(file: NamedTempFile) -> Self {
        let (file, path) = file.into_parts();
        Self { file, path: Some(path) }
    }

    /// Wraps the file of a directory that processes share.
    pub(crate) fn shared(file: File) -> Self {
        Self { file, path: None }
    }

    /// Puts the file in the object's place. Blocks.
    pub(crate) fn persist(&mut self, shared: &Shared, key: ObjectKey, ticket: Ticket, stamp: Stamp) -> io::Result<()> {
        if let Some(sharing) = &shared.sharing {
            return sharing.persist(shared, key, ticket, stamp);
        }
        let path = self.path.take().expect("it is put in its place once");
        path.persist(shared.dir.path(key, stamp)).map_err(|error| {
            self.path = Some(error.path);
            error.error
        })
    }
}
