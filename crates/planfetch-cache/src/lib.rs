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
//!
//! # How the parts fit
//!
//! A request goes to a table that knows of each object whether it is local, on its way or wanted.
//! What is missing is queued: demanded objects in order of demand, then prefetched ones in the order in which they
//! were asked for. At most [`CacheSettings::download_concurrency`] downloads run at once, on a runtime of the cache's
//! own, one for each object however many ask for it. A download is written to a temporary file beside its final place,
//! checked against the length that the store announced, and renamed.
//!
//! # What it promises
//!
//! - A file that was handed out stays while its guard lives.
//! - Bytes are never short, torn or those of another object: length and checksum stand in each file's name,
//!   and a file that was there when the cache was opened is checked against them before it is handed out.
//! - Keys go through byte for byte, and none becomes a path: files are named by hashes.
//! - When the cache can't write (disk full, permission), bytes go to the caller from memory, with one warning.
//! - It deletes only what it wrote, inside a directory that it marked as its own, and writes to no object store.
//!
//! # What it does not do
//!
//! Objects are taken as immutable: a local copy is not compared with the store again.
//! One process uses a directory at a time; a second one is refused.
//!
//! # Features
//!
//! | feature | default | what it brings |
//! | --- | --- | --- |
//! | `aws` | yes | `s3://`, through reqwest and rustls |

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
mod timeline;
mod uri;
mod usage;
mod warnings;

pub use crate::cache::{DiskCache, DiskCacheBuilder};
pub use crate::error::{CacheError, CacheErrorKind};
pub use crate::eviction::{CacheLimit, EvictionMode, NextUse};
pub use crate::local_file::LocalFile;
pub use crate::prefetch_guard::PrefetchGuard;
pub use crate::settings::{CacheSettings, PruneBackend, StoreSettings};
pub use crate::stats::CacheStats;
pub use crate::timeline::{FetchStage, FetchTimeline};
