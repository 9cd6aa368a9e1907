//! Sequences of different lengths, padded to the longest.

use ndarray::{Array1, Array2};

use crate::collate::{Collate, VecCollate};
use crate::error::BoxError;

/// Pads sequences to the longest of their batch. Made batches tell by a mask what is padding.
///
/// # Example
///
/// ```
/// use ndarray::arr2;
/// use planfetch_loader::{BoxError, Collate, PadCollate};
///
/// let collate = PadCollate::new(-1_i64);
/// let mut buffer = collate.buffer();
/// for (slot, tokens) in collate.slots(&mut buffer, 2).into_iter().zip([vec![5, 6, 7], vec![8]]) {
///     collate.put(tokens, slot)?;
/// }
/// let batch = collate.finish(buffer);
/// assert_eq!(batch.values, arr2(&[[5, 6, 7], [8, -1, -1]]));
/// assert_eq!(batch.mask, arr2(&[[true, true, true], [true, false, false]]));
/// assert_eq!(batch.lengths.to_vec(), [3, 1]);
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PadCollate<T> {
    padding: T,
}

/// Sequences as one matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct PaddedBatch<T> {
    /// The sequences, of shape `[batch, longest]`, with padding behind the end of each; in standard (C) layout.
    pub values: Array2<T>,
    /// Whether a value belongs to a sequence, of shape `[batch, longest]`.
    pub mask: Array2<bool>,
    /// How many values each sequence has, of shape `[batch]`.
    pub lengths: Array1<i64>,
}

impl<T> PadCollate<T> {
    /// Makes a collate that pads with this value.
    pub fn new(padding: T) -> Self {
        Self { padding }
    }
}

impl<T: Clone + Send + Sync + 'static> Collate<Vec<T>> for PadCollate<T> {
    type Buffer = Vec<Option<Vec<T>>>;
    type Slot<'b> = &'b mut Option<Vec<T>>;
    type Batch = PaddedBatch<T>;

    fn buffer(&self) -> Self::Buffer {
        Vec::new()
    }

    fn slots<'b>(&self, buffer: &'b mut Self::Buffer, len: usize) -> Vec<Self::Slot<'b>> {
        VecCollate.slots(buffer, len)
    }

    fn put(&self, sample: Vec<T>, slot: Self::Slot<'_>) -> Result<(), BoxError> {
        VecCollate.put(sample, slot)
    }

    fn finish(&self, buffer: Self::Buffer) -> PaddedBatch<T> {
        let sequences = VecCollate.finish(buffer);
        let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
        let shape = (sequences.len(), longest);
        // OK because a length fits in 63 bits.
        let lengths = sequences.iter().map(|sequence| sequence.len() as i64).collect();
        let (mut values, mut mask) = (Vec::with_capacity(shape.0 * longest), Vec::with_capacity(shape.0 * longest));
        for sequence in sequences {
            let end = values.len() + longest;
            mask.resize(mask.len() + sequence.len(), true);
            mask.resize(end, false);
            values.extend(sequence);
            values.resize(end, self.padding.clone());
        }
        let of_shape = "each row was given the longest length";
        PaddedBatch {
            values: Array2::from_shape_vec(shape, values).expect(of_shape),
            mask: Array2::from_shape_vec(shape, mask).expect(of_shape),
            lengths,
        }
    }

    fn num_bytes(&self, batch: &PaddedBatch<T>) -> Option<u64> {
        // OK because an index fits in 64 bits.
        Some((batch.values.len() * (size_of::<T>() + 1) + batch.lengths.len() * 8) as u64)
    }
}
