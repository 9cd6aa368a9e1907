//! From a range of items, as burn cuts them for several devices, to columns of the plan. Plain decisions.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use planfetch::prelude::*;

use crate::batches::Panicked;

/// The most devices of one process that a slice is taken to be for.
const MAX_DEVICES: usize = 64;

/// Returns which of how many devices the items in `range` are meant for, when `num_items` items are cut as burn does:
/// `num_items / devices` items for each, and the rest for the last. A device needs a column of the batch of its own.
///
/// The range alone may fit several numbers of devices; then it is an error, since devices that take the same columns
/// would train twice on some samples and never on others.
pub(crate) fn part(range: Range<usize>, num_items: usize, batch_size: usize) -> Result<World, String> {
    let Range { start, end } = range;
    if (start, end) == (0, num_items) {
        return Ok(World::SINGLE);
    }
    let fits = |devices: &usize| {
        let each = num_items / devices;
        let last = devices - 1;
        // The rest goes to the last one.
        (end == num_items && start == each * last)
            || (0 < each && end.wrapping_sub(start) == each && start.is_multiple_of(each) && start / each < last)
    };
    let mut devices = (1..=MAX_DEVICES.min(batch_size)).filter(fits);
    match (devices.next(), devices.next()) {
        (Some(n), None) => {
            let each = (num_items / n).max(1);
            // OK because there are at most 64 devices.
            Ok(World { rank: (start / each).min(n - 1) as u32, world_size: n as u32 })
        }
        (None, _) => Err(format!(
            "items {start}..{end} of {num_items} are not the part of one of 1 to {} devices, which take equal parts in \
             order, with the rest for the last one; a device takes columns of each batch, of which there are {batch_size}",
            MAX_DEVICES.min(batch_size)
        )),
        (Some(a), Some(b)) => Err(format!(
            "items {start}..{end} of {num_items} may be the part of one of {a} or of {b} devices; so few items can't be \
             divided safely"
        )),
    }
}

/// Returns the part of a part: `inner` of what `outer` has.
pub(crate) fn part_of(outer: World, inner: World) -> Option<World> {
    let world_size = outer.world_size.checked_mul(inner.world_size)?;
    Some(World { rank: outer.rank * inner.world_size + inner.rank, world_size })
}

/// How many steps an epoch has for a part of the columns, and how many items.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Shape {
    pub(crate) steps: usize,
    /// The items of each step but the last.
    full: usize,
    last: usize,
}

impl Shape {
    /// Returns the shape of an epoch. A last row with fewer samples than there are parts is no step of any part, so that
    /// all have the same number, and none is empty.
    pub(crate) fn new(
        provider: &dyn PlanProvider,
        epoch: u64,
        world: World,
        policy: RemainderPolicy,
    ) -> Result<Self, LoaderError> {
        // A provider is user code.
        let plan = catch_unwind(AssertUnwindSafe(|| provider.plan(epoch))).map_err(|panic| {
            LoaderError::Mismatch { problem: format!("no plan for epoch {epoch}: {}", Panicked::new(&*panic)) }
        })??;
        let plan = plan.for_rank(world, policy)?;
        let rows = plan.num_steps();
        let Some(last_row) = rows.checked_sub(1) else { return Ok(Self::default()) };
        let width = plan.plan().num_ids() - last_row * plan.plan().batch_size();
        // OK because an index fits in 64 bits.
        let steps = if (width as u64) < u64::from(world.world_size) { last_row } else { rows };
        let Some(last_step) = steps.checked_sub(1) else { return Ok(Self::default()) };
        let len = |step| plan.batch(step).map_or(0, |batch| batch.len());
        Ok(Self { steps, full: len(0), last: len(last_step) })
    }

    /// Returns the number of items in the first `steps` steps.
    pub(crate) fn items(&self, steps: usize) -> usize {
        if steps < self.steps { steps * self.full } else { self.steps.saturating_sub(1) * self.full + self.last }
    }

    pub(crate) fn num_items(&self) -> usize {
        self.items(self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges that burn cuts.
    fn cut(num_items: usize, devices: usize) -> Vec<Range<usize>> {
        let each = num_items / devices;
        (0..devices).map(|i| i * each..if i + 1 == devices { num_items } else { (i + 1) * each }).collect()
    }

    #[test]
    fn the_ranges_that_burn_cuts_are_the_parts_in_order_or_an_error_but_never_another_part() {
        let mut found = 0;
        for num_items in (1..600).chain([1_437, 8_000, 60_000, 1_281_167]) {
            for devices in 1..=8 {
                for batch_size in [devices, 64, 256] {
                    for (rank, range) in (0..).zip(cut(num_items, devices)) {
                        let expected = World { rank, world_size: devices as u32 };
                        match part(range.clone(), num_items, batch_size) {
                            Ok(world) if devices <= num_items => {
                                assert_eq!(world, expected, "{range:?} of {num_items}")
                            }
                            Ok(_) => {}
                            Err(_) => assert!(num_items < 1_437, "{range:?} of {num_items} for {devices}"),
                        }
                        found += 1;
                    }
                }
            }
        }
        assert!(60_000 < found);
    }

    #[test]
    fn what_is_no_part_is_an_error_that_says_so() {
        let error = part(10..20, 1_000, 64).unwrap_err();
        assert!(error.contains("10..20 of 1000"), "{error}");
        for (start, end) in [(20, 10), (0, 2_000), (1_000, 1_000)] {
            assert!(part(start..end, 1_000, 64).is_err(), "{start}..{end}");
        }
    }

    #[test]
    fn parts_of_parts_are_the_parts_of_the_whole() {
        let parts = (0..2).flat_map(|rank| {
            (0..3).map(move |i| part_of(World { rank, world_size: 2 }, World { rank: i, world_size: 3 }))
        });
        let expected: Vec<_> = (0..6).map(|rank| Some(World { rank, world_size: 6 })).collect();
        assert_eq!(parts.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_shape_counts_what_a_part_is_given() {
        for num_samples in 0..40 {
            let provider = SequentialPlanProvider::new(num_samples, 8).unwrap();
            for world_size in 1..=4 {
                let shapes: Vec<Shape> = (0..world_size)
                    .map(|rank| Shape::new(&provider, 0, World { rank, world_size }, RemainderPolicy::Keep).unwrap())
                    .collect();
                let short = num_samples % 8;
                let left_out = if short < u64::from(world_size) { short } else { 0 };
                let items: usize = shapes.iter().map(Shape::num_items).sum();
                assert_eq!(items as u64, num_samples - left_out);
                assert!(shapes.iter().all(|shape| shape.steps == shapes[0].steps));
            }
        }
    }
}
