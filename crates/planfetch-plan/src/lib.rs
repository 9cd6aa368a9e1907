//! The order of a training run: an epoch as a dense matrix of sample ids, computed before it starts.
//!
//! ```
//! use planfetch_plan::{PlanProvider, ShuffleOncePerEpochPlanProvider};
//!
//! // 10 samples in batches of 4: every sample once an epoch, in a fresh order each epoch.
//! let provider = ShuffleOncePerEpochPlanProvider::new(10, 4, 42)?;
//! let plan = provider.plan(0)?;
//! assert_eq!(plan.num_batches(), 3);
//! assert_eq!(plan.batch(2).expect("the third batch").len(), 2);
//!
//! let mut ids: Vec<usize> = plan.iter().flat_map(|batch| batch.to_vec()).map(|id| id.index()).collect();
//! ids.sort_unstable();
//! assert_eq!(ids, (0..10).collect::<Vec<_>>());
//! assert_ne!(plan.digest(), provider.plan(1)?.digest());
//! # Ok::<(), planfetch_plan::PlanError>(())
//! ```
//!
//! Three types carry the crate:
//!
//! - [`PlanProvider`] makes plans: a pure function of its settings, its seed and the epoch.
//!   [`ShuffleOncePerEpochPlanProvider`] is for training, [`SequentialPlanProvider`] for validation and test.
//! - [`PlanView`] is a plan: a matrix of shape `[num_batches, batch_size]`, cheap to clone and to share.
//! - [`SampleId`] is an entry of the matrix: the row of a sample in the index.
//!
//! # What it does not do
//!
//! It does no I/O, reads no clock, keeps no global state, and knows neither URIs nor what labels mean.
//! The same settings, seed and epoch give the same bytes on every platform and in every later version;
//! golden digests in the tests say so.

mod error;
mod id;
mod ids;
mod permutation;
mod provider;
mod rng;
mod view;

pub use crate::error::PlanError;
pub use crate::id::SampleId;
pub use crate::provider::PlanProvider;
pub use crate::provider::sequential::SequentialPlanProvider;
pub use crate::provider::shuffle::ShuffleOncePerEpochPlanProvider;
pub use crate::view::{BatchIds, BatchIdsIter, PlanDigest, PlanView, PlanViewIter};
