//! Indices made of indices.

use std::ops::Range;

use planfetch_index::{CsvSettings, IndexBuilder, LabelKind, SampleIndex, read_index_csv};
use proptest::prelude::*;

fn named(rows: &[(&str, &str)]) -> SampleIndex {
    let csv: String = rows.iter().map(|(uri, name)| format!("{uri},{name}\n")).collect();
    let settings = CsvSettings { label_kind: LabelKind::Name, ..CsvSettings::default() };
    read_index_csv(format!("s3_uri,label\n{csv}").as_bytes(), "x", &settings).unwrap()
}

/// An index with sizes and ranges; row `i` has label `i % 3`.
fn full(n: u32) -> SampleIndex {
    let mut builder = IndexBuilder::new("full").with_class_names(["a", "b", "c"]);
    for i in 0..u64::from(n) {
        let label = (i % 3) as u32;
        builder.push_sample(&format!("s3://b/{}", i / 2), label, Some(i * 10), Some(i..2 * i)).unwrap();
    }
    builder.build().unwrap()
}

/// All that a row says.
type Row = (String, u32, Option<u64>, Option<Range<u64>>);

fn rows(index: &SampleIndex) -> Vec<Row> {
    let mut rows = Vec::new();
    index.for_each(|row| {
        assert_eq!(row.row, rows.len());
        rows.push((row.uri.to_owned(), row.label, row.size, row.range));
    });
    rows
}

#[test]
fn filter_and_select_keep_all_parts_of_a_row() {
    let index = full(100);
    let all = rows(&index);
    let filtered = index.filter(|row| row.label == 1 && row.size.unwrap() > 300);
    let expected: Vec<_> = all.iter().filter(|row| row.1 == 1 && row.2 > Some(300)).cloned().collect();
    assert_eq!(rows(&filtered), expected);
    assert_eq!(filtered.class_names(), ["a", "b", "c"]);

    let selected = index.select([7, 100, 3, 7]);
    assert_eq!(rows(&selected), [7, 3, 7].map(|row: usize| all[row].clone()));
    assert_eq!(rows(&index.filter(|_| false)), []);
    assert_eq!(index.filter(|_| false).num_classes(), 3);
}

#[test]
fn concat_keeps_all_parts_of_a_row() {
    let index = full(40);
    let parts = [index.select(0..10), index.select(10..10), index.select(10..40)];
    assert_eq!(SampleIndex::concat(&parts).unwrap(), index);
    assert!(SampleIndex::concat([]).unwrap().is_empty());
}

#[test]
fn concat_matches_classes_by_name() {
    let a = named(&[("s3://b/1", "dog"), ("s3://b/2", "ape")]);
    let b = named(&[("s3://b/3", "cat"), ("s3://b/4", "dog")]);
    let both = SampleIndex::concat([&a, &b]).unwrap();
    let names: Vec<_> = both.labels().iter().map(|&label| both.class_name(label).unwrap()).collect();
    assert_eq!(names, ["dog", "ape", "cat", "dog"]);
    // Classes without samples stay.
    assert_eq!(SampleIndex::concat([&a.filter(|_| false), &b]).unwrap().class_names(), ["ape", "cat", "dog"]);
}

#[test]
fn concat_refuses_what_does_not_go_together() {
    let plain = SampleIndex::from_rows([("s3://b/1", 8)]).unwrap();
    let other = SampleIndex::from_rows([("s3://b/2", 2)]).unwrap();
    assert_eq!(SampleIndex::concat([&plain, &other]).unwrap().num_classes(), 9);
    assert_eq!(
        SampleIndex::concat([&plain, &named(&[("s3://b/2", "x")])]).expect_err("names").to_string(),
        "can't put the indices together: in index 1 classes have names, in index 0 classes have none; make them alike first"
    );
    let mut ranged = IndexBuilder::new("ranged");
    ranged.push_sample("s3://b/3", 0, None, Some(0..1)).unwrap();
    assert_eq!(
        SampleIndex::concat([&ranged.build().unwrap(), &plain]).expect_err("ranges").to_string(),
        "can't put the indices together: in index 0 samples are ranges of bytes, in index 1 samples are whole \
         objects; make them alike first"
    );
}

#[test]
fn concat_keeps_sizes_where_all_have_them() {
    let mut sized = IndexBuilder::new("sized");
    sized.push_sample("s3://b/1", 0, Some(5), None).unwrap();
    let sized = sized.build().unwrap();
    let plain = SampleIndex::from_rows([("s3://b/2", 0)]).unwrap();
    assert_eq!(SampleIndex::concat([&sized, &sized]).unwrap().sizes(), Some(&[5, 5][..]));
    assert_eq!(SampleIndex::concat([&sized, &plain]).unwrap().sizes(), None);
}

#[test]
fn classes_are_counted_whatever_their_labels() {
    let counts = |labels: &[u32]| {
        let index = SampleIndex::from_rows(labels.iter().map(|&label| ("s3://b/k", label))).unwrap();
        index.class_counts().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(counts(&[]), []);
    assert_eq!(counts(&[2, 0, 2]), [(0, 1), (2, 2)]);
    // A place for each label would take 32 GiB.
    assert_eq!(counts(&[u32::MAX, 0, u32::MAX]), [(0, 1), (u32::MAX, 2)]);
    let index = named(&[("s3://b/1", "dog"), ("s3://b/2", "ape")]).filter(|row| row.label == 1);
    assert_eq!(index.class_counts().into_iter().collect::<Vec<_>>(), [(0, 0), (1, 1)]);
}

proptest! {
    #[test]
    fn select_is_indexing(n in 0..50_u32, picks in prop::collection::vec(0..60_usize, 0..60)) {
        let index = full(n);
        let all = rows(&index);
        let expected: Vec<_> = picks.iter().filter_map(|&row| all.get(row).cloned()).collect();
        prop_assert_eq!(rows(&index.select(picks)), expected);
    }
}
