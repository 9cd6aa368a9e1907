//! What a batch lends of itself.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use planfetch::image::half::{bf16, f16};
use planfetch::image::ndarray::{ArrayViewMut, Dimension};
use planfetch::prelude::Layout;
use tch::{Kind, TchError, Tensor};

/// Arrays of fewer bytes are copied: it takes a microsecond, and a tensor of labels that is kept for long does not keep
/// the images of its batch.
const LEND_FROM: usize = 16 << 10;

/// What a tensor holds of a batch's array: `u8`, `i8`, `i16`, `i32`, `i64`, `f16`, `bf16`, `f32`, `f64` or `bool`.
///
/// No other type can implement it.
pub trait TensorElement: tch::kind::Element + Copy + sealed::Sealed + 'static {
    /// Whether any bytes are a value, so that libtorch may write to the memory.
    #[doc(hidden)]
    const LENDS: bool;
    /// The kind of a tensor of it. tch 0.22 says `Half` for `bf16`.
    #[doc(hidden)]
    const TENSOR_KIND: Kind;
    /// libtorch's number of the kind.
    #[doc(hidden)]
    const NUMBER: i32;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($($type:ty, $lends:literal, $kind:ident = $number:literal;)+) => {
        $(
            impl sealed::Sealed for $type {}
            impl TensorElement for $type {
                const LENDS: bool = $lends;
                const TENSOR_KIND: Kind = Kind::$kind;
                const NUMBER: i32 = $number;
            }
        )+
    };
}

element! {
    u8, true, Uint8 = 0;
    i8, true, Int8 = 1;
    i16, true, Int16 = 2;
    i32, true, Int = 3;
    i64, true, Int64 = 4;
    f16, true, Half = 5;
    f32, true, Float = 6;
    f64, true, Double = 7;
    bool, false, Bool = 11;
    bf16, true, BFloat16 = 15;
}

/// Whether an array holds pictures, which a loader may bring into another form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    Values,
    Pixels(Layout),
}

/// The arrays that a batch lends, in order. See [`ToTensors`](crate::ToTensors).
#[derive(Default)]
pub struct HostArrays<'a> {
    lent: Vec<Lent>,
    roles: Vec<Role>,
    names: Option<Arc<[String]>>,
    batch: PhantomData<&'a mut ()>,
}

/// An array, without its lifetime.
pub(crate) enum Lent {
    /// Memory that can be shared.
    Memory { data: *mut u8, shape: Vec<i64>, strides: Vec<i64>, kind: i32 },
    /// A small array, or one that can't be shared.
    Copy(Result<Tensor, TchError>),
}

impl<'a> HostArrays<'a> {
    /// Lends an array.
    ///
    /// Arrays of less than 16 KiB, those of `bool`, and those that run backwards along an axis are copied.
    pub fn push<T: TensorElement, D: Dimension>(&mut self, array: ArrayViewMut<'a, T, D>) {
        self.add(array, Role::Values);
    }

    /// Lends an array of images, of shape `[batch, channels, height, width]`, or `[batch, height, width, channels]` with
    /// [`Layout::Nhwc`]: what the loader normalises and brings into another memory format.
    pub fn push_images<T: TensorElement, D: Dimension>(&mut self, array: ArrayViewMut<'a, T, D>, layout: Layout) {
        self.add(array, Role::Pixels(layout));
    }

    fn add<T: TensorElement, D: Dimension>(&mut self, mut array: ArrayViewMut<'a, T, D>, role: Role) {
        // OK because a length or a stride of memory that exists fits in 63 bits.
        let shape: Vec<i64> = array.shape().iter().map(|&len| len as i64).collect();
        let strides: Vec<i64> = array.strides().iter().map(|&stride| stride as i64).collect();
        let is_large = LEND_FROM <= array.len() * size_of::<T>();
        self.lent.push(if T::LENDS && is_large && strides.iter().all(|&stride| 0 <= stride) {
            Lent::Memory { data: array.as_mut_ptr().cast(), shape, strides, kind: T::NUMBER }
        } else {
            let flat = match array.as_slice() {
                Some(values) => Tensor::f_from_slice(values),
                None => Tensor::f_from_slice(&array.iter().copied().collect::<Vec<T>>()),
            };
            // The same bits, where tch names another kind of as many bytes.
            let flat =
                flat.and_then(
                    |flat| {
                        if flat.kind() == T::TENSOR_KIND { Ok(flat) } else { flat.f_view_dtype(T::TENSOR_KIND) }
                    },
                );
            Lent::Copy(flat.and_then(|flat| flat.f_reshape(&shape)))
        });
        self.roles.push(role);
    }

    pub(crate) fn set_names(&mut self, names: &Arc<[String]>) {
        self.names = Some(Arc::clone(names));
    }

    /// Returns what was lent, without its lifetime, what each array is, and their names.
    pub(crate) fn into_parts(self) -> (Vec<Lent>, Vec<Role>, Option<Arc<[String]>>) {
        (self.lent, self.roles, self.names)
    }
}

impl fmt::Debug for HostArrays<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostArrays").field("roles", &self.roles).finish_non_exhaustive()
    }
}

/// Returns whether a kind holds fractions.
pub(crate) fn is_float(kind: Kind) -> bool {
    matches!(kind, Kind::Half | Kind::BFloat16 | Kind::Float | Kind::Double)
}
