//! Arrow record batches and Parquet files.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Int8Type, UInt16Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int8Array, Int64Array, LargeStringArray, RecordBatch, StringArray,
    StringViewArray, UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use planfetch_index::{ColumnSettings, IndexError, SampleIndex, load_index_parquet, read_index_batches};

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn read(batches: &[RecordBatch], settings: &ColumnSettings) -> Result<SampleIndex, IndexError> {
    read_index_batches(batches.iter().cloned().map(Ok::<_, ArrowError>), "train", settings)
}

fn uris(n: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..n).map(|i| format!("s3://b/{i}"))))
}

#[track_caller]
fn check_error(columns: [(&str, ArrayRef); 2], expected: &str) {
    let error = read(&[batch(columns)], &ColumnSettings::default()).expect_err("faulty");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn strings_are_read_from_any_type_of_them() {
    let texts = vec!["s3://b/x", "s3://b/y", "s3://b/x"];
    let columns: [ArrayRef; 5] = [
        Arc::new(StringArray::from(texts.clone())),
        Arc::new(LargeStringArray::from(texts.clone())),
        Arc::new(StringViewArray::from(texts.clone())),
        Arc::new(texts.iter().copied().collect::<DictionaryArray<Int8Type>>()),
        Arc::new(DictionaryArray::<UInt16Type>::new(
            vec![1, 0, 1].into(),
            Arc::new(LargeStringArray::from(vec!["s3://b/y", "s3://b/x"])),
        )),
    ];
    for column in columns {
        // The same column does for labels: they are then names.
        let batch = batch([("s3_uri", Arc::clone(&column)), ("label", column)]);
        let index = read(&[batch.slice(0, 1), batch.slice(1, 2)], &ColumnSettings::default()).unwrap();
        assert_eq!(index.uris().iter().collect::<Vec<_>>(), texts);
        assert_eq!(index.labels(), [0, 1, 0]);
        assert_eq!(index.class_names(), ["s3://b/x", "s3://b/y"]);
    }
}

#[test]
fn integers_are_read_from_any_type_of_them() {
    let columns: [ArrayRef; 4] = [
        Arc::new(Int8Array::from(vec![1, 0])),
        Arc::new(Int64Array::from(vec![1, 0])),
        Arc::new(UInt32Array::from(vec![1, 0])),
        Arc::new(DictionaryArray::<Int8Type>::new(vec![1, 0].into(), Arc::new(UInt64Array::from(vec![0, 1])))),
    ];
    let settings = ColumnSettings {
        size_col: Some("n".into()),
        offset_col: Some("n".into()),
        length_col: Some("n".into()),
        label_col: "n".into(),
        ..ColumnSettings::default()
    };
    for column in columns {
        let index = read(&[batch([("s3_uri", uris(2)), ("n", column)])], &settings).unwrap();
        assert_eq!(index.labels(), [1, 0]);
        assert_eq!(index.sizes(), Some(&[1, 0][..]));
        assert_eq!((index.range(0), index.range(1)), (Some(1..2), Some(0..0)));
    }
}

#[test]
fn faults_are_named_with_row_and_column() {
    let ints = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
    check_error(
        [("s3_uri", uris(2)), ("label", ints(vec![Some(1), None]))],
        "train: row 2, column \"label\": \"\" is null; give every row a value, or leave the row out",
    );
    check_error(
        [("s3_uri", uris(1)), ("label", ints(vec![Some(1 << 32)]))],
        "train: row 1, column \"label\": \"4294967296\" is no integer in 0..=4294967295; where labels are names of \
         classes, set the kind of label to Name",
    );
    check_error(
        [("s3_uri", uris(1)), ("label", Arc::new(Float64Array::from(vec![1.0])))],
        "train: column \"label\" is of type Float64, and integers or strings are needed; cast it, or name another column",
    );
    check_error(
        [("s3_uri", ints(vec![Some(1)])), ("label", ints(vec![Some(1)]))],
        "train: column \"s3_uri\" is of type Int64, and strings are needed; cast it, or name another column",
    );
    check_error(
        [("s3_url", uris(1)), ("label", ints(vec![Some(1)]))],
        "train has no column \"s3_uri\"; its columns are [\"s3_url\", \"label\"]; name the one that holds the URI, \
         perhaps \"s3_url\"",
    );
    check_error(
        [
            ("s3_uri", Arc::new(StringArray::from(vec!["s3://b/1", "s3://c/1"]))),
            ("label", ints(vec![Some(1), Some(1)])),
        ],
        "train: row 2, column \"s3_uri\": \"s3://c/1\" lies in another bucket than the first row, \"s3://b\"; make one \
         index for each bucket, or set the prefix to what all rows share, such as \"s3://\"",
    );
    check_error(
        [("s3_uri", uris(0)), ("label", ints(vec![]))],
        "train holds no samples; an index is a column of URIs, a column of labels, and one row for each sample",
    );
}

#[test]
fn nulls_of_dictionaries_are_nulls() {
    let keys = DictionaryArray::<Int8Type>::new(vec![Some(0), None].into(), Arc::new(StringArray::from(vec!["a"])));
    let values =
        DictionaryArray::<Int8Type>::new(vec![0, 1].into(), Arc::new(StringArray::from(vec![Some("a"), None])));
    let empty = DictionaryArray::<Int8Type>::new(
        Int8Array::from(vec![None, None]),
        Arc::new(StringArray::from(Vec::<&str>::new())),
    );
    for (labels, row) in [(keys, 2), (values, 2), (empty, 1)] {
        check_error(
            [("s3_uri", uris(2)), ("label", Arc::new(labels))],
            &format!("train: row {row}, column \"label\": \"\" is null; give every row a value, or leave the row out"),
        );
    }
}

#[test]
fn a_batch_that_fails_is_an_error() {
    let batches = [Ok(batch([("s3_uri", uris(3)), ("label", Arc::new(Int8Array::from(vec![1, 1, 1])))])), Err("torn")];
    let error = read_index_batches(batches, "train", &ColumnSettings::default()).unwrap_err();
    assert_eq!(error.to_string(), "train: row 4: can't be read: torn");
}

/// Writes 1,000 rows in row groups of 100, with a column that is not needed.
fn write(path: &Path, compression: Compression) {
    let labels: ArrayRef = Arc::new(StringArray::from_iter_values((0..1_000).map(|i| format!("class {}", i % 7))));
    let images: ArrayRef = Arc::new(StringArray::from_iter_values((0..1_000).map(|i| "x".repeat(i))));
    let batch = batch([("image", images), ("label", labels), ("s3_uri", uris(1_000))]);
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(Some(100)).set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn a_parquet_file_is_read_over_all_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.parquet");
    let mut compressions = vec![Compression::UNCOMPRESSED, Compression::SNAPPY];
    if cfg!(feature = "parquet-zstd") {
        compressions.push(Compression::ZSTD(Default::default()));
    }
    for compression in compressions {
        write(&path, compression);
        let index = load_index_parquet(&path, &ColumnSettings::default()).unwrap();
        assert_eq!(index.len(), 1_000);
        assert_eq!(index.uri(999).as_deref(), Some("s3://b/999"));
        assert_eq!(index.label(999), Some(5));
        assert_eq!(index.class_name(6), Some("class 6"));
    }
}

#[test]
fn a_parquet_file_that_is_cut_or_damaged_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.parquet");
    write(&path, Compression::SNAPPY);
    let whole = std::fs::read(&path).unwrap();
    for len in [0, 3, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..len]).unwrap();
        let message = load_index_parquet(&path, &ColumnSettings::default()).expect_err("cut").to_string();
        assert!(message.contains("train.parquet: is no Parquet file or was cut short ("), "{message}");
    }
    // The end is there, and the pages are not: rows are read until the first that can't be.
    let mut damaged = whole.clone();
    damaged[4..whole.len() / 2].fill(0xff);
    std::fs::write(&path, &damaged).unwrap();
    let message = load_index_parquet(&path, &ColumnSettings::default()).expect_err("damaged").to_string();
    assert!(message.contains("train.parquet: row 1: can't be read: "), "{message}");

    let error = load_index_parquet("/nowhere.parquet", &ColumnSettings::default()).unwrap_err();
    assert_eq!(error.to_string(), "can't read the index /nowhere.parquet");
}

#[test]
fn columns_that_are_called_offset_and_length_are_ranges_in_all_batches_or_in_none() {
    let labels = || -> ArrayRef { Arc::new(UInt32Array::from(vec![0, 0])) };
    let integers = |a: Option<i64>, b: Option<i64>| -> ArrayRef { Arc::new(Int64Array::from(vec![a, b])) };
    let ranges = |offsets: ArrayRef| {
        batch([("s3_uri", uris(2)), ("label", labels()), ("offset", offsets), ("length", integers(Some(5), Some(6)))])
    };
    let plain = batch([("s3_uri", uris(2)), ("label", labels())]);
    let good = ranges(integers(Some(1), Some(10)));
    let read = |batches: &[&RecordBatch]| {
        read(&batches.iter().map(|batch| (*batch).clone()).collect::<Vec<_>>(), &ColumnSettings::default())
    };
    let index = read(&[&good.slice(0, 0), &good, &good]).unwrap();
    assert_eq!((index.range(0), index.range(3)), (Some(1..6), Some(10..16)));
    // The first row holds none.
    let seconds: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0]));
    for offsets in [seconds, integers(None, Some(1)), integers(Some(-1), Some(1))] {
        assert!(!read(&[&ranges(offsets), &good]).unwrap().has_ranges());
    }
    assert!(!read(&[&plain, &good]).unwrap().has_ranges());
    let error = read(&[&good, &plain]).expect_err("half of the samples").to_string();
    assert!(error.starts_with("train has no column \"offset\""), "{error}");
    let error = read(&[&ranges(integers(Some(1), None))]).expect_err("half of the samples").to_string();
    assert!(error.starts_with("train: row 2, column \"offset\": \"\" is null"), "{error}");
}
