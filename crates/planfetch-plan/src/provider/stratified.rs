//! Batches that mirror the classes of the data set.

use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::id::SampleId;
use crate::ids::{IdVec, IdWidth, with_ids};
use crate::matrix::{Filler, Shape};
use crate::permutation::shuffle;
use crate::pools::{ClassStream, Pools};
use crate::provider::{PlanProvider, check_sizes};
use crate::rng::{Purpose, plan_rng};
use crate::shares::Shares;
use crate::view::PlanView;
use crate::view::explain::Provenance;

/// Each batch holds each class in proportion to its share of the data set.
///
/// A class with `c` of `n` samples gets `batch_size * c / n` slots of every batch where that is a whole number, and
/// the whole number below or above it otherwise. An epoch is one pass, every sample once; see
/// [`with_epoch_samples`](Self::with_epoch_samples) for shorter and longer ones.
/// The order is fresh in every epoch: which samples of a class come together, in which batch, and in which slot.
/// Classes without samples take no slot. The last batch may be shorter; it is proportional as well.
///
/// The samples of each class are listed once, when the provider is made. An epoch walks each class by a
/// [`KeyedPermutation`](crate::KeyedPermutation), one class after the other, and copies no list.
///
/// # Example
///
/// Three quarters of the samples are of class 0, and so are three of the four slots of every batch:
///
/// ```
/// use planfetch_plan::{PlanProvider, StreamingStratifiedBatchPlanProvider};
///
/// let labels: Vec<u32> = (0..1_000).map(|sample| u32::from(sample % 4 == 0)).collect();
/// let provider = StreamingStratifiedBatchPlanProvider::new(&labels, 2, 4, 42)?;
/// for batch in &provider.plan(0)? {
///     assert_eq!(batch.into_iter().filter(|id| labels[id.index()] == 0).count(), 3);
/// }
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StreamingStratifiedBatchPlanProvider {
    pools: Arc<Pools>,
    shares: Arc<Shares>,
    batch_size: usize,
    seed: u64,
    // `None` is one pass.
    epoch_samples: Option<u64>,
    drop_last: bool,
}

impl StreamingStratifiedBatchPlanProvider {
    /// Makes a provider for samples with these labels, sample 0 first, in global batches of `batch_size`.
    ///
    /// # Errors
    ///
    /// [`PlanError::BatchSize`] when `batch_size` is 0 or above `u32::MAX`;
    /// [`PlanError::Label`] when a label is not below `num_classes`.
    pub fn new(labels: &[u32], num_classes: u32, batch_size: usize, seed: u64) -> Result<Self, PlanError> {
        // OK because a slice's length fits in 64 bits.
        check_sizes(labels.len() as u64, batch_size)?;
        let pools = Pools::from_labels(labels, num_classes)?;
        let shares = Shares::new(pools.sizes().collect());
        Ok(Self {
            pools: Arc::new(pools),
            shares: Arc::new(shares),
            batch_size,
            seed,
            epoch_samples: None,
            drop_last: false,
        })
    }

    /// Sets how many samples an epoch has. Default: as many as the data set, each once.
    ///
    /// Each class then streams through its samples from epoch to epoch and goes on where the epoch before stopped, so
    /// that none comes again before all of its class have come. Too few make epochs in which rare classes are missing.
    ///
    /// # Errors
    ///
    /// [`PlanError::Setting`] when the data set is empty and the epoch is not;
    /// [`PlanError::NumSamples`] when a plan of that size can't be indexed on this platform.
    pub fn with_epoch_samples(mut self, epoch_samples: u64) -> Result<Self, PlanError> {
        Shape::new(epoch_samples, self.batch_size, false)?;
        let num_samples = self.pools.num_samples();
        if num_samples == 0 && 0 < epoch_samples {
            return Err(PlanError::setting("epoch_samples", epoch_samples, "0, since the data set has no samples"));
        }
        self.epoch_samples = (epoch_samples != num_samples).then_some(epoch_samples);
        Ok(self)
    }

    /// Sets whether a last batch of fewer than `batch_size` samples is left out. Default: false.
    #[must_use]
    pub fn with_drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// Fills an epoch of one pass.
    ///
    /// With `rows` full batches a class of `c` samples, less those of the short batch, gets a whole number of slots in
    /// each and one more in `c % rows` of them. As in [`Shares`], those are an arc of a circle, here of the batches in
    /// random order, so that every class comes out exactly.
    fn fill_pass<T: IdWidth>(&self, epoch: u64, shape: Shape, filler: &mut Filler<'_, T>) {
        // OK because an index fits in 64 bits, and rows number fewer than 2^32, here and below.
        let rows = shape.full_rows as u64;
        let mut order: Vec<u32> = (0..shape.full_rows as u32).collect();
        shuffle(&mut order, &mut plan_rng(Purpose::BatchOrder, self.seed, epoch));
        let in_short = self.shares_of_short_batch();
        let mut stream = ClassStream::new(&self.pools, self.seed);
        let mut start = 0;
        for class in 0..self.pools.num_classes() {
            let size = self.pools.range(class).len() as u64;
            if size == 0 {
                continue;
            }
            stream.enter(class, u128::from(epoch) * u128::from(size));
            let short = in_short.as_ref().map_or(0, |short| short[class]);
            let full = size - short;
            if let (Some(base), Some(extra)) = (full.checked_div(rows), full.checked_rem(rows)) {
                for _ in 0..base {
                    stream.deal(0..shape.full_rows, filler);
                }
                let end = start + extra as usize;
                let wrapped = end.saturating_sub(shape.full_rows);
                let arc = order[start..end - wrapped].iter().chain(&order[..wrapped]);
                stream.deal(arc.map(|&row| row as usize), filler);
                start = end % shape.full_rows;
            }
            if 0 < shape.short {
                stream.deal((0..short).map(|_| shape.full_rows), filler);
            }
        }
    }

    /// Returns how many samples of each class the short batch of a pass has, or `None` where there is none.
    ///
    /// Each is the whole number below or above the class's share, and such that what is left for the full batches
    /// comes out within one of the share there too. Of those that may go either way, the largest fractions are rounded
    /// up.
    fn shares_of_short_batch(&self) -> Option<Vec<u64>> {
        let num_samples = u128::from(self.pools.num_samples());
        let batch_size = self.batch_size as u128;
        let (rows, short) = (num_samples / batch_size, num_samples % batch_size);
        if short == 0 {
            return None;
        }
        let mut given = 0;
        let mut free = Vec::new();
        let mut counts: Vec<u64> = Vec::with_capacity(self.pools.num_classes());
        for (class, size) in self.pools.sizes().enumerate() {
            let size = u128::from(size);
            let (share, full_share) = (short * size, batch_size * size);
            let most_in_full = rows * full_share.div_ceil(num_samples);
            let fewest_in_full = rows * (full_share / num_samples);
            let low = (share / num_samples).max(size.saturating_sub(most_in_full));
            let high = share.div_ceil(num_samples).min(size - fewest_in_full);
            if low < high {
                free.push((std::cmp::Reverse(share % num_samples), class));
            }
            given += low;
            // OK because a class has no more than its samples.
            counts.push(low as u64);
        }
        free.sort_unstable();
        debug_assert!(given <= short && short - given <= free.len() as u128, "a share can always be rounded");
        // OK because a batch fits in an index.
        free.iter().take((short - given) as usize).for_each(|&(_, class)| counts[class] += 1);
        Some(counts)
    }

    /// Fills an epoch of another length than one pass.
    fn fill_streams<T: IdWidth>(&self, epoch: u64, shape: Shape, filler: &mut Filler<'_, T>) {
        // OK because indices fit in 64 and 128 bits.
        let first = u128::from(epoch) * shape.full_rows as u128;
        let mut full = self.shares.rows(self.seed, 0, self.batch_size as u64, first, shape.full_rows);
        let mut short = self.shares.rows(self.seed, 1, shape.short as u64, u128::from(epoch), 1);
        let mut stream = ClassStream::new(&self.pools, self.seed);
        let mut extra = Vec::new();
        let mut marks = vec![0; shape.full_rows.div_ceil(64)];
        for class in 0..self.pools.num_classes() {
            if self.pools.range(class).is_empty() {
                continue;
            }
            let due = self.shares.due(class, &mut full);
            let due_short = self.shares.due(class, &mut short);
            stream.enter(class, due.before + due_short.before);
            extra.clear();
            due.extra.into_iter().for_each(|range| extra.extend_from_slice(&full.order[range]));
            // In the order of the batches, so that a sample comes again no sooner than its class allows.
            sort_rows(&mut extra, &mut marks);
            if due.base == 0 {
                stream.deal(extra.iter().map(|&row| row as usize), filler);
            } else {
                let mut extra = extra.iter().peekable();
                for row in 0..shape.full_rows {
                    // OK because rows number fewer than 2^32.
                    let more = u64::from(extra.next_if(|&&next| next as usize == row).is_some());
                    (0..due.base + more).for_each(|_| filler.put(row, stream.next_id()));
                }
            }
            if 0 < shape.short {
                let more = due_short.extra.into_iter().map(|range| range.len() as u64).sum::<u64>();
                (0..due_short.base + more).for_each(|_| filler.put(shape.full_rows, stream.next_id()));
            }
        }
    }
}

/// Sorts distinct rows, by marking them one bit each where they are many. Comparing them took half of an epoch's time.
/// `marks` has a bit for every row, all clear before and after.
fn sort_rows(rows: &mut Vec<u32>, marks: &mut [u64]) {
    if rows.len() < marks.len() {
        rows.sort_unstable();
        return;
    }
    for row in rows.drain(..) {
        // OK because a row number fits in an index.
        marks[row as usize / 64] |= 1 << (row % 64);
    }
    for (word, start) in marks.iter_mut().zip((0..).step_by(64)) {
        while *word != 0 {
            rows.push(start + word.trailing_zeros());
            *word &= *word - 1;
        }
    }
}

impl PlanProvider for StreamingStratifiedBatchPlanProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        let num_samples = self.pools.num_samples();
        let shape = Shape::new(self.epoch_samples.unwrap_or(num_samples), self.batch_size, self.drop_last)?;
        let mut ids = IdVec::zeroed(shape.num_ids(), num_samples)?;
        if 0 < shape.num_ids() {
            with_ids!(&mut ids, ids => {
                let mut filler = Filler::new(ids, self.batch_size);
                match self.epoch_samples {
                    None => self.fill_pass(epoch, shape, &mut filler),
                    Some(_) => self.fill_streams(epoch, shape, &mut filler),
                }
                filler.shuffle_rows(&mut plan_rng(Purpose::SlotOrder, self.seed, epoch));
            });
        }
        let plan = PlanView::new(ids, self.batch_size, num_samples)?;
        Ok(plan.with_provenance(Arc::new(Proportional { pools: Arc::clone(&self.pools), batch_size: self.batch_size })))
    }

    fn num_samples(&self) -> u64 {
        self.pools.num_samples()
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn fingerprint(&self) -> Fingerprint {
        // The batch size decides the order too.
        Fingerprint::of(
            "streaming-stratified",
            &[
                ("classes", self.pools.field().into()),
                ("batch_size", self.batch_size.into()),
                ("seed", self.seed.into()),
                ("epoch_samples", self.epoch_samples.unwrap_or(self.pools.num_samples()).into()),
                ("drop_last", self.drop_last.into()),
            ],
        )
    }
}

#[derive(Debug)]
struct Proportional {
    pools: Arc<Pools>,
    batch_size: usize,
}

impl Provenance for Proportional {
    fn reason(&self, _position: usize, sample: SampleId) -> String {
        let Some(class) = self.pools.class_of(sample.0) else { return "it is of no class".to_owned() };
        let (size, all) = (self.pools.range(class).len() as u128, u128::from(self.pools.num_samples()));
        let slots = self.batch_size as u128 * size;
        let (low, high) = (slots / all, slots.div_ceil(all));
        let slots = if low == high { low.to_string() } else { format!("{low} or {high}") };
        format!(
            "class {class} has {size} of {all} samples and so gets {slots} of the {} slots of every full batch",
            self.batch_size
        )
    }
}
