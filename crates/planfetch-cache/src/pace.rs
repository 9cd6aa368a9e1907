//! How fast a store may be asked, once it has said that it is asked too fast.
//!
//! A plain state machine: it is told times and never looks at a clock.
//!
//! The number of requests at once alone can't slow a client down enough: where a store answers in a millisecond, one
//! connection makes a thousand requests a second. So it is the rate that is adapted, by the cubic law of
//! RFC 9438 ("CUBIC for Fast and Long-Distance Networks", 2023), as the AWS SDKs do in their adaptive mode.
//! It cuts less deep than they do, to stay near the rate that the store grants.

use std::time::Duration;

/// What is left of the rate after the store refused a request.
const BETA: f64 = 0.9;
/// How fast the rate grows again, in requests per second and second cubed (RFC 9438, section 4.1).
const C: f64 = 0.4;
/// How long answers are counted before their rate is taken.
const BUCKET: f64 = 0.25;
/// How much each new count weighs against those before it.
const SMOOTHING: f64 = 0.5;
/// The slowest that a store is asked, in requests per second.
const MIN_RATE: f64 = 0.5;
/// How long turns that were missed are made up for, in seconds.
const CATCH_UP: f64 = 0.02;

/// The pace at which one store is asked: as fast as one can until it refuses requests, then near the rate it grants.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Answers of the current count, since when, and the rate of those before it.
    answered: u32,
    counting_since: f64,
    measured: Option<f64>,
    limit: Option<Limit>,
}

#[derive(Debug)]
struct Limit {
    rate: f64,
    /// The rate at which the store refused last.
    max: f64,
    cut_at: f64,
    /// When the next request may go out.
    next_at: f64,
}

impl Pace {
    /// Takes the next request's turn, or returns how long it is until then. `now` is the time since any fixed moment.
    pub(crate) fn poll(&mut self, now: Duration) -> Option<Duration> {
        let limit = self.limit.as_mut()?;
        let now = now.as_secs_f64();
        if now < limit.next_at {
            return Some(Duration::from_secs_f64(limit.next_at - now));
        }
        // Turns that were missed are made up for, but not many at once.
        limit.next_at = limit.next_at.max(now - CATCH_UP) + 1.0 / limit.rate;
        None
    }

    /// Takes note that the store answered a request.
    pub(crate) fn on_answer(&mut self, now: Duration) {
        let now = now.as_secs_f64();
        self.answered += 1;
        let elapsed = now - self.counting_since;
        if 4.0 * BUCKET < elapsed {
            // Nobody asked for a while, which says nothing about the store.
            (self.answered, self.counting_since) = (1, now);
        } else if BUCKET <= elapsed {
            let rate = f64::from(self.answered) / elapsed;
            self.measured = Some(self.measured.map_or(rate, |old| old + SMOOTHING * (rate - old)));
            (self.answered, self.counting_since) = (0, now);
        }
        if let Some(limit) = &mut self.limit {
            // RFC 9438, equations 1 and 2.
            let k = (limit.max * (1.0 - BETA) / C).cbrt();
            limit.rate = (C * (now - limit.cut_at - k).powi(3) + limit.max).max(MIN_RATE);
            // The store grants far more than is asked for: there is nothing to hold back.
            if self.measured.is_some_and(|measured| 4.0 * measured < limit.rate && 2.0 * limit.max < limit.rate) {
                self.limit = None;
            }
        }
    }

    /// Takes note that the store refused a request that was sent at `sent`.
    pub(crate) fn on_throttle(&mut self, sent: Duration, now: Duration) {
        let (sent, now) = (sent.as_secs_f64(), now.as_secs_f64());
        // What was under way when the pace was cut says nothing about the new one.
        if self.limit.as_ref().is_some_and(|limit| sent < limit.cut_at) {
            return;
        }
        let elapsed = (now - self.counting_since).max(0.02);
        let granted = self.measured.unwrap_or_else(|| f64::from(self.answered.max(1)) / elapsed);
        let max = self.limit.as_ref().map_or(granted, |limit| limit.rate.min(granted.max(limit.rate * 0.5)));
        let max = max.max(MIN_RATE);
        let next_at = self.limit.as_ref().map_or(now, |limit| limit.next_at);
        self.limit = Some(Limit { rate: (BETA * max).max(MIN_RATE), max, cut_at: now, next_at });
    }

    /// Returns the rate that is kept to, in requests per second, or `None` where the store has not refused any.
    #[cfg(test)]
    fn rate(&self) -> Option<f64> {
        self.limit.as_ref().map(|limit| limit.rate)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A store that grants `rate` requests a second, and `burst` at once, asked by `clients` that wait for their
    /// answers, in virtual time. Returns how many of `objects` came each second, and how many requests each took.
    fn simulate(rate: f64, burst: f64, latency: f64, clients: usize, objects: u32) -> (f64, f64) {
        const STEP: f64 = 0.000_2;
        let at = Duration::from_secs_f64;
        let mut pace = Pace::default();
        let (mut tokens, mut now) = (burst, 100.0);
        let (mut done, mut requests) = (0, 0_u32);
        // Clients that want to send, from when on; and requests under way: when they end, when they were sent, and
        // whether they were granted.
        let mut waiting: VecDeque<f64> = (0..clients).map(|_| now).collect();
        let mut under_way: VecDeque<(f64, f64, bool)> = VecDeque::new();
        while done < objects {
            now += STEP;
            tokens = (tokens + STEP * rate).min(burst);
            while let Some((_, sent, is_granted)) = under_way.pop_front_if(|(end, ..)| *end <= now) {
                if is_granted {
                    pace.on_answer(at(now));
                    done += 1;
                    waiting.push_back(now);
                } else {
                    pace.on_throttle(at(sent), at(now));
                    waiting.push_back(now + 0.1);
                }
            }
            for _ in 0..waiting.len() {
                let Some(from) = waiting.pop_front() else { break };
                if now < from || pace.poll(at(now)).is_some() {
                    waiting.push_back(from);
                    continue;
                }
                requests += 1;
                let is_granted = 1.0 <= tokens;
                tokens -= f64::from(u8::from(is_granted));
                under_way.push_back((now + latency, now, is_granted));
            }
        }
        (f64::from(objects) / (now - 100.0), f64::from(requests) / f64::from(objects))
    }

    #[test]
    fn a_store_that_refuses_is_used_near_its_rate_with_few_requests_in_vain() {
        for (rate, latency) in [(100.0, 0.001), (500.0, 0.03), (2_000.0, 0.002), (3_500.0, 0.03)] {
            // Ten seconds and more.
            let objects = (rate * 15.0) as u32;
            let (reached, requests) = simulate(rate, rate / 10.0, latency, 64, objects);
            let ceiling = rate.min(64.0 / latency);
            assert!(
                0.9 * ceiling < reached,
                "{reached:.0}/s of {ceiling:.0}/s, {requests:.3} requests for each object"
            );
            assert!(requests < 1.2, "{requests:.3} requests for each object at {rate}/s");
        }
    }

    #[test]
    fn a_store_that_never_refuses_is_not_held_back() {
        let mut pace = Pace::default();
        for i in 0..1_000 {
            let now = Duration::from_millis(i);
            assert_eq!(pace.poll(now), None);
            pace.on_answer(now);
        }
        assert_eq!(pace.rate(), None);
    }

    #[test]
    fn one_burst_of_refusals_is_one_cut() {
        let mut pace = Pace::default();
        (0..2_000).for_each(|i| pace.on_answer(Duration::from_millis(i)));
        for i in 0..64 {
            pace.on_throttle(Duration::from_millis(1_990), Duration::from_millis(2_000 + i));
        }
        let rate = pace.rate().unwrap();
        assert!((850.0..950.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_store_that_recovers_is_asked_as_before() {
        let mut pace = Pace::default();
        (0..1_000).for_each(|i| pace.on_answer(Duration::from_millis(10 * i)));
        pace.on_throttle(Duration::from_secs(10), Duration::from_secs(10));
        (0..6_000).for_each(|i| pace.on_answer(Duration::from_millis(10_000 + 10 * i)));
        assert_eq!(pace.rate(), None);
    }
}
