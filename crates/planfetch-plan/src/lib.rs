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

mod cursor;
mod error;
mod fingerprint;
mod id;
mod ids;
mod matrix;
mod permutation;
mod pools;
mod provider;
mod rank;
mod rng;
mod sampler;
mod shares;
mod view;
mod weights;
mod world;

pub use crate::cursor::{Cursor, RestoreError};
pub use crate::error::PlanError;
pub use crate::fingerprint::{FieldValue, Fingerprint, ParseFingerprintError};
pub use crate::id::SampleId;
pub use crate::permutation::{FeistelNetwork, KeyedPermutation};
pub use crate::provider::PlanProvider;
pub use crate::provider::balanced::BalancedSubsamplingPlanProvider;
pub use crate::provider::bucket::BucketPlanProvider;
pub use crate::provider::concat::ConcatPlanProvider;
pub use crate::provider::curriculum::{CurriculumOrder, CurriculumPlanProvider, Pacing};
pub use crate::provider::mixture::{MixtureMode, MixturePlanProvider, MixtureSource};
pub use crate::provider::repeat::RepeatPlanProvider;
pub use crate::provider::sequential::SequentialPlanProvider;
pub use crate::provider::shuffle::ShuffleOncePerEpochPlanProvider;
pub use crate::provider::stratified::StreamingStratifiedBatchPlanProvider;
pub use crate::provider::subset::SubsetPlanProvider;
pub use crate::provider::weighted::WeightedPlanProvider;
pub use crate::rank::{RankBatch, RankPlan, RankSlot};
pub use crate::sampler::PlanBatchSampler;
pub use crate::view::PlanView;
pub use crate::view::batch::{BatchIds, BatchIdsIter, IdSlice, PlanViewIter};
pub use crate::view::digest::PlanDigest;
pub use crate::view::explain::{Explanation, Provenance};
pub use crate::view::saved::LoadError;
pub use crate::world::env::{DetectedWorld, Launcher, WorldError};
pub use crate::world::{RemainderPolicy, World};
