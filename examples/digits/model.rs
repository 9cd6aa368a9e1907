//! The net.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::tensor::{Device, Tensor};

/// Two convolutions, one pooling, two dense layers: from `[batch, 1, size, size]` to `[batch, 10]`.
#[derive(Debug, Module)]
pub(crate) struct Net {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    dense1: Linear,
    dense2: Linear,
    activation: Relu,
}

impl Net {
    pub(crate) fn new(size: usize, device: &Device) -> Self {
        let conv = |from, to| Conv2dConfig::new([from, to], [3, 3]).with_padding(PaddingConfig2d::Same).init(device);
        Self {
            conv1: conv(1, 16),
            conv2: conv(16, 32),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            dense1: LinearConfig::new(32 * (size / 2) * (size / 2), 64).init(device),
            dense2: LinearConfig::new(64, 10).init(device),
            activation: Relu::new(),
        }
    }

    /// Returns the logits of the ten digits.
    pub(crate) fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.activation.forward(self.conv1.forward(images));
        let x = self.pool.forward(self.activation.forward(self.conv2.forward(x)));
        let x = self.activation.forward(self.dense1.forward(x.flatten(1, 3)));
        self.dense2.forward(x)
    }
}
