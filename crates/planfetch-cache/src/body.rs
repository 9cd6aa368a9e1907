//! The bytes of an object on their way from its store to its file.

use std::io::{self, Read, Seek, Write};
use std::sync::Arc;

use bytes::Bytes;
use crc32fast::Hasher;

use crate::error::{CacheError, CacheErrorKind};
use crate::failure::Failure;
use crate::key::{ObjectKey, Stamp};
use crate::shared::Shared;
use crate::table::{Outcome, Ticket};
use crate::temp_file::TempFile;
use crate::timeline::{FetchStage, FetchTimeline};

/// How much of a body is kept in memory before it is written. Small objects are written in one go; of a large one no
/// more than this is in memory at a time.
pub(crate) const SPILL_BYTES: usize = 8 << 20;
/// How much of each range is kept in memory, where an object is taken by several.
pub(crate) const PART_SPILL_BYTES: usize = SPILL_BYTES / 4;
/// How much of an object that is written as it comes is in memory at once: what is being written, and what comes
/// meanwhile.
pub(crate) const STREAM_BYTES: u64 = 2 * SPILL_BYTES as u64;

/// The bytes of an object as they come in: in memory, and from [`SPILL_BYTES`] on in a temporary file.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) len: u64,
    /// How many there will be, as far as the store has said.
    pub(crate) expected: u64,
    pub(crate) etag: Option<String>,
    /// What has not been written yet.
    chunks: Vec<Bytes>,
    chunks_len: usize,
    spill: Option<Spill>,
    /// Writing failed once for this object, or there is no room, so all of it stays in memory.
    in_memory: bool,
    /// The store gave no parts of it, so it is taken as one stream.
    as_one: bool,
}

/// What has been written so far.
#[derive(Debug)]
pub(crate) struct Spill {
    pub(crate) file: TempFile,
    pub(crate) crc: Hasher,
}

impl Body {
    pub(crate) fn new() -> Self {
        Self {
            len: 0,
            expected: 0,
            etag: None,
            chunks: Vec::new(),
            chunks_len: 0,
            spill: None,
            in_memory: false,
            as_one: false,
        }
    }

    /// Makes a body of a file that was written in another way.
    pub(crate) fn written(len: u64, spill: Spill) -> Self {
        Self { len, expected: len, spill: Some(spill), ..Self::new() }
    }

    /// Keeps what comes from now on in memory.
    pub(crate) fn stay_in_memory(&mut self) {
        self.in_memory = true;
    }

    /// Returns how many bytes of it are in memory at once, if it is taken by `part_concurrency` ranges or by none.
    pub(crate) fn most_in_memory(&self, part_concurrency: Option<usize>) -> u64 {
        let at_once = part_concurrency.map_or(0, |parts| parts as u64 * PART_SPILL_BYTES as u64);
        if self.in_memory { self.expected } else { self.expected.min(at_once.max(STREAM_BYTES)) }
    }

    /// Has it taken as one stream, where it would be taken by parts.
    pub(crate) fn take_as_one(&mut self) {
        self.as_one = true;
    }

    /// Returns whether it may be taken by parts.
    pub(crate) fn may_have_parts(&self) -> bool {
        self.len == 0 && !self.in_memory && !self.as_one
    }

    /// Returns whether it is so long that it needs a file before any of it comes into memory.
    pub(crate) fn needs_file_first(&self) -> bool {
        STREAM_BYTES < self.expected && !self.in_memory && self.spill.is_none()
    }

    /// Takes a file, for which there is room, to write it to.
    pub(crate) fn write_to(&mut self, file: TempFile) {
        self.spill = Some(Spill { file, crc: Hasher::new() });
    }

    /// Makes a temporary file, unless there is one, and says whether it did not fail. Blocks.
    fn has_file(&mut self, shared: &Arc<Shared>, key: ObjectKey, ticket: Ticket) -> bool {
        if self.spill.is_none()
            && let Some(file) = shared.temp_file(key, ticket, self.expected.max(self.len))
        {
            self.write_to(file);
        }
        self.spill.is_some()
    }

    /// Forgets what has come so far, but not that it has to stay in memory.
    pub(crate) fn restart(&mut self) {
        *self = Self { in_memory: self.in_memory, as_one: self.as_one, ..Self::new() };
    }

    /// Appends what has come. Fails when it can't be written and is too much to be taken back into memory unasked.
    pub(crate) async fn push(
        &mut self,
        shared: &Arc<Shared>,
        key: ObjectKey,
        ticket: Ticket,
        chunk: Bytes,
        timeline: &mut FetchTimeline,
    ) -> Result<(), Failure> {
        shared.counters.bytes_downloaded.add(chunk.len() as u64);
        self.len += chunk.len() as u64;
        self.chunks_len += chunk.len();
        self.chunks.push(chunk);
        if SPILL_BYTES <= self.chunks_len && !self.in_memory {
            let body = std::mem::replace(self, Self::new());
            let spiller = Arc::clone(shared);
            // The store waits for the disk here, and not the disk for the store.
            timeline.begin(FetchStage::Write);
            *self = shared.write_blocking(move || body.spill(&spiller, key, ticket)).await;
            timeline.begin(FetchStage::Body);
            if self.in_memory && STREAM_BYTES < self.expected {
                return Err(Failure::Unwritten);
            }
        }
        Ok(())
    }

    /// Writes what is in memory to the temporary file.
    fn spill(mut self, shared: &Arc<Shared>, key: ObjectKey, ticket: Ticket) -> Self {
        if !self.has_file(shared, key, ticket) {
            self.in_memory = true;
            return self;
        }
        match self.write_chunks() {
            Ok(()) => {
                self.chunks.clear();
                self.chunks_len = 0;
            }
            Err(error) => {
                shared.warnings.unwritten(&error);
                self.in_memory = true;
                if self.expected <= STREAM_BYTES {
                    self.take_back();
                }
            }
        }
        self
    }

    /// Forgets what had come last, and the disk refused: it is asked for again, so that no more is in memory than was
    /// admitted.
    pub(crate) fn leave_unwritten(&mut self) {
        self.in_memory = true;
        self.len -= self.chunks_len as u64;
        (self.chunks, self.chunks_len) = (Vec::new(), 0);
    }

    /// Reads back into memory what has been written of a body that the disk refused to take whole. Blocks.
    pub(crate) fn resume_in_memory(mut self) -> Self {
        self.take_back();
        self
    }

    /// Appends the chunks to the temporary file. On an error they are all still here.
    fn write_chunks(&mut self) -> io::Result<()> {
        let spill = self.spill.as_mut().expect("who writes has made the file");
        let mut crc = spill.crc.clone();
        for chunk in &self.chunks {
            crc.update(chunk);
            spill.file.file.write_all(chunk)?;
        }
        spill.crc = crc;
        Ok(())
    }

    /// Reads what has been written back into memory, after the disk refused the rest.
    fn take_back(&mut self) {
        self.in_memory = true;
        let Some(mut spill) = self.spill.take() else { return };
        let file = &mut spill.file.file;
        let written = self.len - self.chunks_len as u64;
        let mut bytes = Vec::with_capacity(usize::try_from(written).unwrap_or_default());
        let read = file.rewind().and_then(|()| file.take(written).read_to_end(&mut bytes));
        // OK because the file goes when the fetch has ended at the latest.
        let _ = file.set_len(0);
        if read.is_ok_and(|n| n as u64 == written) {
            self.chunks_len += bytes.len();
            self.chunks.insert(0, bytes.into());
        } else {
            // What was written can't be read: the download begins anew, and stays in memory.
            self.restart();
        }
    }

    /// Puts the object in its place. Blocks. Where there is none, the body comes back.
    ///
    /// `existing` is a file of the same object that turned out not to be as its name says.
    pub(crate) fn commit(
        mut self,
        shared: &Arc<Shared>,
        key: ObjectKey,
        ticket: Ticket,
        existing: Option<Stamp>,
    ) -> Result<Stamp, Box<Self>> {
        if let (Some(existing), None) = (existing, &shared.sharing) {
            // OK because a file that can't be deleted is checked again before it is ever handed out.
            let _ = std::fs::remove_file(shared.dir.path(key, existing));
        }
        if !self.in_memory && self.has_file(shared, key, ticket) {
            match self.write_chunks().and_then(|()| self.persist(shared, key, ticket)) {
                Ok(stamp) => return Ok(stamp),
                Err(error) => shared.warnings.unwritten(&error),
            }
        }
        Err(Box::new(self))
    }

    /// Hands out from memory what has no place on disk. Blocks.
    pub(crate) fn deliver(mut self, shared: &Shared) -> Outcome {
        let len = self.len;
        self.take_back();
        if self.len != len {
            return Outcome::Failed(CacheError::new(
                CacheErrorKind::Directory,
                format!(
                    "a file of {len} bytes in {} can neither be finished nor read back",
                    shared.dir.root().display()
                ),
            ));
        }
        shared.counters.unwritten.add(1);
        if let [bytes] = &self.chunks[..] {
            return Outcome::Unwritten(bytes.clone());
        }
        // One by one, so that the object is not in memory twice.
        let mut chunks = self.chunks.into_iter();
        let mut whole = chunks.next().map(Vec::from).unwrap_or_default();
        whole.reserve_exact(self.chunks_len - whole.len());
        chunks.for_each(|chunk| whole.extend_from_slice(&chunk));
        Outcome::Unwritten(whole.into())
    }

    fn persist(&mut self, shared: &Shared, key: ObjectKey, ticket: Ticket) -> io::Result<Stamp> {
        let spill = self.spill.as_mut().expect("who puts a file in place has made it");
        let stamp = Stamp { len: self.len, crc: spill.crc.clone().finalize() };
        // A link made by hand, or a file system that loses bytes: the file must have what it was given.
        let written = spill.file.file.metadata()?.len();
        if written != stamp.len {
            return Err(io::Error::new(io::ErrorKind::WriteZero, format!("{written} of {} bytes written", stamp.len)));
        }
        spill.file.persist(shared, key, ticket, stamp)?;
        Ok(stamp)
    }
}
