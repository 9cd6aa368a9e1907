//! What an index costs: bytes for each URI, times of reading, and of loading from CSV and from a saved file.
//!
//! `cargo bench -p planfetch-index` prints each number next to its target or ceiling, and ends in an error when one is
//! missed; `-- --rows 10000000` takes another number of rows than two million, and `-- --only csv` (or `lists`, `saved`)
//! a part of them.

#![expect(clippy::print_stdout, reason = "a program that prints numbers")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use planfetch_index::{CsvSettings, LabelKind, SampleIndex, SplitBy, UriList, load_index_csv};

/// Each time is the median of so many runs, since a machine does other things too.
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let option = |name: &str| std::env::args().skip_while(|arg| arg != name).nth(1);
    let rows: usize = option("--rows").map_or(Ok(2_000_000), |rows| rows.parse())?;
    let only = option("--only");
    let is_asked = |part: &str| only.as_ref().is_none_or(|only| only == part);
    let mut report = Report::default();
    println!("{rows} rows, median of {RUNS} runs");

    if is_asked("lists") {
        let sorted = (0..rows).map(|i| sorted_uri(i, rows)).collect();
        lists(&mut report, "sorted", &sorted, Some(12.0), Some(250.0));
        let shuffled = (0..rows).map(|i| sorted_uri(shuffled(i, rows), rows)).collect();
        lists(&mut report, "shuffled", &shuffled, None, None);
        let plain: usize = (0..rows).map(|i| uuid_uri(i).len()).sum();
        let most = plain as f64 / rows as f64 + 5.0;
        lists(&mut report, "UUIDs", &(0..rows).map(uuid_uri).collect(), Some(most), None);
    }
    let folder = tempfile::tempdir()?;
    if is_asked("csv") {
        csv(&mut report, folder.path(), rows)?;
    }
    if is_asked("saved") {
        saved(&mut report, folder.path(), rows)?;
    }
    if report.missed > 0 {
        return Err(format!("{} of the numbers miss their target", report.missed).into());
    }
    Ok(())
}

/// `n` photographs of a thousand classes, the classes in order.
fn sorted_uri(i: usize, n: usize) -> String {
    format!("s3://bucket/train/class_{:04}/img_{i:07}.jpg", i * 1_000 / n.max(1))
}

fn shuffled(i: usize, n: usize) -> usize {
    // A prime with no factor of any number of rows that is tried.
    ((i as u64 * 2_654_435_761) % n as u64) as usize
}

fn uuid_uri(i: usize) -> String {
    // SplitMix64, twice.
    let mix = |x: u64| {
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    let (a, b) = (mix(2 * i as u64 + 1), mix(2 * i as u64 + 2));
    let (c, d, e, f) = (a >> 32, a >> 16 & 0xffff, a & 0xffff, b >> 48);
    format!("s3://bucket/{c:08x}-{d:04x}-{e:04x}-{f:04x}-{:012x}", b & 0xffff_ffff_ffff)
}

fn lists(report: &mut Report, name: &str, uris: &UriList, most_bytes: Option<f64>, most_ns: Option<f64>) {
    let mut uris = uris.clone();
    uris.shrink_to_fit();
    let n = uris.len();
    report.number(&format!("{name}: packed"), uris.packed_bytes() as f64 / n as f64, "bytes/URI", most_bytes);
    let mut uri = String::new();
    let order: Vec<u32> = (0..n).map(|i| shuffled(i, n) as u32).collect();
    let random = time(|| {
        for &i in &order {
            uris.write_to(i as usize, black_box(&mut uri));
        }
    });
    report.number(&format!("{name}: get at random"), per(random, n), "ns", most_ns);
    // What the memory of the machine takes of that: as many strings in one buffer, each found by where it ends.
    let (mut plain, mut ends) = (String::new(), vec![0]);
    for uri in uris.iter() {
        plain.push_str(&uri);
        ends.push(plain.len());
    }
    let baseline = time(|| {
        for &i in &order {
            uri.clear();
            uri.push_str(&plain[ends[i as usize]..ends[i as usize + 1]]);
            black_box(&mut uri);
        }
    });
    report.number(&format!("{name}: the same of strings that are not packed"), per(baseline, n), "ns", None);
    drop(plain);
    let cursor = time(|| {
        let mut cursor = uris.cursor();
        while let Some(uri) = cursor.next_uri() {
            black_box(uri);
        }
    });
    report.number(&format!("{name}: next of a cursor"), per(cursor, n), "ns", Some(40.0));
    let iter = time(|| uris.iter().for_each(|uri| drop(black_box(uri))));
    report.number(&format!("{name}: next of iter(), with a String"), per(iter, n), "ns", None);
}

fn csv(report: &mut Report, folder: &std::path::Path, rows: usize) -> Result<(), Box<dyn std::error::Error>> {
    for (kind, label_kind) in [("integers", LabelKind::Integer), ("names", LabelKind::Name)] {
        let mut text = String::from("s3_uri,label\n");
        for i in 0..rows {
            let class = i * 1_000 / rows;
            match label_kind {
                LabelKind::Name => writeln!(text, "{},class_{class:04}", sorted_uri(i, rows))?,
                _ => writeln!(text, "{},{class}", sorted_uri(i, rows))?,
            }
        }
        let path = folder.join("train.csv");
        std::fs::write(&path, text)?;
        let settings = CsvSettings { label_kind, ..CsvSettings::default() };
        // One after the other, so that both see the same noise of the machine.
        let (mut parse, mut load) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            parse.push(once(|| {
                let mut reader = csv::Reader::from_path(&path).expect("it was written");
                let mut record = csv::ByteRecord::new();
                while reader.read_byte_record(&mut record).expect("it is valid") {
                    black_box(&record);
                }
            }));
            load.push(once(|| drop(black_box(load_index_csv(&path, &settings)))));
        }
        let (parse, load) = (median(parse), median(load));
        report.number(&format!("CSV, {kind}: the csv crate only parses"), per(parse, rows), "ns/row", None);
        report.number(&format!("CSV, {kind}: the index is loaded"), per(load, rows), "ns/row", None);
        let ratio = load.as_secs_f64() / parse.as_secs_f64();
        report.number(&format!("CSV, {kind}: ratio"), ratio, "times", Some(1.5));
    }
    Ok(())
}

fn saved(report: &mut Report, folder: &std::path::Path, rows: usize) -> Result<(), Box<dyn std::error::Error>> {
    let index = SampleIndex::from_rows((0..rows).map(|i| (sorted_uri(i, rows), (i * 1_000 / rows) as u32)))?;
    let path = folder.join("train.index");
    let save = time(|| index.save(&path).expect("there is room"));
    report.number("saved: save", per(save, rows), "ns/row", None);
    let len = std::fs::metadata(&path)?.len();
    report.number("saved: size", len as f64 / rows as f64, "bytes/row", None);
    let read = time(|| drop(black_box(std::fs::read(&path))));
    report.number("saved: the file is only read", per(read, rows), "ns/row", None);
    let load = time(|| drop(black_box(SampleIndex::load(&path).expect("it was saved"))));
    report.number("saved: load", per(load, rows), "ns/row", None);
    report.number("saved: load of 100 million rows at that rate", per(load, rows) * 1e8 / 1e9, "s", Some(1.0));
    let split = time(|| drop(black_box(index.split(0.8, 0.1, SplitBy::Sample, 0))));
    report.number("split", per(split, rows), "ns/row", None);
    let describe = time(|| drop(black_box(index.describe())));
    report.number("describe", per(describe, rows), "ns/row", None);
    Ok(())
}

fn time(f: impl FnMut()) -> Duration {
    let mut f = f;
    median((0..RUNS).map(|_| once(&mut f)).collect())
}

fn once(f: impl FnOnce()) -> Duration {
    let start = Instant::now();
    f();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn per(time: Duration, n: usize) -> f64 {
    time.as_secs_f64() * 1e9 / n as f64
}

#[derive(Default)]
struct Report {
    missed: usize,
}

impl Report {
    fn number(&mut self, what: &str, value: f64, unit: &str, most: Option<f64>) {
        let verdict = match most {
            Some(most) if value > most => {
                self.missed += 1;
                format!("at most {most:.1}: MISSED")
            }
            Some(most) => format!("at most {most:.1}: ok"),
            None => String::new(),
        };
        println!("{what:<48} {value:>9.2} {unit:<10} {verdict}");
    }
}
