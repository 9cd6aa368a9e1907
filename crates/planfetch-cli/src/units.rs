//! Numbers as people read and write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use planfetch::cache::CacheLimit;

const UNITS: [(&str, u64); 11] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
];

/// Writes a number of bytes with a decimal unit, as disks and networks are sold.
pub(crate) fn bytes(n: f64) -> String {
    let unit = UNITS[..6].iter().rev().find(|(_, size)| *size as f64 * 0.99995 <= n).unwrap_or(&UNITS[0]);
    if unit.1 == 1 { format!("{n:.0} B") } else { format!("{:.1} {}", n / unit.1 as f64, unit.0) }
}

/// Reads a number of bytes: `10GB`, `1.5 TiB`, or without a unit `4096`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_'))).unwrap_or(text.len());
    let (number, unit) = (text[..end].replace('_', ""), text[end..].trim());
    let size = match unit {
        "" => Some(1),
        _ => UNITS
            .iter()
            .find(|(name, _)| {
                name.eq_ignore_ascii_case(unit)
                    || name.strip_suffix('B').is_some_and(|short| short.eq_ignore_ascii_case(unit))
            })
            .map(|(_, size)| *size),
    };
    let bytes = match (number.parse::<u64>(), number.parse::<f64>(), size) {
        (Ok(n), _, Some(size)) => n.checked_mul(size),
        // OK because it was checked to lie below 2^63.
        (_, Ok(n), Some(size)) if (0.0..9.2e18).contains(&(n * size as f64)) => Some((n * size as f64) as u64),
        _ => None,
    };
    bytes.ok_or_else(|| "write a number of bytes with a unit, such as 500MB, 10GB or 1.5TiB".into())
}

/// How much of the disk a cache may take, on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MaxBytes(pub(crate) CacheLimit);

impl FromStr for MaxBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("unlimited") {
            return Ok(Self(CacheLimit::Unlimited));
        }
        if let Some(share) = text.strip_prefix("free:") {
            let percent = share.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok());
            let percent = percent.filter(|percent| (0.0..100.0).contains(percent));
            let percent = percent.ok_or("write the share of the disk that stays free as free:10%")?;
            return Ok(Self(CacheLimit::AvailableSpace { min_ratio: percent / 100.0 }));
        }
        let bytes = parse_bytes(text).map_err(|problem| format!("{problem}; or unlimited, or free:10%"))?;
        Ok(Self(CacheLimit::TotalSize(bytes)))
    }
}

impl fmt::Display for MaxBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CacheLimit::TotalSize(bytes) => write!(f, "{bytes}B"),
            CacheLimit::AvailableSpace { min_ratio } => write!(f, "free:{}%", min_ratio * 100.0),
            _ => f.write_str("unlimited"),
        }
    }
}

/// Writes a duration with three digits or so.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        3_600.0.. => format!("{}:{:02}:{:02} h", time.as_secs() / 3_600, time.as_secs() / 60 % 60, time.as_secs() % 60),
        100.0.. => format!("{}:{:02} min", time.as_secs() / 60, time.as_secs() % 60),
        1.0.. => format!("{seconds:.2} s"),
        0.001.. => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{:.1} µs", seconds * 1e6),
    }
}

/// Writes a number with commas between thousands.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if 0 < i && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes how many there are of something.
pub(crate) fn number_of(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {many}", count(n)) }
}

/// Writes a rate: with commas where it is large, with digits behind the point where it is small.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        // OK because a float this small fits.
        100.0..1e15 => count(per_second.round() as u64),
        10.0..100.0 => format!("{per_second:.1}"),
        _ => format!("{per_second:.2}"),
    }
}

/// Writes a share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_unit_that_reads_best() {
        let written = [0.0, 999.0, 1_000.0, 76_543.0, 999_960.0, 4.2e12].map(bytes);
        assert_eq!(written, ["0 B", "999 B", "1.0 kB", "76.5 kB", "1.0 MB", "4.2 TB"]);
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, expected) in [
            ("10GB", 10_000_000_000),
            ("1.5 TiB", 3 << 39),
            ("4096", 4_096),
            ("1_000kB", 1_000_000),
            ("2g", 2_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(parse_bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "GB", "ten GB", "-1", "1.2.3MB", "10 XB", "99999999PB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_is_a_size_a_share_or_none() {
        for (text, expected) in [
            ("10GB", CacheLimit::TotalSize(10_000_000_000)),
            ("unlimited", CacheLimit::Unlimited),
            ("free:10%", CacheLimit::AvailableSpace { min_ratio: 0.1 }),
        ] {
            let limit: MaxBytes = text.parse().unwrap();
            assert_eq!(limit.0, expected);
            assert_eq!(limit.to_string().parse(), Ok(limit));
        }
        assert!("free:100%".parse::<MaxBytes>().is_err() && "free:ten%".parse::<MaxBytes>().is_err());
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([1, 2_000].map(|n| number_of(n, "batch", "batches")), ["1 batch", "2,000 batches"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.5, 12.34, 99.94, 1_234.4].map(rate), ["0.50", "12.3", "99.9", "1,234"]);
        let times = [0.000_012, 0.012_3, 1.5, 75.0, 125.0, 7_384.0].map(Duration::from_secs_f64).map(duration);
        assert_eq!(times, ["12.0 µs", "12.30 ms", "1.50 s", "75.00 s", "2:05 min", "2:03:04 h"]);
    }
}
