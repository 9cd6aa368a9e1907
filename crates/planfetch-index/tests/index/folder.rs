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

#[cfg(unix)]
#[test]
fn links_that_lead_nowhere_are_errors_only_where_something_may_be_missing() {
    use std::os::unix::fs::symlink;
    let photographs = FolderSettings { extensions: vec!["jpg".into()] };
    let load = |link: &str, settings: &FolderSettings| {
        let folder = make(&["a/1.jpg", "a/deep/2.jpg"]);
        symlink("/nowhere/at all", folder.path().join(link)).unwrap();
        match load_index_folder(folder.path(), settings) {
            Ok(index) => Ok(keys(&index, folder.path())),
            Err(error) => Err(error.to_string().replace(folder.path().to_str().unwrap(), "root")),
        }
    };
    // What editors and other programs leave behind.
    for link in ["notes.txt", "a/3.txt", "a/deep/.#2.txt", "a/4.jpg.bak"] {
        assert_eq!(
            load(link, &photographs).as_deref(),
            Ok(&["a/1.jpg", "a/deep/2.jpg"].map(String::from)[..]),
            "{link}"
        );
    }
    // A sample, a folder with samples, and a class.
    for link in ["a/3.jpg", "a/deep/3.JPG", "a/more", "b"] {
        let error = load(link, &photographs).expect_err(link);
        assert!(
            error.starts_with(&format!("root/{link}: is a link to /nowhere/at all, which can't be followed (")),
            "{error}"
        );
        assert!(error.ends_with("; bring back what it leads to, or remove the link"), "{error}");
    }
    // Everything is a sample.
    for link in ["a/3.txt", "a/more"] {
        load(link, &FolderSettings::default()).expect_err(link);
    }
    // A link to itself leads nowhere either, and one to a file is what the file is.
    let folder = make(&["a/1.jpg", "elsewhere.txt"]);
    symlink("loop.txt", folder.path().join("a/loop.txt")).unwrap();
    symlink("../elsewhere.txt", folder.path().join("a/2.jpg")).unwrap();
    let index = load_index_folder(folder.path(), &photographs).unwrap();
    assert_eq!((index.size(0), index.size(1)), (Some(7), Some(13)));
}

#[test]
fn what_is_no_sample_may_have_any_name() {
    let folder = make(&["a/1.jpg"]);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStrExt;
        fs::write(folder.path().join("a").join(std::ffi::OsStr::from_bytes(b"\xff.txt")), "x").unwrap();
    }
    let settings = FolderSettings { extensions: vec!["jpg".into()] };
    assert_eq!(keys(&load_index_folder(folder.path(), &settings).unwrap(), folder.path()), ["a/1.jpg"]);
}

#[test]
fn a_folder_that_is_named_by_way_of_another_has_uris_without_the_way() {
    let folder = make(&["root/a/1.jpg", "other/b/2.jpg"]);
    let index = load_index_folder(folder.path().join("other/../root"), &FolderSettings::default()).unwrap();
    assert_eq!(keys(&index, &folder.path().canonicalize().unwrap()), ["root/a/1.jpg"]);
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
