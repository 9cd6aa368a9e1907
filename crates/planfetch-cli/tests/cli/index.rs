//! `planfetch index`.

use std::time::Duration;

use planfetch_testkit::{Fault, FaultRule, S3Server, eventually, fixtures};

use crate::support::{Running, command, entries, local, planfetch};

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
fn an_interrupted_check_goes_on_as_no_other_one() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    flawed(&server, tmp.path());
    let hour = Duration::from_secs(3_600);
    server.inject(FaultRule::always(Fault::Latency(hour)).on("/photos/class_2/000098.jpg"));
    let line = "index photos.csv --check --out bad.csv --limit 100";
    let running = Running::start(command(Some(&server), line.split(' '), tmp.path()));
    let progress = tmp.path().join("bad.csv.progress");
    eventually("a group is checked", || {
        std::fs::read_to_string(&progress).is_ok_and(|json| json.contains("\"checked\":64"))
    });
    running.signal("INT");
    assert_eq!(running.end().code, 130);
    server.clear_faults();

    let (list, csv) = (tmp.path().join("bad.csv"), tmp.path().join("photos.csv"));
    let before = std::fs::read_to_string(&list).unwrap();
    std::fs::write(tmp.path().join("gray.toml"), "[image.decode]\ncolor = \"gray\"\n").unwrap();
    // As many rows, but others, or looked at in another way.
    for (options, told) in [
        (
            "--limit 100 --offset 7",
            "and this is one of photos.csv with 100 rows (--offset 7 --limit 100 --decode image)",
        ),
        ("--sample-frac 0.5", "and this is one of photos.csv with 100 rows (--sample-frac 0.5 --decode image)"),
        ("--limit 100 --decode none", "and this is one of photos.csv with 100 rows (--limit 100 --decode none)"),
        ("--limit 100 --config gray.toml", "of which the rows, or the settings of images, are no longer the same"),
    ] {
        let line = format!("index photos.csv --check --out bad.csv {options}");
        let error = planfetch(&server, &line, tmp.path()).failure(2);
        let expected = "bad.csv.progress is of a check of photos.csv with 100 rows (--limit 100 --decode image), ";
        assert!(error.contains(&format!("{expected}{told}")), "{error}");
        assert_eq!(std::fs::read_to_string(&list).unwrap(), before, "{options}");
    }
    // The same options, and another index.
    let rows = std::fs::read_to_string(&csv).unwrap();
    std::fs::write(&csv, rows.replace("000007.jpg", "elsewhere.jpg")).unwrap();
    let error = planfetch(&server, line, tmp.path()).failure(2);
    assert!(error.contains("are no longer the same"), "{error}");
    std::fs::write(&csv, rows).unwrap();
    let ran = planfetch(&server, line, tmp.path());
    assert!(ran.stderr.contains("going on after 64 of 100 objects"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&list).unwrap().lines().count(), 1 + 3);
}

#[test]
fn a_check_goes_in_order_and_waits_whatever_a_training_run_does() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    flawed(&server, tmp.path());
    let settings = "[loader]\nin_order = false\ntimeout = { secs = 0, nanos = 1_000_000 }\n";
    std::fs::write(tmp.path().join("planfetch.toml"), settings).unwrap();
    // Later groups would overtake the first, and the first be given up.
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(500))).on("/photos/class_0/000000.jpg"));
    let ran = planfetch(&server, "index photos.csv --check --config planfetch.toml", tmp.path());
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_flaws(&ran.stdout);
}

#[test]
fn rows_of_the_list_are_those_of_the_index() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    flawed(&server, tmp.path());
    for options in ["--offset 60", "--offset 3 --limit 130", "--sample-frac 0.9", "--offset 50 --sample-frac 0.95"] {
        let line = format!("index photos.csv --check --decode none {options}");
        let list = planfetch(&server, &line, tmp.path()).stdout;
        let found: Vec<(usize, &str)> = list
            .lines()
            .skip(1)
            .map(|line| line.split_once(',').unwrap())
            .map(|(row, rest)| (row.parse().unwrap(), rest.split(',').next().unwrap()))
            .collect();
        assert!(1 < found.len(), "{options}: {list}");
        let csv = std::fs::read_to_string(tmp.path().join("photos.csv")).unwrap();
        for (row, uri) in found {
            let line = csv.lines().nth(1 + row).unwrap();
            assert!(line.starts_with(&format!("{uri},")), "{options}: row {row} is {line}, not {uri}");
        }
    }
}

#[test]
fn byte_ranges_are_kept_from_one_form_to_another() {
    let tmp = tempfile::tempdir().unwrap();
    let named = "path,label,begin,bytes\ns3://b/shard,0,0,10\ns3://b/shard,1,10,7\n";
    std::fs::write(tmp.path().join("named.csv"), named).unwrap();
    let ranges = "s3_uri,label,offset,length\ns3://b/shard,0,0,10\ns3://b/shard,1,10,7\n";
    let options = "--s3-uri-col path --offset-col begin --length-col bytes";
    let csv = local(&format!("index named.csv {options}"), tmp.path()).stdout();
    assert_eq!(csv, ranges);
    // What the program wrote, it reads, in all forms.
    std::fs::write(tmp.path().join("ranges.csv"), csv).unwrap();
    for (from, to) in [("ranges.csv", "a.parquet"), ("a.parquet", "b.index"), ("b.index", "c.csv")] {
        local(&format!("index {from} -o {to}"), tmp.path()).stdout();
        assert_eq!(local(&format!("index {to}"), tmp.path()).stdout(), ranges, "{to}");
    }
    let whole = "s3_uri,label\ns3://b/shard,0\ns3://b/shard,1\n";
    for table in ["ranges.csv", "a.parquet"] {
        assert_eq!(local(&format!("index {table} --ranges none"), tmp.path()).stdout(), whole);
    }
    // Every command that reads an index reads it so.
    std::fs::write(tmp.path().join("half.csv"), ranges.replace("10,7", "10,x")).unwrap();
    for command in ["speedtest", "preview", "index", "plan show", "plan verify", "plan digest"] {
        let error = local(&format!("{command} half.csv"), tmp.path()).failure(1);
        assert!(error.contains("row 2 (line 3), column \"length\": \"x\" is no integer"), "{error}");
        assert!(error.ends_with("hint: --ranges none takes samples for whole objects\n"), "{error}");
        let error = local(&format!("{command} named.csv --offset-col begin"), tmp.path()).failure(2);
        assert!(error.contains("--offset-col is given without --length-col"), "{error}");
    }
    let error = local("index ranges.csv --offset-col from --length-col length", tmp.path()).failure(1);
    assert!(error.contains("no column \"from\"") && error.contains("--offset-col NAME says"), "{error}");
}

#[test]
fn what_an_index_advises_the_program_can_do() {
    let tmp = tempfile::tempdir().unwrap();
    std::fs::write(tmp.path().join("two.csv"), "s3_uri,label\ns3://a/1,7\ns3://b/2,dog\n").unwrap();
    let run = |options: &str| local(&format!("index two.csv {options}"), tmp.path());
    let error = run("").failure(1);
    assert!(error.contains("lies in another bucket") || error.contains("is no integer"), "{error}");
    let error = run("--label-kind name").failure(1);
    assert!(error.contains("set the prefix to"), "{error}");
    assert!(error.ends_with("hint: --prefix s3:// lets rows of several buckets through\n"), "{error}");
    let error = run("--prefix s3://").failure(1);
    assert!(error.contains("set the kind of label to Name"), "{error}");
    assert!(error.ends_with("hint: --label-kind name takes labels for names of classes\n"), "{error}");
    let error = run("--prefix s3://a/ --label-kind name").failure(1);
    assert!(error.ends_with("hint: --prefix says what all URIs begin with\n"), "{error}");
    let csv = run("--prefix s3:// --label-kind name").stdout();
    assert_eq!(csv, "s3_uri,label,class_name\ns3://a/1,0,7\ns3://b/2,1,dog\n");
    let error = run("--prefix s3:// --label-kind integer").failure(1);
    assert!(error.contains("\"dog\" is no integer"), "{error}");
}

#[test]
fn paths_as_find_prints_them_are_relative_to_the_index() {
    let tmp = tempfile::tempdir().unwrap();
    for dir in ["sets", "photos"] {
        std::fs::create_dir(tmp.path().join(dir)).unwrap();
    }
    for file in ["sets/1", "photos/2"] {
        std::fs::write(tmp.path().join(file), "bytes").unwrap();
    }
    std::fs::write(tmp.path().join("sets/list.csv"), "s3_uri,label\n./1,0\n../photos/2,1\n").unwrap();
    let root = tmp.path().canonicalize().unwrap();
    let expected = format!("s3_uri,label\nfile://{0}/sets/1,0\nfile://{0}/photos/2,1\n", root.display());
    // Wherever the index is named from.
    for index in ["sets/list.csv", "./sets/list.csv", "photos/../sets/list.csv"] {
        assert_eq!(local(&format!("index {index}"), &root).stdout(), expected, "{index}");
        let ran = local(&format!("index {index} --check --decode none"), &root);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let above = "../".repeat(100);
    std::fs::write(tmp.path().join("list.csv"), format!("s3_uri,label\n1,0\n{above}1,0\n")).unwrap();
    let error = local("index list.csv", &root).failure(1);
    assert!(
        error.contains("row 2 (line 3), column \"s3_uri\": ") && error.contains("leads out of file:///"),
        "{error}"
    );
}

#[test]
fn an_index_is_written_whole_or_not_at_all() {
    let tmp = tempfile::tempdir().unwrap();
    std::fs::write(tmp.path().join("a.csv"), "s3_uri,label\ns3://a/1,7\n").unwrap();
    for form in ["csv", "parquet", "index"] {
        let out = format!("out.{form}");
        // Twice, since the second run replaces a file.
        for _ in 0..2 {
            assert_eq!(local(&format!("index a.csv -o {out}"), tmp.path()).stdout(), "");
        }
        assert_eq!(entries(tmp.path()), ["a.csv", &out]);
        std::fs::remove_file(tmp.path().join(out)).unwrap();
        let error = local(&format!("index a.csv -o nowhere/out.{form}"), tmp.path()).failure(1);
        assert!(error.starts_with(&format!("error: can't write nowhere/out.{form}: ")), "{error}");
    }
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
