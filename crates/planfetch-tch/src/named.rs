//! Names for the arrays of a batch.

use std::sync::Arc;

use planfetch::prelude::*;

use crate::to_tensors::NamedBatch;

/// Gives names to the arrays that another collate makes, so that a training loop gets a dictionary of tensors.
///
/// There is a name for each array, in the order in which the batch lends them: one for an array, three for what
/// [`PadCollate`] makes (values, mask, lengths), two for images (images, labels), and those of its parts for a tuple.
/// Where the numbers differ, or a name stands twice, the first batch is an error.
///
/// # Example
///
/// ```
/// use planfetch::image::ndarray::{Array0, Array1, arr0, arr1};
/// use planfetch::prelude::*;
/// use planfetch_tch::{NamedCollate, TchLoaderBuilder};
///
/// struct Texts;
///
/// impl ObjectUris for Texts {
///     fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool { false }
/// }
///
/// impl Dataset for Texts {
///     type Sample = (Array1<i64>, Array0<f32>);
///
///     fn len(&self) -> u64 { 6 }
///
///     fn get(&self, ctx: &mut SampleContext<'_>) -> Result<Self::Sample, BoxError> {
///         let id = ctx.id().0;
///         Ok((arr1(&[id as i64; 8]), arr0(id as f32 / 2.0)))
///     }
/// }
///
/// let parts = (StackCollate::<i64>::new([8]), StackCollate::<f32>::new([]));
/// let plan = SequentialPlanProvider::new(6, 3)?;
/// let mut loader = TchLoaderBuilder::new(Texts, plan).build(NamedCollate::new(parts, ["tokens", "score"]))?;
/// for batch in loader.iter()? {
///     let batch = batch?;
///     assert_eq!((batch["tokens"].size(), batch["score"].size()), (vec![3, 8], vec![3]));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct NamedCollate<C> {
    collate: C,
    names: Arc<[String]>,
}

impl<C> NamedCollate<C> {
    /// Names the arrays that `collate` makes.
    pub fn new<N: Into<String>>(collate: C, names: impl IntoIterator<Item = N>) -> Self {
        Self { collate, names: names.into_iter().map(Into::into).collect() }
    }
}

impl<S, C: Collate<S>> Collate<S> for NamedCollate<C> {
    type Buffer = C::Buffer;
    type Slot<'b> = C::Slot<'b>;
    type Batch = NamedBatch<C::Batch>;

    fn buffer(&self) -> C::Buffer {
        self.collate.buffer()
    }

    fn slots<'b>(&self, buffer: &'b mut C::Buffer, len: usize) -> Vec<C::Slot<'b>> {
        self.collate.slots(buffer, len)
    }

    fn put(&self, sample: S, slot: C::Slot<'_>) -> Result<(), BoxError> {
        self.collate.put(sample, slot)
    }

    fn finish(&self, buffer: C::Buffer) -> Self::Batch {
        NamedBatch { batch: self.collate.finish(buffer), names: Arc::clone(&self.names) }
    }

    fn set_padding(&self, batch: &mut Self::Batch, num_padding: usize) {
        self.collate.set_padding(&mut batch.batch, num_padding);
    }

    fn num_bytes(&self, batch: &Self::Batch) -> Option<u64> {
        self.collate.num_bytes(&batch.batch)
    }

    fn recycle(&self, batch: Self::Batch) -> Option<C::Buffer> {
        self.collate.recycle(batch.batch)
    }
}
