//! What can be wrong with a plan's settings.

/// Why a plan can't be made. The message names the offending value and the range that is allowed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
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
}
