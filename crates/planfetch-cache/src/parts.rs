//! Large objects, by several ranges at once.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use crc32fast::Hasher;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload};

use crate::body::{Body, PART_SPILL_BYTES, Spill};
use crate::download::{Download, within};
use crate::failure::{Advice, Failure};
use crate::retry::Retry;
use crate::shared::Shared;
use crate::temp_file::TempFile;

/// Returns whether an object of `len` bytes, whose first response is `result`, is downloaded by several ranges.
pub(crate) fn is_worth_while(shared: &Shared, result: &GetResult, len: u64) -> bool {
    let settings = &shared.settings;
    1 < settings.part_concurrency
        && 2 * settings.part_size <= len
        // Without a tag, the parts could be of different objects; a weak one is never matched (RFC 9110, section 13.1.1).
        && result.meta.e_tag.as_ref().is_some_and(|tag| !tag.starts_with("W/"))
        && !matches!(result.payload, GetResultPayload::File(..))
}

/// Downloads the `len` bytes from `start` on into `file`, for which there is room. The first part is taken from the
/// response that is there already.
pub(crate) async fn download(
    download: &Download,
    file: TempFile,
    start: u64,
    first: GetResult,
    len: u64,
) -> Result<Body, Failure> {
    let shared = &download.shared;
    let etag = first.meta.e_tag.clone().unwrap_or_default();
    let out = file.file.try_clone().map_err(|error| {
        shared.warnings.unwritten(&error);
        Failure::Unwritten
    })?;
    let out = Arc::new(out);
    let part_size = shared.settings.part_size;
    let mut first = Some(first.into_stream());
    let starts = (0..len).step_by(usize::try_from(part_size).unwrap_or(usize::MAX));
    let parts = starts.map(|at| Part {
        download: download.clone(),
        etag: etag.clone(),
        out: Arc::clone(&out),
        offset: start,
        at,
        end: len.min(at + part_size),
        stream: first.take(),
    });
    let sums: Vec<Hasher> =
        stream::iter(parts).map(Part::run).buffered(shared.settings.part_concurrency).try_collect().await?;
    let mut crc = Hasher::new();
    sums.iter().for_each(|sum| crc.combine(sum));
    Ok(Body::written(len, Spill { file, crc }))
}

/// One part of an object: the bytes from `at` to `end`, counted from `offset`.
struct Part {
    download: Download,
    etag: String,
    out: Arc<File>,
    offset: u64,
    at: u64,
    end: u64,
    /// A response that begins with this part.
    stream: Option<BoxStream<'static, object_store::Result<Bytes>>>,
}

impl Part {
    /// Downloads the part, and returns its checksum.
    async fn run(mut self) -> Result<Hasher, Failure> {
        let shared = Arc::clone(&self.download.shared);
        let mut crc = Hasher::new();
        let mut retry = Retry::new(&shared.settings, self.download.fetch.key.bits().wrapping_add(self.at));
        loop {
            let failure = match self.attempt(&mut crc).await {
                Ok(()) => return Ok(crc),
                Err(failure) => failure,
            };
            let pause = match failure.advice() {
                Advice::GiveUp | Advice::Reopen => None,
                Advice::SlowDown if shared.settings.adaptive_concurrency => retry.next_throttled(),
                _ => retry.next(),
            };
            let Some(pause) = pause.filter(|_| failure.is_passing()) else { return Err(failure) };
            shared.counters.retries.add(1);
            tokio::time::sleep(failure.asked_pause().map_or(pause, |asked| pause.max(asked))).await;
        }
    }

    /// Goes on from `at`, which moves with what has been written.
    async fn attempt(&mut self, crc: &mut Hasher) -> Result<(), Failure> {
        let limit = self.download.shared.settings.progress_timeout;
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let range = self.offset + self.at..self.offset + self.end;
                let options = GetOptions {
                    range: Some(GetRange::Bounded(range.clone())),
                    if_match: Some(self.etag.clone()),
                    ..GetOptions::default()
                };
                let result = self.download.request(options, None).await?;
                if result.range != range || result.meta.e_tag.as_deref() != Some(&*self.etag) {
                    return Err(Failure::Changed);
                }
                result.into_stream()
            }
        };
        let (mut chunks, mut held): (Vec<Bytes>, usize) = (Vec::new(), 0);
        let mut received = self.at;
        let mut ended = Ok(());
        while received < self.end {
            match within(limit, stream.next()).await {
                Ok(Some(Ok(chunk))) => {
                    // The response that the first part is taken from goes on behind it.
                    let wanted = chunk.len().min(usize::try_from(self.end - received).unwrap_or(usize::MAX));
                    self.download.shared.counters.bytes_downloaded.add(wanted as u64);
                    received += wanted as u64;
                    held += wanted;
                    chunks.push(chunk.slice(..wanted));
                    if PART_SPILL_BYTES <= held {
                        self.write(std::mem::take(&mut chunks), crc).await?;
                        held = 0;
                    }
                }
                Ok(Some(Err(error))) => ended = Err(Failure::Store(error, Default::default())),
                Ok(None) => ended = Err(Failure::WrongLength { expected: self.end, received }),
                Err(stalled) => ended = Err(stalled),
            }
            if ended.is_err() {
                break;
            }
        }
        self.write(chunks, crc).await?;
        ended
    }

    /// Writes chunks to their place.
    async fn write(&mut self, chunks: Vec<Bytes>, crc: &mut Hasher) -> Result<(), Failure> {
        let (out, at) = (Arc::clone(&self.out), self.at);
        let mut sum = crc.clone();
        let shared = Arc::clone(&self.download.shared);
        let written = shared
            .write_blocking(move || {
                let mut to = at;
                for chunk in &chunks {
                    write_at(&out, chunk, to)?;
                    sum.update(chunk);
                    to += chunk.len() as u64;
                }
                Ok::<_, io::Error>((sum, to))
            })
            .await;
        match written {
            Ok((sum, to)) => {
                *crc = sum;
                self.at = to;
                Ok(())
            }
            Err(error) => {
                shared.warnings.unwritten(&error);
                Err(Failure::Unwritten)
            }
        }
    }
}

/// Writes all of `bytes` at a place of the file, whatever others write elsewhere in it.
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, at);
    #[cfg(windows)]
    {
        let mut done = 0;
        while done < bytes.len() {
            match std::os::windows::fs::FileExt::seek_write(file, &bytes[done..], at + done as u64)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => done += n,
            }
        }
        Ok(())
    }
}
