//! The records of a CSV file, one after the other.
//!
//! It drives the parser of the csv crate rather than its reader, to bound how long a record can get: a quote that is
//! never closed makes one field of the rest of the file, which the reader would collect whatever its size.

use std::io;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

/// The most bytes that the fields of a record take, a multiple of any URI and of most captions.
pub(super) const MAX_RECORD: usize = 16 << 20;

/// The most fields of a record.
const MAX_FIELDS: usize = 1 << 16;

/// How much is read at once: more does not make it faster.
const INPUT: usize = 128 << 10;

/// Why there is no next record.
#[derive(Debug)]
pub(super) enum RecordError {
    Io(io::Error),
    /// The record that begins at `line` is too long in field `field`, from 0, which begins with `start`.
    TooLong {
        line: u64,
        field: usize,
        start: Vec<u8>,
    },
}

/// Reads records, of which it holds one at a time.
pub(super) struct Records<R> {
    reader: R,
    parser: Reader,
    // Invariant: start <= end <= input.len(); what lies between is still to be parsed.
    input: Vec<u8>,
    start: usize,
    end: usize,
    at_end: bool,
    // An error that came after input, for when that is parsed.
    error: Option<io::Error>,
    // The fields of the record one after the other, and where each ends.
    fields: Vec<u8>,
    ends: Vec<usize>,
    len: usize,
    line: u64,
}

impl<R: io::Read> Records<R> {
    pub(super) fn new(reader: R, delimiter: u8) -> Self {
        Self {
            reader,
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            input: vec![0; INPUT],
            start: 0,
            end: 0,
            at_end: false,
            error: None,
            fields: vec![0; 1 << 10],
            ends: vec![0; 16],
            len: 0,
            line: 0,
        }
    }

    /// Reads the next record and returns true, or false after the last.
    pub(super) fn read(&mut self) -> Result<bool, RecordError> {
        self.skip_line_ends()?;
        self.line = self.parser.line();
        self.len = 0;
        let mut n_bytes = 0;
        loop {
            if self.start == self.end {
                self.fill()?;
            }
            let (result, n_in, n_out, n_ends) = self.parser.read_record(
                &self.input[self.start..self.end],
                &mut self.fields[n_bytes..],
                &mut self.ends[self.len..],
            );
            self.start += n_in;
            n_bytes += n_out;
            self.len += n_ends;
            match result {
                ReadRecordResult::Record => return Ok(true),
                ReadRecordResult::End => return Ok(false),
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.fields.len() < MAX_RECORD => {
                    self.fields.resize(2 * self.fields.len(), 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() < MAX_FIELDS => {
                    self.ends.resize(2 * self.ends.len(), 0);
                }
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    let begin = if self.len == 0 { 0 } else { self.ends[self.len - 1] };
                    let start = self.fields[begin..n_bytes.min(begin + 1_000)].to_vec();
                    return Err(RecordError::TooLong { line: self.line, field: self.len, start });
                }
            }
        }
    }

    /// Returns the number of fields of the record.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns field `index` of the record, which has that many.
    #[inline]
    pub(super) fn field(&self, index: usize) -> &[u8] {
        debug_assert!(index < self.len);
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.fields[start..self.ends[index]]
    }

    /// Returns the line in which the record begins, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Skips what the parser would skip before a record, and the LF of a CRLF that ended the record before, so that
    /// the line is that of the record.
    #[inline]
    fn skip_line_ends(&mut self) -> Result<(), RecordError> {
        loop {
            if self.start == self.end {
                self.fill()?;
            }
            match self.input[self.start..self.end].first() {
                Some(b'\n') => self.parser.set_line(self.parser.line() + 1),
                Some(b'\r') => {}
                _ => return Ok(()),
            }
            self.start += 1;
        }
    }

    /// Reads more input, as much as there is room for; none is the end.
    #[inline(never)]
    fn fill(&mut self) -> Result<(), RecordError> {
        (self.start, self.end) = (0, 0);
        if let Some(error) = self.error.take() {
            self.at_end = true;
            return Err(RecordError::Io(error));
        }
        while !self.at_end && self.end < self.input.len() {
            match self.reader.read(&mut self.input[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What came before the error may hold whole records, and the row of the error is the one after them.
                Err(error) if self.end > 0 => {
                    self.error = Some(error);
                    return Ok(());
                }
                Err(error) => return Err(RecordError::Io(error)),
            }
        }
        Ok(())
    }
}
