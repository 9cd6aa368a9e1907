//! What an index is said to hold.

use std::collections::{BTreeMap, BTreeSet};

use planfetch_index::{IndexBuilder, SampleIndex};
use proptest::prelude::*;

#[test]
fn a_description_counts() {
    let mut builder = IndexBuilder::new("x").with_prefix("s3://").with_class_names(["cat", "dog", "eel"]);
    for (uri, label, size) in [
        ("s3://b/train/cat/1.jpg", 0, 10),
        ("s3://b/train/dog/1.jpg", 1, 20),
        ("s3://b/train/dog/2.jpg", 1, 30),
        ("s3://c/more/dog/2.jpg", 1, 40),
    ] {
        builder.push_sample(uri, label, Some(size), None).unwrap();
    }
    let description = builder.build().unwrap().describe();
    assert_eq!((description.rows, description.bytes, description.duplicates), (4, Some(100), 0));
    assert_eq!(description.buckets, [("s3://b/".to_owned(), 3), ("s3://c/".to_owned(), 1)]);
    let classes: Vec<_> = description.classes.iter().map(|class| (class.name.as_deref(), class.rows)).collect();
    assert_eq!(classes, [(Some("cat"), 1), (Some("dog"), 3), (Some("eel"), 0)]);

    let spread: Vec<_> =
        description.spread.iter().map(|s| (s.depth, s.prefixes, &*s.largest, s.largest_rows)).collect();
    assert_eq!(
        spread,
        [(0, 2, "s3://b/", 3), (1, 2, "s3://b/train/", 3), (2, 3, "s3://b/train/dog/", 2)],
        "deeper, nothing more is told apart"
    );
    // Half of the samples lie in one prefix, which serves 5,500 a second.
    assert_eq!(description.spread[2].max_gets_per_second, 11_000.0);

    assert_eq!(
        description.to_string(),
        "4 samples of 3 classes, 100 bytes\n\
         0 rows repeat an earlier one\n\
         bucket s3://b/: 3\n\
         bucket s3://c/: 1\n\
         class 0 (cat): 1\n\
         class 1 (dog): 3\n\
         class 2 (eel): 0\n\
         0 folders deep: 2 prefixes, at best 7333 GET/s in random order; 3 of 4 samples in s3://b/\n\
         1 folders deep: 2 prefixes, at best 7333 GET/s in random order; 3 of 4 samples in s3://b/train/\n\
         2 folders deep: 3 prefixes, at best 11000 GET/s in random order; 2 of 4 samples in s3://b/train/dog/\n"
    );
}

#[test]
fn samples_of_one_object_are_no_duplicates() {
    let mut builder = IndexBuilder::new("x");
    for range in [0..10, 10..30, 0..10] {
        builder.push_sample("s3://b/shard", 0, None, Some(range)).unwrap();
    }
    let description = builder.build().unwrap().describe();
    assert_eq!((description.duplicates, description.bytes), (1, Some(40)));
}

#[test]
fn an_empty_index_has_a_description() {
    let description = SampleIndex::from_rows::<&str>([]).unwrap().describe();
    assert_eq!((description.rows, description.bytes), (0, None));
    assert!(description.spread.is_empty() && description.classes.is_empty());
    assert!(description.to_string().starts_with("0 samples of 0 classes, sizes unknown"));
}

#[test]
fn what_is_not_shown_is_counted() {
    let index = SampleIndex::from_rows((0..30).map(|i| (format!("s3://b{}/k", i % 12), i))).unwrap();
    let text = index.describe().to_string();
    assert!(text.contains("and 2 more buckets") && text.contains("and 20 more classes"), "{text}");
}

proptest! {
    #[test]
    fn counts_are_those_of_a_map(keys in prop::collection::vec("[ab]{1,2}(/[ab]{0,2}){0,6}", 0..60)) {
        let uris: Vec<String> = keys.iter().map(|key| format!("s3://b/{key}")).collect();
        let index = SampleIndex::from_rows(uris.iter().map(|uri| (uri, 0))).unwrap();
        let description = index.describe();
        let distinct: BTreeSet<&String> = uris.iter().collect();
        prop_assert_eq!(description.duplicates as usize, uris.len() - distinct.len());
        for spread in &description.spread {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for key in &keys {
                let folders: Vec<&str> = key.split('/').collect();
                let depth = spread.depth.min(folders.len() - 1);
                let prefix: String = folders[..depth].iter().map(|folder| format!("{folder}/")).collect();
                *counts.entry(format!("s3://b/{prefix}")).or_default() += 1;
            }
            prop_assert_eq!(spread.prefixes as usize, counts.len());
            prop_assert_eq!(spread.largest_rows, *counts.values().max().unwrap());
            prop_assert_eq!(spread.largest_rows, counts[&spread.largest]);
        }
    }
}
