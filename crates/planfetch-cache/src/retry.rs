//! When to try again, and when to give up.

use std::time::Duration;

use crate::settings::CacheSettings;

/// The longest pause between two attempts, before jitter.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Counts the attempts at one download and says how long to wait before the next: exponential backoff with jitter.
///
/// The jitter follows M. Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015), "equal jitter":
/// half of each pause is fixed, half is random. Its random numbers come from the caller's salt, such as a hash of the
/// object's key, so that a run can be repeated.
#[derive(Debug)]
pub(crate) struct Retry {
    attempt: u32,
    throttled: u32,
    max_attempts: u32,
    initial_backoff: Duration,
    salt: u64,
}

impl Retry {
    pub(crate) fn new(settings: &CacheSettings, salt: u64) -> Self {
        Self {
            attempt: 1,
            throttled: 0,
            max_attempts: settings.max_attempts,
            initial_backoff: settings.initial_backoff,
            salt,
        }
    }

    /// Returns how many attempts there have been.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempt
    }

    /// Takes note that an attempt failed; returns the pause before the next one, or `None` when there is none left.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        if self.max_attempts <= self.attempt {
            return None;
        }
        self.attempt += 1;
        Some(self.pause(self.attempt - 1))
    }

    /// Takes note that the store had too much to do, which is no fault of the request: it is made again until the
    /// store has refused it ten times as often as it may fail.
    pub(crate) fn next_throttled(&mut self) -> Option<Duration> {
        self.throttled += 1;
        (self.throttled <= self.max_attempts.saturating_mul(10)).then(|| self.pause(self.throttled))
    }

    /// Returns the pause before the `n`th repetition.
    fn pause(&self, n: u32) -> Duration {
        let backoff = self.initial_backoff.saturating_mul(1 << (n - 1).min(16)).min(MAX_BACKOFF);
        // SplitMix64 (G. Steele et al., OOPSLA 2014): cheap, and good enough to spread pauses.
        let mut z = self.salt.wrapping_add(u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // OK because 16 bits are exact in a 64-bit float.
        let fraction = (z >> 48) as f64 / 65_536.0;
        backoff.mul_f64(0.5 + fraction / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pauses_double_within_their_jitter_and_end(max_attempts in 1_u32..40, salt: u64, ms in 0_u64..2_000) {
            let settings = CacheSettings {
                max_attempts,
                initial_backoff: Duration::from_millis(ms),
                ..CacheSettings::default()
            };
            let mut retry = Retry::new(&settings, salt);
            let pauses: Vec<Duration> = std::iter::from_fn(|| retry.next()).collect();
            prop_assert_eq!(pauses.len() as u32, max_attempts - 1);
            for (i, pause) in pauses.iter().enumerate() {
                let full = Duration::from_millis(ms).saturating_mul(1 << i.min(16)).min(MAX_BACKOFF);
                prop_assert!(full / 2 <= *pause && *pause <= full, "pause {}: {:?} of {:?}", i, pause, full);
            }
        }
    }

    #[test]
    fn refusals_of_a_busy_store_are_no_attempts_but_end_too() {
        let mut retry = Retry::new(&CacheSettings { max_attempts: 3, ..CacheSettings::default() }, 1);
        assert_eq!(std::iter::from_fn(|| retry.next_throttled()).count(), 30);
        assert_eq!(retry.attempts(), 1);
        assert_eq!(std::iter::from_fn(|| retry.next()).count(), 2);
    }

    #[test]
    fn objects_do_not_return_at_once() {
        let pause = |salt| Retry::new(&CacheSettings::default(), salt).next();
        let distinct: std::collections::BTreeSet<_> = (0..100).map(pause).collect();
        assert!(90 < distinct.len(), "{} distinct pauses of 100", distinct.len());
    }
}
