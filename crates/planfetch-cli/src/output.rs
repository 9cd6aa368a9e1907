//! What is printed: data on standard output, all else on standard error.

use std::fmt::Display;
use std::io::{Write, stderr};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use tracing_subscriber::filter::LevelFilter;

use crate::failure::Failure;

// No comment for clap: it would be taken for that of the command.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputOptions {
    /// What is printed
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
    /// Short for --output json
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs: one object
    Json,
}

impl OutputOptions {
    /// Prints data, by its `Display` or as JSON.
    pub(crate) fn print(self, data: &(impl Display + Serialize)) -> Result<(), Failure> {
        match self.format() {
            Format::Table => print(data),
            Format::Json => print(format_args!("{}\n", serde_json::to_string_pretty(data)?)),
        }
    }

    fn format(self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}

/// Prints data on standard output; the text ends its lines itself.
pub(crate) fn print(data: impl Display) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    write!(stdout, "{data}")?;
    Ok(stdout.flush()?)
}

/// Says on standard error what a person may want to know, and a program not.
pub(crate) fn note(text: impl Display) {
    // OK because where standard error is closed, nobody wants to know.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Has what the libraries log come on standard error: warnings, or everything.
pub(crate) fn start_log(verbose: bool) {
    let level = if verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    tracing_subscriber::fmt().with_max_level(level).with_writer(stderr).with_ansi(false).init();
}

/// Makes a bar on standard error, which is not drawn where that is no terminal.
pub(crate) fn progress_bar(len: Option<u64>, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(len, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style.progress_chars("━╸─"))
}
