//! Ctrl-C, as a real signal to a real process.

use std::time::Duration;

use planfetch_testkit::{Fault, FaultRule, S3Server, eventually};

use crate::support::{Running, command, entries};

/// Longer than any test waits.
const FOREVER: Duration = Duration::from_secs(3_600);

fn put_objects(server: &S3Server, n: usize) {
    for i in 0..n {
        server.put("data", &format!("a/{i:03}"), &[7; 100]);
    }
}

#[test]
fn an_interrupted_run_prints_what_it_measured_and_leaves_nothing_behind() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    put_objects(&server, 40);
    let line = "speedtest s3://data/ --decode none --batch-size 4 --strategy sequential --step-ms 3600000 --json -v";
    let mut running = Running::start(command(Some(&server), line.split(' '), tmp.path()));
    // The loop is in its first step, which takes an hour.
    running.until_samples();
    running.signal("INT");
    let ran = running.end();
    assert_eq!(ran.code, 130, "{ran:?}");
    let summary: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((summary["interrupted"].as_bool(), summary["samples"].as_u64()), (Some(true), Some(4)), "{summary}");
    assert_eq!(entries(tmp.path()), [""; 0]);
}

#[test]
fn a_run_that_waits_for_a_store_that_does_not_answer_ends_too() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    put_objects(&server, 40);
    // Behind the listing of the bucket, and behind the third batch.
    server.inject(FaultRule::always(Fault::Latency(FOREVER)).on("/data/a/012"));
    let line = "speedtest s3://data/ --decode none --batch-size 4 --strategy sequential --report report.html -v";
    let mut running = Running::start(command(Some(&server), line.split(' '), tmp.path()));
    running.until("twelve samples", |line| line.starts_with("12/40 samples"));
    running.signal("TERM");
    let ran = running.end();
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(ran.stdout.starts_with("interrupted; this is what was measured until then\n"), "{ran:?}");
    assert!(ran.stdout.contains("\nsamples        12 ("), "{ran:?}");
    // The report is asked for, and so is the one thing that stays.
    assert_eq!(entries(tmp.path()), ["report.html"]);
}

#[test]
fn before_anything_is_measured_nothing_is_printed() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "index.csv", b"s3_uri,label\ns3://data/a,1\n");
    server.inject(FaultRule::always(Fault::Latency(FOREVER)));
    let line = "speedtest s3://data/index.csv --decode none";
    let running = Running::start(command(Some(&server), line.split(' '), tmp.path()));
    eventually("the index is asked for", || server.counts().requests == 1);
    assert_eq!(entries(tmp.path()).len(), 1, "the temporary folder");
    running.signal("INT");
    let ran = running.end();
    assert_eq!((ran.code, ran.stdout.as_str()), (130, ""), "{ran:?}");
    assert_eq!(entries(tmp.path()), [""; 0]);
}
