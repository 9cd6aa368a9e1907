//! planfetch for [tch](https://docs.rs/tch): batches as tensors, for training loops on libtorch.
//!
//! ```
//! use planfetch::image::ndarray::Array1;
//! use planfetch::prelude::*;
//! use planfetch_tch::TchLoaderBuilder;
//! use tch::Kind;
//!
//! /// A data set of one's own.
//! struct Squares;
//!
//! impl ObjectUris for Squares {
//!     fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool { false }
//! }
//!
//! impl Dataset for Squares {
//!     type Sample = Array1<f32>;
//!
//!     fn len(&self) -> u64 { 10 }
//!
//!     fn get(&self, ctx: &mut SampleContext<'_>) -> Result<Array1<f32>, BoxError> {
//!         let id = ctx.id().0 as f32;
//!         Ok(Array1::from_vec(vec![id, id * id]))
//!     }
//! }
//!
//! let plan = ShuffleOncePerEpochPlanProvider::new(10, 5, 42)?;
//! let mut loader = TchLoaderBuilder::new(Squares, plan).build(StackCollate::<f32>::new([2]))?;
//! let mut sum = 0.0;
//! for batch in loader.iter()? {
//!     let batch = batch?; // A tensor of shape [5, 2].
//!     sum += batch.sum(Kind::Float).double_value(&[]);
//! }
//! assert_eq!(sum, 45.0 + 285.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`TchLoader`] gives the batches of an epoch as tensors: `(images, labels)` of images. [`TchLoaderBuilder`] makes it.
//! - [`NamedCollate`] makes dictionaries of tensors.
//! - [`ToTensors`] is for batches of one's own.
//!
//! # How the parts fit
//!
//! Workers download, decode and collate into host memory. On the CPU a tensor shares that memory: the tensor owns the
//! batch, and when the last view of it is gone, the memory goes back to the loader to be filled again. So a buffer is
//! never changed while a tensor sees it, and a tensor that is kept for long costs the loader another buffer, no more.
//!
//! For a GPU, the batch that comes next is copied to pinned memory and uploaded on a stream of its own while the loop
//! computes with the one before, where it is ready by then; what the loop computes with it waits for the copy on the device,
//! and the program does not. Where the run stands is not touched by that: a batch is taken when the loop takes it.
//!
//! # State
//!
//! [`TchLoader::state`] goes into a checkpoint beside the `VarStore`, by
//! [`CheckpointRecorder`](planfetch::loader::CheckpointRecorder). tch does not save the state of its optimizers, so a run
//! that goes on bit for bit needs one without a state, such as plain SGD, or one of its own.
//!
//! # What it does not do
//!
//! It does not average gradients between processes. No part that needs a GPU has been run on one yet.
//!
//! # libtorch
//!
//! Each version of tch wants one version of libtorch, which the variables `LIBTORCH` or `LIBTORCH_USE_PYTORCH` name. The
//! crate's own tests find it without `LD_LIBRARY_PATH`; a program needs a build script that emits
//! `cargo::rustc-link-arg=-Wl,-rpath,` with the value of `DEP_PLANFETCH_TCH_LIBTORCH_LIB`.
//!
//! # Features
//!
//! | feature | default | what it brings |
//! | --- | --- | --- |
//! | `doc-only` | no | `cargo check` and `cargo doc` without libtorch; nothing links |

mod ahead;
mod arrays;
mod builder;
mod foreign;
mod loader;
mod named;
mod to_tensors;
mod transfer;

pub use crate::arrays::{HostArrays, TensorElement};
pub use crate::builder::TchLoaderBuilder;
pub use crate::loader::{TchEpoch, TchLoader, TensorBatch};
pub use crate::named::NamedCollate;
pub use crate::to_tensors::{NamedBatch, NamedTensors, Taken, ToTensors};

/// The chapters of the book, so that their code blocks are compiled.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../book/src/guides/tch.md")]
    mod tch {}

    #[doc = include_str!("../../../book/src/guides/from-pytorch.md")]
    mod from_pytorch {}
}
