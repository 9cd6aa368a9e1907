//! Where the time of a fetch went.

use std::fmt;
use std::time::{Duration, Instant};

/// What a fetch does at a time.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum FetchStage {
    /// Waits for its turn: for one of [`download_concurrency`](crate::CacheSettings::download_concurrency) places.
    Queued,
    /// Waits for the store to answer: connecting, and the time to the first byte.
    Request,
    /// Receives the object's bytes.
    Body,
    /// Waits before it tries again, or since the store asked for fewer requests.
    Backoff,
    /// Waits for its turn to write, and writes the file.
    Write,
    /// Reads a file that was there when the cache was opened, to see whether it is as it should be; or waits for
    /// another process to finish downloading it.
    Verify,
}

impl FetchStage {
    /// All stages, in the order in which a fetch usually goes through them.
    pub const ALL: [Self; 6] = [Self::Queued, Self::Verify, Self::Request, Self::Body, Self::Backoff, Self::Write];

    /// Returns the stage in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Request => "request",
            Self::Body => "body",
            Self::Backoff => "backoff",
            Self::Write => "write",
            Self::Verify => "verify",
        }
    }
}

impl fmt::Display for FetchStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where the time of a fetch went, from when the object was first asked for to when it was local.
///
/// Returned by [`LocalFile::timeline`](crate::LocalFile::timeline).
#[derive(Clone, Debug)]
pub struct FetchTimeline {
    // Invariant: in order of time; a stage ends where the next begins, the last at `end`.
    begins: Vec<(FetchStage, Instant)>,
    end: Instant,
}

impl FetchTimeline {
    /// Starts a timeline for an object that was asked for at `start`.
    pub(crate) fn new(start: Instant) -> Self {
        Self { begins: vec![(FetchStage::Queued, start)], end: start }
    }

    /// Takes note that a stage begins now, and the one before it ends.
    pub(crate) fn begin(&mut self, stage: FetchStage) {
        self.begin_at(stage, Instant::now());
    }

    /// Takes note that a stage began at `at`.
    pub(crate) fn begin_at(&mut self, stage: FetchStage, at: Instant) {
        if self.begins.last().is_some_and(|(current, _)| *current == stage) {
            return;
        }
        self.begins.push((stage, at));
        self.end = at;
    }

    /// Takes note that the last stage has ended.
    pub(crate) fn finish(&mut self) {
        self.end = Instant::now();
    }

    /// Returns when the object was first asked for.
    #[must_use]
    pub fn start(&self) -> Instant {
        self.begins.first().map_or(self.end, |(_, at)| *at)
    }

    /// Returns when it was local.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.end
    }

    /// Returns each stage with its beginning and its end, in order of time and without gaps. A stage that was gone
    /// through again, as after a failed attempt, comes again.
    pub fn stages(&self) -> impl Iterator<Item = (FetchStage, Instant, Instant)> {
        let ends = self.begins.iter().skip(1).map(|(_, at)| *at).chain([self.end]);
        self.begins.iter().zip(ends).map(|((stage, begin), end)| (*stage, *begin, end))
    }

    /// Returns the time that a stage took, all its turns added up.
    #[must_use]
    pub fn time_in(&self, stage: FetchStage) -> Duration {
        self.stages().filter(|(of, ..)| *of == stage).map(|(_, begin, end)| end.saturating_duration_since(begin)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_each_other_without_a_gap_and_add_up() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut timeline = FetchTimeline::new(start);
        for (stage, ms) in [
            (FetchStage::Request, 10),
            (FetchStage::Body, 40),
            (FetchStage::Backoff, 45),
            (FetchStage::Request, 145),
            (FetchStage::Body, 165),
            (FetchStage::Body, 170),
            (FetchStage::Write, 180),
        ] {
            timeline.begin_at(stage, at(ms));
        }
        timeline.end = at(181);
        let stages: Vec<_> = timeline.stages().collect();
        assert_eq!((stages.len(), timeline.start(), timeline.end()), (7, start, at(181)));
        assert!(stages.windows(2).all(|pair| pair[0].2 == pair[1].1));
        let times = FetchStage::ALL.map(|stage| timeline.time_in(stage).as_millis());
        assert_eq!(times, [10, 0, 50, 20, 100, 1]);
    }
}
