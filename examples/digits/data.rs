//! Where the digits come from.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use flate2::read::GzDecoder;
use image::GrayImage;
use planfetch::prelude::*;

/// 1,797 rows of 64 pixels in 0..=16 and the digit; see `data/README.md` for where they come from.
const DIGITS: &[u8] = include_bytes!("../data/optdigits.csv.gz");

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
            None => write_digits(&self.data_dir.join("store"))?,
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

/// Writes every digit as a PNG file below `folder`, unless it has been done, and returns the path of their index.
fn write_digits(folder: &Path) -> Result<String, BoxError> {
    let index_path = folder.join("index.csv");
    // The index is written last: where it is, everything is.
    if !index_path.exists() {
        fs::create_dir_all(folder)?;
        let root = folder.canonicalize()?;
        let mut text = String::new();
        GzDecoder::new(DIGITS).read_to_string(&mut text)?;
        let mut index = String::from("s3_uri,label\n");
        for (row, line) in text.lines().enumerate() {
            let mut values = line.split(',').map(str::parse::<u8>).collect::<Result<Vec<u8>, _>>()?;
            let label = values.pop().ok_or("an empty row")?;
            let pixels = values.into_iter().map(|value| (u16::from(value) * 255 / 16) as u8).collect();
            let image = GrayImage::from_raw(8, 8, pixels).ok_or("a digit has 64 pixels")?;
            let path = root.join(label.to_string()).join(format!("{row:04}.png"));
            fs::create_dir_all(root.join(label.to_string()))?;
            image.save(&path)?;
            index.push_str(&format!("file://{},{label}\n", path.to_str().ok_or("the folder's path is not UTF-8")?));
        }
        // Written beside and renamed, so that it is there whole or not at all.
        let unfinished = folder.join("index.csv.unfinished");
        fs::write(&unfinished, index)?;
        fs::rename(&unfinished, &index_path)?;
    }
    Ok(index_path.display().to_string())
}
