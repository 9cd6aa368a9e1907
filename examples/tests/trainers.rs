//! The trainers learn, run as programs.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use planfetch_testkit::{ACCESS_KEY, S3Server, SECRET_KEY, fixtures, kill_after_lines, random_steps};

fn program(path: &str, arguments: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(path);
    command
        .args(arguments)
        .args(["--data-dir", dir.join("data").to_str().unwrap()])
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    command
}

fn digits(arguments: &[&str], dir: &Path) -> Output {
    program(env!("CARGO_BIN_EXE_digits"), arguments, dir).output().unwrap()
}

/// The lines that tell of epochs, without what the clock decides.
#[track_caller]
fn epochs(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("epoch"));
    lines.map(|line| line.rsplit_once("  ").expect("the time stands last").0.to_owned()).collect()
}

#[track_caller]
fn last_accuracy(epochs: &[String]) -> f64 {
    let last = epochs.last().expect("there are epochs");
    let (_, rest) = last.split_once("accuracy ").expect("it tells the accuracy");
    rest.trim_end_matches(" %").parse().expect("a number")
}

#[test]
fn digits_are_learned_from_local_files_and_from_an_s3_server_alike() {
    let dir = tempfile::tempdir().unwrap();
    let local = epochs(&digits(&[], dir.path()));
    assert!(95.0 <= last_accuracy(&local), "{local:#?}");

    // The same objects behind a server; what the index names is relative to it.
    let server = S3Server::start();
    server.put_folder("digits", &dir.path().join("data/store"));
    let other = tempfile::tempdir().unwrap();
    let remote = digits(&["--index", "s3://digits/index.csv", "--endpoint", &server.endpoint()], other.path());
    // Order and pixels are the same, so the losses are too, to the last digit that is printed.
    assert_eq!(epochs(&remote), local);
    let counts = server.counts();
    assert_eq!(counts.requests, 1_798, "1,797 images and their index, once each");
}

#[test]
fn a_missing_index_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let output = digits(&["--index", "/nowhere/index.csv"], dir.path());
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/nowhere/index.csv"), "{error}");
}

#[test]
fn a_run_that_is_killed_at_any_step_sees_the_samples_and_has_the_losses_of_one_that_is_not() {
    let run = |dir: &Path| {
        let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        let (checkpoints, steps) = (path("checkpoints"), path("steps"));
        let options = ["--epochs", "3", "--checkpoint-every", "5"].map(str::to_owned);
        options.into_iter().chain(["--checkpoints".into(), checkpoints, "--steps".into(), steps]).collect::<Vec<_>>()
    };
    let (whole, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let arguments = run(whole.path());
    let undisturbed = digits(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), whole.path());
    let expected = fs::read_to_string(whole.path().join("steps")).unwrap();
    // 1,438 images in batches of 64, three times.
    assert_eq!(expected.lines().count(), 69);

    let arguments = run(killed.path());
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let mut steps = 0;
    for step in random_steps(60) {
        // At least one further than before.
        steps = kill_after_lines(
            &mut program(env!("CARGO_BIN_EXE_digits"), &arguments, killed.path()),
            &killed.path().join("steps"),
            step.max(steps + 1),
        );
        assert!(steps < 69, "killed after step {steps}");
    }
    let resumed = digits(&arguments, killed.path());
    let text = std::str::from_utf8(&resumed.stdout).unwrap();
    assert_eq!(text.contains("going on after step"), 5 <= steps, "{text}");
    // Ids and losses of each step, to the last bit.
    assert_eq!(fs::read_to_string(killed.path().join("steps")).unwrap(), expected);
    // Each epoch has each sample once.
    let mut seen = BTreeMap::<&str, u32>::new();
    for id in expected.lines().flat_map(|line| line.split(' ').skip(2)) {
        *seen.entry(id).or_default() += 1;
    }
    assert_eq!(seen.len(), 1_438);
    assert!(seen.values().all(|&times| times == 3));
    assert_eq!(epochs(&resumed).last(), epochs(&undisturbed).last());
}

/// The numbers of a metric by epoch, as they are printed.
fn metric<'a>(output: &'a str, name: &str) -> Vec<&'a str> {
    output.lines().filter(|line| line.starts_with("epoch") && line.contains(name)).collect()
}

#[test]
fn the_learner_reaches_97_percent_from_an_s3_server_twice_with_the_same_losses_and_resumes_by_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let server = S3Server::start();
    assert!(digits(&["--epochs", "0"], dir.path()).status.success());
    let index = fixtures::put_moved_digits(&server, "moved", &dir.path().join("data/store/index.csv"));
    server.put("moved", "index.csv", index.as_bytes());

    let learn = |artifacts: &str, epochs: &str, resume: &[&str]| {
        let artifacts = dir.path().join(artifacts);
        let endpoint = server.endpoint();
        let mut arguments = vec!["--index", "s3://moved/index.csv", "--endpoint", &endpoint, "--size", "12"];
        arguments.extend(["--epochs", epochs, "--artifacts", artifacts.to_str().unwrap(), "--learning-rate", "0.005"]);
        arguments.extend(resume);
        let output = program(env!("CARGO_BIN_EXE_digits-learner"), &arguments, dir.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let first = learn("first", "4", &[]);
    let best = metric(&first, "held-out accuracy");
    let best = best.iter().map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).fold(0.0, f64::max);
    assert!(97.0 <= best, "{first}");
    // The stalls are in the log of the experiment.
    let log = fs::read_to_string(dir.path().join("first/experiment.log")).unwrap();
    assert!(log.contains("planfetch::report"), "{log}");

    // Another run, in two processes: the second goes on from the first one's checkpoint.
    learn("second", "2", &[]);
    let second = learn("second", "4", &["--resume", "2"]);
    for name in ["training loss", "held-out loss", "held-out accuracy"] {
        assert_eq!(metric(&first, name).len(), 4);
        assert_eq!(metric(&second, name), metric(&first, name));
    }
}

#[test]
fn photographs_in_folders_are_trained_on_with_augmentation_and_a_resumed_run_goes_on_the_same() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..40 {
        let class = dir.path().join(format!("photographs/class_{}", i % 4));
        fs::create_dir_all(&class).unwrap();
        let photograph = fixtures::photograph(96, 72, i);
        fs::write(class.join(format!("{i:02}.jpg")), fixtures::jpeg(&photograph)).unwrap();
    }
    let run = |artifacts: &str, epochs: &str, resume: &str| {
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let output = Command::new(env!("CARGO_BIN_EXE_imagenet"))
            .args(["--train", &path("photographs"), "--cache-dir", &path("cache"), "--artifacts", &path(artifacts)])
            .args(["--size", "32", "--batch-size", "8", "--epochs", epochs, "--resume", resume])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("36 images of 4 classes to train on, 4 to validate with"), "{text}");
    };
    let losses = |artifacts: &str| {
        ["train", "valid"]
            .map(|split| fs::read_to_string(dir.path().join(format!("{artifacts}/{split}/epoch-3/Loss.log"))).unwrap())
    };
    run("whole", "3", "0");
    run("resumed", "2", "0");
    run("resumed", "3", "2");
    assert!(losses("whole").iter().all(|log| !log.is_empty()));
    // Of each batch, to the last bit.
    assert_eq!(losses("resumed"), losses("whole"));
}

#[test]
fn photographs_behind_indexes_of_an_s3_server_are_trained_on_and_those_to_validate_with_stay_on_disk() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    for (bucket, n) in [("photos", 24), ("valid", 10)] {
        let index = fixtures::put_photographs(&server, bucket, n);
        server.put(bucket, "index.csv", index.as_bytes());
    }
    let run = |epochs: &str, resume: &str| {
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let output = Command::new(env!("CARGO_BIN_EXE_imagenet"))
            .args(["--train", "s3://photos/index.csv", "--valid", "s3://valid/index.csv"])
            .args(["--endpoint", &server.endpoint(), "--cache-dir", &path("cache"), "--artifacts", &path("artifacts")])
            .args(["--size", "32", "--batch-size", "8", "--epochs", epochs, "--resume", resume])
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("24 images of 4 classes to train on, 10 to validate with"), "{text}");
    };
    run("2", "0");
    run("3", "2");
    let pictures = |bucket: &str| -> Vec<u64> {
        let counts = server.counts();
        let of_bucket = counts.by_path.iter().filter(|(path, _)| path.contains(bucket) && path.ends_with(".jpg"));
        of_bucket.map(|(_, &requests)| requests).collect()
    };
    assert_eq!(pictures("/valid/"), [1; 10], "three epochs in two processes");
    assert_eq!(pictures("/photos/").len(), 24);

    // Of four classes, the four most likely hold the right one; the most likely one, some of the time.
    for epoch in 1..=3 {
        let metric = |name: &str| -> Vec<f64> {
            let folder = dir.path().join(format!("artifacts/valid/epoch-{epoch}"));
            let log = fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap())
                .find(|entry| entry.file_name().to_str().unwrap().starts_with(name))
                .unwrap_or_else(|| panic!("no {name} in {}", folder.display()));
            let text = fs::read_to_string(log.path()).unwrap();
            text.lines().map(|line| line.split(',').next().unwrap().parse().unwrap()).collect()
        };
        let (top_1, top_4) = (metric("Accuracy"), metric("Top-K"));
        assert!(2 <= top_4.len() && top_4.iter().all(|&share| share == 100.0), "epoch {epoch}: {top_4:?}");
        assert!(2 <= top_1.len() && top_1.iter().all(|share| (0.0..=100.0).contains(share)), "{top_1:?}");
    }
}
