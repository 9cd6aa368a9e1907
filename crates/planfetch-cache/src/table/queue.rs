//! Whose turn it is.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::key::ObjectKey;

/// A place in the queue: the more urgent before the less, and in order of arrival among equals.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Place {
    urgency: Reverse<i64>,
    number: u64,
}

impl Place {
    /// For what somebody waits for.
    pub(super) const DEMANDED: Self = Self { urgency: Reverse(i64::MAX), number: 0 };

    /// For what will be needed; a higher priority goes first.
    pub(super) fn prefetched(priority: i32) -> Self {
        Self { urgency: Reverse(i64::from(priority)), number: 0 }
    }

    pub(super) fn is_demanded(self) -> bool {
        self.urgency == Self::DEMANDED.urgency
    }

    /// Returns whether this is more urgent.
    pub(super) fn is_before(self, other: Self) -> bool {
        self.urgency < other.urgency
    }
}

/// Objects that wait for their fetch.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<Place, ObjectKey>,
    next_number: u64,
}

impl Queue {
    /// Puts an object behind all that are as urgent, and returns its place.
    pub(super) fn push(&mut self, place: Place, key: ObjectKey) -> Place {
        let place = Place { number: self.next_number, ..place };
        self.next_number += 1;
        self.waiting.insert(place, key);
        place
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.waiting.remove(&place);
    }

    pub(super) fn first(&self) -> Option<(Place, ObjectKey)> {
        self.waiting.first_key_value().map(|(place, key)| (*place, *key))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
