//! A file that may be compressed.

use std::io::{self, Chain, Cursor, Read};

use crate::error::IndexError;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The reader, with the bytes before it that were looked at.
type Source<R> = Chain<Cursor<Vec<u8>>, R>;

/// A reader of what a file holds, compressed or not.
///
/// Its first bytes decide and not its name: a file in a cache has another name, and text in UTF-8 begins with neither
/// of the marks.
pub(super) enum Decoded<R: Read> {
    Plain(Source<R>),
    #[cfg(feature = "gzip")]
    Gzip(Box<flate2::read::MultiGzDecoder<Source<R>>>),
    #[cfg(feature = "zstd")]
    Zstd(Box<super::zstd::Frames<Source<R>>>),
}

impl<R: Read> Decoded<R> {
    pub(super) fn new(mut reader: R, file: &str) -> Result<Self, IndexError> {
        let mut begin = Vec::new();
        let looked_at = reader.by_ref().take(ZSTD.len() as u64).read_to_end(&mut begin);
        looked_at.map_err(|source| IndexError::Read { file: file.into(), source })?;
        let (is_gzip, is_zstd) = (begin.starts_with(&GZIP), begin.starts_with(&ZSTD));
        let source = Cursor::new(begin).chain(reader);
        match (is_gzip, is_zstd) {
            #[cfg(feature = "gzip")]
            (true, _) => Ok(Self::Gzip(Box::new(flate2::read::MultiGzDecoder::new(source)))),
            #[cfg(not(feature = "gzip"))]
            (true, _) => Err(not_built_in(file, "gzip")),
            #[cfg(feature = "zstd")]
            (_, true) => Ok(Self::Zstd(Box::new(super::zstd::Frames::new(source)))),
            #[cfg(not(feature = "zstd"))]
            (_, true) => Err(not_built_in(file, "zstd")),
            _ => Ok(Self::Plain(source)),
        }
    }

    /// Returns the name of the compression.
    pub(super) fn encoding(&self) -> Option<&'static str> {
        match self {
            Self::Plain(_) => None,
            #[cfg(feature = "gzip")]
            Self::Gzip(_) => Some("gzip"),
            #[cfg(feature = "zstd")]
            Self::Zstd(_) => Some("Zstandard"),
        }
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(buffer),
            #[cfg(feature = "gzip")]
            Self::Gzip(reader) => reader.read(buffer),
            #[cfg(feature = "zstd")]
            Self::Zstd(reader) => reader.read(buffer),
        }
    }
}

#[cfg(not(all(feature = "gzip", feature = "zstd")))]
fn not_built_in(file: &str, feature: &str) -> IndexError {
    let problem = format!("is compressed, which needs the feature `{feature}`; enable it, or decompress the file");
    IndexError::Format { file: file.into(), problem }
}
