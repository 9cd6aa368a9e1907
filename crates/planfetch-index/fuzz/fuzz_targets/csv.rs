//! Records are those of the csv crate, whatever pieces they come in.

#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use planfetch_index::{CsvSettings, LabelKind, read_index_csv};

struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(buffer.len()).min(self.0.len());
        buffer[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

fuzz_target!(|input: (&[u8], u8, bool)| {
    let (bytes, piece, with_header) = input;
    // Compressed files included, since their first bytes decide.
    let header: &[u8] = if with_header { b"s3_uri,label\n" } else { b"" };
    let csv = [header, bytes].concat();
    let settings =
        CsvSettings { label_kind: LabelKind::Name, prefix: Some(String::new()), ..CsvSettings::default() };
    let index = read_index_csv(Pieces(&csv, usize::from(piece) + 1), "x", &settings);
    if csv.starts_with(&[0x1f, 0x8b]) || csv.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return;
    }
    let Ok(index) = index else { return };
    let mut reader = csv::Reader::from_reader(&csv[..]);
    let headers = reader.byte_headers().expect("there are rows").clone();
    let column = |name: &[u8]| headers.iter().position(|header| header == name).expect("it was found");
    let (uri, label) = (column(b"s3_uri"), column(b"label"));
    let mut rows = 0;
    for record in reader.byte_records() {
        let record = record.expect("we read it too");
        assert_eq!(index.uri(rows).as_deref().map(str::as_bytes), Some(&record[uri]));
        let name = index.label(rows).and_then(|label| index.class_name(label));
        assert_eq!(name.map(str::as_bytes), Some(&record[label]));
        rows += 1;
    }
    assert_eq!(rows as u64, index.len());
});
