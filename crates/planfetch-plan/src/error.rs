//! What can be wrong with a plan's settings.

use std::fmt;

/// Why a plan can't be made. The message names the offending value and the range that is allowed.
#[derive(Clone, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The batch size is 0, or larger than this platform can index.
    #[error("batch_size is {batch_size}, but must lie in 1..={max}")]
    BatchSize {
        /// The batch size that was given.
        batch_size: u64,
        /// The largest that is allowed.
        max: u64,
    },
    /// There are more samples than this platform can index.
    #[error(
        "a dense plan of {num_samples} samples does not fit in memory; at most {max} can be indexed on this platform"
    )]
    NumSamples {
        /// The number of samples that was given.
        num_samples: u64,
        /// The largest that is allowed.
        max: u64,
    },
    /// There is no memory for a dense plan.
    #[error("there is no memory for a dense plan of {num_ids} ids; use a lazy shuffle, or shorter epochs")]
    Memory {
        /// The number of ids of the plan.
        num_ids: u64,
    },
    /// A sample id lies outside the data set.
    #[error(
        "the plan holds sample id {id}, but the data set has {num_samples} samples: ids must lie in 0..{num_samples}"
    )]
    SampleId {
        /// The offending id.
        id: u64,
        /// The number of samples in the data set.
        num_samples: u64,
    },
    /// A label names a class that does not exist.
    #[error(
        "sample {index} has label {label}, but there are {num_classes} classes: labels must lie in 0..{num_classes}"
    )]
    Label {
        /// The sample with the offending label.
        index: u64,
        /// The offending label.
        label: u32,
        /// The number of classes that was given.
        num_classes: u32,
    },
    /// A number in a list of weights, scores or shares can't be used.
    #[error("{list} {index} is {value}, but must be {allowed}")]
    Value {
        /// What the list holds, such as `weight`.
        list: &'static str,
        /// The position in the list, counted from 0.
        index: u64,
        /// The offending value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A setting lies outside its range.
    #[error("{name} is {value}, but {allowed}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// The offending value.
        value: String,
        /// What is allowed, as a clause such as "must be at least 1", and where it helps, what to do.
        allowed: String,
    },
    /// A provider around others got from one of them a plan of another length than before.
    #[error(
        "provider {index} planned {found} samples for epoch {epoch} but {expected} for epoch 0; \
         what is mixed must have epochs of one length"
    )]
    EpochLength {
        /// The position of the inner provider, counted from 0.
        index: usize,
        /// The epoch of the inner provider.
        epoch: u64,
        /// How many ids its plan holds.
        found: u64,
        /// How many ids its plan of epoch 0 holds.
        expected: u64,
    },
    /// A rank lies outside its world.
    #[error("rank is {rank}, but must lie in 0..world_size, which is {world_size}; ranks count from 0")]
    Rank {
        /// The rank that was given.
        rank: u32,
        /// The number of ranks that was given.
        world_size: u32,
    },
    /// Dropping what does not divide leaves nothing.
    #[error(
        "a global batch of {batch_size} over {world_size} ranks leaves no sample with RemainderPolicy::Drop; \
         make batch_size at least {world_size}, or use Keep or Pad"
    )]
    NothingLeft {
        /// The global batch size.
        batch_size: u64,
        /// The number of ranks.
        world_size: u32,
    },
}

/// As `Display`, since `main` prints the error that it returns by this.
impl fmt::Debug for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PlanError {
    /// `allowed` is what it must be.
    pub(crate) fn setting(name: &'static str, value: impl ToString, allowed: impl fmt::Display) -> Self {
        Self::Setting { name, value: value.to_string(), allowed: format!("must be {allowed}") }
    }
}
