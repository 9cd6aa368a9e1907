//! A packed list is the vector of what was pushed, and its parts that of the vector.

#![no_main]

use libfuzzer_sys::fuzz_target;
use planfetch_index::UriList;

fuzz_target!(|input: (Vec<String>, Vec<(u16, u8)>, u16, u16)| {
    let (texts, picks, a, b) = input;
    // Neighbours that share much, as those of an index do: a piece of the text before, and a new end.
    let mut uris: Vec<String> = Vec::new();
    for (pick, keep) in picks {
        let text = texts.get(usize::from(pick) % texts.len().max(1)).cloned().unwrap_or_default();
        let last = uris.last().map_or("", String::as_str);
        let kept: String = last.chars().take(keep.into()).collect();
        uris.push(kept + &text);
    }
    uris.extend(texts);

    let list: UriList = uris.iter().collect();
    assert_eq!(list.len(), uris.len());
    let mut cursor = list.cursor();
    let mut buffer = String::new();
    for (index, uri) in uris.iter().enumerate() {
        assert_eq!(cursor.next_uri(), Some(uri.as_str()));
        assert!(list.write_to(index, &mut buffer));
        assert_eq!(&buffer, uri);
    }
    assert_eq!(cursor.next_uri(), None);
    assert!(!list.write_to(uris.len(), &mut buffer));

    let (a, b) = (usize::from(a).min(uris.len()), usize::from(b).min(uris.len()));
    let range = a.min(b)..a.max(b);
    assert_eq!(list.slice(range.clone()).iter().collect::<Vec<_>>(), &uris[range.clone()]);
    assert_eq!(uris[range].iter().collect::<UriList>().slice(..), list.slice(a.min(b)..a.max(b)));
});
