//! Why an attempt at a download failed, and what that means for the next.

use std::io;
use std::time::Duration;

use object_store::Error as StoreError;

use crate::error::{CacheError, CacheErrorKind};
use crate::exchange::Answer;
use crate::target::Target;
use crate::uri::{ObjectUri, redacted};

/// Why one attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Store(StoreError, Answer),
    Stalled(Duration),
    /// The object is another one than when its download began.
    Changed,
    /// The body ended early, or went on after its announced end.
    WrongLength {
        expected: u64,
        received: u64,
    },
    /// The part that was asked for lies outside of the object.
    OutOfRange {
        len: u64,
    },
    /// What came could not be written, and is not in memory any more.
    Unwritten,
}

/// What the next attempt has to heed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Advice {
    /// Another attempt would get the same answer.
    GiveUp,
    /// Credentials have run out; new ones may be had.
    Reopen,
    /// The store is asked too fast.
    SlowDown,
    Retry,
}

impl Failure {
    pub(crate) fn advice(&self) -> Advice {
        match self {
            Self::OutOfRange { .. } => Advice::GiveUp,
            Self::Store(error, answer) => {
                let text = innermost(error);
                let status = answer.status.filter(|status| !(200..300).contains(status)).or_else(|| status_in(&text));
                if matches!(status, Some(429 | 503)) || text.contains("SlowDown") {
                    return Advice::SlowDown;
                }
                if matches!(status, Some(400 | 401 | 403)) && has_expired(&text) {
                    return Advice::Reopen;
                }
                if text.contains("but object was only") {
                    // What object_store says of a range behind the end, where it knows the length itself.
                    return Advice::GiveUp;
                }
                if local_fault(error).is_some() {
                    return Advice::GiveUp;
                }
                match error {
                    StoreError::NotFound { .. }
                    | StoreError::InvalidPath { .. }
                    | StoreError::NotSupported { .. }
                    | StoreError::NotImplemented { .. }
                    | StoreError::PermissionDenied { .. }
                    | StoreError::Unauthenticated { .. } => Advice::GiveUp,
                    StoreError::Generic { .. } if status.is_some_and(is_client_error) => Advice::GiveUp,
                    _ => Advice::Retry,
                }
            }
            Self::Stalled(_) | Self::Changed | Self::WrongLength { .. } | Self::Unwritten => Advice::Retry,
        }
    }

    /// Returns whether what has come so far can be gone on from: the server has no time, or was not reached.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Store(error @ StoreError::Generic { .. }, answer) => {
                let text = innermost(error);
                let status = answer.status.or_else(|| status_in(&text));
                !status.is_some_and(is_client_error) && !text.contains("non-partial response")
            }
            Self::Stalled(_) => true,
            _ => false,
        }
    }

    /// Returns how long the store asked to be left alone.
    pub(crate) fn asked_pause(&self) -> Option<Duration> {
        if let Self::Store(_, answer) = self { answer.retry_after } else { None }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Store(error, _) => innermost(error),
            Self::Stalled(limit) => format!("no byte came for {} s", limit.as_secs_f32()),
            Self::Changed => "it changed in the store while it was downloaded".into(),
            Self::WrongLength { expected, received } => {
                format!("the body has {received} bytes where the store announced {expected}")
            }
            Self::OutOfRange { len } => format!("the object has {len} bytes"),
            Self::Unwritten => "it can't be written".into(),
        }
    }

    pub(crate) fn into_error(self, target: &Target, uri: &ObjectUri<'_>, attempts: u32) -> CacheError {
        let detail = self.describe();
        let name = target.name();
        let store_url = redacted(uri.store_url);
        let (kind, message) = match &self {
            Self::OutOfRange { .. } => (
                CacheErrorKind::InvalidUri,
                format!("{name}: {detail}, which the range lies outside of; check the index against the store"),
            ),
            Self::Store(StoreError::NotFound { source, .. }, _) if names_no_bucket(&source.to_string()) => (
                CacheErrorKind::BucketNotFound,
                format!("{name}: there is no bucket {store_url}; check its name, the endpoint and the region"),
            ),
            Self::Store(StoreError::NotFound { .. }, _) => (CacheErrorKind::NotFound, missing(&name)),
            Self::Store(error, _) if let Some(fault) = local_fault(error) => match fault {
                LocalFault::Missing => (CacheErrorKind::NotFound, missing(&name)),
                LocalFault::Denied => (
                    CacheErrorKind::Denied,
                    format!(
                        "{name}: this process may not read the file ({detail}); check its permissions, and those of \
                         the folders above it"
                    ),
                ),
                LocalFault::Unusable => (
                    CacheErrorKind::InvalidUri,
                    format!("{name}: no file can be read by this path ({detail}); check the index, or move the file"),
                ),
            },
            Self::Store(StoreError::PermissionDenied { .. }, _) if !is_about_credentials(&detail) => {
                let message = refused(&name, &detail, &store_url);
                let or = "a store also answers so where there is no such object and they may not list the bucket";
                (CacheErrorKind::Denied, format!("{message}; {or}"))
            }
            Self::Store(StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. }, _) => {
                (CacheErrorKind::Denied, refused(&name, &detail, &store_url))
            }
            _ if self.advice() == Advice::Reopen => (CacheErrorKind::Denied, refused(&name, &detail, &store_url)),
            _ if self.advice() == Advice::GiveUp => {
                (CacheErrorKind::InvalidUri, format!("{name}: the store refuses the request: {detail}"))
            }
            _ => (
                CacheErrorKind::Unavailable,
                format!(
                    "{name}: can't be downloaded after {attempts} attempts: {detail}; check the endpoint and the \
                     network, or raise max_attempts"
                ),
            ),
        };
        match self {
            // Not the error of object_store as it is: it holds the whole of what the server answered.
            Self::Store(source, _) => CacheError::with_source(kind, message, innermost(&source)),
            _ => CacheError::new(kind, message),
        }
    }
}

fn missing(name: &str) -> String {
    format!("{name}: there is no object with this key; check the index against the store")
}

fn refused(name: &str, detail: &str, store_url: &str) -> String {
    format!(
        "{name}: the store refuses the credentials ({detail}); check the access key, the secret key, and that they may \
         read {store_url}"
    )
}

/// What is wrong with a local file, where asking again gives the same answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LocalFault {
    /// A folder on the way to it is a file.
    Missing,
    Denied,
    /// Its path can't be that of a file: too long, a circle of links, a form that object_store keeps for itself.
    Unusable,
}

/// Returns what is wrong with a local file, which object_store tells only as a generic error with a cause. Of a store
/// that is asked over the network, the same kinds of cause may pass.
fn local_fault(error: &StoreError) -> Option<LocalFault> {
    let StoreError::Generic { store: "LocalFileSystem", source } = error else { return None };
    let mut cause: &(dyn std::error::Error + 'static) = source.as_ref();
    loop {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return match error.kind() {
                io::ErrorKind::NotADirectory => Some(LocalFault::Missing),
                io::ErrorKind::PermissionDenied => Some(LocalFault::Denied),
                io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => {
                    Some(LocalFault::Unusable)
                }
                _ => is_circle_of_links(error).then_some(LocalFault::Unusable),
            };
        }
        let Some(next) = cause.source() else { break };
        cause = next;
    }
    let text = cause.to_string();
    let is_of_path = text.starts_with("Filenames containing") || text.starts_with("Unable to convert URL");
    is_of_path.then_some(LocalFault::Unusable)
}

fn is_circle_of_links(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    #[cfg(not(unix))]
    {
        let _ = error;
        false
    }
}

/// Returns whether a store says that there is no such bucket: in the words of S3, of Google and of Azure.
fn names_no_bucket(text: &str) -> bool {
    ["NoSuchBucket", "The specified bucket does not exist", "ContainerNotFound"].iter().any(|said| text.contains(said))
}

/// Returns whether a store that refuses a request says that the credentials are wrong, and not what they may read.
fn is_about_credentials(text: &str) -> bool {
    ["InvalidAccessKeyId", "SignatureDoesNotMatch", "NotSignedUp", "RequestTimeTooSkewed", "AccountProblem"]
        .iter()
        .any(|code| text.contains(code))
}

/// Returns the cause at the end of the chain, which is the one that says what happened.
fn innermost(error: &StoreError) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    // The bodies of error responses are XML of several lines.
    let text: String = cause.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let text = without_body(&text);
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Reduces the body of an error response, in XML, to what it says: S3 repeats the access key, or the whole token, in
/// elements beside that.
fn without_body(text: &str) -> String {
    let Some((head, body)) = text.split_once('<') else { return text.to_owned() };
    let element = |name: &str| {
        let (_, rest) = body.split_once(&format!("{name}>"))?;
        Some(rest.split_once("</").map_or(rest, |(content, _)| content))
    };
    let said: Vec<&str> = ["Code", "Message"].into_iter().filter_map(element).collect();
    format!("{head}{}", said.join(": "))
}

/// Reads the status out of object_store's words, where a store has a client of its own.
fn status_in(text: &str) -> Option<u16> {
    let rest = text.strip_prefix("Server returned non-2xx status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// Returns whether the store says that the request itself is wrong (RFC 9110, section 15.5), which asking again does
/// not change; 408 and 429 ask for just that.
fn is_client_error(status: u16) -> bool {
    (400..500).contains(&status) && status != 408 && status != 429
}

/// Returns whether the store says that credentials were good once: the codes of S3 and of its token service.
fn has_expired(text: &str) -> bool {
    ["ExpiredToken", "TokenRefreshRequired", "RequestExpired", "InvalidToken"].iter().any(|code| text.contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_server_answers_only_code_and_message_are_told() {
        let body = "Server returned non-2xx status code: 400 Bad Request: <?xml version=\"1.0\"?><Error>\
                    <Code>ExpiredToken</Code><Message>The provided token has expired.</Message>\
                    <Token-0>hunter2</Token-0><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>";
        let error = StoreError::Generic { store: "S3", source: body.into() };
        let failure = Failure::Store(error, Answer::default());
        assert_eq!(failure.advice(), Advice::Reopen);
        let uri = ObjectUri::parse("s3://b/k").expect("it is one");
        let error = failure.into_error(&Target::new("s3://b/k", None), &uri, 2);
        let all = format!("{error} {error:?}");
        assert!(!all.contains("hunter2") && !all.contains("AKIA"), "{all}");
        assert!(
            error.to_string().contains("400 Bad Request: ExpiredToken: The provided token has expired."),
            "{error}"
        );
    }
    #[test]
    fn faults_of_local_files_are_told_from_those_of_stores() {
        let of = |store: &'static str, kind: io::ErrorKind| {
            let source = io::Error::new(kind, "what the system said");
            Failure::Store(StoreError::Generic { store, source: source.into() }, Answer::default())
        };
        let uri = ObjectUri::parse("file:///data/k").expect("it is one");
        for (kind, expected) in [
            (io::ErrorKind::PermissionDenied, CacheErrorKind::Denied),
            (io::ErrorKind::NotADirectory, CacheErrorKind::NotFound),
            (io::ErrorKind::InvalidFilename, CacheErrorKind::InvalidUri),
        ] {
            let failure = of("LocalFileSystem", kind);
            assert_eq!(failure.advice(), Advice::GiveUp);
            let error = failure.into_error(&Target::new("file:///data/k", None), &uri, 1);
            assert_eq!(error.kind(), expected);
            assert!(!error.to_string().contains("attempts"), "{error}");
            // A firewall that says no may be asked again.
            assert_eq!(of("S3", kind).advice(), Advice::Retry);
        }
        // A disk that stutters, and a process with too many files open, may recover.
        for kind in [io::ErrorKind::Interrupted, io::ErrorKind::TimedOut, io::ErrorKind::Other] {
            assert_eq!(of("LocalFileSystem", kind).advice(), Advice::Retry);
        }
    }

    #[test]
    fn a_missing_bucket_is_told_from_a_missing_object() {
        let uri = ObjectUri::parse("s3://b/k").expect("it is one");
        for (said, expected) in [
            ("404 Not Found: <Error><Code>NoSuchBucket</Code></Error>", CacheErrorKind::BucketNotFound),
            ("404 Not Found: The specified bucket does not exist.", CacheErrorKind::BucketNotFound),
            ("404 Not Found: <Error><Code>ContainerNotFound</Code></Error>", CacheErrorKind::BucketNotFound),
            ("404 Not Found: <Error><Code>NoSuchKey</Code></Error>", CacheErrorKind::NotFound),
            ("404 Not Found: ", CacheErrorKind::NotFound),
        ] {
            let failure =
                Failure::Store(StoreError::NotFound { path: "k".into(), source: said.into() }, Answer::default());
            assert_eq!(failure.advice(), Advice::GiveUp);
            assert_eq!(failure.into_error(&Target::new("s3://b/k", None), &uri, 1).kind(), expected, "{said}");
        }
    }
}
