//! The server.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use socket2::SockRef;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::fault::{Fault, FaultRule, Faults};
use crate::fault_body::FaultBody;
use crate::memory_store::MemoryStore;

/// The access key that the server accepts.
pub const ACCESS_KEY: &str = "PLANFETCHTESTKEY";
/// The secret key that the server accepts.
pub const SECRET_KEY: &str = "planfetch/test/secret";

/// An S3 server on a free loopback port, with its own threads. It stops when it is dropped.
///
/// Requests are signed and checked for real. Objects are put in directly, without a request.
pub struct S3Server {
    state: Arc<State>,
    backend: Backend,
    address: SocketAddr,
    // `Some` until it is dropped.
    runtime: Option<Runtime>,
}

enum Backend {
    Folder(TempDir),
    Memory(MemoryStore),
}

/// What the server has been asked for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Requests, whatever came of them.
    pub requests: u64,
    /// Requests by path, `/bucket/key`, as it was sent (percent-encoded).
    pub by_path: BTreeMap<String, u64>,
    /// Bytes of bodies announced in answers with status 200 or 206.
    pub bytes: u64,
    /// The most requests that were being answered at once.
    pub most_at_once: u64,
}

struct State {
    service: S3Service,
    faults: Mutex<Faults>,
    counts: Mutex<(Counts, u64)>,
    bucket: Mutex<Option<TokenBucket>>,
}

/// How many requests the server grants: as many at once as the bucket holds, which fills at a rate.
struct TokenBucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    filled_at: Instant,
}

impl TokenBucket {
    fn take(&mut self) -> bool {
        let now = Instant::now();
        self.tokens = (self.tokens + (now - self.filled_at).as_secs_f64() * self.per_second).min(self.burst);
        self.filled_at = now;
        let is_granted = 1.0 <= self.tokens;
        self.tokens -= f64::from(u8::from(is_granted));
        is_granted
    }
}

impl S3Server {
    /// Starts a server whose objects are files in a temporary folder, served by s3s-fs.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let service = build(S3ServiceBuilder::new(FileSystem::new(folder.path()).expect("the folder exists")));
        Self::serve(service, Backend::Folder(folder))
    }

    /// Starts a server whose objects lie in memory, for measurements. It answers GET, HEAD, and listings without a
    /// delimiter.
    #[must_use]
    pub fn start_in_memory() -> Self {
        let store = MemoryStore::default();
        Self::serve(build(S3ServiceBuilder::new(store.clone())), Backend::Memory(store))
    }

    fn serve(service: S3Service, backend: Backend) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("s3-server")
            .enable_all()
            .build()
            .expect("threads can be started");
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let state =
            Arc::new(State { service, faults: Mutex::default(), counts: Mutex::default(), bucket: Mutex::default() });
        runtime.spawn(accept(listener, Arc::clone(&state)));
        Self { state, backend, address, runtime: Some(runtime) }
    }

    /// Returns the URL to which requests go.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Puts an object in place, and makes its bucket if need be.
    pub fn put(&self, bucket: &str, key: &str, bytes: &[u8]) {
        match &self.backend {
            Backend::Folder(folder) => {
                let path = folder.path().join(bucket).join(key);
                fs::create_dir_all(path.parent().expect("it lies in a bucket")).expect("folders can be made");
                fs::write(path, bytes).expect("files can be written");
            }
            Backend::Memory(store) => store.put(bucket, key, bytes),
        }
    }

    /// Puts every file of a folder in place, under its path relative to the folder.
    pub fn put_folder(&self, bucket: &str, folder: &Path) {
        let mut folders = vec![folder.to_path_buf()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).expect("the folder can be listed") {
                let path = entry.expect("the folder can be listed").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let key = path.strip_prefix(folder).expect("it lies in the folder").to_str().expect("UTF-8");
                    self.put(bucket, key, &fs::read(&path).expect("the file can be read"));
                }
            }
        }
    }

    /// Adds a fault. Several may befall one request: latencies add up.
    pub fn inject(&self, rule: FaultRule) {
        self.state.faults.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    /// Grants no more requests than this: `burst` at once, and `per_second` from then on. All others are answered
    /// `503 SlowDown`.
    pub fn limit_rate(&self, per_second: f64, burst: f64) {
        let bucket = TokenBucket { per_second, burst, tokens: burst, filled_at: Instant::now() };
        *self.state.bucket.lock().unwrap_or_else(PoisonError::into_inner) = Some(bucket);
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.state.faults.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns what has been asked for since the start or the last [`reset_counts`](Self::reset_counts).
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.counts.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Counts from 0 again.
    pub fn reset_counts(&self) {
        self.state.counts.lock().unwrap_or_else(PoisonError::into_inner).0 = Counts::default();
    }
}

impl fmt::Debug for S3Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn build(mut builder: S3ServiceBuilder) -> S3Service {
    builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
    builder.build()
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        // Without it, Nagle's algorithm and delayed acknowledgements hold each small answer back for 40 ms.
        stream.set_nodelay(true).expect("the option exists");
        tokio::spawn(serve_connection(stream, Arc::clone(&state)));
    }
}

async fn serve_connection(stream: TcpStream, state: Arc<State>) {
    // A second handle to the socket, by which a fault can reset the connection under hyper.
    let stream = stream.into_std().expect("it is registered");
    let control = Arc::new(Mutex::new(Some(stream.try_clone().expect("descriptors are left"))));
    let stream = TcpStream::from_std(stream).expect("it is non-blocking");
    let service = service_fn(move |request| answer(request, Arc::clone(&state), Arc::clone(&control)));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new());
    // An error is what a fault, or a client that went away, looks like from here.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

type Answer = Response<FaultBody>;

async fn answer(
    request: Request<Incoming>,
    state: Arc<State>,
    control: Arc<Mutex<Option<std::net::TcpStream>>>,
) -> Result<Answer, Dropped> {
    let path = request.uri().path().to_owned();
    let (faults, _under_way) = {
        let mut counts = state.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (counts, at_once) = &mut *counts;
        counts.requests += 1;
        *counts.by_path.entry(path.clone()).or_default() += 1;
        *at_once += 1;
        counts.most_at_once = counts.most_at_once.max(*at_once);
        let faults = state.faults.lock().unwrap_or_else(PoisonError::into_inner).decide(&path, &counts.by_path);
        (faults, UnderWay(Arc::clone(&state)))
    };
    if state.bucket.lock().unwrap_or_else(PoisonError::into_inner).as_mut().is_some_and(|bucket| !bucket.take()) {
        return Ok(slow_down(None));
    }
    let mut body_fault = None;
    for fault in faults {
        match fault {
            Fault::Latency(latency) => tokio::time::sleep(latency).await,
            Fault::SlowDown => return Ok(slow_down(None)),
            Fault::RetryAfter(seconds) => return Ok(slow_down(Some(seconds))),
            Fault::ExpiredToken => {
                return Ok(error(StatusCode::BAD_REQUEST, "ExpiredToken", "The provided token has expired."));
            }
            Fault::AccessDenied => return Ok(error(StatusCode::FORBIDDEN, "AccessDenied", "Access Denied")),
            Fault::Reset => {
                if let Some(socket) = control.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    // Closing a socket that lingers for no time sends RST instead of FIN.
                    SockRef::from(&socket).set_linger(Some(Duration::ZERO)).expect("the option exists");
                }
                return Err(Dropped);
            }
            Fault::CutBody(_) | Fault::StallBody(_) | Fault::SlowBody(..) | Fault::WrongByte(_) => {
                body_fault = Some(fault);
            }
        }
    }
    let request = request.map(s3s::Body::from);
    let response = state.service.call(request).await.map_err(|_| Dropped)?;
    let succeeded = matches!(response.status(), StatusCode::OK | StatusCode::PARTIAL_CONTENT);
    if succeeded {
        let announced = response.body().size_hint().exact().or_else(|| content_length(&response)).unwrap_or(0);
        state.counts.lock().unwrap_or_else(PoisonError::into_inner).0.bytes += announced;
    }
    Ok(response.map(|body| FaultBody::new(body, body_fault.filter(|_| succeeded))))
}

fn content_length<T>(response: &Response<T>) -> Option<u64> {
    response.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn slow_down(retry_after: Option<u64>) -> Answer {
    let mut response = error(StatusCode::SERVICE_UNAVAILABLE, "SlowDown", "Please reduce your request rate.");
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn error(status: StatusCode, code: &str, message: &str) -> Answer {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    let mut response = Response::new(FaultBody::new(s3s::Body::from(body), None));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}

/// A request that is being answered, until its answer has been made.
struct UnderWay(Arc<State>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner).1 -= 1;
    }
}

/// No answer: hyper closes the connection.
#[derive(Debug)]
struct Dropped;

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is dropped on purpose")
    }
}

impl std::error::Error for Dropped {}

impl From<Infallible> for Dropped {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
