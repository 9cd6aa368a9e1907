//! What each mistake says.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use planfetch_cache::{CacheErrorKind, CacheSettings, DiskCache, StoreSettings};
use planfetch_testkit::{Fault, FaultRule, S3Server};

use crate::support::{builder, credentials, files, open, quick};

#[track_caller]
fn check(cache: &DiskCache, uri: &str, kind: CacheErrorKind, expected: &str) {
    let started = Instant::now();
    let error = cache.ensure_local(uri).unwrap_err();
    assert_eq!((error.kind(), &*error.to_string()), (kind, expected));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let leftovers: Vec<_> =
        files(cache.dir()).into_iter().filter(|path| path.starts_with(cache.dir().join("objects"))).collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

#[test]
fn a_key_that_does_not_exist_is_named() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "other", b"x");
    let cache = open(dir.path(), &server);
    let expected = "s3://data/k: there is no object with this key; check the index against the store";
    check(&cache, "s3://data/k", CacheErrorKind::NotFound, expected);
    assert_eq!(server.counts().requests, 1, "asked again for what is not there");
}

#[test]
fn a_bucket_that_does_not_exist_is_named() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    let cache = open(dir.path(), &server);
    let expected = "s3://nowhere/k: there is no bucket s3://nowhere; check its name, the endpoint and the region";
    check(&cache, "s3://nowhere/k", CacheErrorKind::BucketNotFound, expected);
}

#[test]
fn what_the_store_will_never_answer_is_asked_for_once() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let cache = open(dir.path(), &server);
    let error = cache.ensure_local("s3://B/k").unwrap_err();
    assert_eq!(error.kind(), CacheErrorKind::InvalidUri);
    assert!(error.to_string().starts_with("s3://B/k: the store refuses the request: "), "{error}");
    assert!(error.to_string().contains("InvalidBucketName"), "{error}");
    assert_eq!(server.counts().requests, 1);
}

#[test]
fn wrong_credentials_are_said_and_not_shown() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("data", "k", b"x");
    for (id, secret) in [("SOMEBODY", "topsecret"), (planfetch_testkit::ACCESS_KEY, "topsecret")] {
        let settings = StoreSettings {
            access_key_id: Some(id.into()),
            secret_access_key: Some(secret.into()),
            ..credentials(&server)
        };
        let cache = builder(dir.path(), &server).with_store_settings(settings).build().unwrap();
        let error = cache.ensure_local("s3://data/k").unwrap_err();
        assert_eq!(error.kind(), CacheErrorKind::Denied, "{error}");
        let text = error.to_string();
        assert!(text.starts_with("s3://data/k: the store refuses the credentials ("), "{text}");
        assert!(text.ends_with("check the access key, the secret key, and that they may read s3://data"), "{text}");
        assert!(!format!("{error:?}").contains("topsecret"), "{error:?}");
    }
}

#[test]
fn where_reading_is_refused_the_object_may_also_be_missing() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    server.put("data", "k", b"x");
    server.inject(FaultRule::always(Fault::AccessDenied));
    let expected = "s3://data/k: the store refuses the credentials (Server returned non-2xx status code: 403 \
                    Forbidden: AccessDenied: Access Denied); check the access key, the secret key, and that they may read \
                    s3://data; a store also answers so where there is no such object and they may not list the bucket";
    check(&open(dir.path(), &server), "s3://data/k", CacheErrorKind::Denied, expected);
    assert_eq!(server.counts().requests, 1);
}

#[test]
fn a_local_file_that_will_never_be_read_is_said_at_once() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("file"), b"x").unwrap();
    std::fs::write(at("part#1"), b"x").unwrap();
    symlink(at("there"), at("back")).unwrap();
    symlink(at("back"), at("there")).unwrap();
    std::fs::write(at("locked"), b"x").unwrap();
    std::fs::set_permissions(at("locked"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let cache = DiskCache::builder(at("cache")).with_settings(quick()).build().unwrap();
    let missing = "there is no object with this key";
    let unusable = "no file can be read by this path (";
    let mut cases = vec![
        ("file/below".to_owned(), CacheErrorKind::NotFound, missing),
        ("a".repeat(300), CacheErrorKind::InvalidUri, unusable),
        ("there".into(), CacheErrorKind::InvalidUri, unusable),
        ("part#1/#1".into(), CacheErrorKind::InvalidUri, unusable),
    ];
    // Root may read everything.
    if std::fs::read(at("locked")).is_err() {
        cases.push(("locked".into(), CacheErrorKind::Denied, "this process may not read the file ("));
    }
    for (name, kind, words) in cases {
        let uri = format!("file://{}", at(&name).display());
        let error = cache.ensure_local(&uri).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().starts_with(&format!("{uri}: {words}")), "{error}");
    }
    assert_eq!(cache.stats().retries, 0);
}

#[test]
fn an_endpoint_that_refuses_connections_is_an_error_within_seconds() {
    let dir = tempfile::tempdir().unwrap();
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = StoreSettings {
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        access_key_id: Some("k".into()),
        secret_access_key: Some("s".into()),
        ..StoreSettings::default()
    };
    // The settings that users have.
    let cache = DiskCache::builder(dir.path().join("cache")).with_store_settings(settings).build().unwrap();
    let started = Instant::now();
    let error = cache.ensure_local("s3://data/k").unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(error.kind(), CacheErrorKind::Unavailable);
    let text = error.to_string();
    assert!(text.starts_with("s3://data/k: can't be downloaded after 6 attempts: "), "{text}");
    assert!(text.contains("refused"), "{text}");
}

#[test]
fn a_uri_that_no_store_serves_is_named() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let cache = open(dir.path(), &server);
    let invalid = CacheErrorKind::InvalidUri;
    check(
        &cache,
        "images/1.jpg",
        invalid,
        "\"images/1.jpg\" has no scheme; write s3://bucket/key, or file:///absolute/path for a local file",
    );
    check(
        &cache,
        "ftp://host/1.jpg",
        invalid,
        "\"ftp://host/1.jpg\": no store for ftp://host; file://, s3:// are opened by themselves, any other is \
         registered with DiskCacheBuilder::with_store(\"ftp://host\", …)",
    );
    assert!(cache.prefetch("ftp://host/1.jpg").is_err());
}

#[test]
fn plain_http_is_refused_but_on_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let settings = StoreSettings {
        endpoint: Some("http://storage.example.com".into()),
        access_key_id: Some("k".into()),
        secret_access_key: Some("s".into()),
        ..StoreSettings::default()
    };
    let cache = DiskCache::builder(dir.path().join("cache")).with_store_settings(settings).build().unwrap();
    check(
        &cache,
        "s3://data/k",
        CacheErrorKind::InvalidSetting,
        "the endpoint http://storage.example.com is plain http, which shows data to the network; use https, or set \
         allow_http (AWS_ALLOW_HTTP=true)",
    );
}

#[test]
fn a_setting_out_of_its_range_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let build = |settings| DiskCache::builder(dir.path().join("cache")).with_settings(settings).build();
    let error = build(CacheSettings { download_concurrency: 0, ..quick() }).unwrap_err();
    assert_eq!(error.to_string(), "download_concurrency is 0, but must lie in 1..=100000");
    let error = build(CacheSettings { progress_timeout: Duration::ZERO, ..quick() }).unwrap_err();
    assert_eq!(error.to_string(), "progress_timeout is 0, but must be longer than 0");
}
