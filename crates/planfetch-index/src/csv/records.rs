//! The records of a CSV file, one after the other.
//!
//! Most lines of an index hold no quote, and are taken apart where they lie by looking for the next line end and
//! delimiter; the rest goes through the parser of the csv crate. That parser rather than the reader of that crate,
//! to bound how long a record can get: a quote that is never closed makes one field of the rest of the file, which
//! the reader would collect whatever its size.

use std::io;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use memchr::{memchr, memchr3};

/// The most bytes that the fields of a record take, a multiple of any URI and of most captions.
pub(super) const MAX_RECORD: usize = 16 << 20;

/// The most fields of a record.
const MAX_FIELDS: usize = 1 << 16;

/// How much is read at once: more does not make it faster. A longer line goes through the parser.
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

/// What can be done with a line.
enum Line {
    Split,
    ForParser,
    NoEnd,
}

/// Reads records, of which it holds one at a time.
pub(super) struct Records<R> {
    reader: R,
    parser: Reader,
    delimiter: u8,
    // Invariant: start <= end <= input.len(); what lies between is still to be parsed.
    input: Vec<u8>,
    start: usize,
    end: usize,
    at_end: bool,
    // An error that came after input, for when that is parsed.
    error: Option<io::Error>,
    // The fields of the record one after the other, where it went through the parser.
    fields: Vec<u8>,
    // Where the fields end: in `fields`, or in a line that begins at `line_start` of `input`.
    ends: Vec<usize>,
    line_start: Option<usize>,
    len: usize,
    line: u64,
}

impl<R: io::Read> Records<R> {
    pub(super) fn new(reader: R, delimiter: u8) -> Self {
        let mut parser = ReaderBuilder::new().delimiter(delimiter).build();
        // It skips a byte-order mark before whatever it sees first, which would be a line in the middle of the file;
        // so it sees an empty line first, and the mark is skipped here.
        parser.read_record(b"\n", &mut [], &mut []);
        parser.set_line(1);
        Self {
            reader,
            parser,
            delimiter,
            input: vec![0; INPUT],
            start: 0,
            end: 0,
            at_end: false,
            error: None,
            fields: vec![0; 1 << 10],
            ends: vec![0; 16],
            line_start: None,
            len: 0,
            line: 0,
        }
    }

    /// Reads the next record and returns true, or false after the last.
    #[inline]
    pub(super) fn read(&mut self) -> Result<bool, RecordError> {
        loop {
            self.skip_line_ends()?;
            self.line = self.parser.line();
            self.len = 0;
            match self.split_line() {
                Line::Split => return Ok(true),
                Line::ForParser => return self.parse(),
                // The rest of the line may still be to be read, unless the buffer is full.
                Line::NoEnd => {
                    let before = self.end - self.start;
                    self.fill()?;
                    if self.end - self.start == before {
                        return self.parse();
                    }
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
        let end = self.ends[..self.len][index];
        match (self.line_start, index) {
            (Some(line), 0) => &self.input[line..end],
            // Between two fields lies a delimiter.
            (Some(_), _) => &self.input[self.ends[index - 1] + 1..end],
            (None, 0) => &self.fields[..end],
            (None, _) => &self.fields[self.ends[index - 1]..end],
        }
    }

    /// Returns the line in which the record begins, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Takes the next line apart where it is as simple as most are.
    #[inline]
    fn split_line(&mut self) -> Line {
        // A delimiter that is one of these is the parser's to make sense of.
        if matches!(self.delimiter, b'\n' | b'\r' | b'"') {
            return Line::ForParser;
        }
        let input = &self.input[self.start..self.end];
        let end = match memchr3(b'\n', b'\r', b'"', input) {
            Some(at) if input[at] == b'\n' => at,
            Some(at) if input[at] == b'\r' && input.get(at + 1) == Some(&b'\n') => at,
            Some(_) => return Line::ForParser,
            None => return Line::NoEnd,
        };
        let mut at = 0;
        while let Some(next) = memchr(self.delimiter, &input[at..end]) {
            // As many fields as that are rare, and the parser makes room for them.
            if self.len + 1 == self.ends.len() {
                self.len = 0;
                return Line::ForParser;
            }
            at += next + 1;
            self.ends[self.len] = self.start + at - 1;
            self.len += 1;
        }
        self.ends[self.len] = self.start + end;
        self.len += 1;
        self.line_start = Some(self.start);
        // The line end is left to be skipped, and so counted.
        self.start += end;
        Line::Split
    }

    /// Reads a record by the parser.
    fn parse(&mut self) -> Result<bool, RecordError> {
        self.line_start = None;
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

    /// Skips what the parser would skip before a record, and the line end of the record before, so that the line is
    /// that of the record.
    #[inline]
    fn skip_line_ends(&mut self) -> Result<(), RecordError> {
        loop {
            match self.input[self.start..self.end].first() {
                Some(b'\n') => self.parser.set_line(self.parser.line() + 1),
                Some(b'\r') => {}
                None if !self.at_end => {
                    self.fill()?;
                    continue;
                }
                _ => return Ok(()),
            }
            self.start += 1;
        }
    }

    /// Reads as much input as there is room for; none is the end.
    #[inline(never)]
    fn fill(&mut self) -> Result<(), RecordError> {
        let is_first = self.line == 0;
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == 0
            && let Some(error) = self.error.take()
        {
            self.at_end = true;
            return Err(RecordError::Io(error));
        }
        while !self.at_end && self.error.is_none() && self.end < self.input.len() {
            match self.reader.read(&mut self.input[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What came before the error may hold whole records, and the row of the error is the one after them.
                Err(error) if self.end > 0 => self.error = Some(error),
                Err(error) => return Err(RecordError::Io(error)),
            }
        }
        if is_first && self.input[..self.end].starts_with(b"\xef\xbb\xbf") {
            self.start = 3;
        }
        Ok(())
    }
}
