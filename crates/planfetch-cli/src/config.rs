//! `--config`: options from a file, as if they were other defaults.
//!
//! Each option has one place in the file. A group of options that commands share is a table: `--batches-ahead` of the
//! group Loader is `batches_ahead` in `[loader]`. The tables `[cache]`, `[store]`, `[loader]` and `[image]` are those of
//! `planfetch::Settings`, and options go by the names of its fields; options that are a command's own stand in
//! `[command.<name>]`.
//!
//! Defaults are no options that were given, so clap does not see that one of them contradicts another option. Hence
//! [`ConfigFile::matches`] parses twice where it has to: values of the file that contradict what stands on the command
//! line are left out, and two that contradict each other are an error.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Id};
use planfetch::Settings;
use toml::{Table, Value};

use crate::cli::is_flag;
use crate::failure::Failure;

/// The groups that are tables, by their headings in the help.
const GROUPS: [(&str, &str); 6] = [
    ("Data", "index"),
    ("Index", "index"),
    ("Plan", "plan"),
    ("Loader", "loader"),
    ("Cache", "cache"),
    ("Store", "store"),
];

/// Options whose name in the file is that of the library's setting.
const RENAMED: [(&str, &[&str]); 6] = [
    ("index.index", &["index", "location"]),
    ("cache.cache_dir", &["cache_dir"]),
    ("cache.max_bytes", &["cache", "limit"]),
    ("cache.download_threads", &["cache", "download_concurrency"]),
    ("cache.prune_mode", &["cache", "eviction"]),
    ("store.s3_pool_connections", &["store", "max_idle_connections"]),
];

/// Tables that `planfetch::Settings` checks.
const CHECKED_ELSEWHERE: [&str; 5] = ["cache_dir", "cache", "store", "loader", "image"];

/// A file with settings.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    table: Table,
    pub(crate) settings: Settings,
}

impl ConfigFile {
    /// Reads the file that the command line names, before anything else of it is looked at.
    pub(crate) fn named_in(arguments: &[OsString]) -> Result<Option<Self>, Failure> {
        let mut arguments = arguments.iter().skip(1).take_while(|argument| *argument != "--");
        let path = loop {
            let Some(argument) = arguments.next() else { return Ok(None) };
            if argument == "--config" {
                match arguments.next() {
                    Some(path) => break PathBuf::from(path),
                    // What is missing, clap says.
                    None => return Ok(None),
                }
            }
            if let Some(path) = argument.to_str().and_then(|argument| argument.strip_prefix("--config=")) {
                break PathBuf::from(path);
            }
        };
        Self::read(&path).map(Some)
    }

    fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::usage(
                error.to_string().trim_end().to_owned(),
                "the book's reference has all settings and an example",
            )
        };
        let settings = Settings::load(path).map_err(|error| match error {
            planfetch::SettingsError::Read { path, source } => {
                Failure::usage(format!("can't read {}: {source}", path.display()), "--config names a TOML file")
            }
            other => wrong(&other),
        })?;
        let text = std::fs::read_to_string(path)?;
        let table = text.parse().map_err(|error| wrong(&error))?;
        Ok(Self { path: path.to_owned(), table, settings })
    }

    /// Parses a command line with the values of the file as defaults.
    pub(crate) fn matches(&self, command: &Command, arguments: &[OsString]) -> Result<ArgMatches, Failure> {
        let matches = self.apply(command.clone(), &BTreeSet::new())?.try_get_matches_from(arguments)?;
        let overruled = self.overruled(command, &matches)?;
        if overruled.is_empty() {
            return Ok(matches);
        }
        Ok(self.apply(command.clone(), &overruled)?.try_get_matches_from(arguments)?)
    }

    /// Returns the places in the file of options that contradict one on the command line.
    fn overruled(&self, command: &Command, matches: &ArgMatches) -> Result<BTreeSet<Vec<String>>, Failure> {
        let (mut command, mut matches, mut path) = (command, matches, Vec::new());
        while let Some((name, below)) = matches.subcommand() {
            let Some(subcommand) = command.find_subcommand(name) else { break };
            (command, matches) = (subcommand, below);
            path.push(name.to_owned());
        }
        let given: Vec<Given<'_>> = command
            .get_arguments()
            .filter_map(|argument| self.given(argument, place(argument, &path)?, matches))
            .collect();
        let mut overruled = BTreeSet::new();
        let mut undecided = Vec::new();
        for (a, b) in given.iter().enumerate().flat_map(|(i, a)| given[i + 1..].iter().map(move |b| (a, b))) {
            let contradicts = |a: &Given<'_>, b: &Given<'_>| {
                let conflicts = command.get_arg_conflicts_with(a.argument);
                conflicts.iter().any(|argument| argument.get_id() == b.argument.get_id())
            };
            if !contradicts(a, b) && !contradicts(b, a) {
                continue;
            }
            match (a.on_command_line, b.on_command_line) {
                (true, true) => {}
                (true, false) => drop(overruled.insert(b.place.clone())),
                (false, true) => drop(overruled.insert(a.place.clone())),
                (false, false) => undecided.push((a, b)),
            }
        }
        match undecided.iter().find(|(a, b)| !overruled.contains(&a.place) && !overruled.contains(&b.place)) {
            Some((a, b)) => Err(self.wrong(&a.place, &format!("can't go with {}", b.place.join(".")))),
            None => Ok(overruled),
        }
    }

    /// Returns an option that was given, here or there. A flag that is false asks for nothing, and contradicts nothing.
    fn given<'a>(&self, argument: &'a Arg, place: Vec<String>, matches: &ArgMatches) -> Option<Given<'a>> {
        let id = argument.get_id().as_str();
        let on_command_line = matches.value_source(id) == Some(ValueSource::CommandLine);
        let is_false = is_flag(argument) && !matches.get_flag(id);
        (!is_false && (on_command_line || self.find(&place).is_some())).then_some(Given {
            argument,
            place,
            on_command_line,
        })
    }

    /// Returns the command line with the values of the file as defaults, but for those in some places.
    pub(crate) fn apply(&self, command: Command, without: &BTreeSet<Vec<String>>) -> Result<Command, Failure> {
        let mut places = BTreeSet::new();
        let command = self.apply_to(command, &mut Vec::new(), &mut places, without)?;
        self.check_names(&self.table, &mut Vec::new(), &places)?;
        Ok(command)
    }

    fn apply_to(
        &self,
        mut command: Command,
        path: &mut Vec<String>,
        places: &mut BTreeSet<Vec<String>>,
        without: &BTreeSet<Vec<String>>,
    ) -> Result<Command, Failure> {
        let arguments: Vec<Arg> = command.get_arguments().cloned().collect();
        for argument in &arguments {
            let Some(place) = place(argument, path) else { continue };
            if let Some(value) = self.find(&place).filter(|_| !without.contains(&place)) {
                let values = texts(value).ok_or_else(|| self.wrong(&place, "is no value that an option has"))?;
                self.check_value(argument, &place, &values)?;
                command = command
                    .mut_arg(argument.get_id().clone(), |argument| argument.required(false).default_values(values));
            }
            places.insert(place);
        }
        let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        for name in names {
            path.push(name.clone());
            let mut failure = None;
            command = command.mut_subcommand(&name, |subcommand| {
                let before = subcommand.clone();
                self.apply_to(subcommand, path, places, without).unwrap_or_else(|error| {
                    failure = Some(error);
                    before
                })
            });
            path.pop();
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Ok(command)
    }

    fn find(&self, place: &[String]) -> Option<&Value> {
        let (last, tables) = place.split_last()?;
        let mut table = &self.table;
        for name in tables {
            table = table.get(name)?.as_table()?;
        }
        table.get(last)
    }

    /// Has clap say what is wrong with a value, which it would not do of a default before it is used.
    fn check_value(&self, argument: &Arg, place: &[String], values: &[String]) -> Result<(), Failure> {
        let flags: Vec<String> = match argument.get_long() {
            Some(_) if is_flag(argument) => return self.check_flag(place, values),
            Some(long) => values.iter().map(|value| format!("--{long}={value}")).collect(),
            None => values.to_vec(),
        };
        // Alone, since an option that it contradicts may be another command's.
        let mut alone = argument.clone().required(false);
        alone = alone.global(false).conflicts_with(Resettable::<Id>::Reset);
        let probe = Command::new("planfetch").no_binary_name(true).disable_help_flag(true).arg(alone);
        match probe.try_get_matches_from(flags) {
            Err(error) if error.kind() == clap::error::ErrorKind::ValueValidation => {
                let text = error.to_string();
                let problem = text.trim_start_matches("error: ").lines().next().unwrap_or_default().to_owned();
                Err(self.wrong(place, &problem))
            }
            Err(error) if error.kind() == clap::error::ErrorKind::InvalidValue => {
                let text = error.to_string();
                let lines: Vec<&str> = text.trim_start_matches("error: ").lines().take(2).map(str::trim).collect();
                Err(self.wrong(place, &lines.join(" ")))
            }
            _ => Ok(()),
        }
    }

    fn check_flag(&self, place: &[String], values: &[String]) -> Result<(), Failure> {
        match values {
            [value] if value == "true" || value == "false" => Ok(()),
            _ => Err(self.wrong(place, "has to be true or false")),
        }
    }

    fn wrong(&self, place: &[String], problem: &str) -> Failure {
        let place = place.join(".");
        Failure::usage(
            format!("{}: {place}: {problem}", self.path.display()),
            "what stands on the command line wins over the file; correct the file, or give the option",
        )
    }

    /// Refuses what is no option's place: it would be a setting that nobody heeds.
    fn check_names(
        &self,
        table: &Table,
        path: &mut Vec<String>,
        places: &BTreeSet<Vec<String>>,
    ) -> Result<(), Failure> {
        for (name, value) in table {
            if path.is_empty() && CHECKED_ELSEWHERE.contains(&name.as_str()) {
                continue;
            }
            path.push(name.clone());
            let is_place = places.contains(path);
            let is_table = places.iter().any(|place| place.len() > path.len() && place.starts_with(path));
            match value {
                Value::Table(inner) if is_table => self.check_names(inner, path, places)?,
                _ if is_place => {}
                _ => {
                    let siblings: BTreeSet<&str> = places
                        .iter()
                        .filter(|place| place.len() >= path.len() && place[..path.len() - 1] == path[..path.len() - 1])
                        .map(|place| place[path.len() - 1].as_str())
                        .collect();
                    let siblings: Vec<&str> = siblings.into_iter().collect();
                    return Err(Failure::usage(
                        format!("{}: there is no setting {}", self.path.display(), path.join(".")),
                        format!("in this table, there are {}", siblings.join(", ")),
                    ));
                }
            }
            path.pop();
        }
        Ok(())
    }
}

/// An option that was given, on the command line or in the file.
struct Given<'a> {
    argument: &'a Arg,
    place: Vec<String>,
    on_command_line: bool,
}

/// Returns where an option stands in the file, or `None` where it can't.
pub(crate) fn place(argument: &Arg, command: &[String]) -> Option<Vec<String>> {
    let id = argument.get_id().as_str();
    // Which file it is can't stand in it, and what makes the program print help is no setting.
    if command.is_empty() || matches!(id, "config" | "help" | "version" | "image_size") || argument.is_global_set() {
        return (id == "verbose" && command.is_empty()).then(|| vec!["command".into(), "verbose".into()]);
    }
    let group = argument.get_help_heading().and_then(|heading| GROUPS.iter().find(|(name, _)| *name == heading));
    let name = format!("{}.{id}", group.map_or("", |(_, table)| table));
    if let Some((_, place)) = RENAMED.iter().find(|(renamed, _)| *renamed == name) {
        return Some(place.iter().map(|part| (*part).to_owned()).collect());
    }
    Some(match group {
        Some((_, table)) => vec![(*table).to_owned(), id.to_owned()],
        None => {
            ["command"].into_iter().map(str::to_owned).chain(command.iter().cloned()).chain([id.to_owned()]).collect()
        }
    })
}

/// Returns a value as it would stand on the command line.
fn texts(value: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(is) => Some(is.to_string()),
        _ => None,
    };
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        // The library's limit on the disk.
        Value::Table(limit) => {
            let size = limit.get("total_size").and_then(Value::as_integer).map(|bytes| bytes.to_string());
            let ratio = limit.get("available_space").and_then(|space| space.get("min_ratio")).and_then(Value::as_float);
            size.or_else(|| ratio.map(|ratio| format!("free:{}%", ratio * 100.0))).map(|text| vec![text])
        }
        value => text(value).map(|text| vec![text]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    #[test]
    fn a_flag_of_all_commands_is_cleared_before_and_after_the_name_of_one() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("planfetch.toml");
        let is_verbose = |text: &str, line: &str| {
            std::fs::write(&path, text).unwrap();
            let file = ConfigFile::read(&path).unwrap();
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            file.matches(&command(), &arguments).unwrap().get_flag("verbose")
        };
        let (set, cleared) = ("[command]\nverbose = true\n", "[command]\nverbose = false\n");
        assert!(is_verbose(set, "planfetch man"));
        assert!(!is_verbose(cleared, "planfetch man"));
        for line in ["planfetch man -v=false", "planfetch -v=false man", "planfetch man --verbose=false"] {
            assert!(!is_verbose(set, line), "{line}");
        }
        for line in ["planfetch man -v", "planfetch -v man", "planfetch man --verbose", "planfetch -v=true man"] {
            assert!(is_verbose(cleared, line), "{line}");
        }
    }

    #[test]
    fn values_of_options_that_contradict_others_are_checked_too() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("planfetch.toml");
        for text in ["[plan]\nsaved = \"a.plan\"\n", "[command.index]\nout = \"a.csv\"\n"] {
            std::fs::write(&path, text).unwrap();
            ConfigFile::read(&path).unwrap().apply(command(), &BTreeSet::new()).unwrap();
        }
    }
}
