//! `--config`.

use planfetch_testkit::{S3Server, fixtures};

use crate::support::{local, planfetch};

#[test]
fn options_come_from_a_file_and_the_command_line_wins() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 40).replace("s3_uri,label", "where,what");
    std::fs::write(tmp.path().join("photos.csv"), csv).unwrap();
    let config = format!(
        "cache_dir = \"cache\"\n\n[index]\nlocation = \"photos.csv\"\ns3_uri_col = \"where\"\nclass_col = \"what\"\n\
         limit = 30\n\n[plan]\nstrategy = \"sequential\"\nbatch_size = 5\nworld = \"0/5\"\n\n[loader]\n\
         batches_ahead = \"auto\"\nnum_workers = 1\n\n[cache]\neviction = \"pressure\"\n\
         limit = {{ total_size = 50_000_000 }}\ndownload_concurrency = 3\nmax_attempts = 2\n\n[store]\n\
         endpoint = \"{}\"\n\n[image]\nheight = 8\nwidth = 8\n\n[command.speedtest]\nepochs = 2\njson = true\n",
        server.endpoint()
    );
    std::fs::write(tmp.path().join("planfetch.toml"), config).unwrap();
    let summary = planfetch(&server, "speedtest --config planfetch.toml", tmp.path()).json();
    // One of five samples in six steps, twice.
    assert_eq!((summary["samples"].as_u64(), summary["batches"].as_u64()), (Some(12), Some(12)));
    assert_eq!(summary["requests"], 6);
    assert!(server.counts().most_at_once <= 3);
    // Nothing was pruned, since the limit is far.
    let stat = local("cache stat cache --json", tmp.path()).json();
    assert_eq!(stat["files"], 6);
    // A command that has a directory of its own to look into finds it in the file.
    let stat = local("cache stat --json --config planfetch.toml", tmp.path()).json();
    assert_eq!(stat["files"], 6);

    let line = "speedtest photos.csv --config=planfetch.toml --world 1/5 --epochs 1 --batch-size 10 --decode none";
    let summary = planfetch(&server, line, tmp.path()).json();
    assert_eq!((summary["samples"].as_u64(), summary["batches"].as_u64()), (Some(6), Some(3)));
    let shown = local("plan show --config planfetch.toml --world 0/1 --json", tmp.path()).json();
    assert_eq!((shown["batch_size"].as_u64(), shown["num_samples"].as_u64()), (Some(5), Some(30)));
    // The help shows what holds with the file.
    let help = local("speedtest --config planfetch.toml -h", tmp.path()).stdout();
    assert!(help.contains("[default: 3]") && help.contains("[default: sequential]"), "{help}");
}

#[test]
fn a_training_program_reads_the_same_file() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("planfetch.toml");
    let text = "[plan]\nbatch_size = 7\n[command.index]\ndecode = \"none\"\n[loader]\nbatches_back = 9\n";
    std::fs::write(&path, text).unwrap();
    assert_eq!(planfetch::Settings::load(&path).unwrap().loader.batches_back, 9);
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_its_place() {
    let tmp = tempfile::tempdir().unwrap();
    std::fs::write(tmp.path().join("photos.csv"), "s3_uri,label\ns3://b/1,0\n").unwrap();
    for (text, expected) in [
        ("[loader]\nbatches_ahed = 3\n", "unknown field `batches_ahed`"),
        ("[plan]\nbatchsize = 3\n", "there is no setting plan.batchsize"),
        ("[plan]\nbatchsize = 3\n", "batch_size, remainder, saved, seed, strategy, world"),
        ("[plans]\nbatch_size = 3\n", "unknown field `plans`"),
        ("[command.speedtst]\nepochs = 3\n", "there is no setting command.speedtst"),
        ("[command.speedtest]\nstep = 3\n", "there is no setting command.speedtest.step"),
        ("[plan]\nbatch_size = \"many\"\n", "plan.batch_size: invalid value 'many' for '--batch-size <SAMPLES>'"),
        ("[plan]\nstrategy = \"random\"\n", "plan.strategy: invalid value 'random'"),
        ("[plan]\nstrategy = \"random\"\n", "shuffle, sequential, stratified, balanced"),
        ("[command.speedtest]\njson = 3\n", "command.speedtest.json: has to be true or false"),
        ("[command.speedtest]\nepochs = [[1]]\n", "command.speedtest.epochs: is no value that an option has"),
        ("[plan\n", "TOML parse error at line 1"),
    ] {
        std::fs::write(tmp.path().join("planfetch.toml"), text).unwrap();
        let error = local("speedtest photos.csv --config planfetch.toml", tmp.path()).failure(2);
        assert!(error.starts_with("error: planfetch.toml: ") && error.contains("\n  hint: "), "{error}");
        assert!(error.contains(expected), "{error} does not say {expected:?}");
    }
}

/// Writes an index and settings, and runs a command line with them.
#[track_caller]
fn with_file(text: &str, line: &str) -> crate::support::Ran {
    let tmp = tempfile::tempdir().unwrap();
    let rows: String = (0..40).map(|i| format!("s3://b/{i},{}\n", i % 2)).collect();
    std::fs::write(tmp.path().join("a.csv"), format!("s3_uri,label\n{rows}")).unwrap();
    local("plan show a.csv --strategy sequential --save a.plan", tmp.path()).stdout();
    std::fs::write(tmp.path().join("planfetch.toml"), text).unwrap();
    local(&format!("{line} --config planfetch.toml"), tmp.path())
}

#[test]
fn a_flag_that_the_file_sets_can_be_cleared() {
    let is_json = |text: &str, line: &str| with_file(text, line).stdout().starts_with('{');
    let set = "[command.plan.verify]\njson = true\n";
    assert!(is_json(set, "plan verify a.csv"));
    assert!(is_json(set, "plan verify a.csv --json"));
    assert!(!is_json(set, "plan verify a.csv --json=false"));
    let cleared = "[command.plan.verify]\njson = false\n";
    assert!(!is_json(cleared, "plan verify a.csv"));
    assert!(is_json(cleared, "plan verify a.csv --json"));
    assert!(is_json(cleared, "plan verify --json=true a.csv"));
    let error = with_file("", "plan verify a.csv --json=maybe").failure(2);
    assert!(error.contains("invalid value 'maybe' for '--json[=<true|false>]'"), "{error}");
}

#[test]
fn what_stands_on_the_command_line_wins_over_what_contradicts_it_in_the_file() {
    let json = |text: &str, line: &str| with_file(text, line).stdout().starts_with('{');
    // Two options for the same.
    assert!(!json("[command.plan.verify]\njson = true\n", "plan verify a.csv --output table"));
    assert!(json("[command.plan.verify]\njson = true\n", "plan verify a.csv --output json"));
    assert!(json("[command.plan.verify]\noutput = \"table\"\n", "plan verify a.csv --json"));
    assert!(json("[command.plan.verify]\noutput = \"json\"\n", "plan verify a.csv --json=false"));
    // Two things to do.
    let describe = |text: &str, line: &str| with_file(text, line).stdout().contains("40 samples of 2 classes");
    assert!(describe("[command.index]\ncheck = true\n", "index a.csv --describe"));
    assert!(describe("[command.index]\ncheck = true\nout = \"bad.csv\"\n", "index a.csv --describe"));
    assert!(describe("[command.index]\ndescribe = true\n", "index a.csv --check=false"));
    let ran = with_file("[command.index]\ndescribe = true\n", "index a.csv --out b.csv");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    assert!(ran.stderr.contains("40 rows of 2 classes"), "{ran:?}");
    // A saved plan, and what a plan is made of.
    let order = |text: &str, line: &str| with_file(text, line).json()["order"].as_str().unwrap().to_owned();
    let saved = "[plan]\nsaved = \"a.plan\"\n";
    assert_eq!(order(saved, "plan show a.csv --json"), "saved in a.plan");
    assert!(!order(saved, "plan show a.csv --json --seed 3").contains("saved"));
    assert_eq!(order("[plan]\nseed = 3\n", "plan show a.csv --json --saved a.plan"), "saved in a.plan");
    let epochs = "[command.plan.verify]\nepochs = 3\n";
    let verified = with_file(epochs, "plan verify a.csv --json --saved a.plan").json();
    assert_eq!(verified["epochs"].as_array().unwrap().len(), 1);
    // The launcher is not asked where the number of ranks is given.
    let digests = with_file("[plan]\nworld = \"env\"\n", "plan digest a.csv --world-size 2 --json").json();
    assert_eq!(digests["ranks"].as_array().unwrap().len(), 2);
}

#[test]
fn what_contradicts_itself_in_the_file_is_said_where_it_would_count() {
    for (text, line, expected) in [
        ("[command.index]\ndescribe = true\ncheck = true\n", "index a.csv", "command.index.describe: can't go with"),
        ("[command.index]\ndescribe = true\nout = \"b.csv\"\n", "index a.csv", "can't go with command.index.out"),
        ("[command.index]\njson = true\noutput = \"table\"\n", "index a.csv", "can't go with command.index.json"),
        ("[plan]\nsaved = \"a.plan\"\nseed = 3\n", "plan show a.csv", "plan.seed: can't go with plan.saved"),
    ] {
        let error = with_file(text, line).failure(2);
        assert!(error.starts_with("error: planfetch.toml: ") && error.contains(expected), "{error}");
    }
    // What is off contradicts nothing, and neither does what another command or the command line does away with.
    let both = "[command.index]\ndescribe = true\ncheck = true\n";
    with_file(both, "plan show a.csv").stdout();
    assert!(with_file(both, "index a.csv --check=false").stdout().contains("40 samples of 2 classes"));
    assert!(with_file(both, "index a.csv --describe").stdout().contains("40 samples of 2 classes"));
    with_file("[command.index]\ndescribe = true\ncheck = false\n", "index a.csv").stdout();
}
