//! A checkpoint is whole or not there, whatever moment the process is killed at.

use std::fs;
use std::path::Path;

use planfetch_loader::{BoxError, CheckpointRecorder, LoaderState};
use planfetch_plan::SequentialPlanProvider;

use crate::support::{Numbers, load, settings};

/// Saves checkpoints after steps 2, 4 and 5, and returns where the loader is then.
fn save_three(recorder: &CheckpointRecorder) -> LoaderState {
    let provider = SequentialPlanProvider::new(10, 2).unwrap();
    let mut loader = load(&Numbers::new(10), &provider, settings(1));
    for step in 1..=5 {
        loader.next().unwrap().unwrap();
        if recorder.is_due(step) || step == 5 {
            recorder.save(step, &loader.state(), |folder| model(folder, &step.to_string())).unwrap();
        }
    }
    loader.state()
}

/// Writes a model of two files, one in a folder of its own.
fn model(folder: &Path, contents: &str) -> Result<(), BoxError> {
    fs::write(folder.join("model"), contents)?;
    fs::create_dir(folder.join("optimizer"))?;
    fs::write(folder.join("optimizer/velocities"), contents)?;
    Ok(())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// The step of the newest checkpoint, the loader's position, and what the model's files hold.
fn latest(recorder: &CheckpointRecorder) -> (u64, u64, [String; 2]) {
    let latest = recorder.latest().unwrap().unwrap();
    let files = ["model", "optimizer/velocities"].map(|name| fs::read_to_string(latest.path.join(name)).unwrap());
    (latest.step, latest.state.position(), files)
}

#[test]
fn the_newest_are_kept_and_one_that_fails_leaves_those_before() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("runs/1");
    let recorder = CheckpointRecorder::new(&directory).unwrap().with_every(2).with_keep(2);
    assert!(recorder.latest().unwrap().is_none());
    let state = save_three(&recorder);
    assert_eq!(names(&directory), ["checkpoint-000001-step-4", "checkpoint-000002-step-5"]);

    let failed = recorder.save(6, &state, |folder| {
        fs::write(folder.join("model"), "half")?;
        Err("no space is left".into())
    });
    let error = failed.unwrap_err().to_string();
    assert!(error.contains("checkpoint-000003-step-6") && error.contains("no space is left"), "{error}");
    assert_eq!(latest(&recorder), (5, 10, ["5".into(), "5".into()]));
    // What it left goes with the next one.
    recorder.save(7, &state, |folder| model(folder, "7")).unwrap();
    assert_eq!(names(&directory), ["checkpoint-000002-step-5", "checkpoint-000003-step-7"]);
}

#[test]
fn what_was_saved_last_is_kept_and_gone_on_from_whatever_its_step() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = CheckpointRecorder::new(dir.path()).unwrap().with_every(2).with_keep(2);
    let state = save_three(&recorder);
    // A run that began anew, one that saves the same step again, and another process.
    for (i, step) in [1, 1, 3, 300, 2].into_iter().enumerate() {
        let recorder = CheckpointRecorder::new(dir.path()).unwrap().with_keep(2);
        let contents = format!("{i}");
        let saved = recorder.save(step, &state, |folder| model(folder, &contents)).unwrap();
        assert!(saved.path.join("model").exists());
        assert_eq!(latest(&recorder), (step, 10, [contents.clone(), contents]));
        assert_eq!(names(dir.path()).len(), 2);
    }
    assert_eq!(names(dir.path()), ["checkpoint-000006-step-300", "checkpoint-000007-step-2"]);
}

#[test]
fn what_is_no_checkpoint_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = CheckpointRecorder::new(dir.path()).unwrap().with_keep(1);
    for name in ["checkpoint-best", "step-3", "checkpoint-1-step-x", "logs"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    save_three(&recorder);
    assert_eq!(names(dir.path()).len(), 5);
    assert_eq!(latest(&recorder).0, 5);
}
