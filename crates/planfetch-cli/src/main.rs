//! The `planfetch` program: measures how fast a data set loads, and shows what comes out, before a GPU is paid for.

mod options;
mod preview;
mod speedtest;
mod summary;

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use clap::Parser;
use planfetch::prelude::BoxError;
use tracing_subscriber::filter::LevelFilter;

use crate::options::{Command, Options};

fn main() -> ExitCode {
    let options = Options::parse();
    let level = if options.verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    tracing_subscriber::fmt().with_max_level(level).with_writer(stderr).with_ansi(stderr().is_terminal()).init();
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&*error);
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<(), BoxError> {
    match options.command {
        Command::Preview(options) => preview::run(&options),
        Command::Speedtest(options) => speedtest::run(&options),
    }
}

#[expect(clippy::print_stderr, reason = "the one place where the program says what went wrong")]
fn print_error(error: &(dyn std::error::Error + 'static)) {
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  caused by: {error}");
        cause = error.source();
    }
}
