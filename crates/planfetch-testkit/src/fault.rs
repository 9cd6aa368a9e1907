//! What can go wrong between a client and a store.

use std::collections::BTreeMap;
use std::time::Duration;

/// What the server does instead of answering well.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Waits before it answers.
    Latency(Duration),
    /// Answers `503 SlowDown`, as Amazon S3 does to a client that asks too fast.
    SlowDown,
    /// Answers `503 SlowDown` and asks, by the header `Retry-After`, to be left alone for this many seconds.
    RetryAfter(u64),
    /// Answers `400 ExpiredToken`, as Amazon S3 does to temporary credentials whose time is over.
    ExpiredToken,
    /// Answers `403 AccessDenied`, as Amazon S3 does to credentials that may not read the object, or that may not list
    /// the bucket where there is none.
    AccessDenied,
    /// Resets the connection (TCP RST) instead of answering.
    Reset,
    /// Announces the whole body, sends this many bytes of it, and closes the connection.
    CutBody(usize),
    /// Announces the whole body, sends this many bytes of it, and then nothing more, with the connection open.
    StallBody(usize),
    /// Sends the body in pieces of this many bytes, with a pause before each: slow, and healthy.
    SlowBody(usize, Duration),
    /// Sends a body of the right length in which the byte at this place is another.
    WrongByte(usize),
}

/// Which requests for an object a fault befalls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Occurrence {
    /// All of them.
    Always,
    /// The first this many for each key, counted since the server's start or the last reset of its counts.
    First(u64),
    /// Every this many-th over all matching keys, beginning with the first.
    Every(u64),
}

/// When a fault happens: to requests whose path (`/bucket/key`) contains a text, as often as said.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FaultRule {
    /// What happens.
    pub fault: Fault,
    /// What the path contains; an empty text matches every path.
    pub path_contains: String,
    /// How often it happens.
    pub occurrence: Occurrence,
}

impl FaultRule {
    /// Makes a rule for all requests.
    pub fn always(fault: Fault) -> Self {
        Self { fault, path_contains: String::new(), occurrence: Occurrence::Always }
    }

    /// Makes a rule for the first `n` requests for each key.
    pub fn first(n: u64, fault: Fault) -> Self {
        Self { occurrence: Occurrence::First(n), ..Self::always(fault) }
    }

    /// Makes a rule for every `n`-th request.
    pub fn every(n: u64, fault: Fault) -> Self {
        Self { occurrence: Occurrence::Every(n), ..Self::always(fault) }
    }

    /// Limits the rule to paths that contain `text`.
    #[must_use]
    pub fn on(mut self, text: impl Into<String>) -> Self {
        self.path_contains = text.into();
        self
    }
}

/// The rules in force, and how often each has been asked.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<(FaultRule, u64)>,
}

impl Faults {
    pub(crate) fn push(&mut self, rule: FaultRule) {
        self.rules.push((rule, 0));
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// Returns what happens to this request. `seen` tells how often each path was asked for, this time included.
    pub(crate) fn decide(&mut self, path: &str, seen: &BTreeMap<String, u64>) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (rule, matched) in &mut self.rules {
            if !path.contains(&rule.path_contains) {
                continue;
            }
            *matched += 1;
            let happens = match rule.occurrence {
                Occurrence::Always => true,
                Occurrence::First(n) => seen.get(path).copied().unwrap_or(0) <= n,
                Occurrence::Every(n) => (*matched - 1).is_multiple_of(n.max(1)),
            };
            if happens {
                faults.push(rule.fault);
            }
        }
        faults
    }
}
