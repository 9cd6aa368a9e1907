//! Blocks of URIs as they stand in the buffer.
//!
//! A block is the length of its heads, the heads of its URIs, and then the texts of its URIs. Heads lie together so
//! that a URI is found with one look at memory rather than by going from text to text.
//!
//! A head is two numbers in LEB128: how many bytes the URI shares with the one before it in the block (the first: with
//! the first URI of the list), and twice the number of bytes of its text, plus one where the extension that the list
//! keeps once ends the URI. The text is what comes after the shared bytes and before that extension. What is shared
//! ends at a character, so that each text is valid UTF-8 by itself.

/// The number of URIs in a block.
///
/// Twice as many would save a quarter of a byte of offset for each URI and a bit of text, and double the number of
/// heads that [`UriList::get`](super::UriList::get) has to look at.
pub(super) const BLOCK: usize = 16;

/// Longer extensions are none: a key `a.b c d e …` has a last dot too.
const MAX_EXTENSION: usize = 16;

/// What is known of a URI before its text.
#[derive(Clone, Copy, Default)]
pub(super) struct Head {
    /// How many bytes of the base the URI begins with.
    pub(super) shared: usize,
    /// The length of its text.
    pub(super) text_len: usize,
    /// Whether the list's extension comes last.
    pub(super) has_tail: bool,
}

impl Head {
    #[inline]
    pub(super) fn encode(self, heads: &mut Vec<u8>) {
        put_number(self.shared as u64, heads);
        // OK because no text is longer than half of the address space.
        put_number((self.text_len as u64) << 1 | u64::from(self.has_tail), heads);
    }

    /// Reads the head at `at` and moves `at` behind it; `None` where there is none.
    #[inline]
    pub(super) fn decode(heads: &[u8], at: &mut usize) -> Option<Self> {
        if let Some(&[shared, word]) = heads.get(*at..*at + 2)
            && (shared | word) < 0x80
        {
            // As most are.
            *at += 2;
            return Some(Self { shared: shared.into(), text_len: usize::from(word >> 1), has_tail: word & 1 == 1 });
        }
        let shared = usize::try_from(take_number(heads, at)?).ok()?;
        let word = take_number(heads, at)?;
        Some(Self { shared, text_len: usize::try_from(word >> 1).ok()?, has_tail: word & 1 == 1 })
    }
}

/// A block, or what there is of the last one. The texts may be followed by other blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block<'a> {
    pub(super) heads: &'a [u8],
    pub(super) texts: &'a [u8],
}

impl<'a> Block<'a> {
    /// Appends the block that consists of `heads` and `texts`.
    pub(super) fn encode(heads: &[u8], texts: &[u8], bytes: &mut Vec<u8>) {
        put_number(heads.len() as u64, bytes);
        bytes.extend_from_slice(heads);
        bytes.extend_from_slice(texts);
    }

    /// Finds the block at the beginning of `bytes`.
    #[inline]
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut at = 0;
        let heads_len = usize::try_from(take_number(bytes, &mut at)?).ok()?;
        let (heads, texts) = bytes[at..].split_at_checked(heads_len)?;
        Some(Self { heads, texts })
    }

    /// Replaces what `buffer` holds with URI `index` of the block without its extension, and returns its head.
    pub(super) fn write(self, index: usize, reference: &str, buffer: &mut String) -> Option<Head> {
        // The shared bytes and where the text begins, of the URIs up to this one; and where the last text ends.
        let mut entries = [(0, 0); BLOCK];
        let (mut at, mut end) = (0, 0_usize);
        let mut head = Head::default();
        for entry in entries.get_mut(..=index)? {
            head = Head::decode(self.heads, &mut at)?;
            *entry = (head.shared, end);
            end = end.checked_add(head.text_len)?;
        }
        let texts = self.texts.get(..end)?;
        let mut bytes = std::mem::take(buffer).into_bytes();
        bytes.clear();
        bytes.resize(head.shared.checked_add(head.text_len)?, 0);
        // What this URI shares is put together from back to front: the text before it has the last of these bytes,
        // unless it shares them too, and so on, so that only texts are touched that hold a part of it.
        let mut needed = bytes.len();
        for &(shared, start) in entries[..=index].iter().rev() {
            if shared < needed {
                let text = texts.get(start..start + (needed - shared))?;
                bytes[shared..needed].copy_from_slice(text);
                needed = shared;
            }
        }
        bytes[..needed].copy_from_slice(reference.as_bytes().get(..needed)?);
        *buffer = String::from_utf8(bytes).ok()?;
        Some(head)
    }
}

/// Returns where each block starts, or what is wrong with the `len` URIs of `bytes`.
pub(super) fn check(reference: &str, tail: &str, bytes: &[u8], len: usize) -> Result<Vec<u64>, String> {
    // A head takes two bytes at least, so that a huge length is refused before memory is taken for it.
    if len > bytes.len() / 2 {
        return Err(format!("{} bytes can't hold {len} URIs", bytes.len()));
    }
    let mut starts = Vec::with_capacity(len.div_ceil(BLOCK));
    // All that a URI of ASCII can have wrong are the numbers in its head, and looking at these takes less time.
    let is_ascii = reference.is_ascii() && tail.is_ascii() && bytes.is_ascii();
    let mut buffer = String::new();
    let mut start = 0;
    for first in (0..len).step_by(BLOCK) {
        starts.push(start as u64);
        let block = Block::decode(&bytes[start..]).ok_or_else(|| format!("the block of URI {first} is cut"))?;
        let (mut at, mut text, mut base_len) = (0, 0_usize, reference.len());
        for index in first..len.min(first + BLOCK) {
            let fault = |what: &str| format!("URI {index} {what}");
            let head = Head::decode(block.heads, &mut at).ok_or_else(|| fault("is cut"))?;
            let end = text.checked_add(head.text_len).filter(|&end| end <= block.texts.len());
            let end = end.ok_or_else(|| fault("is cut"))?;
            if head.shared > base_len {
                return Err(fault("shares more than there is"));
            }
            if !is_ascii {
                if index == first {
                    reference.clone_into(&mut buffer);
                }
                let text = std::str::from_utf8(&block.texts[text..end]).ok();
                let text = text.filter(|_| buffer.is_char_boundary(head.shared));
                let text = text.ok_or_else(|| fault("is cut within a character"))?;
                buffer.truncate(head.shared);
                buffer.push_str(text);
            }
            (text, base_len) = (end, head.shared + head.text_len);
        }
        if at != block.heads.len() {
            return Err(format!("the block of URI {first} has more heads than URIs"));
        }
        start = bytes.len() - block.texts.len() + text;
    }
    if start == bytes.len() { Ok(starts) } else { Err(format!("{} bytes follow the last URI", bytes.len() - start)) }
}

/// Returns how many bytes `a` and `b` begin with in common, up to a character of both.
#[inline]
pub(super) fn shared_len(a: &str, b: &str) -> usize {
    let ((x, x_rest), (y, y_rest)) = (a.as_bytes().as_chunks::<8>(), b.as_bytes().as_chunks::<8>());
    let n_words = x.len().min(y.len());
    let cut = match x.iter().zip(y).position(|(x, y)| x != y) {
        Some(word) => {
            let difference = u64::from_le_bytes(x[word]) ^ u64::from_le_bytes(y[word]);
            // OK because it is at most 8.
            8 * word + (difference.trailing_zeros() / 8) as usize
        }
        None => {
            let x_rest = if x.len() == n_words { x_rest } else { &x[n_words] };
            let y_rest = if y.len() == n_words { y_rest } else { &y[n_words] };
            8 * n_words + x_rest.iter().zip(y_rest).take_while(|(x, y)| x == y).count()
        }
    };
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
    fn faulty_blocks_are_refused() {
        let check = |bytes: &[u8], len| check("ab", ".c", bytes, len).unwrap_err();
        assert_eq!(check(&[2, 0, 0], 2), "3 bytes can't hold 2 URIs");
        assert_eq!(check(&[3, 0, 4], 1), "the block of URI 0 is cut");
        assert_eq!(check(&[2, 0, 4, b'x'], 1), "URI 0 is cut");
        assert_eq!(check(&[1, 0, 4, b'x'], 1), "URI 0 is cut");
        assert_eq!(check(&[2, 3, 0], 1), "URI 0 shares more than there is");
        assert_eq!(check(&[4, 2, 0, 3, 0], 2), "URI 1 shares more than there is");
        assert_eq!(check(&[2, 0, 2, 0xff], 1), "URI 0 is cut within a character");
        assert_eq!(check(&[4, 0, 4, 1, 0, 0xc3, 0xa4], 2), "URI 1 is cut within a character");
        assert_eq!(check(&[4, 0, 0, 0, 0], 1), "the block of URI 0 has more heads than URIs");
        assert_eq!(check(&[2, 0, 0, 0], 1), "1 bytes follow the last URI");
        assert_eq!(check(&[0x80; 20], 1), "the block of URI 0 is cut");
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

        #[test]
        fn what_is_shared_is_what_byte_by_byte_comparison_finds(
            common in "[a-bä]{0,20}", a in "[a-bäå]{0,20}", b in "[a-bäå]{0,20}",
        ) {
            let (a, b) = (common.clone() + &a, common + &b);
            let same = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).map(|(x, _)| x.len_utf8()).sum::<usize>();
            prop_assert_eq!(shared_len(&a, &b), same);
        }
    }
}
