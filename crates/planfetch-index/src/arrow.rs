//! An index from typed tables: Arrow record batches and Parquet files.

mod column;
mod parquet;
mod write;

pub use parquet::load_index_parquet;

use std::fmt;

use arrow_array::RecordBatch;

use crate::error::IndexError;
use crate::sample_index::SampleIndex;
use crate::table::{ColumnSettings, Columns, LENGTH, OFFSET, Role, Rows};
use crate::uri::shorten;
use column::{Integers, Texts};

/// Makes an index of the rows of Arrow record batches; `name` says in errors which index it is.
///
/// The URIs are a column of strings, labels one of strings or integers, sizes, offsets and lengths ones of integers.
/// Strings may be `Utf8`, `LargeUtf8` or `Utf8View`, integers of any width, and all of them dictionaries. Other
/// columns are not looked at.
///
/// # Errors
///
/// [`IndexError`] as for [`load_index_csv`](crate::load_index_csv), with rows counted from 1 over all batches; also
/// when a value is null, a column is of another type, or a batch is an error itself. Nothing is half-built.
///
/// # Example: from a batch in memory
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
/// use arrow_schema::ArrowError;
/// use planfetch_index::{ColumnSettings, read_index_batches};
///
/// let uris: ArrayRef = Arc::new(StringArray::from(vec!["s3://photos/1.jpg", "s3://photos/2.jpg"]));
/// let labels: ArrayRef = Arc::new(Int64Array::from(vec![3, -1]));
/// let batch = RecordBatch::try_from_iter([("s3_uri", uris), ("label", labels)])?;
///
/// let first = [Ok::<_, ArrowError>(batch.slice(0, 1))];
/// assert_eq!(read_index_batches(first, "photos", &ColumnSettings::default())?.labels(), [3]);
///
/// let all = [Ok::<_, ArrowError>(batch)];
/// let error = read_index_batches(all, "photos", &ColumnSettings::default()).expect_err("a label is negative");
/// assert!(error.to_string().starts_with("photos: row 2, column \"label\": \"-1\" is no integer in 0..=4294967295"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_index_batches<E: fmt::Display>(
    batches: impl IntoIterator<Item = Result<RecordBatch, E>>,
    name: &str,
    settings: &ColumnSettings,
) -> Result<SampleIndex, IndexError> {
    let mut rows = Rows::new(settings);
    let mut n_rows = 0;
    for batch in batches {
        let batch = batch.map_err(|error| IndexError::Row {
            file: name.into(),
            row: n_rows + 1,
            line: 0,
            problem: format!("can't be read: {error}"),
        })?;
        push_batch(&mut rows, &batch, n_rows, name, settings)?;
        n_rows += batch.num_rows() as u64;
    }
    if rows.len() == 0 {
        let advice = "an index is a column of URIs, a column of labels, and one row for each sample".into();
        return Err(IndexError::NoSamples { place: name.into(), advice });
    }
    Ok(rows.finish())
}

/// Takes the rows of a batch that has `before` rows before it.
fn push_batch(
    rows: &mut Rows,
    batch: &RecordBatch,
    before: u64,
    name: &str,
    settings: &ColumnSettings,
) -> Result<(), IndexError> {
    let names = batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
    let mut columns = Columns::find(names, settings, name)?;
    settle_range(&mut columns, rows, batch, name, settings)?;
    let columns = columns;
    let type_error = |index: usize, needed: &str| IndexError::Format {
        file: name.into(),
        problem: format!(
            "column {:?} is of type {}, and {needed} are needed; cast it, or name another column",
            columns.name(index).unwrap_or_default(),
            batch.column(index).data_type()
        ),
    };
    let integers = |index: usize| Integers::new(batch.column(index)).ok_or_else(|| type_error(index, "integers"));

    let uris = Texts::new(batch.column(columns.uri)).ok_or_else(|| type_error(columns.uri, "strings"))?;
    let labels = match (Texts::new(batch.column(columns.label)), Integers::new(batch.column(columns.label))) {
        (Some(texts), _) => Labels::Texts(texts),
        (None, Some(integers)) => Labels::Integers(integers),
        (None, None) => return Err(type_error(columns.label, "integers or strings")),
    };
    let sizes = columns.size.map(integers).transpose()?;
    let ranges = columns.range.map(|(offset, length)| Ok((integers(offset)?, integers(length)?))).transpose()?;

    for row in 0..batch.num_rows() {
        let fault = |role: Role, value: &str, problem: String| IndexError::Value {
            file: name.into(),
            row: before + row as u64 + 1,
            line: 0,
            column: columns.name(columns.index(role)).unwrap_or_default().into(),
            value: shorten(value),
            problem,
        };
        let null = |role| fault(role, "", "is null; give every row a value, or leave the row out".into());
        let number = |integers: &Integers, role| {
            let value = integers.get(row).ok_or_else(|| null(role))?;
            u64::try_from(value).map_err(|_| fault(role, &value.to_string(), columns.no_number(role)))
        };

        let uri = uris.get(row).ok_or_else(|| null(Role::Uri))?;
        rows.push_uri(uri).map_err(|problem| fault(Role::Uri, uri, problem))?;
        match &labels {
            Labels::Texts(texts) => match texts.get(row).ok_or_else(|| null(Role::Label))? {
                "" => {
                    return Err(fault(
                        Role::Label,
                        "",
                        "is empty; give every row a value, or leave the row out".into(),
                    ));
                }
                label => rows.labels.push(label).map_err(|problem| fault(Role::Label, label, problem))?,
            },
            Labels::Integers(integers) => {
                let label = integers.get(row).ok_or_else(|| null(Role::Label))?;
                let pushed = rows.labels.push_integer(label);
                pushed.map_err(|problem| fault(Role::Label, &label.to_string(), problem))?;
            }
        }
        if let Some(sizes) = &sizes {
            rows.push_size(number(sizes, Role::Size)?);
        }
        if let Some((offsets, lengths)) = &ranges {
            let (offset, length) = (number(offsets, Role::Offset)?, number(lengths, Role::Length)?);
            let pushed = rows.push_range(offset, length);
            pushed.map_err(|problem| fault(Role::Length, &length.to_string(), problem))?;
        }
    }
    Ok(())
}

/// Decides by the first row whether columns hold ranges that nobody asked for; later batches follow the first.
fn settle_range(
    columns: &mut Columns,
    rows: &Rows,
    batch: &RecordBatch,
    name: &str,
    settings: &ColumnSettings,
) -> Result<(), IndexError> {
    if rows.len() == 0 {
        let first = |index: usize| Integers::new(batch.column(index)).and_then(|integers| integers.get(0));
        columns.settle_range(|index| first(index).is_some_and(|value| u64::try_from(value).is_ok()));
    } else if !rows.has_ranges() {
        columns.settle_range(|_| false);
    } else if columns.range.is_none() {
        let names = batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
        let (offset_col, length_col) = (Some(OFFSET.into()), Some(LENGTH.into()));
        *columns = Columns::find(names, &ColumnSettings { offset_col, length_col, ..settings.clone() }, name)?;
    }
    Ok(())
}

enum Labels<'a> {
    Texts(Texts<'a>),
    Integers(Integers),
}
