//! An object store that knows how much of what it gave out is still in memory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use planfetch_cache::object_store;

const CHUNK: usize = 1 << 20;

/// A store in which every key names the same object.
#[derive(Clone, Debug)]
pub(crate) struct CountingStore {
    object: Arc<Vec<u8>>,
    counts: Arc<Counts>,
    /// What the object is after the first request, whose body breaks off.
    next: Option<Arc<Self>>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicUsize,
    in_memory: AtomicUsize,
    most_in_memory: AtomicUsize,
}

/// Some bytes, which count while they are in memory.
struct Chunk {
    bytes: Vec<u8>,
    counts: Arc<Counts>,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.counts.in_memory.fetch_sub(self.bytes.len(), Ordering::SeqCst);
    }
}

impl CountingStore {
    pub(crate) fn new(object: Vec<u8>) -> Self {
        Self { object: Arc::new(object), counts: Arc::default(), next: None }
    }

    /// Has the body of the first request break off after 1 MiB, and then names another object, under the same tag.
    pub(crate) fn replaced_by(self, next: Self) -> Self {
        Self { next: Some(Arc::new(next)), ..self }
    }

    /// The most bytes that have been in memory at once.
    pub(crate) fn most_in_memory(&self) -> usize {
        self.counts.most_in_memory.load(Ordering::SeqCst)
    }

    fn chunk(&self, range: Range<usize>) -> Bytes {
        let chunk = Chunk { bytes: self.object[range].to_vec(), counts: Arc::clone(&self.counts) };
        let now = self.counts.in_memory.fetch_add(chunk.bytes.len(), Ordering::SeqCst) + chunk.bytes.len();
        self.counts.most_in_memory.fetch_max(now, Ordering::SeqCst);
        Bytes::from_owner(chunk)
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let store = self.clone();
        let next = move |at: usize| {
            let store = store.clone();
            async move {
                // Others come in between, as from a network.
                tokio::task::yield_now().await;
                let end = (at + CHUNK).min(range.end as usize);
                (at < end).then(|| (Ok(store.chunk(at..end)), end))
            }
        };
        stream::unfold(range.start as usize, next).boxed()
    }
}

impl fmt::Display for CountingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CountingStore")
    }
}

#[async_trait]
impl ObjectStore for CountingStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let nth = self.counts.requests.fetch_add(1, Ordering::SeqCst);
        if let (Some(next), 1..) = (&self.next, nth) {
            return next.get_opts(location, options).await;
        }
        let size = self.object.len() as u64;
        let range = match options.range {
            None => 0..size,
            Some(GetRange::Bounded(range)) => range.start..range.end.min(size),
            Some(GetRange::Offset(from)) => from..size,
            Some(GetRange::Suffix(len)) => size - len..size,
        };
        let meta = ObjectMeta {
            location: location.clone(),
            last_modified: std::time::UNIX_EPOCH.into(),
            size,
            e_tag: Some("\"tag\"".into()),
            version: None,
        };
        let mut body = self.stream(range.clone());
        if self.next.is_some() {
            let broken = || Err(object_store::Error::Generic { store: "CountingStore", source: "broken".into() });
            body = body.take(1).chain(stream::once(async move { broken() })).boxed();
        }
        let payload = GetResultPayload::Stream(body);
        Ok(GetResult { payload, meta, range, attributes: Default::default(), extensions: Default::default() })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(object_store::Error::NotImplemented { operation: "put".into(), implementer: self.to_string() })
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(object_store::Error::NotImplemented { operation: "put".into(), implementer: self.to_string() })
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::empty().boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::empty().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(object_store::Error::NotImplemented { operation: "list".into(), implementer: self.to_string() })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(object_store::Error::NotImplemented { operation: "copy".into(), implementer: self.to_string() })
    }
}
