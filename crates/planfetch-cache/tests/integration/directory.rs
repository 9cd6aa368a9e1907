//! The directory: what is taken up, what is refused, what is left alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use planfetch_cache::{CacheErrorKind, CacheSettings, DiskCache, PruneBackend};
use planfetch_testkit::S3Server;

use crate::support::{builder, content, files, objects, open, quick, read, temp_files};

#[test]
fn what_was_downloaded_is_local_for_the_next_cache() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", &content(1, 5_000));
    drop(open(dir.path(), &server).ensure_local("s3://data/k").unwrap());
    let cache = open(dir.path(), &server);
    assert!(cache.contains("s3://data/k"));
    assert_eq!(read(&cache.ensure_local("s3://data/k").unwrap()), content(1, 5_000));
    assert_eq!(server.counts().requests, 1);
    assert_eq!((cache.stats().local_files, cache.stats().local_bytes), (1, 5_000));
}

#[test]
fn a_file_that_is_not_as_its_name_says_is_fetched_again() {
    let damages: [fn(&mut Vec<u8>); 4] =
        [|bytes| bytes.truncate(4_000), |bytes| bytes.push(0), |bytes| bytes[2_500] ^= 1, |bytes| bytes.clear()];
    for damage in damages {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
        server.put("data", "k", &content(1, 5_000));
        drop(open(dir.path(), &server).ensure_local("s3://data/k").unwrap());
        let [path] = &objects(dir.path())[..] else { panic!("one file") };
        let mut bytes = fs::read(path).unwrap();
        damage(&mut bytes);
        fs::write(path, bytes).unwrap();
        let cache = open(dir.path(), &server);
        assert_eq!(read(&cache.ensure_local("s3://data/k").unwrap()), content(1, 5_000));
        assert_eq!((server.counts().requests, cache.stats().corrupt_files), (2, 1));
        assert_eq!(objects(dir.path()).len(), 1);
    }
}

#[test]
fn an_object_that_changed_in_the_store_replaces_a_damaged_file() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", b"old");
    drop(open(dir.path(), &server).ensure_local("s3://data/k").unwrap());
    fs::write(&objects(dir.path())[0], b"ol").unwrap();
    server.put("data", "k", b"newer");
    let cache = open(dir.path(), &server);
    assert_eq!(read(&cache.ensure_local("s3://data/k").unwrap()), b"newer");
    assert_eq!(objects(dir.path()).len(), 1, "the damaged file stayed");
}

#[test]
fn temporary_files_of_a_dead_process_go_and_foreign_files_stay() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", b"bytes");
    drop(open(dir.path(), &server).ensure_local("s3://data/k").unwrap());
    let folder = objects(dir.path())[0].parent().unwrap().to_path_buf();
    fs::write(folder.join(format!(".tmp-{}-half", "0a".repeat(20))), b"by").unwrap();
    let foreign = [folder.join("notes.txt"), dir.path().join("cache/README"), folder.join("z".repeat(66))];
    foreign.iter().for_each(|path| fs::write(path, b"mine").unwrap());
    let cache = open(dir.path(), &server);
    assert!(temp_files(dir.path()).is_empty());
    assert!(foreign.iter().all(|path| fs::read(path).unwrap() == b"mine"));
    assert_eq!(cache.stats().local_files, 1);
}

#[test]
fn a_directory_with_other_files_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), b"years of work").unwrap();
    let error = DiskCache::builder(dir.path()).build().unwrap_err();
    assert_eq!(error.kind(), CacheErrorKind::Directory);
    assert!(
        error
            .to_string()
            .ends_with("is no cache directory and holds other files (thesis.tex); name an empty or a new directory"),
        "{error}"
    );
    assert_eq!(files(dir.path()), [dir.path().join("thesis.tex")]);
}

#[test]
fn a_directory_of_another_format_is_refused() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    drop(open(dir.path(), &server));
    fs::write(dir.path().join("cache/planfetch-cache"), "planfetch cache format 999\n").unwrap();
    let error = builder(dir.path(), &server).build().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is of another format (\"planfetch cache format 999\", not \"planfetch cache format 2\")"),
        "{error}"
    );
}

#[test]
fn a_mark_that_was_torn_when_the_machine_went_down_is_written_again() {
    let mark = b"planfetch cache format 2\n";
    let torn = (0..mark.len()).flat_map(|end| {
        let cut = mark[..end].to_vec();
        let zeros = [&mark[..end], &vec![0; mark.len() - end]].concat();
        [cut, zeros]
    });
    for backend in [PruneBackend::Meta, PruneBackend::Scan] {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
        server.put("data", "k", b"bytes");
        let settings = CacheSettings { prune_backend: backend, ..quick() };
        let open = || builder(dir.path(), &server).with_settings(settings.clone()).build();
        drop(open().unwrap().ensure_local("s3://data/k").unwrap());
        let file = dir.path().join("cache/planfetch-cache");
        for torn in torn.clone() {
            fs::write(&file, &torn).unwrap();
            assert!(open().unwrap().contains("s3://data/k"), "{torn:?}");
            assert_eq!(fs::read(&file).unwrap(), mark);
        }
        // Of a directory with files that are not a cache's, such a file says nothing.
        fs::write(&file, b"").unwrap();
        fs::write(dir.path().join("cache/thesis.tex"), b"years of work").unwrap();
        let error = open().unwrap_err();
        assert!(error.to_string().contains("holds other files (thesis.tex)"), "{error}");
        for other in [&b"planfetch cache format 3\n"[..], b"\xff\xfe", b"planfetch cache format 2\n\n"] {
            fs::write(&file, other).unwrap();
            let error = open().unwrap_err();
            assert!(error.to_string().contains("is of another format"), "{error}");
        }
    }
}

#[test]
fn a_directory_in_use_is_refused_until_it_is_free() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let first = open(dir.path(), &server);
    let error = builder(dir.path(), &server).build().unwrap_err();
    assert!(error.to_string().contains("is in use, by another process, or by another cache of this one"), "{error}");
    drop(first);
    open(dir.path(), &server);
}

#[test]
fn the_directory_is_private_and_tagged() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let cache = open(dir.path(), &server);
    let mode = fs::metadata(cache.dir()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let tag = fs::read_to_string(cache.dir().join("CACHEDIR.TAG")).unwrap();
    assert!(tag.starts_with("Signature: 8a477f597d28d172789f06886806bc55"));
}

#[test]
fn where_nothing_can_be_written_bytes_come_from_memory() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    let large = content(9, 20 << 20);
    server.put("data", "small", &content(1, 5_000));
    server.put("data", "large", &large);
    let cache = open(dir.path(), &server);
    // Permissions do not stop root, but a file where a folder should be stops everybody.
    fs::remove_dir(cache.dir().join("objects")).unwrap();
    fs::write(cache.dir().join("objects"), b"").unwrap();
    let file = cache.ensure_local("s3://data/small").unwrap();
    assert_eq!((file.path(), read(&file)), (None, content(1, 5_000)));
    assert!(read(&cache.ensure_local("s3://data/large").unwrap()) == large);
    assert_eq!(cache.stats().unwritten, 2);
    assert_eq!(cache.stats().local_files, 0);
}

#[test]
fn a_guard_outlives_its_cache() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", b"bytes");
    let cache = open(dir.path(), &server);
    let file = cache.ensure_local("s3://data/k").unwrap();
    drop(cache);
    assert_eq!(read(&file), b"bytes");
}
