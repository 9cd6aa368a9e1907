//! Several processes on one directory, and processes that are killed.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use planfetch_cache::{CacheLimit, CacheSettings, DiskCache, EvictionMode, PrefetchGuard, PruneBackend, StoreSettings};
use planfetch_testkit::{ACCESS_KEY, Fault, FaultRule, S3Server, SECRET_KEY, eventually, pause};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::support::{content, objects, read, temp_files};

const TASK: &str = "PLANFETCH_TEST_TASK";

/// What a child process does.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Task {
    dir: PathBuf,
    endpoint: String,
    settings: CacheSettings,
    work: Work,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
enum Work {
    /// Anything, for ever, as the seed says.
    Random { seed: u64, objects: u64 },
    /// Reads these objects in order, each `window` ahead, and evicts what is `window` behind.
    Read { ids: Vec<u64>, window: usize },
    /// Locks the count of the directory, says so by a file, and keeps it.
    HoldCount { says_so: PathBuf },
}

fn len(id: u64) -> usize {
    // From nothing to a few blocks of the disk, and now and then more than is kept in memory of one object.
    if id.is_multiple_of(97) { 9 << 20 } else { (id * 7_919 % 40_000) as usize }
}

fn uri(id: u64) -> String {
    format!("s3://data/{id}")
}

fn open(task: &Task) -> DiskCache {
    let stores = StoreSettings {
        endpoint: Some(task.endpoint.clone()),
        access_key_id: Some(ACCESS_KEY.into()),
        secret_access_key: Some(SECRET_KEY.into()),
        ..StoreSettings::default()
    };
    DiskCache::builder(&task.dir).with_settings(task.settings.clone()).with_store_settings(stores).build().unwrap()
}

/// What a child process runs; without a task there is nothing to do.
#[test]
fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let task: Task = serde_json::from_str(&task).unwrap();
    let cache = open(&task);
    match task.work {
        Work::Random { seed, objects } => at_random(&cache, seed, objects, u64::MAX),
        Work::Read { ids, window } => read_in_order(&cache, &ids, window),
        Work::HoldCount { says_so } => hold_count(&cache, &says_so),
    }
}

fn open_count(folder: &Path) -> std::io::Result<fs::File> {
    fs::File::options().read(true).write(true).open(folder.join("cache/usage"))
}

/// How many bytes and files are counted, and how many there are, while nobody changes either. What is under way has the
/// length in its name that it will have.
fn counted_and_there(count: &fs::File, folder: &Path) -> ((u64, u64), (u64, u64)) {
    let len = |path: &PathBuf| match path.file_name().unwrap().to_str().unwrap().strip_prefix(".tmp-") {
        Some(name) => u64::from_str_radix(name.split('-').nth(1).unwrap(), 16).unwrap(),
        None => path.metadata().unwrap().len(),
    };
    rustix::fs::fcntl_lock(count, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut number = [0; 16];
    let counted = count.read_exact_at(&mut number, 0);
    let files = objects(folder);
    let there = (files.iter().map(len).sum::<u64>(), files.len() as u64);
    rustix::fs::fcntl_lock(count, rustix::fs::FlockOperation::Unlock).unwrap();
    // Nothing is counted before the first has been.
    let number = counted.map_or(0, |()| u128::from_le_bytes(number));
    ((number as u64, (number >> 64) as u64), there)
}

fn hold_count(cache: &DiskCache, says_so: &Path) {
    let count = open_count(cache.dir().parent().unwrap()).unwrap();
    rustix::fs::fcntl_lock(&count, rustix::fs::FlockOperation::LockExclusive).unwrap();
    fs::write(says_so, b"").unwrap();
    pause(Duration::from_secs(600));
}

fn at_random(cache: &DiskCache, seed: u64, objects: u64, steps: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut guards = Vec::new();
    let mut files = Vec::new();
    for _ in 0..steps {
        let id = rng.next_u64() % objects;
        match rng.next_u32() % 8 {
            0 | 1 => {
                let ids = (0..rng.next_u64() % 10).map(|i| uri((id + i) % objects));
                guards.extend(cache.prefetch_all(ids, (rng.next_u32() % 3) as i32).unwrap());
            }
            2 => PrefetchGuard::evict_all(guards.drain(..guards.len() / 2)),
            3 => cache.invalidate(&uri(id)).unwrap(),
            4 => files.clear(),
            5 if 100 < len(id) => {
                let file = cache.ensure_local_range(&uri(id), 10..90).unwrap();
                assert!(read(&file) == content(id, len(id))[10..90], "seed {seed}: a part of {id} is wrong");
            }
            _ => {
                let file = cache.ensure_local(&uri(id)).unwrap();
                assert!(read(&file) == content(id, len(id)), "seed {seed}: {id} is wrong");
                files.push(file);
            }
        }
    }
}

fn read_in_order(cache: &DiskCache, ids: &[u64], window: usize) {
    let mut guards: std::collections::VecDeque<PrefetchGuard> = std::collections::VecDeque::new();
    let mut ahead = ids.iter();
    guards.extend(ahead.by_ref().take(window).map(|id| cache.prefetch(&uri(*id)).unwrap()));
    for (i, id) in ids.iter().enumerate() {
        assert!(read(&cache.ensure_local(&uri(*id)).unwrap()) == content(*id, len(*id)), "{id} is wrong");
        guards.extend(ahead.next().map(|id| cache.prefetch(&uri(*id)).unwrap()));
        if window <= i {
            guards.pop_front().unwrap().evict();
        }
    }
    PrefetchGuard::evict_all(guards);
}

fn start(task: &Task) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::child", "--nocapture", "--test-threads=1"])
        .env(TASK, serde_json::to_string(task).unwrap())
        .env_remove("NEXTEST_EXECUTION_MODE")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for a child that ends by itself.
#[track_caller]
fn succeed(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Kills a child, which must not have ended by itself.
fn kill(mut child: Child, seed: u64) {
    let ended = child.try_wait().unwrap();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        ended.is_none(),
        "seed {seed}: a child ended by itself: {}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn signal(child: &Child, signal: Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

fn serve(objects: u64) -> S3Server {
    let server = S3Server::start_in_memory();
    (0..objects).for_each(|id| server.put("data", &id.to_string(), &content(id, len(id))));
    server
}

/// Damages files as a failing disk, or a careless user, does. Returns files that are not the cache's.
fn damage(dir: &Path, rng: &mut ChaCha8Rng) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| bytes != b"mine");
    let files: Vec<PathBuf> = objects(dir.parent().unwrap()).into_iter().filter(is_ours).collect();
    for path in &files {
        let Ok(mut bytes) = fs::read(path) else { continue };
        match rng.next_u32() % 20 {
            0 => bytes.truncate(bytes.len() / 2),
            1 if !bytes.is_empty() => {
                let at = rng.next_u64() as usize % bytes.len();
                bytes[at] ^= 1 << (rng.next_u32() % 8);
            }
            2 => {
                fs::remove_file(path).unwrap();
                continue;
            }
            _ => continue,
        }
        fs::write(path, bytes).unwrap();
    }
    let mut foreign = vec![dir.join(format!("foreign-{}", rng.next_u32()))];
    let folder = files.first().and_then(|path| path.parent());
    // Names that look like the cache's at first sight.
    for name in ["foreign-", ".tmp-aé", ".tmp-+f+f+f+f+f+f+f+f+f+f+f+f+f+f+f+f+f+f+f+f", "é"] {
        foreign.extend(folder.map(|folder| folder.join(format!("{name}{:040x}", rng.next_u32()))));
    }
    foreign.iter().for_each(|path| fs::write(path, b"mine").unwrap());
    foreign
}

/// Kills processes at random moments, and looks at what they leave.
fn restart(rounds: u64, first_seed: u64) {
    const OBJECTS: u64 = 120;
    let server = serve(OBJECTS);
    server.inject(FaultRule::every(13, Fault::CutBody(5_000)));
    server.inject(FaultRule::every(5, Fault::Latency(Duration::from_millis(5))));
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        let folder = tempfile::tempdir().unwrap();
        let mut foreign: Vec<PathBuf> = Vec::new();
        let dir = folder.path().join("cache");
        for round in 0..rounds / 2 {
            let seed = first_seed + round;
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mode = [EvictionMode::Window, EvictionMode::Pressure][rng.next_u32() as usize % 2];
            let limit = 300_000 + rng.next_u64() % 30_000_000;
            let settings = CacheSettings {
                eviction: mode,
                prune_backend: backend,
                limit: CacheLimit::TotalSize(limit),
                write_concurrency: 1 + rng.next_u32() as usize % 3,
                download_concurrency: 1 + rng.next_u32() as usize % 16,
                initial_backoff: Duration::from_millis(5),
                ..CacheSettings::default()
            };
            println!("{backend:?}, seed {seed}: {mode}, limit {limit}");
            let task = |n: u64| Task {
                dir: dir.clone(),
                endpoint: server.endpoint(),
                settings: settings.clone(),
                work: Work::Random { seed: seed * 10 + n, objects: OBJECTS },
            };
            let processes = if backend == PruneBackend::Scan { 1 + rng.next_u64() % 3 } else { 1 };
            let children: Vec<Child> = (0..processes).map(|n| start(&task(n))).collect();
            pause(Duration::from_millis(20 + rng.next_u64() % 300));
            children.into_iter().for_each(|child| kill(child, seed));
            foreign.extend(dir.is_dir().then(|| damage(&dir, &mut rng)).into_iter().flatten());

            let cache = open(&task(9));
            let left: Vec<_> = temp_files(folder.path()).into_iter().filter(|path| !foreign.contains(path)).collect();
            assert_eq!(left, Vec::<PathBuf>::new(), "seed {seed}");
            for i in 0..20 {
                let id = (seed * 31 + i * 7) % OBJECTS;
                let file = cache.ensure_local(&uri(id)).unwrap();
                assert!(read(&file) == content(id, len(id)), "seed {seed}: {id} is wrong");
            }
            let ours = objects(folder.path()).into_iter().filter(|path| !foreign.contains(path));
            let bytes: u64 = ours.filter_map(|path| path.metadata().ok()).map(|metadata| metadata.len()).sum();
            assert!(bytes <= limit, "seed {seed}: {bytes} bytes of {limit}");
            assert!(foreign.iter().all(|path| fs::read(path).unwrap() == b"mine"), "seed {seed}: a foreign file");
        }
    }
}

/// For longer: `PLANFETCH_TEST_KILLS=500 cargo nextest run -p planfetch-cache -E 'test(killed_processes)'`.
#[test]
fn a_directory_that_killed_processes_leave_is_taken_up_again() {
    let kills = std::env::var("PLANFETCH_TEST_KILLS").ok();
    restart(kills.map_or(40, |kills| kills.parse().unwrap()), 1);
}

fn shared_settings(limit: u64) -> CacheSettings {
    CacheSettings {
        prune_backend: PruneBackend::Scan,
        limit: CacheLimit::TotalSize(limit),
        initial_backoff: Duration::from_millis(5),
        ..CacheSettings::default()
    }
}

#[test]
fn processes_that_share_a_directory_download_each_object_once() {
    for processes in [2_u64, 8] {
        let (folder, server) = (tempfile::tempdir().unwrap(), serve(96));
        server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(10))));
        let children: Vec<Child> = (0..processes)
            .map(|n| {
                // All of them want everything, each beginning elsewhere.
                let ids = (0..96).map(|i| (i + n * 17) % 96).collect();
                start(&Task {
                    dir: folder.path().join("cache"),
                    endpoint: server.endpoint(),
                    settings: CacheSettings { eviction: EvictionMode::Pressure, ..shared_settings(1 << 40) },
                    // Nothing is evicted: the window is as wide as the data.
                    work: Work::Read { ids, window: 96 },
                })
            })
            .collect();
        children.into_iter().for_each(succeed);
        let counts = server.counts();
        let twice: Vec<_> = counts.by_path.iter().filter(|(_, n)| 1 < **n).collect();
        // Who ends first may delete what another has not asked for yet; while it stays, nothing is fetched twice.
        assert!(
            counts.requests <= 96 + 96 * (processes - 1) / 4,
            "{processes} processes: {} requests, {twice:?}",
            counts.requests
        );
    }
}

#[test]
fn jobs_with_different_windows_leave_each_others_files_alone() {
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(90));
    let task = |ids: Vec<u64>, window| Task {
        dir: folder.path().join("cache"),
        endpoint: server.endpoint(),
        settings: shared_settings(1 << 40),
        work: Work::Read { ids, window },
    };
    let own = open(&task(Vec::new(), 0));
    let held: Vec<_> = (1..40).map(|id| (id, own.prefetch(&uri(id)).unwrap())).collect();
    let paths: Vec<_> = held.iter().map(|(id, _)| own.ensure_local(&uri(*id)).unwrap().path().unwrap()).collect();
    let children = [task((1..90).collect(), 5), task((1..90).rev().collect(), 11)].map(|task| start(&task));
    children.into_iter().for_each(succeed);
    assert!(paths.iter().all(|path| path.exists()), "what this process holds was deleted by another");
    assert!((1..40).all(|id| server.counts().by_path[&format!("/data/{id}")] == 1));
    drop(paths);
    PrefetchGuard::evict_all(held.into_iter().map(|(_, guard)| guard));
    eventually("the last one deletes", || objects(folder.path()).is_empty());
}

#[test]
fn a_limit_holds_for_all_processes_together() {
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(96));
    let limit = 400_000;
    let tasks = (0..4_u64).map(|n| Task {
        dir: folder.path().join("cache"),
        endpoint: server.endpoint(),
        settings: CacheSettings { eviction: EvictionMode::Pressure, ..shared_settings(limit) },
        work: Work::Read { ids: (0..300).map(|i| 1 + (i * 5 + n * 31) % 95).collect(), window: 4 },
    });
    let children: Vec<Child> = tasks.map(|task| start(&task)).collect();
    let watcher = std::thread::spawn({
        let folder = folder.path().to_path_buf();
        move || {
            let mut most = 0;
            for _ in 0..300 {
                if let Ok(count) = open_count(&folder) {
                    most = most.max(counted_and_there(&count, &folder).1.0);
                }
                pause(Duration::from_millis(3));
            }
            most
        }
    });
    children.into_iter().for_each(succeed);
    let most: u64 = watcher.join().unwrap();
    assert!(limit / 2 < most && most <= limit, "{most} bytes of {limit}");
}

#[test]
fn a_claim_of_a_process_that_was_killed_is_no_claim() {
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(3));
    server.inject(FaultRule::first(1, Fault::StallBody(10)));
    let task = Task {
        dir: folder.path().join("cache"),
        endpoint: server.endpoint(),
        settings: CacheSettings { progress_timeout: Duration::from_secs(600), ..shared_settings(1 << 40) },
        work: Work::Read { ids: vec![1], window: 1 },
    };
    let child = start(&task);
    eventually("the download hangs", || server.counts().requests == 1);
    let cache = open(&task);
    let (answer, answered) = std::sync::mpsc::channel();
    cache.ensure_local_then(&uri(1), move |file| answer.send(file.map(|file| read(&file))).unwrap());
    assert!(answered.recv_timeout(Duration::from_millis(300)).is_err(), "it was not waited for");
    kill(child, 0);
    let bytes = answered.recv_timeout(Duration::from_secs(5)).expect("an answer").unwrap();
    assert_eq!(bytes, content(1, len(1)));
}

#[test]
fn what_a_killed_process_was_writing_takes_no_room_from_those_that_go_on() {
    let (folder, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    (0..2).for_each(|id| server.put("data", &id.to_string(), &content(id, 20 << 20)));
    server.inject(FaultRule::always(Fault::StallBody(12 << 20)).on("/data/0"));
    let task = Task {
        dir: folder.path().join("cache"),
        endpoint: server.endpoint(),
        settings: CacheSettings { progress_timeout: Duration::from_secs(600), ..shared_settings(30 << 20) },
        work: Work::Read { ids: vec![0], window: 1 },
    };
    // It was there before the other, and so did not clear away behind it.
    let cache = open(&task);
    let child = start(&task);
    eventually("it writes", || temp_files(folder.path()).len() == 1);
    assert!(cache.ensure_local(&uri(1)).unwrap().path().is_none(), "the room is taken while it lives");
    kill(child, 0);
    cache.prune(0);
    assert_eq!((temp_files(folder.path()), cache.stats().local_files), (Vec::new(), 0));
    assert!(cache.ensure_local(&uri(1)).unwrap().path().is_some(), "there is room again");
}

#[test]
fn a_process_that_is_stopped_stops_no_other() {
    const OBJECTS: u64 = 30;
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(OBJECTS));
    server.inject(FaultRule::every(3, Fault::Latency(Duration::from_millis(30))));
    for seed in 0..6 {
        let task = Task {
            dir: folder.path().join("cache"),
            endpoint: server.endpoint(),
            settings: CacheSettings { progress_timeout: Duration::from_millis(200), ..shared_settings(400_000) },
            work: Work::Random { seed, objects: OBJECTS },
        };
        let cache = open(&task);
        let child = start(&task);
        let requests = server.counts().requests;
        eventually("it works", || requests + 5 < server.counts().requests);
        signal(&child, Signal::STOP);
        for id in 0..OBJECTS {
            assert!(read(&cache.ensure_local(&uri(id)).unwrap()) == content(id, len(id)), "{id} is wrong");
            assert!(!format!("{cache:?}").is_empty());
        }
        signal(&child, Signal::CONT);
        kill(child, seed);
    }
}

#[test]
fn what_a_stopped_process_was_to_bring_is_read_into_memory() {
    let (folder, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    (0..2).for_each(|id| server.put("data", &id.to_string(), &content(id, 20 << 20)));
    server.inject(FaultRule::first(1, Fault::StallBody(12 << 20)).on("/data/0"));
    let mut task = Task {
        dir: folder.path().join("cache"),
        endpoint: server.endpoint(),
        settings: CacheSettings { progress_timeout: Duration::from_secs(600), ..shared_settings(1 << 40) },
        work: Work::Read { ids: vec![0], window: 1 },
    };
    let child = start(&task);
    let objects = task.dir.join("objects");
    eventually("it writes", || objects.is_dir() && temp_files(folder.path()).len() == 1);
    signal(&child, Signal::STOP);
    task.settings.progress_timeout = Duration::from_millis(300);
    let cache = open(&task);
    let file = cache.ensure_local(&uri(0)).unwrap();
    assert!(file.path().is_none() && read(&file) == content(0, 20 << 20));
    assert!(cache.ensure_local(&uri(1)).unwrap().path().is_some(), "it has nothing to do with that one");
    signal(&child, Signal::CONT);
    kill(child, 0);
    assert!(cache.ensure_local(&uri(0)).unwrap().path().is_some(), "its claim ended with it");
}

#[test]
fn a_process_that_gets_on_slowly_is_waited_for() {
    let (folder, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    server.put("data", "0", &content(0, 64 << 20));
    // The whole takes twice as long as the other waits for a sign of life; what is written at once, a quarter of it.
    server.inject(FaultRule::always(Fault::SlowBody(1 << 20, Duration::from_millis(100))));
    let task = Task {
        dir: folder.path().join("cache"),
        endpoint: server.endpoint(),
        settings: CacheSettings {
            part_concurrency: 1,
            progress_timeout: Duration::from_secs(3),
            ..shared_settings(1 << 40)
        },
        work: Work::Read { ids: Vec::new(), window: 0 },
    };
    let (first, second) = (open(&task), open(&task));
    let guard = first.prefetch(&uri(0)).unwrap();
    eventually("it writes", || temp_files(folder.path()).len() == 1);
    assert!(second.ensure_local(&uri(0)).unwrap().path().is_some());
    assert_eq!(server.counts().requests, 1);
    drop(guard);
}

#[test]
fn a_process_that_is_stopped_with_the_count_locked_stops_no_other() {
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(8));
    let says_so = folder.path().join("locked");
    let task = Task {
        dir: folder.path().join("cache"),
        endpoint: server.endpoint(),
        settings: CacheSettings { progress_timeout: Duration::from_millis(300), ..shared_settings(1 << 40) },
        work: Work::HoldCount { says_so: says_so.clone() },
    };
    let cache = open(&task);
    drop(cache.ensure_local(&uri(1)).unwrap());
    let known = cache.stats();
    let child = start(&task);
    eventually("it has the lock", || says_so.exists());
    signal(&child, Signal::STOP);
    for id in 1..5 {
        let file = cache.ensure_local(&uri(id)).unwrap();
        assert!(read(&file) == content(id, len(id)));
        assert_eq!(file.path().is_some(), id == 1, "there is no room that could be taken");
    }
    assert_eq!((cache.stats().local_files, cache.stats().local_bytes), (known.local_files, known.local_bytes));
    assert!(!format!("{cache:?}").is_empty());
    // Who comes now gets on too, and who goes.
    let other = open(&task);
    assert!(read(&other.ensure_local(&uri(6)).unwrap()) == content(6, len(6)));
    drop(other);
    signal(&child, Signal::CONT);
    kill(child, 0);
    assert!(cache.ensure_local(&uri(5)).unwrap().path().is_some(), "it goes on as before");
}

#[test]
fn a_directory_is_shared_by_those_who_say_so_and_by_nobody_else() {
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(1));
    let builder = |backend| {
        let settings = CacheSettings { prune_backend: backend, ..CacheSettings::default() };
        DiskCache::builder(folder.path().join("cache"))
            .with_settings(settings)
            .with_store_settings(crate::support::credentials(&server))
    };
    let first = builder(PruneBackend::Scan).build().unwrap();
    let second = builder(PruneBackend::Scan).build().unwrap();
    let error = builder(PruneBackend::Meta).build().unwrap_err();
    assert!(error.to_string().contains("set the prune backend to scan in all processes"), "{error}");
    drop((first, second));
    let alone = builder(PruneBackend::Meta).build().unwrap();
    assert!(builder(PruneBackend::Scan).build().is_err());
    drop(alone);
}

#[test]
fn what_another_process_uses_is_not_invalidated_under_it() {
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(3));
    let task = Task {
        dir: folder.path().join("cache"),
        endpoint: server.endpoint(),
        settings: shared_settings(1 << 40),
        work: Work::Read { ids: Vec::new(), window: 0 },
    };
    // Two openings stand against each other as two processes do.
    let (a, b) = (open(&task), open(&task));
    let file = a.ensure_local(&uri(1)).unwrap();
    b.invalidate(&uri(1)).unwrap();
    a.invalidate(&uri(1)).unwrap();
    assert!(file.path().unwrap().exists());
    drop(file);
    eventually("nobody uses it", || {
        b.invalidate(&uri(1)).unwrap();
        !b.contains(&uri(1))
    });
    assert_eq!(b.stats().local_files, 0);
    drop(b.ensure_local(&uri(1)).unwrap());
    assert_eq!(server.counts().requests, 2);
}

#[test]
fn the_room_of_a_bad_file_is_given_back_once_however_many_find_it() {
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(5));
    let task = Task {
        dir: folder.path().join("cache"),
        endpoint: server.endpoint(),
        settings: shared_settings(1 << 40),
        work: Work::Read { ids: Vec::new(), window: 0 },
    };
    let caches = [open(&task), open(&task), open(&task)];
    let others: Vec<_> = (2..5).map(|id| caches[0].ensure_local(&uri(id)).unwrap()).collect();
    let files: Vec<_> = caches.iter().map(|cache| cache.ensure_local(&uri(1)).unwrap()).collect();
    fs::write(files[0].path().unwrap(), b"bad").unwrap();
    // What comes in its place has another name, since the object has changed.
    server.put("data", "1", &content(77, 12_345));
    for file in &files {
        assert!(read(file) == content(77, 12_345));
    }
    let bytes: u64 = objects(folder.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
    for cache in &caches {
        let counted = || (cache.stats().local_files, cache.stats().local_bytes);
        eventually("what is there is counted", || counted() == (4, bytes));
    }
    drop((files, others));
}

#[test]
fn opening_another_cache_forgets_no_room_that_the_first_has_taken() {
    let (folder, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    (0..4).for_each(|i| server.put("data", &i.to_string(), &content(i, 20 << 20)));
    // More than half of each has been written when they stall.
    server.inject(FaultRule::first(1, Fault::StallBody(12 << 20)));
    let task = Task {
        dir: folder.path().join("cache"),
        endpoint: server.endpoint(),
        settings: CacheSettings { progress_timeout: Duration::from_secs(600), ..shared_settings(50 << 20) },
        work: Work::Read { ids: Vec::new(), window: 0 },
    };
    let first = open(&task);
    let guards = first.prefetch_all((0..2).map(uri), 0).unwrap();
    eventually("room for two is taken", || first.stats().local_bytes == 40 << 20);
    let second = open(&task);
    assert_eq!(second.stats().local_bytes, 40 << 20);
    second.prune(0);
    assert_eq!(second.stats().local_bytes, 40 << 20);
    server.clear_faults();
    assert!(second.ensure_local(&uri(3)).unwrap().path().is_none(), "there is no room for a third");
    drop(guards);
}

/// Downloads that break off, are given up and begin anew, files that go and files that are bad, while others list the
/// directory all the time.
#[test]
fn the_count_of_a_directory_is_what_lies_in_it_whatever_has_happened() {
    let (folder, server) = (tempfile::tempdir().unwrap(), serve(40));
    server.inject(FaultRule::every(5, Fault::CutBody(3_000)));
    server.inject(FaultRule::every(7, Fault::Reset));
    let task = Task {
        dir: folder.path().join("cache"),
        endpoint: server.endpoint(),
        settings: CacheSettings { max_attempts: 1_000, ..shared_settings(1 << 40) },
        work: Work::Read { ids: Vec::new(), window: 0 },
    };
    let caches = [open(&task), open(&task), open(&task)];
    let count = open_count(folder.path()).unwrap();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|n| {
                let cache = &caches[n];
                scope.spawn(move || at_random(cache, n as u64, 40, 1_500))
            })
            .collect();
        while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            caches[2].prune(1 << 40);
            pause(Duration::from_millis(1));
            let (counted, there) = counted_and_there(&count, folder.path());
            assert_eq!(counted, there, "bytes and files counted, and there");
        }
    });
    assert!(temp_files(folder.path()).is_empty());
    assert_ne!(caches.iter().map(|cache| cache.stats().retries).sum::<u64>(), 0);
}

#[test]
fn what_a_runtime_that_has_ended_was_fetching_takes_no_room() {
    let (folder, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    server.put("data", "0", &content(0, 20 << 20));
    server.inject(FaultRule::first(1, Fault::StallBody(12 << 20)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let cache = crate::support::builder(folder.path(), &server)
        .with_settings(CacheSettings { progress_timeout: Duration::from_secs(600), ..shared_settings(50 << 20) })
        .with_io_runtime(runtime.handle().clone())
        .build()
        .unwrap();
    let guard = cache.prefetch(&uri(0)).unwrap();
    eventually("it writes", || temp_files(folder.path()).len() == 1);
    drop(runtime);
    let count = open_count(folder.path()).unwrap();
    eventually("it is given back", || counted_and_there(&count, folder.path()) == ((0, 0), (0, 0)));
    drop((guard, cache));
}
