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
