//! The net, its velocities and the loader's state, which are on disk whole or not at all.

use std::fs;
use std::path::PathBuf;

use planfetch::prelude::{BoxError, LoaderState};
use tch::{Tensor, nn};

use crate::momentum::Momentum;

/// A folder, and two beside it for the time in which one takes the other's place.
pub(crate) struct Checkpoint {
    folder: PathBuf,
    unfinished: PathBuf,
    old: PathBuf,
}

impl Checkpoint {
    pub(crate) fn new(folder: &std::path::Path) -> Self {
        let beside = |extension| folder.with_extension(extension);
        Self { folder: folder.into(), unfinished: beside("unfinished"), old: beside("old") }
    }

    pub(crate) fn save(
        &self,
        vs: &nn::VarStore,
        momentum: &Momentum,
        state: &LoaderState,
        steps: usize,
    ) -> Result<(), BoxError> {
        if self.unfinished.exists() {
            fs::remove_dir_all(&self.unfinished)?;
        }
        fs::create_dir_all(&self.unfinished)?;
        vs.save(self.unfinished.join("model.safetensors"))?;
        Tensor::write_safetensors(&momentum.named(), self.unfinished.join("momentum.safetensors"))?;
        fs::write(self.unfinished.join("loader.json"), serde_json::to_vec(&(steps, state))?)?;
        // The old one stays until the new one is in its place, where `load` looks first.
        if self.folder.exists() {
            if self.old.exists() {
                fs::remove_dir_all(&self.old)?;
            }
            fs::rename(&self.folder, &self.old)?;
        }
        fs::rename(&self.unfinished, &self.folder)?;
        Ok(())
    }

    /// Reads the newest checkpoint that is whole, and returns after how many steps it was saved.
    pub(crate) fn load(
        &self,
        vs: &mut nn::VarStore,
        momentum: &mut Momentum,
    ) -> Result<Option<(usize, LoaderState)>, BoxError> {
        let Some(folder) = [&self.folder, &self.old].into_iter().find(|folder| folder.exists()) else {
            return Ok(None);
        };
        vs.load(folder.join("model.safetensors"))?;
        momentum.set(Tensor::read_safetensors(folder.join("momentum.safetensors"))?)?;
        Ok(Some(serde_json::from_slice(&fs::read(folder.join("loader.json"))?)?))
    }
}
