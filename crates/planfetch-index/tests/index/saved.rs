//! Indices that are saved and loaded.

use std::path::Path;

use planfetch_index::{IndexBuilder, IndexError, SampleIndex};
use proptest::prelude::*;

fn small() -> SampleIndex {
    let mut builder = IndexBuilder::new("small").with_class_names(["cat", "dög"]);
    builder.push_sample("s3://b/shard-1.tar", 0, Some(300), Some(0..256)).unwrap();
    builder.push_sample("s3://b/shard-1.tar", 1, Some(1 << 40), Some(256..300)).unwrap();
    builder.push_sample("s3://b/shard-2.é", 1, Some(0), Some(0..0)).unwrap();
    builder.build().unwrap()
}

fn message(bytes: &[u8]) -> String {
    SampleIndex::from_bytes(bytes, "x.index").expect_err("faulty").to_string()
}

/// Puts right the checksum of the header, as a program would that writes what we do not.
fn with_header(mut bytes: Vec<u8>, at: usize, value: &[u8]) -> Vec<u8> {
    bytes[at..at + value.len()].copy_from_slice(value);
    let crc = crc32fast::hash(&bytes[..64]);
    bytes[64..68].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn the_bytes_of_a_saved_index_never_change() {
    // Files that were saved are read for years: a change here needs the next VERSION, and a test that reads these.
    let hex: String = small().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = [
        "706c616e666964780100000001080101030000000000000002000000000000000e000000000000000400000000000000",
        "0b000000000000000f000000000000003f109c2973333a2f2f622f73686172642d312e746172395d6ee1060e010e010d",
        "08322ec3a9c7dabf92000101c5d85d91030000006361740400000064c3b66742df5c5e2c010000000000000000000000",
        "0100000000000000000000afa3e1bc0000000000000000000100000000000000010000000000002c0000000000000000",
        "000000000000000000000000000000760c3bf7",
    ]
    .concat();
    assert_eq!(hex, expected);
}

#[test]
fn files_come_back_and_are_replaced_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.index");
    small().save(&path).unwrap();
    assert_eq!(SampleIndex::load(&path).unwrap(), small());
    let other = SampleIndex::from_rows((0..100_000).map(|i| (format!("s3://b/{i}"), i))).unwrap();
    other.save(&path).unwrap();
    assert_eq!(SampleIndex::load(&path).unwrap(), other);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file was left behind");
}

#[test]
fn what_can_not_be_written_or_read_is_named() {
    let error = small().save("/nowhere/x.index").unwrap_err();
    assert_eq!(error.to_string(), "can't write the index /nowhere/x.index");
    assert!(matches!(small().save(Path::new("/")), Err(IndexError::Write { .. })));
    let error = SampleIndex::load("/nowhere/x.index").unwrap_err();
    assert_eq!(error.to_string(), "can't read the index /nowhere/x.index");
}

#[test]
fn another_file_and_another_version_are_told_apart() {
    assert_eq!(
        message(b"s3_uri,label\n"),
        "x.index: is no saved index, which begins with \"planfidx\"; make one with SampleIndex::save"
    );
    assert!(message(b"").starts_with("x.index: is no saved index"));
    let bytes = with_header(small().to_bytes(), 8, &2_u32.to_le_bytes());
    assert_eq!(
        message(&bytes),
        "x.index: is a saved index of version 2, and this program reads version 1; save the index again"
    );
}

#[test]
fn a_file_of_another_length_is_an_error() {
    let bytes = small().to_bytes();
    for len in 8..bytes.len() {
        let message = message(&bytes[..len]);
        assert!(message.starts_with("x.index: ") && message.contains("cut short"), "{len}: {message}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(message(&longer).contains("bytes long where its header asks for"));
}

#[test]
fn a_bit_that_is_wrong_is_an_error_wherever_it_is() {
    let index = SampleIndex::from_rows((0..40).map(|i| (format!("s3://b/é/{}/{i}.jpg", i / 7), i * 100))).unwrap();
    for bytes in [small().to_bytes(), index.to_bytes()] {
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            SampleIndex::from_bytes(&damaged, "x").expect_err("a bit is wrong");
        }
    }
}

#[test]
fn lengths_that_no_file_has_take_no_memory() {
    for at in [16, 32, 40, 48, 56] {
        for len in [1_u64 << 33, 1 << 62, u64::MAX] {
            let bytes = with_header(small().to_bytes(), at, &len.to_le_bytes());
            assert!(message(&bytes).contains("header asks for"), "{}", message(&bytes));
        }
    }
    // What each field can't be.
    for (at, value) in [(12, 3), (13, 5), (14, 2), (15, 9), (28, 1), (31, 1)] {
        let bytes = with_header(small().to_bytes(), at, &[value]);
        assert!(message(&bytes).ends_with("the header says what this version does not know; save the index again"));
    }
    // Fewer classes than labels need, the largest label included.
    let index = SampleIndex::from_rows([("s3://b/1", u32::MAX)]).unwrap();
    assert_eq!(SampleIndex::from_bytes(&index.to_bytes(), "x").unwrap(), index);
    let bytes = with_header(index.to_bytes(), 24, &5_u32.to_le_bytes());
    assert!(message(&bytes).ends_with("labels and classes do not go together"));
    let bytes = with_header(small().to_bytes(), 24, &1_u32.to_le_bytes());
    assert!(message(&bytes).ends_with("labels and classes do not go together"));
}

prop_compose! {
    fn indices()(
        rows in prop::collection::vec(("[a-d/é]{0,12}(.jpg)?", 0..4_u32, any::<u64>(), any::<(u32, u32)>()), 0..80),
        names in any::<bool>(), sizes in any::<bool>(), ranges in any::<bool>(), scale in prop::sample::select(&[1_u32, 500, 1 << 30][..]),
    ) -> SampleIndex {
        let mut builder = IndexBuilder::new("x");
        if names {
            builder = builder.with_class_names(["ä", "", "c", "a long name of a class"]);
        }
        for (key, label, size, (offset, length)) in rows {
            let label = if names { label } else { label * scale };
            let range = u64::from(offset)..u64::from(offset) + u64::from(length);
            builder.push_sample(&format!("s3://b/{key}"), label, sizes.then_some(size), ranges.then_some(range)).unwrap();
        }
        builder.build().unwrap()
    }
}

proptest! {
    #[test]
    fn an_index_comes_back_and_can_grow(index in indices()) {
        let loaded = SampleIndex::from_bytes(&index.to_bytes(), "x").unwrap();
        prop_assert_eq!(&loaded, &index);
        prop_assert_eq!(loaded.to_bytes(), index.to_bytes());

        // The last block of its URIs is not full, and takes more of them.
        let mut uris = (**loaded.uris()).clone();
        uris.push("s3://b/one/more.jpg");
        let expected: Vec<String> = index.uris().iter().chain(["s3://b/one/more.jpg".to_owned()]).collect();
        prop_assert_eq!(uris.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn damage_is_an_error_and_never_another_index(
        index in indices(),
        places in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..5),
    ) {
        let bytes = index.to_bytes();
        let mut damaged = bytes.clone();
        places.iter().for_each(|(at, xor)| damaged[at.index(bytes.len())] ^= xor);
        if damaged != bytes {
            prop_assert!(SampleIndex::from_bytes(&damaged, "x").is_err());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = SampleIndex::from_bytes(&bytes, "x");
        let _ = SampleIndex::from_bytes(&[b"planfidx\x01\0\0\0", &bytes[..]].concat(), "x");
    }
}
