//! The report: one page that holds all it needs.

use std::fmt::Write;
use std::time::Duration;

use planfetch::prelude::BatchesAhead;

use crate::failure::Failure;
use crate::speedtest::measure::Measured;
use crate::speedtest::plots::{self, Line};
use crate::speedtest::summary::{Asked, Summary};
use crate::speedtest::timeline::Point;
use crate::units::{bytes, count, duration, percent, rate};

const STYLE: &str = include_str!("page.css");

/// Makes the page.
pub(crate) fn page(summary: &Summary, measured: &Measured) -> Result<String, Failure> {
    let points = measured.timeline.points();
    let fill: Vec<(f64, f64)> =
        points.iter().filter_map(|point| point.window_fill.map(|fill| (point.seconds, fill))).collect();
    let plots = [
        (
            "Throughput",
            "Samples a second, over the run.",
            plots::line(&Line {
                name: "Samples a second over time",
                points: rates(points, |point| point.samples),
                label: plots::per_second,
                max: None,
            })?,
        ),
        (
            "Batch latency",
            "How long the loop waited for each batch: batches by their wait, on a logarithmic axis.",
            plots::histogram("Batches by the time that was waited for them", &measured.latencies.buckets())?,
        ),
        (
            "What was waited for",
            "All waits added up, by what the batch was waiting for at each moment.",
            plots::causes("Time that was waited, by cause", summary.stalls_worth_showing())?,
        ),
        (
            "Window",
            "The share of the objects of the batches ahead that are local already. A window that empties is too narrow, \
             or the store too slow.",
            plots::line(&Line {
                name: "Share of the window that is local over time",
                points: fill,
                label: plots::share,
                max: Some(1.0),
            })?,
        ),
        (
            "Cache",
            "Bytes on disk, over the run.",
            plots::line(&Line {
                name: "Bytes in the cache over time",
                points: points.iter().map(|point| (point.seconds, point.local_bytes as f64)).collect(),
                label: plots::size,
                max: None,
            })?,
        ),
    ];
    let mut figures = String::new();
    for (title, caption, svg) in plots {
        // OK because writing into a string does not fail, here and below.
        let _ = writeln!(figures, "<figure>\n<h2>{title}</h2>\n{svg}<figcaption>{caption}</figcaption>\n</figure>");
    }
    let mut facts = String::new();
    for (name, value) in self::facts(summary) {
        let _ = writeln!(facts, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    let verdict = &summary.verdict;
    let advice = [&verdict.advice, &verdict.meaning];
    let advice: String =
        advice.iter().filter(|text| !text.is_empty()).map(|text| format!("<p>{}</p>\n", escape(text))).collect();
    let interrupted = if summary.interrupted {
        "<p>The run was interrupted; this is what was measured until then.</p>\n"
    } else {
        ""
    };
    let index = escape(&summary.settings.index);
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>planfetch speedtest: {index}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<header>\n<p>planfetch speedtest</p>\n<h1>{index}</h1>\n\
         </header>\n<section class=\"verdict\">\n<h2>Bound by {}</h2>\n{advice}{interrupted}</section>\n\
         <dl>\n{facts}</dl>\n{figures}<footer>{} planfetch {}.</footer>\n</main>\n</body>\n</html>\n",
        escape(&verdict.bound_by),
        escape(&knobs(&summary.settings)),
        env!("CARGO_PKG_VERSION")
    ))
}

fn facts(summary: &Summary) -> [(&'static str, String); 12] {
    let time = |ms: f64| duration(Duration::from_secs_f64(ms / 1e3));
    let latency = &summary.batch_latency_ms;
    [
        ("samples/s", rate(summary.samples_per_second)),
        ("batches/s", rate(summary.batches_per_second)),
        ("samples", count(summary.samples)),
        ("time", time(summary.seconds * 1e3)),
        ("first batch", time(summary.first_batch_ms)),
        ("latency mean", time(latency.mean)),
        ("latency p50", time(latency.p50)),
        ("latency p95", time(latency.p95)),
        ("latency p99", time(latency.p99)),
        ("downloaded", bytes(summary.bytes_downloaded as f64)),
        ("cache hits", percent(summary.hit_ratio)),
        ("workers", summary.settings.loader.num_workers.to_string()),
    ]
}

/// Says what was set, so that the run can be made again.
fn knobs(asked: &Asked) -> String {
    let Asked { strategy, batch_size, seed, rank, world_size, epochs, decode, step_ms, loader, cache, .. } = asked;
    let ahead = match loader.batches_ahead {
        BatchesAhead::Fixed(batches) => format!("{batches} batches ahead"),
        BatchesAhead::Auto => "as many batches ahead as the store asks for".into(),
    };
    format!(
        "{epochs} epochs of {strategy} batches of {batch_size}, seed {seed}, rank {rank} of {world_size}; decode {decode}, \
         steps of {step_ms} ms; {} workers, {ahead}, {} behind; {} requests at once, pruned by {}.",
        loader.num_workers, loader.batches_back, cache.download_concurrency, cache.eviction
    )
}

/// Returns a number's growth by the second, between each two points.
fn rates(points: &[Point], number: fn(&Point) -> u64) -> Vec<(f64, f64)> {
    let growth = points.windows(2).filter(|pair| pair[0].seconds < pair[1].seconds).map(|pair| {
        let seconds = pair[1].seconds - pair[0].seconds;
        (pair[1].seconds, number(&pair[1]).saturating_sub(number(&pair[0])) as f64 / seconds)
    });
    let mut rates: Vec<(f64, f64)> = growth.collect();
    // Of a short run there may be one.
    if let Some(&(_, first)) = rates.first() {
        rates.insert(0, (0.0, first));
    }
    rates
}

/// Writes text so that a browser takes none of it for a tag.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_growth_by_the_second() {
        let point = |seconds, samples| Point { seconds, samples, ..Point::default() };
        let points = [point(0.0, 0), point(0.5, 50), point(0.5, 50), point(1.5, 350)];
        assert_eq!(rates(&points, |point| point.samples), [(0.0, 100.0), (0.5, 100.0), (1.5, 300.0)]);
        assert!(rates(&points[..1], |point| point.samples).is_empty());
    }

    #[test]
    fn what_an_index_is_called_is_no_markup() {
        assert_eq!(escape("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
    }
}
