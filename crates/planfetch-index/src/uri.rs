//! What a URI must look like, and where it may lie.

use std::path::Component;

/// Checks that `uri` has a scheme (RFC 3986, section 3.1) and names something. The error says what to do.
pub(crate) fn check_uri(uri: &str) -> Result<(), String> {
    let advice = "write s3://bucket/key, or file:///absolute/path for a local file";
    let Some((scheme, rest)) = uri.split_once("://") else {
        return Err(format!("has no scheme; {advice}"));
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if !is_scheme {
        return Err(format!("does not start with a valid scheme; {advice}"));
    }
    if rest.is_empty() {
        return Err(format!("names no object; {advice}"));
    }
    Ok(())
}

/// Returns the part of `uri` that names its bucket, with the slash after it: `s3://bucket/`.
///
/// It is the whole URI where no slash follows, and `file:///` for local files.
pub(crate) fn bucket(uri: &str) -> &str {
    let authority = uri.find("://").map_or(0, |at| at + 3);
    match uri[authority..].find('/') {
        Some(at) => &uri[..=authority + at],
        None => uri,
    }
}

/// Returns the URI of the folder that a location, a path or a URI, lies in; `None` where that has no name in UTF-8.
pub(crate) fn folder_of(location: &str) -> Option<String> {
    if location.contains("://") {
        return location.rfind('/').map(|at| location[..=at].to_owned());
    }
    let path = std::path::absolute(location).ok()?;
    let folder = path.parent()?;
    // Only the file system knows where `..` leads behind a link.
    let has_dots = folder.components().any(|part| part == Component::ParentDir);
    let folder = if has_dots { std::fs::canonicalize(folder).ok()? } else { folder.to_owned() };
    let folder = folder.to_str()?;
    Some(if folder.ends_with('/') { format!("file://{folder}") } else { format!("file://{folder}/") })
}

/// What paths are relative to.
#[derive(Debug)]
pub(crate) struct Base {
    // Invariant: names its bucket with the slash after it.
    base: String,
    has_dots: bool,
    // The last URI that was made of a path.
    whole: String,
}

impl Base {
    pub(crate) fn new(base: &str) -> Self {
        let mut base = base.to_owned();
        if !bucket(&base).ends_with('/') {
            base.push('/');
        }
        Self { has_dots: may_have_dots(&base), base, whole: String::new() }
    }

    /// Makes a URI of a path, or says why that names no object. The parts `.` and `..` are resolved, since no store has
    /// keys with them; what else stands in a path is kept byte for byte.
    #[inline]
    pub(crate) fn join(&mut self, path: &str) -> Result<&str, String> {
        // A path from the root leaves of the base what names the bucket.
        let (base, rest) = match path.strip_prefix('/') {
            Some(path) => (bucket(&self.base), path),
            None => (self.base.as_str(), path),
        };
        self.whole.clear();
        self.whole.push_str(base);
        self.whole.push_str(rest);
        if self.has_dots || may_have_dots(path) {
            let root = bucket(&self.base);
            self.whole = format!("{root}{}", resolve(&self.whole[root.len()..], root)?);
        }
        Ok(&self.whole)
    }
}

/// Returns whether a part of a path may be `.` or `..`.
fn may_have_dots(path: &str) -> bool {
    path.starts_with('.') || path.contains("/.")
}

/// Resolves the parts `.` and `..` of a path from `root` on.
fn resolve(path: &str, root: &str) -> Result<String, String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if parts.pop().is_none() => return Err(format!("leads out of {root}; correct the path")),
            ".." => {}
            part => parts.push(part),
        }
    }
    if path.rsplit('/').next().is_some_and(|last| matches!(last, "." | "..")) {
        return Err("names a folder, and no object in it; correct the path, or leave the row out".into());
    }
    Ok(parts.join("/"))
}

/// What the URIs of one index have to begin with.
#[derive(Debug)]
pub(crate) struct UriRule {
    prefix: Option<String>,
    // The bucket of the first URI, without the slash after it; kept only where there is no prefix.
    bucket: Option<String>,
    // What the URIs that were let through begin with, so far that the rest can be anything: comparing with it is all
    // there is to check. Empty while there is no such thing.
    passed: String,
}

impl UriRule {
    /// Makes the rule that URIs begin with `prefix`, or, without one, lie in the bucket of the first.
    pub(crate) fn new(prefix: Option<&str>) -> Self {
        Self { prefix: prefix.map(str::to_owned), bucket: None, passed: String::new() }
    }

    /// Lets `uri` through or says what is wrong with it and what to do.
    #[inline]
    pub(crate) fn check(&mut self, uri: &str) -> Result<(), String> {
        if self.has_passed(uri) { Ok(()) } else { self.check_anew(uri) }
    }

    /// Returns whether `uri` begins as one that was let through, and so would be too.
    #[inline]
    pub(crate) fn has_passed(&self, uri: &str) -> bool {
        !self.passed.is_empty() && uri.len() > self.passed.len() && uri.starts_with(&self.passed)
    }

    fn check_anew(&mut self, uri: &str) -> Result<(), String> {
        check_uri(uri)?;
        let begin = bucket(uri);
        let mut passed = begin;
        match (&self.prefix, &self.bucket) {
            (Some(prefix), _) if !uri.starts_with(prefix.as_str()) => {
                return Err(format!(
                    "does not begin with the prefix {prefix:?}; leave the row out, or ask for a prefix that all rows share"
                ));
            }
            (Some(prefix), _) if prefix.len() > begin.len() => passed = prefix,
            (Some(_), _) => {}
            (None, Some(bucket)) if begin.strip_suffix('/').unwrap_or(begin) != bucket => {
                return Err(format!(
                    "lies in another bucket than the first row, {bucket:?}; make one index for each bucket, or set the \
                     prefix to what all rows share, such as \"s3://\""
                ));
            }
            (None, Some(_)) => {}
            (None, None) => self.bucket = Some(begin.strip_suffix('/').unwrap_or(begin).to_owned()),
        }
        // Without a slash, the bucket `s3://b` would let `s3://bc` through.
        if passed.ends_with('/') {
            self.passed = passed.to_owned();
        }
        Ok(())
    }
}

/// Cuts a value for an error message, so that a broken file does not fill the screen.
pub(crate) fn shorten(value: &str) -> String {
    match value.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_lies_in_a_folder() {
        assert_eq!(folder_of("s3://b/sets/train.csv").as_deref(), Some("s3://b/sets/"));
        assert_eq!(folder_of("/data/train.csv").as_deref(), Some("file:///data/"));
        assert_eq!(folder_of("/train.csv").as_deref(), Some("file:///"));
        let here = std::env::current_dir().unwrap();
        assert_eq!(folder_of("train.csv").unwrap(), format!("file://{}/", here.display()));
    }

    #[test]
    fn a_bucket_ends_at_the_first_slash() {
        assert_eq!(bucket("s3://b/k/l"), "s3://b/");
        assert_eq!(bucket("s3://b"), "s3://b");
        assert_eq!(bucket("file:///data/a"), "file:///");
    }

    #[test]
    fn a_path_is_resolved_as_a_shell_would_but_not_beyond_the_bucket() {
        for (base, path, expected) in [
            ("file:///data/", "./cat/1.jpg", Ok("file:///data/cat/1.jpg")),
            ("file:///data/", "././cat/./1.jpg", Ok("file:///data/cat/1.jpg")),
            ("file:///data/sets/", "../cat/1.jpg", Ok("file:///data/cat/1.jpg")),
            ("file:///data/sets/", "a/../../cat/1.jpg", Ok("file:///data/cat/1.jpg")),
            ("file:///data/sets/", "/./cat/../1.jpg", Ok("file:///1.jpg")),
            ("file:///data/../sets/./", "1.jpg", Ok("file:///sets/1.jpg")),
            ("s3://photos/train/", "./1.jpg", Ok("s3://photos/train/1.jpg")),
            ("s3://photos/train/", "../val/1.jpg", Ok("s3://photos/val/1.jpg")),
            ("s3://photos", "1.jpg", Ok("s3://photos/1.jpg")),
            ("s3://photos", "/1.jpg", Ok("s3://photos/1.jpg")),
            // No part of these is one of the two.
            ("s3://photos/", ".hidden/..a/b../...", Ok("s3://photos/.hidden/..a/b../...")),
            ("s3://photos/", "a//b", Ok("s3://photos/a//b")),
            ("s3://photos/train/", "../../1.jpg", Err("leads out of s3://photos/; correct the path")),
            ("s3://photos/train/", "/../1.jpg", Err("leads out of s3://photos/; correct the path")),
            ("file:///data/", "../../1.jpg", Err("leads out of file:///; correct the path")),
        ] {
            assert_eq!(Base::new(base).join(path), expected.map_err(str::to_owned), "{path} from {base}");
        }
        for path in [".", "..", "cat/.", "cat/.."] {
            let problem = Base::new("s3://photos/train/").join(path).map(str::to_owned).unwrap_err();
            assert!(problem.starts_with("names a folder"), "{path}: {problem}");
        }
        // One row after another.
        let mut base = Base::new("s3://photos/train/");
        for path in ["./1.jpg", "1.jpg", "../train/1.jpg"] {
            assert_eq!(base.join(path), Ok("s3://photos/train/1.jpg"));
        }
    }

    #[test]
    fn a_bucket_whose_name_begins_like_another_is_another() {
        let mut rule = UriRule::new(None);
        rule.check("s3://photos").unwrap();
        rule.check("s3://photos/1").unwrap();
        rule.check("s3://photos/").unwrap();
        assert!(rule.check("s3://photos-2/1").unwrap_err().starts_with("lies in another bucket"));
        assert!(rule.check("gs://photos/1").unwrap_err().starts_with("lies in another bucket"));
        assert!(rule.check("photos/1").unwrap_err().starts_with("has no scheme"));
    }

    #[test]
    fn a_short_prefix_lets_several_buckets_through() {
        for (prefix, foreign) in [("", None), ("s3://", Some("gs://c/1")), ("s3://b", Some("s3://c/1"))] {
            let mut rule = UriRule::new(Some(prefix));
            for uri in ["s3://b/1", "s3://bc/2", "s3://b/3"] {
                rule.check(uri).unwrap();
            }
            if let Some(uri) = foreign {
                assert!(rule.check(uri).unwrap_err().starts_with("does not begin with the prefix"));
            }
            assert!(rule.check("s3:/b/1").is_err());
        }
    }
}
