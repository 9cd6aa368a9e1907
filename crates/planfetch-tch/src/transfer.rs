//! From tensors that share a batch to what the loop was promised: on its device, of its kind, in its memory format.

use planfetch::prelude::*;
use tch::{Cuda, Device, Kind, Tensor};

use crate::arrays::{Role, is_float};
use crate::foreign::Shared;

/// What is done to each tensor.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) device: Device,
    /// `None` pins where the device is a GPU.
    pub(crate) pin_memory: Option<bool>,
    pub(crate) kind: Option<Kind>,
    pub(crate) channels_last: bool,
    pub(crate) normalize: Option<([f32; 3], [f32; 3])>,
    normalizer: Option<Normalizer>,
}

/// Mean and standard deviation on the device. They stay there: to upload them anew, from memory that is not pinned, would
/// wait for all that the device is at.
#[derive(Debug)]
struct Normalizer {
    shape: [i64; 4],
    device: Device,
    values: ([f32; 3], [f32; 3]),
    mean: Tensor,
    std: Tensor,
}

impl Default for Transfer {
    fn default() -> Self {
        Self {
            device: Device::Cpu,
            pin_memory: None,
            kind: None,
            channels_last: false,
            normalize: None,
            normalizer: None,
        }
    }
}

impl Transfer {
    /// Checks what can be checked before there is a batch.
    pub(crate) fn validate(&self) -> Result<(), LoaderError> {
        if let Device::Cuda(index) = self.device {
            let count = Cuda::device_count();
            // OK because there are a few devices at most.
            if count <= index as i64 {
                return Err(setting(
                    "device",
                    format!("Cuda({index})"),
                    format!("there are {count} CUDA devices, counted from 0"),
                ));
            }
        }
        if let Some(kind) = self.kind.filter(|&kind| !is_float(kind)) {
            return Err(setting("kind", format!("{kind:?}"), "must be Half, BFloat16, Float or Double".into()));
        }
        if let Some((mean, std)) = self.normalize
            && !(mean.iter().all(|value| value.is_finite()) && std.iter().all(|value| value.is_normal()))
        {
            let allowed = "all numbers must be finite, and those of std not 0".into();
            return Err(setting("normalize", format!("mean {mean:?}, std {std:?}"), allowed));
        }
        Ok(())
    }

    /// Brings tensors to the device as they are, so that bytes cross as bytes.
    pub(crate) fn upload(&self, shared: &mut Shared) -> Result<(), BoxError> {
        shared.tensors.iter_mut().try_for_each(|tensor| {
            *tensor = self.uploaded(tensor)?;
            Ok(())
        })
    }

    /// Makes what was promised of tensors that are on the device.
    pub(crate) fn finish(&mut self, shared: &mut Shared) -> Result<(), BoxError> {
        for (tensor, &role) in shared.tensors.iter_mut().zip(&shared.roles) {
            *tensor = match (role, self.kind) {
                (Role::Pixels(layout), _) => self.pixels(tensor.shallow_clone(), layout)?,
                (Role::Values, Some(kind)) if is_float(tensor.kind()) => tensor.f_to_kind(kind)?,
                (Role::Values, _) => continue,
            };
        }
        Ok(())
    }

    /// Pinned memory comes from libtorch's own pool, which hands a block out again only when the copy from it is done.
    fn uploaded(&self, tensor: &Tensor) -> Result<Tensor, BoxError> {
        let is_pinned = self.pin_memory.unwrap_or(self.device.is_cuda()) && Cuda::is_available();
        let index = if let Device::Cuda(index) = self.device { index } else { 0 };
        let host = if is_pinned { tensor.f_pin_memory(Device::Cuda(index))? } else { tensor.shallow_clone() };
        if self.device == Device::Cpu {
            return Ok(host);
        }
        Ok(host.f_to_device_(self.device, host.kind(), is_pinned, false)?)
    }

    fn pixels(&mut self, images: Tensor, layout: Layout) -> Result<Tensor, BoxError> {
        let is_nhwc = layout == Layout::Nhwc;
        let is_bytes = images.kind() == Kind::Uint8;
        if !is_bytes && self.normalize.is_some() {
            let problem = format!(
                "normalize is for images of bytes, but the collate makes {:?}: take ImageCollate::<u8>, or have it \
                 normalise by ImageSettings",
                images.kind()
            );
            return Err(problem.into());
        }
        // A permutation moves no byte.
        let mut images = if is_nhwc && self.channels_last { images.f_permute([0, 3, 1, 2])? } else { images };
        if is_bytes && (self.kind.is_some() || self.normalize.is_some()) {
            // Computed as the collate does: in single precision.
            images = images.f_to_kind(Kind::Float)?.f_div_scalar_(255.0)?;
            if let Some(values) = self.normalize {
                let channel_axis = if is_nhwc && !self.channels_last { 3 } else { 1 };
                let mut shape = [1; 4];
                shape[channel_axis] = images.size()[channel_axis];
                let Normalizer { mean, std, .. } = self.normalizer(values, shape, images.device())?;
                images = images.f_sub_(mean)?.f_div_(std)?;
            }
        }
        if let Some(kind) = self.kind {
            images = images.f_to_kind(kind)?;
        }
        if self.channels_last && !is_nhwc {
            images = images.f_permute([0, 2, 3, 1])?.f_contiguous()?.f_permute([0, 3, 1, 2])?;
        }
        Ok(images)
    }

    fn normalizer(
        &mut self,
        values: ([f32; 3], [f32; 3]),
        shape: [i64; 4],
        device: Device,
    ) -> Result<&Normalizer, BoxError> {
        let is_that = |made: &Normalizer| (made.values, made.shape, made.device) == (values, shape, device);
        let made = match self.normalizer.take().filter(is_that) {
            Some(made) => made,
            None => {
                let channels = usize::try_from(shape.into_iter().product::<i64>())?.min(3);
                let of_channels = |values: [f32; 3]| -> Result<Tensor, BoxError> {
                    Ok(Tensor::f_from_slice(&values[..channels])?.f_reshape(shape)?.f_to_device(device)?)
                };
                Normalizer { shape, device, values, mean: of_channels(values.0)?, std: of_channels(values.1)? }
            }
        };
        Ok(self.normalizer.insert(made))
    }
}

fn setting(name: &'static str, value: String, allowed: String) -> LoaderError {
    LoaderError::Setting { name, value, allowed }
}
