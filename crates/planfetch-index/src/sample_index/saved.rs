//! An index as bytes, which load in a moment.
//!
//! The layout is in `book/src/reference/saved-index.md`. Loading reads each byte once, checks it against a checksum, and
//! walks the heads of the URIs to see that each can be put together. A map of the file would save a copy, which is a
//! part of that time, and cost `unsafe` and the promise that nobody changes the file during a run; a hundred million
//! rows load in about a second without it.

mod header;
mod sections;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use crate::error::IndexError;
use crate::sample_index::SampleIndex;
use crate::table::check_range;
use crate::uri_list::UriList;
use header::Header;
use sections::{SectionReader, SectionWriter};

impl SampleIndex {
    /// Saves the index in the file at `path`, from which [`load`](Self::load) reads it much faster than from CSV.
    ///
    /// A file that is there is replaced at once when the new one is complete.
    ///
    /// # Errors
    ///
    /// [`IndexError::Write`] when the file can't be written; one that was there is then still as it was.
    ///
    /// # Example: parse once, load ever after
    ///
    /// ```
    /// use planfetch_index::SampleIndex;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("train.index");
    /// let index = SampleIndex::from_rows([("s3://photos/1.jpg", 0), ("s3://photos/2.jpg", 1)])?;
    /// index.save(&path)?;
    /// assert_eq!(SampleIndex::load(&path)?, index);
    ///
    /// let mut bytes = std::fs::read(&path)?;
    /// let last = bytes.len() - 1;
    /// bytes[last] ^= 1;
    /// let error = SampleIndex::from_bytes(&bytes, "train.index").expect_err("a bit is wrong");
    /// assert!(error.to_string().starts_with("train.index: the part with "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), IndexError> {
        let path = path.as_ref();
        replace(path, |file| self.write(file))
            .map_err(|source| IndexError::Write { file: path.display().to_string(), source })
    }

    /// Loads an index that was [saved](Self::save).
    ///
    /// # Errors
    ///
    /// [`IndexError::Read`] when the file can't be read, and [`IndexError::Format`] when it is no saved index, is of
    /// another version, or differs in a single bit from what was saved.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, IndexError> {
        let name = path.as_ref().display().to_string();
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (len, file) = opened.map_err(|source| IndexError::Read { file: name.clone(), source })?;
        Self::read(file, len, &name)
    }

    /// Returns the bytes that [`save`](Self::save) writes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = self.write(&mut bytes);
        debug_assert!(written.is_ok(), "memory takes all that is written");
        bytes
    }

    /// Makes an index of the bytes that [`save`](Self::save) writes; `name` says in errors where they are from.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load).
    pub fn from_bytes(bytes: &[u8], name: &str) -> Result<Self, IndexError> {
        Self::read(bytes, bytes.len() as u64, name)
    }

    fn write(&self, writer: impl Write) -> io::Result<()> {
        let (reference, tail, entries) = self.uris.parts();
        let names_len = self.class_names.iter().map(|name| 4 + name.len() as u64).sum();
        let header = Header {
            rows: self.len(),
            num_classes: self.num_classes,
            has_names: !self.class_names.is_empty(),
            // Most labels fit a byte or two, which is time when there are many.
            label_width: match self.labels.iter().max().copied().unwrap_or(0) {
                0..=0xff => 1,
                0x100..=0xffff => 2,
                _ => 4,
            },
            size_width: self
                .sizes()
                .map_or(0, |sizes| if sizes.iter().all(|&size| u32::try_from(size).is_ok()) { 4 } else { 8 }),
            has_ranges: self.has_ranges(),
            reference_len: reference.len() as u64,
            tail_len: tail.len() as u64,
            entries_len: entries.iter().map(|part| part.len() as u64).sum(),
            names_len,
        };
        let mut writer = SectionWriter::new(writer);
        writer.put(&header.to_bytes())?;
        writer.end()?;
        writer.put(reference.as_bytes())?;
        writer.put(tail.as_bytes())?;
        writer.end()?;
        for part in &entries {
            writer.put(part)?;
        }
        writer.end()?;
        writer.put_numbers(self.labels.iter().map(|&label| u64::from(label)), header.label_width)?;
        writer.end()?;
        for name in self.class_names.iter() {
            writer.put_numbers([name.len() as u64], 4)?;
            writer.put(name.as_bytes())?;
        }
        writer.end()?;
        writer.put_numbers(self.sizes().unwrap_or_default().iter().copied(), header.size_width)?;
        writer.end()?;
        let ranges = self.ranges.as_ref().map_or(&[][..], |ranges| ranges);
        writer.put_numbers(ranges.iter().flat_map(|&(offset, length)| [offset, length]), 8)?;
        writer.end()?;
        writer.finish()
    }

    fn read(reader: impl Read, len: u64, name: &str) -> Result<Self, IndexError> {
        let mut reader = SectionReader::new(reader, name);
        let header = match Header::from_bytes(&reader.header(len)?, len) {
            Ok(header) => header,
            Err(problem) => return Err(reader.error(problem)),
        };
        // From here on, no length reaches beyond the end of the file, so that no part takes more than four times its bytes.
        let rows = reader.to_usize(header.rows)?;
        let begin = reader.bytes("the first URI", header.reference_len + header.tail_len)?;
        let entries = reader.bytes("the URIs", header.entries_len)?;
        let labels: Vec<u32> = reader.numbers("the labels", header.rows, header.label_width, |label| label as u32)?;
        let names = reader.bytes("the class names", header.names_len)?;
        let sizes = reader.numbers(
            "the sizes",
            if header.size_width > 0 { header.rows } else { 0 },
            header.size_width,
            |size| size,
        )?;
        let ranges =
            reader.numbers("the byte ranges", if header.has_ranges { 2 * header.rows } else { 0 }, 8, |n| n)?;

        let uris = text(begin)
            .and_then(|reference| {
                let mut reference = reference;
                // OK because both were read in one part of memory.
                let at = header.reference_len as usize;
                if !reference.is_char_boundary(at) {
                    return Err("the first URI is cut within a character".into());
                }
                let tail = reference.split_off(at);
                UriList::from_parts(reference, tail, entries, rows)
            })
            .map_err(|problem| reader.error(problem))?;
        let class_names = split_names(&names).map_err(|problem| reader.error(problem))?;
        let max = labels.iter().max().copied();
        // Of the largest label there is, the number of classes is not one more.
        if max.is_some_and(|max| max >= header.num_classes && header.num_classes != u32::MAX)
            || (header.has_names && class_names.len() as u64 != u64::from(header.num_classes))
            || (!header.has_names && !class_names.is_empty())
        {
            return Err(reader.error("labels and classes do not go together".into()));
        }
        let ranges: Vec<(u64, u64)> = ranges.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        if let Some(problem) = ranges.iter().find_map(|&(offset, length)| check_range(offset, length).err()) {
            return Err(reader.error(format!("a byte range {problem}")));
        }
        Ok(Self {
            uris: Arc::new(uris),
            labels: Arc::new(labels),
            sizes: (header.size_width > 0).then(|| Arc::new(sizes)),
            ranges: header.has_ranges.then(|| Arc::new(ranges)),
            class_names: Arc::new(class_names),
            num_classes: header.num_classes,
        })
    }
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "a text is no UTF-8".into())
}

/// Takes names apart, each of which stands after its length in four bytes.
fn split_names(mut bytes: &[u8]) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<4>() {
        let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
        let (name, rest) = rest.split_at_checked(len).ok_or("a class name is cut")?;
        names.push(text(name.to_vec())?);
        bytes = rest;
    }
    if bytes.is_empty() { Ok(names) } else { Err("a class name is cut".into()) }
}

/// Writes a file next to `path` and gives it that name when it is complete.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let (mut file, temporary) = create_next_to(path)?;
    let written = write(&mut file).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // That it is left behind is less of a fault than the first.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn create_next_to(path: &Path) -> io::Result<(File, std::path::PathBuf)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    for attempt in 0..100 {
        let mut temporary = name.to_owned();
        temporary.push(format!(".tmp-{}-{attempt}", std::process::id()));
        let temporary = path.with_file_name(temporary);
        match File::create_new(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
