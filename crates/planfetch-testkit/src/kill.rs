//! Processes that are killed at a given moment.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::wait::pause;

/// Starts a program, kills it by SIGKILL as soon as the file at `log` has `lines` whole lines, and returns how many it has
/// then.
#[track_caller]
#[must_use]
pub fn kill_after_lines(program: &mut Command, log: &Path, lines: usize) -> usize {
    let count = || fs::read_to_string(log).map_or(0, |text| text.matches('\n').count());
    // A log of an earlier run must not be taken for this one's, whose first line may come late.
    let before = count();
    assert!(before < lines, "the log has {before} lines already, which is not less than {lines}");
    let mut child = program.stdout(Stdio::null()).spawn().expect("the program starts");
    while count() < lines {
        assert!(child.try_wait().expect("it is a child").is_none(), "it ended before it had written {lines} lines");
        pause(Duration::from_millis(1));
    }
    child.kill().expect("it is a child");
    child.wait().expect("it is a child");
    count()
}

/// Returns three different steps from 1 to `last`, in order: others each time, so that the moments at which programs are
/// killed differ from one run of the tests to the next.
#[must_use]
pub fn random_steps(last: usize) -> [usize; 3] {
    let random = RandomState::new();
    let mut step = 0;
    [1, 2, 3].map(|i| {
        let left = last - step - (3 - i);
        step += 1 + random.hash_one(i) as usize % left;
        step
    })
}
