//! All that can go wrong, in one place: what is said, and the exit code.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::error::ErrorKind;
use planfetch::LoadIndexError;
use planfetch::cache::CacheErrorKind;
use planfetch::image::ImageError;
use planfetch::prelude::*;

use crate::names::option_of;

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
const FOUND: u8 = 3;
pub(crate) const INTERRUPTED: u8 = 130;

/// Why the program ends before it has done what it was asked for, or with another exit code than 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It could not be done.
    Failed(BoxError),
    /// What clap says: an unknown option, a value that is none, or the help that was asked for.
    Clap(clap::Error),
    /// Options contradict each other or don't fit the data, and what to do.
    Usage { problem: String, hint: String },
    /// It was done, and what was checked is not as it should be.
    Found(String),
    /// Ctrl-C.
    Interrupted,
}

impl Failure {
    pub(crate) fn usage(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { problem: problem.into(), hint: hint.into() }
    }

    /// Says on standard error what happened, and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Clap(error) => {
                // OK because where nobody reads what is printed, nobody is told either.
                let _ = error.print();
                say(&[], clap_hint(&error));
                ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(WRONG_USAGE))
            }
            Self::Failed(error) => {
                // The pipe's reader has seen enough, as `head` has.
                if is_broken_pipe(&*error) {
                    return ExitCode::SUCCESS;
                }
                let mut lines = vec![error.to_string()];
                let mut cause = error.source();
                while let Some(error) = cause {
                    let text = error.to_string();
                    // Some errors repeat what caused them.
                    if !lines.iter().any(|line| line.contains(&text)) {
                        lines.push(text);
                    }
                    cause = error.source();
                }
                say(&lines, hint(&*error));
                ExitCode::from(if is_setting(&*error) { WRONG_USAGE } else { FAILED })
            }
            Self::Usage { problem, hint } => {
                say(&[problem], Some(hint));
                ExitCode::from(WRONG_USAGE)
            }
            Self::Found(problem) => {
                say(&[problem], None);
                ExitCode::from(FOUND)
            }
            Self::Interrupted => ExitCode::from(INTERRUPTED),
        }
    }
}

/// Prints a problem, what caused it, and a hint, as clap prints its own.
fn say(lines: &[String], hint: Option<String>) {
    let (red, green) = (color(AnsiColor::Red).bold(), color(AnsiColor::Green));
    let mut stderr = anstream::stderr().lock();
    for (i, line) in lines.iter().enumerate() {
        // OK because there is nobody to tell, here and below.
        let _ = if i == 0 {
            writeln!(stderr, "{red}error:{red:#} {line}")
        } else {
            writeln!(stderr, "  caused by: {line}")
        };
    }
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "\n  {green}hint:{green:#} {hint}");
    }
}

/// Returns what to do, where clap says only what is wrong.
fn clap_hint(error: &clap::Error) -> Option<String> {
    let hint = match error.kind() {
        ErrorKind::ArgumentConflict => "give one of the two",
        ErrorKind::MissingRequiredArgument if error.to_string().contains("<INDEX>") => NAME_AN_INDEX,
        _ => return None,
    };
    Some(hint.into())
}

/// Returns whether an option has a value that the library does not take.
fn is_setting(error: &(dyn Error + 'static)) -> bool {
    matches!(
        error.downcast_ref(),
        Some(PlanError::Setting { .. } | PlanError::BatchSize { .. } | PlanError::Rank { .. })
    ) || matches!(error.downcast_ref(), Some(LoaderError::Setting { .. }))
        || matches!(error.downcast_ref(), Some(ImageError::Setting { .. }))
        || error.downcast_ref().is_some_and(|error: &CacheError| error.kind() == CacheErrorKind::InvalidSetting)
}

fn color(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(color.into()))
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Returns which option would help, where that is known.
fn hint(error: &(dyn Error + 'static)) -> Option<String> {
    let (index, cache) = match error.downcast_ref::<LoadIndexError>() {
        Some(LoadIndexError::Index(index)) => (Some(index), None),
        Some(LoadIndexError::Object(cache)) => (None, Some(cache)),
        _ => (error.downcast_ref::<IndexError>(), error.downcast_ref::<CacheError>()),
    };
    if let Some(IndexError::MissingColumn { role, .. }) = index {
        let option = match *role {
            "URI" => "--s3-uri-col",
            "label" => "--class-col",
            "offset" => "--offset-col",
            "length" => "--length-col",
            _ => "--size-col",
        };
        return Some(format!("{option} NAME says which column holds the {role}s"));
    }
    if let Some(IndexError::Value { problem, .. }) = index
        && let Some((_, hint)) = VALUES.iter().find(|(part, _)| problem.contains(part))
    {
        return Some((*hint).into());
    }
    if let Some(IndexError::Read { source, .. }) = index
        && source.kind() == std::io::ErrorKind::NotFound
    {
        return Some(NAME_AN_INDEX.into());
    }
    if let Some(LoaderError::Sample(sample)) = error.downcast_ref::<LoaderError>() {
        return match sample.cause.downcast_ref::<CacheError>() {
            Some(cache) => cache_hint(cache).or_else(|| Some(CHECK.into())),
            None => Some(format!("--decode none measures without decoding; {CHECK}")),
        };
    }
    if is_setting(error) {
        return option_of(&error.to_string())
            .map(|option| format!("{option} sets it, and so does the file of --config"));
    }
    cache.and_then(cache_hint)
}

/// What an index advises a program to set, and the options that set it.
const VALUES: [(&str, &str); 4] = [
    ("set the prefix to", "--prefix s3:// lets rows of several buckets through"),
    ("does not begin with the prefix", "--prefix says what all URIs begin with"),
    ("set the kind of label to Name", "--label-kind name takes labels for names of classes"),
    ("set ranges to Named", "--ranges none takes samples for whole objects"),
];

const NAME_AN_INDEX: &str = "name an index or a folder of <class>/<file>; planfetch example digits writes one to try";
const CHECK: &str = "planfetch index --check finds all objects that can't be loaded";

fn cache_hint(error: &CacheError) -> Option<String> {
    let hint = match error.kind() {
        CacheErrorKind::Denied => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give --anonymous for a public bucket"
        }
        CacheErrorKind::Unavailable => "--endpoint URL names a server other than Amazon's; -v says what was tried",
        CacheErrorKind::Directory => "--cache-dir DIR names another directory; without it, a temporary one is used",
        _ => return None,
    };
    Some(hint.into())
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        Self::Clap(error)
    }
}

macro_rules! failed {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Failure {
            fn from(error: $kind) -> Self {
                Self::Failed(error.into())
            }
        }
    )*};
}

failed!(
    BoxError,
    String,
    std::io::Error,
    serde_json::Error,
    csv::Error,
    IndexError,
    LoadIndexError,
    CacheError,
    PlanError,
    LoaderError,
    ImageError,
    planfetch::plan::WorldError
);
