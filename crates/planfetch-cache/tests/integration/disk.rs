//! A disk that fails: reading goes on from the store, with one warning for each kind of fault.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use planfetch_cache::{CacheErrorKind, CacheSettings, DiskCache, PruneBackend};
use planfetch_testkit::{Fault, FaultRule, S3Server, eventually};
use tracing::field::{Field, Visit};
use tracing::span;

use crate::support::{builder, content, credentials, objects, open, quick, read};

/// A small file system of its own, in memory.
pub(crate) struct SmallDisk(pub(crate) PathBuf);

impl SmallDisk {
    /// Mounts one, or says why this machine lets no test do so.
    pub(crate) fn mount(dir: &Path, options: &str) -> Option<Self> {
        let at = dir.join("disk");
        fs::create_dir(&at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(at)),
            other => {
                eprintln!("skipped: no file system can be mounted here: {other:?}");
                None
            }
        }
    }

    fn run(&self, program: &str, args: &[&str]) -> bool {
        Command::new(program).args(args).arg(&self.0).status().is_ok_and(|status| status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.run("umount", &["-l"]);
    }
}

/// Counts the warnings of this thread and of all that the cache starts.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn install() -> Self {
        let warnings = Self::default();
        // Each test is a process of its own under nextest; under `cargo test`, the first one that comes wins, and the
        // others count nothing.
        let _ = tracing::subscriber::set_global_default(warnings.clone());
        warnings
    }

    fn about(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|warning| warning.contains(text)).count()
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn server_with(n: u64, len: usize) -> S3Server {
    let server = S3Server::start_in_memory();
    (0..n).for_each(|i| server.put("data", &i.to_string(), &content(i, len)));
    server
}

#[test]
fn a_full_disk_is_read_around() {
    for (backend, options) in [
        (PruneBackend::Meta, "size=1m"),
        (PruneBackend::Scan, "size=1m"),
        (PruneBackend::Meta, "size=64m,nr_inodes=60"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = SmallDisk::mount(dir.path(), options) else { return };
        let warnings = Warnings::install();
        let server = server_with(100, 30_000);
        let settings = CacheSettings { prune_backend: backend, ..quick() };
        let cache = builder(&disk.0, &server).with_settings(settings).build().unwrap();
        for i in 0..100 {
            assert_eq!(read(&cache.ensure_local(&format!("s3://data/{i}")).unwrap()), content(i, 30_000), "{options}");
        }
        let stats = cache.stats();
        assert!(0 < stats.unwritten && 0 < stats.local_files, "{options}: {stats:?}");
        assert_eq!(server.counts().requests, 100);
        assert!(warnings.about("can't write to the cache directory") <= 1, "{:?}", warnings.0);
        // What was written is right, and when there is room again, it is used.
        for path in objects(&disk.0) {
            fs::remove_file(path).unwrap();
        }
        let cache_again = cache.ensure_local("s3://data/99").unwrap();
        assert_eq!(read(&cache_again), content(99, 30_000));
        drop((cache_again, cache));
    }
}

#[test]
fn a_disk_that_becomes_read_only_is_read_around() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path(), "size=4m") else { return };
    let warnings = Warnings::install();
    let server = server_with(20, 1_000);
    let cache = open(&disk.0, &server);
    (0..5).for_each(|i| drop(cache.ensure_local(&format!("s3://data/{i}")).unwrap()));
    // Its own lock file is open for writing, so the file system itself can't be made read-only; a view of it can.
    if !disk.run("mount", &["-o", "bind,remount,ro"]) {
        eprintln!("skipped: the file system can't be made read-only");
        return;
    }
    for i in 0..20 {
        assert_eq!(read(&cache.ensure_local(&format!("s3://data/{i}")).unwrap()), content(i, 1_000));
    }
    drop(cache);
    let error = DiskCache::builder(disk.0.join("other")).build().unwrap_err();
    assert_eq!(error.kind(), CacheErrorKind::Directory);
    assert!(error.to_string().contains(disk.0.join("other").to_str().unwrap()), "{error}");
    assert!(warnings.about("can't write to the cache directory") <= 1);
}

#[test]
fn a_file_that_can_not_be_read_is_fetched_again() {
    // What stands in for a bad sector: the file is gone, is a folder, is a link, is short, or is locked away.
    let faults: [fn(&Path); 4] = [
        |path| fs::remove_file(path).unwrap(),
        |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
        |path| {
            fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink("/etc/hostname", path).unwrap();
        },
        |path| fs::write(path, b"short").unwrap(),
    ];
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        for (n, fault) in faults.iter().enumerate() {
            let (dir, server) = (tempfile::tempdir().unwrap(), server_with(3, 5_000));
            let settings = CacheSettings { prune_backend: backend, ..quick() };
            let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
            let file = cache.ensure_local("s3://data/1").unwrap();
            fault(&file.path().unwrap());
            assert_eq!(read(&file), content(1, 5_000), "{backend:?}, fault {n}");
            drop(file);
            assert_eq!(read(&cache.ensure_local("s3://data/1").unwrap()), content(1, 5_000), "{backend:?}, fault {n}");
            assert!(1 <= cache.stats().corrupt_files);
        }
    }
}

#[test]
fn what_can_not_be_looked_for_is_not_written_beside_other_processes() {
    let (dir, server) = (tempfile::tempdir().unwrap(), server_with(1, 5_000));
    server.inject(FaultRule::first(1, Fault::Latency(Duration::from_millis(500))));
    let settings = CacheSettings { prune_backend: PruneBackend::Scan, ..quick() };
    let cache = builder(dir.path(), &server).with_settings(settings).build().unwrap();
    let folders = cache.dir().join("objects");
    let (answer, answered) = std::sync::mpsc::channel();
    // Permissions do not stop root, but a file where a folder should be stops everybody.
    fs::remove_dir(&folders).unwrap();
    fs::write(&folders, b"").unwrap();
    cache.ensure_local_then("s3://data/0", move |file| answer.send(file).unwrap());
    eventually("it is asked for", || server.counts().requests == 1);
    // When it comes, it could be written; but nobody else would know of it.
    fs::remove_file(&folders).unwrap();
    fs::create_dir(&folders).unwrap();
    let file = answered.recv().unwrap().unwrap();
    assert_eq!((file.path(), read(&file)), (None, content(0, 5_000)));
    assert_eq!((objects(dir.path()).len(), cache.stats().local_files), (0, 0));
    drop(file);
    // Then all is well again.
    assert!(cache.ensure_local("s3://data/0").unwrap().path().is_some());
}

#[test]
fn a_link_in_the_place_of_an_object_is_not_followed() {
    let (dir, server) = (tempfile::tempdir().unwrap(), server_with(1, 5_000));
    let file = open(dir.path(), &server).ensure_local("s3://data/0").unwrap();
    let path = file.path().unwrap();
    drop(file);
    // Someone else's file of the right content, so that the checksum alone would not tell.
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let cache = open(dir.path(), &server);
    assert_eq!(read(&cache.ensure_local("s3://data/0").unwrap()), content(0, 5_000));
    assert_eq!(server.counts().requests, 2);
    assert_eq!(fs::read(&elsewhere).unwrap(), content(0, 5_000), "what the link named was changed");
    eventually("the link is gone", || !path.is_symlink());
}

#[test]
fn a_directory_that_others_could_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, server) = (tempfile::tempdir().unwrap(), server_with(1, 10));
    drop(open(dir.path(), &server).ensure_local("s3://data/0").unwrap());
    let cache_dir = dir.path().join("cache");
    fs::set_permissions(&cache_dir, fs::Permissions::from_mode(0o777)).unwrap();
    let error = builder(dir.path(), &server).build().unwrap_err();
    assert!(error.to_string().contains("others may write to the cache directory"), "{error}");
    fs::set_permissions(&cache_dir, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(open(dir.path(), &server).contains("s3://data/0"));
    // A new one may be as open as the user's mask makes it; it is closed.
    let fresh = dir.path().join("fresh");
    fs::create_dir(&fresh).unwrap();
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o777)).unwrap();
    let cache = DiskCache::builder(&fresh).with_store_settings(credentials(&server)).build().unwrap();
    assert_eq!(fs::metadata(cache.dir()).unwrap().permissions().mode() & 0o777, 0o700);
    drop(cache);
    if Command::new("chown").arg("65534").arg(&fresh).status().is_ok_and(|status| status.success()) {
        let error = DiskCache::builder(&fresh).build().unwrap_err();
        assert!(error.to_string().contains("belongs to user 65534"), "{error}");
    }
}
