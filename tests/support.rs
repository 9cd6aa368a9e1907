//! What the tests share.

use std::path::Path;
use std::time::Duration;

use planfetch::prelude::*;
use planfetch_testkit::{ACCESS_KEY, S3Server, SECRET_KEY};

pub(crate) fn store_settings(server: &S3Server) -> StoreSettings {
    StoreSettings {
        endpoint: Some(server.endpoint()),
        access_key_id: Some(ACCESS_KEY.into()),
        secret_access_key: Some(SECRET_KEY.into()),
        ..StoreSettings::default()
    }
}

/// Opens a cache whose failures come quickly.
pub(crate) fn open(dir: &Path, server: &S3Server) -> DiskCache {
    let settings = CacheSettings {
        initial_backoff: Duration::from_millis(5),
        progress_timeout: Duration::from_millis(500),
        ..CacheSettings::default()
    };
    DiskCache::builder(dir.join("cache"))
        .with_settings(settings)
        .with_store_settings(store_settings(server))
        .build()
        .unwrap()
}

/// The length and a checksum of each object, in place of an image: quick, and every byte counts.
pub(crate) struct Sums(pub(crate) SampleIndex);

impl ObjectUris for Sums {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.0.write_uri(id, uri)
    }
}

impl Dataset for Sums {
    type Sample = (u64, u64);

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<(u64, u64), BoxError> {
        let mut bytes = Vec::new();
        ctx.file().ok_or("every sample has a file")?.read_into(&mut bytes)?;
        let sum = bytes.iter().fold(0_u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Ok((ctx.id().0, sum))
    }
}

/// Puts `n` small objects in place, each with bytes of its own, and returns their index.
pub(crate) fn put_objects(server: &S3Server, n: usize) -> SampleIndex {
    let rows: Vec<(String, u32)> = (0..n)
        .map(|i| {
            let key = format!("{:02}/{i:05}.bin", i % 7);
            let bytes: Vec<u8> = (0..500 + i % 400).map(|j| (i * 31 + j * 7) as u8).collect();
            server.put("objects", &key, &bytes);
            (format!("s3://objects/{key}"), (i % 5) as u32)
        })
        .collect();
    SampleIndex::from_rows(rows).unwrap()
}

/// The ids that an epoch of the plan holds, batch by batch.
pub(crate) fn planned(provider: &impl PlanProvider, epoch: u64) -> Vec<Vec<SampleId>> {
    provider.plan(epoch).unwrap().iter().map(|batch| batch.to_vec()).collect()
}

/// Files of the cache that are not whole objects.
pub(crate) fn temp_files(cache_dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![cache_dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name().to_str().unwrap().starts_with(".tmp") {
                found.push(entry.path());
            }
        }
    }
    found
}
