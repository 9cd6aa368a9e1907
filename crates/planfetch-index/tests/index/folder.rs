//! Folders of this computer.

use std::fs;
use std::path::Path;

use planfetch_index::{FolderSettings, SampleIndex, load_index_folder};

fn make(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    folder
}

fn keys(index: &SampleIndex, root: &Path) -> Vec<String> {
    let root = format!("file://{}/", root.display());
    index.uris().iter().map(|uri| uri.strip_prefix(&root).expect("it lies in the root").to_owned()).collect()
}

#[test]
fn rows_are_in_the_order_of_bytes_and_keep_names() {
    let files = ["b/a.jpg", "a/b/c.jpg", "a/b-c.jpg", "a/ %20~#+é😀.jpg", "a/B.JPG", "Z/1", "none.jpg"];
    let folder = make(&files);
    let index = load_index_folder(folder.path(), &FolderSettings::default()).unwrap();
    let mut expected = files[..6].to_vec();
    expected.sort_unstable();
    assert_eq!(keys(&index, folder.path()), expected);
    assert_eq!(index.class_names(), ["Z", "a", "b"]);
    assert_eq!(index.labels(), [0, 1, 1, 1, 1, 2]);
    let sizes: Vec<u64> = expected.iter().map(|file| file.len() as u64).collect();
    assert_eq!(index.sizes(), Some(&sizes[..]));
}

#[test]
fn extensions_choose_files_and_so_classes() {
    let folder = make(&["a/1.jpg", "a/1.txt", "b/2.JPEG", "c/3.png", "a/jpg", "a/x.notjpg"]);
    let settings = FolderSettings { extensions: vec!["jpg".into(), "jpeg".into()] };
    let index = load_index_folder(folder.path(), &settings).unwrap();
    assert_eq!(keys(&index, folder.path()), ["a/1.jpg", "b/2.JPEG"]);
    assert_eq!(index.class_names(), ["a", "b"]);
}

#[test]
fn a_folder_without_samples_is_an_error() {
    let folder = make(&["1.jpg", "a/2.txt"]);
    let settings = FolderSettings { extensions: vec!["jpg".into()] };
    assert_eq!(
        load_index_folder(folder.path(), &settings).expect_err("nothing").to_string(),
        format!(
            "{} holds no samples; an index is made of <class>/<file> in it, with an extension that the settings take",
            folder.path().display()
        )
    );
    let error = load_index_folder("/nowhere", &FolderSettings::default()).unwrap_err();
    assert_eq!(error.to_string(), "can't read the index /nowhere");
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_circles() {
    let folder = make(&["a/1.jpg", "elsewhere/2.jpg"]);
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink(folder.path().join("a"), root.join("a")).unwrap();
    let index = load_index_folder(&root, &FolderSettings::default()).unwrap();
    assert_eq!(keys(&index, &root), ["a/1.jpg"]);

    std::os::unix::fs::symlink(&root, folder.path().join("a/back")).unwrap();
    let message = load_index_folder(&root, &FolderSettings::default()).expect_err("a circle").to_string();
    assert!(message.ends_with("a/back: is a link to a folder that it lies in; remove the link"), "{message}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_name_that_is_no_utf8_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let folder = make(&["a/1.jpg"]);
    fs::write(folder.path().join("a").join(std::ffi::OsStr::from_bytes(b"\xff.jpg")), "x").unwrap();
    let message = load_index_folder(folder.path(), &FolderSettings::default()).expect_err("no UTF-8").to_string();
    assert!(
        message.ends_with("\u{fffd}.jpg: is a name that is no UTF-8, which no URI can hold; rename it"),
        "{message}"
    );
}
