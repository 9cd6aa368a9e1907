//! The trainer of photographs goes on where it stopped, and its ranks agree.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use planfetch::prelude::CheckpointRecorder;
use planfetch_testkit::fixtures;

/// Cargo builds the examples of a package with its tests, beside them.
fn program(dir: &Path, name: &str, epochs: &str) -> Command {
    let test = env::current_exe().unwrap();
    let profile: PathBuf = test.parent().unwrap().parent().unwrap().into();
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let mut command = Command::new(profile.join("examples/resnet"));
    command
        .args(["--train", &path("photographs"), "--cache-dir", &path(&format!("{name}-cache-{{rank}}"))])
        .args(["--checkpoints", &path(name), "--checkpoint-every", "3", "--epochs", epochs])
        .args(["--size", "32", "--batch-size", "8", "--learning-rate", "0.02"])
        // Sums in libtorch are the same for the same number of threads alone.
        .env("OMP_NUM_THREADS", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn photographs(dir: &Path) {
    for i in 0..40 {
        let class = dir.join(format!("photographs/class_{}", i % 4));
        fs::create_dir_all(&class).unwrap();
        fs::write(class.join(format!("{i:02}.jpg")), fixtures::jpeg(&fixtures::photograph(48, 40, i))).unwrap();
    }
}

#[track_caller]
fn text(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Reads until the trainer has saved step 3 of the 4 of the first epoch.
fn wait_until_saved(child: &mut Child) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line == "saved 3"));
}

fn model(dir: &Path, name: &str) -> Vec<u8> {
    let checkpoints = CheckpointRecorder::new(dir.join(name)).unwrap();
    fs::read(checkpoints.latest().unwrap().unwrap().path.join("model.safetensors")).unwrap()
}

#[test]
fn a_resumed_run_has_the_weights_of_one_that_was_not_stopped() {
    let dir = tempfile::tempdir().unwrap();
    photographs(dir.path());
    let whole = text(program(dir.path(), "whole", "2").output().unwrap());
    assert!(whole.contains("36 images of 4 classes to train on, 4 to validate with"), "{whole}");
    // 4 classes, so any of them is among the first 4.
    assert!(whole.contains("top-5 100.00 %"), "{whole}");

    // Another, killed as soon as it has saved.
    let mut child = program(dir.path(), "killed", "2").spawn().unwrap();
    wait_until_saved(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = text(program(dir.path(), "killed", "2").output().unwrap());
    assert!(resumed.contains("going on after step"), "{resumed}");
    assert!(model(dir.path(), "whole") == model(dir.path(), "killed"), "{whole}\n{resumed}");
}

/// Two ranks that meet at a port that is free, as long as nobody takes it in between.
fn two_ranks(dir: &Path, name: &str) -> [Child; 2] {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    ["0", "1"].map(|rank| {
        let mut command = program(dir, name, "2");
        command.args(["--sum-at", &address]).env("RANK", rank).env("WORLD_SIZE", "2");
        command.spawn().unwrap()
    })
}

/// The parts of lines from a word on.
fn parts(text: &str, from: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.find(from).map(|at| line[at..].to_owned())).collect()
}

#[test]
fn two_ranks_train_one_net_and_go_on_together() {
    let dir = tempfile::tempdir().unwrap();
    photographs(dir.path());
    let [first, second] = two_ranks(dir.path(), "whole").map(|child| text(child.wait_with_output().unwrap()));
    // Each has images of its own, and both count all of the validation.
    let losses = parts(&first, "loss ");
    assert!(losses.len() == 2 && losses != parts(&second, "loss "), "{first}\n{second}");
    assert_eq!(parts(&first, "top-1 "), parts(&second, "top-1 "));
    // To the last digit, since each step adds the gradients of both.
    assert_eq!(parts(&first, "weights ").len(), 1);
    assert_eq!(parts(&first, "weights "), parts(&second, "weights "));

    // Both killed, and begun anew from what rank 0 has saved.
    let mut killed = two_ranks(dir.path(), "killed");
    wait_until_saved(&mut killed[0]);
    for child in &mut killed {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let resumed = two_ranks(dir.path(), "killed").map(|child| text(child.wait_with_output().unwrap()));
    for (rank, resumed) in resumed.iter().enumerate() {
        assert!(resumed.contains("going on after step"), "rank {rank}: {resumed}");
        assert_eq!(parts(resumed, "weights "), parts(&first, "weights "), "rank {rank}");
    }
    assert!(model(dir.path(), "whole") == model(dir.path(), "killed"), "{first}\n{}", resumed[0]);
}

#[test]
fn a_world_without_an_address_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    photographs(dir.path());
    let alone = program(dir.path(), "alone", "1").env("RANK", "1").env("WORLD_SIZE", "2").output().unwrap();
    assert!(String::from_utf8(alone.stderr).unwrap().contains("--sum-at is missing"));
}
