//! The server does what its switches say, as an independent client sees it.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::{Duration, Instant};

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ClientOptions, Error, ObjectStoreExt, RetryConfig};
use planfetch_testkit::{ACCESS_KEY, Fault, FaultRule, S3Server, SECRET_KEY};
use tokio::runtime::Runtime;

/// A client that asks once and reports what it sees.
fn client(server: &S3Server, secret: &str) -> AmazonS3 {
    AmazonS3Builder::new()
        .with_endpoint(server.endpoint())
        .with_bucket_name("bucket")
        .with_access_key_id(ACCESS_KEY)
        .with_secret_access_key(secret)
        .with_client_options(ClientOptions::new().with_allow_http(true).with_timeout(Duration::from_millis(700)))
        .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
        .build()
        .unwrap()
}

fn get(server: &S3Server, key: &str) -> Result<Vec<u8>, Error> {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let answer = client(server, SECRET_KEY).get(&Path::parse(key)?).await?;
        Ok(answer.bytes().await?.to_vec())
    })
}

fn both() -> [S3Server; 2] {
    [S3Server::start(), S3Server::start_in_memory()].map(|server| {
        server.put("bucket", "a/b c%20ä.bin", &content());
        server.put("bucket", "other", b"x");
        server
    })
}

fn content() -> Vec<u8> {
    (0..50_000_u32).map(|i| (i / 7) as u8).collect()
}

const KEY: &str = "a/b c%20ä.bin";

#[test]
fn objects_and_ranges_of_them_are_served_and_counted() {
    for server in both() {
        assert_eq!(get(&server, KEY).unwrap(), content());
        let range = Runtime::new().unwrap().block_on(async {
            client(&server, SECRET_KEY).get_range(&Path::parse(KEY).unwrap(), 100..300).await.unwrap()
        });
        assert_eq!(range, content()[100..300]);
        let counts = server.counts();
        assert_eq!((counts.requests, counts.bytes, counts.most_at_once), (2, 50_200, 1));
        assert_eq!(counts.by_path.into_iter().collect::<Vec<_>>(), [("/bucket/a/b%20c%2520%C3%A4.bin".to_owned(), 2)]);
        server.reset_counts();
        assert_eq!(server.counts().requests, 0);
        assert!(matches!(get(&server, "nowhere"), Err(Error::NotFound { .. })));
    }
}

#[test]
fn requests_with_another_signature_are_refused() {
    for server in both() {
        let answer = Runtime::new()
            .unwrap()
            .block_on(async { client(&server, "another").get(&Path::parse(KEY).unwrap()).await.map(drop) });
        assert!(matches!(answer, Err(Error::PermissionDenied { .. })), "{answer:?}");
    }
}

#[test]
fn answers_are_late_by_the_latency() {
    for server in both() {
        server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(80))));
        let started = Instant::now();
        get(&server, KEY).unwrap();
        assert!(Duration::from_millis(80) <= started.elapsed());
    }
}

#[test]
fn each_fault_is_what_its_name_says() {
    for server in both() {
        let fault = |fault| {
            server.clear_faults();
            server.inject(FaultRule::always(fault));
            get(&server, KEY)
        };
        let slow_down = fault(Fault::SlowDown).unwrap_err().to_string();
        assert!(slow_down.contains("503") && slow_down.contains("SlowDown"), "{slow_down}");
        let reset = format!("{:?}", fault(Fault::Reset).unwrap_err());
        assert!(reset.contains("ConnectionReset"), "{reset}");
        for at in [0, 1, 30_000] {
            assert!(fault(Fault::CutBody(at)).is_err(), "cut at {at}");
            let started = Instant::now();
            assert!(fault(Fault::StallBody(at)).is_err(), "stall at {at}");
            assert!(Duration::from_millis(500) < started.elapsed(), "it ended by itself");
        }
        let wrong = fault(Fault::WrongByte(30_000)).unwrap();
        let differing: Vec<usize> = (0..50_000).filter(|&i| wrong[i] != content()[i]).collect();
        assert_eq!((wrong.len(), differing), (50_000, vec![30_000]));
        // A fault that lies behind the end does not happen.
        assert_eq!(fault(Fault::CutBody(50_001)).unwrap(), content());
    }
}

#[test]
fn rules_choose_their_requests() {
    let [server, _] = both();
    server.inject(FaultRule::first(2, Fault::SlowDown).on("/bucket/a"));
    let answers: Vec<bool> = (0..4).map(|_| get(&server, KEY).is_ok()).collect();
    assert_eq!(answers, [false, false, true, true]);
    assert!(get(&server, "other").is_ok());
    server.clear_faults();
    server.inject(FaultRule::every(3, Fault::SlowDown));
    let answers: Vec<bool> = (0..7).map(|_| get(&server, "other").is_ok()).collect();
    assert_eq!(answers, [false, true, true, false, true, true, false]);
}

#[test]
fn requests_at_once_are_counted() {
    let [server, _] = both();
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(100))));
    let store = client(&server, SECRET_KEY);
    let path = Path::parse("other").unwrap();
    Runtime::new().unwrap().block_on(async {
        let (a, b, c) = tokio::join!(store.get(&path), store.get(&path), store.get(&path));
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
    });
    assert_eq!(server.counts().most_at_once, 3);
}

#[test]
fn a_listing_comes_page_by_page() {
    use futures::TryStreamExt;
    use object_store::ObjectStore;

    let server = S3Server::start_in_memory();
    for i in 0..2_345 {
        server.put("bucket", &format!("train/{i:05}"), &vec![7; i % 5]);
    }
    server.put("bucket", "train-2/x", b"x");
    server.put("bucket", "a", b"x");
    let listed: Vec<(String, u64)> = Runtime::new().unwrap().block_on(async {
        let prefix = Path::parse("train").unwrap();
        let objects = client(&server, SECRET_KEY).list(Some(&prefix));
        objects.map_ok(|object| (object.location.to_string(), object.size)).try_collect().await.unwrap()
    });
    assert_eq!(listed, (0..2_345).map(|i| (format!("train/{i:05}"), i % 5)).collect::<Vec<_>>());
    // Pages of 1,000.
    assert_eq!(server.counts().requests, 3);
}
