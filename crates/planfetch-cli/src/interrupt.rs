//! Ctrl-C: a command that can print what it has so far is told; any other ends at once. Temporary folders go either way.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use crate::failure::INTERRUPTED;

/// How often deleting a folder is tried in which threads may still write.
const ATTEMPTS: usize = 20;

/// What the signal's handler and the command share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    was_told: AtomicBool,
    listener: Mutex<Option<mpsc::Sender<()>>>,
    folders: Mutex<Vec<PathBuf>>,
}

impl Interrupt {
    /// Takes over SIGINT, SIGTERM and SIGHUP.
    pub(crate) fn install() -> std::io::Result<Self> {
        let interrupt = Self::default();
        let handler = interrupt.clone();
        ctrlc::set_handler(move || handler.on_signal()).map_err(std::io::Error::other)?;
        Ok(interrupt)
    }

    /// Returns where one message comes for the first signal from here on; a second signal ends the program.
    pub(crate) fn listen(&self) -> mpsc::Receiver<()> {
        let (sender, receiver) = mpsc::channel();
        *self.0.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        receiver
    }

    fn on_signal(&self) {
        let listener = self.0.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_first = !self.0.was_told.swap(true, Ordering::Relaxed);
        if let Some(listener) = listener
            && is_first
            && listener.send(()).is_ok()
        {
            return;
        }
        self.remove_folders();
        std::process::exit(INTERRUPTED.into());
    }

    /// Deletes all temporary folders, whatever is being done in them.
    pub(crate) fn remove_folders(&self) {
        for folder in std::mem::take(&mut *self.0.folders.lock().unwrap_or_else(PoisonError::into_inner)) {
            remove(&folder);
        }
    }
}

/// A folder that is gone when the command ends, however that is.
#[derive(Debug)]
pub(crate) struct TempFolder {
    path: PathBuf,
    interrupt: Interrupt,
}

impl TempFolder {
    pub(crate) fn new(interrupt: &Interrupt) -> std::io::Result<Self> {
        Self::make(interrupt, || tempfile::Builder::new().prefix("planfetch-").tempdir())
    }

    /// Makes one beside a file, whose name its own begins with.
    pub(crate) fn beside(file: &Path, interrupt: &Interrupt) -> std::io::Result<Self> {
        let mut prefix = file.file_name().ok_or(std::io::ErrorKind::InvalidFilename)?.to_owned();
        prefix.push(".tmp-");
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Self::make(interrupt, || tempfile::Builder::new().prefix(&prefix).tempdir_in(folder))
    }

    /// Has a folder made and noted at once: a signal between the two would leave it behind.
    fn make(interrupt: &Interrupt, make: impl FnOnce() -> std::io::Result<tempfile::TempDir>) -> std::io::Result<Self> {
        let mut folders = interrupt.0.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let path = make()?.keep();
        folders.push(path.clone());
        Ok(Self { path, interrupt: interrupt.clone() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        self.interrupt.0.folders.lock().unwrap_or_else(PoisonError::into_inner).retain(|folder| *folder != self.path);
        remove(&self.path);
    }
}

/// Deletes a folder, again where a thread that still ran has put something into it.
fn remove(folder: &Path) {
    for _ in 0..ATTEMPTS {
        // OK because what can't be deleted is temporary by its place too.
        let _ = std::fs::remove_dir_all(folder);
        if !folder.exists() {
            break;
        }
    }
}
