//! An object store in memory behind the S3 protocol: for measurements, where a server that reads files and hashes each
//! answer would be what is measured.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use md5::{Digest, Md5};
use s3s::dto::{
    ETag, ETagCondition, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, Range, StreamingBlob,
    Timestamp,
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
}
