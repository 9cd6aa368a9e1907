//! A guard on a local file.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::key::{ObjectKey, Stamp};
use crate::shared::Shared;
use crate::target::Target;
use crate::timeline::FetchTimeline;

/// An object that is local. Made by [`DiskCache::ensure_local`](crate::DiskCache::ensure_local).
///
/// What it names stays readable while it lives, whatever is evicted meanwhile, and also after the cache was dropped.
/// Keep it no longer than needed: what it names can't be evicted.
#[must_use = "the file may be evicted as soon as its guard is dropped"]
pub struct LocalFile {
    place: Place,
    timeline: Option<Arc<FetchTimeline>>,
}

enum Place {
    Disk { shared: Arc<Shared>, target: Arc<Target>, key: ObjectKey, stamp: Stamp },
    Memory(Bytes),
}

impl LocalFile {
    /// Makes a guard on a file for which the table has counted a pin.
    pub(crate) fn on_disk(shared: Arc<Shared>, target: Arc<Target>, key: ObjectKey, stamp: Stamp) -> Self {
        Self { place: Place::Disk { shared, target, key, stamp }, timeline: None }
    }

    pub(crate) fn with_timeline(mut self, timeline: Option<Arc<FetchTimeline>>) -> Self {
        self.timeline = timeline;
        self
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
        Self { place: Place::Memory(bytes.into()), timeline: None }
    }

    /// Returns where the file lies, or `None` where the cache could not write it and holds it in memory.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Disk { shared, key, stamp, .. } => Some(shared.dir.path(*key, *stamp)),
            Place::Memory(_) => None,
        }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.place {
            Place::Disk { stamp, .. } => stamp.len,
            Place::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Returns whether the object has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns where the time of the fetch went that this guard waited for, or `None` where the object was local
    /// already.
    #[must_use]
    pub fn timeline(&self) -> Option<&FetchTimeline> {
        self.timeline.as_deref()
    }

    /// Opens the file for reading, from its beginning.
    ///
    /// # Errors
    ///
    /// What the operating system says when it can't be opened; the message names the path.
    pub fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        match &self.place {
            Place::Disk { shared, key, stamp, .. } => Ok(Box::new(open(shared, *key, *stamp)?)),
            Place::Memory(bytes) => Ok(Box::new(io::Cursor::new(bytes.clone()))),
        }
    }

    /// Replaces what `buffer` holds with the object's bytes.
    ///
    /// A buffer that is used again is not allocated again once it is large enough. Where the file can't be read, or was
    /// changed by somebody else, the object is fetched from its store anew; this then blocks until it has come.
    ///
    /// # Errors
    ///
    /// What the operating system said when the file could not be read, if the store does not give the object either;
    /// [`io::ErrorKind::UnexpectedEof`] when the file has another length than the object. The message names the path.
    pub fn read_into(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let Err(error) = self.read_once(buffer) else { return Ok(()) };
        let Place::Disk { shared, target, key, stamp } = &self.place else { return Err(error) };
        shared.warnings.unread(&error);
        shared.counters.corrupt_files.add(1);
        let again = shared.fetch_anew(*key, *stamp, target);
        again.ok().filter(|file| file.read_once(buffer).is_ok()).map(drop).ok_or(error)
    }

    fn read_once(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.clear();
        match &self.place {
            Place::Disk { shared, key, stamp, .. } => {
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

    /// Maps the file into memory, which saves the copy where only parts of a large file are looked at.
    ///
    /// The bytes stay for as long as the map lives, also when the guard is dropped before it.
    ///
    /// # Errors
    ///
    /// What the operating system says when the file can't be opened or mapped; [`io::ErrorKind::Unsupported`] when the
    /// object is in memory ([`path`](Self::path) is `None`), where [`read_into`](Self::read_into) does the same.
    #[cfg(feature = "mmap")]
    #[expect(unsafe_code, reason = "a map is what this is for")]
    pub fn mmap(&self) -> io::Result<memmap2::Mmap> {
        match &self.place {
            Place::Disk { shared, key, stamp, .. } => {
                let file = open(shared, *key, *stamp)?;
                // SAFETY: the memory must not change while it is mapped. The cache never writes to a file that is in
                // its place: a new version comes by renaming, and deleting a file leaves its maps alone. The directory
                // is closed to other users; what else runs as this user must leave the files alone, as documented.
                unsafe { memmap2::Mmap::map(&file) }
            }
            Place::Memory(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the object is in memory, since it could not be written",
            )),
        }
    }
}

fn open(shared: &Shared, key: ObjectKey, stamp: Stamp) -> io::Result<File> {
    shared.dir.open_file(key, stamp).map_err(|error| {
        io::Error::new(error.kind(), format!("can't open {}: {error}", shared.dir.path(key, stamp).display()))
    })
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        if let Place::Disk { shared, key, stamp, .. } = &self.place {
            shared.update(|table, effects| table.unpin(*key, *stamp, effects));
        }
    }
}

impl fmt::Debug for LocalFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalFile").field("path", &self.path()).field("len", &self.len()).finish()
    }
}
