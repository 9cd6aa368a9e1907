//! The picture of a batch, made as people make it.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::Path;
use std::process::{Command, Output};

use planfetch::image::{DecodeSettings, DecodedImage, decode};
use planfetch_testkit::{ACCESS_KEY, S3Server, SECRET_KEY, fixtures};

fn planfetch(server: &S3Server, arguments: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_planfetch"))
        .args(arguments)
        .current_dir(dir)
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .env("AWS_ENDPOINT_URL", server.endpoint())
        .env("TMPDIR", dir)
        .output()
        .unwrap()
}

fn read(path: &Path) -> DecodedImage {
    decode(&std::fs::read(path).unwrap(), &DecodeSettings::default()).unwrap()
}

#[track_caller]
fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_picture_shows_the_batch_of_a_step_and_loads_no_other() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 40);
    std::fs::write(tmp.path().join("photos.csv"), csv).unwrap();
    let arguments =
        ["preview", "photos.csv", "--batch-size", "12", "--step", "2", "--columns", "4", "--image-size", "150"];
    let output = planfetch(&server, &arguments, tmp.path());
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("Resize(size=[150, 150]"), "{said}");
    assert!(said.ends_with("preview.png: step 2 of epoch 0, 12 images of 150 x 150\n"), "{said}");
    assert_eq!(server.counts().by_path.len(), 12);
    // Three rows of four, each above a line of text.
    let picture = read(&tmp.path().join("preview.png"));
    assert_eq!((picture.height(), picture.width()), (3 * (150 + 14 + 4) + 4, 4 * (150 + 4) + 4));
    // The temporary cache is gone.
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 2);
}

#[test]
fn settings_from_a_file_augment_in_another_way_each_epoch() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 8);
    std::fs::write(tmp.path().join("photos.csv"), csv).unwrap();
    let settings = r#"{"height": 64, "width": 48, "transforms": [{"RandomResizedCrop": {"size": [64, 48]}}],
        "batch_transforms": [{"MixUp": {"num_classes": 1000}}]}"#;
    std::fs::write(tmp.path().join("settings.json"), settings).unwrap();
    let draw = |out: &str, epoch: &str| {
        let arguments = ["preview", "photos.csv", "--settings", "settings.json", "--out", out, "--epoch", epoch];
        let output = planfetch(&server, &arguments, tmp.path());
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8(output.stdout).unwrap().contains("MixUp(alpha=1.0, num_classes=1000)"));
        read(&tmp.path().join(out))
    };
    let first = draw("first.png", "0");
    assert_eq!(first, draw("again.png", "0"));
    assert_ne!(first, draw("other.png", "1"));
}

#[test]
fn what_is_wrong_is_said() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    server.put("photos", "a.jpg", b"<html>");
    std::fs::write(tmp.path().join("photos.csv"), "s3_uri,label\ns3://photos/a.jpg,1\n").unwrap();
    std::fs::write(tmp.path().join("wrong.json"), r#"{"hight": 3}"#).unwrap();
    std::fs::write(tmp.path().join("open.json"), r#"{"transforms": [{"RandomHorizontalFlip": {}}]}"#).unwrap();
    for (arguments, expected) in [
        (&["preview", "photos.csv"][..], "s3://photos/a.jpg (sample 0): this is no JPEG"),
        (&["preview", "photos.csv", "--step", "1"], "--step is 1, but 1 samples make 1 batches of 32"),
        (&["preview", "photos.csv", "--settings", "none.json"], "can't read none.json"),
        (
            &["preview", "photos.csv", "--settings", "wrong.json"],
            "wrong.json holds no image settings: unknown field `hight`",
        ),
        (&["preview", "photos.csv", "--settings", "open.json"], "leaves the size of images open"),
    ] {
        let error = failure(&planfetch(&server, arguments, tmp.path()));
        assert!(error.contains(expected), "{error} does not say {expected:?}");
    }
}
