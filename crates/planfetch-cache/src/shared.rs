//! The shell around the table: does what it says, on the runtime of the cache.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::directory::CacheDir;
use crate::download::{download, is_intact};
use crate::error::{CacheError, CacheErrorKind};
use crate::key::{ObjectKey, Stamp};
use crate::local_file::LocalFile;
use crate::settings::CacheSettings;
use crate::stats::Counters;
use crate::stores::Stores;
use crate::table::{Effect, Fetch, Outcome, Table, Ticket};

/// Answers a request.
pub(crate) type Waiter = Box<dyn FnOnce(Result<LocalFile, CacheError>) + Send>;
type Effects = Vec<Effect<Waiter, AbortHandle>>;

/// What all handles, guards and tasks of a cache share.
pub(crate) struct Shared {
    pub(crate) dir: CacheDir,
    pub(crate) stores: Stores,
    pub(crate) settings: CacheSettings,
    pub(crate) counters: Counters,
    table: Mutex<Table<Waiter, AbortHandle>>,
    io: Handle,
    writers: Semaphore,
    is_closed: AtomicBool,
    /// The kinds of write errors that have been warned of: a full disk would fill the log.
    warned: Mutex<BTreeSet<String>>,
}

impl Shared {
    pub(crate) fn new(
        dir: CacheDir,
        stores: Stores,
        settings: CacheSettings,
        table: Table<Waiter, AbortHandle>,
        io: Handle,
    ) -> Self {
        let writers = Semaphore::new(settings.write_concurrency);
        Self {
            dir,
            stores,
            settings,
            counters: Counters::default(),
            table: Mutex::new(table),
            io,
            writers,
            is_closed: AtomicBool::new(false),
            warned: Mutex::default(),
        }
    }

    /// Reads the table.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Table<Waiter, AbortHandle>) -> R) -> R {
        read(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the table, and then does what it asks for, without its lock.
    pub(crate) fn update<R>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Table<Waiter, AbortHandle>, &mut Effects) -> R,
    ) -> R {
        let mut effects = Effects::new();
        let returned = change(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner), &mut effects);
        self.run(effects);
        returned
    }

    fn run(self: &Arc<Self>, effects: Effects) {
        let mut removals = Vec::new();
        // A queue and no recursion: each fetch that a closed cache refuses starts the next.
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            match effect {
                Effect::Start(fetch) if self.is_closed.load(Ordering::Acquire) => {
                    let mut more = Effects::new();
                    let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
                    table.finish(fetch.key, fetch.ticket, Outcome::Failed(closed(&fetch.uri)), &mut more);
                    table.slot_freed(&mut more);
                    queue.extend(more);
                }
                Effect::Start(fetch) => {
                    let (key, ticket) = (fetch.key, fetch.ticket);
                    let slot = Slot { shared: Arc::clone(self), fetch, is_finished: false };
                    let task = self.io.spawn(slot.run());
                    let mut more = Effects::new();
                    let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
                    table.started(key, ticket, task.abort_handle(), &mut more);
                    queue.extend(more);
                }
                Effect::Abort(task) => task.abort(),
                Effect::Remove(key, stamp) => removals.push((key, stamp)),
                Effect::Answer(waiter, key, outcome) => {
                    let answer = match outcome {
                        Outcome::Stored(stamp) => Ok(LocalFile::on_disk(Arc::clone(self), key, stamp)),
                        Outcome::Unwritten(bytes) => Ok(LocalFile::from_bytes(bytes)),
                        Outcome::Failed(error) => Err(error),
                    };
                    // A caller's panic is the caller's: the answers and fetches behind it go on.
                    if catch_unwind(AssertUnwindSafe(|| waiter(answer))).is_err() {
                        tracing::error!("a callback of ensure_local_then panicked");
                    }
                }
            }
        }
        if !removals.is_empty() {
            // Where the runtime has ended, the files stay, and the next opening finds them.
            let removal = Removal { shared: Arc::clone(self), files: removals };
            drop(self.io.spawn_blocking(move || removal.run()));
        }
    }

    /// Runs what blocks on the disk, with as few others at once as the settings say.
    pub(crate) async fn write_blocking<T: Send + 'static>(&self, write: impl FnOnce() -> T + Send + 'static) -> T {
        let _permit = self.writers.acquire().await.expect("the semaphore is never closed");
        match self.io.spawn_blocking(write).await {
            Ok(written) => written,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is ending, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Says once for each kind of error that objects can't be written, and that reading goes on without the disk.
    pub(crate) fn warn_unwritten(&self, error: &io::Error) {
        self.warn("write to", "objects are read from the store into memory", error);
    }

    fn warn(&self, what: &str, consequence: &str, error: &io::Error) {
        let is_new =
            self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{what} {:?}", error.kind()));
        if is_new {
            tracing::warn!(
                dir = %self.dir.root().display(),
                %error,
                "can't {what} the cache directory; {consequence}"
            );
        }
    }

    /// Lets no further fetch start. Those that run end with the runtime.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("dir", &self.dir).field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Files to delete. However it ends (done, panicked, never run), the table is told, so that nobody waits in vain.
struct Removal {
    shared: Arc<Shared>,
    files: Vec<(ObjectKey, Stamp)>,
}

impl Removal {
    /// Deletes the files. Blocks.
    fn run(self) {
        for (key, stamp) in &self.files {
            match std::fs::remove_file(self.shared.dir.path(*key, *stamp)) {
                Ok(()) => self.shared.counters.evictions.add(1),
                // It is gone, which is what was wanted.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // It is checked before it is ever handed out again.
                Err(error) => self.shared.warn("delete from", "files that are not needed stay", &error),
            }
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.shared.update(|table, effects| self.files.iter().for_each(|(key, _)| table.removed(*key, effects)));
    }
}

/// A running fetch. However it ends (done, failed, stopped, panicked), its slot is freed.
struct Slot {
    shared: Arc<Shared>,
    fetch: Fetch,
    is_finished: bool,
}

impl Slot {
    async fn run(mut self) {
        let Fetch { key, uri, ticket, existing } = self.fetch.clone();
        let shared = Arc::clone(&self.shared);
        if let Some(stamp) = existing {
            let checker = Arc::clone(&shared);
            if shared.write_blocking(move || is_intact(&checker, key, stamp)).await {
                return self.finish(Outcome::Stored(stamp));
            }
            shared.counters.corrupt_files.add(1);
        }
        let body = match download(&shared, key, &uri, ticket).await {
            Ok(body) => body,
            Err(error) => {
                shared.counters.failures.add(1);
                return self.finish(Outcome::Failed(error));
            }
        };
        let committer = Arc::clone(&shared);
        let outcome = shared
            .write_blocking(move || {
                // Asked for only now: while it waited for its turn to write, the object may have been given up.
                let may_commit = committer.update(|table, _| table.begin_commit(key, ticket));
                may_commit.then(|| body.commit(&committer, key, existing))
            })
            .await;
        if let Some(outcome) = outcome {
            self.finish(outcome);
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        self.is_finished = true;
        let (key, ticket) = (self.fetch.key, self.fetch.ticket);
        self.shared.update(|table, effects| table.finish(key, ticket, outcome, effects));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let (key, ticket, uri): (ObjectKey, Ticket, _) = (self.fetch.key, self.fetch.ticket, &self.fetch.uri);
        let is_closed = self.shared.is_closed.load(Ordering::Acquire);
        self.shared.update(|table, effects| {
            if !self.is_finished {
                // Stopped because nobody wants it any more, and then nobody hears this; or ended by the runtime's end
                // or by a panic, of a registered store for example.
                let error = if is_closed { closed(uri) } else { broken(uri) };
                table.finish(key, ticket, Outcome::Failed(error), effects);
            }
            table.slot_freed(effects);
        });
    }
}

fn broken(uri: &str) -> CacheError {
    CacheError::new(
        CacheErrorKind::Unavailable,
        format!("{uri}: its download broke off; the object store may have panicked"),
    )
}

fn closed(uri: &str) -> CacheError {
    CacheError::new(CacheErrorKind::Closed, format!("{uri}: the cache was closed before the download ended"))
}
