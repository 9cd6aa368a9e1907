//! What a checkpoint holds of a run besides the loader's state, and the log of its steps.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
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

/// A file with a line for each step that the model has made.
pub(crate) struct StepLog {
    file: File,
}

impl StepLog {
    /// Opens the log of a run that has done `steps` steps. Those behind the checkpoint that it goes on from, which the
    /// model has lost, are taken out.
    pub(crate) fn open(path: &Path, steps: u64) -> Result<Self, BoxError> {
        let mut kept = String::new();
        if path.exists() {
            for line in BufReader::new(File::open(path)?).lines().take(usize::try_from(steps)?) {
                kept.push_str(&line?);
                kept.push('\n');
            }
        }
        let mut file = File::create(path)?;
        file.write_all(kept.as_bytes())?;
        Ok(Self { file })
    }

    /// Writes a line, which a process that is killed right after it does not lose.
    pub(crate) fn write(&mut self, step: u64, loss: f64, ids: &[SampleId]) -> Result<(), BoxError> {
        let mut line = format!("{step} {loss}");
        for id in ids {
            line.push_str(&format!(" {id}"));
        }
        line.push('\n');
        self.file.write_all(line.as_bytes())?;
        Ok(())
    }
}
