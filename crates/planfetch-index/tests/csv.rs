//! What can stand in a CSV index, and what each fault of one says.

use planfetch_index::{CsvSettings, IndexError, LabelKind, SampleIndex, read_index_csv};
use proptest::prelude::*;

fn read(csv: &str) -> Result<SampleIndex, IndexError> {
    read_index_csv(csv.as_bytes(), "train.csv", &CsvSettings::default())
}

#[track_caller]
fn check_error(csv: &str, expected: &str) {
    let error = read(csv).expect_err("the file is faulty");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn columns_are_found_by_name() {
    let index = read("size,label,s3_uri\n10,4,s3://b/k\n").unwrap();
    assert_eq!((index.uri(0).as_deref(), index.label(0)), (Some("s3://b/k"), Some(4)));
    assert_eq!(index.num_classes(), 5);
}

#[test]
fn quotes_crlf_a_byte_order_mark_and_a_missing_final_newline_are_read() {
    let index = read("\u{feff}s3_uri,label\r\n\"s3://b/a, \"\"b\"\".jpg\",1\r\ns3://b/c.jpg,2").unwrap();
    assert_eq!(index.uri(0).as_deref(), Some("s3://b/a, \"b\".jpg"));
    assert_eq!(index.labels(), [1, 2]);
}

#[test]
fn names_become_labels_in_an_order_that_rows_do_not_change() {
    let index = read("s3_uri,label\ns3://b/1,dog\ns3://b/2,cat\ns3://b/3,dog\ns3://b/4,ape\n").unwrap();
    assert_eq!(index.labels(), [2, 1, 2, 0]);
    assert_eq!(index.num_classes(), 3);
    assert_eq!(
        (0..4).map(|label| index.class_name(label)).collect::<Vec<_>>(),
        [Some("ape"), Some("cat"), Some("dog"), None]
    );
}

#[test]
fn integers_are_names_where_the_settings_say_so() {
    let settings = CsvSettings { label_kind: LabelKind::Name, ..CsvSettings::default() };
    let index = read_index_csv("s3_uri,label\ns3://b/1,10\ns3://b/2,9\n".as_bytes(), "x", &settings).unwrap();
    assert_eq!(index.labels(), [0, 1]);
    assert_eq!(index.class_name(0), Some("10"));
}

#[test]
fn select_keeps_the_classes_and_leaves_out_rows_that_do_not_exist() {
    let index = read("s3_uri,label\ns3://b/1,0\ns3://b/2,1\ns3://b/3,2\n").unwrap().select([1, 0, 7]);
    assert_eq!(index.uris().iter().collect::<Vec<_>>(), ["s3://b/2", "s3://b/1"]);
    assert_eq!(index.labels(), [1, 0]);
    assert_eq!(index.num_classes(), 3);
}

#[test]
fn a_missing_column_lists_those_that_exist() {
    check_error(
        "uri,label\ns3://b/k,0\n",
        r#"train.csv has no column "s3_uri"; its columns are ["uri", "label"]; name the one that holds the URI"#,
    );
    check_error(
        "s3_uri,class\ns3://b/k,0\n",
        r#"train.csv has no column "label"; its columns are ["s3_uri", "class"]; name the one that holds the label"#,
    );
}

#[test]
fn a_column_that_occurs_twice_is_refused() {
    check_error(
        "s3_uri,label,label\ns3://b/k,0,1\n",
        r#"train.csv has 2 columns named "label"; rename all but one, since which is meant can't be told"#,
    );
}

#[test]
fn a_row_without_a_label_is_named() {
    check_error(
        "s3_uri,label\ns3://b/1,0\ns3://b/2,\n",
        r#"train.csv: row 2 (line 3), column "label": "" is empty; give every row a value, or leave the row out"#,
    );
}

#[test]
fn a_label_of_another_kind_than_the_first_is_named() {
    let problem = "is no integer in 0..=4294967295; where labels are names of classes, set the kind of label to Name";
    for label in ["cat", "-1", "1.5", "4294967296"] {
        check_error(
            &format!("s3_uri,label\ns3://b/1,0\ns3://b/2,{label}\n"),
            &format!("train.csv: row 2 (line 3), column \"label\": {label:?} {problem}"),
        );
    }
    // A negative first label is a mistaken integer, not the name of a class.
    check_error(
        "s3_uri,label\ns3://b/1,-1\n",
        &format!("train.csv: row 1 (line 2), column \"label\": \"-1\" {problem}"),
    );
}

#[test]
fn a_uri_without_a_scheme_is_named() {
    let advice = "write s3://bucket/key, or file:///absolute/path for a local file";
    for (uri, problem) in [
        ("images/1.jpg", "has no scheme"),
        ("/images/1.jpg", "has no scheme"),
        ("s3:/b/1.jpg", "has no scheme"),
        ("://b/1.jpg", "does not start with a valid scheme"),
        ("s 3://b/1.jpg", "does not start with a valid scheme"),
        ("s3://", "names no object"),
    ] {
        check_error(
            &format!("s3_uri,label\n{uri},0\n"),
            &format!("train.csv: row 1 (line 2), column \"s3_uri\": {uri:?} {problem}; {advice}"),
        );
    }
}

#[test]
fn a_ragged_row_is_named() {
    check_error(
        "s3_uri,label\ns3://b/1,0\ns3://b/2,0,1\n",
        "train.csv: row 2 (line 3): has 3 fields where the header has 2; quote fields that hold the delimiter",
    );
}

#[test]
fn lines_are_counted_as_an_editor_shows_them() {
    check_error(
        "s3_uri,label\n\"s3://b/two\nlines\",0\ns3://b/2,\n",
        r#"train.csv: row 2 (line 4), column "label": "" is empty; give every row a value, or leave the row out"#,
    );
}

#[test]
fn an_empty_file_and_a_header_alone_are_errors() {
    let expected = "train.csv holds no rows; an index is a header such as \"s3_uri,label\" and one row per sample";
    check_error("", expected);
    check_error("s3_uri,label\n", expected);
}

#[test]
fn bytes_that_are_no_utf8_are_named() {
    let error =
        read_index_csv(&b"s3_uri,label\ns3://b/\xff,0\n"[..], "train.csv", &CsvSettings::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "train.csv: row 1 (line 2), column \"s3_uri\": \"s3://b/\u{fffd}\" is no UTF-8 from byte 7 on; write the file as UTF-8"
    );
}

#[test]
fn a_huge_value_is_cut_in_the_message() {
    let error = read(&format!("s3_uri,label\n{},0\n", "x".repeat(100_000))).unwrap_err();
    assert!(error.to_string().len() < 500, "{} bytes", error.to_string().len());
}

#[test]
fn a_file_that_does_not_exist_is_named() {
    let error = planfetch_index::load_index_csv("/nowhere/train.csv", &CsvSettings::default()).unwrap_err();
    assert_eq!(error.to_string(), "can't read the index /nowhere/train.csv");
    assert!(std::error::Error::source(&error).is_some());
}

proptest! {
    #[test]
    fn uris_come_back_byte_for_byte(keys in prop::collection::vec("[^\r\n\"]{1,40}", 1..20)) {
        let csv: String = keys.iter().map(|key| format!("\"s3://b/{key}\",0\n")).collect();
        let index = read(&format!("s3_uri,label\n{csv}")).unwrap();
        let uris: Vec<String> = keys.iter().map(|key| format!("s3://b/{key}")).collect();
        prop_assert_eq!(index.uris().iter().collect::<Vec<_>>(), uris);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut csv = b"s3_uri,label\n".to_vec();
        csv.extend(&bytes);
        let _ = read_index_csv(&bytes[..], "x", &CsvSettings::default());
        let _ = read_index_csv(&csv[..], "x", &CsvSettings::default());
    }
}
