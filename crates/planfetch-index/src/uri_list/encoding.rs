//! One URI as it stands in the buffer.
//!
//! An entry is two numbers in LEB128 and text: how many bytes the URI shares with the one before it in the block (the
//! first: with the first URI of the list), twice the number of bytes that come then, plus one where the extension that
//! the list keeps once ends the URI, and these bytes. What is shared never includes that extension, and ends at a
//! character, so that each text is valid UTF-8 by itself.

/// Longer extensions are none: a key `a.b c d e …` has a last dot too.
const MAX_EXTENSION: usize = 16;

/// What the buffer holds for one URI.
pub(super) struct Entry<'a> {
    /// How many bytes of the base the URI begins with.
    pub(super) shared: usize,
    /// What comes then.
    pub(super) rest: &'a [u8],
    /// Whether the list's extension comes last.
    pub(super) has_tail: bool,
}

impl<'a> Entry<'a> {
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        put_number(self.shared as u64, bytes);
        // OK because no slice is longer than half of the address space.
        put_number((self.rest.len() as u64) << 1 | u64::from(self.has_tail), bytes);
        bytes.extend_from_slice(self.rest);
    }

    /// Reads the entry at `at` and moves `at` behind it; `None` where there is none.
    #[inline]
    pub(super) fn decode(bytes: &'a [u8], at: &mut usize) -> Option<Self> {
        let shared = usize::try_from(take_number(bytes, at)?).ok()?;
        let word = take_number(bytes, at)?;
        let end = at.checked_add(usize::try_from(word >> 1).ok()?)?;
        let rest = bytes.get(*at..end)?;
        *at = end;
        Some(Self { shared, rest, has_tail: word & 1 == 1 })
    }

    /// Turns `buffer`, of which the first `base_len` bytes are the base, into the URI without its extension.
    /// Where there is a `reference`, it is the base instead.
    #[inline]
    pub(super) fn write(&self, reference: Option<&str>, base_len: usize, buffer: &mut String) -> Option<()> {
        match reference {
            Some(reference) => {
                buffer.clear();
                buffer.push_str(reference.get(..self.shared)?);
            }
            None if self.shared <= base_len && buffer.is_char_boundary(self.shared) => buffer.truncate(self.shared),
            None => return None,
        }
        buffer.push_str(std::str::from_utf8(self.rest).ok()?);
        Some(())
    }
}

/// Returns where each block of `block` entries starts, or what is wrong with the entries.
pub(super) fn check(
    reference: &str,
    tail: &str,
    bytes: &[u8],
    len: usize,
    block: usize,
) -> Result<Vec<u64>, String> {
    // An entry takes two bytes at least, so that a huge length is refused before memory is taken for it.
    if len > bytes.len() / 2 {
        return Err(format!("{} bytes can't hold {len} URIs", bytes.len()));
    }
    let mut blocks = Vec::with_capacity(len.div_ceil(block));
    // All that an entry of ASCII can have wrong are its numbers, and looking at these takes a third of the time.
    let is_ascii = reference.is_ascii() && tail.is_ascii() && bytes.is_ascii();
    let mut buffer = String::new();
    let (mut at, mut base_len) = (0, 0);
    for index in 0..len {
        let is_first = index.is_multiple_of(block);
        if is_first {
            blocks.push(at as u64);
        }
        let entry = Entry::decode(bytes, &mut at).ok_or_else(|| format!("URI {index} is cut"))?;
        if is_ascii {
            if entry.shared > if is_first { reference.len() } else { base_len } {
                return Err(format!("URI {index} shares more than there is"));
            }
            base_len = entry.shared + entry.rest.len();
        } else {
            entry
                .write(is_first.then_some(reference), base_len, &mut buffer)
                .ok_or_else(|| format!("URI {index} is no text, or shares more than there is"))?;
            base_len = buffer.len();
        }
    }
    if at == bytes.len() { Ok(blocks) } else { Err(format!("{} bytes follow the last URI", bytes.len() - at)) }
}

/// Returns how many bytes `a` and `b` begin with in common, up to a character of `b`.
#[inline]
pub(super) fn shared_len(a: &str, b: &str) -> usize {
    let (x, y) = (a.as_bytes(), b.as_bytes());
    let words = x.chunks_exact(8).zip(y.chunks_exact(8)).take_while(|(x, y)| x == y).count();
    let bytes = x[8 * words..].iter().zip(&y[8 * words..]).take_while(|(x, y)| x == y).count();
    // A cut within a character of `b` is one of `a` too, since both have the same bytes before it.
    let cut = 8 * words + bytes;
    (0..=cut).rev().find(|&cut| b.is_char_boundary(cut) && a.is_char_boundary(cut)).unwrap_or(0)
}

/// Returns the extension of the last part of `uri` with its dot, or nothing.
pub(super) fn extension(uri: &str) -> &str {
    match uri.rfind(['.', '/']) {
        Some(at) if uri.as_bytes()[at] == b'.' && uri.len() - at <= MAX_EXTENSION => &uri[at..],
        _ => "",
    }
}

#[inline]
fn put_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        // OK because the upper bits follow in the next byte.
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[inline]
fn take_number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    // Nine bytes hold 63 bits, more than any length needs.
    for shift in (0..63).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_extension_follows_the_last_slash() {
        assert_eq!(extension("s3://b/a.tar.gz"), ".gz");
        assert_eq!(extension("s3://b.c/a"), "");
        assert_eq!(extension("s3://b/a."), ".");
        assert_eq!(extension("s3://b/a.this is no extension"), "");
    }

    #[test]
    fn what_is_shared_ends_at_a_character() {
        // U+00E4 and U+00E5 begin with the same byte.
        assert_eq!(shared_len("s3://ä", "s3://å"), 5);
        assert_eq!(shared_len("s3://ä", "s3://ä!"), 7);
        assert_eq!(shared_len("", "x"), 0);
    }

    #[test]
    fn faulty_entries_are_refused() {
        let check = |bytes: &[u8], len| check("ab", ".c", bytes, len, 16).unwrap_err();
        assert_eq!(check(&[0, 0], 2), "2 bytes can't hold 2 URIs");
        assert_eq!(check(&[0, 4, b'x'], 1), "URI 0 is cut");
        assert_eq!(check(&[3, 0], 1), "URI 0 shares more than there is");
        assert_eq!(check(&[2, 0, 3, 0], 2), "URI 1 shares more than there is");
        assert_eq!(check(&[0, 2, 0xff], 1), "URI 0 is no text, or shares more than there is");
        assert_eq!(check(&[0, 4, 0xc3, 0xa4, 1, 0], 2), "URI 1 is no text, or shares more than there is");
        assert_eq!(check(&[0, 0, 0], 1), "1 bytes follow the last URI");
        assert_eq!(check(&[0x80; 20], 1), "URI 0 is cut");
    }

    proptest! {
        #[test]
        fn numbers_come_back(number in 0..1u64 << 63) {
            let mut bytes = Vec::new();
            put_number(number, &mut bytes);
            let mut at = 0;
            prop_assert_eq!(take_number(&bytes, &mut at), Some(number));
            prop_assert_eq!(at, bytes.len());
        }
    }
}
