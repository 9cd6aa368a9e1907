//! The handwritten digits that come with the project, as files: a data set for whoever has none at hand.

use std::fs;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use planfetch::image::{ColorMode, DecodedImage};

/// 1,797 rows of 64 pixels in 0..=16 and the digit (E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten
/// Digits", UCI Machine Learning Repository, <https://doi.org/10.24432/C50P49>, CC BY 4.0).
const DIGITS: &[u8] = include_bytes!("optdigits.csv.gz");

/// The side of a digit, in pixels.
const SIDE: usize = 8;

/// Writes every digit as a PNG file into a folder for its class below `dir`, unless it has been done, and returns the
/// path of their index.
pub(crate) fn write_digits(dir: &Path) -> Result<PathBuf> {
    let index_path = dir.join("index.csv");
    // The index is written last: where it is, everything is.
    if index_path.exists() {
        return Ok(index_path);
    }
    for digit in 0..10 {
        fs::create_dir_all(dir.join(digit.to_string()))?;
    }
    let mut text = String::new();
    GzDecoder::new(DIGITS).read_to_string(&mut text)?;
    let mut index = String::from("s3_uri,label\n");
    for (row, line) in text.lines().enumerate() {
        let damaged = || Error::new(ErrorKind::InvalidData, format!("row {row} of the digits is damaged"));
        let (image, digit) = parse(line).ok_or_else(damaged)?;
        let name = format!("{digit}/{row:04}.png");
        image.write_png(dir.join(&name)).map_err(Error::other)?;
        index.push_str(&format!("{name},{digit}\n"));
    }
    // Written beside and renamed, so that it is there whole or not at all.
    let unfinished = dir.join("index.csv.unfinished");
    fs::write(&unfinished, index)?;
    fs::rename(&unfinished, &index_path)?;
    Ok(index_path)
}

/// Reads 64 pixels and a digit.
fn parse(line: &str) -> Option<(DecodedImage, u8)> {
    let mut values = line.split(',').map(str::parse::<u8>).collect::<std::result::Result<Vec<u8>, _>>().ok()?;
    let digit = values.pop().filter(|digit| *digit < 10)?;
    // OK because 16 becomes 255.
    let pixels = values.into_iter().map(|value| (u16::from(value.min(16)) * 255 / 16) as u8).collect();
    Some((DecodedImage::new(pixels, SIDE, SIDE, ColorMode::Gray)?, digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_an_image_and_its_digit() {
        let row = format!("{}16,7", "0,".repeat(63));
        let (image, digit) = parse(&row).unwrap();
        assert_eq!((image.pixel(0, 0), image.pixel(7, 7), digit), (&[0][..], &[255][..], 7));
        for damaged in ["", "1,2,3", "a,b", &format!("{}16,10", "0,".repeat(63))] {
            assert!(parse(damaged).is_none(), "{damaged}");
        }
    }
}
