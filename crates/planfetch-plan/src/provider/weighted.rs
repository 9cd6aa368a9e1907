//! Samples drawn by weight.

use std::fmt;
use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::id::SampleId;
use crate::ids::IdVec;
use crate::provider::{PlanProvider, check_len, check_sizes, kept};
use crate::rng::{Purpose, plan_rng};
use crate::view::PlanView;
use crate::view::explain::Provenance;
use crate::weights::{AliasTable, Urn, quantise};

/// Draws each sample in proportion to its weight, with or without replacement.
///
/// With replacement, the default, every slot is a draw of its own, and a heavy sample comes many times.
/// Without, a sample comes at most once an epoch, heavy ones sooner: each draw is in proportion to the weights of the
/// samples that are left. A sample of weight 0 never comes.
///
/// Weights are taken as whole multiples of the largest one over `u32::MAX`, rounded down but never to 0, so that the
/// draws are exact and the same on every platform.
///
/// # Example
///
/// ```
/// use planfetch_plan::{PlanProvider, WeightedPlanProvider};
///
/// let provider = WeightedPlanProvider::new(&[1.0, 0.0, 3.0], 100, 42)?.with_epoch_samples(10_000)?;
/// let plan = provider.plan(0)?;
/// let count = |sample| plan.iter().flatten().filter(|id| id.0 == sample).count();
/// assert_eq!(count(1), 0);
/// assert!((7_200..7_800).contains(&count(2)), "three quarters of the draws");
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone)]
pub struct WeightedPlanProvider {
    weights: Arc<[f64]>,
    draws: Arc<Draws>,
    batch_size: usize,
    seed: u64,
    epoch_samples: Option<u64>,
    replacement: bool,
    drop_last: bool,
}

struct Draws {
    quanta: Vec<u32>,
    num_positive: u64,
    // `None` where no weight is above 0.
    table: Option<AliasTable>,
}

impl WeightedPlanProvider {
    /// Makes a provider for samples with these weights, sample 0 first, in global batches of `batch_size`.
    ///
    /// Weights need not add up to 1. Only their proportions count.
    ///
    /// # Errors
    ///
    /// [`PlanError::BatchSize`] when `batch_size` is 0 or above `u32::MAX`;
    /// [`PlanError::NumSamples`] when there are 2^31 weights or more;
    /// [`PlanError::Value`] when a weight is negative, infinite or not a number;
    /// [`PlanError::Setting`] when there are weights but none above 0.
    pub fn new(weights: &[f64], batch_size: usize, seed: u64) -> Result<Self, PlanError> {
        // OK because a slice's length fits in 64 bits, here and below.
        check_sizes(weights.len() as u64, batch_size)?;
        let quanta = quantise(weights)?;
        let num_positive = quanta.iter().filter(|&&quantum| 0 < quantum).count() as u64;
        let table = (0 < num_positive).then(|| AliasTable::new(&quanta));
        Ok(Self {
            weights: weights.into(),
            draws: Arc::new(Draws { quanta, num_positive, table }),
            batch_size,
            seed,
            epoch_samples: None,
            replacement: true,
            drop_last: false,
        })
    }

    /// Makes a provider that gives each sample the weight of its class: `class_weights[labels[sample]]`.
    ///
    /// For classes that come equally often, give each class the reciprocal of its number of samples.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), where [`PlanError::Value`] names the class, and [`PlanError::Label`] when a label has no
    /// weight.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{PlanProvider, WeightedPlanProvider};
    ///
    /// // Three samples of class 0 and one of class 1, each class half of the draws.
    /// let provider = WeightedPlanProvider::from_class_weights(&[0, 0, 0, 1], &[1.0 / 3.0, 1.0], 8, 42)?
    ///     .with_epoch_samples(8_000)?;
    /// let ones = provider.plan(0)?.iter().flatten().filter(|id| id.0 == 3).count();
    /// assert!((3_800..4_200).contains(&ones));
    /// # Ok::<(), planfetch_plan::PlanError>(())
    /// ```
    pub fn from_class_weights(
        labels: &[u32],
        class_weights: &[f64],
        batch_size: usize,
        seed: u64,
    ) -> Result<Self, PlanError> {
        // Checked here too, so that the error names the class.
        quantise(class_weights)?;
        let num_classes = u32::try_from(class_weights.len())
            .map_err(|_| PlanError::setting("number of class weights", class_weights.len(), "below 2^32"))?;
        let weights: Result<Vec<f64>, PlanError> = labels
            .iter()
            .enumerate()
            .map(|(index, &label)| {
                // OK because a label fits in an index.
                let weight = class_weights.get(label as usize).copied();
                weight.ok_or(PlanError::Label { index: index as u64, label, num_classes })
            })
            .collect();
        Self::new(&weights?, batch_size, seed)
    }

    /// Sets how many samples an epoch has.
    /// Default: as many as there are weights, or without replacement, as many as there are weights above 0.
    ///
    /// # Errors
    ///
    /// [`PlanError::Setting`] when there is no weight above 0 to draw by and the epoch is not empty;
    /// [`PlanError::NumSamples`] when a plan of that size can't be indexed on this platform.
    pub fn with_epoch_samples(mut self, epoch_samples: u64) -> Result<Self, PlanError> {
        check_len(epoch_samples)?;
        if self.draws.num_positive == 0 && 0 < epoch_samples {
            return Err(PlanError::setting("epoch_samples", epoch_samples, "0, since there are no weights"));
        }
        self.epoch_samples = Some(epoch_samples);
        Ok(self)
    }

    /// Sets whether a sample can come more than once an epoch. Default: true.
    ///
    /// Without replacement, an epoch can't be longer than there are weights above 0, which
    /// [`plan`](PlanProvider::plan) checks, and making a plan takes up to 30 bytes a sample on top of it.
    #[must_use]
    pub fn with_replacement(mut self, replacement: bool) -> Self {
        self.replacement = replacement;
        self
    }

    /// Sets whether a last batch of fewer than `batch_size` samples is left out. Default: false.
    #[must_use]
    pub fn with_drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    fn epoch_len(&self) -> u64 {
        let default = if self.replacement { self.num_samples() } else { self.draws.num_positive };
        self.epoch_samples.unwrap_or(default)
    }
}

impl fmt::Debug for WeightedPlanProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeightedPlanProvider")
            .field("num_samples", &self.num_samples())
            .field("num_positive", &self.draws.num_positive)
            .field("batch_size", &self.batch_size)
            .field("seed", &self.seed)
            .field("epoch_samples", &self.epoch_len())
            .field("replacement", &self.replacement)
            .field("drop_last", &self.drop_last)
            .finish_non_exhaustive()
    }
}

impl PlanProvider for WeightedPlanProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        let len = self.epoch_len();
        let most = self.draws.num_positive;
        if !self.replacement && most < len {
            let allowed = format!("at most {most}, the number of weights above 0, when drawing without replacement");
            return Err(PlanError::setting("epoch_samples", len, allowed));
        }
        let mut ids = IdVec::with_capacity(check_len(len)?, self.num_samples())?;
        let mut rng = plan_rng(Purpose::Weighted, self.seed, epoch);
        if let Some(table) = &self.draws.table {
            if self.replacement {
                (0..len).for_each(|_| ids.push(table.draw(&mut rng)));
            } else {
                let mut urn = Urn::new(&self.draws.quanta, table);
                (0..len).for_each(|_| ids.push(urn.take(&mut rng)));
            }
        }
        if self.drop_last {
            ids.truncate_to_multiple_of(self.batch_size);
        }
        let plan = PlanView::new(ids, self.batch_size, self.num_samples())?;
        let replacement = self.replacement;
        Ok(plan.with_provenance(Arc::new(Drawn { weights: Arc::clone(&self.weights), replacement })))
    }

    fn num_samples(&self) -> u64 {
        // OK because a slice's length fits in 64 bits.
        self.weights.len() as u64
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(
            "weighted",
            &[
                ("weights", (&*self.weights).into()),
                ("seed", self.seed.into()),
                ("num_ids", kept(self.epoch_len(), self.batch_size, self.drop_last).into()),
                ("replacement", self.replacement.into()),
            ],
        )
    }
}

struct Drawn {
    weights: Arc<[f64]>,
    replacement: bool,
}

impl fmt::Debug for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drawn").field("replacement", &self.replacement).finish_non_exhaustive()
    }
}

impl Provenance for Drawn {
    fn reason(&self, _position: usize, sample: SampleId) -> String {
        let weight = self.weights.get(sample.index()).copied().unwrap_or_default();
        let (all, with) = (self.weights.iter().sum::<f64>(), if self.replacement { "with" } else { "without" });
        format!("drawn {with} replacement by its weight of {weight}, of {all} in all")
    }
}
