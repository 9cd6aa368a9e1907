//! Objects that changed in the store while files of them are in use.
//!
//! Requests are not given such a file any more; it is *disowned*, and goes when the last guard that names it is gone.

use std::collections::HashMap;

use super::entry::{Entry, State};
use super::{Amount, Effect, Outcome, Table};
use crate::key::{ObjectKey, Stamp};

impl<W, A> Table<W, A> {
    /// Lets requests have the object anew, if the file that they are given is `only`, or whichever it is. Guards on that
    /// file keep it.
    pub(crate) fn invalidate(&mut self, key: ObjectKey, only: Option<Stamp>, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let State::Local { stamp, rank, .. } = entry.state else {
            if only.is_none() {
                self.invalidate_unfinished(key, effects);
            }
            return;
        };
        if only.is_some_and(|only| only != stamp) {
            return;
        }
        if let Some(rank) = rank {
            self.budget.leave(rank, key);
        }
        self.local.sub_file(stamp.len);
        let pins = std::mem::take(&mut entry.pins);
        if 0 < pins {
            self.disowned.entry(key).or_default().push((stamp, pins));
            entry.state = State::Idle;
            self.requeue(key, effects);
        } else if self.is_shared {
            entry.state = State::Idle;
            self.budget.sub(Amount::file(stamp.len));
            effects.push(Effect::LetGo(key, stamp, true));
            self.requeue(key, effects);
        } else {
            entry.state = State::Removing;
            self.remove_file(key, stamp, effects);
        }
    }

    /// Sees to it that what is on its way, or in memory, is not handed out either.
    fn invalidate_unfinished(&mut self, key: ObjectKey, effects: &mut Vec<Effect<W, A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        match &mut entry.state {
            State::Kept { bytes } => {
                self.kept_bytes -= bytes.len() as u64;
                entry.state = State::Idle;
                self.requeue(key, effects);
            }
            State::Queued { place, existing: Some(stamp) } => {
                let (place, stamp) = (*place, *stamp);
                self.queue.remove(place);
                entry.state = State::Removing;
                self.local.sub_file(stamp.len);
                self.remove_file(key, stamp, effects);
            }
            State::Fetching { .. } | State::Committing { .. } => entry.stale = true,
            State::Idle | State::Queued { .. } | State::Local { .. } | State::Removing => {}
        }
    }

    /// Throws away what a fetch brought of an object that changed meanwhile; whoever waits for it waits on.
    pub(super) fn discard(
        &mut self,
        key: ObjectKey,
        existing: Option<Stamp>,
        outcome: &Outcome,
        effects: &mut Vec<Effect<W, A>>,
    ) {
        if let Some(stamp) = existing {
            self.uncount_file(stamp);
        }
        let Some(entry) = self.entries.get_mut(&key) else { return };
        match outcome {
            Outcome::Stored(stamp) => {
                let pins = take_disowned(&mut self.disowned, key, *stamp);
                if let Some(pins) = pins.filter(|pins| 0 < *pins) {
                    // Guards name a file of that name and content, which stays for them.
                    self.disowned.entry(key).or_default().push((*stamp, pins));
                    entry.state = State::Idle;
                    self.requeue(key, effects);
                } else {
                    if pins.is_none() {
                        self.budget.add(Amount::file(stamp.len));
                    }
                    entry.state = State::Removing;
                    self.remove_file(key, *stamp, effects);
                }
            }
            Outcome::Unwritten(_) | Outcome::Failed(_) => {
                entry.state = State::Idle;
                self.requeue(key, effects);
            }
        }
    }

    /// Undoes a pin on a file that requests are not given any more, if it is one.
    pub(super) fn unpin_disowned(&mut self, key: ObjectKey, stamp: Stamp, effects: &mut Vec<Effect<W, A>>) -> bool {
        let files = self.disowned.get_mut(&key).into_iter().flatten();
        let Some((_, pins)) = files.into_iter().find(|(of, _)| *of == stamp) else { return false };
        *pins -= 1;
        if *pins == 0 {
            if self.is_shared {
                take_disowned(&mut self.disowned, key, stamp);
                self.budget.sub(Amount::file(stamp.len));
                effects.push(Effect::LetGo(key, stamp, true));
            } else if !self.entries.contains_key(&key) {
                self.forget(key, effects);
            }
        }
        true
    }

    /// Forgets an object that nobody wants, and has files of it go that nobody names any more.
    pub(super) fn forget(&mut self, key: ObjectKey, effects: &mut Vec<Effect<W, A>>) {
        self.entries.remove(&key);
        let Some(files) = self.disowned.get(&key) else { return };
        if let Some((stamp, _)) = files.iter().find(|(_, pins)| *pins == 0).copied() {
            take_disowned(&mut self.disowned, key, stamp);
            // Nothing of this object is written until the file is gone.
            let mut entry = Entry::new();
            entry.state = State::Removing;
            self.entries.insert(key, entry);
            self.remove_file(key, stamp, effects);
        }
    }
}

/// Takes a file out of those that were disowned, and returns how many guards name it.
pub(super) fn take_disowned(
    disowned: &mut HashMap<ObjectKey, Vec<(Stamp, u32)>>,
    key: ObjectKey,
    stamp: Stamp,
) -> Option<u32> {
    let files = disowned.get_mut(&key)?;
    let at = files.iter().position(|(of, _)| *of == stamp)?;
    let (_, pins) = files.swap_remove(at);
    if files.is_empty() {
        disowned.remove(&key);
    }
    Some(pins)
}
