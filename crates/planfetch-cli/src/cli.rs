//! The command line.

use std::path::PathBuf;

use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use planfetch::Settings;

use crate::cache::CacheCommand;
use crate::config::ConfigFile;
use crate::example::ExampleOptions;
use crate::failure::Failure;
use crate::generate::{CompletionsOptions, ManOptions};
use crate::index::IndexOptions;
use crate::plan::PlanCommand;
use crate::preview::PreviewOptions;
use crate::speedtest::SpeedtestOptions;

/// Where to begin, and how it ends.
const AFTER_HELP: &str = "\
Begin here:
  planfetch example digits      write 1,797 small images to try the rest with
  planfetch speedtest digits    load them as a training loop would, and say
                                what that is bound by
  planfetch speedtest s3://bucket/train/
                                the same for objects train/<class>/<file>

Exit codes:
  0    done
  1    it could not be done; standard error says why
  2    options are wrong or contradict each other
  3    done, and what was checked is not as it should be (plan verify,
       plan diff, index --check, cache verify)
  130  interrupted by Ctrl-C; what was measured so far was printed";

/// Loads training data from object stores as if it lay in memory
#[derive(Debug, Parser)]
#[command(name = "planfetch", version, arg_required_else_help = true, max_term_width = 120, after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// A TOML file with settings and options; what stands on the command line wins
    #[arg(long, value_name = "FILE", global = true, help_heading = "General")]
    pub(crate) config: Option<PathBuf>,
    /// Say on standard error what happens
    #[arg(short, long, global = true, help_heading = "General")]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load a data set as a training loop would, without a model, and say what that is bound by
    Speedtest(Box<SpeedtestOptions>),
    /// Write a picture of a batch, after augmentation, with labels
    Preview(Box<PreviewOptions>),
    /// List a bucket or a folder into an index; describe one; look for objects that can't be loaded
    Index(Box<IndexOptions>),
    /// Show, verify and compare the order of an epoch
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Look into a cache directory, check it, and make room in it; safe while jobs use it
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Write a small data set, 1,797 handwritten digits, to try the other commands with
    Example(ExampleOptions),
    /// Print the manual page, or write one for each command
    Man(ManOptions),
    /// Print completions for a shell
    Completions(CompletionsOptions),
}

impl Options {
    /// Reads the command line, and the file that it names. Help and the version are printed here, and end the program.
    pub(crate) fn parse() -> Result<(Self, Settings), Failure> {
        let arguments: Vec<_> = std::env::args_os().collect();
        let file = ConfigFile::named_in(&arguments)?;
        let matches = match &file {
            Some(file) => file.matches(&command(), &arguments)?,
            None => command().try_get_matches_from(arguments)?,
        };
        let options = Self::from_arg_matches(&matches)?;
        Ok((options, file.map(|file| file.settings).unwrap_or_default()))
    }
}

/// Returns the command line.
pub(crate) fn command() -> clap::Command {
    with_values(Options::command())
}

/// Has all flags take `=true` or `=false`: what a file sets could not be cleared otherwise.
fn with_values(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|argument| match argument.get_action() {
        ArgAction::SetTrue => argument
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .value_name("true|false")
            .default_value("false")
            .default_missing_value("true")
            .hide_default_value(true)
            .hide_possible_values(true),
        _ => argument,
    });
    command.mut_subcommands(with_values)
}

/// Returns whether an option is a flag, which may stand without a value.
pub(crate) fn is_flag(argument: &Arg) -> bool {
    argument.is_require_equals_set()
}
