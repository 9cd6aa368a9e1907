//! Plans as bytes.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | `plfplan` and a zero byte |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | kind: 0 dense, 1 lazy |
//! | 16 | 8 | batch size |
//! | 24 | 8 | number of samples in the data set |
//! | 32 | 8 | number of ids |
//! | 40 | | dense: the ids, 4 bytes each up to 2^32 samples, else 8; lazy: the 32 bytes of the key |
//! | end | 32 | SHA-256 of all bytes before |
//!
//! All numbers are little-endian. A lazy plan is saved as its key: it takes 104 bytes at any length.

use std::error::Error;
use std::fmt;
use std::io::{self, Read, Write};
use std::mem;

use sha2::{Digest, Sha256};

use crate::error::PlanError;
use crate::ids::{IdVec, IdWidth, with_ids};
use crate::view::{PlanView, Rows};

const MAGIC: &[u8; 8] = b"plfplan\0";
const VERSION: u32 = 1;
const DENSE: u32 = 0;
const LAZY: u32 = 1;

/// Why bytes are not a plan that this version can load.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The bytes could not be read.
    #[error("the plan could not be read")]
    Io(#[source] io::Error),
    /// The bytes begin otherwise than a plan does.
    #[error("the bytes are not a saved plan: they do not begin with \"plfplan\"")]
    NotAPlan,
    /// The plan was saved in another format.
    #[error("the plan was saved in format {found}, but this version reads format {VERSION}; make the plan again")]
    Version {
        /// The format's version.
        found: u32,
    },
    /// A number in the header has no meaning.
    #[error("the plan's header says that {field} is {value}, which no plan has; the bytes are damaged")]
    Header {
        /// Which number.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The bytes end before the plan does.
    #[error("the saved plan is cut off: its header promises more bytes than there are")]
    Truncated,
    /// There are bytes after the plan.
    #[error("there are {extra} bytes after the end of the saved plan")]
    TrailingBytes {
        /// How many.
        extra: u64,
    },
    /// The bytes are not those that were saved.
    #[error("the saved plan is damaged: its SHA-256 does not fit its bytes; make the plan again")]
    Digest,
    /// The ids are no plan, though the bytes are as they were saved.
    #[error("the bytes hold no valid plan")]
    Plan(#[source] PlanError),
}

/// The message and what caused it, since `main` prints the error that it returns by this.
impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        self.source().map_or(Ok(()), |cause| write!(f, ": {cause}"))
    }
}

impl PlanView {
    /// Writes the plan, 4 bytes an id for a dense plan of at most 2^32 samples and 104 bytes for a lazy one.
    ///
    /// What [`explain`](Self::explain) knows is not saved.
    ///
    /// # Errors
    ///
    /// The writer's.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::PlanView;
    ///
    /// let plan = PlanView::from_ids([3, 1, 2], 2, 4)?;
    /// let mut bytes = Vec::new();
    /// plan.save(&mut bytes)?;
    /// assert_eq!(PlanView::load(&mut bytes.as_slice())?, plan);
    ///
    /// bytes[41] ^= 1;
    /// assert!(PlanView::load(&mut bytes.as_slice()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, writer: &mut dyn Write) -> io::Result<()> {
        let mut writer = Hashing { inner: writer, hash: Sha256::new() };
        let kind = if self.is_lazy() { LAZY } else { DENSE };
        writer.write(MAGIC)?;
        writer.write(&VERSION.to_le_bytes())?;
        writer.write(&kind.to_le_bytes())?;
        // OK because an index fits in 64 bits, here and below.
        for number in [self.batch_size() as u64, self.num_samples(), self.num_ids() as u64] {
            writer.write(&number.to_le_bytes())?;
        }
        match &self.rows {
            Rows::Permuted { key, .. } => writer.write(key)?,
            Rows::Dense(ids) => match &**ids {
                IdVec::U32(ids) => writer.write_all(ids.iter().map(|id| id.to_le_bytes()))?,
                IdVec::U64(ids) => writer.write_all(ids.iter().map(|id| id.to_le_bytes()))?,
            },
        }
        let hash = writer.hash.finalize();
        writer.inner.write_all(&hash)
    }

    /// Reads a plan that [`save`](Self::save) wrote, and nothing after it.
    ///
    /// Memory grows with the bytes that arrive, whatever the header promises.
    ///
    /// # Errors
    ///
    /// A [`LoadError`] when the bytes can't be read, are not a plan, were saved in another format, are cut off, or are
    /// not the bytes that were saved.
    pub fn load(reader: &mut dyn Read) -> Result<Self, LoadError> {
        let mut reader = HashingReader { inner: reader, hash: Sha256::new() };
        if reader
            .array::<8>()
            .map_err(|error| if matches!(error, LoadError::Truncated) { LoadError::NotAPlan } else { error })?
            != *MAGIC
        {
            return Err(LoadError::NotAPlan);
        }
        let version = u32::from_le_bytes(reader.array()?);
        if version != VERSION {
            return Err(LoadError::Version { found: version });
        }
        let kind = u32::from_le_bytes(reader.array()?);
        let mut number = || reader.array().map(u64::from_le_bytes);
        let (batch_size, num_samples, num_ids) = (number()?, number()?, number()?);
        let header = |field, value| LoadError::Header { field, value };
        let max = u64::from(u32::MAX);
        if batch_size == 0 || max < batch_size {
            return Err(header("batch_size", batch_size));
        }
        // OK because it is at most `u32::MAX`.
        let rows = batch_size as usize;
        let len = usize::try_from(num_ids).map_err(|_| header("num_ids", num_ids))?;
        let plan = match kind {
            DENSE => {
                let mut ids = IdVec::for_data_set(num_samples);
                match &mut ids {
                    IdVec::U32(ids) => reader.ids::<u32, 4>(ids, len, u32::from_le_bytes)?,
                    IdVec::U64(ids) => reader.ids::<u64, 8>(ids, len, u64::from_le_bytes)?,
                }
                reader.check()?;
                let wrong = with_ids!(&ids, ids => ids.iter().map(|id| id.to_id()).find(|&id| num_samples <= id));
                if let Some(id) = wrong {
                    return Err(LoadError::Plan(PlanError::SampleId { id, num_samples }));
                }
                Self::new(ids, rows, num_samples)
            }
            LAZY => {
                if num_samples < num_ids {
                    return Err(header("num_ids", num_ids));
                }
                let key = reader.array()?;
                reader.check()?;
                Self::permuted(key, len, rows, num_samples)
            }
            _ => return Err(header("kind", u64::from(kind))),
        };
        plan.map_err(LoadError::Plan)
    }

    /// Returns what [`save`](Self::save) writes.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{PlanProvider, PlanView, ShuffleOncePerEpochPlanProvider};
    ///
    /// let plan = ShuffleOncePerEpochPlanProvider::new(1_000_000_000, 256, 7)?.with_lazy(true).plan(0)?;
    /// assert_eq!(plan.to_bytes().len(), 104);
    /// assert_eq!(PlanView::from_bytes(&plan.to_bytes())?, plan);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "writing into a vector does not fail")]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.save(&mut bytes).expect("writing into a vector does not fail");
        bytes
    }

    /// Reads a plan from bytes that hold it and nothing else.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), and [`LoadError::TrailingBytes`] when bytes are left over.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, LoadError> {
        let plan = Self::load(&mut bytes)?;
        // OK because a slice's length fits in 64 bits.
        if bytes.is_empty() { Ok(plan) } else { Err(LoadError::TrailingBytes { extra: bytes.len() as u64 }) }
    }
}

/// How many bytes are read or written at once: large enough to be few calls, small enough for the first-level cache.
const BLOCK_BYTES: usize = 16 * 1_024;

struct Hashing<'a> {
    inner: &'a mut dyn Write,
    hash: Sha256,
}

impl Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.inner.write_all(bytes)
    }

    fn write_all<const N: usize>(&mut self, numbers: impl Iterator<Item = [u8; N]>) -> io::Result<()> {
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        for number in numbers {
            block.extend_from_slice(&number);
            if BLOCK_BYTES <= block.len() {
                self.write(&block)?;
                block.clear();
            }
        }
        self.write(&block)
    }
}

struct HashingReader<'a> {
    inner: &'a mut dyn Read,
    hash: Sha256,
}

impl HashingReader<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), LoadError> {
        self.inner.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => LoadError::Truncated,
            _ => LoadError::Io(error),
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], LoadError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        self.hash.update(bytes);
        Ok(bytes)
    }

    fn ids<T, const N: usize>(
        &mut self,
        ids: &mut Vec<T>,
        len: usize,
        decode: fn([u8; N]) -> T,
    ) -> Result<(), LoadError> {
        let mut block = [0; BLOCK_BYTES];
        while ids.len() < len {
            let take = (len - ids.len()).min(BLOCK_BYTES / N);
            let bytes = &mut block[..take * N];
            self.fill(bytes)?;
            self.hash.update(&*bytes);
            let (chunks, _) = bytes.as_chunks::<N>();
            ids.extend(chunks.iter().map(|&chunk| decode(chunk)));
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), LoadError> {
        let expected: [u8; 32] = mem::take(&mut self.hash).finalize().into();
        let mut found = [0; 32];
        self.fill(&mut found)?;
        if found == expected { Ok(()) } else { Err(LoadError::Digest) }
    }
}
