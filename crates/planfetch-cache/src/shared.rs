//! The shell around the table: does what it says, on the runtime of the cache.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;

use crate::directory::CacheDir;
use crate::error::{CacheError, CacheErrorKind};
use crate::eviction::CacheLimit;
use crate::key::{ObjectKey, Stamp};
use crate::local_file::LocalFile;
use crate::settings::CacheSettings;
use crate::sharing::Sharing;
use crate::slot::Slot;
use crate::stats::Counters;
use crate::stores::Stores;
use crate::table::{Amount, Effect, Hit, Outcome, Room, Table, Ticket};
use crate::target::Target;
use crate::temp_file::TempFile;
use crate::timeline::FetchTimeline;
use crate::usage::pause;
use crate::warnings::Warnings;
use crate::writers::Writers;

/// Answers a request.
pub(crate) type Waiter = Box<dyn FnOnce(Result<LocalFile, CacheError>) + Send>;
pub(crate) type Effects = Vec<Effect<Waiter, AbortHandle>>;
type CacheTable = Table<Waiter, AbortHandle>;

/// How many files are deleted before the table is told.
const REMOVE_AT_ONCE: usize = 64;

/// What all handles, guards and tasks of a cache share.
pub(crate) struct Shared {
    pub(crate) dir: CacheDir,
    pub(crate) stores: Stores,
    pub(crate) settings: CacheSettings,
    pub(crate) counters: Counters,
    pub(crate) warnings: Warnings,
    /// What is known of other processes, where there may be any.
    pub(crate) sharing: Option<Sharing>,
    table: Mutex<CacheTable>,
    pub(crate) io: Handle,
    writers: Arc<Writers>,
    /// In KiB.
    in_flight: Semaphore,
    is_closed: AtomicBool,
    opened_at: Instant,
}

/// Whose answers effects are: those of one fetch.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) target: Option<Arc<Target>>,
    pub(crate) timeline: Option<Arc<FetchTimeline>>,
}

impl Shared {
    pub(crate) fn new(
        dir: CacheDir,
        stores: Stores,
        settings: CacheSettings,
        sharing: Option<Sharing>,
        table: CacheTable,
        io: Handle,
    ) -> Self {
        Self {
            warnings: Warnings::new(dir.root().to_path_buf()),
            dir,
            stores,
            counters: Counters::default(),
            sharing,
            table: Mutex::new(table),
            io,
            writers: Arc::new(Writers::new(settings.write_concurrency)),
            in_flight: Semaphore::new(settings.in_flight_kib() as usize),
            is_closed: AtomicBool::new(false),
            opened_at: Instant::now(),
            settings,
        }
    }

    /// Reads the table.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&CacheTable) -> R) -> R {
        read(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the table, and then does what it asks for, without its lock.
    pub(crate) fn update<R>(self: &Arc<Self>, change: impl FnOnce(&mut CacheTable, &mut Effects) -> R) -> R {
        self.update_for(&Answers::default(), change)
    }

    /// Changes the table for a fetch, whose target and timeline go with the answers.
    pub(crate) fn update_for<R>(
        self: &Arc<Self>,
        answers: &Answers,
        change: impl FnOnce(&mut CacheTable, &mut Effects) -> R,
    ) -> R {
        let mut effects = Effects::new();
        let returned = {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.settings.min_age_before_delete.is_zero() {
                table.set_now(self.opened_at.elapsed());
                table.evict_aged(&mut effects);
            }
            change(&mut table, &mut effects)
        };
        if !effects.is_empty() {
            self.run(effects, answers);
        }
        returned
    }

    /// Asks for an object; `then` is called at once when it is local.
    pub(crate) fn demand(self: &Arc<Self>, key: ObjectKey, target: &mut dyn FnMut() -> Arc<Target>, then: Waiter) {
        let hit = self.update(|table, effects| table.demand(key, &mut *target, then, effects));
        match hit {
            Some((hit, then)) => {
                self.counters.hits.add(1);
                then(Ok(match hit {
                    Hit::File(stamp) => LocalFile::on_disk(Arc::clone(self), target(), key, stamp),
                    Hit::Memory(bytes) => LocalFile::from_bytes(bytes),
                }));
            }
            None => self.counters.misses.add(1),
        }
    }

    /// Has an object fetched anew whose file turned out to be bad, and waits for it.
    pub(crate) fn fetch_anew(
        self: &Arc<Self>,
        key: ObjectKey,
        bad: Stamp,
        target: &Arc<Target>,
    ) -> Result<LocalFile, CacheError> {
        if let Some(sharing) = &self.sharing {
            // Whoever looks for the object would find the bad file again. Where it can't be said to be bad, it stays.
            let _ = sharing.discard(&self.dir, key, bad);
        }
        self.update(|table, effects| table.invalidate(key, Some(bad), effects));
        let (answer, answered) = mpsc::sync_channel(1);
        let then = Box::new(move |result| {
            // OK because the receiver is gone only when this function has been left.
            let _ = answer.send(result);
        });
        self.demand(key, &mut || Arc::clone(target), then);
        answered.recv().unwrap_or_else(|_| Err(closed(target)))
    }

    fn run(self: &Arc<Self>, effects: Effects, answers: &Answers) {
        let mut is_removal_due = false;
        let mut let_go = Vec::new();
        // A queue and no recursion: each fetch that a closed cache refuses starts the next.
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            match effect {
                Effect::Start(fetch) if self.is_closed.load(Ordering::Acquire) => {
                    let mut more = Effects::new();
                    let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
                    let outcome = Outcome::Failed(closed(&fetch.target));
                    table.finish(fetch.key, fetch.ticket, outcome, &mut more);
                    table.slot_freed(fetch.ticket, &mut more);
                    queue.extend(more);
                }
                Effect::Start(fetch) => {
                    let (key, ticket) = (fetch.key, fetch.ticket);
                    let task = self.io.spawn(Slot::new(Arc::clone(self), fetch).run());
                    let mut more = Effects::new();
                    let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
                    table.started(key, ticket, task.abort_handle(), &mut more);
                    drop(table);
                    queue.extend(more);
                    if self.is_closed() {
                        // It was closed between the two, and did not find this task.
                        task.abort();
                    }
                }
                Effect::Abort(task) => task.abort(),
                Effect::Remove => is_removal_due = true,
                Effect::LetGo(key, stamp, evict) => let_go.push((key, stamp, evict)),
                Effect::Answer(waiter, key, outcome) => {
                    let answer = match outcome {
                        Outcome::Stored(stamp) => {
                            let target = answers.target.as_ref().expect("a file is the answer of a fetch");
                            Ok(LocalFile::on_disk(Arc::clone(self), Arc::clone(target), key, stamp)
                                .with_timeline(answers.timeline.clone()))
                        }
                        Outcome::Unwritten(bytes) => {
                            Ok(LocalFile::from_bytes(bytes).with_timeline(answers.timeline.clone()))
                        }
                        Outcome::Failed(error) => Err(error),
                    };
                    // A caller's panic is the caller's: the answers and fetches behind it go on.
                    if catch_unwind(AssertUnwindSafe(|| waiter(answer))).is_err() {
                        tracing::error!("a callback of ensure_local_then panicked");
                    }
                }
            }
        }
        if is_removal_due {
            let removal = Removal(Arc::clone(self));
            drop(self.io.spawn_blocking(move || removal.run()));
        }
        if let (false, Some(sharing)) = (let_go.is_empty(), &self.sharing) {
            sharing.leave(let_go);
            let shared = Arc::clone(self);
            drop(self.io.spawn_blocking(move || shared.let_go(None)));
        }
    }

    /// Runs what blocks on the disk, with as few others at once as the settings say.
    pub(crate) async fn write_blocking<T: Send + 'static>(&self, write: impl FnOnce() -> T + Send + 'static) -> T {
        self.writers.run(&self.io, write).await
    }

    /// Runs what blocks.
    pub(crate) async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match self.io.spawn_blocking(work).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is ending, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Waits until as many bytes may be in memory at once, or as many as may be at all. `held` is what a fetch has been
    /// admitted with before: enough, or else given back before more is waited for, since two fetches that each hold a
    /// part and wait for the rest would wait for ever.
    pub(crate) async fn admit<'s>(&'s self, bytes: u64, held: &mut Option<SemaphorePermit<'s>>) {
        let permits = bytes.div_ceil(1024).clamp(1, self.settings.in_flight_kib());
        // OK because the settings allow 2^30 KiB.
        let permits = permits as u32;
        if held.as_ref().is_some_and(|held| permits as usize <= held.num_permits()) {
            return;
        }
        *held = None;
        *held = Some(self.in_flight.acquire_many(permits).await.expect("the semaphore is never closed"));
    }

    /// Makes room on disk for what a fetch brings, and a temporary file to write it to; returns none where there is no
    /// room, or no way to write. A fetch has one at a time. Blocks.
    pub(crate) fn temp_file(self: &Arc<Self>, key: ObjectKey, ticket: Ticket, len: u64) -> Option<TempFile> {
        let made = match &self.sharing {
            Some(sharing) => sharing.temp_file(self, key, ticket, len).map(|file| file.map(TempFile::shared)),
            None => {
                let made = self.make_own_room(key, ticket, len).then(|| self.dir.temp_file(key, len));
                made.transpose().map(|file| file.map(TempFile::own))
            }
        };
        made.unwrap_or_else(|error| {
            self.warnings.unwritten(&error);
            None
        })
    }

    fn make_own_room(self: &Arc<Self>, key: ObjectKey, ticket: Ticket, len: u64) -> bool {
        if let CacheLimit::AvailableSpace { min_ratio } = self.settings.limit {
            self.follow_free_space(min_ratio);
        }
        loop {
            match self.update(|table, _| table.reserve(key, ticket, len)) {
                Room::Granted(victims) => {
                    let removing = Removing { shared: self, files: victims };
                    removing.run();
                    return true;
                }
                Room::Wait => pause(Duration::from_micros(500)),
                Room::Full => {
                    // Else it was given up meanwhile.
                    if self.read(|table| table.is_running(key, ticket)) {
                        self.counters.no_room.add(1);
                        self.warnings.full(self.settings.max_bytes());
                    }
                    return false;
                }
            }
        }
    }

    /// Sets the limit to what is used and what may still be taken of the file system.
    fn follow_free_space(self: &Arc<Self>, min_ratio: f64) {
        #[cfg(unix)]
        if let Ok(file_system) = rustix::fs::statvfs(self.dir.root()) {
            let free = file_system.f_bavail.saturating_mul(file_system.f_frsize);
            let total = file_system.f_blocks.saturating_mul(file_system.f_frsize);
            let keep = (total as f64 * min_ratio) as u64;
            self.update(|table, _| {
                // What is promised is not written yet, and so is part of what is free.
                let written = table.used().bytes.saturating_sub(table.promised());
                table.set_max_bytes((written + free).saturating_sub(keep));
            });
        }
        #[cfg(not(unix))]
        let _ = min_ratio;
    }

    /// Has an object fetched anew by whoever asks for it next. Blocks where other processes use the directory too.
    pub(crate) fn invalidate(self: &Arc<Self>, key: ObjectKey) {
        match &self.sharing {
            Some(sharing) => {
                // What this process gave up a moment ago is no use of the file any more.
                self.let_go(None);
                sharing.delete_unused(self, key);
            }
            None => self.update(|table, effects| table.invalidate(key, None, effects)),
        }
    }

    /// Ends leases on files that this process uses no more, and deletes those that should go, until a moment. Blocks.
    fn let_go(self: &Arc<Self>, until: Option<Instant>) {
        let Some(sharing) = &self.sharing else { return };
        while until.is_none_or(|until| Instant::now() < until) && sharing.let_next_go(self) {}
        sharing.evict_aged(self);
        self.update(|table, effects| table.set_full(false, effects));
    }

    /// Deletes what is to be deleted, until a moment: when the runtime ends, nobody else does. Blocks.
    pub(crate) fn finish_removals(self: &Arc<Self>, until: Instant) {
        if let Some(sharing) = &self.sharing {
            sharing.hurry();
        }
        self.let_go(Some(until));
        while Instant::now() < until {
            let files = self.update(|table, _| table.take_doomed(REMOVE_AT_ONCE));
            if files.is_empty() {
                return;
            }
            Removing { shared: self, files }.run();
        }
    }

    /// Deletes a file of the cache.
    pub(crate) fn remove_file(&self, key: ObjectKey, stamp: Stamp) {
        match std::fs::remove_file(self.dir.path(key, stamp)) {
            Ok(()) => self.counters.evictions.add(1),
            // It is gone, which is what was wanted.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // It is checked before it is ever handed out again.
            Err(error) => self.warnings.undeleted(&error),
        }
    }

    /// Has files go that nobody keeps, until no more than `limit` is left.
    pub(crate) fn shrink_to(self: &Arc<Self>, limit: Amount) {
        match &self.sharing {
            Some(sharing) => {
                // What this process gave up a moment ago is not in use any more.
                self.let_go(None);
                sharing.shrink_to(self, limit);
            }
            None => self.update(|table, effects| table.shrink_to(limit, effects)),
        }
    }

    /// Lets no further fetch start.
    pub(crate) fn set_closed(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Lets no further fetch start, and stops those that run.
    pub(crate) fn close(self: &Arc<Self>) {
        self.set_closed();
        for task in self.update(|table, _| table.abort_all()) {
            task.abort();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("dir", &self.dir).field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Deletes what the table has doomed. However it ends (done, panicked, never run), the table is told, so that nobody
/// waits in vain.
struct Removal(Arc<Shared>);

impl Removal {
    /// Deletes the files. Blocks.
    fn run(self) {
        loop {
            let files = self.0.update(|table, _| table.take_doomed(REMOVE_AT_ONCE));
            if files.is_empty() {
                return;
            }
            let removing = Removing { shared: &self.0, files };
            removing.run();
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        // What is left was not deleted, since the runtime has ended; the next opening finds it.
        let files = self.0.update(|table, _| table.take_doomed(usize::MAX));
        drop(Removing { shared: &self.0, files });
    }
}

/// Files that are being deleted.
struct Removing<'a> {
    shared: &'a Arc<Shared>,
    files: Vec<(ObjectKey, Stamp)>,
}

impl Removing<'_> {
    fn run(self) {
        self.files.iter().for_each(|(key, stamp)| self.shared.remove_file(*key, *stamp));
    }
}

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        if !self.files.is_empty() {
            self.shared.update(|table, effects| {
                self.files.iter().for_each(|(key, stamp)| table.removed(*key, *stamp, effects));
            });
        }
    }
}

pub(crate) fn closed(target: &Target) -> CacheError {
    CacheError::new(
        CacheErrorKind::Closed,
        format!("{}: the cache was closed before the download ended", target.name()),
    )
}
