//! From a batch on the host to tensors.

use std::collections::BTreeMap;
use std::sync::Arc;

use planfetch::image::ndarray::{Array, Dimension};
use planfetch::image::{Element, ImageBatch};
use planfetch::loader::PaddedBatch;
use tch::Tensor;

use crate::arrays::{HostArrays, TensorElement};

/// A batch on the host whose arrays become tensors.
///
/// It is implemented for batches of images, for arrays, for what [`PadCollate`](planfetch::loader::PadCollate) makes, for
/// tuples of these, and for [`NamedBatch`].
///
/// # Example
///
/// A batch of one's own:
///
/// ```
/// use planfetch::image::ndarray::{Array1, Array2};
/// use planfetch_tch::{HostArrays, Taken, ToTensors};
/// use tch::Tensor;
///
/// struct Prices {
///     features: Array2<f32>,
///     prices: Array1<f64>,
/// }
///
/// impl ToTensors for Prices {
///     type Tensors = (Tensor, Tensor);
///
///     fn lend<'a>(&'a mut self, arrays: &mut HostArrays<'a>) {
///         arrays.push(self.features.view_mut());
///         arrays.push(self.prices.view_mut());
///     }
///
///     fn collect(tensors: &mut Taken) -> Option<(Tensor, Tensor)> {
///         Some((tensors.next()?, tensors.next()?))
///     }
/// }
/// ```
pub trait ToTensors: Send + 'static {
    /// What a training step takes.
    type Tensors;

    /// Lends the arrays, in order. Their memory is shared with the tensors and comes back to the batch when the last of
    /// them is gone.
    fn lend<'a>(&'a mut self, arrays: &mut HostArrays<'a>);

    /// Takes the tensors of the arrays, in the order in which they were lent; `None` where there are too few.
    fn collect(tensors: &mut Taken) -> Option<Self::Tensors>;
}

/// The images and the labels, of the shapes and the type that they have on the host. Where MixUp or CutMix has mixed the
/// images, the labels are the share of each class, of shape `[batch, num_classes]` and kind `Float`, as torchvision's
/// transforms of these names give them.
impl<T: Element + TensorElement> ToTensors for ImageBatch<T> {
    type Tensors = (Tensor, Tensor);

    fn lend<'a>(&'a mut self, arrays: &mut HostArrays<'a>) {
        let layout = self.layout();
        arrays.push_images(self.images.view_mut(), layout);
        match &mut self.soft_labels {
            Some(shares) => arrays.push(shares.view_mut()),
            None => arrays.push(self.labels.view_mut()),
        }
    }

    fn collect(tensors: &mut Taken) -> Option<(Tensor, Tensor)> {
        Some((tensors.next()?, tensors.next()?))
    }
}

impl<T: TensorElement + Send, D: Dimension + 'static> ToTensors for Array<T, D> {
    type Tensors = Tensor;

    fn lend<'a>(&'a mut self, arrays: &mut HostArrays<'a>) {
        arrays.push(self.view_mut());
    }

    fn collect(tensors: &mut Taken) -> Option<Tensor> {
        tensors.next()
    }
}

/// The values, the mask and the lengths.
impl<T: TensorElement + Send> ToTensors for PaddedBatch<T> {
    type Tensors = (Tensor, Tensor, Tensor);

    fn lend<'a>(&'a mut self, arrays: &mut HostArrays<'a>) {
        arrays.push(self.values.view_mut());
        arrays.push(self.mask.view_mut());
        arrays.push(self.lengths.view_mut());
    }

    fn collect(tensors: &mut Taken) -> Option<(Tensor, Tensor, Tensor)> {
        Some((tensors.next()?, tensors.next()?, tensors.next()?))
    }
}

macro_rules! tuple {
    ($($batch:ident $index:tt),+) => {
        impl<$($batch: ToTensors),+> ToTensors for ($($batch,)+) {
            type Tensors = ($($batch::Tensors,)+);

            fn lend<'a>(&'a mut self, arrays: &mut HostArrays<'a>) {
                $(self.$index.lend(arrays);)+
            }

            fn collect(tensors: &mut Taken) -> Option<Self::Tensors> {
                Some(($($batch::collect(tensors)?,)+))
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);

/// A batch whose arrays have names. Made by [`NamedCollate`](crate::NamedCollate).
#[derive(Clone, Debug)]
pub struct NamedBatch<B> {
    pub(crate) batch: B,
    pub(crate) names: Arc<[String]>,
}

/// Tensors by name.
pub type NamedTensors = BTreeMap<String, Tensor>;

impl<B: ToTensors> ToTensors for NamedBatch<B> {
    type Tensors = NamedTensors;

    fn lend<'a>(&'a mut self, arrays: &mut HostArrays<'a>) {
        arrays.set_names(&self.names);
        self.batch.lend(arrays);
    }

    /// `None` where there are not as many arrays as different names.
    fn collect(tensors: &mut Taken) -> Option<NamedTensors> {
        let names = Arc::clone(tensors.names.as_ref()?);
        if names.len() != tensors.tensors.len() {
            return None;
        }
        let named: NamedTensors = names.iter().cloned().zip(&mut tensors.tensors).collect();
        (named.len() == names.len()).then_some(named)
    }
}

/// The tensors of a batch's arrays, in the order in which they were lent.
#[derive(Debug)]
pub struct Taken {
    tensors: std::vec::IntoIter<Tensor>,
    names: Option<Arc<[String]>>,
}

impl Taken {
    pub(crate) fn new(tensors: Vec<Tensor>, names: Option<Arc<[String]>>) -> Self {
        Self { tensors: tensors.into_iter(), names }
    }
}

impl Iterator for Taken {
    type Item = Tensor;

    fn next(&mut self) -> Option<Tensor> {
        self.tensors.next()
    }
}
