//! What `main` prints where it returns an error: words, and no names of fields.

use planfetch::prelude::*;

/// Returns what `main` prints for an error of `result`, and the message alone.
fn printed<T, E: Into<BoxError>>(result: Result<T, E>) -> (String, String) {
    let error: BoxError = result.err().unwrap().into();
    (format!("{error:?}"), error.to_string())
}

#[test]
fn an_error_of_each_part_is_printed_as_its_message() {
    let dir = tempfile::tempdir().unwrap();
    let cache = DiskCache::builder(dir.path().join("cache")).build().unwrap();
    let index = SampleIndex::from_rows([("s3://photos/1.jpg", 0_u32)]).unwrap();
    let images = ImageSettings { height: 0, ..ImageSettings::default() };
    let settings = LoaderSettings { prefetch_factor: 0, ..LoaderSettings::default() };
    let plan = SequentialPlanProvider::new(1, 1).unwrap();
    let dataset = ImageDataset::new(index.clone(), ImageSettings::default()).unwrap();
    let world = World { rank: 3, world_size: 2 };
    for (printed, message) in [
        printed(SequentialPlanProvider::new(1, 0)),
        printed(SampleIndex::from_rows([("nonsense", 0_u32)])),
        printed(cache.ensure_local("s4://photos/1.jpg")),
        printed(ImageDataset::new(index, images)),
        printed(build_prefetching_loader(dataset, VecCollate, plan.clone(), cache.clone(), settings)),
        printed(plan.plan(0).unwrap().for_rank(world, RemainderPolicy::Keep)),
        printed(load_index("s4://photos/train.csv", &CsvSettings::default(), &cache)),
    ] {
        assert_eq!(printed, message);
    }
}

#[test]
fn what_the_operating_system_said_is_printed_too() {
    let (printed, message) = printed(load_index_csv("nowhere/train.csv", &CsvSettings::default()));
    assert!(printed.starts_with(&message) && printed.len() > message.len(), "{printed}");
    assert!(printed.contains("nowhere/train.csv: No such file or directory"), "{printed}");
}
