//! Samples of several parts, each with a collate of its own.

use crate::collate::Collate;
use crate::error::BoxError;

/// Collates each part of a sample, which is a tuple, by the collate at the same place of a tuple of collates.
macro_rules! tuple {
    ($(($collate:ident, $sample:ident, $index:tt, $value:ident)),+) => {
        impl<$($sample,)+ $($collate: Collate<$sample>,)+> Collate<($($sample,)+)> for ($($collate,)+) {
            type Buffer = ($($collate::Buffer,)+);
            type Slot<'b> = ($($collate::Slot<'b>,)+);
            type Batch = ($($collate::Batch,)+);

            fn buffer(&self) -> Self::Buffer {
                ($(self.$index.buffer(),)+)
            }

            fn slots<'b>(&self, buffer: &'b mut Self::Buffer, len: usize) -> Vec<Self::Slot<'b>> {
                $(let mut $value = self.$index.slots(&mut buffer.$index, len).into_iter();)+
                // Where a part has too few slots, so has the whole, and the loader says so.
                (0..len).map_while(|_| Some(($($value.next()?,)+))).collect()
            }

            fn put(&self, sample: ($($sample,)+), slot: Self::Slot<'_>) -> Result<(), BoxError> {
                $(self.$index.put(sample.$index, slot.$index)?;)+
                Ok(())
            }

            fn finish(&self, buffer: Self::Buffer) -> Self::Batch {
                ($(self.$index.finish(buffer.$index),)+)
            }

            fn set_padding(&self, batch: &mut Self::Batch, num_padding: usize) {
                $(self.$index.set_padding(&mut batch.$index, num_padding);)+
            }

            fn num_bytes(&self, batch: &Self::Batch) -> Option<u64> {
                Some(0 $(+ self.$index.num_bytes(&batch.$index)?)+)
            }

            fn recycle(&self, batch: Self::Batch) -> Option<Self::Buffer> {
                // A part that is not used again gets a fresh buffer beside those that are.
                Some(($(self.$index.recycle(batch.$index).unwrap_or_else(|| self.$index.buffer()),)+))
            }
        }
    };
}

tuple!((A, S, 0, a), (B, T, 1, b));
tuple!((A, S, 0, a), (B, T, 1, b), (C, U, 2, c));
tuple!((A, S, 0, a), (B, T, 1, b), (C, U, 2, c), (D, V, 3, d));
