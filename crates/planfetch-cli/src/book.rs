//! The book's reference of the command line, made of the command line itself.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

use crate::cli::{command, is_flag};
use crate::config::{ConfigFile, place};

const HEAD: &str = "# The command line

`planfetch` measures and looks before a GPU is paid for; `cargo install --path crates/planfetch-cli` in a checkout installs it.
Data goes to standard output, as text for people or as one JSON object (`--json`); all else goes to standard error.
`NO_COLOR` keeps colours out.
Ctrl-C ends a speed test early: what was measured is printed, and temporary files go.

A flag takes `=true` or `=false`: `--json=false` clears one that the file sets.

The last column says where an option stands in the file that `--config` names; see [Settings](settings.md).

<!-- This page is made of the command line by the tests of planfetch-cli; set UPDATE_SNAPSHOTS=1 to write it anew. -->

## Exit codes

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | it could not be done; standard error says why |
| 2 | options are wrong or contradict each other |
| 3 | done, and what was checked is not as it should be (`plan verify`, `plan diff`, `index --check`, `cache verify`) |
| 130 | interrupted by Ctrl-C; what was measured so far was printed |
";

fn book(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/reference").join(page)
}

/// Writes a command, and those below it.
fn write_command(page: &mut String, command: &mut Command, path: &[String]) {
    let name = std::iter::once("planfetch").chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(page, "\n## {name}\n\n{about}.");
    let mut headings: Vec<&str> = Vec::new();
    let arguments: Vec<&Arg> =
        command.get_arguments().filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version")).collect();
    for argument in &arguments {
        let heading = argument.get_help_heading().unwrap_or("Arguments");
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = writeln!(
            page,
            "\n### {heading}\n\n| option | default | what it is | in a file |\n| --- | --- | --- | --- |"
        );
        for argument in &arguments {
            if argument.get_help_heading().unwrap_or("Arguments") == heading {
                write_option(page, argument, path);
            }
        }
    }
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names.iter().filter(|name| *name != "help") {
        let path: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
        if let Some(command) = command.find_subcommand_mut(name) {
            write_command(page, command, &path);
        }
    }
}

fn write_option(page: &mut String, argument: &Arg, path: &[String]) {
    let takes_value = !is_flag(argument);
    let value = argument.get_value_names().filter(|_| takes_value).and_then(|names| names.first());
    let value = value.map(|name| format!("<{name}>")).unwrap_or_default();
    let option = match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long} {value}"),
        (None, Some(long)) => format!("--{long} {value}"),
        _ => value,
    };
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let (help, said) = match help.rsplit_once(" [default: ") {
        Some((help, default)) => (help.to_owned(), default.trim_end_matches(']').to_owned()),
        None => (help, String::new()),
    };
    let default: Vec<String> = argument
        .get_default_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    let default = if default.is_empty() { said } else { default.join(", ") };
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}`: {}", value.get_name(), first_lower(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    let values = if values.is_empty() { String::new() } else { format!(". {}", values.join("; ")) };
    let place = place(argument, path).map(|place| format!("`{}`", place.join("."))).unwrap_or_default();
    let place = if argument.get_id() == "image_size" { "`image.height`, `image.width`".into() } else { place };
    let what = format!("{help}{values}").replace('|', "\\|").replace('<', "&lt;");
    let _ = writeln!(page, "| `{}` | {default} | {what} | {place} |", option.trim());
}

fn first_lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}

#[test]
fn the_reference_is_that_of_this_command_line() {
    let mut page = HEAD.to_owned();
    write_command(&mut page, &mut command(), &[]);
    let path = book("cli.md");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "book/src/reference/cli.md is not up to date; run the tests with UPDATE_SNAPSHOTS=1");
}

#[test]
fn the_file_in_the_book_is_one_that_the_program_takes() {
    let chapter = std::fs::read_to_string(book("settings.md")).unwrap();
    let (_, example) = chapter.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("planfetch.toml");
    std::fs::write(&path, example).unwrap();
    let file = ConfigFile::named_in(&["planfetch".into(), "--config".into(), path.into()]).unwrap().unwrap();
    let matches = file.matches(&command(), &["planfetch".into(), "speedtest".into()]).unwrap();
    let (_, speedtest) = matches.subcommand().unwrap();
    assert_eq!(speedtest.get_one::<usize>("batch_size"), Some(&256));
    assert_eq!(file.settings.cache.download_concurrency, 128);
}

#[test]
fn clap_finds_no_fault_with_the_command_line() {
    command().debug_assert();
}
