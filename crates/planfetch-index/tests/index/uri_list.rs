//! A packed list is the list that was packed.

use planfetch_index::UriList;
use proptest::prelude::*;

/// Keys that have been trouble somewhere, and others that share as much with them as neighbours do.
fn uris() -> impl Strategy<Value = Vec<String>> {
    let part = prop_oneof![
        5 => "[a-c0-1]{0,3}",
        1 => Just(" %20~#+//../".to_owned()),
        1 => Just("😀é".to_owned()),
        1 => Just("A".to_owned()),
        1 => Just(".jpg".to_owned()),
        1 => "\\PC{0,8}",
    ];
    let uri = prop::collection::vec(part, 0..6).prop_map(|parts| format!("s3://b/{}", parts.concat()));
    prop_oneof![
        prop::collection::vec(uri.clone(), 0..100),
        (uri, prop::collection::vec("[0-9]{1,4}", 0..70))
            .prop_map(|(begin, ends)| ends.iter().map(|end| format!("{begin}/{end}.jpg")).collect()),
        prop::collection::vec(".{0,10}", 0..40),
    ]
}

#[test]
fn keys_come_back_whatever_they_hold() {
    let long = "k".repeat(1_024);
    let keys = [
        "s3://b/a b",
        "s3://b/a%20b",
        "s3://b/~#+?&=",
        "s3://b//",
        "s3://b/../..",
        "s3://b/😀/é/e\u{301}",
        "s3://b/CASE.JPG",
        "s3://b/case.jpg",
        "s3://b/case.JPG",
        "s3://b/\n\0\"",
        &format!("s3://b/{long}"),
        &format!("s3://b/{long}x"),
        "",
        "s3://b/a b",
    ];
    // Over more than a block, and with each of them first in the list and in a block.
    for first in 0..keys.len() {
        let expected: Vec<&str> = keys.iter().copied().cycle().skip(first).take(60).collect();
        let list: UriList = expected.iter().collect();
        assert_eq!(list.iter().collect::<Vec<_>>(), expected);
        expected.iter().enumerate().for_each(|(i, uri)| assert_eq!(list.get(i).as_deref(), Some(*uri)));
    }
}

#[test]
fn writing_into_a_reused_buffer_does_not_allocate() {
    let list: UriList = (0..1_000).map(|i| format!("s3://bucket/é/{}/{i}.jpg", i % 3)).collect();
    let mut buffer = String::with_capacity(64);
    let (address, capacity) = (buffer.as_ptr(), buffer.capacity());
    for index in 0..list.len() {
        assert!(list.write_to(index, &mut buffer));
        assert_eq!((buffer.as_ptr(), buffer.capacity()), (address, capacity));
    }
    assert!(!list.write_to(list.len(), &mut buffer));
    assert_eq!(buffer, "");
}

#[test]
fn packed_sizes_are_as_promised() {
    let n = 100_000;
    let sorted: UriList = (0..n).map(|i| format!("s3://bucket/train/class_{:04}/img_{i:07}.jpg", i / 100)).collect();
    assert!(sorted.packed_bytes() <= 12 * n, "{} bytes", sorted.packed_bytes());

    let mut x = 1_u64;
    let mut random = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        x >> 16
    };
    let uuids: Vec<String> = (0..n).map(|_| format!("s3://b/{:012x}{:012x}", random(), random())).collect();
    let mut list: UriList = uuids.iter().collect();
    list.shrink_to_fit();
    let plain: usize = uuids.iter().map(String::len).sum();
    assert!(list.packed_bytes() <= plain + 5 * n, "{} bytes for {plain}", list.packed_bytes());
}

#[test]
fn a_prefix_is_checked_from_the_first_uri_to_the_last() {
    let error = |prefix, uris: &[&str]| UriList::with_prefix("train", prefix, uris).expect_err("faulty").to_string();
    assert!(error(None, &["a/b"]).starts_with("train: row 0: \"a/b\" has no scheme; write s3://bucket/key"));
    assert_eq!(
        error(None, &["s3://a/1", "s3://a/2", "s3://ab/3"]),
        "train: row 2: \"s3://ab/3\" lies in another bucket than the first row, \"s3://a\"; make one index for each \
         bucket, or set the prefix to what all rows share, such as \"s3://\""
    );
    assert!(error(Some("s3://a/x/"), &["s3://a/x/1", "s3://a/y"]).starts_with("train: row 1: \"s3://a/y\" does not"));
    assert!(error(Some(""), &["s3://a/x/1", "no"]).starts_with("train: row 1: \"no\" has no scheme"));
    assert_eq!(UriList::with_prefix("train", Some(""), ["s3://a/1", "gs://b/2"]).unwrap().len(), 2);
    assert_eq!(UriList::with_prefix("train", None, ["file:///a", "file:///b/c"]).unwrap().len(), 2);
}

proptest! {
    #[test]
    fn a_list_is_what_was_pushed(uris in uris()) {
        let list: UriList = uris.iter().collect();
        prop_assert_eq!(list.len(), uris.len());
        prop_assert_eq!(list.is_empty(), uris.is_empty());
        prop_assert_eq!(&list.iter().collect::<Vec<_>>(), &uris);
        for (i, uri) in uris.iter().enumerate() {
            prop_assert_eq!(list.get(i), Some(uri.clone()));
        }
        prop_assert_eq!(list.get(uris.len()), None);

        // Building in two steps makes the same list.
        let mut grown: UriList = uris[..uris.len() / 2].iter().collect();
        grown.extend(&uris[uris.len() / 2..]);
        prop_assert_eq!(grown, list);
    }

    #[test]
    fn slices_are_those_of_a_vector(uris in uris(), a in 0..120_usize, b in 0..120_usize, c in 0..120_usize) {
        let list: UriList = uris.iter().collect();
        let (start, end) = (a.min(b).min(uris.len()), a.max(b).min(uris.len()));
        let slice = list.slice(start..end);
        prop_assert_eq!(slice.iter().collect::<Vec<_>>(), &uris[start..end]);
        prop_assert_eq!(slice.len(), end - start);
        prop_assert_eq!(slice.cursor().remaining(), slice.len());
        for i in 0..=slice.len() {
            prop_assert_eq!(slice.get(i), uris[start..end].get(i).cloned());
        }
        // Equality is that of the texts, wherever in whichever list they lie.
        let shifted: UriList = ["s3://other/first"].into_iter().map(str::to_owned).chain(uris[start..].iter().cloned()).collect();
        prop_assert_eq!(shifted.slice(1..=end - start), slice);
        let other = list.slice(c..c.saturating_add(end - start));
        let same = uris.get(c..c + (end - start)).is_some_and(|other| other == &uris[start..end]) || (start == end);
        prop_assert_eq!(other == slice, same);
    }

    #[test]
    fn a_list_is_never_larger_than_plain_bytes_and_a_few_for_each(uris in uris()) {
        let mut list: UriList = uris.iter().collect();
        list.shrink_to_fit();
        let plain: usize = uris.iter().map(String::len).sum();
        // The first and the last are kept once more, and the last block is not shrunk.
        prop_assert!(list.packed_bytes() <= 2 * plain + 5 * uris.len() + 1_000);
    }

    #[test]
    fn the_common_prefix_is_that_of_all(uris in uris()) {
        let list: UriList = uris.iter().collect();
        let prefix = list.common_prefix();
        prop_assert!(uris.iter().all(|uri| uri.starts_with(&prefix)));
        let next = uris.first().and_then(|uri| uri[prefix.len()..].chars().next());
        if let Some(next) = next {
            prop_assert!(!uris.iter().all(|uri| uri[prefix.len()..].starts_with(next)), "{:?} is not all", prefix);
        }
    }
}
