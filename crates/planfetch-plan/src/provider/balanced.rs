//! Batches in which every class counts the same.

use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::id::SampleId;
use crate::ids::{IdVec, IdWidth, with_ids};
use crate::matrix::{Filler, Shape};
use crate::pools::{ClassStream, Pools};
use crate::provider::{PlanProvider, check_sizes};
use crate::rng::{Purpose, plan_rng};
use crate::view::PlanView;
use crate::view::explain::Provenance;

/// Each batch holds exactly `samples_per_class` samples of each class.
///
/// Large classes are undersampled and small ones oversampled. Each class streams through its samples from epoch to
/// epoch and goes on where the epoch before stopped, pass after pass, each in a fresh order: none comes again before
/// all of its class have come. Classes without samples take no slot, so the batch size is `samples_per_class` times
/// the number of classes that have some. No batch is short.
///
/// # Example
///
/// ```
/// use planfetch_plan::{BalancedSubsamplingPlanProvider, PlanProvider};
///
/// // 90 samples of class 0, 10 of class 1.
/// let labels: Vec<u32> = (0..100).map(|sample| u32::from(sample >= 90)).collect();
/// let provider = BalancedSubsamplingPlanProvider::new(&labels, 2, 4, 42)?;
/// assert_eq!(provider.batch_size(), 8);
/// for batch in &provider.plan(0)? {
///     assert_eq!(batch.into_iter().filter(|id| labels[id.index()] == 1).count(), 4);
/// }
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BalancedSubsamplingPlanProvider {
    pools: Arc<Pools>,
    samples_per_class: usize,
    batch_size: usize,
    num_batches: u64,
    seed: u64,
}

impl BalancedSubsamplingPlanProvider {
    /// Makes a provider for samples with these labels, sample 0 first.
    ///
    /// # Errors
    ///
    /// [`PlanError::Setting`] when `samples_per_class` is 0 or no class has a sample;
    /// [`PlanError::BatchSize`] when the batch would be larger than `u32::MAX`;
    /// [`PlanError::Label`] when a label is not below `num_classes`.
    pub fn new(labels: &[u32], num_classes: u32, samples_per_class: usize, seed: u64) -> Result<Self, PlanError> {
        let pools = Self::pools(labels, num_classes)?;
        Self::from_pools(pools, samples_per_class, seed)
    }

    /// Makes a provider with global batches of `batch_size`, which the number of classes that have samples divides.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and [`PlanError::Setting`] when the batch size is not a multiple of that number.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::BalancedSubsamplingPlanProvider;
    ///
    /// let error = BalancedSubsamplingPlanProvider::from_batch_size(&[0, 1, 2], 3, 32, 42).expect_err("32 over 3");
    /// assert_eq!(
    ///     error.to_string(),
    ///     "batch_size is 32, but must be a multiple of 3, the number of classes that have samples: 30 or 33, for example"
    /// );
    /// ```
    pub fn from_batch_size(labels: &[u32], num_classes: u32, batch_size: usize, seed: u64) -> Result<Self, PlanError> {
        // OK because a slice's length fits in 64 bits.
        check_sizes(labels.len() as u64, batch_size)?;
        let pools = Self::pools(labels, num_classes)?;
        let classes = pools.num_non_empty();
        if !batch_size.is_multiple_of(classes) {
            let low = batch_size / classes * classes;
            let (low, high) = (if low == 0 { String::new() } else { format!("{low} or ") }, low + classes);
            let allowed =
                format!("a multiple of {classes}, the number of classes that have samples: {low}{high}, for example");
            return Err(PlanError::setting("batch_size", batch_size, allowed));
        }
        Self::from_pools(pools, batch_size / classes, seed)
    }

    fn pools(labels: &[u32], num_classes: u32) -> Result<Pools, PlanError> {
        let pools = Pools::from_labels(labels, num_classes)?;
        if pools.num_non_empty() == 0 {
            return Err(PlanError::setting("number of classes that have samples", 0, "at least 1"));
        }
        Ok(pools)
    }

    fn from_pools(pools: Pools, samples_per_class: usize, seed: u64) -> Result<Self, PlanError> {
        if samples_per_class == 0 {
            return Err(PlanError::setting("samples_per_class", 0, "at least 1"));
        }
        let too_large = PlanError::BatchSize { batch_size: u64::MAX, max: u64::from(u32::MAX) };
        let batch_size = samples_per_class.checked_mul(pools.num_non_empty()).ok_or(too_large)?;
        check_sizes(pools.num_samples(), batch_size)?;
        // OK because an index fits in 64 bits.
        let num_batches = (pools.num_samples() / batch_size as u64).max(1);
        Ok(Self { pools: Arc::new(pools), samples_per_class, batch_size, num_batches, seed })
    }

    /// Sets how many batches an epoch has. Default: as many as the number of samples fills, and at least one.
    ///
    /// # Errors
    ///
    /// [`PlanError::NumSamples`] when a plan of that size can't be indexed on this platform.
    pub fn with_num_batches(mut self, num_batches: u64) -> Result<Self, PlanError> {
        self.num_batches = num_batches;
        self.shape()?;
        Ok(self)
    }

    fn shape(&self) -> Result<Shape, PlanError> {
        // OK because an index fits in 64 bits.
        Shape::new(self.num_batches.saturating_mul(self.batch_size as u64), self.batch_size, false)
    }

    fn fill<T: IdWidth>(&self, epoch: u64, shape: Shape, filler: &mut Filler<'_, T>) {
        let mut stream = ClassStream::new(&self.pools, self.seed);
        // OK because indices fit in 128 bits.
        let before = u128::from(epoch) * (shape.full_rows as u128 * self.samples_per_class as u128);
        for class in (0..self.pools.num_classes()).filter(|&class| !self.pools.range(class).is_empty()) {
            stream.enter(class, before);
            // A class's samples in the order of the batches, so that none comes again sooner than its class allows.
            let rows = (0..shape.full_rows).flat_map(|row| std::iter::repeat_n(row, self.samples_per_class));
            stream.deal(rows, filler);
        }
    }
}

impl PlanProvider for BalancedSubsamplingPlanProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        let shape = self.shape()?;
        let mut ids = IdVec::zeroed(shape.num_ids(), self.num_samples())?;
        with_ids!(&mut ids, ids => {
            let mut filler = Filler::new(ids, self.batch_size);
            self.fill(epoch, shape, &mut filler);
            filler.shuffle_rows(&mut plan_rng(Purpose::SlotOrder, self.seed, epoch));
        });
        let plan = PlanView::new(ids, self.batch_size, self.num_samples())?;
        let samples_per_class = self.samples_per_class;
        Ok(plan.with_provenance(Arc::new(Balanced { pools: Arc::clone(&self.pools), samples_per_class })))
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
        Fingerprint::of(
            "balanced-subsampling",
            &[
                ("classes", self.pools.field().into()),
                ("samples_per_class", self.samples_per_class.into()),
                ("num_batches", self.num_batches.into()),
                ("seed", self.seed.into()),
            ],
        )
    }
}

#[derive(Debug)]
struct Balanced {
    pools: Arc<Pools>,
    samples_per_class: usize,
}

impl Provenance for Balanced {
    fn reason(&self, _position: usize, sample: SampleId) -> String {
        let Some(class) = self.pools.class_of(sample.0) else { return "it is of no class".to_owned() };
        format!(
            "class {class}, which has {} samples, gets {} slots of every batch as every class does",
            self.pools.range(class).len(),
            self.samples_per_class
        )
    }
}
