//! How far ahead of the training loop work is done.

use std::str::FromStr;

use clap::Args;
use planfetch::prelude::*;

use crate::context::Context;

#[derive(Args, Debug)]
#[command(next_help_heading = "Loader")]
pub(crate) struct WindowOptions {
    /// Batches ahead of the reader that are kept local; auto finds out how many the store asks for
    #[arg(long, value_name = "N", default_value = "200")]
    batches_ahead: Ahead,
    /// Batches behind the reader that are kept local
    #[arg(long, value_name = "N", default_value_t = 4)]
    batches_back: usize,
    /// Batches after which what has passed is deleted
    #[arg(long, value_name = "N", default_value_t = 5)]
    prune_every: usize,
    /// Batches that may be decoded, or be in decoding, before they are taken
    #[arg(long, value_name = "N", default_value_t = 4)]
    prefetch_factor: usize,
    /// Threads that decode [default: the number of cores]
    #[arg(long, value_name = "N")]
    num_workers: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Ahead(BatchesAhead);

impl FromStr for Ahead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Self(BatchesAhead::Auto)),
            (_, Ok(batches)) if 0 < batches => Ok(Self(BatchesAhead::Fixed(batches))),
            _ => Err("write a number of batches, at least 1, or auto".into()),
        }
    }
}

impl WindowOptions {
    /// Returns the settings of the file with what the options say.
    pub(crate) fn settings(&self, context: &Context) -> LoaderSettings {
        let file = context.settings.loader.clone();
        LoaderSettings {
            batches_ahead: self.batches_ahead.0,
            batches_back: self.batches_back,
            prune_every: self.prune_every,
            prefetch_factor: self.prefetch_factor,
            num_workers: self.num_workers.unwrap_or(file.num_workers),
            ..file
        }
    }
}
