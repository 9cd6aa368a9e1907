//! How far ahead of the reader is far enough.
//!
//! A plain state machine, fed with what was measured at each batch.

use std::time::Duration;

/// What was measured when a batch was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// For how long the training loop was at the batch before, without its waits; `None` at the first batch.
    pub(crate) step: Option<Duration>,
    /// How long the download took, from its request to its last byte on disk, of an object that was late.
    pub(crate) late: Option<Duration>,
}

/// Finds the number of batches ahead that covers the store's latency at the pace of the training loop.
#[derive(Clone, Debug)]
pub(crate) struct Depth {
    depth: usize,
    /// A moving average of the steps' time, in seconds.
    step: Option<f64>,
    /// For how many batches nothing was late.
    calm: usize,
    /// For how many batches a growth has still to show its effect.
    settling: usize,
}

impl Depth {
    pub(crate) const MIN: usize = 16;
    pub(crate) const MAX: usize = 2_000;
    /// After how many batches without a late object the depth is tried a little smaller.
    const CALM: usize = 256;
    /// How many times the latency is covered.
    const SAFETY: f64 = 2.0;
    /// No step is taken for shorter than this, in seconds: a loop that only counts batches is bound by the store.
    const SHORTEST_STEP: f64 = 1e-4;

    pub(crate) fn new() -> Self {
        Self { depth: Self::MIN, step: None, calm: 0, settling: 0 }
    }

    /// Takes note of a batch and returns how many batches ahead are to be kept local.
    pub(crate) fn on_batch(&mut self, pace: Pace) -> usize {
        if let Some(step) = pace.step.map(|step| step.as_secs_f64()) {
            self.step = Some(self.step.map_or(step, |average| average + (step - average) / 16.0));
        }
        // How many batches a latency lasts for is not known before a step was seen.
        let Some(average) = self.step else { return self.depth };
        self.settling = self.settling.saturating_sub(1);
        let before = self.depth;
        if let Some(late) = pace.late {
            self.calm = 0;
            // By Little's law; see J. Little, Operations Research 9(3), 1961.
            let needed = Self::SAFETY * late.as_secs_f64() / average.max(Self::SHORTEST_STEP);
            let needed = needed.ceil().min(Self::MAX as f64) as usize;
            if self.depth < needed {
                self.depth = needed;
            } else if self.settling == 0 {
                // The law asks for less than there is, and objects are late all the same: latency varies.
                self.depth += self.depth / 2;
            }
        } else {
            self.calm += 1;
            // What an earlier change of the depth does shows only that many batches later.
            if Self::CALM.max(self.depth) <= self.calm {
                self.calm = 0;
                self.depth -= self.depth.div_ceil(16);
            }
        }
        self.depth = self.depth.clamp(Self::MIN, Self::MAX);
        if before < self.depth {
            // Batches that are under way were asked for at the old depth.
            self.settling = self.depth;
        }
        self.depth
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// A loop that takes `step` for each batch, and a store whose objects are there `latency` after they were asked for,
    /// all in seconds. Returns for how long it waited for each batch, and the depth after it.
    fn simulate(depth: &mut Depth, batches: usize, step: f64, latency: impl Fn(usize) -> f64) -> Vec<(f64, usize)> {
        let (mut now, mut ahead, mut history) = (0.0_f64, Depth::MIN, Vec::new());
        let (mut arrivals, mut asked) = (VecDeque::<(f64, f64)>::new(), 0);
        for batch in 0..batches {
            while asked < batch + ahead {
                arrivals.push_back((now + latency(asked), latency(asked)));
                asked += 1;
            }
            let (arrival, took) = arrivals.pop_front().unwrap();
            let waited = (arrival - now).max(0.0);
            now += waited + step;
            let late = (0.0 < waited).then(|| Duration::from_secs_f64(took));
            let before = (0 < batch).then(|| Duration::from_secs_f64(step));
            ahead = depth.on_batch(Pace { step: before, late });
            history.push((waited, ahead));
        }
        history
    }

    proptest! {
        #[test]
        fn a_steady_store_is_waited_for_at_the_beginning_only_and_the_depth_is_bounded(
            step_ms in 1_u64..200, latency_ms in 1_u64..2_000
        ) {
            let (step, latency) = (step_ms as f64 / 1e3, latency_ms as f64 / 1e3);
            // What is needed is latency / step; a window that fits is reached within a few rounds of it.
            let needed = (latency / step).ceil() as usize;
            prop_assume!(2 * needed < Depth::MAX);
            let history = simulate(&mut Depth::new(), 12_000, step, |_| latency);
            let waited: f64 = history[8 * needed.min(1_000) + 64..].iter().map(|(waited, _)| waited).sum();
            prop_assert!(waited < 0.015 * 12_000.0 * step, "waited {waited} s");
            prop_assert!(history.iter().all(|(_, depth)| *depth <= (4 * needed).max(2 * Depth::MIN)));
        }

        #[test]
        fn the_depth_stays_within_its_bounds_whatever_is_measured(
            paces in prop::collection::vec((0_u64..1_000_000, prop::option::of(0_u64..100_000_000)), 0..300)
        ) {
            let mut depth = Depth::new();
            for (step, late) in paces {
                let pace = Pace { step: Some(Duration::from_micros(step)), late: late.map(Duration::from_micros) };
                prop_assert!((Depth::MIN..=Depth::MAX).contains(&depth.on_batch(pace)));
            }
        }
    }

    #[test]
    fn the_first_batch_which_is_always_late_says_nothing() {
        let mut depth = Depth::new();
        let late = Some(Duration::from_millis(50));
        assert_eq!(depth.on_batch(Pace { step: None, late }), Depth::MIN);
        assert!(depth.on_batch(Pace { step: Some(Duration::from_millis(100)), late }) <= 2 * Depth::MIN);
    }

    #[test]
    fn a_loop_that_gets_faster_asks_for_more_and_a_store_that_calms_down_for_less() {
        let mut depth = Depth::new();
        let slow = simulate(&mut depth, 2_000, 0.1, |_| 1.0).last().unwrap().1;
        let fast = simulate(&mut depth, 1_000, 0.01, |_| 1.0).last().unwrap().1;
        assert!(2 * slow < fast, "{slow} {fast}");
        let calm = simulate(&mut depth, 30_000, 0.01, |_| 0.01).last().unwrap().1;
        assert_eq!(calm, Depth::MIN);
    }
}
