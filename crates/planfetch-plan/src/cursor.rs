//! Where a run is in its plan, in a few bytes that go into a checkpoint.

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::provider::PlanProvider;
use std::fmt;

/// A place in the order of a run: everything before it has been consumed, nothing after it.
///
/// Made by [`PlanBatchSampler::cursor`](crate::PlanBatchSampler::cursor) and given back to
/// [`PlanBatchSampler::restore`](crate::PlanBatchSampler::restore). It holds no order, only which provider makes it,
/// and counts samples rather than steps, so that it holds for any number of ranks and, where the order does not depend
/// on it, for any batch size. With the `serde` feature it is serialisable.
///
/// # Example
///
/// ```
/// use planfetch_plan::{PlanBatchSampler, ShuffleOncePerEpochPlanProvider};
///
/// let provider = ShuffleOncePerEpochPlanProvider::new(100, 8, 42)?;
/// let mut sampler = PlanBatchSampler::new(&provider, 3)?;
/// sampler.next();
/// let cursor = sampler.cursor();
/// assert_eq!((cursor.epoch, cursor.position, cursor.step(8)), (3, 8, 1));
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
pub struct Cursor {
    /// The version of this record: [`Cursor::VERSION`].
    pub version: u32,
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// How many samples of the epoch all ranks together have consumed.
    pub position: u64,
    /// Which order: the provider's settings.
    pub fingerprint: Fingerprint,
    /// The provider's seed.
    pub seed: u64,
    /// The number of samples in the data set.
    pub num_samples: u64,
}

/// Why a run can't go on from a cursor with this provider. The message says what differs.
#[derive(Clone, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The cursor was written by a version with another record.
    #[error("the cursor has version {found}, but this version reads cursors of version {}", Cursor::VERSION)]
    Version {
        /// The cursor's version.
        found: u32,
    },
    /// The data set has grown or shrunk.
    #[error("the cursor belongs to a data set of {cursor} samples, but the provider's has {provider}")]
    NumSamples {
        /// The cursor's number of samples.
        cursor: u64,
        /// The provider's number of samples.
        provider: u64,
    },
    /// The seed is another.
    #[error("the cursor belongs to seed {cursor}, but the provider has seed {provider}")]
    Seed {
        /// The cursor's seed.
        cursor: u64,
        /// The provider's seed.
        provider: u64,
    },
    /// The provider is another kind.
    #[error("the cursor belongs to a {cursor} provider, but this is a {provider} provider")]
    Provider {
        /// The name in the cursor's fingerprint.
        cursor: String,
        /// The name in the provider's fingerprint.
        provider: String,
    },
    /// The provider has other settings, labels or weights.
    #[error("the cursor belongs to {cursor}, but this is {provider}: the same kind of provider with other settings")]
    Settings {
        /// The cursor's fingerprint.
        cursor: Fingerprint,
        /// The provider's fingerprint.
        provider: Fingerprint,
    },
    /// The cursor lies beyond the end of the epoch.
    #[error("the cursor is at sample {position} of an epoch that has {num_ids}")]
    Position {
        /// The cursor's position.
        position: u64,
        /// The number of ids in the plan.
        num_ids: u64,
    },
    /// The provider can't make the plan of the cursor's epoch.
    #[error("the plan of the cursor's epoch can't be made")]
    Plan(#[from] PlanError),
}

/// As `Display`, since `main` prints the error that it returns by this.
impl fmt::Debug for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Cursor {
    /// The version of the record that this version of the crate writes and reads.
    pub const VERSION: u32 = 1;

    /// Returns how many steps of global batches of `batch_size` have been begun: the step that comes next, or where the
    /// position lies within a row, since the run had another batch size before, the one behind the rest of that row.
    #[must_use]
    pub fn step(&self, batch_size: usize) -> u64 {
        // OK because an index fits in 64 bits.
        self.position.div_ceil((batch_size as u64).max(1))
    }

    /// Checks that `provider` makes the order that this cursor is a place in.
    ///
    /// # Errors
    ///
    /// The [`RestoreError`] that says what differs.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{PlanBatchSampler, ShuffleOncePerEpochPlanProvider};
    ///
    /// let cursor = PlanBatchSampler::new(&ShuffleOncePerEpochPlanProvider::new(100, 8, 42)?, 0)?.cursor();
    /// let other = ShuffleOncePerEpochPlanProvider::new(100, 8, 43)?;
    /// let error = cursor.check(&other).expect_err("another seed");
    /// assert_eq!(error.to_string(), "the cursor belongs to seed 42, but the provider has seed 43");
    /// # Ok::<(), planfetch_plan::PlanError>(())
    /// ```
    pub fn check(&self, provider: &dyn PlanProvider) -> Result<(), RestoreError> {
        if self.version != Self::VERSION {
            return Err(RestoreError::Version { found: self.version });
        }
        // The fingerprint covers the size and the seed too; what can be named is looked at first.
        if self.num_samples != provider.num_samples() {
            return Err(RestoreError::NumSamples { cursor: self.num_samples, provider: provider.num_samples() });
        }
        if self.seed != provider.seed() {
            return Err(RestoreError::Seed { cursor: self.seed, provider: provider.seed() });
        }
        let fingerprint = provider.fingerprint();
        if self.fingerprint.name() != fingerprint.name() {
            return Err(RestoreError::Provider {
                cursor: self.fingerprint.name().to_owned(),
                provider: fingerprint.name().to_owned(),
            });
        }
        if self.fingerprint != fingerprint {
            return Err(RestoreError::Settings { cursor: self.fingerprint.clone(), provider: fingerprint });
        }
        Ok(())
    }
}
