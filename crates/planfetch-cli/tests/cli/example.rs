//! The first minutes of a new user.

use crate::support::{entries, local};

#[test]
fn the_digits_are_written_and_measured_without_anything_else() {
    let tmp = tempfile::tempdir().unwrap();
    let ran = local("example digits", tmp.path());
    assert!(ran.stderr.contains("planfetch speedtest digits"), "{ran:?}");
    assert_eq!(ran.stdout(), "digits/index.csv\n");
    let digits = tmp.path().join("digits");
    assert_eq!(entries(&digits), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "index.csv"]);
    let images: usize = (0..10).map(|digit| entries(&digits.join(digit.to_string())).len()).sum();
    assert_eq!(images, 1_797);
    // The folder and the index are the same data set, up to the order of rows.
    for index in ["digits", "digits/index.csv"] {
        let summary = local(&format!("speedtest {index} --image-size 8"), tmp.path()).stdout();
        assert!(summary.contains("\nverdict: bound by "), "{summary}");
        assert!(summary.contains("1,797 ("), "{summary}");
    }
    // Nothing else is left behind.
    assert_eq!(entries(tmp.path()), ["digits"]);
    let error = local("example digits", tmp.path()).failure(2);
    assert!(error.contains("digits exists and is not empty"), "{error}");
}
