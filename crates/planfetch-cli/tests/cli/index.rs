//! `planfetch index`.

use std::time::Duration;

use planfetch_testkit::{Fault, FaultRule, S3Server, fixtures};

use crate::support::{Running, command, entries, eventually, local, planfetch};

#[test]
fn a_bucket_is_listed_into_a_table_with_sizes() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    for (key, len) in [("train/cat/1.jpg", 3), ("train/dog/2.jpg", 5), ("train/dog/a/3.JPG", 7), ("train/dog/4.txt", 9)]
    {
        server.put("photos", key, &vec![0; len]);
    }
    server.put("photos", "train-2/cat/9.jpg", b"of another folder");
    let ran = planfetch(&server, "index s3://photos/train/ --extensions jpg", tmp.path());
    assert_eq!(ran.stderr, "3 objects of 2 classes, 15 B\n");
    let expected = "s3_uri,label,class_name,size\n\
                    s3://photos/train/cat/1.jpg,0,cat,3\n\
                    s3://photos/train/dog/2.jpg,1,dog,5\n\
                    s3://photos/train/dog/a/3.JPG,1,dog,7\n";
    assert_eq!(ran.stdout(), expected);
    // The same in a file, and from one form to another.
    planfetch(&server, "index s3://photos/train --extensions jpg,JPG -o a.parquet", tmp.path()).stdout();
    planfetch(&server, "index a.parquet --size-col size -o a.index", tmp.path()).stdout();
    let csv = planfetch(&server, "index a.index", tmp.path()).stdout();
    assert_eq!(csv, expected.replace(",class_name", "").replace(",cat", "").replace(",dog", ""));
    assert_eq!(entries(tmp.path()), ["a.index", "a.parquet"]);
}

#[test]
fn what_an_index_holds_and_costs_is_told() {
    let tmp = tempfile::tempdir().unwrap();
    let rows: String = (0..2_000).map(|i| format!("s3://photos/train/{}/{i}.jpg,{},50000\n", i % 4, i % 2)).collect();
    std::fs::write(tmp.path().join("train.csv"), format!("s3_uri,label,bytes\n{rows}")).unwrap();
    let page = local("index train.csv --size-col bytes --describe", tmp.path()).stdout();
    for expected in [
        "2000 samples of 2 classes, 100000000 bytes",
        "class 0: 1000",
        "this layout reaches 22000 GET/s at best, an epoch in 0.1 s",
        "docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html",
        "2,000 GET requests",
        "100.0 MB",
        "0.0008 USD, at 0.0004 USD for 1,000 GETs and 0 USD for a GB",
    ] {
        assert!(page.contains(expected), "no {expected:?}: {page}");
    }
    let line = "index train.csv --size-col bytes --describe --json --price-per-1000-gets 0.5 --price-per-gb 0.09";
    let told = local(line, tmp.path()).json();
    assert_eq!((told["samples"].as_u64(), told["duplicates"].as_u64()), (Some(2_000), Some(0)));
    assert_eq!(told["spread"][2]["prefixes"], 4);
    let epoch = &told["epoch"];
    assert_eq!((epoch["requests"].as_u64(), epoch["bytes"].as_u64()), (Some(2_000), Some(100_000_000)));
    assert!((epoch["usd"].as_f64().unwrap() - 1.009).abs() < 1e-9, "{epoch}");
    // Without sizes, there is no number that could be wrong.
    let page = local("index train.csv --describe", tmp.path()).stdout();
    assert!(page.contains("bytes unknown"), "{page}");
}

/// Puts 200 objects in place, six of which can't be loaded, and their index into the folder.
fn flawed(server: &S3Server, dir: &std::path::Path) {
    let csv = fixtures::put_photographs(server, "photos", 200);
    server.put("photos", "class_3/000003.jpg", b"");
    server.put("photos", "class_2/000070.jpg", b"<html>no photograph</html>");
    let whole = fixtures::jpeg(&fixtures::photograph(64, 64, 1));
    server.put("photos", "class_1/000129.jpg", &whole[..whole.len() / 3]);
    server.put("photos", "class_0/000196.jpg", b"");
    let csv = csv.replace("class_0/000064.jpg", "class_0/gone.jpg").replace("class_3/000199.jpg", "class_3/gone.jpg");
    std::fs::write(dir.join("photos.csv"), csv).unwrap();
}

const FLAWS: [(&str, &str, &str); 6] = [
    ("3", "s3://photos/class_3/000003.jpg", "empty"),
    ("64", "s3://photos/class_0/gone.jpg", "missing"),
    ("70", "s3://photos/class_2/000070.jpg", "undecodable"),
    ("129", "s3://photos/class_1/000129.jpg", "undecodable"),
    ("196", "s3://photos/class_0/000196.jpg", "empty"),
    ("199", "s3://photos/class_3/gone.jpg", "missing"),
];

#[track_caller]
fn assert_flaws(csv: &str) {
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("row,s3_uri,label,problem,detail"));
    let found: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let found: Vec<_> = found.iter().map(|fields| (fields[0], fields[1], fields[3])).collect();
    assert_eq!(found, FLAWS);
}

#[test]
fn objects_that_can_not_be_loaded_are_listed() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    flawed(&server, tmp.path());
    let ran = planfetch(&server, "index photos.csv --check", tmp.path());
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_flaws(&ran.stdout);
    let conclusion = "200 objects checked: 2 missing, 2 empty, 2 undecodable, 0 unreadable";
    assert!(ran.stderr.contains(conclusion) && ran.stderr.contains("6 of 200 objects can't be loaded"), "{ran:?}");

    let ran = planfetch(&server, "index photos.csv --check --out bad.csv --json", tmp.path());
    let counts: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, counts["checked"].as_u64(), counts["missing"].as_u64()), (3, Some(200), Some(2)));
    assert_flaws(&std::fs::read_to_string(tmp.path().join("bad.csv")).unwrap());
    assert_eq!(entries(tmp.path()), ["bad.csv", "photos.csv"]);

    // What is there is enough without decoding.
    let ran = planfetch(&server, "index photos.csv --check --decode none", tmp.path());
    assert_eq!((ran.code, ran.stdout.lines().count()), (3, 1 + 4), "{ran:?}");
    let ran = planfetch(&server, "index photos.csv --check --limit 3", tmp.path());
    assert_eq!(ran.stdout(), "row,s3_uri,label,problem,detail\n");
}

#[test]
fn a_check_that_was_interrupted_goes_on() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    flawed(&server, tmp.path());
    // The third of four groups never comes.
    let hour = Duration::from_secs(3_600);
    server.inject(FaultRule::always(Fault::Latency(hour)).on("/photos/class_2/000130.jpg"));
    let line = "index photos.csv --check --out bad.csv";
    let running = Running::start(command(Some(&server), line.split(' '), tmp.path()));
    let progress = tmp.path().join("bad.csv.progress");
    eventually("two groups are checked", || {
        std::fs::read_to_string(&progress).is_ok_and(|json| json.contains("\"checked\":128"))
    });
    running.signal("INT");
    assert_eq!(running.end().code, 130);
    assert_eq!(entries(tmp.path()), ["bad.csv", "bad.csv.progress", "photos.csv"]);

    // What was written after the progress was, as by a process that was killed, is written once all the same.
    let mut list = std::fs::read_to_string(tmp.path().join("bad.csv")).unwrap();
    assert_eq!(list.lines().count(), 1 + 3, "{list}");
    list.push_str("129,s3://photos/class_1/000129.jpg,1,undec");
    std::fs::write(tmp.path().join("bad.csv"), list).unwrap();
    let error = planfetch(&server, "index photos.csv --check --out bad.csv --limit 150", tmp.path()).failure(2);
    assert!(error.contains("bad.csv.progress is of a check of photos.csv with 200 rows"), "{error}");

    server.clear_faults();
    server.reset_counts();
    let ran = planfetch(&server, line, tmp.path());
    assert!(ran.stderr.contains("going on after 128 of 200 objects"), "{ran:?}");
    assert_eq!(ran.code, 3);
    assert_flaws(&std::fs::read_to_string(tmp.path().join("bad.csv")).unwrap());
    let asked = server.counts().by_path;
    assert!(!asked.contains_key("/photos/class_3/000127.jpg") && asked.contains_key("/photos/class_0/000128.jpg"));
    assert_eq!(entries(tmp.path()), ["bad.csv", "photos.csv"]);
}

#[test]
fn a_store_that_is_down_is_no_flaw_of_the_data() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    flawed(&server, tmp.path());
    std::fs::write(tmp.path().join("planfetch.toml"), "[cache]\nmax_attempts = 1\nadaptive_concurrency = false\n")
        .unwrap();
    server.inject(FaultRule::always(Fault::Reset));
    let ran = planfetch(&server, "index photos.csv --check --out bad.csv --config planfetch.toml", tmp.path());
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert!(ran.stderr.contains("error: "), "{ran:?}");
}
