//! Indexes as tables for other programs.

use planfetch_index::{CsvSettings, IndexBuilder, RangeColumns, SampleIndex, read_index_csv};

/// An index with all that one can have, and names that need quotes.
fn full(rows: u32) -> SampleIndex {
    let mut builder = IndexBuilder::new("full").with_class_names(["a,b", "line\nbreak", "plain"]);
    for i in 0..rows {
        let uri = format!("s3://b/{}{i}", ["plain", "with, comma", "with \"quotes\"", "é ü %20"][i as usize % 4]);
        let start = u64::from(i) * 10;
        builder.push_sample(&uri, i % 3, Some(u64::from(i) + 100), Some(start..start + 7)).unwrap();
    }
    builder.build().unwrap()
}

#[test]
fn a_csv_file_holds_rows_labels_sizes_and_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.csv");
    let index = full(50);
    index.save_csv(&path).unwrap();
    let columns = |label: &str| CsvSettings {
        label_col: label.into(),
        size_col: Some("size".into()),
        offset_col: Some("offset".into()),
        length_col: Some("length".into()),
        ..CsvSettings::default()
    };
    let read = |label| planfetch_index::load_index_csv(&path, &columns(label)).unwrap();
    let by_number = read("label");
    assert_eq!(
        (by_number.uris(), by_number.labels(), by_number.sizes()),
        (index.uris(), index.labels(), index.sizes())
    );
    assert!((0..50).all(|row| by_number.range(row) == index.range(row)));
    // By name, everything comes back.
    assert_eq!(read("class_name"), index);
    // Nothing else was left behind.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn ranges_come_back_without_being_asked_for() {
    let index = full(5);
    let mut csv = Vec::new();
    index.write_csv(&mut csv).unwrap();
    let read = read_index_csv(&csv[..], "x", &CsvSettings::default()).unwrap();
    assert!((0..5).all(|row| read.range(row) == index.range(row) && read.range(row).is_some()));
    let named = CsvSettings { ranges: RangeColumns::Named, ..CsvSettings::default() };
    assert!(!read_index_csv(&csv[..], "x", &named).unwrap().has_ranges());
}

#[test]
fn what_an_index_has_not_is_no_column() {
    let index = SampleIndex::from_rows([("s3://b/1", 4)]).unwrap();
    let mut csv = Vec::new();
    index.write_csv(&mut csv).unwrap();
    assert_eq!(String::from_utf8(csv).unwrap(), "s3_uri,label\ns3://b/1,4\n");
}

#[test]
fn a_folder_that_is_not_there_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none/index.csv");
    let error = full(1).save_csv(&path).unwrap_err();
    assert_eq!(error.to_string(), format!("can't write the index {}", path.display()));
}

#[test]
fn paths_are_relative_to_the_base() {
    let settings = |base: &str| CsvSettings { base: Some(base.into()), ..CsvSettings::default() };
    for (base, path, expected) in [
        ("file:///data/", "cat/1.jpg", "file:///data/cat/1.jpg"),
        ("file:///data/", "/other/1.jpg", "file:///other/1.jpg"),
        ("s3://photos/train/", "cat/1.jpg", "s3://photos/train/cat/1.jpg"),
        ("s3://photos/train/", "/cat/1.jpg", "s3://photos/cat/1.jpg"),
        ("file:///data/", "s3://photos/1.jpg", "s3://photos/1.jpg"),
    ] {
        let csv = format!("s3_uri,label\n{path},0\n");
        let index = read_index_csv(csv.as_bytes(), "paths.csv", &settings(base)).unwrap();
        assert_eq!(index.uri(0).as_deref(), Some(expected));
    }
    // As `find . -name '*.jpg'` prints them, below the index and beside its folder.
    let csv = "s3_uri,label\n./cat/1.jpg,0\n../val/./2.jpg,1\n";
    let index = read_index_csv(csv.as_bytes(), "paths.csv", &settings("s3://photos/train/")).unwrap();
    assert_eq!(index.uris().iter().collect::<Vec<_>>(), ["s3://photos/train/cat/1.jpg", "s3://photos/val/2.jpg"]);
    let csv = "s3_uri,label\n./cat/1.jpg,0\n../../others/1.jpg,1\n";
    let error = read_index_csv(csv.as_bytes(), "paths.csv", &settings("s3://photos/train/")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "paths.csv: row 2 (line 3), column \"s3_uri\": \"../../others/1.jpg\" leads out of s3://photos/; \
         correct the path"
    );
    // A URI is taken as it is written.
    let csv = "s3_uri,label\ns3://photos/./1.jpg,0\n";
    let index = read_index_csv(csv.as_bytes(), "paths.csv", &settings("s3://photos/train/")).unwrap();
    assert_eq!(index.uri(0).as_deref(), Some("s3://photos/./1.jpg"));
    let csv = "s3_uri,label\ncat/1.jpg,0\n";
    let error = read_index_csv(csv.as_bytes(), "paths.csv", &CsvSettings::default()).unwrap_err();
    assert!(error.to_string().contains("\"cat/1.jpg\" has no scheme"), "{error}");
}

#[cfg(feature = "arrow")]
#[test]
fn a_parquet_file_holds_the_same_over_several_batches() {
    use planfetch_index::{ColumnSettings, load_index_parquet};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.parquet");
    let settings = ColumnSettings {
        label_col: "class_name".into(),
        size_col: Some("size".into()),
        offset_col: Some("offset".into()),
        length_col: Some("length".into()),
        ..ColumnSettings::default()
    };
    for rows in [1, 65_536, 140_000] {
        let index = full(rows);
        index.save_parquet(&path).unwrap();
        if rows == 1 {
            // One class alone is no class of three.
            assert_eq!(load_index_parquet(&path, &settings).unwrap().uris(), index.uris());
        } else {
            assert_eq!(load_index_parquet(&path, &settings).unwrap(), index);
        }
        let found = load_index_parquet(&path, &ColumnSettings::default()).unwrap();
        assert!((0..rows as usize).all(|row| found.range(row) == index.range(row)));
    }
}
