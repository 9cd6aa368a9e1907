//! Which steps are local, and which come and go as the reader moves on.

use std::ops::Range;

/// The sliding window over the steps of a run: `[cursor - back, cursor + ahead)`, where the cursor is the next step that
/// the reader takes.
///
/// A plain state machine. Steps are counted through over all epochs.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    back: u64,
    ahead: u64,
    prune_every: u64,
    // Invariant: `start <= end`; steps in `start..end` have been asked for and not been given up.
    start: u64,
    end: u64,
}

/// What a move of the reader asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Moves {
    /// Steps to fetch, in this order.
    pub(crate) enter: Range<u64>,
    /// Steps to give up.
    pub(crate) leave: Range<u64>,
    /// There is more to fetch than was asked for at once.
    pub(crate) is_behind: bool,
}

impl Window {
    pub(crate) fn new(back: usize, ahead: usize, prune_every: usize, start: u64) -> Self {
        Self { back: back as u64, ahead: ahead as u64, prune_every: prune_every as u64, start, end: start }
    }

    /// Takes note of the next step that the reader takes. `known` is the end of the steps whose plan is known; at most
    /// `max_steps` are asked for at once.
    pub(crate) fn advance(&mut self, cursor: u64, known: u64, max_steps: usize) -> Moves {
        let until = cursor.saturating_add(self.ahead).min(known).max(self.end);
        let enter = self.end..until.min(self.end.saturating_add(max_steps as u64));
        let is_behind = enter.end < until;
        self.end = enter.end;
        // What was jumped over was asked for all the same, in order, and leaves at once.
        let keep_from = cursor.saturating_sub(self.back).clamp(self.start, self.end);
        let leave =
            if self.prune_every <= keep_from - self.start { self.start..keep_from } else { self.start..self.start };
        self.start = leave.end;
        Moves { enter, leave, is_behind }
    }

    /// Gives up the steps before `keep_from`, where room is needed, and returns them.
    pub(crate) fn shed(&mut self, keep_from: u64) -> Range<u64> {
        let leave = self.start..keep_from.clamp(self.start, self.end);
        self.start = leave.end;
        leave
    }

    /// Sets how many steps ahead are asked for. What has been asked for beyond stays.
    pub(crate) fn set_ahead(&mut self, ahead: usize) {
        self.ahead = ahead as u64;
    }

    /// Returns the first step that has not been asked for.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns whether the window reaches beyond the steps whose plan is known.
    pub(crate) fn wants_more(&self, cursor: u64, known: u64) -> bool {
        known < cursor.saturating_add(self.ahead)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_window_slides_and_prunes_in_groups() {
        let mut window = Window::new(2, 4, 3, 0);
        assert_eq!(window.advance(0, 100, 99), Moves { enter: 0..4, leave: 0..0, is_behind: false });
        assert_eq!(window.advance(1, 100, 99), Moves { enter: 4..5, leave: 0..0, is_behind: false });
        assert_eq!(window.advance(4, 100, 99), Moves { enter: 5..8, leave: 0..0, is_behind: false });
        assert_eq!(window.advance(5, 100, 99), Moves { enter: 8..9, leave: 0..3, is_behind: false });
        assert_eq!(window.advance(6, 9, 99), Moves { enter: 9..9, leave: 3..3, is_behind: false });
        assert!(window.wants_more(6, 9) && !window.wants_more(5, 9));
    }

    proptest! {
        #[test]
        fn every_step_enters_once_in_order_and_leaves_only_when_it_is_far_enough_behind(
            back in 0_usize..6,
            ahead in 1_usize..10,
            prune_every in 1_usize..6,
            jumps in prop::collection::vec(1_u64..4, 1..60),
            known in 0_u64..150,
            max_steps in 1_usize..20,
        ) {
            let mut window = Window::new(back, ahead, prune_every, 0);
            let (mut entered, mut left, mut cursor) = (0, 0, 0);
            for jump in std::iter::once(0).chain(jumps) {
                cursor += jump;
                // However the moves are cut into pieces, they come to the same.
                let mut is_behind = true;
                while is_behind {
                    let moves = window.advance(cursor, known, max_steps);
                    prop_assert_eq!((moves.enter.start, moves.leave.start), (entered, left));
                    prop_assert!(moves.enter.end - moves.enter.start <= max_steps as u64);
                    (entered, left) = (moves.enter.end, moves.leave.end);
                    is_behind = moves.is_behind;
                }
                prop_assert!(left <= entered);
                // Everything ahead has been asked for.
                prop_assert!((cursor + ahead as u64).min(known) <= entered);
                // Nothing that is to be kept has left.
                prop_assert!(left <= cursor.saturating_sub(back as u64));
                // What is behind stays no longer than the group needs.
                prop_assert!(cursor.saturating_sub(back as u64).min(entered) - left.min(entered) < prune_every as u64);
            }
        }
    }
}
