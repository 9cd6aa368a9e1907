//! Which order a provider stands for, in a name and 16 bytes.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The identity of a provider's settings: its name, and a hash of everything that decides the order of its samples.
///
/// A [`Cursor`](crate::Cursor) carries it, so that a run is never resumed with another order.
/// Two providers whose samples come in the same order may share one: a shuffle leaves out the batch size, since another
/// batch size cuts the same order in other places.
///
/// # Example
///
/// ```
/// use planfetch_plan::Fingerprint;
///
/// let a = Fingerprint::of("alternate", &[("num_samples", 10_u64.into()), ("seed", 3_u64.into())]);
/// let b = Fingerprint::of("alternate", &[("num_samples", 10_u64.into()), ("seed", 4_u64.into())]);
/// assert_ne!(a, b);
/// assert_eq!(a.name(), "alternate");
/// assert_eq!(a.to_string().parse(), Ok(a));
/// ```
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Fingerprint {
    name: String,
    hash: [u8; 16],
}

/// A setting's value, to be hashed. Made by `into()` from numbers, booleans, text, slices of numbers and other
/// fingerprints.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FieldValue<'a> {
    /// An unsigned number, or a boolean as 0 or 1.
    U64(u64),
    /// A floating-point number, by its bits.
    F64(f64),
    /// Text.
    Text(&'a str),
    /// Labels or ids of 32 bits.
    U32s(&'a [u32]),
    /// Lengths or ids of 64 bits.
    U64s(&'a [u64]),
    /// Weights or scores, by their bits.
    F64s(&'a [f64]),
    /// The settings of a provider inside another.
    Inner(Fingerprint),
}

impl Fingerprint {
    /// Returns the fingerprint of the provider `name` with these fields, whose order counts.
    #[must_use]
    pub fn of(name: &str, fields: &[(&str, FieldValue<'_>)]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"planfetch provider v1");
        text(&mut hash, name);
        for (field, value) in fields {
            text(&mut hash, field);
            value.update(&mut hash);
        }
        let mut half = [0; 16];
        half.copy_from_slice(&hash.finalize()[..16]);
        Self { name: name.to_owned(), hash: half }
    }

    /// Returns the provider's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

// OK because a slice's length fits in 64 bits, here and below.
fn text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text);
}

impl FieldValue<'_> {
    /// Hashes a tag for the kind, the length of what has one, and the value, so that no two values hash the same bytes.
    fn update(&self, hash: &mut Sha256) {
        fn list<const N: usize>(hash: &mut Sha256, tag: u8, len: usize, items: impl Iterator<Item = [u8; N]>) {
            hash.update([tag]);
            hash.update((len as u64).to_le_bytes());
            let mut block = Vec::with_capacity(8 * 1_024);
            for item in items {
                block.extend_from_slice(&item);
                if 8 * 1_024 <= block.len() {
                    hash.update(&block);
                    block.clear();
                }
            }
            hash.update(&block);
        }
        match self {
            Self::U64(value) => list(hash, 1, 1, [value.to_le_bytes()].into_iter()),
            Self::F64(value) => list(hash, 2, 1, [value.to_bits().to_le_bytes()].into_iter()),
            Self::Text(value) => list(hash, 3, value.len(), value.bytes().map(|byte| [byte])),
            Self::U32s(values) => list(hash, 4, values.len(), values.iter().map(|value| value.to_le_bytes())),
            Self::U64s(values) => list(hash, 5, values.len(), values.iter().map(|value| value.to_le_bytes())),
            Self::F64s(values) => list(hash, 6, values.len(), values.iter().map(|value| value.to_bits().to_le_bytes())),
            Self::Inner(value) => {
                hash.update([7]);
                text(hash, &value.name);
                hash.update(value.hash);
            }
        }
    }
}

macro_rules! from {
    ($($kind:ty => $value:ident, $make:expr;)*) => {$(
        impl<'a> From<$kind> for FieldValue<'a> {
            fn from($value: $kind) -> Self {
                $make
            }
        }
    )*};
}

from! {
    u64 => value, Self::U64(value);
    u32 => value, Self::U64(u64::from(value));
    // OK because an index fits in 64 bits.
    usize => value, Self::U64(value as u64);
    bool => value, Self::U64(u64::from(value));
    f64 => value, Self::F64(value);
    &'a str => value, Self::Text(value);
    &'a [u32] => value, Self::U32s(value);
    &'a [u64] => value, Self::U64s(value);
    &'a [f64] => value, Self::F64s(value);
    Fingerprint => value, Self::Inner(value);
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.name)?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Text that is not a name, a slash and 32 hexadecimal digits.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text:?} is not a fingerprint, which is a name, a slash and 32 hexadecimal digits")]
pub struct ParseFingerprintError {
    text: String,
}

impl FromStr for Fingerprint {
    type Err = ParseFingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (name, digits) = text.rsplit_once('/')?;
            let digits: &[u8; 32] = digits.as_bytes().try_into().ok()?;
            let mut hash = [0; 16];
            for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
                let digit = |ascii: u8| char::from(ascii).to_digit(16);
                // OK because two digits make at most 255.
                *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
            }
            Some(Self { name: name.to_owned(), hash })
        };
        parse().ok_or_else(|| ParseFingerprintError { text: text.to_owned() })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
