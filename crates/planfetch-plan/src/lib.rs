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
//! - [`PlanView`] is a plan: a matrix of shape `[num_batches, batch_size]`, cheap to clone and to share.
//! - [`SampleId`] is an entry of the matrix: the row of a sample in the index.
//!
//! # Providers
//!
//! | provider | order |
//! | --- | --- |
//! | [`ShuffleOncePerEpochPlanProvider`] | every sample once, in a fresh random order each epoch; for training |
//! | [`SequentialPlanProvider`] | the order of the index; for validation and test |
//! | [`StreamingStratifiedBatchPlanProvider`] | every batch with the classes in the data set's proportions |
//! | [`BalancedSubsamplingPlanProvider`] | every batch with the same number of samples of each class |
//! | [`WeightedPlanProvider`] | drawn by weight, with or without replacement |
//! | [`MixturePlanProvider`] | several data sets in fixed proportions |
//! | [`CurriculumPlanProvider`] | the easiest samples first, more from epoch to epoch |
//! | [`BucketPlanProvider`] | batches of samples of similar length or shape |
//! | [`SubsetPlanProvider`], [`RepeatPlanProvider`], [`ConcatPlanProvider`] | what their names say, around others |
//!
//! Whatever else is needed implements [`PlanProvider`], which has an example.
//!
//! # Ranks
//!
//! The global plan does not depend on how many processes train. [`PlanView::for_rank`] gives a [`World`]'s rank its
//! columns of each row, and [`World::from_env`] finds out from the launcher which rank this process is:
//!
//! ```
//! use planfetch_plan::{PlanProvider, RemainderPolicy, ShuffleOncePerEpochPlanProvider, World};
//!
//! let plan = ShuffleOncePerEpochPlanProvider::new(1_000, 64, 42)?.plan(0)?;
//! let mine = plan.for_rank(World { rank: 3, world_size: 8 }, RemainderPolicy::Drop)?;
//! assert!(mine.iter().take(15).all(|batch| batch.len() == 8));
//! # Ok::<(), planfetch_plan::PlanError>(())
//! ```
//!
//! # Resuming
//!
//! [`PlanBatchSampler`] walks a plan and has a [`Cursor`] for the checkpoint. Restoring it costs the same at any step,
//! may change the number of ranks, and refuses another order.
//!
//! # Very long epochs
//!
//! [`ShuffleOncePerEpochPlanProvider::with_lazy`] computes ids when they are asked for, by a [`KeyedPermutation`]: an
//! epoch of 10^9 samples starts at once and takes no memory.
//!
//! # What it does not do
//!
//! It does no I/O beyond the reader or writer that [`PlanView::load`] and [`PlanView::save`] are given and the variables
//! that [`World::from_env`] looks up, reads no clock, keeps no global state, and knows neither URIs nor what labels
//! mean. The same settings, seed and epoch give the same bytes on every platform and in every later version;
//! golden digests in the tests say so.
//!
//! # Features
//!
//! | feature | what it adds | default |
//! | --- | --- | --- |
//! | `serde` | cursors, fingerprints, worlds, policies and ids can be serialised | no |

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
