//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::preview::PreviewOptions;

/// Loads training data from object stores as if it lay in memory
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Say on standard error what happens
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a picture of a batch, after augmentation, with labels
    Preview(PreviewOptions),
    /// Load a data set as a training loop would, without a model, and measure
    Speedtest(SpeedtestOptions),
}

#[derive(Args, Debug)]
pub(crate) struct SpeedtestOptions {
    /// The index: a CSV file, or the URI of one (s3://bucket/train.csv)
    #[arg(value_name = "CSV")]
    pub(crate) index: String,
    /// The column with the URIs of the objects
    #[arg(long, value_name = "NAME", default_value = "s3_uri", help_heading = "Index")]
    pub(crate) s3_uri_col: String,
    /// The column with the labels
    #[arg(long, value_name = "NAME", default_value = "label", help_heading = "Index")]
    pub(crate) class_col: String,
    /// Use only this many rows of the index [default: all]
    #[arg(short = 'n', long, value_name = "ROWS", help_heading = "Index")]
    pub(crate) limit: Option<usize>,
    /// Leave out this many rows at the beginning of the index
    #[arg(long, value_name = "ROWS", default_value_t = 0, help_heading = "Index")]
    pub(crate) offset: usize,

    /// The order of an epoch
    #[arg(long, value_enum, default_value_t = Strategy::Shuffle, help_heading = "Plan")]
    pub(crate) strategy: Strategy,
    /// Samples in a batch
    #[arg(long, value_name = "SAMPLES", default_value_t = 64, help_heading = "Plan")]
    pub(crate) batch_size: usize,
    /// Passes over the data
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Plan")]
    pub(crate) epochs: u64,
    /// The seed of the order
    #[arg(long, value_name = "SEED", default_value_t = 0, help_heading = "Plan")]
    pub(crate) seed: u64,

    /// The directory of the cache [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR", help_heading = "Cache")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Objects that are downloaded at once
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Cache")]
    pub(crate) download_threads: usize,
    /// Batches ahead of the reader that are kept local
    #[arg(long, value_name = "N", default_value_t = 200, help_heading = "Cache")]
    pub(crate) batches_ahead: usize,
    /// Batches behind the reader that are kept local
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Cache")]
    pub(crate) batches_back: usize,
    /// Batches after which what has passed is deleted
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Cache")]
    pub(crate) prune_every: usize,
    /// The URL of a server that speaks the S3 protocol [default: Amazon S3, or AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL", help_heading = "Cache")]
    pub(crate) endpoint: Option<String>,
    /// Ask for objects without a signature, as public buckets allow
    #[arg(long, help_heading = "Cache")]
    pub(crate) anonymous: bool,

    /// What is done with each object
    #[arg(long, value_enum, default_value_t = Decode::Image, help_heading = "Work")]
    pub(crate) decode: Decode,
    /// The side that images are resized to, in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 224, help_heading = "Work")]
    pub(crate) image_size: usize,
    /// Threads that decode [default: the number of cores]
    #[arg(long, value_name = "N", help_heading = "Work")]
    pub(crate) num_workers: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Strategy {
    /// Every sample once, in a fresh random order each epoch
    Shuffle,
    /// Every sample once, in the order of the index
    Sequential,
    /// Every sample once, each batch with the classes in their proportions
    Stratified,
    /// Each batch with the same number of samples of each class
    Balanced,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Decode {
    /// Read its bytes
    None,
    /// Decode, resize and normalise it as an image
    Image,
}
