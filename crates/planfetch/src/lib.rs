//! A data loader for Rust training frameworks: millions of objects in a store, read as if they lay in memory.
//!
//! An epoch's whole order is computed before it starts. Because the order is known, what comes next is downloaded to
//! local disk ahead of the training loop, a window of batches is kept around it, what has passed is deleted, and CPU
//! workers decode and collate; the loop only writes `for batch in &mut loader`.
//!
#![cfg_attr(feature = "image", doc = "```no_run")]
#![cfg_attr(not(feature = "image"), doc = "```ignore")]
//! use planfetch::prelude::*;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let index = load_index_csv("train.csv", &CsvSettings::default())?;
//!     let cache = DiskCache::builder("/mnt/nvme/planfetch").build()?;
//!     let plan = ShuffleOncePerEpochPlanProvider::new(index.len(), 64, 42)?;
//!     let images = ImageSettings { mean: IMAGENET_MEAN, std: IMAGENET_STD, ..ImageSettings::default() };
//!     let dataset = ImageDataset::new(index, images.clone())?;
//!     let collate = ImageCollate::new(&images)?;
//!     let (mut loader, controller) =
//!         build_prefetching_loader(dataset, collate, plan, cache, LoaderSettings::default())?;
//!
//!     for epoch in 0..10 {
//!         controller.set_epoch(epoch)?;
//!         for batch in &mut loader {
//!             let batch = batch?;
//!             assert_eq!(batch.images.shape()[1..], [3, 224, 224]); // [64, 3, 224, 224] of f32
//!             assert_eq!(batch.labels.len(), batch.ids().len());    // [64] of i64
//!         }
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # How the parts fit
//!
//! ```text
//!  SampleIndex            PlanProvider            DiskCache              PrefetchingLoader           adapter
//!  which objects  ──────► which order    ──────►  local files   ──────►  decoded batches    ──────►  tensors
//!  (URI, label)           PlanView                (object_store)         in plan order
//! ```
//!
//! - [`SampleIndex`](index::SampleIndex) is what a data set holds; [`load_index_csv`](index::load_index_csv) and
//!   [`load_index`] read one.
//! - [`PlanProvider`](plan::PlanProvider) makes the order of each epoch.
//! - [`DiskCache`](cache::DiskCache) makes objects local: `s3://`, `file://`, and any object store that is registered.
//! - [`PrefetchingLoader`](loader::PrefetchingLoader) gives batches in plan order, made by a
//!   [`Dataset`](loader::Dataset) and a [`Collate`](loader::Collate) of one's own, or by
#![cfg_attr(
    feature = "image",
    doc = "  [`ImageDataset`](image::ImageDataset) and [`ImageCollate`](image::ImageCollate)."
)]
#![cfg_attr(not(feature = "image"), doc = "  those of the feature `image`.")]
//! - `planfetch-burn` and `planfetch-tch` turn batches into the tensors of burn and of libtorch.
//!
//! The names of one task are together in the [`prelude`].
//!
//! # What it does not do
//!
//! It trains nothing, writes to no object store, and does not take part in the communication between ranks.
//!
//! # Features
//!
//! | feature | default | what it brings |
//! | --- | --- | --- |
//! | `aws` | yes | `s3://`, through reqwest and rustls |
//! | `gcp`, `azure`, `http` | no | `gs://`, `az://`, and web servers |
//! | `mmap` | no | maps of local files |
//! | `image` | yes | decoding, augmenting and collating of JPEG, PNG, WebP, GIF, BMP and TIFF, in Rust |
//! | `arrow` | no | indexes from Parquet files and Arrow record batches; the arrow crates take minutes to build |
//! | `listing` | no | indexes from listings of buckets: `list_bucket` |
//! | `config` | no | `Settings`: all settings in one TOML file, which the planfetch program reads too |
//! | `indicatif` | no | a progress bar for training loops |
//! | `metrics` | no | what the loader measures, for exporters of the `metrics` crate |
//! | `serde` | no | serialisable cursors and fingerprints of plans |

mod build;
#[cfg(feature = "listing")]
mod list_bucket;
mod load_index;
pub mod prelude;
mod rank_path;
#[cfg(feature = "config")]
mod settings;

pub use crate::build::build_prefetching_loader;
#[cfg(feature = "listing")]
pub use crate::list_bucket::list_bucket;
pub use crate::load_index::{LoadIndexError, load_index};
pub use crate::rank_path::rank_path;
#[cfg(feature = "config")]
pub use crate::settings::{Settings, SettingsError};

pub use planfetch_cache as cache;
#[cfg(feature = "image")]
pub use planfetch_image as image;
pub use planfetch_index as index;
pub use planfetch_loader as loader;
pub use planfetch_plan as plan;
