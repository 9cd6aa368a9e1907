//! Validation samples with the labels of training.

use planfetch_index::{CsvSettings, IndexBuilder, IndexError, LabelKind, SampleIndex, read_index_csv};
use proptest::prelude::*;

/// An index of one sample of each class.
fn named(classes: &[&str]) -> SampleIndex {
    let rows: String = classes.iter().enumerate().map(|(i, class)| format!("s3://b/{i},{class}\n")).collect();
    let settings = CsvSettings { label_kind: LabelKind::Name, ..CsvSettings::default() };
    read_index_csv(format!("s3_uri,label\n{rows}").as_bytes(), "x", &settings).unwrap()
}

fn numbered(labels: &[u32]) -> SampleIndex {
    SampleIndex::from_rows(labels.iter().map(|&label| (format!("s3://b/{label}"), label))).unwrap()
}

#[test]
fn all_else_of_a_sample_stays_as_it_is() {
    let mut builder = IndexBuilder::new("x").with_class_names(["cat", "ape"]);
    builder.push_sample("s3://b/1", 0, Some(70), Some(10..20)).unwrap();
    builder.push_sample("s3://b/2", 1, Some(80), Some(20..30)).unwrap();
    let (index, other) = (builder.build().unwrap(), named(&["ape", "bat", "cat"]));
    let relabelled = index.with_classes_of(&other).unwrap();
    assert_eq!(relabelled.labels(), [2, 0]);
    assert_eq!((relabelled.uris(), relabelled.sizes()), (index.uris(), index.sizes()));
    assert_eq!((relabelled.range(0), relabelled.range(1)), (Some(10..20), Some(20..30)));
    assert_eq!((relabelled.class_names(), relabelled.num_classes()), (other.class_names(), 3));
    // It can be written and read as any other.
    assert_eq!(SampleIndex::from_bytes(&relabelled.to_bytes(), "x").unwrap(), relabelled);
}

#[test]
fn a_class_that_was_not_trained_is_named_with_what_to_do() {
    let (train, valid) = (named(&["ape", "cat"]), named(&["ape", "zebra", "cat", "emu"]));
    let error = valid.with_classes_of(&train).unwrap_err();
    assert!(matches!(&error, IndexError::Class { class, row: 1, .. } if class == "zebra"), "{error:?}");
    assert_eq!(
        error.to_string(),
        "class \"zebra\" of row 1, \"s3://b/1\", is none of the 2 classes of the other index; correct the name, leave \
         its rows out, or add samples of the class to the other index"
    );
    let error = named(&["Cat"]).with_classes_of(&train).unwrap_err().to_string();
    assert!(error.contains("of the other index, perhaps \"cat\"; correct the name"), "{error}");
    // Without its rows, a class is no obstacle, although its name is still there.
    let rest = valid.filter(|row| !matches!(valid.class_name(row.label), Some("zebra" | "emu")));
    assert_eq!(rest.class_names().len(), 4);
    assert_eq!(rest.with_classes_of(&train).unwrap().labels(), [0, 1]);
}

#[test]
fn labels_without_names_are_those_of_the_other_index_or_none() {
    for (label, other, ok) in [
        (0, numbered(&[2]), true),
        (2, numbered(&[2]), true),
        (3, numbered(&[2]), false),
        (1, named(&["ape", "cat"]), true),
        (2, named(&["ape", "cat"]), false),
        (0, numbered(&[]), false),
        (u32::MAX, numbered(&[u32::MAX]), true),
    ] {
        let index = numbered(&[label]);
        match index.with_classes_of(&other) {
            Ok(relabelled) => {
                assert!(ok, "{label}");
                assert_eq!(relabelled.labels(), [label]);
                assert_eq!(relabelled.num_classes(), other.num_classes());
                assert_eq!(relabelled.class_names(), other.class_names());
            }
            Err(error) => {
                assert!(!ok, "{label}: {error}");
                let expected = format!(
                    "class \"{label}\" of row 0, \"s3://b/{label}\", is none of the {} classes of the other index, \
                     which are numbered from 0; correct the label, leave the row out, or add samples of the class to the \
                     other index",
                    other.num_classes()
                );
                assert_eq!(error.to_string(), expected);
            }
        }
    }
}

#[test]
fn names_are_not_matched_with_numbers() {
    let error = named(&["ape"]).with_classes_of(&numbered(&[6])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "can't put the indices together: this one names its classes, and the other has 7 without names; make them \
         alike first"
    );
}

proptest! {
    #[test]
    fn every_sample_keeps_the_name_of_its_class(
        mine in prop::collection::btree_set("[a-e]{1,2}", 1..8),
        others in prop::collection::btree_set("[a-e]{1,2}", 1..20),
    ) {
        let mine: Vec<&str> = mine.iter().map(String::as_str).collect();
        let other = named(&others.iter().map(String::as_str).collect::<Vec<_>>());
        match named(&mine).with_classes_of(&other) {
            Ok(index) => {
                let names: Vec<_> = index.labels().iter().map(|&label| other.class_name(label)).collect();
                prop_assert_eq!(names, mine.iter().copied().map(Some).collect::<Vec<_>>());
            }
            Err(error) => {
                let missing = mine.iter().find(|name| !others.contains(**name));
                let expected = format!("class {:?} of row", missing.expect("all are there"));
                prop_assert!(error.to_string().starts_with(&expected), "{}", error);
            }
        }
    }
}
