//! A directory looked at from outside.

use std::fs;

use planfetch_cache::{CacheErrorKind, CacheInspector, CacheSettings, DirectoryUsers, PruneBackend};
use planfetch_testkit::S3Server;

use crate::support::{builder, content, files, objects, open, read};

#[test]
fn what_lies_in_a_directory_is_told_while_a_process_has_it_for_itself() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    for (key, len) in [("a", 100), ("b", 3_000)] {
        server.put("data", key, &content(1, len));
    }
    let cache = open(dir.path(), &server);
    for key in ["a", "b"] {
        drop(cache.ensure_local(&format!("s3://data/{key}")).unwrap());
    }
    let before = files(dir.path());
    let usage = CacheInspector::new(dir.path().join("cache")).unwrap().usage().unwrap();
    assert_eq!((usage.files, usage.bytes, usage.largest, usage.under_way), (2, 3_100, 3_000, 0));
    assert!(usage.oldest_use.is_some());
    assert_eq!(usage.users, DirectoryUsers::One { process: std::process::id() });
    drop(cache);
    let inspector = CacheInspector::new(dir.path().join("cache")).unwrap();
    assert_eq!(inspector.usage().unwrap().users, DirectoryUsers::Nobody);
    assert_eq!(files(dir.path()), before);
}

#[test]
#[cfg(target_os = "linux")]
fn who_uses_a_directory_is_told_while_other_locks_come_and_go() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let cache = open(dir.path(), &server);
    let inspector = CacheInspector::new(dir.path().join("cache")).unwrap();
    let others = ["a", "b", "c", "d"].map(|name| fs::File::create(dir.path().join(name)).unwrap());
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for other in &others {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    other.lock().unwrap();
                    other.unlock().unwrap();
                }
            });
        }
        let users: Vec<_> = (0..1_000).map(|_| inspector.usage().unwrap().users).collect();
        ended.store(true, Ordering::Relaxed);
        assert!(users.iter().all(|users| *users == DirectoryUsers::One { process: std::process::id() }));
    });
    drop(cache);
}

#[test]
fn damaged_files_are_found_and_deleted_beside_a_job_that_fetches_them_anew() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let settings = CacheSettings { prune_backend: PruneBackend::Scan, ..CacheSettings::default() };
    let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
    let uri = |i: u64| format!("s3://data/{i}");
    for i in 0..40 {
        server.put("data", &i.to_string(), &content(i, 1_000 + i as usize));
        drop(cache.ensure_local(&uri(i)).unwrap());
    }
    let inspector = CacheInspector::new(dir.path().join("cache")).unwrap();
    assert_eq!(inspector.usage().unwrap().users, DirectoryUsers::Shared { processes: vec![std::process::id()] });
    assert!(inspector.damaged_files(3, |_| true).unwrap().is_empty());

    let victims = [&objects(dir.path())[3], &objects(dir.path())[17]].map(Clone::clone);
    fs::write(&victims[0], b"short").unwrap();
    let mut bytes = fs::read(&victims[1]).unwrap();
    bytes[500] ^= 4;
    fs::write(&victims[1], bytes).unwrap();
    let damaged = inspector.damaged_files(3, |_| true).unwrap();
    let paths: Vec<_> = damaged.iter().map(|file| inspector.dir().join(&file.path)).collect();
    assert_eq!(paths, victims.clone().map(|path| path.canonicalize().unwrap()));
    assert_eq!(damaged[0].problem, "it has 5 bytes");
    assert_eq!(damaged[1].problem, "its checksum is another");
    assert_eq!(inspector.delete_damaged(&damaged).unwrap(), 2);
    assert!(victims.iter().all(|path| !path.exists()));

    server.reset_counts();
    for i in 0..40 {
        assert_eq!(read(&cache.ensure_local(&uri(i)).unwrap()), content(i, 1_000 + i as usize));
    }
    assert_eq!(server.counts().requests, 2);
}

#[test]
fn the_search_ends_when_nobody_wants_more() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let cache = open(dir.path(), &server);
    for key in ["a", "b", "c"] {
        server.put("data", key, b"bytes");
        drop(cache.ensure_local(&format!("s3://data/{key}")).unwrap());
    }
    let seen = std::sync::atomic::AtomicUsize::new(0);
    let inspector = CacheInspector::new(dir.path().join("cache")).unwrap();
    let stop_at_once = |_| {
        seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        false
    };
    assert!(inspector.damaged_files(1, stop_at_once).unwrap().is_empty());
    assert_eq!(seen.into_inner(), 1);
}

#[test]
fn what_is_no_cache_directory_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    for (name, file) in [("none", None), ("empty", Some(None)), ("other", Some(Some("thesis.tex")))] {
        let path = dir.path().join(name);
        if let Some(file) = file {
            fs::create_dir(&path).unwrap();
            file.iter().for_each(|file| fs::write(path.join(file), "x").unwrap());
        }
        let error = CacheInspector::new(&path).unwrap_err();
        assert_eq!(error.kind(), CacheErrorKind::Directory, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(path.exists(), file.is_some());
    }
    assert_eq!(files(dir.path()).len(), 1);
}
