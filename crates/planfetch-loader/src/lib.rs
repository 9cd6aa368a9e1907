//! Batches in plan order, made ahead of the training loop.
//!
//! ```
//! use planfetch_loader::{BoxError, Dataset, LoaderBuilder, ObjectUris, SampleContext, VecCollate};
//! use planfetch_plan::{SampleId, SequentialPlanProvider};
//!
//! /// A data set of one's own: the length of each object.
//! struct Lengths(planfetch_index::SampleIndex);
//!
//! impl ObjectUris for Lengths {
//!     fn write_uri(&self, id: SampleId, uri: &mut String) -> bool { self.0.write_uri(id, uri) }
//! }
//!
//! impl Dataset for Lengths {
//!     type Sample = u64;
//!
//!     fn len(&self) -> u64 { self.0.len() }
//!
//!     fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
//!         Ok(ctx.file().ok_or("every sample has a file")?.len())
//!     }
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let rows: Vec<(String, u32)> = (0..5).map(|i| {
//! #     let path = folder.path().join(format!("{i}.txt"));
//! #     std::fs::write(&path, vec![0; i]).expect("written");
//! #     (format!("file://{}", path.display()), 0)
//! # }).collect();
//! let index = planfetch_index::SampleIndex::from_rows(rows)?;
//! let plan = SequentialPlanProvider::new(index.len(), 2)?;
//! let cache = planfetch_cache::DiskCache::builder(folder.path().join("cache")).build()?;
//! let (mut loader, _) = LoaderBuilder::new(Lengths(index), VecCollate, plan).with_cache(cache).build()?;
//!
//! let batches = (&mut loader).map(|batch| Ok(batch?.into_inner())).collect::<Result<Vec<_>, BoxError>>()?;
//! assert_eq!(batches, [vec![0, 1], vec![2, 3], vec![4]]);
//! # Ok::<(), BoxError>(())
//! ```
//!
//! - [`Dataset`] makes a sample of its id and its local file; [`Collate`] makes a batch of samples.
//! - [`LoaderBuilder`] puts them together with a plan and a cache.
//! - [`PrefetchingLoader`] is the iterator over batches, [`PrefetchController`] says which epoch it delivers.
//! - [`LoaderState`] is where a run is, to go on from in another process, and [`CheckpointRecorder`] keeps it
//!   on disk beside the model; [`LoaderReport`] is where its time went.
//! - [`PrefetchCoordinator`] keeps the window local; it is public for those who own their loop.
//!
//! # How the parts fit
//!
//! The coordinator, on a thread of its own, walks the plan with the reader and asks the cache for the objects of the
//! next `batches_ahead` steps, in plan order. Assemblers, one thread for each batch in the making, demand the objects of
//! their batch and hand each sample to the workers as soon as its object is local, so that no worker waits for one.
//! Workers, a rayon pool, decode into the sample's slot of the batch. A schedule gives the batches to the reader in plan
//! order, whatever order they were finished in.
//!
//! # What it does not do
//!
//! It knows neither pixels nor tensors, and it makes no plan: see `planfetch-image`, the adapters, and `planfetch-plan`.
//!
//! # Features
//!
//! | feature | default | what it brings |
//! | --- | --- | --- |
//! | `indicatif` | no | a progress bar for training loops |
//! | `metrics` | no | what is measured, for exporters of the `metrics` crate |
//!
//! With `metrics`, these are reported: the counters `planfetch_batches_total`, `planfetch_samples_total` and
//! `planfetch_failed_samples_total`, the histogram `planfetch_wait_seconds`, and the counter
//! `planfetch_waited_microseconds_total` with the label `cause`.

/// The random generators of [`SampleContext::rng`], in the version that it uses.
pub use rand_chacha;

mod arrivals;
mod assemble;
mod batch;
mod builder;
mod checkpoint;
mod collate;
mod controller;
mod coordinator;
mod dataset;
mod depth;
mod epoch;
mod error;
mod exchange;
mod failures;
mod fill;
mod follow;
mod insight;
mod loader;
mod next_use;
mod object_path;
mod on_error;
mod plans;
#[cfg(feature = "indicatif")]
mod progress;
mod schedule;
mod settings;
mod shared;
mod state;
mod stats;
mod window;

pub use crate::batch::Batch;
pub use crate::builder::LoaderBuilder;
pub use crate::checkpoint::{Checkpoint, CheckpointError, CheckpointRecorder};
pub use crate::collate::{Collate, CollateFn, PadCollate, PaddedBatch, StackCollate, VecCollate, collate_fn};
pub use crate::controller::PrefetchController;
pub use crate::coordinator::PrefetchCoordinator;
pub use crate::dataset::{Dataset, ObjectUris, SampleContext};
pub use crate::epoch::Epoch;
pub use crate::error::{BoxError, FailedSample, LoaderError};
pub use crate::insight::cause::Cause;
pub use crate::insight::report::{CauseReport, HeldUp, LoaderReport, StageReport};
pub use crate::insight::verdict::{BoundBy, Verdict};
pub use crate::loader::{LoaderAndController, PrefetchingLoader};
pub use crate::object_path::ObjectPathDataset;
pub use crate::on_error::OnError;
#[cfg(feature = "indicatif")]
pub use crate::progress::WithProgress;
pub use crate::settings::{BatchesAhead, LoaderSettings};
pub use crate::state::LoaderState;
pub use crate::stats::LoaderStats;
