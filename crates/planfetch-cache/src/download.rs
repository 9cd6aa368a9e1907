//! Getting an object's bytes from its store.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, ObjectStore};
use tokio::sync::SemaphorePermit;

use crate::body::{Body, SPILL_BYTES};
use crate::error::CacheError;
use crate::exchange::observed;
use crate::failure::{Advice, Failure};
use crate::parts;
use crate::retry::Retry;
use crate::shared::Shared;
use crate::stores::Opened;
use crate::table::Fetch;
use crate::target::Target;
use crate::temp_file::TempFile;
use crate::timeline::{FetchStage, FetchTimeline};
use crate::uri::ObjectUri;

/// A download under way.
#[derive(Clone)]
pub(crate) struct Download {
    pub(crate) shared: Arc<Shared>,
    pub(crate) fetch: Fetch,
    pub(crate) path: Path,
    pub(crate) opened: Opened,
}

/// Downloads an object, or a part of one, whole: tries again as the settings say, and goes on from the last byte where
/// the store tells (by ETag) that the object is still the same.
///
/// `body` is empty, and knows whether it has to stay in memory. The permit that comes with the bytes is for their being
/// there.
pub(crate) async fn download<'s>(
    shared: &'s Arc<Shared>,
    fetch: &Fetch,
    mut body: Body,
    timeline: &mut FetchTimeline,
) -> Result<(Body, Option<SemaphorePermit<'s>>), CacheError> {
    let uri = ObjectUri::parse(&fetch.target.uri)?;
    let path = uri.path()?;
    timeline.begin(FetchStage::Request);
    let opened = shared.stores.get(&uri).await?;
    let mut download = Download { shared: Arc::clone(shared), fetch: fetch.clone(), path, opened };
    let mut in_flight = None;
    let mut retry = Retry::new(&shared.settings, fetch.key.bits());
    loop {
        let is_resumed = 0 < body.len;
        let failure = match download.attempt(&mut body, (shared, &mut in_flight), timeline).await {
            Ok(()) => {
                shared.counters.objects_downloaded.add(1);
                return Ok((body, in_flight));
            }
            Err(failure) => failure,
        };
        if matches!(failure, Failure::Unwritten) {
            // No fault of the store's, and so none of its attempts.
            body.leave_unwritten();
            shared.admit(body.most_in_memory(None), &mut in_flight).await;
            body = shared.write_blocking(move || body.resume_in_memory()).await;
            continue;
        }
        let attempts = retry.attempts();
        // What refuses to resume may well send the whole.
        let pause = match failure.advice() {
            Advice::GiveUp if !is_resumed => None,
            Advice::SlowDown if shared.settings.adaptive_concurrency => retry.next_throttled(),
            _ => retry.next(),
        };
        let Some(pause) = pause else { return Err(failure.into_error(&fetch.target, &uri, attempts)) };
        timeline.begin(FetchStage::Backoff);
        if failure.advice() == Advice::Reopen {
            shared.stores.forget(&uri, &download.opened).await;
            download.opened = shared.stores.get(&uri).await?;
        }
        let pause = failure.asked_pause().map_or(pause, |asked| pause.max(asked));
        tracing::debug!(
            uri = %fetch.target.name(),
            attempt = attempts,
            ?pause,
            error = %failure.describe(),
            "download failed, trying again"
        );
        shared.counters.retries.add(1);
        tokio::time::sleep(pause).await;
    }
}

impl Download {
    fn target(&self) -> &Target {
        &self.fetch.target
    }

    fn limit(&self) -> Duration {
        self.shared.settings.progress_timeout
    }

    /// Makes one request, at the pace that the store bears, and takes note of how it was answered.
    pub(crate) async fn request(
        &self,
        options: GetOptions,
        timeline: Option<&mut FetchTimeline>,
    ) -> Result<GetResult, Failure> {
        let shared = &self.shared;
        let mut timeline = timeline;
        if shared.settings.adaptive_concurrency {
            let on_wait = || {
                if let Some(timeline) = timeline.as_deref_mut() {
                    timeline.begin(FetchStage::Backoff);
                }
            };
            self.opened.turn(on_wait).await;
        }
        if let Some(timeline) = timeline.as_deref_mut() {
            timeline.begin(FetchStage::Request);
        }
        shared.counters.requests.add(1);
        let sent = self.opened.elapsed();
        let (result, answer) = observed(within(self.limit(), self.opened.store.get_opts(&self.path, options))).await;
        if let (Some(timeline), Some(at)) = (timeline, answer.at) {
            timeline.begin_at(FetchStage::Body, at);
        }
        let result = match result {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(Failure::Store(error, answer)),
            Err(stalled) => Err(stalled),
        };
        match &result {
            Err(failure) if failure.advice() == Advice::SlowDown => {
                shared.counters.throttled.add(1);
                self.opened.on_throttle(sent);
            }
            // A store that does not answer at all may be one that has too much to do.
            Err(Failure::Stalled(_)) => self.opened.on_throttle(sent),
            _ => self.opened.on_answer(),
        }
        result
    }

    /// Makes one request, and appends what comes to `body`.
    async fn attempt<'s>(
        &self,
        body: &mut Body,
        (admission, in_flight): (&'s Shared, &mut Option<SemaphorePermit<'s>>),
        timeline: &mut FetchTimeline,
    ) -> Result<(), Failure> {
        let wanted = self.target().range.clone();
        let start = wanted.as_ref().map_or(0, |range| range.start);
        let resume = match &body.etag {
            Some(etag) if 0 < body.len => {
                let from = start + body.len;
                let range = wanted.as_ref().map_or(GetRange::Offset(from), |range| GetRange::Bounded(from..range.end));
                GetOptions { range: Some(range), if_match: Some(etag.clone()), ..GetOptions::default() }
            }
            _ => {
                body.restart();
                GetOptions { range: wanted.clone().map(GetRange::Bounded), ..GetOptions::default() }
            }
        };
        let resumed_etag = resume.if_match.clone();
        let result = match self.request(resume, Some(&mut *timeline)).await {
            Ok(result) => result,
            Err(failure) => {
                if !failure.is_passing() {
                    // The object has changed, or the store knows no ranges: the next attempt asks for the whole.
                    body.restart();
                }
                return Err(failure);
            }
        };
        timeline.begin(FetchStage::Body);
        if resumed_etag.is_some() && (result.range.start != start + body.len || result.meta.e_tag != resumed_etag) {
            // The store sent the whole, or the rest of another object, in spite of what it was asked for.
            body.restart();
            if result.range.start != start {
                return Err(Failure::Changed);
            }
        }
        let expected = match &wanted {
            None => result.meta.size,
            Some(range) if result.meta.size < range.end => return Err(Failure::OutOfRange { len: result.meta.size }),
            Some(range) => range.end - range.start,
        };
        // A store that heeds no range sends the whole.
        if wanted.is_some() && result.range.start != start + body.len {
            return Err(Failure::Changed);
        }
        if 0 < body.len && body.expected != expected {
            // Another object under the same tag.
            body.restart();
            return Err(Failure::Changed);
        }
        body.expected = expected;
        body.etag = result.meta.e_tag.clone();
        let by_parts = body.may_have_parts() && parts::is_worth_while(&self.shared, &result, expected);
        let mut file = None;
        if by_parts || body.needs_file_first() {
            file = self.temp_file(expected).await;
            if file.is_none() {
                body.stay_in_memory();
            }
        }
        let part_concurrency = (by_parts && file.is_some()).then_some(self.shared.settings.part_concurrency);
        admission.admit(body.most_in_memory(part_concurrency), in_flight).await;
        match file {
            Some(file) if by_parts => {
                *body = parts::download(self, file, start, result, expected).await.inspect_err(|failure| {
                    if !failure.is_passing() {
                        // A store that knows no ranges, or no such tags, has the object all the same.
                        body.take_as_one();
                    }
                })?;
                return Ok(());
            }
            Some(file) => body.write_to(file),
            None => {}
        }
        self.receive(body, result, expected, timeline).await
    }

    /// Makes room on disk for the object, and a file; returns none where there is no room, or no way to write.
    async fn temp_file(&self, len: u64) -> Option<TempFile> {
        let (shared, key, ticket) = (Arc::clone(&self.shared), self.fetch.key, self.fetch.ticket);
        self.shared.write_blocking(move || shared.temp_file(key, ticket, len)).await
    }

    /// Takes in the body of one response.
    async fn receive(
        &self,
        body: &mut Body,
        result: GetResult,
        expected: u64,
        timeline: &mut FetchTimeline,
    ) -> Result<(), Failure> {
        let (shared, key, ticket) = (&self.shared, self.fetch.key, self.fetch.ticket);
        let failed = |error| Failure::Store(error, Default::default());
        if let GetResultPayload::File(..) = result.payload
            && expected <= SPILL_BYTES as u64
        {
            // One read, where the stream would make one for each 8 KiB.
            let bytes = within(self.limit(), result.bytes()).await?.map_err(failed)?;
            body.push(shared, key, ticket, bytes, timeline).await?;
        } else {
            let mut stream: BoxStream<'static, _> = result.into_stream();
            loop {
                let chunk = match within(self.limit(), stream.next()).await {
                    Ok(Some(Ok(chunk))) => chunk,
                    Ok(None) => break,
                    // Every byte is here; that the connection did not end well changes nothing.
                    _ if body.len == expected => break,
                    Ok(Some(Err(error))) => return Err(failed(error)),
                    Err(stalled) => return Err(stalled),
                };
                body.push(shared, key, ticket, chunk, timeline).await?;
            }
        }
        if body.len == expected {
            return Ok(());
        }
        let failure = Failure::WrongLength { expected, received: body.len };
        if expected < body.len {
            body.restart();
        }
        Err(failure)
    }
}

/// Gives a step of a download up when nothing has come of it for too long.
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(limit, future).await.map_err(|_| Failure::Stalled(limit))
}
