//! What holds across crates.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod determinism;
mod distributed;
mod e2e;
mod faults;
mod insight;
mod messages;
mod restart;
mod shutdown;
mod support;
mod tidy;
