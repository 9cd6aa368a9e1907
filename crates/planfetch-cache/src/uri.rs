//! The parts of a URI.

use object_store::path::Path;

use crate::error::{CacheError, CacheErrorKind};

/// Returns a URI without what could be a secret: a user with a password, and the query, where signatures stand.
pub(crate) fn redacted(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https")) else {
        return uri.to_owned();
    };
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, _)| (rest, "?…"));
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}{path}{query}")
}

/// A URI taken apart: where the object lies and what its key is. Both are slices of the URI, byte for byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ObjectUri<'a> {
    pub(crate) uri: &'a str,
    /// The scheme, without `://`.
    pub(crate) scheme: &'a str,
    /// Scheme and bucket, as in `s3://bucket`; `file://` for local files.
    pub(crate) store_url: &'a str,
    /// What stands behind the bucket and one slash.
    pub(crate) key: &'a str,
}

impl<'a> ObjectUri<'a> {
    pub(crate) fn parse(uri: &'a str) -> Result<Self, CacheError> {
        let invalid = |problem: &str| {
            CacheError::new(
                CacheErrorKind::InvalidUri,
                format!(
                    "{:?} {problem}; write s3://bucket/key, or file:///absolute/path for a local file",
                    redacted(uri)
                ),
            )
        };
        let (scheme, rest) = uri.split_once("://").ok_or_else(|| invalid("has no scheme"))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if scheme == "file" && !bucket.is_empty() {
            return Err(invalid("names a host, or a path that is not absolute"));
        }
        if scheme != "file" && bucket.is_empty() {
            return Err(invalid("names no bucket"));
        }
        if key.is_empty() {
            return Err(invalid("names no key"));
        }
        if matches!(scheme, "http" | "https") && (uri.contains('?') || bucket.contains('@')) {
            return Err(invalid("has a query or a user, as signed URLs have, which is not supported"));
        }
        // OK because the bucket starts right behind "://" and ends inside the URI.
        let store_url = &uri[..scheme.len() + "://".len() + bucket.len()];
        Ok(Self { uri, scheme, store_url, key })
    }

    /// Returns the key for object_store.
    ///
    /// `Path::parse` takes the key literally; `Path::from` would percent-encode it and ask for another object. The path
    /// of a web address alone is percent-encoded already.
    pub(crate) fn path(&self) -> Result<Path, CacheError> {
        if matches!(self.scheme, "http" | "https") {
            return Path::from_url_path(self.key).map_err(|source| {
                CacheError::with_source(
                    CacheErrorKind::InvalidUri,
                    format!("{:?} has a path that can't be asked for; check the address", self.uri),
                    source,
                )
            });
        }
        let path = Path::parse(self.key).map_err(|source| {
            CacheError::with_source(
                CacheErrorKind::InvalidUri,
                format!(
                    "{:?} has a key that can't be asked for: empty, \".\" and \"..\" segments and control characters \
                     are not supported; rename the object",
                    self.uri
                ),
                source,
            )
        })?;
        // A leading or trailing slash is dropped without an error, which would name another object.
        if path.as_ref() != self.key {
            return Err(CacheError::new(
                CacheErrorKind::InvalidUri,
                format!("{:?} has a key that begins or ends with a slash, which is not supported", self.uri),
            ));
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_byte_for_byte() {
        for key in [
            "a",
            "a b",
            "%20",
            "ä",
            "~",
            "#1",
            "+",
            "[foo]",
            "a?b=c",
            "\u{1f600}",
            "c:\\d",
            "a/b/c",
            "...",
            "mäggi.png",
        ] {
            for uri in [format!("s3://bucket/{key}"), format!("file:///{key}")] {
                let parsed = ObjectUri::parse(&uri).unwrap();
                assert_eq!(parsed.key, key);
                assert_eq!(parsed.path().unwrap().as_ref(), key);
            }
        }
    }

    #[test]
    fn keys_that_would_name_another_object_are_errors() {
        for key in ["a//b", "/a", "a/", "../a", "a/./b", "a\nb"] {
            let uri = format!("s3://bucket/{key}");
            let error = ObjectUri::parse(&uri).and_then(|uri| uri.path()).unwrap_err();
            assert_eq!(error.kind(), CacheErrorKind::InvalidUri, "{error}");
            assert!(error.to_string().starts_with(&format!("{uri:?}")), "{error}");
        }
    }

    #[test]
    fn what_could_be_a_secret_is_in_no_message() {
        for uri in [
            "https://host/a?X-Amz-Signature=hunter2",
            "https://me:hunter2@host/a",
            "http://host?sig=hunter2",
            "https://me:hunter2@host",
        ] {
            let error = ObjectUri::parse(uri).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
            assert!(!redacted(uri).contains("hunter2"), "{}", redacted(uri));
        }
        assert_eq!(redacted("https://host/a/b"), "https://host/a/b");
        assert_eq!(redacted("s3://bucket/a?b@c"), "s3://bucket/a?b@c");
    }

    #[test]
    fn the_path_of_a_web_address_is_decoded_once() {
        let uri = ObjectUri::parse("https://host/a%20b/%2541").unwrap();
        assert_eq!((uri.store_url, uri.path().unwrap().as_ref()), ("https://host", "a b/%41"));
    }

    #[test]
    fn the_store_is_scheme_and_bucket() {
        let uri = ObjectUri::parse("s3://bucket/a/b").unwrap();
        assert_eq!((uri.scheme, uri.store_url, uri.key), ("s3", "s3://bucket", "a/b"));
        let uri = ObjectUri::parse("file:///a/b").unwrap();
        assert_eq!((uri.scheme, uri.store_url, uri.key), ("file", "file://", "a/b"));
    }

    #[test]
    fn what_names_no_object_is_an_error_that_says_what_to_write() {
        for (uri, problem) in [
            ("a/b", "has no scheme"),
            ("s3://", "names no bucket"),
            ("s3:///a", "names no bucket"),
            ("s3://bucket", "names no key"),
            ("s3://bucket/", "names no key"),
            ("file://a/b", "names a host, or a path that is not absolute"),
        ] {
            assert_eq!(
                ObjectUri::parse(uri).unwrap_err().to_string(),
                format!("{uri:?} {problem}; write s3://bucket/key, or file:///absolute/path for a local file")
            );
        }
    }
}
