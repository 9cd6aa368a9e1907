//! Processes that end in the middle, by a signal or by themselves, leave nothing behind that holds up the next run.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use planfetch::prelude::*;
use planfetch_testkit::{Fault, FaultRule, S3Server, eventually, pause};

use crate::support::{Sums, open, planned, put_objects, temp_files};

/// The variables by which a test tells its child what to do.
const DIR: &str = "PLANFETCH_TEST_CHILD_DIR";
const ENDPOINT: &str = "PLANFETCH_TEST_CHILD_ENDPOINT";

const OBJECTS: usize = 400;

fn provider() -> ShuffleOncePerEpochPlanProvider {
    ShuffleOncePerEpochPlanProvider::new(OBJECTS as u64, 8, 3).unwrap()
}

/// Starts this program again, to run one test, with the objects of `server`.
fn start(test: &str, dir: &Path, server: &S3Server) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(DIR, dir).env(ENDPOINT, server.endpoint());
    command.stdout(Stdio::piped()).spawn().unwrap()
}

type Loader = PrefetchingLoader<Vec<(u64, u64)>>;

/// The loader of a child, whose objects are those that `put_objects` puts in place.
fn load(concurrency: usize) -> Option<(Loader, DiskCache)> {
    let (dir, endpoint) = (std::env::var(DIR).ok()?, std::env::var(ENDPOINT).ok()?);
    let settings = StoreSettings {
        endpoint: Some(endpoint),
        access_key_id: Some(planfetch_testkit::ACCESS_KEY.into()),
        secret_access_key: Some(planfetch_testkit::SECRET_KEY.into()),
        ..StoreSettings::default()
    };
    let cache = DiskCache::builder(Path::new(&dir).join("cache"))
        .with_settings(CacheSettings { download_concurrency: concurrency, ..CacheSettings::default() })
        .with_store_settings(settings)
        .build()
        .unwrap();
    let uri = |i| format!("s3://objects/{:02}/{i:05}.bin", i % 7);
    let index = SampleIndex::from_rows((0..OBJECTS).map(|i| (uri(i), 0))).unwrap();
    let mut builder = LoaderBuilder::new(Sums(index), VecCollate, provider()).with_cache(cache.clone());
    if let Ok(text) = std::fs::read_to_string(Path::new(&dir).join("state.json")) {
        builder = builder.with_state(&serde_json::from_str(&text).unwrap());
    }
    Some((builder.build().unwrap().0, cache))
}

#[expect(clippy::print_stdout, reason = "a child tells its parent so")]
fn say(text: &str) {
    println!("{text}");
    std::io::stdout().flush().unwrap();
}

/// Waits for a line of the child that begins with `word`, and returns the rest of it.
fn hear(lines: &mut impl Iterator<Item = std::io::Result<String>>, word: &str) -> String {
    let found = lines.find_map(|line| line.unwrap().strip_prefix(word).map(str::to_owned));
    found.unwrap_or_else(|| panic!("the child ended without saying {word}"))
}

/// Trains, slowly, until a signal kills it.
#[test]
fn training_process() {
    let Some((mut loader, _cache)) = load(64) else { return };
    for batch in &mut loader {
        say(&format!("took {}", batch.unwrap().step()));
        pause(Duration::from_millis(20));
    }
}

/// Trains, slowly, and ends at SIGINT of its own accord, with a checkpoint.
#[test]
fn training_process_with_a_handler() {
    let Some((mut loader, cache)) = load(64) else { return };
    let interrupted = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&interrupted);
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).unwrap();
            ready.send(()).unwrap();
            signal.recv().await;
            seen.store(true, Ordering::Relaxed);
        });
    });
    is_ready.recv().unwrap();
    for batch in loader.epoch(0).unwrap() {
        let ids: Vec<String> = batch.unwrap().ids().iter().map(|id| id.0.to_string()).collect();
        say(&format!("took {}", ids.join(" ")));
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        pause(Duration::from_millis(20));
    }
    let dir = std::env::var(DIR).unwrap();
    std::fs::write(Path::new(&dir).join("state.json"), serde_json::to_string(&loader.state()).unwrap()).unwrap();
    let started = Instant::now();
    drop(loader);
    drop(cache);
    say(&format!("ended {}", started.elapsed().as_millis()));
}

/// Asks for 256 objects of a store that does not answer, and then ends.
#[test]
fn hanging_process() {
    let Some((loader, cache)) = load(256) else { return };
    say("started");
    // Until the parent has seen all requests.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let started = Instant::now();
    drop(loader);
    drop(cache);
    let ended = started.elapsed().as_millis();
    let names = std::fs::read_dir("/proc/self/task").unwrap();
    let names = names.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    let left: Vec<String> = names.filter(|name| name.starts_with("planfetch")).map(|name| name.trim().into()).collect();
    say(&format!("ended {ended} {}", left.join(",")));
}

fn interrupt(child: &Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

/// Checks that a run on the directory works, and has no file that a dead process has left.
fn check_next_run(dir: &Path, server: &S3Server, index: SampleIndex) {
    server.clear_faults();
    let cache = open(dir, server);
    assert!(temp_files(cache.dir()).is_empty());
    let settings = LoaderSettings { num_epochs: Some(1), ..LoaderSettings::default() };
    let (mut loader, _) =
        build_prefetching_loader(Sums(index), VecCollate, provider(), cache.clone(), settings).unwrap();
    let ids: Vec<_> = (&mut loader).map(|batch| batch.unwrap().ids().to_vec()).collect();
    assert_eq!(ids, planned(&provider(), 0));
    assert_eq!(cache.stats().corrupt_files, 0);
}

#[test]
fn ctrl_c_kills_a_run_at_once_and_the_next_one_on_the_same_cache_works() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, OBJECTS);
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(30))));
    let mut child = start("shutdown::training_process", dir.path(), &server);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    hear(&mut lines, "took 2");
    interrupt(&child);
    let started = Instant::now();
    let status = child.wait().unwrap();
    assert!(!status.success());
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    check_next_run(dir.path(), &server, index);
}

#[test]
fn a_loop_that_ctrl_c_ends_by_a_handler_is_resumed_without_loss_or_repetition() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, OBJECTS);
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(5))));
    let mut taken: Vec<u64> = Vec::new();
    for is_last in [false, false, true] {
        let mut child = start("shutdown::training_process_with_a_handler", dir.path(), &server);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut numbers = |text: String| taken.extend(text.split_whitespace().map(|id| id.parse::<u64>().unwrap()));
        for _ in 0..3 {
            numbers(hear(&mut lines, "took "));
        }
        if !is_last {
            interrupt(&child);
        }
        for line in lines {
            let line = line.unwrap();
            if let Some(ids) = line.strip_prefix("took ") {
                numbers(ids.to_owned());
            } else if let Some(millis) = line.strip_prefix("ended ") {
                assert!(millis.parse::<u64>().unwrap() < 1_000, "{millis} ms");
            }
        }
        assert!(child.wait().unwrap().success());
        assert!(temp_files(&dir.path().join("cache")).is_empty());
    }
    assert_eq!(taken, planned(&provider(), 0).concat().iter().map(|id| id.0).collect::<Vec<_>>());
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), OBJECTS);
    check_next_run(dir.path(), &server, index);
}

#[test]
fn with_256_requests_that_hang_all_threads_are_gone_within_a_second() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, OBJECTS);
    server.inject(FaultRule::always(Fault::Latency(Duration::from_secs(3_600))));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "shutdown::hanging_process", "--nocapture"]);
    command.env(DIR, dir.path()).env(ENDPOINT, server.endpoint()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    hear(&mut lines, "started");
    eventually("256 requests hang", || 256 <= server.counts().most_at_once);
    writeln!(child.stdin.take().unwrap(), "end").unwrap();
    let said = hear(&mut lines, "ended ");
    let (millis, left) = said.split_once(' ').unwrap();
    assert!(millis.parse::<u64>().unwrap() < 1_000, "{millis} ms");
    assert_eq!(left, "", "threads are left");
    assert!(child.wait().unwrap().success());
    assert!(temp_files(&dir.path().join("cache")).is_empty());
    check_next_run(dir.path(), &server, index);
}
