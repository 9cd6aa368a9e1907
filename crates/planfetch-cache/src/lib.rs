//! A local disk cache for objects of any object store.
//!
//! ```
//! use std::sync::Arc;
//! use planfetch_cache::DiskCache;
//! use object_store::{ObjectStoreExt, memory::InMemory, path::Path};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! let store = Arc::new(InMemory::new());
//! # runtime.block_on(
//! store.put(&Path::parse("cat.jpg")?, "meow".into())
//! # )?;
//! # ;
//! # let folder = tempfile::tempdir()?;
//! # let dir = folder.path().join("cache");
//! let cache = DiskCache::builder(dir).with_store("memory://pets", store).build()?;
//!
//! // Downloads the object, or finds it local: what the guard names stays readable while the guard lives.
//! let file = cache.ensure_local("memory://pets/cat.jpg")?;
//! let mut bytes = Vec::new();
//! file.read_into(&mut bytes)?;
//! assert_eq!(bytes, b"meow");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`DiskCache`] is a directory of downloaded objects. A clone is another handle to the same cache.
//! - [`LocalFile`] is a guard on one of its files, made by [`DiskCache::ensure_local`] and its asynchronous twin.
//! - [`PrefetchGuard`] asks for an object before it is needed and keeps it, made by [`DiskCache::prefetch`].
//! - [`CacheSettings`] and [`StoreSettings`] are plain values; object stores come in by [`DiskCacheBuilder::with_store`].
//! - [`CacheInspector`] looks at a directory from outside, beside whatever uses it.
//! - [`EvictionMode`], [`CacheLimit`] and [`PruneBackend`] say what stays on disk, and for how many processes.
//!
//! # How the parts fit
//!
//! A request goes to a table that knows of each object whether it is local, on its way or wanted.
//! What is missing is queued: demanded objects in order of demand, then prefetched ones in the order in which they
//! were asked for. At most [`CacheSettings::download_concurrency`] downloads run at once, on a runtime of the cache's
//! own, one for each object however many ask for it. A download is written to a temporary file beside its final place,
//! checked against the length that the store announced, and renamed.
//!
//! # Keeping to a limit
//!
//! Room is reserved before it is used, so that [`CacheSettings::limit`] is never exceeded. What goes to make room, the
//! mode says; what a guard keeps never goes. Where all that the limit allows is in use, objects are read into memory,
//! and nothing more is prefetched.
//!
//! ```
//! use planfetch_cache::{CacheLimit, CacheSettings, DiskCache, EvictionMode};
//!
//! # let folder = tempfile::tempdir()?;
//! # let uri = |name: &str| format!("file://{}/{name}", folder.path().display());
//! # ["a", "b", "c"].iter().for_each(|name| std::fs::write(folder.path().join(name), [0; 1_000]).expect("written"));
//! let settings = CacheSettings {
//!     eviction: EvictionMode::Pressure,
//!     limit: CacheLimit::TotalSize(2_000),
//!     low_watermark: 1.0,
//!     ..CacheSettings::default()
//! };
//! let cache = DiskCache::builder(folder.path().join("cache")).with_settings(settings).build()?;
//! for name in ["a", "b", "c"] {
//!     drop(cache.ensure_local(&uri(name))?);
//! }
//! assert_eq!(cache.stats().local_bytes, 2_000);
//! assert!(!cache.contains(&uri("a")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Sharing a directory
//!
//! With [`PruneBackend::Scan`], any number of processes on one machine use one directory: the ranks of a training job, or
//! several jobs over the same data. Each object is downloaded by one of them, and what one uses none deletes. A process
//! that is killed leaves nothing behind that the others would wait for.
//!
//! # What it promises
//!
//! - A file that was handed out stays while its guard lives.
//! - Bytes are never short, torn or those of another object: length and checksum stand in each file's name,
//!   and a file that was there when the cache was opened is checked against them before it is handed out.
//! - Keys go through byte for byte, and none becomes a path: files are named by hashes.
//! - When the cache can't write (disk full, permission) or read, bytes go to the caller from the store, with one warning.
//! - It deletes only what it wrote, inside a directory that it marked as its own, and writes to no object store.
//! - A store that refuses requests (503, 429) is asked at the pace that it bears, and no error comes of it.
//! - No key, token or signature appears in an error, a log line or a file name.
//!
//! # What it does not do
//!
//! Objects are taken as immutable: a local copy is not compared with the store again, unless
//! [`DiskCache::invalidate`] asks for it; of a part that was asked for by its range,
//! [`DiskCache::invalidate_range`]. Signed URLs are not supported. That a store sends wrong bytes of the right
//! length is not noticed.
//!
//! # Features
//!
//! | feature | default | what it brings |
//! | --- | --- | --- |
//! | `aws` | yes | `s3://`, through reqwest and rustls |
//! | `gcp` | no | `gs://`, opened from the variables `GOOGLE_*` that object_store reads |
//! | `azure` | no | `az://container/key`, opened from the variables `AZURE_*` |
//! | `http` | no | `http://` and `https://`; plain http on this machine, or where [`StoreSettings::allow_http`] says so |
//! | `mmap` | no | `LocalFile::mmap`, through memmap2 |
//!
//! Linux is what it is made for and tested on. [`PruneBackend::Scan`] needs Linux.

/// The object stores of [`DiskCacheBuilder::with_store`], in the version that it takes.
pub use object_store;

mod body;
mod cache;
mod directory;
mod download;
mod error;
mod eviction;
mod exchange;
mod failure;
mod inspect;
mod key;
mod lease;
mod local_file;
mod pace;
mod parts;
mod prefetch_guard;
mod retry;
mod settings;
mod shared;
mod sharing;
mod slot;
mod stats;
mod stores;
mod table;
mod target;
mod temp_file;
mod timeline;
mod uri;
mod usage;
mod warnings;
mod writers;

pub use crate::cache::{DiskCache, DiskCacheBuilder};
pub use crate::error::{CacheError, CacheErrorKind};
pub use crate::eviction::{CacheLimit, EvictionMode, NextUse};
pub use crate::inspect::{CacheInspector, DamagedFile, DirectoryUsage, DirectoryUsers};
pub use crate::local_file::LocalFile;
pub use crate::prefetch_guard::PrefetchGuard;
pub use crate::settings::{CacheSettings, PruneBackend, StoreSettings};
pub use crate::stats::CacheStats;
pub use crate::timeline::{FetchStage, FetchTimeline};
