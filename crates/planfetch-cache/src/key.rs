//! The name of an object on disk.

use std::fmt;
use std::hash::Hasher;
use std::ops::Range;

use sha2::{Digest, Sha256};

/// Into how many folders objects are spread. A million objects are 1,000 to a folder, which is few enough to list one
/// folder for each object that another process may have brought.
pub(crate) const FAN_OUT: u16 = 1 << 10;

/// What an object is known by inside the cache: a hash of where it lies and of its key.
///
/// 160 bits of a SHA-256, so that no object key ever becomes a path and keys that differ only in case, or in what a
/// file system can't tell apart, never meet.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct ObjectKey([u8; 20]);

impl ObjectKey {
    /// Hashes the URI together with the endpoint of its store, since two servers may have a bucket of the same name, and
    /// with the range for which it stands where that is not the whole object.
    pub(crate) fn new(scope: &str, uri: &str, range: Option<&Range<u64>>) -> Self {
        let mut hash = Sha256::new();
        hash.update((scope.len() as u64).to_le_bytes());
        hash.update(scope);
        if let Some(range) = range {
            // A byte that no text holds, so that a part is never taken for a whole.
            hash.update([0xff]);
            hash.update(range.start.to_le_bytes());
            hash.update(range.end.to_le_bytes());
        }
        hash.update(uri);
        let mut key = [0; 20];
        key.copy_from_slice(&hash.finalize()[..20]);
        Self(key)
    }

    /// The folder that holds the object: [`FAN_OUT`] of them.
    pub(crate) fn fan_out(self) -> u16 {
        u16::from_be_bytes([self.0[0], self.0[1]]) % FAN_OUT
    }

    /// 64 bits of the key.
    pub(crate) fn bits(self) -> u64 {
        let (_, last) = self.0.split_last_chunk().expect("a key has 20 bytes");
        u64::from_le_bytes(*last)
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

/// Hashes keys, which are hashes already: any eight bytes of one will do.
#[derive(Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some((_, last)) = bytes.split_last_chunk() {
            self.0 = u64::from_le_bytes(*last);
        }
    }

    // The length of the key, which is always the same.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What the bytes of an object must be: their number and their CRC-32 (IEEE 802.3).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
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

/// Reads the key that a name begins with.
pub(crate) fn parse_key(text: &str) -> Option<ObjectKey> {
    let digits = text.get(..40)?;
    if !digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut bytes = [0; 20];
    for (byte, at) in bytes.iter_mut().zip((0..40).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some(ObjectKey(bytes))
}

/// Reads a name that [`file_name`] made; anything else is `None`.
pub(crate) fn parse_file_name(name: &str) -> Option<(ObjectKey, Stamp)> {
    let digits = name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    if name.len() != NAME_LEN || !digits {
        return None;
    }
    let (key, rest) = (parse_key(name)?, &name[40..]);
    let (len, crc) = rest.strip_prefix('-')?.split_at(16);
    let stamp =
        Stamp { len: u64::from_str_radix(len, 16).ok()?, crc: u32::from_str_radix(crc.strip_prefix('-')?, 16).ok()? };
    // No file is as long as that, and sums of lengths stay far from their end.
    (stamp.len < 1 << 50).then_some((key, stamp))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_file_name_is_as_documented() {
        // The format on disk: a change here needs a new format version in `directory.rs`.
        let key = ObjectKey::new("", "s3://bucket/key", None);
        assert_eq!(
            file_name(key, Stamp { len: 76_543, crc: 0xdead_beef }),
            "a803e6822fceda48a965092d60b41815d25c4686-0000000000012aff-deadbeef"
        );
    }

    #[test]
    fn uris_that_look_alike_have_keys_of_their_own() {
        let uris = ["s3://b/a", "s3://b/A", "s3://b/a/", "s3://b//a", "s3://b/%61", "s3://b/../b/a", "s3://b/a "];
        let keys: std::collections::BTreeSet<_> = uris.iter().map(|uri| ObjectKey::new("", uri, None)).collect();
        assert_eq!(keys.len(), uris.len());
        assert_ne!(ObjectKey::new("http://one", "s3://b/a", None), ObjectKey::new("http://two", "s3://b/a", None));
        assert_ne!(ObjectKey::new("a", "bc", None), ObjectKey::new("ab", "c", None));
    }

    proptest! {
        #[test]
        fn names_of_any_object_are_of_one_length_and_read_back(
            scope: String, uri: String, len in 0_u64..1 << 50, crc: u32
        ) {
            let (key, stamp) = (ObjectKey::new(&scope, &uri, None), Stamp { len, crc });
            let name = file_name(key, stamp);
            prop_assert_eq!(name.len(), NAME_LEN);
            prop_assert_eq!(parse_file_name(&name), Some((key, stamp)));
        }

        #[test]
        fn no_other_text_is_taken_for_a_key(text in "\\PC{0,50}|[0-9a-f+A-F]{38,42}|[0-9a-f]{39}é.*") {
            if let Some(key) = parse_key(&text) {
                prop_assert!(text.starts_with(&key.to_string()));
            }
        }

        #[test]
        fn no_other_name_is_taken_for_ours(name in "\\PC{0,80}|[0-9a-f-]{66}|[0-9a-f]{40}-[0-9a-f+]{16}-[0-9a-f]{8}") {
            if let Some((key, stamp)) = parse_file_name(&name) {
                prop_assert_eq!(file_name(key, stamp), name);
            }
        }
    }
}
