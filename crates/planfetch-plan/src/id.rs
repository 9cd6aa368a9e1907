//! What a plan is made of: the id of a sample.

use std::fmt;

/// The id of a sample: its row in the index, counted from 0.
///
/// # Example
///
/// ```
/// use planfetch_plan::SampleId;
///
/// let labels = [3, 1, 2];
/// assert_eq!(labels[SampleId(1).index()], 1);
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
pub struct SampleId(pub u64);

impl SampleId {
    /// Returns the id as an index into a slice.
    ///
    /// An id that does not fit in `usize` (on a 32-bit platform) becomes `usize::MAX`, which no slice contains.
    #[must_use]
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for SampleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
