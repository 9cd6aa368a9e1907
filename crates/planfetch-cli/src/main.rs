//! The `planfetch` program: measures how fast a data set loads, and shows what comes out, before a GPU is paid for.
//!
//! ```sh
//! planfetch example digits                 # images to try the rest with
//! planfetch speedtest digits               # load them as a training loop would, and say what that is bound by
//! planfetch speedtest s3://photos/train/ --step-ms 50 --report report.html
//! planfetch index s3://photos/train/ -o train.csv
//! planfetch plan verify train.csv --epochs 3
//! planfetch cache stat /mnt/nvme/planfetch
//! ```
//!
//! Data goes to standard output, as text for people or as JSON (`--json`); all else goes to standard error. `--config`
//! reads options from a TOML file, which training programs read too, as `planfetch::Settings`. The exit codes, and all
//! options with their defaults, are in `planfetch help` and in the book's reference.
//!
//! # How it is laid out
//!
//! A module for each command, with its options, which are made of the groups in `options`; what they share beyond that
//! is in `context` (settings, temporary folders), `failure` (all errors, and the exit codes), `interrupt` (Ctrl-C),
//! `replace` (files that are whole or not there), `output` (what is printed), `names` (what settings are called as
//! options) and `units`.

#[cfg(test)]
mod book;
mod cache;
mod cli;
mod config;
mod context;
mod example;
mod failure;
mod generate;
mod index;
mod interrupt;
mod names;
mod options;
mod output;
mod plan;
mod preview;
mod replace;
mod speedtest;
mod units;

use std::process::ExitCode;

use crate::cli::{Command, Options};
use crate::context::Context;
use crate::failure::Failure;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run() -> Result<(), Failure> {
    let (options, settings) = Options::parse()?;
    output::start_log(options.verbose);
    let context = Context::new(settings, options.verbose)?;
    match options.command {
        Command::Speedtest(options) => speedtest::run(&options, &context),
        Command::Preview(options) => preview::run(&options, &context),
        Command::Index(options) => index::run(&options, &context),
        Command::Plan(command) => plan::run(&command, &context),
        Command::Cache(command) => cache::run(&command),
        Command::Example(options) => example::run(&options),
        Command::Man(options) => generate::man(&options),
        Command::Completions(options) => generate::completions(&options),
    }
}
