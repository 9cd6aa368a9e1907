//! Batches of samples of similar size.

use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::id::SampleId;
use crate::ids::{IdVec, IdWidth, with_ids};
use crate::permutation::{KeyedPermutation, shuffle};
use crate::pools::Pools;
use crate::provider::{PlanProvider, check_sizes};
use crate::rng::{Purpose, plan_rng, stream_rng};
use crate::view::PlanView;
use crate::view::explain::Provenance;

/// Each batch holds samples of one bucket, of similar length or aspect ratio, so that little of it is padding.
///
/// Every sample comes once an epoch. Each bucket is put in random order and cut into batches, and the batches come in
/// random order, both fresh each epoch. What is left of each bucket is cut into batches in the order of the buckets,
/// so that fewer batches than there are buckets hold samples of more than one, and those of neighbours.
/// The last batch may be shorter.
///
/// # Example
///
/// ```
/// use planfetch_plan::{BucketPlanProvider, PlanProvider};
///
/// // Two buckets: lengths below 100, and from 100 on.
/// let lengths: Vec<u64> = (0..64).map(|sample| if sample % 2 == 0 { 20 } else { 300 }).collect();
/// let provider = BucketPlanProvider::from_lengths(&lengths, &[100], 8, 42)?;
/// for batch in &provider.plan(0)? {
///     let mut parity = batch.into_iter().map(|id| id.0 % 2);
///     let first = parity.next();
///     assert!(parity.all(|other| Some(other) == first));
/// }
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BucketPlanProvider {
    buckets: Arc<Pools>,
    batch_size: usize,
    seed: u64,
    drop_last: bool,
}

impl BucketPlanProvider {
    /// Makes a provider for samples that lie in these buckets, sample 0 first, in global batches of `batch_size`.
    /// Buckets with neighbouring numbers are the most similar.
    ///
    /// # Errors
    ///
    /// [`PlanError::BatchSize`] when `batch_size` is 0 or above `u32::MAX`;
    /// [`PlanError::Label`] when a bucket is not below `num_buckets`.
    pub fn new(buckets: &[u32], num_buckets: u32, batch_size: usize, seed: u64) -> Result<Self, PlanError> {
        // OK because a slice's length fits in 64 bits.
        check_sizes(buckets.len() as u64, batch_size)?;
        let buckets = Arc::new(Pools::from_labels(buckets, num_buckets)?);
        Ok(Self { buckets, batch_size, seed, drop_last: false })
    }

    /// Makes a provider for samples of these lengths, in any unit.
    ///
    /// `boundaries` are ascending; each is the first length of the next bucket. With `[100, 200]` there are three
    /// buckets: below 100, below 200, and the rest.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and [`PlanError::Value`] when the boundaries are not ascending.
    pub fn from_lengths(lengths: &[u64], boundaries: &[u64], batch_size: usize, seed: u64) -> Result<Self, PlanError> {
        if let Some(index) = boundaries.windows(2).position(|pair| pair[1] <= pair[0]) {
            return Err(not_ascending(index + 1, boundaries[index + 1]));
        }
        let buckets = lengths.iter().map(|length| bucket(boundaries.partition_point(|boundary| boundary <= length)));
        Self::new(&buckets.collect::<Vec<u32>>(), bucket(boundaries.len()).saturating_add(1), batch_size, seed)
    }

    /// Makes a provider for samples of these aspect ratios, width over height.
    ///
    /// `boundaries` are as in [`from_lengths`](Self::from_lengths).
    ///
    /// # Errors
    ///
    /// As [`from_lengths`](Self::from_lengths), and [`PlanError::Value`] when a ratio is not a number.
    pub fn from_aspect_ratios(
        ratios: &[f64],
        boundaries: &[f64],
        batch_size: usize,
        seed: u64,
    ) -> Result<Self, PlanError> {
        if let Some(index) = boundaries.iter().position(|boundary| boundary.is_nan()) {
            return Err(not_ascending(index, f64::NAN));
        }
        if let Some(index) = boundaries.windows(2).position(|pair| pair[1] <= pair[0]) {
            return Err(not_ascending(index + 1, boundaries[index + 1]));
        }
        if let Some(index) = ratios.iter().position(|ratio| ratio.is_nan()) {
            // OK because a slice's length fits in 64 bits.
            let (list, index, value) = ("aspect ratio", index as u64, "NaN".to_owned());
            return Err(PlanError::Value { list, index, value, allowed: "a number" });
        }
        let buckets = ratios.iter().map(|ratio| bucket(boundaries.partition_point(|boundary| boundary <= ratio)));
        Self::new(&buckets.collect::<Vec<u32>>(), bucket(boundaries.len()).saturating_add(1), batch_size, seed)
    }

    /// Sets whether a last batch of fewer than `batch_size` samples is left out. Default: false.
    #[must_use]
    pub fn with_drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    fn fill<T: IdWidth>(&self, epoch: u64, ids: &mut [T]) {
        let batch_size = self.batch_size;
        let num_pure: usize = self.sizes().map(|size| size / batch_size).sum();
        // The full batches, one after the other, of each bucket before those that hold what is left.
        let (pure, mixed) = ids.split_at_mut(num_pure * batch_size);
        let (mut pure, mut mixed) = (pure.iter_mut(), mixed.iter_mut());
        let mut order = KeyedPermutation::empty();
        for bucket in 0..self.buckets.num_classes() {
            let range = self.buckets.range(bucket);
            // OK because an index fits in 64 bits, and an entry lies below the length of a slice.
            order.reset(range.len() as u64, &mut stream_rng(Purpose::Bucket, self.seed, epoch, bucket as u64));
            let full = range.len() - range.len() % batch_size;
            for index in 0..range.len() {
                let place = order.at(index as u64).expect("the index lies below the bucket's size");
                let slot = if index < full { pure.next() } else { mixed.next() };
                *slot.expect("there is a slot for every sample") =
                    T::from_id(self.buckets.at(range.start + place as usize));
            }
        }
        self.shuffle_full_batches(epoch, ids);
    }

    fn shuffle_full_batches<T: IdWidth>(&self, epoch: u64, ids: &mut [T]) {
        let rows = ids.len() / self.batch_size;
        // Where each batch comes from; then batches go there in the cycles of that permutation, one batch held aside.
        let mut source: Vec<usize> = (0..rows).collect();
        shuffle(&mut source, &mut plan_rng(Purpose::BucketBatches, self.seed, epoch));
        let mut aside = Vec::with_capacity(self.batch_size);
        for first in 0..rows {
            if source[first] == first {
                continue;
            }
            let row = |row: usize| row * self.batch_size..(row + 1) * self.batch_size;
            aside.clear();
            aside.extend_from_slice(&ids[row(first)]);
            let mut to = first;
            while source[to] != first {
                let from = source[to];
                ids.copy_within(row(from), to * self.batch_size);
                source[to] = to;
                to = from;
            }
            ids[row(to)].copy_from_slice(&aside);
            source[to] = to;
        }
    }

    fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.buckets.num_classes()).map(|bucket| self.buckets.range(bucket).len())
    }
}

/// Returns a bucket number; more buckets than fit are refused with the labels.
fn bucket(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn not_ascending(index: usize, value: impl ToString) -> PlanError {
    // OK because a slice's length fits in 64 bits.
    let (list, allowed) = ("boundary", "a number above the boundary before it");
    PlanError::Value { list, index: index as u64, value: value.to_string(), allowed }
}

impl PlanProvider for BucketPlanProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        // OK because the pools have as many samples as a slice.
        let mut ids = IdVec::zeroed(self.num_samples() as usize, self.num_samples())?;
        with_ids!(&mut ids, ids => self.fill(epoch, ids));
        if self.drop_last {
            ids.truncate_to_multiple_of(self.batch_size);
        }
        let plan = PlanView::new(ids, self.batch_size, self.num_samples())?;
        Ok(plan.with_provenance(Arc::new(Similar { buckets: Arc::clone(&self.buckets) })))
    }

    fn num_samples(&self) -> u64 {
        self.buckets.num_samples()
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(
            "bucket",
            &[
                ("buckets", self.buckets.field().into()),
                ("batch_size", self.batch_size.into()),
                ("seed", self.seed.into()),
                ("drop_last", self.drop_last.into()),
            ],
        )
    }
}

#[derive(Debug)]
struct Similar {
    buckets: Arc<Pools>,
}

impl Provenance for Similar {
    fn reason(&self, _position: usize, sample: SampleId) -> String {
        let Some(bucket) = self.buckets.class_of(sample.0) else { return "it is in no bucket".to_owned() };
        let size = self.buckets.range(bucket).len();
        format!("batches are made within buckets, and it is one of the {size} samples of bucket {bucket}")
    }
}
