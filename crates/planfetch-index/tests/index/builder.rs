//! An index made row by row.

use planfetch_index::IndexBuilder;

#[test]
fn a_row_that_is_refused_leaves_nothing_behind() {
    let mut builder = IndexBuilder::new("mine").with_class_names(["cat", "dog"]);
    builder.push_sample("s3://b/shard", 0, Some(100), Some(0..40)).unwrap();
    let refused = [
        (builder.push("s3://b/shard", 0), "has no size, which the rows before have; give all or none"),
        (
            builder.push_sample("s3://b/shard", 0, Some(1), None),
            "has no byte range, which the rows before have; give all or none",
        ),
        (builder.push_sample("s3://b/shard", 2, Some(1), Some(1..2)), "has label 2, but the names are of classes 0..2"),
        (
            #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
            builder.push_sample("s3://b/shard", 1, Some(1), Some(2..1)),
            "has a byte range from 2 back to 1",
        ),
    ];
    for (result, problem) in refused {
        let message = result.expect_err("faulty").to_string();
        assert_eq!(message, format!("mine: row 1: \"s3://b/shard\" {problem}"));
    }
    builder.push_sample("s3://b/shard", 1, Some(100), Some(40..100)).unwrap();
    assert_eq!(builder.len(), 2);

    let index = builder.build().unwrap();
    assert_eq!(index.labels(), [0, 1]);
    assert_eq!((index.range(0), index.range(1), index.range(2)), (Some(0..40), Some(40..100), None));
    assert_eq!(index.sizes(), Some(&[100, 100][..]));
}

#[test]
fn sizes_can_not_come_late() {
    let mut builder = IndexBuilder::new("mine");
    builder.push("s3://b/1", 0).unwrap();
    let error = builder.push_sample("s3://b/2", 0, Some(1), None).unwrap_err();
    assert!(error.to_string().ends_with("has a size, which the rows before have not; give all or none"));
}

#[test]
fn a_prefix_is_enforced() {
    let mut builder = IndexBuilder::new("mine").with_prefix("s3://b/train/");
    builder.push("s3://b/train/1", 0).unwrap();
    assert!(builder.push("s3://b/test/1", 0).is_err());
    assert!(!builder.is_empty());
    assert!(IndexBuilder::new("none").build().unwrap().is_empty());
}

#[test]
fn names_that_come_late_have_to_cover_the_rows_before() {
    let mut builder = IndexBuilder::new("mine");
    builder.push("s3://b/1", 1).unwrap();
    assert_eq!(
        builder.with_class_names(["cat"]).build().expect_err("no name").to_string(),
        "mine: row 0: \"s3://b/1\" has a label without a name, of 1; name all classes"
    );
}
