//! Help, mistakes, the manual and completions, as texts.

use std::path::Path;

use crate::support::{command, local, snapshot};

const COMMANDS: [&str; 17] = [
    "",
    "speedtest",
    "preview",
    "index",
    "plan",
    "plan show",
    "plan verify",
    "plan diff",
    "plan digest",
    "cache",
    "cache stat",
    "cache verify",
    "cache prune",
    "cache clear",
    "example",
    "man",
    "completions",
];

#[test]
fn help_says_what_every_option_does_in_groups_and_with_defaults() {
    let tmp = tempfile::tempdir().unwrap();
    for name in COMMANDS {
        let help = local(&format!("{name} --help"), tmp.path()).stdout();
        let file = if name.is_empty() { "planfetch".into() } else { name.replace(' ', "-") };
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{name} is wider than a terminal");
        snapshot(&format!("help-{file}.txt"), &help);
    }
}

#[test]
fn no_option_of_a_command_lacks_a_description_or_a_group() {
    let tmp = tempfile::tempdir().unwrap();
    for name in ["speedtest", "preview", "index", "plan verify"] {
        let help = local(&format!("{name} -h"), tmp.path()).stdout();
        let (_, groups) = help.split_once("Options:\n").unwrap();
        // Of the options without a group, there is the help alone.
        assert!(groups.trim_start().starts_with("-h, --help"), "{groups}");
        assert_eq!(groups.split_once("\n\n").unwrap().0.lines().count(), 1, "{groups}");
    }
}

/// What people do wrong, and what they are told.
const MISTAKES: [(&str, &str); 20] = [
    ("unknown-option", "speedtest digits --batchsize 3"),
    ("unknown-command", "speedtst digits"),
    ("no-index", "speedtest"),
    ("no-such-index", "speedtest nowhere.csv"),
    ("two-forms", "speedtest digits --json --output table"),
    ("no-size", "speedtest digits --max-bytes ten"),
    ("no-share", "speedtest digits --sample-frac 1.5"),
    ("no-rank", "speedtest digits --world 8/8"),
    ("image-size-without-images", "speedtest digits --decode none --image-size 64"),
    ("clairvoyant-and-shared", "speedtest digits --prune-mode clairvoyant --prune-backend scan"),
    ("free-and-shared", "speedtest digits --max-bytes free:10% --prune-backend scan"),
    ("no-rows", "speedtest digits --offset 7 --limit 3"),
    ("balanced", "speedtest digits --strategy balanced --batch-size 9"),
    ("report-nowhere", "speedtest digits --report no/such/folder/report.html"),
    ("out-without-form", "index digits --out index.txt"),
    ("describe-and-check", "index digits --describe --check"),
    ("no-cache-directory", "cache stat digits"),
    ("prune-without-size", "cache prune digits"),
    ("example-in-full-folder", "example digits"),
    ("no-config", "speedtest digits --config nowhere.toml"),
];

#[test]
fn mistakes_come_with_a_hint() {
    let tmp = tempfile::tempdir().unwrap();
    for class in ["a", "b"] {
        std::fs::create_dir_all(tmp.path().join("digits").join(class)).unwrap();
        std::fs::write(tmp.path().join("digits").join(class).join("1.png"), "no image").unwrap();
    }
    for (name, line) in MISTAKES {
        let ran = local(line, tmp.path());
        assert!(matches!(ran.code, 1 | 2) && ran.stdout.is_empty(), "{line}: {ran:?}");
        let root = tmp.path().canonicalize().unwrap();
        let text = ran.stderr.replace(root.to_str().unwrap(), "/tmp");
        assert!(text.starts_with("error: "), "{text}");
        snapshot(&format!("mistake-{name}.txt"), &format!("$ planfetch {line}\n{text}exit code {}\n", ran.code));
    }
}

#[test]
fn every_flag_takes_a_value_too() {
    let tmp = tempfile::tempdir().unwrap();
    for name in COMMANDS {
        let help = local(&format!("{name} --help"), tmp.path()).stdout();
        // Lines that begin with an option without a value, and not those of a text in which one is named.
        let flags = help.lines().filter(|line| {
            let is_option = line.starts_with("      --") || (line.starts_with("  -") && line.contains(", --"));
            is_option && !line.contains(" <") && !line.contains("--help") && !line.contains("--version")
        });
        for flag in flags {
            assert!(flag.contains("[=<true|false>]"), "{name}: {flag}");
        }
    }
}

#[test]
fn colours_stay_out_of_pipes_and_where_nobody_wants_them() {
    let tmp = tempfile::tempdir().unwrap();
    let run = |variable: Option<(&str, &str)>| {
        let output = command(None, ["speedtest", "nowhere"], tmp.path()).envs(variable).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(!run(None).contains('\u{1b}'));
    assert!(run(Some(("CLICOLOR_FORCE", "1"))).contains('\u{1b}'));
    assert!(!run(Some(("NO_COLOR", "1"))).contains('\u{1b}'));
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let tmp = tempfile::tempdir().unwrap();
    local("man --out pages", tmp.path()).stdout();
    for page in ["planfetch.1", "planfetch-speedtest.1", "planfetch-plan-verify.1", "planfetch-cache-prune.1"] {
        let text = std::fs::read_to_string(tmp.path().join("pages").join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS") && text.contains(".TH"), "{page}: {text}");
    }
    let speedtest = std::fs::read_to_string(tmp.path().join("pages/planfetch-speedtest.1")).unwrap();
    assert!(speedtest.contains("batches\\-ahead"), "{speedtest}");
    assert!(local("man", tmp.path()).stdout().contains("planfetch"));
}

#[test]
fn completions_know_commands_and_options() {
    let tmp = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = local(&format!("completions {shell}"), tmp.path()).stdout();
        for word in ["speedtest", "batches-ahead", "prune"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
}

#[test]
fn no_snapshot_is_of_something_that_is_gone() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_known = COMMANDS.iter().any(|command| {
            let file = if command.is_empty() { "planfetch".into() } else { command.replace(' ', "-") };
            name == format!("help-{file}.txt")
        }) || MISTAKES.iter().any(|(mistake, _)| name == format!("mistake-{mistake}.txt"));
        assert!(is_known, "{name} is no snapshot of a test");
    }
}
