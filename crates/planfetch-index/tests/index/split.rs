//! Splits into training, validation and test samples.

use std::collections::BTreeMap;

use planfetch_index::{SampleIndex, Split, SplitBy};
use proptest::prelude::*;

fn index(n: u32) -> SampleIndex {
    SampleIndex::from_rows((0..n).map(|i| (format!("s3://b/patient_{}/{i}.jpg", i / 10), i % 5))).unwrap()
}

/// The part of each URI.
fn parts(split: &Split) -> BTreeMap<String, usize> {
    let parts = [&split.train, &split.val, &split.test].into_iter().enumerate();
    parts.flat_map(|(part, index)| index.uris().iter().map(move |uri| (uri, part))).collect()
}

#[test]
fn a_split_never_changes() {
    // A change moves samples from training to validation in data sets that were split before.
    let split = |by| index(40).split(0.5, 0.25, by, 1).unwrap();
    let digits = |by| parts(&split(by)).into_values().map(|part| part.to_string()).collect::<String>();
    assert_eq!(digits(SplitBy::Sample), "0120001211100201120200012112212112021000");
    assert_eq!(digits(SplitBy::Folder), "1111111111000000000000000000001111111111");
    assert_eq!(digits(SplitBy::ExactPerClass), "0010001101100101120200012022212002022000");
}

#[test]
fn samples_stay_where_they_are_when_data_is_added_or_shuffled() {
    for by in [SplitBy::Sample, SplitBy::Folder] {
        let before = parts(&index(1_000).split(0.7, 0.2, by, 3).unwrap());
        let grown = index(3_000);
        let after = parts(&grown.select((0..3_000).rev()).split(0.7, 0.2, by, 3).unwrap());
        assert!(before.iter().all(|(uri, part)| after[uri] == *part), "{by:?}");
    }
}

#[test]
fn the_seed_decides() {
    let split = |seed| index(1_000).split(0.5, 0.5, SplitBy::Sample, seed).unwrap();
    assert_eq!(split(1), split(1));
    assert_ne!(split(1), split(2));
}

#[test]
fn shares_are_kept_within_each_class() {
    let split = index(10_000).split(0.8, 0.1, SplitBy::Sample, 0).unwrap();
    for (label, n) in split.train.class_counts() {
        // Of 2,000, five standard deviations of 18 are allowed.
        assert!((1_510..=1_690).contains(&n), "{n} of class {label}");
    }
    let exact = index(10_000).split(0.8, 0.1, SplitBy::ExactPerClass, 0).unwrap();
    assert!(exact.train.class_counts().values().all(|&n| n == 1_600));
    assert!(exact.val.class_counts().values().all(|&n| n == 200));
    assert!(exact.test.class_counts().values().all(|&n| n == 200));
}

#[test]
fn few_samples_move_where_shares_are_exact() {
    let before = parts(&index(1_000).split(0.8, 0.1, SplitBy::ExactPerClass, 0).unwrap());
    let after = parts(&index(1_050).split(0.8, 0.1, SplitBy::ExactPerClass, 0).unwrap());
    let moved = before.iter().filter(|(uri, part)| after[*uri] != **part).count();
    assert!(moved <= 60, "{moved}");
}

#[test]
fn a_folder_stays_together() {
    let parts = parts(&index(1_000).split(0.6, 0.2, SplitBy::Folder, 5).unwrap());
    let mut folders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    parts.iter().for_each(|(uri, part)| folders.entry(uri.rsplit_once('/').unwrap().0).or_default().push(*part));
    assert_eq!(folders.len(), 100);
    assert!(folders.values().all(|parts| parts.iter().all(|part| *part == parts[0])));
    assert!((40..80).contains(&folders.values().filter(|parts| parts[0] == 0).count()));
}

#[test]
fn duplicates_go_together() {
    let twice = SampleIndex::from_rows((0..500).map(|i| (format!("s3://b/{}", i % 250), 0))).unwrap();
    let split = twice.split(0.5, 0.3, SplitBy::Sample, 0).unwrap();
    for part in [split.train, split.val, split.test] {
        let half = part.uris().len() / 2;
        assert_eq!(part.uris().slice(..half), part.uris().slice(half..));
    }
}

#[test]
fn shares_out_of_range_are_named() {
    for (train, val) in [(-0.1, 0.0), (1.1, 0.0), (0.6, 0.5), (f64::NAN, 0.1), (0.1, f64::INFINITY)] {
        let message = index(3).split(train, val, SplitBy::Sample, 0).expect_err("out of range").to_string();
        assert!(message.contains(&format!("train {train} and val {val}: each must be in 0.0..=1.0")), "{message}");
    }
    assert!(index(3).split(0.9, 0.1, SplitBy::Sample, 0).unwrap().test.is_empty());
}

proptest! {
    #[test]
    fn each_sample_is_in_one_part(
        n in 0..200_u32, train in 0.0..=1.0, val in 0.0..=1.0, seed: u64,
        by in prop::sample::select(&[SplitBy::Sample, SplitBy::Folder, SplitBy::ExactPerClass][..]),
    ) {
        let val = val * (1.0 - train);
        let index = index(n);
        let split = index.split(train, val, by, seed).unwrap();
        let mut uris: Vec<String> = [&split.train, &split.val, &split.test].iter().flat_map(|part| part.uris().iter()).collect();
        uris.sort();
        let mut expected: Vec<String> = index.uris().iter().collect();
        expected.sort();
        prop_assert_eq!(uris, expected);
        prop_assert_eq!(split.val.num_classes(), index.num_classes());
    }
}
