//! The beginning of a saved index: what it is, and how long each part of it.

const MAGIC: &[u8; 8] = b"planfidx";

/// The version of the layout. A change of what is written, as a test of the bytes shows, needs the next number.
const VERSION: u32 = 1;

/// The length of a header without its checksum.
pub(super) const HEADER: usize = 64;

/// The parts after the header, each of which ends in a checksum.
const SECTIONS: u64 = 6;

/// The length of a checksum.
pub(super) const CHECKSUM: u64 = 4;

/// What the parts hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Header {
    pub(super) rows: u64,
    pub(super) num_classes: u32,
    pub(super) has_names: bool,
    /// Bytes for each label: 1, 2 or 4.
    pub(super) label_width: u8,
    /// Bytes for each size: 4 or 8, or 0 where there are none.
    pub(super) size_width: u8,
    pub(super) has_ranges: bool,
    pub(super) reference_len: u64,
    pub(super) tail_len: u64,
    pub(super) entries_len: u64,
    pub(super) names_len: u64,
}

impl Header {
    pub(super) fn to_bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12] = self.label_width;
        bytes[13] = self.size_width;
        bytes[14] = u8::from(self.has_ranges);
        bytes[15] = u8::from(self.has_names);
        bytes[16..24].copy_from_slice(&self.rows.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.num_classes.to_le_bytes());
        for (at, len) in [(32, self.reference_len), (40, self.tail_len), (48, self.entries_len), (56, self.names_len)] {
            bytes[at..at + 8].copy_from_slice(&len.to_le_bytes());
        }
        bytes
    }

    /// Reads the header of a file of `len` bytes, or says why it can't be one.
    pub(super) fn from_bytes(bytes: &[u8; HEADER], len: u64) -> Result<Self, String> {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let small = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let header = Self {
            label_width: bytes[12],
            size_width: bytes[13],
            has_ranges: bytes[14] == 1,
            has_names: bytes[15] == 1,
            rows: number(16),
            num_classes: small(24),
            reference_len: number(32),
            tail_len: number(40),
            entries_len: number(48),
            names_len: number(56),
        };
        let is_known = matches!(header.label_width, 1 | 2 | 4) && matches!(header.size_width, 0 | 4 | 8);
        // All else in the header is zero, so that no two headers mean the same.
        if !is_known || header.to_bytes() != *bytes {
            return Err("the header says what this version does not know; save the index again".into());
        }
        match header.file_len() {
            Some(expected) if expected == len => Ok(header),
            Some(expected) => Err(format!(
                "is {len} bytes long where its header asks for {expected}: it was cut short or changed; save the index again"
            )),
            None => Err("the header asks for more bytes than a file can have; save the index again".into()),
        }
    }

    /// Returns how long the file must be, or `None` where no file can be so long.
    fn file_len(&self) -> Option<u64> {
        let ranges = if self.has_ranges { 16 } else { 0 };
        let row = u64::from(self.label_width) + u64::from(self.size_width) + ranges;
        let lens = [self.reference_len, self.tail_len, self.entries_len, self.names_len];
        let fixed = HEADER as u64 + CHECKSUM * (1 + SECTIONS);
        lens.into_iter().try_fold(fixed.checked_add(self.rows.checked_mul(row)?)?, u64::checked_add)
    }
}

/// Says why a file that begins with `bytes` is not to be read by this version, if it is not.
pub(super) fn check_version(bytes: &[u8]) -> Result<(), String> {
    if !bytes.starts_with(MAGIC) {
        return Err("is no saved index, which begins with \"planfidx\"; make one with SampleIndex::save".into());
    }
    match bytes.get(8..12).map(|version| u32::from_le_bytes(std::array::from_fn(|i| version[i]))) {
        Some(VERSION) => Ok(()),
        Some(version) => Err(format!(
            "is a saved index of version {version}, and this program reads version {VERSION}; save the index again"
        )),
        None => Err("is cut short within its header; save the index again".into()),
    }
}
