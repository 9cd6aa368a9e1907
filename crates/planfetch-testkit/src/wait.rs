//! Waiting, for what other threads and processes do.

use std::sync::mpsc;
use std::time::Duration;

/// Waits for `time`.
pub fn pause(time: Duration) {
    let (_never, wait) = mpsc::channel::<()>();
    let _ = wait.recv_timeout(time);
}

/// Waits until `holds`.
///
/// How soon is up to a machine that may be busy with something else; what has to be quick is measured by itself.
///
/// # Panics
///
/// If it still doesn't hold after 60 s, with `what` in the message.
///
/// # Example
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use planfetch_testkit::eventually;
///
/// let done = AtomicBool::new(false);
/// std::thread::scope(|scope| {
///     scope.spawn(|| done.store(true, Ordering::Release));
///     eventually("it is done", || done.load(Ordering::Acquire));
/// });
/// assert!(done.into_inner());
/// ```
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        pause(Duration::from_millis(10));
    }
    panic!("not within 60 s: {what}");
}
