//! What the counters said, ten times a second.

use planfetch::cache::PruneBackend;
use planfetch::plan::{PlanView, RankPlan};
use planfetch::prelude::*;

use crate::speedtest::measure::Work;

/// A page with more points shows no more.
const MAX_POINTS: usize = 1_200;

/// So many objects of the window are looked for each time. Each costs a microsecond or two.
const PROBES: usize = 64;

/// Likewise, where a directory is shared and looking for an object means listing a folder.
const PROBES_ON_DISK: usize = 8;

/// Two points are at least so far apart, in seconds.
const MIN_INTERVAL: f64 = 0.05;

/// Over how many points the rates that a bar shows are taken: a second.
const RECENT: usize = 10;

/// What the counters said at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) seconds: f64,
    pub(crate) samples: u64,
    /// Received from the store.
    pub(crate) bytes: u64,
    /// In the cache.
    pub(crate) local_bytes: u64,
    /// How much of the window ahead is local, where there is one.
    pub(crate) window_fill: Option<f64>,
}

/// Points in order of time; of a long run, every second, every fourth, and so on.
#[derive(Debug)]
pub(crate) struct Timeline {
    points: Vec<Point>,
    /// One of so many points is kept.
    every: usize,
    seen: usize,
    /// The last ones, all of them.
    recent: Vec<Point>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { points: vec![Point::default()], every: 1, seen: 0, recent: vec![Point::default()] }
    }
}

impl Timeline {
    pub(crate) fn push(&mut self, point: Point) {
        // The last look comes at any time after the one before it; a rate over so short a time says nothing.
        if 1 < self.points.len()
            && let Some(last) = self.points.last_mut()
            && point.seconds - last.seconds < MIN_INTERVAL
        {
            *last = point;
            return;
        }
        self.recent.push(point);
        if RECENT < self.recent.len() {
            self.recent.remove(0);
        }
        self.seen += 1;
        if self.seen.is_multiple_of(self.every) {
            self.points.push(point);
        }
        if MAX_POINTS <= self.points.len() {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every *= 2;
        }
    }

    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the samples and the bytes a second since about a second before `now`.
    pub(crate) fn recent_rates(&self, now: &Point) -> (f64, f64) {
        let Some(before) = self.recent.first() else { return (0.0, 0.0) };
        let seconds = (now.seconds - before.seconds).max(1e-9);
        let rate = |after: u64, before: u64| after.saturating_sub(before) as f64 / seconds;
        (rate(now.samples, before.samples), rate(now.bytes, before.bytes))
    }
}

/// Finds out how much of the window ahead of the reader is local, by looking for some of its objects.
#[derive(Debug)]
pub(crate) struct WindowProbe {
    plan: Option<(u64, RankPlan)>,
    probes: usize,
    uri: String,
}

impl WindowProbe {
    pub(crate) fn new(work: &Work) -> Self {
        let is_shared = work.cache.settings().prune_backend == PruneBackend::Scan;
        Self { plan: None, probes: if is_shared { PROBES_ON_DISK } else { PROBES }, uri: String::new() }
    }

    /// Returns the share of the objects that the batches ahead of the reader ask for and that are local.
    pub(crate) fn fill(&mut self, work: &Work, epoch: u64, step: usize) -> Option<f64> {
        let ahead = match work.settings.batches_ahead {
            BatchesAhead::Fixed(ahead) => ahead,
            // What it is at the moment, only the loader knows.
            BatchesAhead::Auto => return None,
        };
        if self.plan.as_ref().is_none_or(|(of, _)| *of != epoch) {
            let plan: PlanView = work.provider.plan(epoch).ok()?;
            self.plan = Some((epoch, plan.for_rank(work.world, work.policy).ok()?));
        }
        let (_, plan) = self.plan.as_ref()?;
        let steps = step..step.saturating_add(ahead).min(plan.num_steps());
        if steps.is_empty() || work.epochs <= epoch {
            return None;
        }
        let (mut asked, mut local) = (0_u64, 0_u64);
        for probe in 0..self.probes {
            // Spread over the window evenly, from its first object to its last.
            let place = probe as f64 / self.probes as f64;
            let in_steps = place * steps.len() as f64;
            // OK because both are cut to less than their lengths.
            let Some(batch) = plan.batch(steps.start + in_steps as usize) else { continue };
            let Some(slot) = batch.get((in_steps.fract() * batch.len() as f64) as usize) else { continue };
            if work.index.write_uri(slot.sample, &mut self.uri) {
                asked += 1;
                local += u64::from(work.cache.contains(&self.uri));
            }
        }
        (asked != 0 && !work.index.has_ranges()).then(|| local as f64 / asked as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_points_over_all_of_it() {
        let mut timeline = Timeline::default();
        for i in 1..=20_000_u64 {
            timeline.push(Point { seconds: i as f64 / 10.0, samples: 7 * i, ..Point::default() });
        }
        let points = timeline.points();
        assert!((MAX_POINTS / 2 - 1..MAX_POINTS).contains(&points.len()), "{}", points.len());
        assert_eq!(points[0], Point::default());
        assert!(points.last().is_some_and(|last| 1_990.0 < last.seconds));
        let now = Point { seconds: 2_000.1, samples: 7 * 20_001, ..Point::default() };
        assert!((timeline.recent_rates(&now).0 - 70.0).abs() < 0.01);
    }
}
