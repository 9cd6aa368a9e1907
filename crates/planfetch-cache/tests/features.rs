//! What is behind features that no default build has: web servers, and maps of files.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use planfetch_cache::{CacheErrorKind, DiskCache};

const PAGE: &[u8] = b"the bytes of a page";

/// A web server that has one page, `/a b/page.bin`, answers ranges, and refuses each first request.
fn serve() -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counter = Arc::clone(&counter);
            std::thread::spawn(move || answer(stream, &counter));
        }
    });
    (url, requests)
}

fn answer(mut stream: TcpStream, requests: &AtomicU32) {
    stream.set_nodelay(true).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    while let Some(request) = lines.next() {
        let headers: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let range = headers.iter().find_map(|line| {
            let line = line.to_lowercase();
            let (first, last) = line.strip_prefix("range: bytes=")?.split_once('-')?;
            Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?.min(PAGE.len() - 1)))
        });
        let n = requests.fetch_add(1, Ordering::Relaxed);
        let (status, extra, body) = match range {
            _ if n == 0 => ("503 Service Unavailable", "retry-after: 0\r\n".to_owned(), &b""[..]),
            _ if !request.starts_with("GET /a%20b/page.bin ") => ("404 Not Found", String::new(), &b""[..]),
            Some((first, last)) => {
                let extra = format!("content-range: bytes {first}-{last}/{}\r\n", PAGE.len());
                ("206 Partial Content", extra, &PAGE[first..=last])
            }
            None => ("200 OK", String::new(), PAGE),
        };
        let modified = "last-modified: Sun, 06 Nov 1994 08:49:37 GMT";
        let head = format!("HTTP/1.1 {status}\r\n{extra}{modified}\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).is_err() {
            return;
        }
    }
}

fn read(file: &planfetch_cache::LocalFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.read_into(&mut bytes).unwrap();
    bytes
}

#[test]
fn pages_of_a_web_server_are_objects() {
    let (dir, (url, requests)) = (tempfile::tempdir().unwrap(), serve());
    let cache = DiskCache::builder(dir.path().join("cache")).build().unwrap();
    let page = format!("{url}/a%20b/page.bin");
    assert_eq!(read(&cache.ensure_local(&page).unwrap()), PAGE);
    assert_eq!(read(&cache.ensure_local_range(&page, 4..9).unwrap()), b"bytes");
    assert_eq!((requests.load(Ordering::Relaxed), cache.stats().throttled), (3, 1));
    let error = cache.ensure_local(&format!("{url}/other")).unwrap_err();
    assert_eq!(error.kind(), CacheErrorKind::NotFound, "{error}");
}

#[test]
fn a_web_server_elsewhere_is_asked_with_encryption_only() {
    let dir = tempfile::tempdir().unwrap();
    let cache = DiskCache::builder(dir.path().join("cache")).build().unwrap();
    let error = cache.ensure_local("http://192.0.2.1/page").unwrap_err();
    assert_eq!(error.kind(), CacheErrorKind::InvalidSetting);
    assert!(error.to_string().contains("the endpoint http://192.0.2.1 is plain http"), "{error}");
}

#[test]
fn a_map_outlives_its_guard_and_the_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("source"), PAGE).unwrap();
    let cache = DiskCache::builder(dir.path().join("cache")).build().unwrap();
    let uri = format!("file://{}/source", dir.path().display());
    let map = cache.ensure_local(&uri).unwrap().mmap().unwrap();
    cache.prune(0);
    cache.invalidate(&uri).unwrap();
    drop(cache);
    assert_eq!(&map[..], PAGE);
    let in_memory = planfetch_cache::LocalFile::from_bytes(PAGE).mmap().unwrap_err();
    assert_eq!(in_memory.kind(), std::io::ErrorKind::Unsupported);
}
