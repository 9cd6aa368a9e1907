//! Where the trainers of digits have them from.

use std::path::PathBuf;

use clap::Args;
use planfetch::prelude::*;

#[path = "digits.rs"]
mod digits;

/// Which digits, and where their files lie
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// The index: a CSV file or the URI of one, with the columns s3_uri and label [default: the shipped digits]
    #[arg(long)]
    index: Option<String>,
    /// The URL of an S3 server; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
    #[arg(long)]
    endpoint: Option<String>,
    /// Where the shipped digits are written, and the cache lies
    #[arg(long, default_value = "digits-data")]
    data_dir: PathBuf,
    /// The height and width that images are resized to
    #[arg(long, default_value_t = 8)]
    pub(crate) size: usize,
}

/// The digits to train on, and those that are held out.
pub(crate) struct Digits {
    pub(crate) train: SampleIndex,
    pub(crate) test: SampleIndex,
    pub(crate) cache: DiskCache,
    pub(crate) images: ImageSettings,
}

impl Source {
    /// Reads the index, and holds every fifth image out.
    #[expect(clippy::print_stdout, reason = "the trainer reports on standard output")]
    pub(crate) fn open(&self) -> Result<Digits, BoxError> {
        let stores = StoreSettings { endpoint: self.endpoint.clone(), ..StoreSettings::default() };
        let cache = DiskCache::builder(self.data_dir.join("cache")).with_store_settings(stores).build()?;
        let location = match &self.index {
            Some(location) => location.clone(),
            None => digits::write_digits(&self.data_dir.join("store"))?.display().to_string(),
        };
        let index = load_index(&location, &CsvSettings::default(), &cache)?;
        let n = usize::try_from(index.len())?;
        let (train, test) =
            (index.select((0..n).filter(|row| row % 5 != 4)), index.select((0..n).filter(|row| row % 5 == 4)));
        println!("{} images to train on, {} held out, from {location}", train.len(), test.len());
        let images = ImageSettings {
            height: self.size,
            width: self.size,
            mean: [0.3; 3],
            std: [0.38; 3],
            decode: DecodeSettings { color: ColorMode::Gray, ..DecodeSettings::default() },
            ..ImageSettings::default()
        };
        Ok(Digits { train, test, cache, images })
    }
}
