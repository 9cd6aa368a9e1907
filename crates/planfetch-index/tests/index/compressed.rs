//! CSV files that are compressed.

use std::io::{self, Read, Write};

use planfetch_index::{CsvSettings, IndexError, SampleIndex, read_index_csv};
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// `s3_uri,label` and a row, by version 1.5 of the reference program, with a checksum.
const FIRST_FRAME: &[u8] = &[
    0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x11, 0x01, 0x00, 0x73, 0x33, 0x5f, 0x75, 0x72, 0x69, 0x2c, 0x6c, 0x61, 0x62,
    0x65, 0x6c, 0x0a, 0x73, 0x33, 0x3a, 0x2f, 0x2f, 0x62, 0x2f, 0x63, 0x61, 0x74, 0x2f, 0x31, 0x2e, 0x6a, 0x70, 0x67,
    0x2c, 0x63, 0x61, 0x74, 0x0a, 0x44, 0xc9, 0x7f, 0x7a,
];

/// A row, by the same program.
const SECOND_FRAME: &[u8] = &[
    0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0xa9, 0x00, 0x00, 0x73, 0x33, 0x3a, 0x2f, 0x2f, 0x62, 0x2f, 0x64, 0x6f, 0x67,
    0x2f, 0x32, 0x2e, 0x6a, 0x70, 0x67, 0x2c, 0x64, 0x6f, 0x67, 0x0a, 0xaa, 0x21, 0x8c, 0xbf,
];

/// A frame without data, as programs that compress in parallel write.
const SKIPPED_FRAME: &[u8] = &[0x50, 0x2a, 0x4d, 0x18, 0x03, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03];

fn read(bytes: &[u8]) -> Result<SampleIndex, IndexError> {
    read_index_csv(bytes, "train.csv", &CsvSettings::default())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn csv(n: usize) -> Vec<u8> {
    let mut csv = String::from("s3_uri,label\n");
    (0..n).for_each(|i| csv += &format!("s3://b/{}/{i}.jpg,{}\n", i * i % 1009, i % 7));
    csv.into_bytes()
}

#[test]
fn gzip_and_zstandard_are_known_by_their_first_bytes() {
    let plain = csv(20_000);
    let expected = read(&plain).unwrap();
    assert_eq!(expected.len(), 20_000);
    assert_eq!(read(&gzip(&plain)).unwrap(), expected);
    assert_eq!(read(&compress_to_vec(&plain[..], CompressionLevel::Fastest)).unwrap(), expected);
}

#[test]
fn members_and_frames_follow_each_other() {
    let plain = csv(100);
    let (a, b) = plain.split_at(777);
    assert_eq!(read(&[gzip(a), gzip(b)].concat()).unwrap(), read(&plain).unwrap());

    for frames in [&[FIRST_FRAME, SECOND_FRAME][..], &[FIRST_FRAME, SKIPPED_FRAME, SECOND_FRAME, SKIPPED_FRAME]] {
        let index = read(&frames.concat()).unwrap();
        assert_eq!(index.uris().iter().collect::<Vec<_>>(), ["s3://b/cat/1.jpg", "s3://b/dog/2.jpg"]);
        assert_eq!(index.class_names(), ["cat", "dog"]);
    }
}

#[test]
fn what_is_cut_short_is_an_error_with_the_row_at_any_length() {
    let plain = csv(50);
    for (name, whole) in [("gzip", gzip(&plain)), ("Zstandard", compress_to_vec(&plain[..], CompressionLevel::Fastest))]
    {
        for len in 4..whole.len() {
            let message = read(&whole[..len]).expect_err("cut").to_string();
            assert!(message.starts_with("train.csv: row "), "{len} of {}: {message}", whole.len());
            assert!(message.contains(&format!("the {name} data is cut short or damaged here")), "{message}");
        }
    }
    // The rows that came out before the cut are counted.
    let big = gzip(&csv(100_000));
    let message = read(&big[..big.len() / 2]).expect_err("cut").to_string();
    let row: u64 = message.split(' ').nth(2).unwrap().trim_end_matches(':').parse().unwrap();
    assert!((30_000..70_000).contains(&row), "{message}");
}

#[test]
fn a_checksum_that_does_not_match_is_an_error() {
    let mut frame = FIRST_FRAME.to_vec();
    *frame.last_mut().unwrap() ^= 1;
    let message = read(&frame).expect_err("damaged").to_string();
    assert!(message.contains("the checksum does not match"), "{message}");

    let mut member = gzip(&csv(3));
    let crc = member.len() - 8;
    member[crc] ^= 1;
    assert!(read(&member).is_err());
}

#[test]
fn an_error_of_the_file_is_no_damage() {
    struct Broken(Vec<u8>);
    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(buffer.len()).min(10);
            if n == 0 {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0.drain(..n);
            Ok(n)
        }
    }
    let plain = csv(50);
    for bytes in [gzip(&plain)[..60].to_vec(), plain[..100].to_vec()] {
        let error = read_index_csv(Broken(bytes), "train.csv", &CsvSettings::default()).expect_err("broken");
        assert!(matches!(error, IndexError::Read { .. }), "{error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>()) {
        let _ = read(&[&[0x1f, 0x8b, 8, 0][..], &bytes].concat());
        let _ = read(&[&[0x28, 0xb5, 0x2f, 0xfd][..], &bytes].concat());
        let mut frame = [FIRST_FRAME, SECOND_FRAME].concat();
        let at = at.index(frame.len());
        frame[at] ^= bytes.first().copied().unwrap_or(1);
        let _ = read(&frame);
    }
}
