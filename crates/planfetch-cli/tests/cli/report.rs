//! `planfetch speedtest --report`.

use planfetch_testkit::{S3Server, fixtures};

use crate::support::{entries, planfetch};

#[test]
fn a_report_is_one_page_that_needs_nothing_else() {
    let (tmp, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 100);
    std::fs::write(tmp.path().join("a&b.csv"), csv).unwrap();
    let line = "speedtest a&b.csv --image-size 32 --batch-size 10 --epochs 2 --report report.html --json";
    let ran = planfetch(&server, line, tmp.path());
    assert!(ran.stderr.contains("the report is in report.html"), "{ran:?}");
    let summary = ran.json();
    assert_eq!(entries(tmp.path()), ["a&b.csv", "report.html"]);
    let page = std::fs::read_to_string(tmp.path().join("report.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    // No script, and nothing from anywhere else: the only URL is the name of what a picture is written in.
    assert!(!page.contains("<script") && !page.contains("@import") && !page.contains("url("));
    let urls: Vec<&str> = page.match_indices("http").map(|(at, _)| &page[at..at + 26]).collect();
    assert!(urls.iter().all(|url| *url == "http://www.w3.org/2000/svg"), "{urls:?}");
    assert_eq!(page.matches("<svg ").count(), 5);
    assert_eq!(page.matches("</svg>").count(), 5);
    for title in ["Throughput", "Batch latency", "What was waited for", "Window", "Cache"] {
        assert!(page.contains(&format!("<h2>{title}</h2>")), "no {title}");
    }
    // Colours are those of the page, which has them for light and dark.
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("var(--first)"));
    let colors = page.split("</style>").nth(1).unwrap().matches("=\"#").count();
    assert_eq!(colors, 0, "a plot has a colour of its own");
    // What stands in it is what was measured, and the index's name is no markup.
    let bound_by = summary["verdict"]["bound_by"].as_str().unwrap();
    assert!(page.contains(&format!("<h2>Bound by {bound_by}</h2>")) && page.contains("a&amp;b.csv"), "{page}");
    assert!(page.contains("<dt>samples</dt><dd>200</dd>"), "{page}");
    assert!(page.contains("2 epochs of shuffle batches of 10, seed 0, rank 0 of 1; decode image"), "{page}");
    // The bars of the histogram count each batch once.
    let histogram = page.split("<h2>Batch latency</h2>").nth(1).unwrap().split("</figure>").next().unwrap();
    assert!(histogram.contains("<rect "), "{histogram}");
}
