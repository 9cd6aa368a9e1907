//! `planfetch cache`, alone and beside a job.

use std::path::{Path, PathBuf};

use planfetch_testkit::{S3Server, eventually};

use crate::support::{Ran, Running, command, entries, local, planfetch};

/// Fills `cache` with 30 objects of 1,000 bytes.
fn fill(server: &S3Server, dir: &Path) {
    for i in 0..30 {
        server.put("data", &format!("a/{i:03}"), &[i; 1_000]);
    }
    planfetch(server, "speedtest s3://data/ --decode none --prune-mode pressure --cache-dir cache", dir).stdout();
}

/// The files of objects.
fn objects(dir: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(dir.join("cache/objects")).unwrap().map(|folder| folder.unwrap().path());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Starts a job that takes one batch of ten, and keeps what comes after it local.
fn job(server: &S3Server, dir: &Path, backend: &str) -> Running {
    let line = format!(
        "speedtest s3://data/ --decode none --strategy sequential --batch-size 10 --batches-ahead 1 --batches-back 0 \
         --prune-mode pressure --prune-every 1 --step-ms 3600000 --cache-dir cache --prune-backend {backend} -v"
    );
    let mut job = Running::start(command(Some(server), line.split(' '), dir));
    job.until_samples();
    job
}

#[track_caller]
fn end(job: Running) -> Ran {
    job.signal("INT");
    job.end()
}

#[test]
fn what_a_directory_holds_is_told() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    fill(&server, tmp.path());
    let before = entries(&tmp.path().join("cache"));
    let stat = local("cache stat cache --json", tmp.path()).json();
    assert_eq!(stat["files"], 30);
    assert_eq!((stat["bytes"].as_u64(), stat["largest_bytes"].as_u64()), (Some(30_000), Some(1_000)));
    assert_eq!((stat["users"].as_str(), stat["under_way"].as_u64()), (Some("nobody"), Some(0)));
    let page = local("cache stat cache", tmp.path()).stdout();
    assert!(page.contains("objects     30, 30.0 kB") && page.contains("used by     nobody"), "{page}");
    assert_eq!(entries(&tmp.path().join("cache")), before, "looking leaves no trace");
}

#[test]
fn damaged_files_are_found_and_deleted_if_that_is_wanted() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    fill(&server, tmp.path());
    assert!(local("cache verify cache", tmp.path()).stdout().starts_with("30 files read, 0 damaged"));
    let victim = &objects(tmp.path())[11];
    let mut bytes = std::fs::read(victim).unwrap();
    bytes[77] ^= 1;
    std::fs::write(victim, bytes).unwrap();
    let ran = local("cache verify cache", tmp.path());
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains(victim.file_name().unwrap().to_str().unwrap()), "{ran:?}");
    assert!(ran.stderr.contains("found 1 file with damage; --delete deletes") && victim.exists(), "{ran:?}");
    let ran = local("cache verify cache --delete --threads 3 --json", tmp.path());
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, found["deleted"].as_u64(), victim.exists()), (3, Some(1), false));
    assert!(local("cache verify cache", tmp.path()).stdout().starts_with("29 files read, 0 damaged"));
}

#[test]
fn pruning_leaves_as_much_as_may_stay() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    fill(&server, tmp.path());
    let shrunk = local("cache prune cache --max-bytes 12.5kB --json", tmp.path()).json();
    assert_eq!((shrunk["files_deleted"].as_u64(), shrunk["files"].as_u64()), (Some(18), Some(12)));
    assert_eq!(objects(tmp.path()).len(), 12);
    let said = local("cache clear cache", tmp.path()).stdout();
    assert_eq!(said, "deleted 12 files, 12.0 kB; 0 files, 0 B are left\n");
    assert!(objects(tmp.path()).is_empty());
    // It still is a cache directory.
    fill(&server, tmp.path());
    assert_eq!(objects(tmp.path()).len(), 30);
}

#[test]
fn a_job_that_shares_its_directory_keeps_what_it_uses() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    fill(&server, tmp.path());
    let job = job(&server, tmp.path(), "scan");
    let stat = local("cache stat cache --json", tmp.path()).json();
    assert_eq!(stat["users"], "shared");
    assert_eq!(stat["processes"], serde_json::json!([job.id()]));
    assert!(local("cache verify cache", tmp.path()).stdout().contains("0 damaged"));
    // The batches ahead are kept; what else there was goes, as soon as the job has let go of it.
    eventually("what the job does not use goes", || {
        let ran = local("cache clear cache --json", tmp.path());
        assert!(ran.stderr.contains("the rest is in use"), "{ran:?}");
        ran.json()["files"].as_u64().unwrap() < 30
    });
    assert!(!objects(tmp.path()).is_empty());
    assert_eq!(end(job).code, 130);
    local("cache clear cache", tmp.path()).stdout();
    assert!(objects(tmp.path()).is_empty());
}

#[test]
fn a_job_that_has_its_directory_for_itself_is_left_alone() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    fill(&server, tmp.path());
    let job = job(&server, tmp.path(), "meta");
    let page = local("cache stat cache", tmp.path()).stdout();
    assert!(page.contains(&format!("process {}, which has it for itself", job.id())), "{page}");
    assert!(local("cache verify cache", tmp.path()).stdout().starts_with("30 files read, 0 damaged"));
    for line in ["cache clear cache", "cache prune cache --max-bytes 1kB"] {
        let error = local(line, tmp.path()).failure(2);
        assert!(error.contains(&format!("process {} has cache for itself", job.id())), "{error}");
    }
    assert_eq!(objects(tmp.path()).len(), 30);
    assert_eq!(end(job).code, 130);
}
