//! What a checkpoint holds of a run besides the loader's state.

use std::fs;
use std::path::Path;

use burn::module::Module;
use burn::optim::{AdamConfig, ModuleOptimizer, OptimizerRecord};
use burn::store::ModuleRecord;
use burn::tensor::Device;
use planfetch::prelude::*;

use crate::model::Net;

/// A training run, as it changes from step to step.
pub(crate) struct Run {
    pub(crate) net: Net,
    pub(crate) optimizer: ModuleOptimizer,
    /// How many steps were done.
    pub(crate) step: u64,
    /// Of this epoch.
    loss_sum: f64,
    /// How many images of this epoch the loss is summed over.
    seen: f64,
}

impl Run {
    pub(crate) fn new(size: usize, device: &Device) -> Self {
        Self { net: Net::new(size, device), optimizer: AdamConfig::new().init(), step: 0, loss_sum: 0.0, seen: 0.0 }
    }

    /// Counts a step.
    pub(crate) fn count(&mut self, loss: f64, len: usize) {
        self.step += 1;
        self.loss_sum += loss * len as f64;
        self.seen += len as f64;
    }

    /// Returns the mean loss of the epoch, and begins another.
    pub(crate) fn take_mean_loss(&mut self) -> f64 {
        std::mem::take(&mut self.loss_sum) / std::mem::take(&mut self.seen)
    }

    pub(crate) fn save(&self, folder: &Path) -> Result<(), BoxError> {
        self.net.clone().into_record().save(folder.join("model"))?;
        self.optimizer.to_record().save(folder.join("optimizer"))?;
        // As bits, so that nothing is rounded.
        fs::write(folder.join("loss"), serde_json::to_vec(&[self.loss_sum.to_bits(), self.seen.to_bits()])?)?;
        Ok(())
    }

    pub(crate) fn load(self, checkpoint: &Checkpoint) -> Result<Self, BoxError> {
        let folder = &checkpoint.path;
        let [loss_sum, seen]: [u64; 2] = serde_json::from_slice(&fs::read(folder.join("loss"))?)?;
        Ok(Self {
            net: self.net.load_record(ModuleRecord::load(folder.join("model"))?),
            optimizer: self.optimizer.load_record(OptimizerRecord::load(folder.join("optimizer"))?),
            step: checkpoint.step,
            loss_sum: f64::from_bits(loss_sum),
            seen: f64::from_bits(seen),
        })
    }
}
