//! The trainers learn, run as programs.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::Path;
use std::process::{Command, Output};

use planfetch_testkit::{ACCESS_KEY, S3Server, SECRET_KEY};

fn digits(arguments: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_digits"))
        .args(arguments)
        .args(["--data-dir", dir.join("data").to_str().unwrap()])
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .output()
        .unwrap()
}

/// The lines that tell of epochs, without what the clock decides.
#[track_caller]
fn epochs(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("epoch"));
    lines.map(|line| line.rsplit_once("  ").expect("the time stands last").0.to_owned()).collect()
}

#[track_caller]
fn last_accuracy(epochs: &[String]) -> f64 {
    let last = epochs.last().expect("there are epochs");
    let (_, rest) = last.split_once("accuracy ").expect("it tells the accuracy");
    rest.trim_end_matches(" %").parse().expect("a number")
}

#[test]
fn digits_are_learned_from_local_files_and_from_an_s3_server_alike() {
    let dir = tempfile::tempdir().unwrap();
    let local = epochs(&digits(&[], dir.path()));
    assert!(95.0 <= last_accuracy(&local), "{local:#?}");

    // The same objects behind a server, with the same index but for the URIs.
    let server = S3Server::start();
    let store = dir.path().join("data/store");
    server.put_folder("digits", &store);
    let index = std::fs::read_to_string(store.join("index.csv")).unwrap();
    let local_root = format!("file://{}/", store.canonicalize().unwrap().display());
    server.put("digits", "index.csv", index.replace(&local_root, "s3://digits/").as_bytes());
    let other = tempfile::tempdir().unwrap();
    let remote = digits(&["--index", "s3://digits/index.csv", "--endpoint", &server.endpoint()], other.path());
    // Order and pixels are the same, so the losses are too, to the last digit that is printed.
    assert_eq!(epochs(&remote), local);
    let counts = server.counts();
    assert_eq!(counts.requests, 1_798, "1,797 images and their index, once each");
}

#[test]
fn a_missing_index_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let output = digits(&["--index", "/nowhere/index.csv"], dir.path());
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/nowhere/index.csv"), "{error}");
}
