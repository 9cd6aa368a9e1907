//! An index that is written again is read again.

use std::path::Path;
use std::time::Duration;

use planfetch::prelude::*;

/// Settings under which a copy of an index may stay behind: with each way to keep the books, young and old.
fn settings() -> Vec<CacheSettings> {
    let min_ages = [Duration::ZERO, Duration::from_secs(3_600)];
    let backends = [PruneBackend::Meta, PruneBackend::Scan];
    let modes = [EvictionMode::Window, EvictionMode::Pressure];
    let all = min_ages.into_iter().flat_map(|min_age_before_delete| {
        backends.into_iter().flat_map(move |prune_backend| {
            modes.into_iter().map(move |eviction| CacheSettings {
                min_age_before_delete,
                prune_backend,
                eviction,
                ..CacheSettings::default()
            })
        })
    });
    all.collect()
}

fn open(folder: &Path, settings: &CacheSettings) -> DiskCache {
    DiskCache::builder(folder.join("cache")).with_settings(settings.clone()).build().unwrap()
}

fn write(folder: &Path, rows: u64) -> String {
    let path = folder.join("train.csv");
    let rows: String = (0..rows).map(|i| format!("s3://photos/{i}.jpg,{i}\n")).collect();
    std::fs::write(&path, format!("s3_uri,label\n{rows}")).unwrap();
    format!("file://{}", path.display())
}

#[test]
fn a_copy_of_an_earlier_process_is_not_taken_for_the_index_of_today() {
    for settings in settings() {
        let folder = tempfile::tempdir().unwrap();
        let uri = write(folder.path(), 1);
        drop(open(folder.path(), &settings).ensure_local(&uri).unwrap());
        write(folder.path(), 2);
        let cache = open(folder.path(), &settings);
        let index = load_index(&uri, &CsvSettings::default(), &cache).unwrap();
        assert_eq!(index.len(), 2, "{settings:?}");
    }
}

#[test]
fn an_index_is_not_kept_whatever_came_of_it() {
    for settings in settings() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), &settings);
        for rows in 1..4 {
            let uri = write(folder.path(), rows);
            let index = load_index(&uri, &CsvSettings::default(), &cache).unwrap();
            assert_eq!(index.len(), rows, "{settings:?}");
            assert!(!cache.contains(&uri), "{settings:?}");
        }
        let uri = write(folder.path(), 1);
        std::fs::write(folder.path().join("train.csv"), "no header of ours\n").unwrap();
        load_index(&uri, &CsvSettings::default(), &cache).unwrap_err();
        assert!(!cache.contains(&uri), "{settings:?}");
        write(folder.path(), 5);
        assert_eq!(load_index(&uri, &CsvSettings::default(), &cache).unwrap().len(), 5, "{settings:?}");
    }
}

/// Writes a table whose rows have no scheme: of one with absolute URIs, the scheme becomes a folder's name.
#[cfg(feature = "arrow")]
fn write_parquet(path: &Path) {
    let absolute = SampleIndex::from_rows(["s3://1.jpg", "s3://2.jpg"].map(|uri| (uri, 0))).unwrap();
    absolute.save_parquet(path).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    while let Some(at) = bytes.windows(5).position(|window| window == b"s3://") {
        // Of as many bytes, so that nothing moves.
        bytes[at..at + 5].copy_from_slice(b"cats/");
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn what_a_table_names_is_relative_to_where_it_lies() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), &CacheSettings::default());
    let csv = folder.path().join("train.csv");
    std::fs::write(&csv, "s3_uri,label\ncats/1.jpg,0\n./cats/2.jpg,1\n").unwrap();
    let parquet = folder.path().join("train.parquet");
    #[cfg(feature = "arrow")]
    write_parquet(&parquet);

    for table in [csv, parquet].into_iter().filter(|table| table.exists()) {
        let path = table.to_str().unwrap();
        for location in [path.to_owned(), format!("file://{path}")] {
            let index = load_index(&location, &CsvSettings::default(), &cache).unwrap();
            let expected = ["1", "2"].map(|i| format!("file://{}/cats/{i}.jpg", folder.path().display()));
            assert_eq!(index.uris().iter().collect::<Vec<_>>(), expected, "{location}");

            let elsewhere = CsvSettings { base: Some("s3://photos/".into()), ..CsvSettings::default() };
            let index = load_index(&location, &elsewhere, &cache).unwrap();
            assert_eq!(index.uri(0).as_deref(), Some("s3://photos/cats/1.jpg"), "{location}");
        }
    }
}
