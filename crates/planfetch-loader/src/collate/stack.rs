//! Arrays of one shape, stacked.

use std::fmt;
use std::marker::PhantomData;

use ndarray::{Array, ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::collate::Collate;
use crate::error::BoxError;

/// Stacks arrays of one shape: samples of shape `[..]` become a batch of shape `[batch, ..]`, in standard (C) layout.
///
/// Workers copy each sample straight into its place, and the memory of a batch is used again. The shape is given, so that
/// a sample of another shape is an error of that sample, whichever comes first.
///
/// # Example
///
/// ```
/// use ndarray::{Array2, arr2};
/// use planfetch_loader::{BoxError, Collate, StackCollate};
///
/// let collate = StackCollate::<f32>::new([1, 2]);
/// let mut buffer = Collate::<Array2<f32>>::buffer(&collate);
/// for (i, slot) in Collate::<Array2<f32>>::slots(&collate, &mut buffer, 2).into_iter().enumerate() {
///     collate.put(arr2(&[[i as f32, 0.5]]), slot)?;
/// }
/// let batch = Collate::<Array2<f32>>::finish(&collate, buffer);
/// assert_eq!(batch.shape(), [2, 1, 2]);
/// assert_eq!(batch.as_slice(), Some(&[0.0, 0.5, 1.0, 0.5][..]));
/// # Ok::<(), BoxError>(())
/// ```
pub struct StackCollate<T> {
    shape: Vec<usize>,
    values: PhantomData<fn() -> T>,
}

impl<T> StackCollate<T> {
    /// Makes a collate for samples of this shape; empty for single numbers as arrays without axes.
    pub fn new(shape: impl Into<Vec<usize>>) -> Self {
        Self { shape: shape.into(), values: PhantomData }
    }

    fn values_per_sample(&self) -> usize {
        self.shape.iter().product()
    }
}

impl<T> fmt::Debug for StackCollate<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackCollate").field("shape", &self.shape).finish()
    }
}

impl<T, S, D> Collate<ArrayBase<S, D>> for StackCollate<T>
where
    T: Clone + Default + Send + Sync + 'static,
    S: Data<Elem = T>,
    D: Dimension,
{
    type Buffer = ArrayD<T>;
    type Slot<'b> = &'b mut [T];
    type Batch = ArrayD<T>;

    fn buffer(&self) -> ArrayD<T> {
        ArrayD::default(IxDyn(&[0]))
    }

    fn slots<'b>(&self, buffer: &'b mut ArrayD<T>, len: usize) -> Vec<&'b mut [T]> {
        let each = self.values_per_sample();
        let shape: Vec<usize> = [len].into_iter().chain(self.shape.iter().copied()).collect();
        if buffer.shape() != shape || !buffer.is_standard_layout() {
            let (mut values, _) = std::mem::take(buffer).into_raw_vec_and_offset();
            values.resize(len * each, T::default());
            *buffer = Array::from_shape_vec(shape, values).expect("the vector was given the shape's length");
        }
        if each == 0 {
            return (0..len).map(|_| &mut [][..]).collect();
        }
        buffer.as_slice_mut().expect("it is in standard layout").chunks_exact_mut(each).collect()
    }

    fn put(&self, sample: ArrayBase<S, D>, slot: &mut [T]) -> Result<(), BoxError> {
        if sample.shape() != self.shape {
            let (found, expected) = (sample.shape(), &self.shape);
            return Err(format!("the sample has shape {found:?}, but the batch is of shape {expected:?} each").into());
        }
        match sample.as_slice() {
            Some(values) => slot.clone_from_slice(values),
            None => slot.iter_mut().zip(sample.iter()).for_each(|(to, from)| to.clone_from(from)),
        }
        Ok(())
    }

    fn finish(&self, buffer: ArrayD<T>) -> ArrayD<T> {
        buffer
    }

    fn num_bytes(&self, batch: &ArrayD<T>) -> Option<u64> {
        // OK because an index fits in 64 bits.
        Some((batch.len() * size_of::<T>()) as u64)
    }

    fn recycle(&self, batch: ArrayD<T>) -> Option<ArrayD<T>> {
        Some(batch)
    }
}
