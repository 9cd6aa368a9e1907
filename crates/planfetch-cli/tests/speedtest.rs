//! The program, run as people run it.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use planfetch_testkit::{ACCESS_KEY, Fault, FaultRule, S3Server, SECRET_KEY, fixtures};

fn planfetch(server: &S3Server, arguments: &[&str], tmp: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_planfetch"))
        .args(arguments)
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .env("AWS_ENDPOINT_URL", server.endpoint())
        .env("TMPDIR", tmp)
        .output()
        .unwrap()
}

#[track_caller]
fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns what stands behind a name.
#[track_caller]
fn value<'a>(summary: &'a str, name: &str) -> &'a str {
    let line = summary.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {summary}"));
    line[name.len()..].trim()
}

#[test]
fn photographs_are_measured_and_each_is_downloaded_once() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 200);
    let index = tmp.path().join("photos.csv");
    std::fs::write(&index, csv).unwrap();
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(30))));
    let arguments = ["speedtest", index.to_str().unwrap(), "--epochs", "2", "--image-size", "64"];
    let summary = stdout(&planfetch(&server, &arguments, tmp.path()));
    assert!(value(&summary, "samples  ").starts_with("400 in "), "{summary}");
    for name in
        ["samples/s", "batches/s", "batch latency mean", "batch latency p50", "batch latency p95", "batch latency p99"]
    {
        let number: f64 = value(&summary, name).trim_end_matches(" ms").parse().unwrap();
        assert!(number.is_finite(), "{summary}");
    }
    // The first batch waits for the store, so the mean of eight waits is at least an eighth of its latency.
    let mean: f64 = value(&summary, "batch latency mean").trim_end_matches(" ms").parse().unwrap();
    assert!(30.0 / 8.0 <= mean, "{summary}");
    let counts = server.counts();
    assert_eq!(counts.by_path.len(), 200);
    assert!(counts.by_path.values().all(|&n| n == 1), "{counts:?}");
    assert_eq!(value(&summary, "requests"), "200, 0 of them again after a failure");
    assert!(value(&summary, "downloaded").starts_with("200 objects, "), "{summary}");
    // The temporary cache is gone.
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 1);
}

#[test]
fn an_index_in_the_store_a_part_of_it_and_other_columns() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 30).replace("s3_uri,label", "where,what");
    server.put("photos", "index.csv", csv.as_bytes());
    let cache = tmp.path().join("cache");
    let arguments = [
        "speedtest",
        "s3://photos/index.csv",
        "--s3-uri-col",
        "where",
        "--class-col",
        "what",
        "--offset",
        "10",
        "-n",
        "5",
        "--decode",
        "none",
        "--strategy",
        "sequential",
        "--batch-size",
        "2",
        "--cache-dir",
        cache.to_str().unwrap(),
    ];
    let summary = stdout(&planfetch(&server, &arguments, tmp.path()));
    assert!(value(&summary, "samples  ").starts_with("5 in "), "{summary}");
    let asked: Vec<String> = server.counts().by_path.into_keys().collect();
    let expected = [
        "/photos/class_0/000012.jpg",
        "/photos/class_1/000013.jpg",
        "/photos/class_2/000010.jpg",
        "/photos/class_2/000014.jpg",
        "/photos/class_3/000011.jpg",
        "/photos/index.csv",
    ];
    assert_eq!(asked, expected);
    // A cache that the user names stays.
    assert!(cache.join("CACHEDIR.TAG").exists());
}

#[test]
fn buckets_of_one_name_on_two_servers_are_not_taken_for_one_another() {
    let (tmp, one, two) = (tempfile::tempdir().unwrap(), S3Server::start(), S3Server::start());
    let csv = fixtures::put_photographs(&one, "photos", 10);
    let _ = fixtures::put_photographs(&two, "photos", 10);
    let index = tmp.path().join("photos.csv");
    std::fs::write(&index, csv).unwrap();
    let cache = tmp.path().join("cache");
    let arguments = ["speedtest", index.to_str().unwrap(), "--decode", "none", "--cache-dir", cache.to_str().unwrap()];
    // The endpoint comes from the environment.
    for server in [&one, &two, &one] {
        stdout(&planfetch(server, &arguments, tmp.path()));
    }
    // What was in the window at the end stays on disk, and is what the third run finds.
    assert_eq!((one.counts().requests, two.counts().requests), (10, 10));
    // An option wins over every variable.
    let endpoint = two.endpoint();
    let other = [&arguments[..], &["--endpoint", &endpoint]].concat();
    two.reset_counts();
    stdout(&planfetch(&one, &other, tmp.path()));
    assert_eq!((one.counts().requests, two.counts().requests), (10, 0));
}

#[test]
fn every_strategy_loads_what_its_plan_holds() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 40);
    let index = tmp.path().join("photos.csv");
    std::fs::write(&index, csv).unwrap();
    for (strategy, samples) in [("shuffle", 40), ("sequential", 40), ("stratified", 40), ("balanced", 40)] {
        let arguments =
            ["speedtest", index.to_str().unwrap(), "--strategy", strategy, "--batch-size", "8", "--decode", "none"];
        let summary = stdout(&planfetch(&server, &arguments, tmp.path()));
        assert!(value(&summary, "samples  ").starts_with(&format!("{samples} in ")), "{strategy}: {summary}");
    }
}

#[test]
fn each_mistake_is_said_in_words() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 3);
    let index = |name: &str, text: &str| {
        let path = tmp.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = index("good.csv", &csv);
    let cases: Vec<(Vec<String>, &str)> = vec![
        (
            vec![good.clone(), "--class-col".into(), "lable".into()],
            "has no column \"lable\"; its columns are [\"s3_uri\", \"label\"]",
        ),
        (
            vec![index("row.csv", "s3_uri,label\ns3://photos/a,\n")],
            "row.csv: row 1 (line 2), column \"label\": \"\" is empty",
        ),
        (
            vec![index("uri.csv", "s3_uri,label\nphotos/a,1\n")],
            "column \"s3_uri\": \"photos/a\" has no scheme; write s3://bucket/key",
        ),
        (
            vec![index("key.csv", "s3_uri,label\ns3://photos/gone.jpg,1\n")],
            "s3://photos/gone.jpg: there is no object with this key",
        ),
        (vec!["/nowhere.csv".into()], "can't read the index /nowhere.csv"),
        (vec!["s3://photos/nowhere.csv".into()], "can't get the index: s3://photos/nowhere.csv: there is no object"),
        (vec![good.clone(), "--batch-size".into(), "0".into()], "batch_size is 0, but must lie in 1..="),
        (vec![good.clone(), "--offset".into(), "7".into()], "--offset 7 and --limit (none) leave no row of the 3 in "),
        (vec![good, "--image-size".into(), "0".into()], "height is 0, but must lie in 1..=65535"),
    ];
    for (arguments, expected) in cases {
        let arguments: Vec<&str> = std::iter::once("speedtest").chain(arguments.iter().map(String::as_str)).collect();
        let error = failure(&planfetch(&server, &arguments, tmp.path()));
        assert!(error.contains("error: ") && error.contains(expected), "{arguments:?}: {error}");
    }
    let leftovers: Vec<_> = std::fs::read_dir(tmp.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(leftovers.iter().all(|name| name.to_str().unwrap().ends_with(".csv")), "{leftovers:?}");
}

#[test]
fn help_shows_every_default() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let help = stdout(&planfetch(&server, &["speedtest", "--help"], tmp.path()));
    let options = help.lines().filter(|line| line.trim_start().starts_with("--") || line.trim_start().starts_with('-'));
    assert!(15 < options.count(), "{help}");
    for default in
        ["[default: s3_uri]", "[default: label]", "[default: 64]", "[default: 200]", "[default: 4]", "[default: 5]"]
    {
        assert!(help.contains(default), "{default}: {help}");
    }
}
