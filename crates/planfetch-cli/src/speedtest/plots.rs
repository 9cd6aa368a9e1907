//! The plots of the report, as SVG.
//!
//! Colours are drawn as marks that the page replaces by its own variables, so that a plot is good to look at in light
//! and in dark.

use std::error::Error;
use std::time::Duration;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::failure::Failure;
use crate::speedtest::samples::Bucket;
use crate::speedtest::summary::Stall;
use crate::units::{bytes, count, duration, percent, rate};

const WIDTH: u32 = 720;
const HEIGHT: u32 = 260;
const FONT: &str = "sans-serif";
const FONT_SIZE: f64 = 16.0;

/// Marks, and what the page has in their place.
const MARKS: [(RGBColor, &str); 4] =
    [(INK, "var(--ink)"), (FAINT, "var(--faint)"), (FIRST, "var(--first)"), (SECOND, "var(--second)")];
const INK: RGBColor = RGBColor(1, 2, 3);
const FAINT: RGBColor = RGBColor(4, 5, 6);
const FIRST: RGBColor = RGBColor(7, 8, 9);
const SECOND: RGBColor = RGBColor(10, 11, 12);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error + Send + Sync>>;

/// A line over time, with the area below it.
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
    /// What stands at the axis.
    pub(crate) label: fn(f64) -> String,
    /// The end of the axis, where it is known beforehand.
    pub(crate) max: Option<f64>,
}

/// Draws a line over time.
pub(crate) fn line(line: &Line<'_>) -> Result<String, Failure> {
    svg(line.name, HEIGHT, |area| {
        let end = line.points.last().map_or(1.0, |last| last.0).max(1e-3);
        let largest = line.points.iter().map(|point| point.1).fold(0.0, f64::max);
        let max = line.max.unwrap_or(if largest == 0.0 { 1.0 } else { largest * 1.08 });
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .margin_right(24)
            .x_label_area_size(28)
            .y_label_area_size(84)
            .build_cartesian_2d(0.0..end, 0.0..max)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(FAINT)
            .label_style((FONT, FONT_SIZE, &INK))
            .x_labels(8)
            .y_labels(5)
            .x_label_formatter(&|seconds| seconds_label(*seconds, end))
            .y_label_formatter(&|value| (line.label)(*value))
            .draw()?;
        chart.draw_series(AreaSeries::new(line.points.iter().copied(), 0.0, FIRST.mix(0.16)))?;
        chart.draw_series(LineSeries::new(line.points.iter().copied(), FIRST.stroke_width(2)))?;
        Ok(())
    })
}

/// Draws how many batches were waited for how long.
pub(crate) fn histogram(name: &str, buckets: &[Bucket]) -> Result<String, Failure> {
    svg(name, HEIGHT, |area| {
        let n = buckets.len().max(1);
        let most = buckets.iter().map(|bucket| bucket.batches).max().unwrap_or(0).max(1);
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .margin_right(24)
            .x_label_area_size(28)
            .y_label_area_size(84)
            .build_cartesian_2d(0.0..n as f64, 0.0..most as f64 * 1.08)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .disable_x_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(FAINT)
            .label_style((FONT, FONT_SIZE, &INK))
            .y_labels(5.min(most as usize + 1))
            .y_label_formatter(&|value| rate_or_count(*value))
            .draw()?;
        let bars = buckets.iter().enumerate().filter(|(_, bucket)| bucket.batches != 0).map(|(i, bucket)| {
            Rectangle::new([(i as f64 + 0.06, 0.0), (i as f64 + 0.94, bucket.batches as f64)], FIRST.filled())
        });
        chart.draw_series(bars)?;
        // So many bounds that their labels don't run into each other.
        let every = n.div_ceil(8);
        let style = (FONT, FONT_SIZE, &INK).into_text_style(area).pos(Pos::new(HPos::Center, VPos::Top));
        for (i, bucket) in buckets.iter().enumerate().step_by(every) {
            let (x, y) = chart.backend_coord(&(i as f64, 0.0));
            area.draw_text(&short(bucket.from), &style, (x, y + 8))?;
        }
        Ok(())
    })
}

/// Draws a bar for each cause of waiting, the longest first.
pub(crate) fn causes<'a>(name: &str, stalls: impl Iterator<Item = &'a Stall>) -> Result<String, Failure> {
    const ROW: u32 = 30;
    let stalls: Vec<&Stall> = stalls.collect();
    let height = ROW * (stalls.len().max(1) as u32) + 24;
    svg(name, height, |area| {
        let longest = stalls.iter().map(|stall| stall.seconds).fold(0.0, f64::max).max(1e-9);
        let left = (FONT, FONT_SIZE, &INK).into_text_style(area).pos(Pos::new(HPos::Right, VPos::Center));
        let right = (FONT, FONT_SIZE, &INK).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
        let (begin, width) = (110, WIDTH as i32 - 110 - 210);
        for (stall, row) in stalls.iter().zip(0_i32..) {
            let middle = 12 + row * ROW as i32 + ROW as i32 / 2;
            // OK because a share of the width fits.
            let len = ((stall.seconds / longest) * f64::from(width)) as i32;
            area.draw_text(&stall.cause, &left, (begin - 10, middle))?;
            area.draw(&Rectangle::new([(begin, middle - 9), (begin + len.max(1), middle + 9)], SECOND.filled()))?;
            let text = format!("{}  ({})", duration(Duration::from_secs_f64(stall.seconds)), percent(stall.share));
            area.draw_text(&text, &right, (begin + len + 8, middle))?;
        }
        if stalls.is_empty() {
            area.draw_text("the loop never waited", &right, (begin, 12 + ROW as i32 / 2))?;
        }
        Ok(())
    })
}

/// Draws on a transparent ground, and returns a picture without a size of its own, with colours of the page.
fn svg(name: &str, height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, Failure> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw(&area)?;
        area.present().map_err(|error| format!("can't draw a plot: {error}"))?;
    }
    for (mark, variable) in MARKS {
        svg = svg.replace(&format!("#{:02X}{:02X}{:02X}", mark.0, mark.1, mark.2), variable);
    }
    // The size comes from the page; the name is for those who hear it.
    let size = format!("width=\"{WIDTH}\" height=\"{height}\" ");
    let svg = svg.replacen(&size, &format!("role=\"img\" aria-label=\"{name}\" "), 1);
    Ok(svg)
}

fn seconds_label(seconds: f64, end: f64) -> String {
    if end < 2.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

fn short(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    let two =
        |value: f64, unit: &str| if value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") };
    match micros {
        1e6.. => two(micros / 1e6, "s"),
        1e3.. => two(micros / 1e3, "ms"),
        _ => two(micros, "µs"),
    }
}

fn rate_or_count(value: f64) -> String {
    // OK because a number of batches is small.
    if value.fract() == 0.0 { count(value as u64) } else { String::new() }
}

/// Labels for the axis of a line: samples a second, a share, bytes.
pub(crate) fn per_second(value: f64) -> String {
    if value == 0.0 { "0".into() } else { rate(value) }
}

pub(crate) fn share(value: f64) -> String {
    format!("{:.0} %", 100.0 * value)
}

pub(crate) fn size(value: f64) -> String {
    bytes(value)
}
