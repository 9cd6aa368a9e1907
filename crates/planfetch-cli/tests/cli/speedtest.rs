//! `planfetch speedtest`.

use std::path::Path;
use std::time::Duration;

use planfetch_testkit::{Fault, FaultRule, S3Server, fixtures};
use serde_json::Value;

use crate::support::{entries, local, planfetch};

/// Puts photographs in place, and their index into the folder.
fn photographs(server: &S3Server, dir: &Path, n: usize) {
    let csv = fixtures::put_photographs(server, "photos", n);
    std::fs::write(dir.join("photos.csv"), csv).unwrap();
}

#[track_caller]
fn number(summary: &Value, name: &str) -> u64 {
    summary[name].as_u64().unwrap_or_else(|| panic!("no {name}: {summary}"))
}

#[test]
fn photographs_are_measured_and_each_is_downloaded_once() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    photographs(&server, tmp.path(), 200);
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(30))));
    let line = "speedtest photos.csv --epochs 2 --image-size 64 --num-workers 3 --download-threads 9 --json";
    let summary = planfetch(&server, line, tmp.path()).json();
    let settings = &summary["settings"];
    assert_eq!(
        (&settings["index"], &settings["strategy"], &settings["decode"]),
        (&"photos.csv".into(), &"shuffle".into(), &"image".into())
    );
    assert_eq!(
        (settings["loader"]["num_workers"].as_u64(), settings["cache"]["download_concurrency"].as_u64()),
        (Some(3), Some(9))
    );
    assert_eq!((number(&summary, "samples"), number(&summary, "batches")), (400, 8));
    assert_eq!((number(&summary, "requests"), number(&summary, "retries")), (200, 0));
    assert_eq!((number(&summary, "objects_downloaded"), number(&summary, "failed_samples")), (200, 0));
    assert_eq!(number(&summary, "cache_hits") + number(&summary, "cache_misses"), 400);
    assert_eq!(number(&summary, "bytes_downloaded"), server.counts().bytes);
    for name in ["seconds", "samples_per_second", "batches_per_second", "bytes_per_second", "hit_ratio"] {
        assert!(summary[name].as_f64().is_some_and(|value| value.is_finite() && 0.0 < value), "{name}: {summary}");
    }
    let latency = &summary["batch_latency_ms"];
    let [mean, p50, p95, p99, max] = ["mean", "p50", "p95", "p99", "max"].map(|name| latency[name].as_f64().unwrap());
    assert!(p50 <= p95 && p95 <= p99 && p99 <= max && mean <= max, "{latency}");
    // The first batch waits for the store, so the mean of eight waits is at least an eighth of its latency.
    assert!(30.0 / 8.0 <= mean && 30.0 <= summary["first_batch_ms"].as_f64().unwrap(), "{summary}");
    let stalls = summary["stalls"].as_array().unwrap();
    let stalled: f64 = stalls.iter().map(|stall| stall["seconds"].as_f64().unwrap()).sum();
    assert!((stalled - summary["stalled_seconds"].as_f64().unwrap()).abs() < 1e-6, "{summary}");
    assert!(!summary["verdict"]["bound_by"].as_str().unwrap().is_empty(), "{summary}");
    let counts = server.counts();
    assert_eq!(counts.by_path.len(), 200);
    assert!(counts.by_path.values().all(|&n| n == 1), "{counts:?}");
    // The temporary cache is gone.
    assert_eq!(entries(tmp.path()), ["photos.csv"]);
}

#[test]
fn a_person_gets_a_page_with_a_verdict() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    photographs(&server, tmp.path(), 70);
    let page = planfetch(&server, "speedtest photos.csv --decode none", tmp.path()).stdout();
    for name in
        ["time  ", "samples  ", "batches  ", "first batch  ", "batch latency  mean ", "downloaded  ", "requests  "]
    {
        assert!(page.lines().any(|line| line.starts_with(name)), "no {name}: {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 120), "{page}");
    let (_, verdict) = page.split_once("\nverdict: bound by ").unwrap();
    assert!(verdict.contains("training steps (batches of 64) of ") && verdict.contains("--step-ms tries it"), "{page}");
}

#[test]
fn an_index_in_the_store_a_part_of_it_and_other_columns() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 30).replace("s3_uri,label", "where,what");
    server.put("photos", "index.csv", csv.as_bytes());
    let line = "speedtest s3://photos/index.csv --s3-uri-col where --class-col what --offset 10 -n 5 --decode none \
                --strategy sequential --batch-size 2 --cache-dir cache --json";
    let summary = planfetch(&server, line, tmp.path()).json();
    assert_eq!(number(&summary, "samples"), 5);
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
    assert!(tmp.path().join("cache/CACHEDIR.TAG").exists());
}

#[test]
fn a_share_of_the_rows_is_the_same_in_every_run() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    photographs(&server, tmp.path(), 50);
    let run = |seed: u64| {
        server.reset_counts();
        let line = format!("speedtest photos.csv --sample-frac 0.2 --seed {seed} --decode none --json");
        assert_eq!(number(&planfetch(&server, &line, tmp.path()).json(), "samples"), 10);
        server.counts().by_path.into_keys().collect::<Vec<_>>()
    };
    let first = run(0);
    assert_eq!(first.len(), 10);
    assert_eq!(first, run(1));
}

#[test]
fn folders_prefixes_parquet_and_saved_indexes_are_the_same_data() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 12);
    std::fs::write(tmp.path().join("photos.csv"), &csv).unwrap();
    for class in 0..4 {
        std::fs::create_dir_all(tmp.path().join(format!("folder/class_{class}"))).unwrap();
    }
    for (i, seed) in (0..12_u64).enumerate() {
        let bytes = fixtures::jpeg(&fixtures::photograph(50, 40, seed));
        std::fs::write(tmp.path().join(format!("folder/class_{}/{i:06}.jpg", i % 4)), bytes).unwrap();
    }
    std::fs::write(tmp.path().join("folder/class_0/notes.txt"), "not a photograph").unwrap();
    std::fs::write(tmp.path().join("folder/paths.csv"), "s3_uri,label\nclass_0/000000.jpg,0\nclass_1/000001.jpg,1\n")
        .unwrap();
    for name in ["photos.parquet", "photos.index"] {
        planfetch(&server, &format!("index photos.csv --out {name}"), tmp.path()).stdout();
        let bytes = std::fs::read(tmp.path().join(name)).unwrap();
        server.put("indexes", name, &bytes);
    }
    for (index, samples) in [
        ("photos.csv", 12),
        ("photos.parquet", 12),
        ("photos.index", 12),
        ("s3://indexes/photos.parquet", 12),
        ("s3://indexes/photos.index", 12),
        ("s3://photos/", 12),
        ("s3://photos", 12),
        ("folder --extensions jpg", 12),
        // Paths in an index are relative to it.
        ("folder/paths.csv", 2),
    ] {
        let ran = planfetch(&server, &format!("speedtest {index} --image-size 16 --json"), tmp.path());
        assert_eq!(number(&ran.json(), "samples"), samples, "{index}");
    }
}

#[test]
fn buckets_of_one_name_on_two_servers_are_not_taken_for_one_another() {
    let (tmp, one, two) = (tempfile::tempdir().unwrap(), S3Server::start(), S3Server::start());
    photographs(&one, tmp.path(), 10);
    let _ = fixtures::put_photographs(&two, "photos", 10);
    let line = "speedtest photos.csv --decode none --cache-dir cache";
    // The endpoint comes from the environment.
    for server in [&one, &two, &one] {
        planfetch(server, line, tmp.path()).stdout();
    }
    // What was in the window at the end stays on disk, and is what the third run finds.
    assert_eq!((one.counts().requests, two.counts().requests), (10, 10));
    // An option wins over every variable.
    two.reset_counts();
    planfetch(&one, &format!("{line} --endpoint {}", two.endpoint()), tmp.path()).stdout();
    assert_eq!((one.counts().requests, two.counts().requests), (10, 0));
}

#[test]
fn every_strategy_loads_what_its_plan_holds() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    photographs(&server, tmp.path(), 42);
    for (strategy, samples) in [("shuffle", 42), ("sequential", 42), ("stratified", 42), ("balanced", 40)] {
        let line = format!("speedtest photos.csv --strategy {strategy} --batch-size 8 --decode none --json");
        assert_eq!(number(&planfetch(&server, &line, tmp.path()).json(), "samples"), samples, "{strategy}");
    }
}

#[test]
fn a_rank_loads_its_part_alone() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    photographs(&server, tmp.path(), 42);
    let line = |options: &str| format!("speedtest photos.csv --batch-size 8 --decode none --json {options}");
    // Four of eight slots in five steps, and of the last two, one.
    for (options, samples) in [("--world 0/2", 21), ("--world 2/3 --remainder keep", 16), ("--world 2/3", 10)] {
        server.reset_counts();
        assert_eq!(number(&planfetch(&server, &line(options), tmp.path()).json(), "samples"), samples, "{options}");
        assert_eq!(server.counts().requests, samples, "{options}");
    }
}

#[test]
fn every_way_to_keep_files_works_within_its_limit() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    for i in 0..60 {
        server.put("data", &format!("{}/{i:03}", i % 3), &[7; 1_000]);
    }
    for options in [
        "--prune-mode window",
        "--prune-mode pressure",
        "--prune-mode clairvoyant",
        "--prune-backend scan",
        "--prune-backend scan --prune-mode pressure",
        "--max-bytes unlimited",
        "--max-bytes free:0.1%",
        "--max-bytes 20kB --prune-mode pressure",
        "--batches-ahead auto",
        "--batches-ahead 2 --batches-back 1 --prune-every 1",
        "--download-threads 2 --s3-pool-connections 2",
        "--num-workers 3 --prefetch-factor 2",
    ] {
        let line =
            format!("speedtest s3://data/ --decode none --batch-size 7 --epochs 2 --json --cache-dir cache {options}");
        let summary = planfetch(&server, &line, tmp.path()).json();
        assert_eq!(number(&summary, "samples"), 120, "{options}");
        let left = local("cache stat cache --json", tmp.path()).json();
        if options.contains("20kB") {
            assert!(number(&left, "bytes") <= 20_000, "{left}");
        }
        local("cache clear cache", tmp.path()).stdout();
    }
    server.reset_counts();
    let line = "speedtest s3://data/ --decode none --batch-size 4 --download-threads 1 --json";
    planfetch(&server, line, tmp.path()).json();
    assert_eq!(server.counts().most_at_once, 1);
}

#[test]
fn steps_that_take_long_bind_the_run() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    for i in 0..20 {
        server.put("data", &format!("a/{i:03}"), &[7; 100]);
    }
    // 400 ms for four objects is long enough on a machine that does nothing else for seconds.
    let line = "speedtest s3://data/ --decode none --batch-size 4 --step-ms 400 --json";
    let summary = planfetch(&server, line, tmp.path()).json();
    assert!(5.0 * 0.4 <= summary["seconds"].as_f64().unwrap(), "{summary}");
    let meaning = summary["verdict"]["meaning"].as_str().unwrap();
    assert!(meaning.starts_with("steps of 400 ms "), "{meaning}");
    assert!(summary["verdict"]["keeps_up_with_step_ms"].is_null(), "{summary}");
}

#[test]
fn each_mistake_is_said_in_words() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    photographs(&server, tmp.path(), 3);
    for (name, text) in [
        ("row.csv", "s3_uri,label\ns3://photos/a,\n"),
        ("path.csv", "s3_uri,label\nphotos/a,1\n"),
        ("key.csv", "s3_uri,label\ns3://photos/gone.jpg,1\n"),
    ] {
        std::fs::write(tmp.path().join(name), text).unwrap();
    }
    for (line, code, expected) in [
        ("photos.csv --class-col lable", 1, "has no column \"lable\"; its columns are [\"s3_uri\", \"label\"]"),
        ("photos.csv --class-col lable", 1, "hint: --class-col NAME says which column holds the labels"),
        ("row.csv", 1, "row.csv: row 1 (line 2), column \"label\": \"\" is empty"),
        ("path.csv", 1, "photos/a: there is no object with this key"),
        ("key.csv", 1, "s3://photos/gone.jpg: there is no object with this key"),
        ("key.csv", 1, "hint: planfetch index --check finds all objects"),
        ("/nowhere.csv", 1, "can't read the index /nowhere.csv"),
        ("s3://photos/nowhere.csv", 1, "can't get the index: s3://photos/nowhere.csv: there is no object"),
        ("s3://photos/nowhere/", 1, "s3://photos/nowhere/ holds no samples"),
        ("photos.csv --batch-size 0", 2, "batch_size is 0, but must lie in 1..="),
        ("photos.csv --offset 7", 2, "--offset 7 and --limit (none) leave no row of the 3 in "),
        ("photos.csv --image-size 0", 2, "height is 0, but must lie in 1..=65535"),
    ] {
        let error = planfetch(&server, &format!("speedtest {line}"), tmp.path()).failure(code);
        assert!(error.contains("error: ") && error.contains(expected), "{line}: {error}");
    }
    let leftovers = entries(tmp.path());
    assert!(leftovers.iter().all(|name| name.ends_with(".csv")), "{leftovers:?}");
}
