//! What the tests share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use planfetch_cache::{CacheSettings, DiskCache, DiskCacheBuilder, LocalFile, StoreSettings};
use planfetch_testkit::{ACCESS_KEY, S3Server, SECRET_KEY};

/// Settings under which a test that waits for a fault is quick.
pub(crate) fn quick() -> CacheSettings {
    CacheSettings {
        initial_backoff: Duration::from_millis(5),
        progress_timeout: Duration::from_millis(500),
        ..CacheSettings::default()
    }
}

pub(crate) fn credentials(server: &S3Server) -> StoreSettings {
    StoreSettings {
        endpoint: Some(server.endpoint()),
        access_key_id: Some(ACCESS_KEY.into()),
        secret_access_key: Some(SECRET_KEY.into()),
        ..StoreSettings::default()
    }
}

pub(crate) fn builder(dir: &Path, server: &S3Server) -> DiskCacheBuilder {
    DiskCache::builder(dir.join("cache")).with_settings(quick()).with_store_settings(credentials(server))
}

pub(crate) fn open(dir: &Path, server: &S3Server) -> DiskCache {
    builder(dir, server).build().unwrap()
}

/// Bytes of a kind that no other seed has.
pub(crate) fn content(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 7) as u8).collect()
}

pub(crate) fn read(file: &LocalFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.read_into(&mut bytes).unwrap();
    bytes
}

/// All files below a directory, by name.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// The files of objects, finished or not.
pub(crate) fn objects(dir: &Path) -> Vec<PathBuf> {
    files(&dir.join("cache/objects"))
}

pub(crate) fn temp_files(dir: &Path) -> Vec<PathBuf> {
    objects(dir).into_iter().filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with('.')).collect()
}
