//! `planfetch example`: a small data set, to try the other commands with.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::output::{note, print};

// What the trainers of the examples write too.
#[path = "../data/digits.rs"]
mod digits;

#[derive(Args, Debug)]
pub(crate) struct ExampleOptions {
    /// The folder that is made, with a folder for each digit, and an index of all images
    #[arg(value_name = "DIR", default_value = "digits")]
    dir: PathBuf,
}

pub(crate) fn run(options: &ExampleOptions) -> Result<(), Failure> {
    let dir = &options.dir;
    if dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::usage(
            format!("{} exists and is not empty", dir.display()),
            "name a folder that does not exist yet",
        ));
    }
    let index = digits::write_digits(dir).map_err(|error| format!("can't write {}: {error}", dir.display()))?;
    note(format_args!("{} holds 1,797 images and index.csv; try: planfetch speedtest {0}", dir.display()));
    print(format_args!("{}\n", index.display()))
}
