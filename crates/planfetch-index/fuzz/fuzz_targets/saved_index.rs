//! A saved index is read as it was written or not at all, and whatever is read can be used.

#![no_main]

use libfuzzer_sys::fuzz_target;
use planfetch_index::{IndexBuilder, SampleIndex, SplitBy};

fuzz_target!(|input: (Vec<(String, u8)>, Vec<(u16, u8)>, bool, bool, bool, Vec<u8>)| {
    let (rows, changes, sizes, ranges, stamp, bytes) = input;
    // Any bytes, with and without the mark at their beginning.
    use_it(SampleIndex::from_bytes(&bytes, "x").ok());
    use_it(SampleIndex::from_bytes(&[b"planfidx\x01\0\0\0", &bytes[..]].concat(), "x").ok());

    let mut builder = IndexBuilder::new("x");
    for (key, label) in &rows {
        let size = sizes.then_some(u64::from(*label) << 30);
        let range = ranges.then_some(u64::from(*label)..300);
        builder.push_sample(&format!("s3://b/{key}"), (*label).into(), size, range).expect("it is valid");
    }
    let index = builder.build().expect("no class has a name");
    let saved = index.to_bytes();
    assert_eq!(SampleIndex::from_bytes(&saved, "x").expect("it was saved"), index);

    let mut damaged = saved.clone();
    for (at, xor) in changes {
        let at = usize::from(at) % damaged.len();
        damaged[at] ^= xor;
    }
    if !stamp {
        if damaged != saved {
            // CRC-32 finds all damage to few bytes; more could come out the same once in four billion times.
            let loaded = SampleIndex::from_bytes(&damaged, "x").ok();
            assert!(loaded.is_none_or(|loaded| loaded == index), "damage makes another index");
        }
    } else {
        // With checksums that are right, what is wrong has to be found behind them.
        restamp(&mut damaged);
        use_it(SampleIndex::from_bytes(&damaged, "x").ok());
    }
});

/// Looks at all there is in an index.
fn use_it(index: Option<SampleIndex>) {
    let Some(index) = index else { return };
    let uris: Vec<String> = index.uris().iter().collect();
    assert_eq!(uris.len() as u64, index.len());
    for (row, uri) in uris.iter().enumerate() {
        assert_eq!(index.uri(row).as_ref(), Some(uri), "reading in order and at random differ");
        let _ = (index.label(row).expect("a label"), index.size(row), index.range(row));
    }
    assert_eq!(index.class_counts().values().sum::<u64>(), index.len());
    let _ = index.describe().to_string();
    for by in [SplitBy::Sample, SplitBy::Folder, SplitBy::ExactPerClass] {
        let _ = index.split(0.5, 0.2, by, 1).expect("shares in range");
    }
    let mut grown = (**index.uris()).clone();
    grown.push("s3://b/one/more");
    assert_eq!(grown.get(uris.len()).as_deref(), Some("s3://b/one/more"));
    // The entries may be packed in another way than ours, so the bytes need not be the same.
    assert_eq!(SampleIndex::from_bytes(&index.to_bytes(), "x").expect("it was just written"), index);
}

/// Makes the checksums right, as far as the lengths in the header make sense.
fn restamp(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let rows = number(bytes, 16);
    let lens = [
        64,
        number(bytes, 32).saturating_add(number(bytes, 40)),
        number(bytes, 48),
        rows.saturating_mul(bytes[12].into()),
        number(bytes, 56),
        rows.saturating_mul(bytes[13].into()),
        rows.saturating_mul(if bytes[14] == 1 { 16 } else { 0 }),
    ];
    let mut at = 0_usize;
    for len in lens {
        let Some(end) = usize::try_from(len).ok().and_then(|len| at.checked_add(len)) else { return };
        if end.checked_add(4).is_none_or(|end| end > bytes.len()) {
            return;
        }
        let crc = crc32fast::hash(&bytes[at..end]);
        bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
        at = end + 4;
    }
}
