//! Splitting an index into training, validation and test samples.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::error::IndexError;
use crate::sample_index::{SampleIndex, SampleRow};

/// What decides where a sample goes in [`SampleIndex::split`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum SplitBy {
    /// The sample itself: its URI, and its range of bytes where it has one.
    ///
    /// A sample stays where it is whatever is added or removed, and duplicates go together. Each class is split in
    /// the same shares up to chance: of `n` samples, `n·train` give or take `√(n·train·(1 − train))` are for training.
    #[default]
    Sample,
    /// What the URI names up to its last `/`, so that what lies in one folder stays together: the photographs of one
    /// patient, or the frames of one video. A sample stays where it is whatever is added or removed.
    ///
    /// Folders are taken whole, so where one folder is a class, the class is not split at all.
    Folder,
    /// The place of the sample among those of its class, so that of `n` samples `n·train` are for training, rounded.
    ///
    /// That is exact for small classes too. The price: where data is added, samples near the border move, about
    /// `m·train·(1 − train)` of a class for `m` new ones, from training to validation too.
    ExactPerClass,
}

/// The parts that [`SampleIndex::split`] makes. Each has all classes, and the samples in the order of the whole.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Split {
    /// What to train on.
    pub train: SampleIndex,
    /// What to choose settings by.
    pub val: SampleIndex,
    /// The rest.
    pub test: SampleIndex,
}

/// Where a sample goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Train,
    Val,
    Test,
}

impl SampleIndex {
    /// Splits the index into the shares `train` and `val`, both in `0.0..=1.0`, and the rest, `test`.
    ///
    /// The order of rows, the platform and the version of this crate do not matter: the first 64 bits of a SHA-256
    /// over the seed and the sample are compared with the shares. See [`SplitBy`] for what stays together and what is
    /// exact.
    ///
    /// # Errors
    ///
    /// [`IndexError::Settings`] when a share is not in `0.0..=1.0`, or both are more than 1 together.
    ///
    /// # Example: a sample stays where it is
    ///
    /// ```
    /// use planfetch_index::{SampleIndex, SplitBy};
    ///
    /// let rows = |n: u32| (0..n).map(|i| (format!("s3://photos/{i}.jpg"), i % 10));
    /// let before = SampleIndex::from_rows(rows(1_000))?.split(0.8, 0.1, SplitBy::Sample, 7)?;
    /// let after = SampleIndex::from_rows(rows(2_000))?.split(0.8, 0.1, SplitBy::Sample, 7)?;
    /// assert_eq!(before.val.uris().slice(..), after.val.uris().slice(..before.val.uris().len()));
    ///
    /// let error = SampleIndex::from_rows(rows(1))?.split(0.8, 0.3, SplitBy::Sample, 7).expect_err("110 %");
    /// assert!(error.to_string().contains("train 0.8 and val 0.3"));
    /// # Ok::<(), planfetch_index::IndexError>(())
    /// ```
    pub fn split(&self, train: f64, val: f64, by: SplitBy, seed: u64) -> Result<Split, IndexError> {
        // Shares that are 1 together can be a little more in binary.
        let in_range = |share: f64| (0.0..=1.0).contains(&share);
        if !in_range(train) || !in_range(val) || train + val > 1.0 + 1e-9 {
            return Err(IndexError::Settings {
                problem: format!(
                    "can't split into train {train} and val {val}: each must be in 0.0..=1.0, and both at most 1.0 together"
                ),
            });
        }
        let parts = match by {
            SplitBy::Sample | SplitBy::Folder => self.parts_by_hash(train, val, by, seed),
            SplitBy::ExactPerClass => self.parts_by_rank(train, val, seed),
        };
        let part = |wanted: Part| {
            self.select(parts.iter().enumerate().filter(|&(_, &part)| part == wanted).map(|(row, _)| row))
        };
        Ok(Split { train: part(Part::Train), val: part(Part::Val), test: part(Part::Test) })
    }

    fn parts_by_hash(&self, train: f64, val: f64, by: SplitBy, seed: u64) -> Vec<Part> {
        let borders = (border(train), border(train + val));
        let mut parts = Vec::with_capacity(self.labels.len());
        self.for_each(|row| {
            let hash = match by {
                SplitBy::Folder => hash(seed, folder(row.uri), &row),
                _ => hash(seed, row.uri, &row),
            };
            parts.push(part(u128::from(hash), borders));
        });
        parts
    }

    fn parts_by_rank(&self, train: f64, val: f64, seed: u64) -> Vec<Part> {
        // The URIs are not kept: samples whose hashes are the same, duplicates above all, stay in the order of rows.
        let mut classes: BTreeMap<u32, Vec<(u64, usize)>> = BTreeMap::new();
        self.for_each(|row| classes.entry(row.label).or_default().push((hash(seed, row.uri, &row), row.row)));
        let mut parts = vec![Part::Test; self.labels.len()];
        for samples in classes.values_mut() {
            samples.sort_unstable();
            // OK because both are rounded shares of a length.
            let share = |share: f64| ((samples.len() as f64 * share).round() as usize) as u128;
            let borders = (share(train), share(train + val));
            for (rank, &(_, row)) in samples.iter().enumerate() {
                parts[row] = part(rank as u128, borders);
            }
        }
        parts
    }
}

/// Returns the folder of a URI with the slash after it; nothing of what has no slash, as a forged index may hold.
fn folder(uri: &str) -> &str {
    &uri[..uri.rfind('/').map_or(0, |at| at + 1)]
}

fn part(place: u128, (train, val): (u128, u128)) -> Part {
    match place {
        _ if place < train => Part::Train,
        _ if place < val => Part::Val,
        _ => Part::Test,
    }
}

/// Returns the number of 64-bit hashes that are below `share`.
fn border(share: f64) -> u128 {
    // OK because the product is at most 2^64 and a little, and not negative.
    (share * (1_u128 << 64) as f64) as u128
}

/// Returns the first 64 bits of the SHA-256 over the seed, `key`, and the range of the sample where `key` is all of
/// its URI.
fn hash(seed: u64, key: &str, row: &SampleRow<'_>) -> u64 {
    let mut sha = Sha256::new();
    sha.update(seed.to_le_bytes());
    sha.update(key.as_bytes());
    if let Some(range) = row.range.as_ref().filter(|_| key.len() == row.uri.len()) {
        // No URI holds a zero byte that counts, and its length is the rest.
        sha.update([0]);
        sha.update(range.start.to_le_bytes());
        sha.update(range.end.to_le_bytes());
    }
    let digest = sha.finalize();
    u64::from_le_bytes(std::array::from_fn(|i| digest[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_forged_index_holds_has_a_folder() {
        for (uri, expected) in [("s3://b/a/1.jpg", "s3://b/a/"), ("s3://b", "s3://"), ("é", ""), ("", "")] {
            assert_eq!(folder(uri), expected, "{uri:?}");
        }
    }

    #[test]
    fn the_hash_of_a_sample_never_changes() {
        // Changing this moves samples from training to validation in every data set that was split before.
        let row = |range| SampleRow { row: 0, uri: "s3://photos/1.jpg", label: 0, size: None, range };
        let hashes = [
            hash(0, "s3://photos/1.jpg", &row(None)),
            hash(7, "s3://photos/1.jpg", &row(None)),
            hash(7, "s3://photos/1.jpg", &row(Some(8..24))),
            hash(7, "s3://photos/", &row(Some(8..24))),
        ];
        let expected = [0xf141_b6a4_e1c8_ce08, 0x2196_459c_6cea_8542, 0x72ff_daf7_5fbf_201b, 0xd0db_fc2a_1242_6a7d];
        assert_eq!(hashes, expected);
    }

    #[test]
    fn borders_are_shares_of_all_hashes() {
        assert_eq!(border(0.0), 0);
        assert_eq!(border(0.5), 1 << 63);
        assert_eq!(border(1.0), 1 << 64);
    }
}
