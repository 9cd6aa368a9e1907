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
        for folder in std::mem::take(&mut *self.0.folders.lock().unwrap_or_else(PoisonError::into_inner)) {
            remove(&folder);
        }
        std::process::exit(INTERRUPTED.into());
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
        let path = tempfile::Builder::new().prefix("planfetch-").tempdir()?.keep();
        interrupt.0.folders.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
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
