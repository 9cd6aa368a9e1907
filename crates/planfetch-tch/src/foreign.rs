//! Memory of a batch, lent to libtorch without a copy. All `unsafe` of this crate is here and in `foreign.cpp`.
//!
//! tch's own `from_blob` tells nobody when the last tensor over the memory is gone. libtorch can: a tensor of foreign
//! memory may carry an owner, which it releases with the memory. The owner is the batch itself, so the loader gets its
//! buffer back when the last tensor, view, or saved gradient input that shares it has gone, and not before.
//!
//! Nor has tch streams: copies to a device would wait there for whatever the loop has it compute.

#![expect(unsafe_code, reason = "libtorch takes pointers, and a fresh copy of each batch is what sharing avoids")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use planfetch::prelude::BoxError;
use tch::{Device, Tensor};

use crate::arrays::{HostArrays, Lent, Role};

unsafe extern "C" {
    fn planfetch_tch_lend(
        data: *mut c_void,
        sizes: *const i64,
        strides: *const i64,
        dims: usize,
        kind: c_int,
        owner: *mut c_void,
        release: extern "C" fn(*mut c_void),
        message: *mut c_char,
        capacity: usize,
    ) -> *mut torch_sys::C_tensor;

    fn planfetch_tch_stream(device: i64, message: *mut c_char, capacity: usize) -> *mut c_void;
    fn planfetch_tch_stream_free(stream: *mut c_void);
    fn planfetch_tch_upload(
        tensor: *mut torch_sys::C_tensor,
        stream: *mut c_void,
        message: *mut c_char,
        capacity: usize,
    ) -> *mut c_void;
    fn planfetch_tch_uploaded(upload: *mut c_void, message: *mut c_char, capacity: usize) -> *mut torch_sys::C_tensor;
    fn planfetch_tch_upload_free(upload: *mut c_void);
}

/// Calls a function that tells what went wrong where it returns a null pointer.
fn told<T>(call: impl FnOnce(*mut c_char, usize) -> *mut T) -> Result<NonNull<T>, BoxError> {
    let mut message = [0 as c_char; 512];
    let made = call(message.as_mut_ptr(), message.len());
    NonNull::new(made).ok_or_else(|| {
        // SAFETY: the array is not empty, and was zeroed and then at most filled with a text that ends in a zero.
        let message = unsafe { CStr::from_ptr(message.as_ptr()) };
        message.to_string_lossy().into_owned().into()
    })
}

/// The tensors of what an owner lent, what each is, and their names.
pub(crate) struct Shared {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) roles: Vec<Role>,
    pub(crate) names: Option<Arc<[String]>>,
}

/// Makes tensors of what `lend` lends of `owner`. Those of lent memory share it and keep the owner, which is dropped
/// with the last of them; the others are copies.
///
/// The memory is written by libtorch where a program writes to its tensors.
pub(crate) fn share<O: Send + 'static>(
    owner: O,
    lend: impl for<'a> FnOnce(&'a mut O, &mut HostArrays<'a>),
) -> Result<Shared, BoxError> {
    // From here on the owner does not move, so that memory inside of it may be lent too.
    let mut owner = Arc::new(Mutex::new(owner));
    let mut arrays = HostArrays::default();
    let inner = Arc::get_mut(&mut owner).expect("nobody else has it yet").get_mut();
    let Ok(inner) = inner else { return Err("the batch is poisoned".into()) };
    lend(inner, &mut arrays);
    // The borrow of `inner` ends here: what is left of it are pointers.
    let (lent, roles, names) = arrays.into_parts();
    let tensors = lent.into_iter().map(|lent| tensor(lent, &owner)).collect::<Result<_, _>>()?;
    Ok(Shared { tensors, roles, names })
}

fn tensor<O: Send + 'static>(lent: Lent, owner: &Arc<Mutex<O>>) -> Result<Tensor, BoxError> {
    let (data, shape, strides, kind) = match lent {
        Lent::Copy(tensor) => return Ok(tensor?),
        Lent::Memory { data, shape, strides, kind } => (data, shape, strides, kind),
    };
    let context = Arc::into_raw(Arc::clone(owner)).cast_mut().cast::<c_void>();
    // SAFETY: `data` was taken from an `ArrayViewMut` of this shape and these strides, which borrowed the owner mutably,
    // so it is valid for reads and writes and aliases no reference, as long as the owner lives and nobody reaches into
    // it. `context` is a count of the owner that libtorch gives back by `release` when no tensor shares the memory any
    // more. Between here and there nobody reaches into the owner: the mutex is never locked, and only `release` has it.
    // Whatever bytes libtorch writes are a value of the element's type, since `TensorElement::LENDS` excludes those
    // types of which some bytes are none. Sizes and strides have `dims` elements each; the message has the capacity
    // that is told. Where a null pointer is returned, `context` was released already.
    let made = told(|message, capacity| unsafe {
        planfetch_tch_lend(
            data.cast(),
            shape.as_ptr(),
            strides.as_ptr(),
            shape.len(),
            kind,
            context,
            release::<O>,
            message,
            capacity,
        )
    })?;
    // SAFETY: it points to a tensor that was just allocated by `new` for us, as torch-sys's own functions do it, and
    // whose only owner is the value that is made here.
    Ok(unsafe { Tensor::from_ptr(made.as_ptr()) })
}

/// Gives a count of the owner back. Called by libtorch, from whichever thread drops the last tensor.
extern "C" fn release<O: Send>(context: *mut c_void) {
    // SAFETY: `context` came from `Arc::into_raw` of this type in `tensor`, and libtorch calls this once for each. The
    // owner may be dropped on any thread, since it is `Send`.
    let owner = unsafe { Arc::from_raw(context.cast_const().cast::<Mutex<O>>()) };
    // A panic of a user's destructor must not unwind into C++.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(owner)));
}

/// A stream of a CUDA device, for copies beside what the device computes.
pub(crate) struct Stream(NonNull<c_void>);

// SAFETY: it points to the number of a device and that of a stream, which nothing changes; any thread may use a stream.
unsafe impl Send for Stream {}

impl Stream {
    pub(crate) fn new(device: usize) -> Result<Self, BoxError> {
        let device = i64::try_from(device)?;
        // SAFETY: the message has the capacity that is told.
        let stream = told(|message, capacity| unsafe { planfetch_tch_stream(device, message, capacity) })?;
        Ok(Self(stream))
    }

    /// Begins to copy a tensor of the host to the device. The copy has its own hold on pinned memory; what is not pinned
    /// has been read when this returns.
    pub(crate) fn upload(&self, host: &Tensor) -> Result<Upload, BoxError> {
        // SAFETY: both pointers are of values that live, of the types that are meant: `as_ptr` gives what torch-sys's own
        // functions take. The message has the capacity that is told.
        let upload = told(|message, capacity| unsafe {
            planfetch_tch_upload(host.as_ptr().cast_mut(), self.0.as_ptr(), message, capacity)
        })?;
        Ok(Upload(upload))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `planfetch_tch_stream`, and is freed once.
        unsafe { planfetch_tch_stream_free(self.0.as_ptr()) }
    }
}

/// A tensor that a copy is filling.
pub(crate) struct Upload(NonNull<c_void>);

// SAFETY: it owns a tensor and an event, which any thread may use, one at a time.
unsafe impl Send for Upload {}

impl Upload {
    /// Returns the tensor. What the calling thread has the device compute from here on waits for the copy, on the device.
    pub(crate) fn tensor(self) -> Result<Tensor, BoxError> {
        // SAFETY: the pointer is that of an upload, which is used no more but to be freed. The message has the capacity
        // that is told.
        let tensor = told(|message, capacity| unsafe { planfetch_tch_uploaded(self.0.as_ptr(), message, capacity) })?;
        // SAFETY: it points to a tensor that was just allocated by `new` for us, whose only owner is the value made here.
        Ok(unsafe { Tensor::from_ptr(tensor.as_ptr()) })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `planfetch_tch_upload`, and is freed once.
        unsafe { planfetch_tch_upload_free(self.0.as_ptr()) }
    }
}

/// Where copies go.
pub(crate) enum Lane {
    Stream {
        stream: Stream,
        device: Device,
        is_pinned: bool,
    },
    /// To other memory of the host, to try what is around it without a device.
    #[cfg(test)]
    Host,
}

/// A copy that has begun.
pub(crate) enum Copying {
    Upload(Upload),
    #[cfg(test)]
    Host(Tensor),
}

impl Lane {
    fn begin(&self, host: &Tensor) -> Result<Copying, BoxError> {
        match self {
            // Pinned memory comes from libtorch's own pool, which hands a block out again only when the copy is done.
            Self::Stream { stream, device, is_pinned: true } => {
                Ok(Copying::Upload(stream.upload(&host.f_pin_memory(*device)?)?))
            }
            Self::Stream { stream, .. } => Ok(Copying::Upload(stream.upload(host)?)),
            #[cfg(test)]
            Self::Host => {
                let mut copy = host.f_empty_like()?;
                copy.f_copy_(host)?;
                Ok(Copying::Host(copy))
            }
        }
    }
}

impl Copying {
    pub(crate) fn tensor(self) -> Result<Tensor, BoxError> {
        match self {
            Self::Upload(upload) => upload.tensor(),
            #[cfg(test)]
            Self::Host(tensor) => Ok(tensor),
        }
    }
}

/// Copies of what an owner lent, what each is, and their names.
pub(crate) struct Copied {
    pub(crate) copies: Vec<Copying>,
    pub(crate) roles: Vec<Role>,
    pub(crate) names: Option<Arc<[String]>>,
}

/// Begins to copy what `lend` lends of `owner`, which is not read any more when this returns.
pub(crate) fn copy<O>(
    owner: &mut O,
    lane: &Lane,
    lend: impl for<'a> FnOnce(&'a mut O, &mut HostArrays<'a>),
) -> Result<Copied, BoxError> {
    let mut arrays = HostArrays::default();
    lend(owner, &mut arrays);
    let (lent, roles, names) = arrays.into_parts();
    // The memory outlives these tensors without an owner: they are gone before this returns, while `owner` is borrowed,
    // and a copy has memory of its own.
    let nobody = Arc::new(Mutex::new(()));
    let copies = lent.into_iter().map(|lent| lane.begin(&tensor(lent, &nobody)?)).collect::<Result<_, _>>()?;
    Ok(Copied { copies, roles, names })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use planfetch::image::ndarray::{Array1, Array2};
    use tch::{IndexOp, Kind};

    use super::*;

    /// Memory that says when it is gone, and what it then held.
    struct Owner {
        values: Array2<f32>,
        flags: Array1<bool>,
        gone: Sender<Vec<f32>>,
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            let _ = self.gone.send(self.values.iter().copied().collect());
        }
    }

    fn shared(rows: usize) -> (Vec<Tensor>, *const f32, Receiver<Vec<f32>>) {
        let (gone, is_gone) = channel();
        let values = Array2::from_shape_fn((rows, 4_096), |(i, j)| (i * 4_096 + j) as f32);
        let data = values.as_ptr();
        let owner = Owner { values, flags: Array1::from_elem(3, true), gone };
        let tensors = share(owner, |owner, arrays| {
            arrays.push(owner.values.view_mut());
            arrays.push(owner.flags.view_mut());
        });
        (tensors.unwrap().tensors, data, is_gone)
    }

    #[test]
    fn memory_is_shared_and_released_once_with_the_last_view() {
        let (mut tensors, data, is_gone) = shared(3);
        let flags = tensors.pop().unwrap();
        let values = tensors.pop().unwrap();
        assert_eq!(values.data_ptr().cast_const().cast::<f32>(), data);
        assert_eq!((values.size(), values.kind(), flags.kind()), (vec![3, 4_096], Kind::Float, Kind::Bool));
        let view = values.i(1).narrow(0, 5, 2);
        let clone = values.shallow_clone();
        drop((values, flags, clone));
        assert!(is_gone.try_recv().is_err(), "a view still shares it");
        assert_eq!(Vec::<f32>::try_from(&view).unwrap(), [4_101.0, 4_102.0]);
        // Writing in place writes to the owner's memory.
        let _ = view.shallow_clone().fill_(7.0);
        drop(view);
        let held = is_gone.try_recv().unwrap();
        assert_eq!(held[4_100..4_104], [4_100.0, 7.0, 7.0, 4_103.0]);
        assert!(is_gone.recv().is_err(), "dropped once");
    }

    #[test]
    fn a_graph_that_needs_the_memory_for_its_gradient_keeps_it() {
        let (mut tensors, _, is_gone) = shared(1);
        let values = tensors.swap_remove(0);
        let weight = Tensor::ones([4_096], (Kind::Float, tch::Device::Cpu)).set_requires_grad(true);
        let loss = (&values * &weight).sum(Kind::Float);
        drop((values, tensors));
        assert!(is_gone.try_recv().is_err());
        loss.backward();
        assert_eq!(weight.grad().double_value(&[4_095]), 4_095.0);
        drop(loss);
        assert!(is_gone.try_recv().is_ok());
    }

    #[test]
    fn it_is_released_from_another_thread() {
        let (tensors, _, is_gone) = shared(1);
        std::thread::spawn(move || drop(tensors)).join().unwrap();
        assert!(is_gone.recv().is_ok());
    }

    #[test]
    fn without_cuda_there_is_no_stream() {
        if !tch::Cuda::is_available() {
            assert!(Stream::new(0).is_err_and(|error| !error.to_string().is_empty()));
        }
    }

    #[test]
    fn a_stream_brings_what_was_there_when_it_began() {
        if !tch::Cuda::is_available() {
            return;
        }
        let stream = Stream::new(0).unwrap();
        for is_pinned in [false, true] {
            for i in 0..50 {
                let host = Tensor::full([1 << 20], i, (Kind::Float, Device::Cpu));
                let upload = if is_pinned {
                    stream.upload(&host.pin_memory(Device::Cuda(0))).unwrap()
                } else {
                    stream.upload(&host).unwrap()
                };
                let _ = host.shallow_clone().fill_(-1.0);
                let tensor = upload.tensor().unwrap();
                assert_eq!(tensor.device(), Device::Cuda(0));
                assert!(bool::try_from(tensor.eq(f64::from(i as i32)).all()).unwrap());
            }
        }
    }

    #[test]
    fn a_destructor_that_panics_does_not_reach_libtorch() {
        struct Panics(Array2<f32>);
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("in a destructor");
            }
        }
        let owner = Panics(Array2::zeros((8, 4_096)));
        drop(share(owner, |owner, arrays| arrays.push(owner.0.view_mut())).unwrap());
    }
}
