//! One fetch, from its turn to its answer.

use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::time::Duration;

use crc32fast::Hasher;

use crate::download::download;
use crate::error::{CacheError, CacheErrorKind};
use crate::key::{ObjectKey, Stamp};
use crate::lease::{Claim, Lease};
use crate::shared::{Answers, Shared, closed};
use crate::sharing::Lookup;
use crate::table::{Fetch, Outcome};
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
    stored: Option<Stamp>,
    is_finished: bool,
}

impl Slot {
    pub(crate) fn new(shared: Arc<Shared>, fetch: Fetch) -> Self {
        let timeline = FetchTimeline::new(fetch.target.asked_at);
        Self { shared, fetch, timeline, hold: None, stored: None, is_finished: false }
    }

    pub(crate) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let (key, ticket, existing) = (self.fetch.key, self.fetch.ticket, self.fetch.existing);
        if shared.sharing.is_some() {
            if let Some(stamp) = self.look_up().await {
                return self.finish(Outcome::Stored(stamp));
            }
        } else if let Some(stamp) = existing {
            self.timeline.begin(FetchStage::Verify);
            if self.is_intact(stamp).await {
                return self.finish(Outcome::Stored(stamp));
            }
        }
        let body = match download(&shared, &self.fetch, &mut self.timeline).await {
            Ok(body) => body,
            Err(error) => {
                shared.counters.failures.add(1);
                return self.finish(Outcome::Failed(error));
            }
        };
        self.timeline.begin(FetchStage::Write);
        let committer = Arc::clone(&shared);
        let outcome = shared
            .write_blocking(move || {
                // Asked for only now: while it waited for its turn to write, the object may have been given up.
                let may_commit = committer.update(|table, _| table.begin_commit(key, ticket));
                may_commit.then(|| body.commit(&committer, key, ticket, existing))
            })
            .await;
        if let Some(outcome) = outcome {
            self.finish(outcome);
        }
    }

    /// Looks for the object in a directory that other processes use too, and waits while one of them brings it. Returns
    /// its file, or `None` when this process has to bring it.
    async fn look_up(&mut self) -> Option<Stamp> {
        self.timeline.begin(FetchStage::Verify);
        let key = self.fetch.key;
        let mut pause = LOOK_AGAIN_AFTER;
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
                .await?;
            match looked_up {
                Ok(Lookup::Found(stamp, lease)) => {
                    if self.is_intact(stamp).await {
                        lease.keep();
                        return Some(stamp);
                    }
                    let shared = Arc::clone(&self.shared);
                    let discarded = self.shared.blocking(move || {
                        shared.sharing.as_ref().map(|sharing| sharing.discard(&shared.dir, key, stamp))
                    });
                    if let Some(Err(error)) = discarded.await {
                        // It would be found again and again. Reading goes on from the store.
                        self.shared.warnings.undeleted(&error);
                        return None;
                    }
                }
                Ok(Lookup::Missing(lease, claim)) => {
                    self.hold = Some((lease, claim));
                    return None;
                }
                Ok(Lookup::Busy) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LOOK_AGAIN_AT_LEAST_EVERY);
                }
                // Reading goes on from the store.
                Err(error) => {
                    self.shared.warnings.unwritten(&error);
                    return None;
                }
            }
        }
    }

    /// Returns whether a file holds the bytes that its name says.
    async fn is_intact(&self, stamp: Stamp) -> bool {
        let (checker, key) = (Arc::clone(&self.shared), self.fetch.key);
        let is_intact = self.shared.write_blocking(move || is_intact(&checker, key, stamp)).await;
        if !is_intact {
            self.shared.counters.corrupt_files.add(1);
        }
        is_intact
    }

    fn finish(&mut self, outcome: Outcome) {
        self.is_finished = true;
        self.timeline.finish();
        self.shared.counters.add_times(&self.timeline);
        if let Outcome::Stored(stamp) = &outcome {
            self.stored = Some(*stamp);
            if let Some((lease, _claim)) = self.hold.take() {
                lease.keep();
            }
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
        let unused = self.shared.sharing.as_ref().and_then(|sharing| sharing.settle(ticket, self.stored));
        if let Some(unused) = unused {
            let shared = Arc::clone(&self.shared);
            drop(self.shared.io.spawn_blocking(move || {
                if let Some(sharing) = &shared.sharing {
                    sharing.give_back(unused);
                }
            }));
        }
        let is_closed = self.shared.is_closed();
        self.shared.update(|table, effects| {
            if !self.is_finished {
                // Stopped because nobody wants it any more, and then nobody hears this; or ended by the runtime's end
                // or by a panic, of a registered store for example.
                let error = if is_closed { closed(&self.fetch.target) } else { broken(&self.fetch) };
                table.finish(key, ticket, Outcome::Failed(error), effects);
            }
            table.slot_freed(effects);
        });
    }
}

fn broken(fetch: &Fetch) -> CacheError {
    CacheError::new(
        CacheErrorKind::Unavailable,
        format!("{}: its download broke off; the object store may have panicked", fetch.target.name()),
    )
}

/// Returns whether the file holds the bytes that its name says. Blocks.
pub(crate) fn is_intact(shared: &Shared, key: ObjectKey, stamp: Stamp) -> bool {
    let check = || -> io::Result<bool> {
        let mut file = shared.dir.open_file(key, stamp)?;
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
    check().unwrap_or(false)
}
