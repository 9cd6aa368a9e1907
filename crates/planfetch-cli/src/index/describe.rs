//! What an index holds, and what an epoch over it asks of S3.

use std::fmt;

use clap::Args;
use planfetch::index::Description;
use planfetch::prelude::*;
use serde::Serialize;

use crate::units::{bytes, count};

/// Objects of at least twice this length are fetched by several requests, as `CacheSettings::part_size` says.
const PART_SIZE: u64 = 32 << 20;

/// Where the numbers are from.
const RATE_SOURCE: &str = "Amazon S3 serves at least 5,500 GET requests a second for each partitioned prefix, and \
                           partitions under load \
                           (docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html)";

#[derive(Args, Debug)]
#[command(next_help_heading = "Prices")]
pub(crate) struct Prices {
    /// US dollars for 1,000 GET requests; the default is that of S3 Standard in us-east-1 as of 2025
    /// (aws.amazon.com/s3/pricing)
    #[arg(long, value_name = "USD", default_value_t = 0.0004, value_parser = price)]
    price_per_1000_gets: f64,
    /// US dollars for a GB that leaves the bucket; the default is that for machines in its region as of 2025, and
    /// 0.09 is that for the internet
    #[arg(long, value_name = "USD", default_value_t = 0.0, value_parser = price)]
    price_per_gb: f64,
}

fn price(text: &str) -> Result<f64, String> {
    let price = text.parse().ok().filter(|price: &f64| 0.0 <= *price && price.is_finite());
    price.ok_or_else(|| "write a price in US dollars, such as 0.0004".into())
}

/// What there is to say about an index.
#[derive(Debug, Serialize)]
pub(crate) struct Page {
    samples: u64,
    classes: Vec<Class>,
    bytes: Option<u64>,
    buckets: Vec<Bucket>,
    duplicates: u64,
    spread: Vec<Spread>,
    epoch: Epoch,
    #[serde(skip)]
    description: Description,
}

#[derive(Debug, Serialize)]
struct Class {
    label: u32,
    name: Option<String>,
    samples: u64,
}

#[derive(Debug, Serialize)]
struct Bucket {
    url: String,
    samples: u64,
}

/// How samples spread over prefixes of so many folders.
#[derive(Debug, Serialize)]
struct Spread {
    depth: usize,
    prefixes: u64,
    largest: String,
    largest_samples: u64,
    max_gets_per_second: f64,
}

/// What one pass over all samples asks for, where nothing is cached.
#[derive(Debug, Serialize)]
struct Epoch {
    requests: u64,
    bytes: Option<u64>,
    usd: f64,
    usd_per_1000_gets: f64,
    usd_per_gb: f64,
}

impl Page {
    pub(crate) fn new(index: &SampleIndex, prices: &Prices) -> Self {
        let description = index.describe();
        let requests = match index.sizes().filter(|_| !index.has_ranges()) {
            Some(sizes) => sizes.iter().map(|&size| requests(size)).sum(),
            None => index.len(),
        };
        let usd = requests as f64 / 1e3 * prices.price_per_1000_gets
            + description.bytes.unwrap_or(0) as f64 / 1e9 * prices.price_per_gb;
        let class = |class: &planfetch::index::ClassCount| Class {
            label: class.label,
            name: class.name.clone(),
            samples: class.rows,
        };
        let spread = |spread: &planfetch::index::PrefixSpread| Spread {
            depth: spread.depth,
            prefixes: spread.prefixes,
            largest: spread.largest.clone(),
            largest_samples: spread.largest_rows,
            max_gets_per_second: spread.max_gets_per_second,
        };
        let bucket = |(url, samples): &(String, u64)| Bucket { url: url.clone(), samples: *samples };
        Self {
            samples: description.rows,
            classes: description.classes.iter().map(class).collect(),
            bytes: description.bytes,
            buckets: description.buckets.iter().map(bucket).collect(),
            duplicates: description.duplicates,
            spread: description.spread.iter().map(spread).collect(),
            epoch: Epoch {
                requests,
                bytes: description.bytes,
                usd,
                usd_per_1000_gets: prices.price_per_1000_gets,
                usd_per_gb: prices.price_per_gb,
            },
            description,
        }
    }
}

/// Returns how many requests an object of this size takes.
fn requests(size: u64) -> u64 {
    if size < 2 * PART_SIZE { 1 } else { size.div_ceil(PART_SIZE) }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.description)?;
        let is_s3 = self.buckets.iter().any(|bucket| bucket.url.starts_with("s3://"));
        let best = self.spread.iter().map(|spread| spread.max_gets_per_second).fold(0.0, f64::max);
        if is_s3 && 0.0 < best {
            let seconds = self.epoch.requests as f64 / best;
            writeln!(f, "\nrequest rate\n  this layout reaches {:.0} GET/s at best, an epoch in {seconds:.1} s", best)?;
            writeln!(f, "  {RATE_SOURCE}")?;
        }
        let Epoch { requests, bytes: size, usd, usd_per_1000_gets, usd_per_gb } = &self.epoch;
        writeln!(f, "\nan epoch, where nothing is cached\n  {} GET requests", count(*requests))?;
        match size {
            Some(size) => writeln!(f, "  {}", bytes(*size as f64))?,
            None => writeln!(f, "  bytes unknown; name the column with sizes by --size-col, or list the bucket")?,
        }
        if is_s3 {
            writeln!(f, "  {usd:.4} USD, at {usd_per_1000_gets} USD for 1,000 GETs and {usd_per_gb} USD for a GB")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_object_takes_several_requests() {
        for (size, expected) in [(0, 1), (PART_SIZE, 1), (2 * PART_SIZE - 1, 1), (2 * PART_SIZE, 2), (100 << 20, 4)] {
            assert_eq!(requests(size), expected, "{size}");
        }
    }
}
