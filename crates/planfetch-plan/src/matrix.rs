//! Filling the rows of a plan class by class.

use rand_chacha::ChaCha8Rng;

use crate::error::PlanError;
use crate::ids::IdWidth;
use crate::permutation::shuffle;
use crate::provider::check_len;

/// The shape of a plan whose last row may be short.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Shape {
    pub(crate) batch_size: usize,
    pub(crate) full_rows: usize,
    /// The samples of the short row, 0 where there is none.
    pub(crate) short: usize,
}

impl Shape {
    /// Cuts `num_ids` ids into batches, and leaves out the short one if asked to.
    pub(crate) fn new(num_ids: u64, batch_size: usize, drop_last: bool) -> Result<Self, PlanError> {
        let len = check_len(num_ids)?;
        let (full_rows, short) = (len / batch_size, len % batch_size);
        // Rows are numbered in 32 bits while a plan is made, which halves what that takes.
        if u32::try_from(full_rows).is_err() {
            let allowed =
                format!("at least {}, so that {num_ids} samples make fewer than 2^32 batches", (num_ids >> 32) + 1);
            return Err(PlanError::setting("batch_size", batch_size, allowed));
        }
        Ok(Self { batch_size, full_rows, short: if drop_last { 0 } else { short } })
    }

    pub(crate) fn num_ids(self) -> usize {
        self.full_rows * self.batch_size + self.short
    }
}

/// Puts ids into the rows of a plan, slot by slot.
///
/// Rows are filled class by class, all of them at about the same pace. Were they filled from their first slots on, and
/// their length a power of two as it mostly is, then all the slots at hand would fall into the same few sets of the
/// processor's cache. So each full row begins at a slot of its own, one cache line (16 ids) after that of the row
/// before it, and goes around: filling takes half the time.
#[derive(Debug)]
pub(crate) struct Filler<'a, T> {
    ids: &'a mut [T],
    batch_size: usize,
    // The next slot of each row.
    next: Vec<u32>,
}

impl<'a, T: IdWidth> Filler<'a, T> {
    pub(crate) fn new(ids: &'a mut [T], batch_size: usize) -> Self {
        let full_rows = ids.len() / batch_size;
        // OK because a batch size, and so a slot, fits in 32 bits, here and below.
        let mut next: Vec<u32> = (0..full_rows).map(|row| first_slot(row, batch_size) as u32).collect();
        // A short row begins at its first slot and never gets around.
        next.resize(ids.len().div_ceil(batch_size), 0);
        Self { ids, batch_size, next }
    }

    /// Puts `id` into the next slot of `row`.
    pub(crate) fn put(&mut self, row: usize, id: u64) {
        let next = &mut self.next[row];
        self.ids[row * self.batch_size + *next as usize] = T::from_id(id);
        *next += 1;
        if *next as usize == self.batch_size {
            *next = 0;
        }
    }

    /// Puts each row in random order, so that no slot, and so no rank, is given to a class.
    pub(crate) fn shuffle_rows(self, rng: &mut ChaCha8Rng) {
        debug_assert!(
            self.next.iter().enumerate().all(|(row, &next)| {
                let start = row * self.batch_size;
                let short = self.ids.len() - start < self.batch_size;
                next as usize == if short { self.ids.len() - start } else { first_slot(row, self.batch_size) }
            }),
            "every row is filled"
        );
        for row in self.ids.chunks_mut(self.batch_size) {
            shuffle(row, rng);
        }
    }
}

fn first_slot(row: usize, batch_size: usize) -> usize {
    // OK because indices fit in 64 bits, where 16 rows of every row number do too, and the remainder is below one.
    (row as u64 * 16 % batch_size as u64) as usize
}
