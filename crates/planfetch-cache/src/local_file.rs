//! A guard on a local file.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::key::{ObjectKey, Stamp};
use crate::shared::Shared;

/// An object that is local. Made by [`DiskCache::ensure_local`](crate::DiskCache::ensure_local).
///
/// What it names stays readable while it lives, whatever is evicted meanwhile, and also after the cache was dropped.
/// Keep it no longer than needed: what it names can't be evicted.
#[must_use = "the file may be evicted as soon as its guard is dropped"]
pub struct LocalFile(Place);

enum Place {
    Disk { shared: Arc<Shared>, key: ObjectKey, stamp: Stamp },
    Memory(Bytes),
}

impl LocalFile {
    /// Makes a guard on a file for which the table has counted a pin.
    pub(crate) fn on_disk(shared: Arc<Shared>, key: ObjectKey, stamp: Stamp) -> Self {
        Self(Place::Disk { shared, key, stamp })
    }

    /// Makes a guard on bytes in memory, as the cache does where it can't write, and tests of a data set do.
    ///
    /// # Example
    ///
    /// ```
    /// let file = planfetch_cache::LocalFile::from_bytes("meow");
    /// assert_eq!(file.len(), 4);
    /// assert!(file.path().is_none());
    /// ```
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self(Place::Memory(bytes.into()))
    }

    /// Returns where the file lies, or `None` where the cache could not write it and holds it in memory.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match &self.0 {
            Place::Disk { shared, key, stamp } => Some(shared.dir.path(*key, *stamp)),
            Place::Memory(_) => None,
        }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.0 {
            Place::Disk { stamp, .. } => stamp.len,
            Place::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Returns whether the object has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens the file for reading, from its beginning.
    ///
    /// # Errors
    ///
    /// What the operating system says when it can't be opened; the message names the path.
    pub fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        match &self.0 {
            Place::Disk { shared, key, stamp } => Ok(Box::new(open(shared, *key, *stamp)?)),
            Place::Memory(bytes) => Ok(Box::new(io::Cursor::new(bytes.clone()))),
        }
    }

    /// Replaces what `buffer` holds with the object's bytes.
    ///
    /// A buffer that is used again is not allocated again once it is large enough.
    ///
    /// # Errors
    ///
    /// What the operating system says when the file can't be read, and [`io::ErrorKind::UnexpectedEof`] when it has
    /// another length than the object, since somebody else changed it; the message names the path.
    pub fn read_into(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.clear();
        match &self.0 {
            Place::Disk { shared, key, stamp } => {
                let mut file = open(shared, *key, *stamp)?;
                buffer.reserve(usize::try_from(stamp.len).map_err(io::Error::other)?);
                file.read_to_end(buffer)?;
                if buffer.len() as u64 != stamp.len {
                    let path = shared.dir.path(*key, *stamp);
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        format!("{} has {} bytes, not {}: it was changed", path.display(), buffer.len(), stamp.len),
                    ));
                }
            }
            Place::Memory(bytes) => buffer.extend_from_slice(bytes),
        }
        Ok(())
    }
}

fn open(shared: &Shared, key: ObjectKey, stamp: Stamp) -> io::Result<File> {
    let path = shared.dir.path(key, stamp);
    File::open(&path).map_err(|error| io::Error::new(error.kind(), format!("can't open {}: {error}", path.display())))
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        if let Place::Disk { shared, key, .. } = &self.0 {
            shared.update(|table, effects| table.unpin(*key, effects));
        }
    }
}

impl fmt::Debug for LocalFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalFile").field("path", &self.path()).field("len", &self.len()).finish()
    }
}
