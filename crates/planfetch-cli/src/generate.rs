//! The manual pages and completions.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use crate::cli;
use crate::failure::Failure;
use crate::output::{note, print};

#[derive(Args, Debug)]
pub(crate) struct ManOptions {
    /// Write a page for each command into this folder, such as ~/.local/share/man/man1 [default: one page is printed]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct CompletionsOptions {
    /// The shell
    shell: Shell,
}

pub(crate) fn man(options: &ManOptions) -> Result<(), Failure> {
    match &options.out {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            clap_mangen::generate_to(cli::command(), dir)?;
            note(format_args!("the pages are in {}", dir.display()));
            Ok(())
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(cli::command()).render(&mut page)?;
            print(String::from_utf8_lossy(&page))
        }
    }
}

pub(crate) fn completions(options: &CompletionsOptions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut cli::command(), "planfetch", &mut script);
    print(String::from_utf8_lossy(&script))
}
