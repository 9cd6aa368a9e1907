//! Getting an object's bytes from its store.

use std::io::{self, Read, Seek, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crc32fast::Hasher;
use futures::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{Error as StoreError, GetOptions, GetRange, GetResultPayload, ObjectStore};
use tempfile::NamedTempFile;

use crate::error::{CacheError, CacheErrorKind};
use crate::key::{ObjectKey, Stamp};
use crate::retry::Retry;
use crate::shared::Shared;
use crate::table::Outcome;
use crate::uri::ObjectUri;

/// How much of a body is kept in memory before it is written. Small objects are written in one go; of a large one no
/// more than this is in memory at a time.
const SPILL_BYTES: usize = 8 << 20;

/// Downloads an object whole: tries again as the settings say, and goes on from the last byte where the store tells
/// (by ETag) that the object is still the same.
pub(crate) async fn download(shared: &Arc<Shared>, key: ObjectKey, uri: &str, salt: u64) -> Result<Body, CacheError> {
    let uri = ObjectUri::parse(uri)?;
    let path = uri.path()?;
    let store = shared.stores.get(&uri).await?;
    let mut retry = Retry::new(&shared.settings, salt);
    let mut body = Body::new();
    loop {
        shared.counters.requests.add(1);
        let is_resumed = 0 < body.len;
        let failure = match attempt(shared, key, &*store, &path, &mut body).await {
            Ok(()) => {
                shared.counters.objects_downloaded.add(1);
                return Ok(body);
            }
            Err(failure) => failure,
        };
        let attempts = retry.attempts();
        // What refuses to resume may well send the whole.
        let pause = if failure.is_final() && !is_resumed { None } else { retry.next() };
        let Some(pause) = pause else { return Err(failure.into_error(&uri, attempts)) };
        tracing::debug!(uri = uri.uri, attempt = attempts, ?pause, error = %failure.describe(), "download failed, trying again");
        shared.counters.retries.add(1);
        tokio::time::sleep(pause).await;
    }
}

/// Why one attempt failed.
enum Failure {
    Store(StoreError),
    Stalled(Duration),
    /// The object is another one than when its download began.
    Changed,
    /// The body ended early, or went on after its announced end.
    WrongLength {
        expected: u64,
        received: u64,
    },
}

impl Failure {
    /// Returns whether another attempt would get the same answer.
    fn is_final(&self) -> bool {
        match self {
            Self::Store(
                StoreError::NotFound { .. }
                | StoreError::InvalidPath { .. }
                | StoreError::NotSupported { .. }
                | StoreError::NotImplemented { .. }
                | StoreError::PermissionDenied { .. }
                | StoreError::Unauthenticated { .. },
            ) => true,
            Self::Store(error @ StoreError::Generic { .. }) => is_client_error(&innermost(error)),
            _ => false,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Store(error) => innermost(error),
            Self::Stalled(limit) => format!("no byte came for {} s", limit.as_secs_f32()),
            Self::Changed => "it changed in the store while it was downloaded".into(),
            Self::WrongLength { expected, received } => {
                format!("the body has {received} bytes where the store announced {expected}")
            }
        }
    }

    fn into_error(self, uri: &ObjectUri<'_>, attempts: u32) -> CacheError {
        let detail = self.describe();
        let uri_text = uri.uri;
        let (kind, message) = match &self {
            Self::Store(StoreError::NotFound { source, .. }) if source.to_string().contains("NoSuchBucket") => (
                CacheErrorKind::NotFound,
                format!(
                    "{uri_text}: there is no bucket {}; check its name, the endpoint and the region",
                    uri.store_url
                ),
            ),
            Self::Store(StoreError::NotFound { .. }) => (
                CacheErrorKind::NotFound,
                format!("{uri_text}: there is no object with this key; check the index against the store"),
            ),
            Self::Store(StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. }) => (
                CacheErrorKind::Denied,
                format!(
                    "{uri_text}: the store refuses the credentials ({detail}); check the access key, the secret key, \
                     and that they may read {}",
                    uri.store_url
                ),
            ),
            _ if self.is_final() => {
                (CacheErrorKind::InvalidUri, format!("{uri_text}: the store refuses the request: {detail}"))
            }
            _ => (
                CacheErrorKind::Unavailable,
                format!(
                    "{uri_text}: can't be downloaded after {attempts} attempts: {detail}; check the endpoint and the \
                     network, or raise max_attempts"
                ),
            ),
        };
        match self {
            Self::Store(source) => CacheError::with_source(kind, message, source),
            Self::Stalled(_) | Self::Changed | Self::WrongLength { .. } => CacheError::new(kind, message),
        }
    }
}

/// Returns the cause at the end of the chain, which is the one that says what happened.
fn innermost(error: &StoreError) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    // The bodies of error responses are XML of several lines.
    let text: String = cause.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns whether the store says that the request itself is wrong (RFC 9110, section 15.5), which asking again does
/// not change; 408 and 429 ask for just that. The status is to be had from the text alone.
fn is_client_error(text: &str) -> bool {
    let status = text.strip_prefix("Server returned non-2xx status code: ").and_then(|rest| rest.get(..3));
    status.and_then(|digits| digits.parse::<u16>().ok()).is_some_and(|n| matches!(n, 400..500) && n != 408 && n != 429)
}

/// Returns whether the same request may be answered well another time: the server has no time, or was not reached.
fn is_passing(error: &StoreError) -> bool {
    let text = innermost(error);
    let is_refusal_to_resume = text.contains("non-partial response");
    matches!(error, StoreError::Generic { .. }) && !is_client_error(&text) && !is_refusal_to_resume
}

/// Makes one request, and appends what comes to `body`.
async fn attempt(
    shared: &Arc<Shared>,
    key: ObjectKey,
    store: &dyn ObjectStore,
    path: &Path,
    body: &mut Body,
) -> Result<(), Failure> {
    let limit = shared.settings.progress_timeout;
    let resume = match &body.etag {
        Some(etag) if 0 < body.len => GetOptions {
            range: Some(GetRange::Offset(body.len)),
            if_match: Some(etag.clone()),
            ..GetOptions::default()
        },
        _ => {
            body.restart();
            GetOptions::default()
        }
    };
    let resumed_etag = resume.if_match.clone();
    let result = match within(limit, store.get_opts(path, resume)).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => {
            if !is_passing(&error) {
                // The object has changed, or the store knows no ranges: the next attempt asks for the whole.
                body.restart();
            }
            return Err(Failure::Store(error));
        }
        Err(stalled) => return Err(stalled),
    };
    if resumed_etag.is_some() && (result.range.start != body.len || result.meta.e_tag != resumed_etag) {
        // The store sent the whole, or the rest of another object, in spite of what it was asked for.
        body.restart();
        if result.range.start != 0 {
            return Err(Failure::Changed);
        }
    }
    let expected = result.meta.size;
    body.etag = result.meta.e_tag.clone();
    if let GetResultPayload::File(..) = result.payload
        && expected <= SPILL_BYTES as u64
    {
        // One read, where the stream would make one for each 8 KiB.
        let bytes = within(limit, result.bytes()).await?.map_err(Failure::Store)?;
        body.push(shared, key, bytes).await;
    } else {
        let mut stream: BoxStream<'static, _> = result.into_stream();
        loop {
            let chunk = match within(limit, stream.next()).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(None) => break,
                // Every byte is here; that the connection did not end well changes nothing.
                _ if body.len == expected => break,
                Ok(Some(Err(error))) => return Err(Failure::Store(error)),
                Err(stalled) => return Err(stalled),
            };
            body.push(shared, key, chunk).await;
        }
    }
    if body.len == expected {
        return Ok(());
    }
    let failure = Failure::WrongLength { expected, received: body.len };
    if expected < body.len {
        body.restart();
    }
    Err(failure)
}

async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(limit, future).await.map_err(|_| Failure::Stalled(limit))
}

/// The bytes of an object as they come in: in memory, and from [`SPILL_BYTES`] on in a temporary file.
#[derive(Debug)]
pub(crate) struct Body {
    len: u64,
    etag: Option<String>,
    /// What has not been written yet.
    chunks: Vec<Bytes>,
    chunks_len: usize,
    spill: Option<Spill>,
    /// Writing failed once for this object, so all of it stays in memory.
    in_memory: bool,
}

/// What has been written so far.
#[derive(Debug)]
struct Spill {
    file: NamedTempFile,
    crc: Hasher,
}

impl Body {
    fn new() -> Self {
        Self { len: 0, etag: None, chunks: Vec::new(), chunks_len: 0, spill: None, in_memory: false }
    }

    /// Forgets what has come so far, but not that it has to stay in memory.
    fn restart(&mut self) {
        *self = Self { in_memory: self.in_memory, ..Self::new() };
    }

    async fn push(&mut self, shared: &Arc<Shared>, key: ObjectKey, chunk: Bytes) {
        shared.counters.bytes_downloaded.add(chunk.len() as u64);
        self.len += chunk.len() as u64;
        self.chunks_len += chunk.len();
        self.chunks.push(chunk);
        if SPILL_BYTES <= self.chunks_len && !self.in_memory {
            let body = std::mem::replace(self, Self::new());
            let dir_shared = Arc::clone(shared);
            *self = shared.write_blocking(move || body.spill(&dir_shared, key)).await;
        }
    }

    /// Writes what is in memory to the temporary file.
    fn spill(mut self, shared: &Shared, key: ObjectKey) -> Self {
        match self.write_chunks(shared, key) {
            Ok(()) => {
                self.chunks.clear();
                self.chunks_len = 0;
            }
            Err(error) => {
                shared.warn_unwritten(&error);
                self.take_back();
            }
        }
        self
    }

    /// Appends the chunks to the temporary file. On an error they are all still here.
    fn write_chunks(&mut self, shared: &Shared, key: ObjectKey) -> io::Result<()> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            empty => empty.insert(Spill { file: shared.dir.temp_file(key)?, crc: Hasher::new() }),
        };
        let mut crc = spill.crc.clone();
        for chunk in &self.chunks {
            crc.update(chunk);
            spill.file.write_all(chunk)?;
        }
        spill.crc = crc;
        Ok(())
    }

    /// Reads what has been written back into memory, after the disk refused the rest.
    fn take_back(&mut self) {
        self.in_memory = true;
        let Some(spill) = self.spill.take() else { return };
        let written = self.len - self.chunks_len as u64;
        let mut bytes = Vec::new();
        let read = spill.file.reopen().and_then(|file| file.take(written).read_to_end(&mut bytes));
        if read.is_ok_and(|n| n as u64 == written) {
            self.chunks.insert(0, bytes.into());
        } else {
            // What was written can't be read: the download begins anew, and stays in memory.
            self.restart();
        }
    }

    /// Puts the object in its place. Blocks.
    ///
    /// `existing` is a file of the same object that turned out not to be as its name says.
    pub(crate) fn commit(mut self, shared: &Shared, key: ObjectKey, existing: Option<Stamp>) -> Outcome {
        let len = self.len;
        if !self.in_memory {
            match self.write_chunks(shared, key).and_then(|()| self.persist(shared, key)) {
                Ok(stamp) => {
                    if let Some(existing) = existing.filter(|existing| *existing != stamp) {
                        let _ = std::fs::remove_file(shared.dir.path(key, existing));
                    }
                    return Outcome::Stored(stamp);
                }
                Err(error) => {
                    shared.warn_unwritten(&error);
                    self.take_back();
                }
            }
        }
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
        let [bytes] = &self.chunks[..] else { return Outcome::Unwritten(self.chunks.concat().into()) };
        Outcome::Unwritten(bytes.clone())
    }

    fn persist(&mut self, shared: &Shared, key: ObjectKey) -> io::Result<Stamp> {
        let spill = self.spill.as_ref().expect("write_chunks makes the file, also for an object without bytes");
        let stamp = Stamp { len: self.len, crc: spill.crc.clone().finalize() };
        // A link made by hand, or a file system that loses bytes: the file must have what it was given.
        let written = spill.file.as_file().metadata()?.len();
        if written != stamp.len {
            return Err(io::Error::new(io::ErrorKind::WriteZero, format!("{written} of {} bytes written", stamp.len)));
        }
        let spill = self.spill.take().expect("it was there two lines ago");
        spill.file.persist(shared.dir.path(key, stamp)).map_err(|error| {
            let io_error = error.error;
            self.spill = Some(Spill { file: error.file, crc: spill.crc });
            io_error
        })?;
        Ok(stamp)
    }
}

/// Returns whether the file holds the bytes that its name says. Blocks.
pub(crate) fn is_intact(shared: &Shared, key: ObjectKey, stamp: Stamp) -> bool {
    let check = || -> io::Result<bool> {
        let mut file = std::fs::File::open(shared.dir.path(key, stamp))?;
        if file.seek(io::SeekFrom::End(0))? != stamp.len {
            return Ok(false);
        }
        file.rewind()?;
        let mut crc = Hasher::new();
        let mut block = vec![0; 128 << 10];
        loop {
            match file.read(&mut block)? {
                0 => return Ok(crc.finalize() == stamp.crc),
                n => crc.update(&block[..n]),
            }
        }
    };
    check().unwrap_or(false)
}
