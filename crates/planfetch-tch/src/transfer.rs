//! From tensors that share a batch to what the loop was promised: on its device, of its kind, in its memory format.

use planfetch::prelude::*;
use tch::{Cuda, Device, Kind, Tensor};

use crate::arrays::{Role, is_float};
use crate::foreign::Shared;

/// What is done to each tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) device: Device,
    /// `None` pins where the device is a GPU.
    pub(crate) pin_memory: Option<bool>,
    pub(crate) kind: Option<Kind>,
    pub(crate) channels_last: bool,
    pub(crate) normalize: Option<([f32; 3], [f32; 3])>,
}

impl Default for Transfer {
    fn default() -> Self {
        Self { device: Device::Cpu, pin_memory: None, kind: None, channels_last: false, normalize: None }
    }
}

impl Transfer {
    /// Checks what can be checked before there is a batch.
    pub(crate) fn validate(&self) -> Result<(), LoaderError> {
        if let Device::Cuda(index) = self.device {
            let count = Cuda::device_count();
            // OK because there are a few devices at most.
            if count <= index as i64 {
                return Err(setting("device", format!("Cuda({index})"), format!("the {count} CUDA devices there are")));
            }
        }
        if let Some(kind) = self.kind.filter(|&kind| !is_float(kind)) {
            return Err(setting("kind", format!("{kind:?}"), "Half, BFloat16, Float or Double".into()));
        }
        if let Some((mean, std)) = self.normalize
            && !(mean.iter().all(|value| value.is_finite()) && std.iter().all(|value| value.is_normal()))
        {
            let range = "finite numbers, those of std not 0".into();
            return Err(setting("normalize", format!("mean {mean:?}, std {std:?}"), range));
        }
        Ok(())
    }

    pub(crate) fn apply(&self, shared: &mut Shared) -> Result<(), BoxError> {
        for (tensor, &role) in shared.tensors.iter_mut().zip(&shared.roles) {
            *tensor = self.apply_to(tensor, role)?;
        }
        Ok(())
    }

    fn apply_to(&self, tensor: &Tensor, role: Role) -> Result<Tensor, BoxError> {
        let uploaded = self.upload(tensor)?;
        match role {
            Role::Pixels(layout) => self.pixels(uploaded, layout),
            Role::Values => match self.kind {
                Some(kind) if is_float(uploaded.kind()) => Ok(uploaded.f_to_kind(kind)?),
                _ => Ok(uploaded),
            },
        }
    }

    /// Brings a tensor to the device as it is, so that bytes cross as bytes.
    ///
    /// Pinned memory comes from libtorch's own pool, which hands a block out again only when the copy from it is done.
    fn upload(&self, tensor: &Tensor) -> Result<Tensor, BoxError> {
        let is_pinned = self.pin_memory.unwrap_or(self.device.is_cuda()) && Cuda::is_available();
        let index = if let Device::Cuda(index) = self.device { index } else { 0 };
        let host = if is_pinned { tensor.f_pin_memory(Device::Cuda(index))? } else { tensor.shallow_clone() };
        if self.device == Device::Cpu {
            return Ok(host);
        }
        Ok(host.f_to_device_(self.device, host.kind(), is_pinned, false)?)
    }

    fn pixels(&self, images: Tensor, layout: Layout) -> Result<Tensor, BoxError> {
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
            if let Some((mean, std)) = self.normalize {
                let channel_axis = if is_nhwc && !self.channels_last { 3 } else { 1 };
                let mut shape = [1; 4];
                shape[channel_axis] = images.size()[channel_axis];
                let channels = usize::try_from(shape[channel_axis])?.min(3);
                let of_channels = |values: [f32; 3]| -> Result<Tensor, BoxError> {
                    Ok(Tensor::f_from_slice(&values[..channels])?.f_reshape(shape)?.f_to_device(images.device())?)
                };
                let (mean, std) = (of_channels(mean)?, of_channels(std)?);
                images = images.f_sub_(&mean)?.f_div_(&std)?;
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
}

fn setting(name: &'static str, value: String, range: String) -> LoaderError {
    LoaderError::Setting { name, value, range }
}
