//! Checkpoints that hold the loader's state beside the model's record.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::BoxError;
use crate::state::LoaderState;

/// The file with the loader's state.
const STATE: &str = "loader.json";
/// What the folders are called: how many were saved before, with leading zeros, and the step follow.
const PREFIX: &str = "checkpoint-";
/// Stands between the two.
const STEP: &str = "-step-";
/// The end of a folder's name while it is being written.
const UNFINISHED: &str = ".unfinished";

/// Writes checkpoints of a training loop: a folder each, with the model's and the optimizer's record and the loader's
/// state, so that a run that is killed at any moment goes on with the next batch.
///
/// A checkpoint is written beside, flushed to disk and renamed, so that it is there whole or not at all. Those that were
/// saved last are kept, whatever their steps: a run that began anew, or went back, goes on from its own. Of several ranks,
/// one saves, and all may read.
///
/// # Example
///
/// ```
/// use planfetch_loader::CheckpointRecorder;
/// # use planfetch_loader::{BoxError, Dataset, LoaderBuilder, ObjectUris, SampleContext, VecCollate};
/// # use planfetch_plan::{SampleId, ShuffleOncePerEpochPlanProvider};
/// # struct Numbers;
/// # impl ObjectUris for Numbers {
/// #     fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool { false }
/// # }
/// # impl Dataset for Numbers {
/// #     type Sample = u64;
/// #     fn len(&self) -> u64 { 10 }
/// #     fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> { Ok(ctx.id().0) }
/// # }
/// # let folder = tempfile::tempdir()?;
/// # let plan = ShuffleOncePerEpochPlanProvider::new(10, 2, 42)?;
/// # let (mut loader, controller) = LoaderBuilder::new(Numbers, VecCollate, plan).build()?;
/// let recorder = CheckpointRecorder::new(folder.path())?.with_every(2);
/// for (step, batch) in (1..).zip(&mut loader) {
///     let batch = batch?;
///     // ... a step of the optimizer ...
///     if recorder.is_due(step) {
///         // The model's record and the optimizer's, in whatever files they have.
///         recorder.save(step, &controller.state(), |folder| Ok(std::fs::write(folder.join("model"), "weights")?))?;
///     }
/// }
///
/// // In another process:
/// let checkpoint = recorder.latest()?.expect("one was saved");
/// assert_eq!((checkpoint.step, checkpoint.state.position()), (4, 8));
/// assert_eq!(std::fs::read_to_string(checkpoint.path.join("model"))?, "weights");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckpointRecorder {
    directory: PathBuf,
    every: u64,
    keep: usize,
}

/// A checkpoint to go on from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Its folder, with whatever the training loop wrote there.
    pub path: PathBuf,
    /// How many steps were done.
    pub step: u64,
    /// Where the loader was.
    pub state: LoaderState,
}

/// Why a checkpoint can't be written or read.
#[derive(thiserror::Error)]
#[error("checkpoint {}: {cause}", .path.display())]
pub struct CheckpointError {
    path: PathBuf,
    cause: BoxError,
}

/// As `Display`, since `main` prints the error that it returns by this.
impl fmt::Debug for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl CheckpointRecorder {
    /// Makes a recorder of checkpoints in `directory`, which is made where it is missing.
    ///
    /// # Errors
    ///
    /// When the directory can't be made.
    pub fn new(directory: impl Into<PathBuf>) -> Result<Self, CheckpointError> {
        let directory = directory.into();
        fs::create_dir_all(&directory).map_err(|error| failed(&directory, error))?;
        Ok(Self { directory, every: 0, keep: 2 })
    }

    /// Sets after how many steps a checkpoint is due. Default: 0, never by steps; a loop may save at the end of an epoch
    /// all the same.
    #[must_use]
    pub fn with_every(mut self, steps: u64) -> Self {
        self.every = steps;
        self
    }

    /// Sets how many of the newest checkpoints are kept; at least 1. Default: 2.
    #[must_use]
    pub fn with_keep(mut self, keep: usize) -> Self {
        self.keep = keep.max(1);
        self
    }

    /// Returns whether a checkpoint is due after `step` steps of the run, counted from 1.
    #[must_use]
    pub fn is_due(&self, step: u64) -> bool {
        0 < self.every && step.is_multiple_of(self.every)
    }

    /// Saves a checkpoint after `step` steps: the loader's state, and what `save` writes into the folder that it is
    /// given.
    ///
    /// # Errors
    ///
    /// Those of `save`, or when the folder can't be written.
    pub fn save(
        &self,
        step: u64,
        state: &LoaderState,
        save: impl FnOnce(&Path) -> Result<(), BoxError>,
    ) -> Result<Checkpoint, CheckpointError> {
        let saved = self.list()?;
        let number = saved.last().map_or(0, |last| last.number.saturating_add(1));
        let path = self.directory.join(format!("{PREFIX}{number:06}{STEP}{step}"));
        self.write(&path, state, save).map_err(|cause| CheckpointError { path: path.clone(), cause })?;
        // Besides the one that has just been saved.
        for old in saved.iter().rev().skip(self.keep - 1) {
            remove(&old.path).map_err(|error| failed(&old.path, error))?;
        }
        Ok(Checkpoint { path, step, state: state.clone() })
    }

    fn write(
        &self,
        path: &Path,
        state: &LoaderState,
        save: impl FnOnce(&Path) -> Result<(), BoxError>,
    ) -> Result<(), BoxError> {
        self.sweep()?;
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(UNFINISHED);
        let unfinished = PathBuf::from(unfinished);
        fs::create_dir(&unfinished)?;
        save(&unfinished)?;
        fs::write(unfinished.join(STATE), serde_json::to_vec(state)?)?;
        sync(&unfinished)?;
        fs::rename(&unfinished, path)?;
        File::open(&self.directory)?.sync_all()?;
        Ok(())
    }

    /// Returns the checkpoint that was saved last, or `None` where there is none.
    ///
    /// # Errors
    ///
    /// When the directory or the state can't be read.
    pub fn latest(&self) -> Result<Option<Checkpoint>, CheckpointError> {
        let Some(Saved { step, path, .. }) = self.list()?.pop() else { return Ok(None) };
        let file = path.join(STATE);
        let bytes = fs::read(&file).map_err(|error| failed(&file, error))?;
        let state = serde_json::from_slice(&bytes).map_err(|error| failed(&file, error))?;
        Ok(Some(Checkpoint { path, step, state }))
    }

    /// Returns the whole checkpoints in the order in which they were saved.
    fn list(&self) -> Result<Vec<Saved>, CheckpointError> {
        let entries = fs::read_dir(&self.directory).map_err(|error| failed(&self.directory, error))?;
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed(&self.directory, error))?;
            found.extend(Saved::of(entry.path()));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Deletes what a process that was killed has left unfinished.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(OsStr::to_str);
            if name.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(UNFINISHED)) {
                remove(&path)?;
            }
        }
        Ok(())
    }
}

/// The folder of a whole checkpoint.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Saved {
    /// How many were saved before.
    number: u64,
    step: u64,
    path: PathBuf,
}

impl Saved {
    fn of(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (number, step) = name.strip_prefix(PREFIX)?.split_once(STEP)?;
        Some(Self { number: number.parse().ok()?, step: step.parse().ok()?, path })
    }
}

/// Flushes a folder to disk with all that is in it.
fn sync(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Deletes a folder, if it is there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn failed(path: &Path, cause: impl Into<BoxError>) -> CheckpointError {
    CheckpointError { path: path.to_owned(), cause: cause.into() }
}
