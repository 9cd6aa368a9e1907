//! The shipped digits, written out as objects.

use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use image::GrayImage;
use planfetch::prelude::BoxError;

/// 1,797 rows of 64 pixels in 0..=16 and the digit; see `data/README.md` for where they come from.
const DIGITS: &[u8] = include_bytes!("../data/optdigits.csv.gz");

/// Writes every digit as a PNG file below `folder`, unless it has been done, and returns the path of their index.
pub(crate) fn write_digits(folder: &Path) -> Result<String, BoxError> {
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
