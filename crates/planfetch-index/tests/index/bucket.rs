//! Listings of an object store.

use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use planfetch_index::{FolderSettings, IndexError, SampleIndex, list_index};

fn list(keys: &[&str], url: &str, prefix: &str, settings: &FolderSettings) -> Result<SampleIndex, IndexError> {
    let store = InMemory::new();
    block_on(async {
        for key in keys {
            store.put(&Path::parse(key).expect("a key"), key.to_string().into()).await.expect("memory");
        }
        list_index(&store as &dyn ObjectStore, url, prefix, settings).await
    })
}

#[test]
fn keys_are_kept_byte_for_byte() {
    let keys = ["train/a/ %20~#+é😀.jpg", "train/a/A.JPG", "train/a/b/c.jpg", "train/z/[1].jpg"];
    let index = list(&keys, "s3://photos/", "/train/", &FolderSettings::default()).unwrap();
    assert_eq!(index.uris().iter().collect::<Vec<_>>(), keys.map(|key| format!("s3://photos/{key}")));
    assert_eq!(index.labels(), [0, 0, 0, 1]);
    assert_eq!(index.sizes().unwrap(), keys.map(|key| key.len() as u64));
}

#[test]
fn a_prefix_is_a_folder_and_not_the_beginning_of_a_name() {
    let keys = ["train/a/1.jpg", "train-2/a/2.jpg", "train/3.jpg", "a/4.jpg"];
    let index = list(&keys, "s3://photos", "train", &FolderSettings::default()).unwrap();
    assert_eq!(index.uris().iter().collect::<Vec<_>>(), ["s3://photos/train/a/1.jpg"]);
    let index = list(&keys, "s3://photos", "", &FolderSettings::default()).unwrap();
    assert_eq!(index.class_names(), ["a", "train", "train-2"]);
}

#[test]
fn nothing_found_and_what_is_no_place_are_named() {
    let settings = FolderSettings { extensions: vec!["png".into()] };
    let message = list(&["a/b/1.jpg"], "s3://photos", "a", &settings).expect_err("no png").to_string();
    assert!(message.starts_with("s3://photos/a/ holds no samples; "), "{message}");
    let message = list(&[], "photos", "a", &settings).expect_err("no URL").to_string();
    assert!(message.starts_with("the URL \"photos\" has no scheme; write s3://bucket/key"), "{message}");
    let message = list(&[], "s3://photos", "a//b", &settings).expect_err("no prefix").to_string();
    assert!(message.starts_with("the prefix \"a//b\" is none: "), "{message}");
}
