//! planfetch for [burn](https://burn.dev): the `DataLoader` that a burn project adds instead of the built-in one.
//!
//! ```
//! use burn::data::dataloader::DataLoader;
//! use burn::data::dataloader::batcher::Batcher;
//! use burn::tensor::{Device, Int, Tensor};
//! use planfetch::prelude::*;
//! use planfetch_burn::PlanDataLoaderBuilder;
//!
//! /// An existing batcher, as it is.
//! struct Lengths;
//!
//! impl Batcher<(i64, i64), Tensor<1, Int>> for Lengths {
//!     fn batch(&self, items: Vec<(i64, i64)>, device: &Device) -> Tensor<1, Int> {
//!         let lengths: Vec<i64> = items.into_iter().map(|(length, _label)| length).collect();
//!         Tensor::from_data(lengths.as_slice(), device)
//!     }
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let rows: Vec<(String, u32)> = (0..10).map(|i| {
//! #     let path = folder.path().join(format!("{i}.txt"));
//! #     std::fs::write(&path, vec![0; i]).expect("written");
//! #     (format!("file://{}", path.display()), 0)
//! # }).collect();
//! let index = SampleIndex::from_rows(rows)?;
//! let cache = DiskCache::builder(folder.path().join("cache")).build()?;
//! let plan = ShuffleOncePerEpochPlanProvider::new(index.len(), 4, 42)?;
//! let dataset = ObjectPathDataset::new(index, |file| Ok(file.len() as i64));
//! let loader = PlanDataLoaderBuilder::new(dataset, plan).with_cache(cache).build_with_batcher(Lengths)?;
//!
//! // What burn's Learner does with it:
//! let mut sum = 0;
//! for batch in loader.iter() {
//!     sum += batch?.sum().into_scalar::<i64>();
//! }
//! assert_eq!((loader.num_items(), sum), (10, 45));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`PlanDataLoader`] implements burn's [`DataLoader`](burn::data::dataloader::DataLoader): batches in plan order,
//!   with exact progress, for one device or several. [`PlanDataLoaderBuilder`] makes it.
//! - [`PlanController`] says which epoch comes next, and where the run is and how it is doing.
//! - [`ToTensors`] turns a batch on the host into tensors; burn's own
//!   [`Batcher`](burn::data::dataloader::batcher::Batcher) works as well.
//! - [`CheckpointRecorder`](planfetch::loader::CheckpointRecorder) keeps the loader's state beside the model's record, so
//!   that a killed run goes on with the next batch.
//! - [`BurnDataset`] is the other way round: a burn [`Dataset`](burn::data::dataset::Dataset) over an index and a
//!   cache, for burn's own loader.
//!
//! # How the parts fit
//!
//! Workers download, decode and collate into host memory. Tensors are made on the thread that takes the batch, and on
//! no other. That matters: burn's GPU backends keep a stream and a memory pool for every thread that makes tensors, so a
//! loader that made them on its workers would hold device memory for each.
//!
//! A training loop of one's own may as well iterate over a
//! [`PrefetchingLoader`](planfetch::loader::PrefetchingLoader) and call [`ToTensors::to_tensors`], which copies, or
//! [`ToTensors::into_tensors`].
//!
//! Images aren't copied on their way to burn: the data of the tensor is the batch itself, which the loader fills again
//! when burn has let go of it. `Flex` computes on that memory, backends with a device upload from it, and the other
//! backends on the CPU copy it into theirs.
//!
//! # What it does not do
//!
//! burn's `Learner` checkpoints at the end of an epoch, so it resumes at one; to go on in the middle of an epoch takes a
//! loop of one's own.
//!
//! # Features
//!
//! | feature | default | what it brings |
//! | --- | --- | --- |
//! | `train` | no | `ReportLogger`: what the training waited for, in the log of burn's `Learner` |

mod batches;
mod builder;
mod controller;
mod dataset;
mod epoch;
mod loader;
mod parts;
#[cfg(feature = "train")]
mod report_logger;
mod slices;
mod soft_label_collate;
mod to_tensors;

pub use crate::builder::PlanDataLoaderBuilder;
pub use crate::controller::PlanController;
pub use crate::dataset::BurnDataset;
pub use crate::loader::PlanDataLoader;
#[cfg(feature = "train")]
pub use crate::report_logger::ReportLogger;
pub use crate::soft_label_collate::SoftLabelCollate;
pub use crate::to_tensors::{Pixel, SoftLabels, ToTensors, ToTensorsError};

/// The chapters of the book, so that their code blocks are compiled.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../book/src/guides/burn.md")]
    mod burn {}

    #[doc = include_str!("../../../book/src/guides/local-folder.md")]
    mod local_folder {}
}
