//! How many processes train together, and which one this is.

pub(crate) mod env;

use std::fmt;

use crate::error::PlanError;

/// One rank of a training run of `world_size` processes, as in torch's distributed training.
///
/// # Example
///
/// ```
/// use planfetch_plan::World;
///
/// let world = World { rank: 3, world_size: 8 };
/// assert_eq!(world.to_string(), "rank 3 of 8");
/// assert!(World { rank: 8, world_size: 8 }.check().is_err());
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
pub struct World {
    /// This process among all, counted from 0.
    pub rank: u32,
    /// The number of processes, at least 1.
    pub world_size: u32,
}

impl World {
    /// The world of a process that trains alone.
    pub const SINGLE: Self = Self { rank: 0, world_size: 1 };

    /// Checks that the rank lies in its world.
    ///
    /// # Errors
    ///
    /// [`PlanError::Rank`] when it does not, or when the world is empty.
    pub fn check(self) -> Result<Self, PlanError> {
        if self.rank < self.world_size {
            Ok(self)
        } else {
            Err(PlanError::Rank { rank: self.rank, world_size: self.world_size })
        }
    }
}

impl Default for World {
    /// Returns [`SINGLE`](Self::SINGLE).
    fn default() -> Self {
        Self::SINGLE
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.world_size)
    }
}

/// What happens to the slots of a global batch that the number of ranks does not divide.
///
/// It is applied to each row of the plan by itself, the short last one too, so that all ranks see the same steps.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[non_exhaustive]
pub enum RemainderPolicy {
    /// Leave them out: every rank has the same number of samples in each step, at most `world_size - 1` samples of a
    /// row go unseen, and a short last row with fewer samples than ranks is no step at all.
    /// For training, where a batch size that the world size divides loses nothing.
    #[default]
    Drop,
    /// Give some ranks one sample more: every sample is delivered exactly once, and a rank may get an empty batch where
    /// a row has fewer samples than there are ranks. All ranks still have the same number of steps.
    Keep,
    /// Repeat samples of the same row, marked as padding, until every rank has the same number. For evaluation:
    /// leave the marked ones out, and every sample counts once.
    Pad,
}
