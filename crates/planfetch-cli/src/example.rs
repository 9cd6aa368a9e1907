//! `planfetch example`: a small data set, to try the other commands with.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use flate2::read::GzDecoder;
use planfetch::image::{ColorMode, DecodedImage};

use crate::failure::Failure;
use crate::output::{note, print};

/// 1,797 rows of 64 pixels in 0..=16 and the digit (E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten
/// Digits", UCI Machine Learning Repository, <https://doi.org/10.24432/C50P49>, CC BY 4.0).
const DIGITS: &[u8] = include_bytes!("../data/optdigits.csv.gz");

/// The side of a digit, in pixels.
const SIDE: usize = 8;

#[derive(Args, Debug)]
pub(crate) struct ExampleOptions {
    /// The folder that is made, with a folder for each digit, and an index of all images
    #[arg(value_name = "DIR", default_value = "digits")]
    dir: PathBuf,
}

/// Writes every digit as a PNG file, and the index last: where it is, everything is.
pub(crate) fn run(options: &ExampleOptions) -> Result<(), Failure> {
    let dir = &options.dir;
    if dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::usage(
            format!("{} exists and is not empty", dir.display()),
            "name a folder that does not exist yet",
        ));
    }
    let unwritable = |error: &dyn std::fmt::Display| format!("can't write {}: {error}", dir.display());
    for digit in 0..10 {
        fs::create_dir_all(dir.join(digit.to_string())).map_err(|error| unwritable(&error))?;
    }
    let mut text = String::new();
    GzDecoder::new(DIGITS).read_to_string(&mut text)?;
    let mut index = String::from("s3_uri,label\n");
    for (row, line) in text.lines().enumerate() {
        let (image, digit) = parse(line).ok_or("the digits that come with the program are damaged".to_owned())?;
        let name = format!("{digit}/{row:04}.png");
        image.write_png(dir.join(&name)).map_err(|error| unwritable(&error))?;
        index.push_str(&format!("{name},{digit}\n"));
    }
    fs::write(dir.join("index.csv"), index).map_err(|error| unwritable(&error))?;
    note(format_args!("{} holds 1,797 images and index.csv; try: planfetch speedtest {0}", dir.display()));
    print(format_args!("{}\n", dir.join("index.csv").display()))
}

/// Reads 64 pixels and a digit.
fn parse(line: &str) -> Option<(DecodedImage, u8)> {
    let mut values = line.split(',').map(str::parse::<u8>).collect::<Result<Vec<u8>, _>>().ok()?;
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
