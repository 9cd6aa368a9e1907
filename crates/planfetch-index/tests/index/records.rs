//! CSV is what the csv crate takes for CSV, read in whatever pieces, and bounded.

use std::io::{self, Read};

use planfetch_index::{CsvSettings, IndexError, LabelKind, SampleIndex, read_index_csv};
use proptest::prelude::*;

fn read(csv: &str, settings: &CsvSettings) -> Result<SampleIndex, IndexError> {
    read_index_csv(csv.as_bytes(), "train.csv", settings)
}

fn settings() -> CsvSettings {
    CsvSettings {
        size_col: Some("size".into()),
        offset_col: Some("from".into()),
        length_col: Some("bytes".into()),
        ..CsvSettings::default()
    }
}

/// Hands out a few bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(buffer.len()).min(self.0.len());
        buffer[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

#[test]
fn sizes_and_ranges_are_read_where_settings_name_them() {
    let index = read("bytes,from,size,label,s3_uri\n5,10,100,1,s3://b/shard\n", &settings()).unwrap();
    assert_eq!((index.size(0), index.range(0)), (Some(100), Some(10..15)));
    assert_eq!((index.size(1), index.range(1)), (None, None));
    assert!(index.has_ranges());

    let index = read("bytes,from,size,label,s3_uri\n5,10,a lot,1,s3://b/shard\n", &CsvSettings::default()).unwrap();
    assert_eq!((index.size(0), index.range(0), index.has_ranges()), (None, None, false));
}

#[test]
fn numbers_of_bytes_that_can_not_be_are_named() {
    let message = |row: &str| {
        read(&format!("s3_uri,label,size,from,bytes\n{row}\n"), &settings()).expect_err("faulty").to_string()
    };
    for (row, column, value) in [
        ("s3://b/1,0,-1,0,1", "size", "-1"),
        ("s3://b/1,0,1,1.5,1", "from", "1.5"),
        ("s3://b/1,0,1,1,18446744073709551616", "bytes", "18446744073709551616"),
    ] {
        assert_eq!(
            message(row),
            format!(
                "train.csv: row 1 (line 2), column \"{column}\": \"{value}\" is no integer in \
                 0..=18446744073709551615; give a number of bytes"
            )
        );
    }
    assert_eq!(
        message("s3://b/1,0,1,9,18446744073709551610"),
        "train.csv: row 1 (line 2), column \"bytes\": \"18446744073709551610\" reaches beyond byte \
         18446744073709551615 from offset 9 on; correct offset or length"
    );
    assert!(message("s3://b/1,0,,0,1").contains("column \"size\": \"\" is empty"));
}

#[test]
fn columns_that_are_called_offset_and_length_are_ranges_where_they_can_be() {
    let read = |csv: &str| read(csv, &CsvSettings::default());
    let range = |header: &str, row: &str| read(&format!("{header}\n{row}\n")).unwrap().range(0);
    let header = "length,s3_uri,offset,label";
    assert_eq!(range(header, "5,s3://b/1,10,0"), Some(10..15));
    assert_eq!(range(header, "0,s3://b/1,0,0"), Some(0..0));
    // Seconds, nothing, and one of the two.
    for row in ["2.5,s3://b/1,10,0", "5,s3://b/1,-1,0", ",s3://b/1,,0", "5,s3://b/1,,0", "long,s3://b/1,10,0"] {
        assert_eq!(range(header, row), None, "{row}");
    }
    assert_eq!(range("s3_uri,label,offset", "s3://b/1,0,3"), None);
    assert_eq!(range("s3_uri,label,length", "s3://b/1,0,3"), None);
    assert_eq!(range("s3_uri,label,offset,offset,length", "s3://b/1,0,3,3,3"), None);
    // The first row decides, and a later one that is not like it is no sample without a range.
    let error = read(&format!("{header}\n5,s3://b/1,10,0\n2.5,s3://b/1,10,0\n")).expect_err("half of it");
    assert_eq!(
        error.to_string(),
        "train.csv: row 2 (line 3), column \"length\": \"2.5\" is no integer in 0..=18446744073709551615; give a \
         number of bytes, or set ranges to Named where samples are whole objects"
    );
}

#[test]
fn columns_that_are_named_are_meant_and_no_others() {
    let csv = "s3_uri,label,offset,length,from,bytes,size\ns3://b/1,0,1,1,7,2,9\n";
    assert_eq!(read(csv, &settings()).unwrap().range(0), Some(7..9));
}

#[test]
fn an_offset_without_a_length_is_a_mistake_of_the_settings() {
    let settings = CsvSettings { offset_col: Some("from".into()), ..CsvSettings::default() };
    assert_eq!(
        read("s3_uri,label,from\ns3://b/1,0,1\n", &settings).expect_err("half a range").to_string(),
        "offset_col is set without length_col; a byte range needs both, a whole object none"
    );
}

#[test]
fn the_nearest_column_is_named() {
    let message = read("S3_URI,label\ns3://b/1,0\n", &CsvSettings::default()).expect_err("upper case").to_string();
    assert_eq!(
        message,
        "train.csv has no column \"s3_uri\"; its columns are [\"S3_URI\", \"label\"]; \
         name the one that holds the URI, perhaps \"S3_URI\""
    );
}

#[test]
fn another_bucket_is_named_unless_the_prefix_lets_it_through() {
    let csv = "s3_uri,label\ns3://a/1,0\ns3://b/1,0\n";
    assert_eq!(
        read(csv, &CsvSettings::default()).expect_err("two buckets").to_string(),
        "train.csv: row 2 (line 3), column \"s3_uri\": \"s3://b/1\" lies in another bucket than the first row, \
         \"s3://a\"; make one index for each bucket, or set the prefix to what all rows share, such as \"s3://\""
    );
    let with = |prefix: &str| read(csv, &CsvSettings { prefix: Some(prefix.into()), ..CsvSettings::default() });
    assert_eq!(with("s3://").unwrap().len(), 2);
    assert_eq!(
        with("s3://a/").expect_err("outside").to_string(),
        "train.csv: row 2 (line 3), column \"s3_uri\": \"s3://b/1\" does not begin with the prefix \"s3://a/\"; \
         leave the row out, or ask for a prefix that all rows share"
    );
}

#[test]
fn lines_are_counted_with_any_line_end() {
    for end in ["\n", "\r\n"] {
        let csv = ["s3_uri,label", "", "\"s3://b/1\",0", "", "", "s3://b/2,0", "s3://b/3,"].join(end);
        let message = read(&csv, &CsvSettings::default()).expect_err("no label").to_string();
        assert!(message.starts_with("train.csv: row 3 (line 7), column \"label\""), "{message}");
    }
}

#[test]
fn a_field_without_an_end_is_refused_before_it_fills_memory() {
    for (begin, column) in
        [("s3_uri,label\ns3://b/1,0\n\"", "s3_uri"), ("s3_uri,label\ns3://b/1,0\ns3://b/2,", "label")]
    {
        // It has 2 GiB, of which only a part may be read.
        let mut file = begin.as_bytes().chain(io::repeat(b'x').take(2 << 30));
        let message = read_index_csv(&mut file, "train.csv", &CsvSettings::default()).expect_err("huge").to_string();
        assert!(message.starts_with(&format!("train.csv: row 2 (line 3), column \"{column}\": \"xxx")), "{message}");
        assert!(message.ends_with(
            "begins what makes the row longer than 16777216 bytes; close the quotes that are open, or leave the row out"
        ));
        assert!(message.len() < 500);
        assert!(file.into_inner().1.limit() > 1 << 30, "it was read to the end");
    }
    // The same in the header, and a row of nothing but delimiters.
    let message = read_index_csv(io::repeat(b'x').take(1 << 25), "x", &CsvSettings::default()).expect_err("huge");
    assert!(message.to_string().starts_with("x: row 0 (line 1), column \"number 1\""), "{message}");
    assert!(read_index_csv(io::repeat(b',').take(1 << 25), "x", &CsvSettings::default()).is_err());
}

#[test]
fn a_long_line_with_many_columns_is_read() {
    let names: String = (0..1_000).map(|i| format!("c{i},")).collect();
    let caption = "word ".repeat(50_000);
    let row = format!("{}{caption},s3://b/1,7\n", ",".repeat(1_000));
    let index = read(&format!("{names}caption,s3_uri,label\n{row}{row}"), &CsvSettings::default()).unwrap();
    assert_eq!(index.labels(), [7, 7]);
}

#[test]
fn labels_of_ten_digits_and_with_zeros_in_front_are_integers() {
    let settings = CsvSettings { label_kind: LabelKind::Integer, ..CsvSettings::default() };
    let rows = "s3://b/1,4294967295\ns3://b/2,007\ns3://b/3,0\ns3://b/4,123456789\n";
    let index = read(&format!("s3_uri,label\n{rows}"), &settings).unwrap();
    assert_eq!(index.labels(), [u32::MAX, 7, 0, 123_456_789]);
    assert_eq!(index.class_counts().len(), 4);
}

/// What the csv crate reads, as `(uri, label)` of the first two of its columns.
fn oracle(csv: &[u8], delimiter: u8) -> Option<Vec<(String, String)>> {
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(csv);
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.ok()?;
        rows.push((record[0].to_owned(), record[1].to_owned()));
    }
    Some(rows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn records_are_those_of_the_csv_crate(
        fields in prop::collection::vec("(s3://b/)?[ab\",\r\n é;]{0,6}[,;]?(\r\n|\n|\r|\"\"|)", 0..24),
        piece in 1..40_usize,
        delimiter in prop::sample::select(&b",;"[..]),
        mark in any::<bool>(),
    ) {
        let begin = if mark { "\u{feff}" } else { "" };
        let separator = char::from(delimiter);
        let csv = format!("{begin}s3_uri{separator}label\n{}", fields.concat());
        let settings = CsvSettings {
            label_kind: LabelKind::Name, delimiter, prefix: Some(String::new()), ..CsvSettings::default()
        };
        let index = read_index_csv(Pieces(csv.as_bytes(), piece), "x", &settings);
        let expected = oracle(csv.as_bytes(), delimiter);
        match (&index, &expected) {
            (Ok(index), Some(rows)) => {
                let found = (0..rows.len().max(index.len() as usize)).map(|row| {
                    let name = index.label(row).and_then(|label| index.class_name(label));
                    (index.uri(row).unwrap_or_default(), name.unwrap_or_default().to_owned())
                });
                prop_assert_eq!(&found.collect::<Vec<_>>(), rows);
            }
            (Err(_), None) => {}
            // We ask for more than fields: a scheme and a label.
            (Err(_), Some(rows)) => prop_assert!(
                rows.is_empty()
                    || rows.iter().any(|(uri, label)| !uri.starts_with("s3://") || uri.len() < 6 || label.is_empty())
            ),
            (Ok(index), None) => prop_assert!(false, "{index:?} of what the csv crate refuses: {csv:?}"),
        }
    }
}
