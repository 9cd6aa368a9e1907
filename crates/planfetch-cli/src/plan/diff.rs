//! `planfetch plan diff`.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use planfetch::prelude::*;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::OutputOptions;
use crate::plan::load;
use crate::units::count;

#[derive(Args, Debug)]
pub(crate) struct DiffOptions {
    /// A plan that plan show --save has written
    #[arg(value_name = "PLAN")]
    a: PathBuf,
    /// Another
    #[arg(value_name = "PLAN")]
    b: PathBuf,
    #[command(flatten)]
    output: OutputOptions,
}

/// In what two plans differ.
#[derive(Debug, Serialize)]
struct Difference {
    is_same: bool,
    a: Shape,
    b: Shape,
    /// Where they part.
    first: Option<Place>,
    /// How many places hold another sample, of those that both have.
    differing_slots: u64,
    /// How many samples only one of them has, or has more often.
    only_a: u64,
    only_b: u64,
}

#[derive(Debug, Serialize)]
struct Shape {
    num_samples: u64,
    batch_size: usize,
    num_batches: usize,
    slots: usize,
    digest: String,
}

#[derive(Debug, Serialize)]
struct Place {
    step: usize,
    slot: usize,
    a: Option<u64>,
    b: Option<u64>,
}

pub(crate) fn run(options: &DiffOptions) -> Result<(), Failure> {
    let difference = compare(&load(&options.a)?, &load(&options.b)?);
    options.output.print(&difference)?;
    if difference.is_same { Ok(()) } else { Err(Failure::Found("the plans differ".into())) }
}

fn compare(a: &PlanView, b: &PlanView) -> Difference {
    let at = |plan: &PlanView, position: usize| plan.range_flat(position, position + 1)?.get(0).map(|id| id.0);
    let slots = a.num_ids().max(b.num_ids());
    let first = (0..slots).find(|&position| at(a, position) != at(b, position)).map(|position| Place {
        step: position / a.batch_size(),
        slot: position % a.batch_size(),
        a: at(a, position),
        b: at(b, position),
    });
    let both = a.num_ids().min(b.num_ids());
    let differing = (0..both).filter(|&position| at(a, position) != at(b, position)).count() as u64;
    let sorted = |plan: &PlanView| {
        let mut ids: Vec<u64> = plan.iter().flat_map(|batch| batch.to_vec()).map(|id| id.0).collect();
        ids.sort_unstable();
        ids
    };
    let (only_a, only_b) = exclusive(&sorted(a), &sorted(b));
    Difference { is_same: a == b, a: shape(a), b: shape(b), first, differing_slots: differing, only_a, only_b }
}

fn shape(plan: &PlanView) -> Shape {
    Shape {
        num_samples: plan.num_samples(),
        batch_size: plan.batch_size(),
        num_batches: plan.num_batches(),
        slots: plan.num_ids(),
        digest: plan.digest().to_string(),
    }
}

/// Returns how many elements of two sorted lists the other has not.
fn exclusive(a: &[u64], b: &[u64]) -> (u64, u64) {
    let (mut i, mut j, mut only) = (0, 0, (0, 0));
    while i < a.len() || j < b.len() {
        match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) if x == y => (i, j) = (i + 1, j + 1),
            (Some(x), y) if y.is_none_or(|y| x < y) => (i, only.0) = (i + 1, only.0 + 1),
            _ => (j, only.1) = (j + 1, only.1 + 1),
        }
    }
    only
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, shape) in [("a", &self.a), ("b", &self.b)] {
            let Shape { num_samples, batch_size, num_batches, digest, .. } = shape;
            let (steps, samples) = (count(*num_batches as u64), count(*num_samples));
            writeln!(f, "{name}: {steps} steps of {batch_size}, of {samples} samples, digest {digest}")?;
        }
        if self.is_same {
            return writeln!(f, "they are the same");
        }
        match &self.first {
            Some(Place { step, slot, a, b }) => {
                let id = |id: &Option<u64>| id.map_or("nothing".into(), |id| format!("sample {id}"));
                writeln!(f, "they part at step {step}, slot {slot} of a: {} in a, {} in b", id(a), id(b))?;
            }
            None => writeln!(f, "the same samples in the same order, in batches of another size")?,
        }
        writeln!(f, "{} places hold another sample", count(self.differing_slots))?;
        match (self.only_a, self.only_b) {
            (0, 0) => writeln!(f, "both hold the same samples"),
            (a, b) => writeln!(f, "{} are in a alone, {} in b alone", count(a), count(b)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_one_list_has_is_counted_as_often_as_it_is_there() {
        assert_eq!(exclusive(&[1, 2, 2, 5], &[2, 3, 5, 5]), (2, 2));
        assert_eq!(exclusive(&[], &[7, 7]), (0, 2));
        assert_eq!(exclusive(&[7], &[7]), (0, 0));
    }

    #[test]
    fn plans_part_where_they_first_differ() {
        let plan = |ids: &[u64], batch_size| PlanView::from_ids(ids.iter().copied(), batch_size, 10).unwrap();
        let difference = compare(&plan(&[1, 2, 3, 4], 2), &plan(&[1, 2, 4, 3, 5], 2));
        let first = difference.first.unwrap();
        assert_eq!((first.step, first.slot, first.a, first.b), (1, 0, Some(3), Some(4)));
        assert_eq!((difference.differing_slots, difference.only_a, difference.only_b), (2, 0, 1));
        let rebatched = compare(&plan(&[1, 2, 3, 4], 2), &plan(&[1, 2, 3, 4], 4));
        assert!(!rebatched.is_same && rebatched.first.is_none());
        assert!(compare(&plan(&[1, 2], 2), &plan(&[1, 2], 2)).is_same);
    }
}
