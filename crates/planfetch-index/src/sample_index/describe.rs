//! What is in an index, for people to look at before a run.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::sample_index::{SampleIndex, SampleRow};
use crate::uri::bucket;

/// GET requests a second that Amazon S3 serves for each partitioned prefix, at least
/// (Amazon S3 User Guide, "Best practices design patterns: optimizing Amazon S3 performance").
const GETS_PER_PREFIX: u64 = 5_500;

/// How many folders deep the spread over prefixes is looked at.
const MAX_DEPTH: usize = 4;

/// A layout with more prefixes at one depth is not limited by them, and counting them takes memory.
const MAX_PREFIXES: usize = 1_000_000;

/// How many classes and buckets are shown.
const SHOWN: usize = 10;

/// What [`SampleIndex::describe`] finds. Its `Display` is a page for people.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Description {
    /// The number of samples.
    pub rows: u64,
    /// The classes that have samples or a name, in order of their labels.
    pub classes: Vec<ClassCount>,
    /// How many bytes all samples take: the lengths of their ranges, or else the sizes of their objects, where known.
    pub bytes: Option<u64>,
    /// The buckets, such as `s3://bucket/`, with the number of samples in each, in the order of their names.
    pub buckets: Vec<(String, u64)>,
    /// How many rows repeat an earlier one: the same URI, and the same range of bytes.
    pub duplicates: u64,
    /// How samples spread over the prefixes of keys, for 0 folders after the bucket, then 1, and so on, up to 4 or the
    /// depth from which nothing more is told apart. It ends earlier where there are more than a million prefixes.
    pub spread: Vec<PrefixSpread>,
}

/// The number of samples of a class.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ClassCount {
    /// The label.
    pub label: u32,
    /// The name, where classes have names.
    pub name: Option<String>,
    /// The number of samples.
    pub rows: u64,
}

/// How samples spread over prefixes of one depth.
///
/// S3 serves at least 5,500 GET requests a second for each prefix that it has made a partition of (Amazon S3 User Guide,
/// "Best practices design patterns: optimizing Amazon S3 performance"). It makes them by itself and gradually, under
/// load, and can answer `503 Slow Down` until then.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PrefixSpread {
    /// The number of folders after the bucket.
    pub depth: usize,
    /// The number of prefixes.
    pub prefixes: u64,
    /// The prefix with the most samples; of several, the first in the order of bytes.
    pub largest: String,
    /// The number of samples in it.
    pub largest_rows: u64,
    /// The GET requests a second that can be reached at best when samples are read in random order, each with one
    /// request, and each of these prefixes is a partition: the largest prefix limits the rest.
    pub max_gets_per_second: f64,
}

impl SampleIndex {
    /// Describes the index: rows, classes, bytes, buckets, duplicates, and how keys spread over prefixes.
    ///
    /// It reads the whole index once, and once more where rows may be duplicates; that takes less than a second for two
    /// million rows, and 8 bytes of memory for each.
    ///
    /// # Example: a layout that S3 can serve fast
    ///
    /// ```
    /// use planfetch_index::SampleIndex;
    ///
    /// let rows = (0..100).map(|i| (format!("s3://photos/train/{}/{i}.jpg", i % 10), i % 2));
    /// let description = SampleIndex::from_rows(rows)?.describe();
    /// assert_eq!(description.buckets, [("s3://photos/".to_owned(), 100)]);
    /// assert_eq!(description.duplicates, 0);
    ///
    /// // All in s3://photos/train/ and so at most 5,500 requests a second, until S3 splits that into its ten folders.
    /// assert_eq!(description.spread[1].max_gets_per_second, 5_500.0);
    /// assert_eq!(description.spread[2].max_gets_per_second, 55_000.0);
    /// assert!(description.to_string().starts_with("100 samples of 2 classes"));
    /// # Ok::<(), planfetch_index::IndexError>(())
    /// ```
    #[must_use]
    pub fn describe(&self) -> Description {
        let mut buckets = Counts::default();
        let mut depths: Vec<Counts> = (0..=MAX_DEPTH).map(|_| Counts::default()).collect();
        let mut hashes = Vec::with_capacity(self.labels.len());
        let mut bytes = 0_u64;
        self.for_each(|row| {
            let bucket = bucket(row.uri);
            buckets.add(bucket);
            let mut end = bucket.len();
            for counts in &mut depths {
                counts.add(&row.uri[..end]);
                end = row.uri[end..].find('/').map_or(end, |at| end + at + 1);
            }
            bytes = bytes.saturating_add(match (&row.range, row.size) {
                (Some(range), _) => range.end - range.start,
                (None, size) => size.unwrap_or(0),
            });
            hashes.push(hash(&row));
        });
        let class = |(label, rows)| ClassCount { label, name: self.class_name(label).map(str::to_owned), rows };
        Description {
            rows: self.len(),
            classes: self.class_counts().into_iter().map(class).collect(),
            bytes: (self.has_ranges() || self.sizes().is_some()).then_some(bytes),
            buckets: buckets.sorted(),
            duplicates: self.count_duplicates(hashes),
            spread: spread(depths, self.len()),
        }
    }

    fn count_duplicates(&self, mut hashes: Vec<u64>) -> u64 {
        hashes.sort_unstable();
        let suspects: HashSet<u64> = hashes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        if suspects.is_empty() {
            return 0;
        }
        // Rows with the same hash are looked at, since they need not be the same.
        let mut seen = HashSet::new();
        let mut duplicates = 0;
        self.for_each(|row| {
            if suspects.contains(&hash(&row)) && !seen.insert((row.uri.to_owned(), row.range)) {
                duplicates += 1;
            }
        });
        duplicates
    }
}

fn hash(row: &SampleRow<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    row.uri.hash(&mut hasher);
    row.range.hash(&mut hasher);
    hasher.finish()
}

/// How often each of a few texts occurs.
#[derive(Debug, Default)]
struct Counts {
    places: HashMap<String, usize>,
    counts: Vec<u64>,
    // The text before, which is often the next one too, and its place.
    last: (String, usize),
    is_full: bool,
}

impl Counts {
    fn add(&mut self, text: &str) {
        if self.is_full {
            return;
        }
        if self.counts.is_empty() || self.last.0 != text {
            let place = match self.places.get(text) {
                Some(&place) => place,
                None => {
                    self.is_full = self.places.len() == MAX_PREFIXES;
                    self.places.insert(text.to_owned(), self.counts.len());
                    self.counts.push(0);
                    self.counts.len() - 1
                }
            };
            text.clone_into(&mut self.last.0);
            self.last.1 = place;
        }
        self.counts[self.last.1] += 1;
    }

    fn sorted(self) -> Vec<(String, u64)> {
        let counts = self.counts;
        let sorted: BTreeMap<String, usize> = self.places.into_iter().collect();
        sorted.into_iter().map(|(text, place)| (text, counts[place])).collect()
    }
}

fn spread(depths: Vec<Counts>, rows: u64) -> Vec<PrefixSpread> {
    let mut spread: Vec<PrefixSpread> = Vec::new();
    for (depth, counts) in depths.into_iter().enumerate() {
        if counts.is_full || rows == 0 {
            break;
        }
        let mut prefixes = 0;
        let mut largest = (String::new(), 0);
        for (text, count) in counts.sorted() {
            prefixes += 1;
            if count > largest.1 {
                largest = (text, count);
            }
        }
        if spread.last().is_some_and(|before| before.prefixes == prefixes && before.largest == largest.0) {
            break;
        }
        // OK because a rate needs no more digits than a float has.
        let max_gets_per_second = GETS_PER_PREFIX as f64 * rows as f64 / largest.1 as f64;
        spread.push(PrefixSpread { depth, prefixes, largest: largest.0, largest_rows: largest.1, max_gets_per_second });
    }
    spread
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples of {} classes", self.rows, self.classes.len())?;
        match self.bytes {
            Some(bytes) => writeln!(f, ", {bytes} bytes")?,
            None => writeln!(f, ", sizes unknown")?,
        }
        writeln!(f, "{} rows repeat an earlier one", self.duplicates)?;
        for (bucket, rows) in self.buckets.iter().take(SHOWN) {
            writeln!(f, "bucket {bucket}: {rows}")?;
        }
        more(f, self.buckets.len(), "buckets")?;
        for class in self.classes.iter().take(SHOWN) {
            match &class.name {
                Some(name) => writeln!(f, "class {} ({name}): {}", class.label, class.rows)?,
                None => writeln!(f, "class {}: {}", class.label, class.rows)?,
            }
        }
        more(f, self.classes.len(), "classes")?;
        for spread in &self.spread {
            writeln!(
                f,
                "{} folders deep: {} prefixes, at best {:.0} GET/s in random order; {} of {} samples in {}",
                spread.depth,
                spread.prefixes,
                spread.max_gets_per_second,
                spread.largest_rows,
                self.rows,
                spread.largest
            )?;
        }
        Ok(())
    }
}

/// Says how many of something are not shown.
fn more(f: &mut fmt::Formatter<'_>, len: usize, what: &str) -> fmt::Result {
    match len.saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(f, "and {more} more {what}"),
    }
}
