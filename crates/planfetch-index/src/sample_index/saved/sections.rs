//! Parts of a file, each with a checksum (CRC-32) behind it.

use std::io::{self, BufWriter, Read, Write};

use super::header::{CHECKSUM, HEADER, check_version};
use crate::error::IndexError;

/// How much is read at once: what fits the cache of a core is checked and decoded before it leaves that.
const CHUNK: u64 = 256 << 10;

/// Writes parts one after the other.
pub(super) struct SectionWriter<W: Write> {
    writer: BufWriter<W>,
    crc: crc32fast::Hasher,
}

impl<W: Write> SectionWriter<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer: BufWriter::with_capacity(1 << 20, writer), crc: crc32fast::Hasher::new() }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        self.writer.write_all(bytes)
    }

    /// Writes numbers that fit `width` bytes.
    pub(super) fn put_numbers(&mut self, numbers: impl IntoIterator<Item = u64>, width: u8) -> io::Result<()> {
        let width = usize::from(width);
        let mut chunk = Vec::with_capacity(1 << 16);
        for number in numbers {
            chunk.extend_from_slice(&number.to_le_bytes()[..width]);
            if chunk.len() >= (1 << 16) - 8 {
                self.put(&chunk)?;
                chunk.clear();
            }
        }
        self.put(&chunk)
    }

    /// Ends the part.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let crc = std::mem::take(&mut self.crc).finalize();
        self.writer.write_all(&crc.to_le_bytes())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Reads parts one after the other.
pub(super) struct SectionReader<'a, R> {
    reader: R,
    name: &'a str,
}

impl<'a, R: Read> SectionReader<'a, R> {
    pub(super) fn new(reader: R, name: &'a str) -> Self {
        Self { reader, name }
    }

    pub(super) fn error(&self, problem: String) -> IndexError {
        IndexError::Format { file: self.name.into(), problem }
    }

    /// Reads the header of a file of `len` bytes.
    pub(super) fn header(&mut self, len: u64) -> Result<[u8; HEADER], IndexError> {
        let mut begin = Vec::new();
        let read = self.reader.by_ref().take(HEADER as u64).read_to_end(&mut begin);
        read.map_err(|source| self.read_error(source))?;
        check_version(&begin).map_err(|problem| self.error(problem))?;
        let header: [u8; HEADER] = match begin.try_into() {
            Ok(header) if len >= HEADER as u64 + CHECKSUM => header,
            _ => return Err(self.error("is cut short within its header; save the index again".into())),
        };
        let mut crc = crc32fast::Hasher::new();
        crc.update(&header);
        self.check("the header", crc)?;
        Ok(header)
    }

    /// Reads a part of `len` bytes.
    pub(super) fn bytes(&mut self, what: &str, len: u64) -> Result<Vec<u8>, IndexError> {
        let mut bytes = Vec::new();
        self.reserve(&mut bytes, len)?;
        let mut crc = crc32fast::Hasher::new();
        let mut left = len;
        while left > 0 {
            let chunk = left.min(CHUNK);
            let start = bytes.len();
            let read = self.reader.by_ref().take(chunk).read_to_end(&mut bytes);
            read.map_err(|source| self.read_error(source))?;
            if ((bytes.len() - start) as u64) < chunk {
                return Err(self.cut(what));
            }
            crc.update(&bytes[start..]);
            left -= chunk;
        }
        self.check(what, crc)?;
        Ok(bytes)
    }

    /// Reads a part of `len` numbers of `width` bytes.
    pub(super) fn numbers<T>(
        &mut self,
        what: &str,
        len: u64,
        width: u8,
        convert: impl Fn(u64) -> T,
    ) -> Result<Vec<T>, IndexError> {
        let mut numbers = Vec::new();
        self.reserve(&mut numbers, len)?;
        let mut crc = crc32fast::Hasher::new();
        let mut chunk = Vec::new();
        let mut left = len * u64::from(width);
        while left > 0 {
            let size = left.min(CHUNK);
            chunk.clear();
            let read = self.reader.by_ref().take(size).read_to_end(&mut chunk);
            read.map_err(|source| self.read_error(source))?;
            if (chunk.len() as u64) < size {
                return Err(self.cut(what));
            }
            crc.update(&chunk);
            // CHUNK is a multiple of each width, so that no number is cut.
            match width {
                1 => numbers.extend(chunk.iter().map(|&byte| convert(u64::from(byte)))),
                2 => extend(&mut numbers, &chunk, |bytes| convert(u64::from(u16::from_le_bytes(bytes)))),
                4 => extend(&mut numbers, &chunk, |bytes| convert(u64::from(u32::from_le_bytes(bytes)))),
                _ => extend(&mut numbers, &chunk, |bytes| convert(u64::from_le_bytes(bytes))),
            }
            left -= size;
        }
        self.check(what, crc)?;
        Ok(numbers)
    }

    pub(super) fn to_usize(&self, len: u64) -> Result<usize, IndexError> {
        usize::try_from(len).map_err(|_| self.error(format!("holds {len} rows, more than fit this computer's memory")))
    }

    /// Makes room for a length that the file has, which can still be more than there is memory.
    fn reserve<T>(&self, vec: &mut Vec<T>, len: u64) -> Result<(), IndexError> {
        let len = self.to_usize(len)?;
        vec.try_reserve_exact(len).map_err(|error| self.read_error(io::Error::new(io::ErrorKind::OutOfMemory, error)))
    }

    fn check(&mut self, what: &str, crc: crc32fast::Hasher) -> Result<(), IndexError> {
        let mut expected = [0; CHECKSUM as usize];
        match self.reader.read_exact(&mut expected) {
            Ok(()) if u32::from_le_bytes(expected) == crc.finalize() => Ok(()),
            Ok(()) => Err(self
                .error(format!("the part with {what} is damaged: its checksum does not match; save the index again"))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(self.cut(what)),
            Err(source) => Err(self.read_error(source)),
        }
    }

    fn cut(&self, what: &str) -> IndexError {
        self.error(format!("the part with {what} is cut short; save the index again"))
    }

    fn read_error(&self, source: io::Error) -> IndexError {
        IndexError::Read { file: self.name.into(), source }
    }
}

fn extend<T, const N: usize>(numbers: &mut Vec<T>, chunk: &[u8], convert: impl Fn([u8; N]) -> T) {
    numbers.extend(chunk.chunks_exact(N).map(|bytes| convert(std::array::from_fn(|i| bytes[i]))));
}
