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
            let allowed = format!("at least {}, so that {num_ids} samples make fewer than 2^32 batches", len >> 32);
            return Err(PlanError::setting("batch_size", batch_size, allowed));
        }
        Ok(Self { batch_size, full_rows, short: if drop_last { 0 } else { short } })
    }

    pub(crate) fn num_ids(self) -> usize {
        self.full_rows * self.batch_size + self.short
    }
}

/// Puts ids into rows, each row from its first slot on.
#[derive(Debug)]
pub(crate) struct Filler<'a, T> {
    ids: &'a mut [T],
    batch_size: usize,
    // How many slots of each row are filled.
    filled: Vec<u32>,
}

impl<'a, T: IdWidth> Filler<'a, T> {
    pub(crate) fn new(ids: &'a mut [T], batch_size: usize) -> Self {
        let rows = ids.len().div_ceil(batch_size);
        Self { ids, batch_size, filled: vec![0; rows] }
    }

    /// Puts `id` into the next slot of `row`.
    pub(crate) fn put(&mut self, row: usize, id: u64) {
        let slot = &mut self.filled[row];
        // OK because a batch size, and so a slot, fits in 32 bits.
        self.ids[row * self.batch_size + *slot as usize] = T::from_id(id);
        *slot += 1;
    }

    /// Puts each row in random order, so that no slot, and so no rank, is given to a class.
    pub(crate) fn shuffle_rows(self, rng: &mut ChaCha8Rng) {
        debug_assert!(
            self.ids.chunks(self.batch_size).zip(&self.filled).all(|(row, &filled)| row.len() == filled as usize),
            "every slot is filled"
        );
        for row in self.ids.chunks_mut(self.batch_size) {
            shuffle(row, rng);
        }
    }
}
