//! Files that were given up before they were old enough to go.
//!
//! They may go when room is needed, as all that nobody keeps; else they go with the first thing that happens once they
//! have reached their age.

use std::collections::BTreeSet;
use std::time::Duration;

use super::entry::State;
use super::{Effect, Table};
use crate::key::ObjectKey;

/// When which file is old enough, the first to be so first.
pub(super) type Aging = BTreeSet<(Duration, ObjectKey)>;

impl<W, A> Table<W, A> {
    /// Has files go that are old enough by now, unless somebody keeps them again.
    pub(crate) fn evict_aged(&mut self, effects: &mut Vec<Effect<W, A>>) {
        while let Some((old_enough_at, key)) = self.aging.first().copied()
            && old_enough_at <= self.now
        {
            self.aging.pop_first();
            let Some(entry) = self.entries.get(&key) else { continue };
            if entry.holds == 0 && entry.pins == 0 && matches!(entry.state, State::Local { .. }) {
                // A younger file of the same object comes back here.
                self.settle_local(key, effects);
            }
        }
    }
}
