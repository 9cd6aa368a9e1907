//! One fetch, from its turn to its answer.

use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crc32fast::Hasher;

use crate::body::Body;
use crate::directory::CacheDir;
use crate::download::download;
use crate::error::{CacheError, CacheErrorKind};
use crate::key::{ObjectKey, Stamp};
use crate::lease::{Claim, Lease};
use crate::shared::{Answers, Shared, closed};
use crate::sharing::Lookup;
use crate::table::{Fetch, Outcome, Ticket};
use crate::timeline::{FetchStage, FetchTimeline};

/// How long to wait before another process is looked after again, at first and at most.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(2);
const LOOK_AGAIN_AT_LEAST_EVERY: Duration = Duration::from_millis(50);

/// A running fetch. However it ends (done, failed, stopped, panicked), its slot is freed.
pub(crate) struct Slot {
    shared: Arc<Shared>,
    fetch: Fetch,
    timeline: FetchTimeline,
    /// What keeps other processes away from the object, where there may be any.
    hold: Option<(Lease, Claim)>,
    is_polled: bool,
    is_finished: bool,
}

/// How looking for an object in a shared directory ended.
enum Looked {
    Found(Stamp),
    /// It has to be fetched from the store, and this process is the one that brings it.
    Missing,
    /// It has to be fetched from the store, and left in memory: nothing keeps other processes away from its file.
    Unheld,
    /// Nobody wants it any more.
    GivenUp,
}

/// Another process that brings the object.
struct Awaited {
    /// When it was seen to get on.
    since: Instant,
    /// How far it had come then.
    progress: Vec<(u64, SystemTime)>,
}

impl Slot {
    pub(crate) fn new(shared: Arc<Shared>, fetch: Fetch) -> Self {
        let timeline = FetchTimeline::new(fetch.target.asked_at);
        Self { shared, fetch, timeline, hold: None, is_polled: false, is_finished: false }
    }

    pub(crate) async fn run(mut self) {
        self.is_polled = true;
        let shared = Arc::clone(&self.shared);
        let (key, ticket, existing) = (self.fetch.key, self.fetch.ticket, self.fetch.existing);
        let mut body = Body::new();
        if shared.sharing.is_some() {
            match self.look_up().await {
                Looked::Found(stamp) => return self.finish(Outcome::Stored(stamp)),
                Looked::GivenUp => return,
                Looked::Missing => {}
                Looked::Unheld => body.stay_in_memory(),
            }
        } else if let Some(stamp) = existing {
            self.timeline.begin(FetchStage::Verify);
            if self.check(stamp).await.unwrap_or(false) {
                return self.finish(Outcome::Stored(stamp));
            }
        }
        // Of the bytes that may be in memory at once, this download's are held until they are written or handed out.
        let (body, mut in_memory) = match download(&shared, &self.fetch, body, &mut self.timeline).await {
            Ok(downloaded) => downloaded,
            Err(error) => {
                shared.counters.failures.add(1);
                return self.finish(Outcome::Failed(error));
            }
        };
        shared.update(|table, effects| table.downloaded(ticket, effects));
        self.timeline.begin(FetchStage::Write);
        let committer = Arc::clone(&shared);
        let committed = shared
            .write_blocking(move || {
                // Asked for only now: while it waited for its turn to write, the object may have been given up.
                let may_commit = committer.update(|table, _| table.begin_commit(key, ticket));
                may_commit.then(|| body.commit(&committer, key, ticket, existing))
            })
            .await;
        let outcome = match committed {
            None => return,
            Some(Ok(stamp)) => Outcome::Stored(stamp),
            Some(Err(mut body)) => {
                body.stay_in_memory();
                shared.admit(body.most_in_memory(None), &mut in_memory).await;
                let deliverer = Arc::clone(&shared);
                shared.write_blocking(move || body.deliver(&deliverer)).await
            }
        };
        self.finish(outcome);
    }

    /// Looks for the object in a directory that other processes use too, and waits while one of them brings it: for as
    /// long as it gets on.
    async fn look_up(&mut self) -> Looked {
        self.timeline.begin(FetchStage::Verify);
        let (key, ticket) = (self.fetch.key, self.fetch.ticket);
        let mut pause = LOOK_AGAIN_AFTER;
        let mut awaited: Option<Awaited> = None;
        loop {
            let shared = Arc::clone(&self.shared);
            let looked_up = self
                .shared
                .blocking(move || {
                    let looked_up = shared.sharing.as_ref().map(|sharing| sharing.look_up(&shared.dir, key));
                    if let Some(Ok(Lookup::Found(stamp, _))) = &looked_up {
                        shared.dir.touch(key, *stamp);
                    }
                    looked_up
                })
                .await;
            let problem = match looked_up {
                None => return Looked::Missing,
                Some(Ok(Lookup::Found(stamp, lease))) => match self.check(stamp).await {
                    Ok(true) => {
                        // A lease that nobody wants any more would stay for ever.
                        if !self.shared.update(|table, _| table.begin_commit(key, ticket)) {
                            return Looked::GivenUp;
                        }
                        lease.keep();
                        return Looked::Found(stamp);
                    }
                    Ok(false) => {
                        let shared = Arc::clone(&self.shared);
                        let discard = move || {
                            shared.sharing.as_ref().map_or(Ok(()), |sharing| sharing.discard(&shared.dir, key, stamp))
                        };
                        self.shared.blocking(discard).await.err()
                    }
                    Err(error) => Some(error),
                },
                Some(Ok(Lookup::Missing(lease, claim))) => {
                    self.hold = Some((lease, claim));
                    return Looked::Missing;
                }
                Some(Ok(Lookup::Busy)) => {
                    if self.is_awaited_in_vain(&mut awaited).await {
                        tracing::debug!(
                            uri = %self.fetch.target.name(),
                            "another process that brings the object does not get on; it is read into memory"
                        );
                        return Looked::Unheld;
                    }
                    None
                }
                Some(Err(error)) => Some(error),
            };
            if let Some(error) = problem {
                // It would be so again and again. Reading goes on from the store.
                self.shared.warnings.unread(&error);
                return Looked::Unheld;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_AGAIN_AT_LEAST_EVERY);
        }
    }

    /// Returns whether another process was waited for as long as a store is, and did nothing meanwhile that its
    /// temporary file tells: it is stopped, or its store does not answer.
    async fn is_awaited_in_vain(&self, awaited: &mut Option<Awaited>) -> bool {
        let is_due = |awaited: &Awaited| self.shared.settings.progress_timeout <= awaited.since.elapsed();
        if awaited.as_ref().is_some_and(|awaited| !is_due(awaited)) {
            return false;
        }
        let (shared, key) = (Arc::clone(&self.shared), self.fetch.key);
        let progress = self.shared.blocking(move || shared.dir.progress(key)).await;
        if awaited.as_ref().is_some_and(|awaited| awaited.progress == progress) {
            return true;
        }
        *awaited = Some(Awaited { since: Instant::now(), progress });
        false
    }

    /// Returns whether a file holds the bytes that its name says.
    async fn check(&self, stamp: Stamp) -> io::Result<bool> {
        let (checker, key) = (Arc::clone(&self.shared), self.fetch.key);
        let checked = self.shared.write_blocking(move || is_intact(&checker.dir, key, stamp)).await;
        if !matches!(checked, Ok(true)) {
            self.shared.counters.corrupt_files.add(1);
        }
        checked
    }

    fn finish(&mut self, outcome: Outcome) {
        self.is_finished = true;
        self.timeline.finish();
        self.shared.counters.add_times(&self.timeline);
        if let Outcome::Stored(_) = &outcome
            && let Some((lease, _claim)) = self.hold.take()
        {
            lease.keep();
        }
        let answers =
            Answers { target: Some(Arc::clone(&self.fetch.target)), timeline: Some(Arc::new(self.timeline.clone())) };
        let (key, ticket) = (self.fetch.key, self.fetch.ticket);
        self.shared.update_for(&answers, |table, effects| table.finish(key, ticket, outcome, effects));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let (key, ticket) = (self.fetch.key, self.fetch.ticket);
        self.hold = None;
        if !self.is_polled && self.shared.read(|table| table.is_running(key, ticket)) {
            // The runtime has ended. What follows must not start another one, which would end the same way.
            self.shared.set_closed();
        }
        let is_closed = self.shared.is_closed();
        self.shared.update(|table, effects| {
            if !self.is_finished {
                // Stopped because nobody wants it any more, and then nobody hears this; or ended by the runtime's end
                // or by a panic, of a registered store for example.
                let error = if is_closed { closed(&self.fetch.target) } else { broken(&self.fetch) };
                table.finish(key, ticket, Outcome::Failed(error), effects);
            }
        });
        if self.shared.sharing.is_some() {
            // Not before the table knows that the fetch has ended: from then on it takes no more room.
            let settling = Settling(Arc::clone(&self.shared), ticket);
            drop(self.shared.io.spawn_blocking(move || drop(settling)));
        }
        self.shared.update(|table, effects| table.slot_freed(ticket, effects));
    }
}

/// Gives back what a fetch has taken of a shared directory and not used, however it ends: also where the runtime has
/// ended and runs nothing any more.
struct Settling(Arc<Shared>, Ticket);

impl Drop for Settling {
    fn drop(&mut self) {
        if let Some(sharing) = &self.0.sharing {
            sharing.settle(self.1);
        }
    }
}

fn broken(fetch: &Fetch) -> CacheError {
    CacheError::new(
        CacheErrorKind::Unavailable,
        format!("{}: its download broke off; the object store may have panicked", fetch.target.name()),
    )
}

/// Returns whether the file holds the bytes that its name says; one that is gone does not. Blocks.
pub(crate) fn is_intact(dir: &CacheDir, key: ObjectKey, stamp: Stamp) -> io::Result<bool> {
    let check = || -> io::Result<bool> {
        let mut file = dir.open_file(key, stamp)?;
        if file.seek(io::SeekFrom::End(0))? != stamp.len {
            return Ok(false);
        }
        file.rewind()?;
        let mut crc = Hasher::new();
        let mut block = vec![0; 128 << 10];
        loop {
            match file.read(&mut block)? {
                0 => return Ok(crc.finalize() == stamp.crc),
                n => crc.update(&block[..n]),
            }
        }
    };
    match check() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        checked => checked,
    }
}
