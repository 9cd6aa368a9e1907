//! `planfetch plan`.

use std::path::Path;

use crate::support::{entries, local};

/// 100 rows of four classes, 40, 30, 20 and 10 of each.
fn write_index(dir: &Path) {
    let class = |i: u32| [0, 0, 0, 0, 1, 1, 1, 2, 2, 3][i as usize % 10];
    let rows: String = (0..100).map(|i| format!("s3://b/{i},{}\n", class(i))).collect();
    std::fs::write(dir.join("train.csv"), format!("s3_uri,label\n{rows}")).unwrap();
}

#[test]
fn a_plan_is_shown_with_the_samples_of_its_batches() {
    let tmp = tempfile::tempdir().unwrap();
    write_index(tmp.path());
    let line = "plan show train.csv --strategy sequential --batch-size 8";
    let page = local(&format!("{line} --step 12 --steps 5"), tmp.path()).stdout();
    assert!(page.starts_with("epoch 0: 13 steps of 8 samples, of a data set of 100; rank 0 of 1\n"), "{page}");
    assert!(page.contains("step 12\n          96  class 1     s3://b/96\n"), "{page}");
    assert_eq!(page.lines().filter(|line| line.contains("s3://b/")).count(), 4);
    let shown = local(&format!("{line} --world 1/2 --steps 1 --json"), tmp.path()).json();
    let ids: Vec<u64> =
        shown["batches"][0]["samples"].as_array().unwrap().iter().map(|s| s["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [4, 5, 6, 7]);
    let error = local(&format!("{line} --step 13"), tmp.path()).failure(2);
    assert!(error.contains("--step is 13, but the plan has 13 steps"), "{error}");
    assert_eq!(entries(tmp.path()), ["train.csv"]);
}

#[test]
fn plans_are_verified_epoch_by_epoch() {
    let tmp = tempfile::tempdir().unwrap();
    write_index(tmp.path());
    for (options, ok) in [
        ("--epochs 3", true),
        ("--strategy stratified --batch-size 10", true),
        ("--strategy balanced --batch-size 8", true),
        ("--world 0/3 --remainder pad", true),
        ("--world 0/7 --remainder keep --batch-size 9", true),
        ("--world 0/7 --remainder drop", true),
        ("--expect-digest 00", false),
    ] {
        let ran = local(&format!("plan verify train.csv {options}"), tmp.path());
        assert_eq!(ran.code, if ok { 0 } else { 3 }, "{options}: {ran:?}");
        assert_eq!(ran.stdout.contains("problem: "), !ok, "{ran:?}");
    }
    let verified = local("plan verify train.csv --world 0/3 --epochs 2 --json", tmp.path()).json();
    let epochs = verified["epochs"].as_array().unwrap();
    assert_eq!(epochs.len(), 2);
    assert_ne!(epochs[0]["digest"], epochs[1]["digest"]);
    let classes: Vec<u64> =
        epochs[1]["classes"].as_array().unwrap().iter().map(|class| class["in_plan"].as_u64().unwrap()).collect();
    assert_eq!(classes, [40, 30, 20, 10]);
    // Two steps of 64 and 36: one slot, and none.
    assert_eq!((epochs[0]["ranks"]["steps"].as_u64(), epochs[0]["ranks"]["left_out"].as_u64()), (Some(2), Some(1)));
    // The digest is what a training program asserts.
    let digest = epochs[0]["digest"].as_str().unwrap();
    assert_eq!(local(&format!("plan verify train.csv --expect-digest {digest}"), tmp.path()).code, 0);
}

#[test]
fn a_saved_plan_with_a_fault_is_found_out() {
    use planfetch::prelude::PlanView;

    let tmp = tempfile::tempdir().unwrap();
    write_index(tmp.path());
    let save = |ids: Vec<u64>, num_samples| {
        let plan = PlanView::from_ids(ids, 10, num_samples).unwrap();
        std::fs::write(tmp.path().join("my.plan"), plan.to_bytes()).unwrap();
        local("plan verify train.csv --saved my.plan --expect once --json", tmp.path())
    };
    assert_eq!(save((0..100).rev().collect(), 100).json()["epochs"][0]["missing"], 0);
    let ran = save((0..100).map(|id| if id == 7 { 8 } else { id }).collect(), 100);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("1 samples are missing, and 1 come more than once"), "{ran:?}");
    // Whether that is a fault, only who made the plan knows: it is counted.
    let verified = local("plan verify train.csv --saved my.plan --json", tmp.path()).json();
    assert_eq!(verified["problems"].as_array().unwrap().len(), 0);
    let epoch = &verified["epochs"][0];
    assert_eq!((epoch["missing"].as_u64(), epoch["repeated"].as_u64()), (Some(1), Some(1)));
    let error = save((0..50).collect(), 50).failure(2);
    assert!(error.contains("the saved plan is for 50 samples, and train.csv has 100"), "{error}");
}

#[test]
fn saved_plans_of_every_strategy_are_in_order() {
    let tmp = tempfile::tempdir().unwrap();
    write_index(tmp.path());
    for (strategy, repeats) in [("shuffle", false), ("sequential", false), ("stratified", false), ("balanced", true)] {
        let options = format!("--strategy {strategy} --batch-size 8");
        local(&format!("plan show train.csv {options} --save my.plan"), tmp.path()).stdout();
        let page = local("plan verify train.csv --saved my.plan", tmp.path()).stdout();
        assert_eq!(page.contains("  every sample comes once\n"), !repeats, "{strategy}: {page}");
        assert_eq!(page.contains(" samples don't come, "), repeats, "{strategy}: {page}");
        // What was promised can be asked for.
        let (promise, no_promise) = if repeats { ("balanced", "once") } else { ("once", "balanced") };
        local(&format!("plan verify train.csv --saved my.plan --expect {promise}"), tmp.path()).stdout();
        let ran = local(&format!("plan verify train.csv --saved my.plan --expect {no_promise}"), tmp.path());
        assert_eq!((ran.code, ran.stdout.contains("problem: ")), (3, true), "{ran:?}");
    }
    // A saved plan is one epoch.
    for line in ["verify --epochs 3", "show --epoch 3", "digest --epoch 3"] {
        let (command, option) = line.split_once(' ').unwrap();
        let error = local(&format!("plan {command} train.csv --saved my.plan {option}"), tmp.path()).failure(2);
        assert!(error.contains("cannot be used with") && error.contains("--saved <FILE>"), "{error}");
        assert!(error.contains(option.split(' ').next().unwrap()), "{error}");
    }
}

#[test]
fn a_plan_that_can_not_be_written_is_an_error_that_names_the_file() {
    let tmp = tempfile::tempdir().unwrap();
    write_index(tmp.path());
    let save = |path: &str| local(&format!("plan show train.csv --save {path}"), tmp.path());
    for path in ["nowhere/my.plan", "."] {
        let ran = save(path);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stderr.contains("can't write ") && ran.stderr.contains(&format!("{path}: ")), "{ran:?}");
    }
    // A disk without room for the last bytes, which would have been in a buffer.
    if cfg!(target_os = "linux") {
        let ran = save("/dev/full");
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stderr.contains("can't write the plan /dev/full: No space left on device"), "{ran:?}");
        assert!(!ran.stderr.contains("is saved in"), "{ran:?}");
    }
    // A plan that is replaced is whole, and nothing is beside it.
    for seed in [1, 2] {
        local(&format!("plan show train.csv --seed {seed} --save my.plan"), tmp.path()).stdout();
        let saved = local("plan digest train.csv --saved my.plan", tmp.path()).stdout();
        assert_eq!(saved, local(&format!("plan digest train.csv --seed {seed}"), tmp.path()).stdout());
        assert_eq!(entries(tmp.path()), ["my.plan", "train.csv"]);
    }
}

#[test]
fn two_plans_are_compared() {
    let tmp = tempfile::tempdir().unwrap();
    write_index(tmp.path());
    for (name, options) in [("a", ""), ("again", ""), ("seed", "--seed 1"), ("epoch", "--epoch 1")] {
        local(&format!("plan show train.csv {options} --save {name}.plan"), tmp.path()).stdout();
    }
    let same = local("plan diff a.plan again.plan --json", tmp.path()).json();
    assert_eq!(same["is_same"], true);
    for other in ["seed", "epoch"] {
        let ran = local(&format!("plan diff a.plan {other}.plan"), tmp.path());
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(
            ran.stdout.contains("they part at step 0") && ran.stdout.contains("both hold the same samples"),
            "{ran:?}"
        );
    }
    let error = local("plan diff a.plan train.csv", tmp.path()).failure(1);
    assert!(error.contains("can't read the plan train.csv: the bytes are not a saved plan"), "{error}");
}

#[test]
fn digests_tell_ranks_that_they_hold_the_same_plan() {
    let tmp = tempfile::tempdir().unwrap();
    write_index(tmp.path());
    let digests = local("plan digest train.csv --world-size 4 --json", tmp.path()).json();
    let verified = local("plan verify train.csv --json", tmp.path()).json();
    assert_eq!(digests["digest"], verified["epochs"][0]["digest"]);
    let ranks = digests["ranks"].as_array().unwrap();
    let samples: u64 = ranks.iter().map(|rank| rank["samples"].as_u64().unwrap()).sum();
    assert_eq!((ranks.len(), samples), (4, 100));
    // The whole does not depend on how many share it; the parts do.
    let two = local("plan digest train.csv --world-size 2 --json", tmp.path()).json();
    assert_eq!(two["digest"], digests["digest"]);
    assert_ne!(two["ranks"][0]["digest"], ranks[0]["digest"]);
    let page = local("plan digest train.csv", tmp.path()).stdout();
    assert_eq!(page, format!("{}  epoch 0, all ranks together\n", digests["digest"].as_str().unwrap()));
}
