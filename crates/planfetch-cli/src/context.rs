//! What every command works with.

use planfetch::Settings;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// The settings of the file that was named, and the way to be told of Ctrl-C.
#[derive(Debug)]
pub(crate) struct Context {
    /// What the options don't say. The default where no file was named.
    pub(crate) settings: Settings,
    pub(crate) verbose: bool,
    pub(crate) interrupt: Interrupt,
}

impl Context {
    pub(crate) fn new(settings: Settings, verbose: bool) -> Result<Self, Failure> {
        Ok(Self { settings, verbose, interrupt: Interrupt::install()? })
    }
}
