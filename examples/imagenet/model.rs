//! A small residual net.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::tensor::{Device, Int, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};

/// Images of shape `[batch, 3, size, size]` and labels of shape `[batch]`.
type Labelled = (Tensor<4>, Tensor<1, Int>);

/// Two convolutions around which the input goes too, as in "Deep Residual Learning for Image Recognition" (He et al.,
/// CVPR 2016).
#[derive(Debug, Module)]
struct Block {
    conv1: Conv2d,
    norm1: BatchNorm,
    conv2: Conv2d,
    norm2: BatchNorm,
    shortcut: Conv2d,
}

impl Block {
    fn new(from: usize, to: usize, device: &Device) -> Self {
        let conv = |from, stride| {
            Conv2dConfig::new([from, to], [3, 3])
                .with_stride([stride, stride])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .with_bias(false)
                .init(device)
        };
        Self {
            conv1: conv(from, 2),
            norm1: BatchNormConfig::new(to).init(device),
            conv2: conv(to, 1),
            norm2: BatchNormConfig::new(to).init(device),
            shortcut: Conv2dConfig::new([from, to], [1, 1]).with_stride([2, 2]).with_bias(false).init(device),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let inner = Relu::new().forward(self.norm1.forward(self.conv1.forward(x.clone())));
        let inner = self.norm2.forward(self.conv2.forward(inner));
        Relu::new().forward(inner + self.shortcut.forward(x))
    }
}

/// Four residual blocks, each of which halves the height and the width, and a dense layer.
#[derive(Debug, Module)]
pub(crate) struct Net {
    blocks: Vec<Block>,
    pool: AdaptiveAvgPool2d,
    dense: Linear,
}

impl Net {
    pub(crate) fn new(num_classes: usize, device: &Device) -> Self {
        let widths = [3, 16, 32, 64, 128];
        Self {
            blocks: widths.windows(2).map(|pair| Block::new(pair[0], pair[1], device)).collect(),
            pool: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            dense: LinearConfig::new(128, num_classes).init(device),
        }
    }

    /// Returns the logits of the classes.
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.blocks.iter().fold(images, |x, block| block.forward(x));
        self.dense.forward(self.pool.forward(x).flatten(1, 3))
    }

    fn classify(&self, (images, labels): Labelled) -> ClassificationOutput {
        let output = self.forward(images);
        let loss = CrossEntropyLossConfig::new().init(&output.device()).forward(output.clone(), labels.clone());
        ClassificationOutput::new(loss, output, labels)
    }
}

impl TrainStep for Net {
    type Input = Labelled;
    type Output = ClassificationOutput;

    fn step(&self, batch: Labelled) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Net {
    type Input = Labelled;
    type Output = ClassificationOutput;

    fn step(&self, batch: Labelled) -> ClassificationOutput {
        self.classify(batch)
    }
}
