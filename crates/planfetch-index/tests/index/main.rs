//! What an index does, whatever it is made of. CSV has a file of its own.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test, with the line")]

#[cfg(feature = "arrow")]
mod arrow;
#[cfg(feature = "object_store")]
mod bucket;
mod builder;
mod classes;
#[cfg(all(feature = "gzip", feature = "zstd"))]
mod compressed;
mod describe;
mod export;
mod folder;
mod records;
mod rows;
mod saved;
mod split;
mod uri_list;
