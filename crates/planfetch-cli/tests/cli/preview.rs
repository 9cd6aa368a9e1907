//! The picture of a batch, made as people make it.

use std::path::Path;

use planfetch::image::{DecodeSettings, DecodedImage, decode};
use planfetch_testkit::{S3Server, fixtures};

use crate::support::{entries, planfetch};

fn read(path: &Path) -> DecodedImage {
    decode(&std::fs::read(path).unwrap(), &DecodeSettings::default()).unwrap()
}

#[test]
fn a_picture_shows_the_batch_of_a_step_and_loads_no_other() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 40);
    std::fs::write(tmp.path().join("photos.csv"), csv).unwrap();
    let line = "preview photos.csv --batch-size 12 --step 2 --columns 4 --image-size 150";
    let said = planfetch(&server, line, tmp.path()).stdout();
    assert!(said.contains("Resize(size=[150, 150]"), "{said}");
    assert!(said.ends_with("preview.png: step 2 of epoch 0, 12 images of 150 x 150\n"), "{said}");
    assert_eq!(server.counts().by_path.len(), 12);
    // Three rows of four, each above a line of text.
    let picture = read(&tmp.path().join("preview.png"));
    assert_eq!((picture.height(), picture.width()), (3 * (150 + 14 + 4) + 4, 4 * (150 + 4) + 4));
    // The temporary cache is gone.
    assert_eq!(entries(tmp.path()), ["photos.csv", "preview.png"]);
}

#[test]
fn settings_from_a_file_augment_in_another_way_each_epoch() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 8);
    std::fs::write(tmp.path().join("photos.csv"), csv).unwrap();
    let settings = r#"{"height": 64, "width": 48, "transforms": [{"RandomResizedCrop": {"size": [64, 48]}}],
        "batch_transforms": [{"MixUp": {"num_classes": 1000}}]}"#;
    std::fs::write(tmp.path().join("settings.json"), settings).unwrap();
    let draw = |out: &str, epoch: u64| {
        let line = format!("preview photos.csv --settings settings.json --out {out} --epoch {epoch}");
        let said = planfetch(&server, &line, tmp.path()).stdout();
        assert!(said.contains("MixUp(alpha=1.0, num_classes=1000)"), "{said}");
        read(&tmp.path().join(out))
    };
    let first = draw("first.png", 0);
    assert_eq!(first, draw("again.png", 0));
    assert_ne!(first, draw("other.png", 1));
}

#[test]
fn what_is_wrong_is_said() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("photos", "a.jpg", b"<html>");
    std::fs::write(tmp.path().join("photos.csv"), "s3_uri,label\ns3://photos/a.jpg,1\n").unwrap();
    std::fs::write(tmp.path().join("wrong.json"), r#"{"hight": 3}"#).unwrap();
    std::fs::write(tmp.path().join("open.json"), r#"{"transforms": [{"RandomHorizontalFlip": {}}]}"#).unwrap();
    for (line, code, expected) in [
        ("preview photos.csv", 1, "s3://photos/a.jpg (sample 0): this is no JPEG"),
        ("preview photos.csv --step 1", 2, "--step is 1, but 1 samples make 1 batches of 64"),
        ("preview photos.csv --settings none.json", 1, "can't read none.json"),
        ("preview photos.csv --settings wrong.json", 1, "wrong.json holds no image settings: unknown field `hight`"),
        ("preview photos.csv --settings open.json", 2, "leaves the size of images open"),
    ] {
        let error = planfetch(&server, line, tmp.path()).failure(code);
        assert!(error.contains(expected), "{error} does not say {expected:?}");
    }
}

#[test]
fn a_rank_sees_its_part_of_the_batch() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 20);
    std::fs::write(tmp.path().join("photos.csv"), csv).unwrap();
    let line = "preview photos.csv --strategy sequential --batch-size 8 --world 1/4 --image-size 16";
    let said = planfetch(&server, line, tmp.path()).stdout();
    assert!(said.contains("2 images of 16 x 16"), "{said}");
    let asked: Vec<String> = server.counts().by_path.into_keys().collect();
    assert_eq!(asked, ["/photos/class_2/000002.jpg", "/photos/class_3/000003.jpg"]);
}
