//! An object store in memory behind the S3 protocol: for measurements, where a server that reads files and hashes each
//! answer would be what is measured.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use md5::{Digest, Md5};
use s3s::dto::{
    ETag, ETagCondition, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, ListObjectsV2Input,
    ListObjectsV2Output, Object as ListedObject, Range, StreamingBlob, Timestamp,
};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

/// Buckets of objects. A clone shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryStore {
    buckets: Arc<RwLock<BTreeMap<String, BTreeMap<String, Object>>>>,
}

#[derive(Clone, Debug)]
struct Object {
    bytes: Bytes,
    etag: String,
}

impl MemoryStore {
    pub(crate) fn put(&self, bucket: &str, key: &str, bytes: &[u8]) {
        let etag = Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let object = Object { bytes: Bytes::copy_from_slice(bytes), etag };
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        buckets.entry(bucket.to_owned()).or_default().insert(key.to_owned(), object);
    }

    fn get(&self, bucket: &str, key: &str) -> S3Result<Object> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        let objects = buckets.get(bucket).ok_or_else(|| s3_error!(NoSuchBucket))?;
        objects.get(key).cloned().ok_or_else(|| s3_error!(NoSuchKey))
    }

    /// Returns up to `max` objects behind the key `after` whose keys begin with `prefix`, and whether there are more.
    fn list(&self, bucket: &str, prefix: &str, after: &str, max: usize) -> S3Result<(Vec<ListedObject>, bool)> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        let objects = buckets.get(bucket).ok_or_else(|| s3_error!(NoSuchBucket))?;
        let from = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let mut found =
            objects.range::<str, _>((from, Bound::Unbounded)).take_while(|(key, _)| key.starts_with(prefix));
        let page = found.by_ref().take(max).map(|(key, object)| ListedObject {
            key: Some(key.clone()),
            size: Some(object.bytes.len() as i64),
            last_modified: Some(Timestamp::from(std::time::UNIX_EPOCH)),
            e_tag: Some(ETag::Strong(object.etag.clone())),
            ..ListedObject::default()
        });
        Ok((page.collect(), found.next().is_some()))
    }
}

#[async_trait::async_trait]
impl S3 for MemoryStore {
    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let object = self.get(&input.bucket, &input.key)?;
        if let Some(ETagCondition::ETag(wanted)) = &input.if_match
            && wanted.value() != object.etag
        {
            return Err(s3_error!(PreconditionFailed));
        }
        let total = object.bytes.len() as u64;
        let range = match input.range {
            None => None,
            Some(range) => Some(range.check(total)?),
        };
        let (bytes, content_range) = match (range, input.range) {
            (Some(range), Some(Range::Int { .. } | Range::Suffix { .. })) => (
                object.bytes.slice(range.start as usize..range.end as usize),
                Some(format!("bytes {}-{}/{total}", range.start, range.end - 1)),
            ),
            _ => (object.bytes, None),
        };
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(bytes.len() as i64),
            content_range,
            body: Some(StreamingBlob::from(s3s::Body::from(bytes))),
            last_modified: Some(Timestamp::from(std::time::UNIX_EPOCH)),
            e_tag: Some(ETag::Strong(object.etag)),
            ..GetObjectOutput::default()
        }))
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let object = self.get(&request.input.bucket, &request.input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(object.bytes.len() as i64),
            last_modified: Some(Timestamp::from(std::time::UNIX_EPOCH)),
            e_tag: Some(ETag::Strong(object.etag)),
            ..HeadObjectOutput::default()
        }))
    }
    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        if input.delimiter.is_some() {
            return Err(s3_error!(NotImplemented, "this server lists without a delimiter"));
        }
        // A page ends with its last key, which is what the next one begins behind.
        let after = input.continuation_token.as_deref().or(input.start_after.as_deref()).unwrap_or_default();
        let max = input.max_keys.map_or(1_000, |max| max.clamp(0, 1_000));
        let prefix = input.prefix.as_deref().unwrap_or_default();
        let (objects, is_truncated) = self.list(&input.bucket, prefix, after, max as usize)?;
        Ok(S3Response::new(ListObjectsV2Output {
            next_continuation_token: objects.last().and_then(|last| last.key.clone()).filter(|_| is_truncated),
            key_count: Some(objects.len() as i32),
            is_truncated: Some(is_truncated),
            contents: Some(objects),
            max_keys: Some(max),
            name: Some(input.bucket),
            prefix: input.prefix,
            ..ListObjectsV2Output::default()
        }))
    }
}
