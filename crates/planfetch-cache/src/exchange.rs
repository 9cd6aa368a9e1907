//! What passes between a download and the HTTP client below its object store.
//!
//! object_store tells of a failed request only in words. The connector here sits between its client and the network,
//! and notes the status, the server's wish to be left alone, and the time of the answer for the request that is under
//! way in the same task.

use std::cell::Cell;
#[cfg(feature = "_cloud")]
use std::time::SystemTime;
use std::time::{Duration, Instant};

/// The longest pause that a server may ask for.
#[cfg(feature = "_cloud")]
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// What one request was answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    /// The last status; there are several where a request is redirected, or credentials are asked for first.
    pub(crate) status: Option<u16>,
    /// How long the server wants to be left alone.
    pub(crate) retry_after: Option<Duration>,
    /// When the status came.
    pub(crate) at: Option<Instant>,
}

tokio::task_local! {
    static ANSWER: Cell<Answer>;
}

/// Runs a request, and returns its result with what the server answered, as far as that was seen: an object store that
/// a user registered has a client of its own.
pub(crate) async fn observed<T>(request: impl Future<Output = T>) -> (T, Answer) {
    ANSWER
        .scope(Cell::default(), async {
            let result = request.await;
            (result, ANSWER.with(Cell::get))
        })
        .await
}

/// Reads the header `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date.
#[cfg(feature = "_cloud")]
fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let pause = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(pause.min(MAX_RETRY_AFTER))
}

#[cfg(feature = "_cloud")]
pub(crate) use connector::ObservingConnector;

#[cfg(feature = "_cloud")]
mod connector {
    use async_trait::async_trait;
    use object_store::client::{
        HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
    };

    use super::*;

    /// Connects as object_store does by itself, and notes what each request is answered.
    #[derive(Debug)]
    pub(crate) struct ObservingConnector;

    #[derive(Debug)]
    struct Observing(HttpClient);

    impl HttpConnector for ObservingConnector {
        fn connect(&self, options: &object_store::ClientOptions) -> object_store::Result<HttpClient> {
            Ok(HttpClient::new(Observing(ReqwestConnector::default().connect(options)?)))
        }
    }

    #[async_trait]
    impl HttpService for Observing {
        #[expect(clippy::disallowed_methods, reason = "a server names a date by the clock on the wall")]
        async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
            let result = self.0.execute(request).await;
            // OK because a request outside of a download has nobody who wants to know.
            let _ = ANSWER.try_with(|answer| {
                let response = result.as_ref().ok();
                let header = response.and_then(|response| response.headers().get("retry-after"));
                answer.set(Answer {
                    status: response.map(|response| response.status().as_u16()),
                    retry_after: header
                        .and_then(|value| value.to_str().ok())
                        .and_then(|value| parse_retry_after(value, SystemTime::now())),
                    at: Some(Instant::now()),
                });
            });
            result
        }
    }
}

#[cfg(all(test, feature = "_cloud"))]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date_and_is_bounded() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let cases = [
            ("0", Some(0)),
            (" 7 ", Some(7)),
            ("86400", Some(60)),
            ("Sun, 06 Nov 1994 08:49:40 GMT", Some(3)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("soon", None),
            ("-3", None),
            ("", None),
        ];
        for (value, seconds) in cases {
            assert_eq!(parse_retry_after(value, now), seconds.map(Duration::from_secs), "{value:?}");
        }
    }
}
