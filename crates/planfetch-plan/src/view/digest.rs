//! Whether two plans are the same, in 32 bytes.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::view::PlanView;

impl PlanView {
    /// Returns a hash that two plans share exactly when they hold the same ids in the same batches.
    ///
    /// It is the SHA-256 of the words `planfetch plan v1`, the batch size, the number of samples and all ids,
    /// each as a little-endian 64-bit number, so that it does not depend on how the ids are kept.
    ///
    /// Ranks compare digests before step 0 to be sure that they hold the same plan. It reads every id: for a lazy plan
    /// of 10^9 samples, which takes a minute, compare [`Fingerprint`](crate::Fingerprint)s and epochs instead.
    #[must_use]
    pub fn digest(&self) -> PlanDigest {
        let mut hash = Sha256::new();
        hash.update(b"planfetch plan v1");
        // OK because an index fits in 64 bits.
        hash.update((self.batch_size as u64).to_le_bytes());
        hash.update(self.num_samples.to_le_bytes());
        let mut block = Vec::with_capacity(8 * 1_024);
        for batch in self.iter() {
            for id in batch {
                block.extend_from_slice(&id.0.to_le_bytes());
                if block.len() == block.capacity() {
                    hash.update(&block);
                    block.clear();
                }
            }
        }
        hash.update(&block);
        PlanDigest(hash.finalize().into())
    }
}

/// The SHA-256 of a plan. Made by [`PlanView::digest`](crate::PlanView::digest); prints as 64 hexadecimal digits.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PlanDigest(pub [u8; 32]);

impl fmt::Display for PlanDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PlanDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanDigest({self})")
    }
}
