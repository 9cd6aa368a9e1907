//! Looking for objects that can't be loaded.

use std::fmt;

use planfetch::cache::CacheErrorKind;
use planfetch::image::decode;
use planfetch::prelude::*;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::index::progress::{Check, Digest, List, Problem, Progress};
use crate::index::{Decode, IndexOptions};
use crate::options::Selected;
use crate::output::{note, progress_bar};
use crate::units::count;

/// Objects that are looked at together; after as many it is written down how far the check has come.
const BATCH: usize = 64;

/// Loads every object of the index by a loader that leaves out what fails.
pub(crate) fn run(
    options: &IndexOptions,
    selected: &Selected,
    cache: DiskCache,
    context: &Context,
) -> Result<(), Failure> {
    let index = &selected.index;
    let mut list = List::open(options.out.as_deref(), this_check(options, index, context)?)?;
    let done_before = list.progress.checked;
    if 0 < done_before {
        note(format_args!("going on after {} of {} objects", count(done_before), count(index.len())));
    }
    let all = usize::try_from(index.len()).map_err(|error| error.to_string())?;
    // OK because it was at most the number of rows.
    let rest = index.select(done_before as usize..all);
    if rest.is_empty() {
        return conclude(options, list.finish()?);
    }

    let settings = LoaderSettings {
        num_epochs: Some(1),
        on_error: OnError::Skip,
        batches_back: 0,
        // What was checked is the beginning of the index, and an object that takes long is no flaw.
        in_order: true,
        timeout: None,
        ..options.window.settings(context)
    };
    let decode = match options.decode {
        Decode::None => None,
        Decode::Image => Some(context.settings.image.decode.clone()),
    };
    let plan = SequentialPlanProvider::new(rest.len(), BATCH)?;
    let collate = collate_fn(|found: Vec<(Found, i64)>| found);
    let objects = ObjectPathDataset::new(rest.clone(), move |file| look(file, decode.as_ref()));
    let builder = LoaderBuilder::new(objects, collate, plan);
    let (mut loader, _controller) = builder.with_cache(cache).with_settings(settings).build()?;
    let bar = progress_bar(Some(index.len()), "{wide_bar} {human_pos}/{human_len} objects  {msg}  {per_sec}  {eta}");
    bar.set_position(done_before);
    for batch in &mut loader {
        let batch = batch?;
        for problem in problems(&batch, &rest, |id| selected.row_in_index(done_before + id.0)) {
            list.push(&problem.as_row())?;
        }
        list.progress.checked += (batch.ids().len() + batch.failed().len()) as u64;
        // Written down each time, so that a run may end at any moment, by Ctrl-C too.
        list.save()?;
        bar.set_position(list.progress.checked);
        bar.set_message(format!("{} found", count(list.progress.found())));
    }
    bar.finish_and_clear();
    conclude(options, list.finish()?)
}

/// Says which check this is: what is looked at, and how.
fn this_check(options: &IndexOptions, index: &SampleIndex, context: &Context) -> Result<Check, Failure> {
    let how = match options.decode {
        Decode::None => "--decode none",
        Decode::Image => "--decode image",
    };
    let mut digest = Digest::new();
    index.for_each(|row| {
        digest.add(row.uri.as_bytes());
        let range = row.range.unwrap_or(0..u64::MAX);
        for number in [u64::from(row.label), range.start, range.end] {
            digest.add(&number.to_le_bytes());
        }
    });
    if options.decode == Decode::Image {
        digest.add(&serde_json::to_vec(&context.settings.image.decode)?);
    }
    Ok(Check {
        index: options.source.index.clone(),
        rows: index.len(),
        options: format!("{} {how}", options.source.selection()).trim_start().to_owned(),
        digest: digest.to_string(),
    })
}

/// Says what was found.
fn conclude(options: &IndexOptions, progress: Progress) -> Result<(), Failure> {
    let found = progress.found();
    let conclusion = Conclusion {
        checked: progress.checked,
        missing: progress.missing,
        empty: progress.empty,
        undecodable: progress.undecodable,
        unreadable: progress.unreadable,
    };
    match &options.out {
        Some(_) => options.output.print(&conclusion)?,
        // Standard output holds the list.
        None => note(conclusion.to_string().trim_end()),
    }
    if found == 0 {
        return Ok(());
    }
    let list = options.out.as_ref().map_or("they are listed above".into(), |out| format!("see {}", out.display()));
    Err(Failure::Found(format!("{} of {} objects can't be loaded; {list}", count(found), count(progress.checked))))
}

#[derive(Debug, Serialize)]
struct Conclusion {
    checked: u64,
    missing: u64,
    empty: u64,
    undecodable: u64,
    unreadable: u64,
}

impl fmt::Display for Conclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { checked, missing, empty, undecodable, unreadable } = self;
        let checked = count(*checked);
        writeln!(
            f,
            "{checked} objects checked: {missing} missing, {empty} empty, {undecodable} undecodable, {unreadable} \
             unreadable"
        )
    }
}

impl Progress {
    fn found(&self) -> u64 {
        self.missing + self.empty + self.undecodable + self.unreadable
    }
}

/// What was found of an object that could be had.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Found {
    Sound,
    Empty,
    Undecodable(String),
}

/// Looks at an object.
fn look(file: &LocalFile, settings: Option<&DecodeSettings>) -> Result<Found, BoxError> {
    if file.is_empty() {
        return Ok(Found::Empty);
    }
    let Some(settings) = settings else { return Ok(Found::Sound) };
    let mut bytes = Vec::new();
    file.read_into(&mut bytes)?;
    Ok(match decode(&bytes, settings) {
        Ok(_) => Found::Sound,
        Err(error) => Found::Undecodable(error.to_string()),
    })
}

/// A problem with the row that it is of.
struct Row {
    row: u64,
    uri: String,
    label: u32,
    problem: &'static str,
    detail: String,
}

impl Row {
    fn as_row(&self) -> Problem<'_> {
        let Self { row, uri, label, problem, .. } = self;
        Problem { row: *row, s3_uri: uri, label: *label, problem, detail: self.detail.clone() }
    }
}

/// Returns what is wrong with the objects of a batch, in the order of the index.
fn problems(batch: &Batch<Vec<(Found, i64)>>, index: &SampleIndex, row_in_index: impl Fn(SampleId) -> u64) -> Vec<Row> {
    let row = |id: SampleId, problem, detail: String| Row {
        row: row_in_index(id),
        uri: index.uri(id.index()).unwrap_or_default(),
        label: index.label(id.index()).unwrap_or_default(),
        problem,
        detail,
    };
    let found = batch.ids().iter().zip(batch.iter()).filter_map(|(&id, (found, _))| match found {
        Found::Sound => None,
        Found::Empty => Some(row(id, "empty", "the object has no bytes".into())),
        Found::Undecodable(problem) => Some(row(id, "undecodable", problem.clone())),
    });
    let failed = batch.failed().iter().map(|failed| {
        let kind = failed.cause.downcast_ref::<CacheError>().map(CacheError::kind);
        let problem = if kind == Some(CacheErrorKind::NotFound) { "missing" } else { "unreadable" };
        row(failed.id, problem, failed.cause.to_string())
    });
    let mut rows: Vec<Row> = found.chain(failed).collect();
    rows.sort_unstable_by_key(|row| row.row);
    rows
}
