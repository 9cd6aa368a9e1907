//! The name of an object on disk.

use std::fmt;

use sha2::{Digest, Sha256};

/// What an object is known by inside the cache: a hash of where it lies and of its key.
///
/// 160 bits of a SHA-256, so that no object key ever becomes a path and keys that differ only in case, or in what a
/// file system can't tell apart, never meet.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct ObjectKey([u8; 20]);

impl ObjectKey {
    /// Hashes the URI together with the endpoint of its store: two servers may have a bucket of the same name.
    pub(crate) fn new(scope: &str, uri: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update((scope.len() as u64).to_le_bytes());
        hash.update(scope);
        hash.update(uri);
        let mut key = [0; 20];
        key.copy_from_slice(&hash.finalize()[..20]);
        Self(key)
    }

    /// The folder that holds the object: 256 of them, so that a million objects are 4,000 to a folder.
    pub(crate) fn fan_out(self) -> u8 {
        self.0[0]
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the bytes of an object must be: their number and their CRC-32 (IEEE 802.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stamp {
    pub(crate) len: u64,
    pub(crate) crc: u32,
}

/// The length of every file name: 40 digits of the key, 16 of the length, 8 of the checksum, two dashes.
const NAME_LEN: usize = 66;

/// Returns the name of an object's file.
///
/// Length and checksum stand in the name, so that the file holds the object's bytes and nothing else, appears with
/// both in one rename, and can be vouched for without a second file or a database.
pub(crate) fn file_name(key: ObjectKey, stamp: Stamp) -> String {
    format!("{key}-{:016x}-{:08x}", stamp.len, stamp.crc)
}

/// Reads a name that [`file_name`] made; anything else is `None`.
pub(crate) fn parse_file_name(name: &str) -> Option<(ObjectKey, Stamp)> {
    let digits = name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    if name.len() != NAME_LEN || !digits {
        return None;
    }
    let (key, rest) = name.split_at(40);
    let (len, crc) = rest.strip_prefix('-')?.split_at(16);
    let mut bytes = [0; 20];
    for (byte, at) in bytes.iter_mut().zip((0..40).step_by(2)) {
        *byte = u8::from_str_radix(&key[at..at + 2], 16).ok()?;
    }
    let stamp =
        Stamp { len: u64::from_str_radix(len, 16).ok()?, crc: u32::from_str_radix(crc.strip_prefix('-')?, 16).ok()? };
    Some((ObjectKey(bytes), stamp))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_file_name_is_as_documented() {
        // The format on disk: a change here needs a new format version in `directory.rs`.
        let key = ObjectKey::new("", "s3://bucket/key");
        assert_eq!(
            file_name(key, Stamp { len: 76_543, crc: 0xdead_beef }),
            "a803e6822fceda48a965092d60b41815d25c4686-0000000000012aff-deadbeef"
        );
    }

    #[test]
    fn uris_that_look_alike_have_keys_of_their_own() {
        let uris = ["s3://b/a", "s3://b/A", "s3://b/a/", "s3://b//a", "s3://b/%61", "s3://b/../b/a", "s3://b/a "];
        let keys: std::collections::BTreeSet<_> = uris.iter().map(|uri| ObjectKey::new("", uri)).collect();
        assert_eq!(keys.len(), uris.len());
        assert_ne!(ObjectKey::new("http://one", "s3://b/a"), ObjectKey::new("http://two", "s3://b/a"));
        assert_ne!(ObjectKey::new("a", "bc"), ObjectKey::new("ab", "c"));
    }

    proptest! {
        #[test]
        fn names_of_any_object_are_of_one_length_and_read_back(scope: String, uri: String, len: u64, crc: u32) {
            let (key, stamp) = (ObjectKey::new(&scope, &uri), Stamp { len, crc });
            let name = file_name(key, stamp);
            prop_assert_eq!(name.len(), NAME_LEN);
            prop_assert_eq!(parse_file_name(&name), Some((key, stamp)));
        }

        #[test]
        fn no_other_name_is_taken_for_ours(name in "\\PC{0,80}|[0-9a-f-]{66}|[0-9a-f]{40}-[0-9a-f+]{16}-[0-9a-f]{8}") {
            if let Some((key, stamp)) = parse_file_name(&name) {
                prop_assert_eq!(file_name(key, stamp), name);
            }
        }
    }
}
