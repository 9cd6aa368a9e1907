//! What a training loop may wait for.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What the training loop waited for, at any moment of a wait: exactly one of these.
///
/// A batch is complete when its last sample is; so what that sample was waiting for is what the batch was waiting for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The plan of the epoch was being made, or all that make batches were busy with others.
    Plan,
    /// An object waited for one of the downloads that may run at once.
    Queue,
    /// A request was on its way: connecting, and the store's time to the first byte.
    Request,
    /// The bytes of an object came in.
    Body,
    /// A download had failed or was throttled, and paused before another attempt.
    Backoff,
    /// An object was written to the disk, or waited for its turn to be.
    Write,
    /// A file that was there already was read, to check it.
    Verify,
    /// An object was local, but every worker was busy.
    Workers,
    /// A worker made the sample: it read the file, decoded, transformed, and put it into its slot.
    Decode,
    /// The collate finished the batch.
    Collate,
    /// Another batch was ready, but not the next in plan order.
    Order,
    /// The batch had to be made again, since samples of it had failed.
    Retry,
    /// One thread told another.
    Handover,
    /// The wait ended at [`timeout`](crate::LoaderSettings::timeout), and its batch has not come since. When it comes,
    /// the wait is charged to what the batch waited for.
    Pending,
}

impl Cause {
    /// All causes, in the order in which a sample meets them.
    pub const ALL: [Self; 14] = [
        Self::Plan,
        Self::Queue,
        Self::Request,
        Self::Body,
        Self::Backoff,
        Self::Write,
        Self::Verify,
        Self::Workers,
        Self::Decode,
        Self::Collate,
        Self::Order,
        Self::Retry,
        Self::Handover,
        Self::Pending,
    ];

    /// Returns the name, as it is serialised.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Queue => "queue",
            Self::Request => "request",
            Self::Body => "body",
            Self::Backoff => "backoff",
            Self::Write => "write",
            Self::Verify => "verify",
            Self::Workers => "workers",
            Self::Decode => "decode",
            Self::Collate => "collate",
            Self::Order => "order",
            Self::Retry => "retry",
            Self::Handover => "handover",
            Self::Pending => "pending",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A value for each cause.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct PerCause<T>([T; Cause::ALL.len()]);

impl<T> PerCause<T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Cause, &T)> {
        Cause::ALL.into_iter().zip(&self.0)
    }
}

impl PerCause<Duration> {
    /// Returns the cause with the largest part; of equal ones, the last.
    pub(crate) fn largest(&self) -> Cause {
        self.iter().max_by_key(|(_, part)| **part).map_or(Cause::Handover, |(cause, _)| cause)
    }
}

impl<T> std::ops::Index<Cause> for PerCause<T> {
    type Output = T;

    fn index(&self, cause: Cause) -> &T {
        // OK because the causes are numbered as they are listed.
        &self.0[cause as usize]
    }
}

impl<T> std::ops::IndexMut<Cause> for PerCause<T> {
    fn index_mut(&mut self, cause: Cause) -> &mut T {
        &mut self.0[cause as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_own_number_and_its_serialised_name() {
        for (number, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
            assert_eq!(serde_json::to_string(&cause).unwrap(), format!("{:?}", cause.name()));
        }
    }
}
