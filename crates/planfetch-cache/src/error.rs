//! What can go wrong between a store and a local file.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Why an object can't be had, or a cache not be opened.
///
/// The message names the URI or the directory and says what to do. A clone shares the details, since one failed
/// download may answer many requests.
#[derive(Clone)]
pub struct CacheError(Arc<Inner>);

struct Inner {
    kind: CacheErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What a caller can do about a [`CacheError`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CacheErrorKind {
    /// The URI is none that this cache can serve. Correct it, or register a store for it.
    InvalidUri,
    /// There is no such object. Trying again gives the same answer.
    NotFound,
    /// There is no such bucket, and so none of its objects: a wrong name, endpoint or region. Trying again gives the
    /// same answer.
    BucketNotFound,
    /// The store refuses the credentials, or there are none.
    Denied,
    /// The store can't be reached or keeps failing, after all attempts. It may work later.
    Unavailable,
    /// A setting is out of its range.
    InvalidSetting,
    /// The cache directory can't be used.
    Directory,
    /// The cache was dropped while the request was under way.
    Closed,
}

impl CacheError {
    pub(crate) fn new(kind: CacheErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), source: None }))
    }

    pub(crate) fn with_source(
        kind: CacheErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), source: Some(source.into()) }))
    }

    /// Returns what kind of error this is, which says what a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> CacheErrorKind {
        self.0.kind
    }
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

/// As `Display`, since `main` prints the error that it returns by this.
impl fmt::Debug for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for CacheError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // OK because the cast only drops the auto traits.
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
