//! The trainer of digits learns, run as a program, and goes on where it was killed.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use planfetch_testkit::{ACCESS_KEY, S3Server, SECRET_KEY, fixtures, kill_after_lines, random_steps};

/// Cargo builds the examples of a package with its tests, beside them.
fn program(arguments: &[&str], dir: &Path) -> Command {
    let test = env::current_exe().unwrap();
    let profile: PathBuf = test.parent().unwrap().parent().unwrap().into();
    let mut command = Command::new(profile.join("examples/digits"));
    command
        .args(arguments)
        .args(["--data-dir", dir.join("data").to_str().unwrap()])
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        // Sums in libtorch are the same for the same number of threads alone.
        .env("OMP_NUM_THREADS", "1");
    command
}

#[track_caller]
fn epochs(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().filter(|line| line.starts_with("epoch")).map(str::to_owned).collect()
}

#[test]
fn digits_are_learned_from_local_files_and_from_an_s3_server_alike() {
    let dir = tempfile::tempdir().unwrap();
    let local = epochs(&program(&[], dir.path()).output().unwrap());
    let (_, accuracy) = local.last().unwrap().split_once("accuracy ").unwrap();
    assert!(95.0 <= accuracy.trim_end_matches(" %").parse::<f64>().unwrap(), "{local:#?}");

    let server = S3Server::start();
    server.put_folder("digits", &dir.path().join("data/store"));
    let other = tempfile::tempdir().unwrap();
    let arguments = ["--index", "s3://digits/index.csv", "--endpoint", &server.endpoint()];
    let remote = epochs(&program(&arguments, other.path()).output().unwrap());
    assert_eq!(remote, local);
    assert_eq!(server.counts().requests, 1_798, "1,797 images and their index, once each");
}

#[test]
fn a_run_that_is_killed_at_any_step_has_the_samples_and_the_losses_of_one_that_is_not() {
    let (whole, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = |dir: &Path| {
        let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        let mut command = program(&["--epochs", "3", "--checkpoint-every", "7"], dir);
        command.args(["--checkpoints", &path("checkpoints"), "--steps", &path("steps")]);
        command
    };
    let undisturbed = run(whole.path()).output().unwrap();
    let expected = fs::read_to_string(whole.path().join("steps")).unwrap();
    // 1,438 images in batches of 32, three times.
    assert_eq!(expected.lines().count(), 135);

    let mut steps = 0;
    for step in random_steps(125) {
        // At least one further than before.
        steps = kill_after_lines(&mut run(killed.path()), &killed.path().join("steps"), step.max(steps + 1));
        assert!(steps < 135, "killed after step {steps}");
    }
    let resumed = run(killed.path()).output().unwrap();
    let text = String::from_utf8_lossy(&resumed.stdout);
    assert_eq!(text.contains("going on after step"), 7 <= steps, "{resumed:?}");
    let steps = fs::read_to_string(killed.path().join("steps")).unwrap();
    assert_eq!(steps.lines().count(), 135);
    for (step, expected) in steps.lines().zip(expected.lines()) {
        let parse = |line: &str| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            (words.next(), words.next().unwrap().parse::<f64>().unwrap(), words.next())
        };
        let ((number, loss, ids), (expected_number, expected_loss, expected_ids)) = (parse(step), parse(expected));
        assert_eq!((number, ids), (expected_number, expected_ids));
        assert!((loss - expected_loss).abs() <= 1e-6, "{loss} instead of {expected_loss}");
    }
    assert_eq!(epochs(&resumed).last(), epochs(&undisturbed).last());
}

#[test]
fn larger_digits_are_learned_to_97_percent_from_an_s3_server() {
    let dir = tempfile::tempdir().unwrap();
    assert!(program(&["--epochs", "0"], dir.path()).output().unwrap().status.success());
    let server = S3Server::start();
    let index = fixtures::put_moved_digits(&server, "moved", &dir.path().join("data/store/index.csv"));
    server.put("moved", "index.csv", index.as_bytes());
    let arguments = ["--index", "s3://moved/index.csv", "--endpoint", &server.endpoint(), "--size", "12"];
    let epochs = epochs(&program(&arguments, dir.path()).args(["--epochs", "8"]).output().unwrap());
    let (_, accuracy) = epochs.last().unwrap().split_once("accuracy ").unwrap();
    assert!(97.0 <= accuracy.trim_end_matches(" %").parse::<f64>().unwrap(), "{epochs:#?}");
}
