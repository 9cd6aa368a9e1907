//! Easy samples first.

use std::fmt;
use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::{FieldValue, Fingerprint};
use crate::id::SampleId;
use crate::ids::{IdVec, with_ids};
use crate::provider::{PlanProvider, check_sizes};
use crate::rng::{Purpose, plan_rng};
use crate::view::PlanView;
use crate::view::explain::Provenance;

/// The easiest samples first, more of them from epoch to epoch.
///
/// Samples are ranked by a difficulty score, ties by their ids. An epoch holds the easiest ones, as large a fraction
/// as the [`Pacing`] says, each once, in random order; or in order of difficulty, see
/// [`with_order`](Self::with_order). The last batch may be shorter.
///
/// # Example
///
/// The easier half in the first epoch, everything from the third on:
///
/// ```
/// use planfetch_plan::{CurriculumPlanProvider, Pacing, PlanProvider};
///
/// let difficulty: Vec<f64> = (0..100).map(|sample| f64::from(99 - sample)).collect();
/// let pacing = Pacing::Linear { start: 0.5, epochs: 2 };
/// let provider = CurriculumPlanProvider::new(&difficulty, pacing, 10, 42)?;
/// assert_eq!(provider.plan(0)?.num_ids(), 50);
/// assert!(provider.plan(0)?.iter().flatten().all(|id| 50 <= id.0));
/// assert_eq!(provider.plan(1)?.num_ids(), 75);
/// assert_eq!(provider.plan(2)?.num_ids(), 100);
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone)]
pub struct CurriculumPlanProvider {
    difficulty: Arc<[f64]>,
    // Sample ids from the easiest to the hardest.
    ranked: Arc<IdVec>,
    pacing: Pacing,
    order: CurriculumOrder,
    batch_size: usize,
    seed: u64,
    drop_last: bool,
}

/// Which fraction of the samples, from the easiest on, an epoch holds.
///
/// At least one sample is open in every epoch. A fraction of `f` opens the next whole number from `f * num_samples` up.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[non_exhaustive]
pub enum Pacing {
    /// All samples in every epoch, for an order of difficulty without a limit.
    All,
    /// From `start` in epoch 0 in equal steps to 1 in epoch `epochs`, and 1 after it.
    Linear {
        /// The fraction of epoch 0, in 0..=1.
        start: f64,
        /// The first epoch with all samples.
        epochs: u64,
    },
    /// As [`Linear`](Self::Linear), with the square of the fraction growing in equal steps: fast at first, then slowly,
    /// so that each new sample is seen about as often as it would be otherwise.
    Root {
        /// The fraction of epoch 0, in 0..=1.
        start: f64,
        /// The first epoch with all samples.
        epochs: u64,
    },
    /// A fraction for each epoch from 0 on, and the last one after them.
    Table(Vec<f64>),
}

/// In which order an epoch of a curriculum comes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[non_exhaustive]
pub enum CurriculumOrder {
    /// Random, fresh in every epoch.
    #[default]
    Shuffled,
    /// From the easiest to the hardest, the same in every epoch as far as it goes.
    EasyToHard,
}

impl Pacing {
    fn check(&self) -> Result<(), PlanError> {
        let fraction = |index, value: f64| {
            if (0.0..=1.0).contains(&value) {
                return Ok(());
            }
            Err(PlanError::Value { list: "pacing fraction", index, value: value.to_string(), allowed: "in 0..=1" })
        };
        match self {
            Self::All => Ok(()),
            Self::Linear { start, .. } | Self::Root { start, .. } => fraction(0, *start),
            Self::Table(table) if table.is_empty() => {
                Err(PlanError::setting("number of pacing fractions", 0, "at least 1"))
            }
            Self::Table(table) => (0..).zip(table).try_for_each(|(index, &value)| fraction(index, value)),
        }
    }

    /// Returns the fraction that `epoch` holds, in 0..=1.
    ///
    /// Sums, products, quotients and square roots are the same on every platform, since IEEE 754 asks for the nearest
    /// number; powers and logarithms are not.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::Pacing;
    ///
    /// let pacing = Pacing::Root { start: 0.0, epochs: 4 };
    /// assert_eq!(pacing.fraction(1), 0.5);
    /// assert_eq!(pacing.fraction(9), 1.0);
    /// ```
    #[must_use]
    pub fn fraction(&self, epoch: u64) -> f64 {
        // OK because a rounded epoch number only matters beyond 2^53 epochs.
        let progress = |epochs: u64| epoch as f64 / epochs as f64;
        match self {
            Self::All => 1.0,
            Self::Linear { epochs, .. } | Self::Root { epochs, .. } if *epochs <= epoch => 1.0,
            Self::Linear { start, epochs } => (start + (1.0 - start) * progress(*epochs)).min(1.0),
            Self::Root { start, epochs } => (start * start + (1.0 - start * start) * progress(*epochs)).sqrt().min(1.0),
            Self::Table(table) => {
                let index = usize::try_from(epoch).unwrap_or(usize::MAX).min(table.len().saturating_sub(1));
                table.get(index).copied().unwrap_or(1.0)
            }
        }
    }

    /// Returns how many of `len` samples `epoch` holds.
    fn open(&self, epoch: u64, len: usize) -> usize {
        // OK because a data set of 2^53 samples does not fit in memory, and the product is at most `len`.
        let open = (self.fraction(epoch) * len as f64).ceil() as usize;
        open.clamp(len.min(1), len)
    }
}

impl CurriculumPlanProvider {
    /// Makes a provider for samples with these scores, sample 0 first and higher meaning harder, in global batches of
    /// `batch_size`.
    ///
    /// # Errors
    ///
    /// [`PlanError::BatchSize`] when `batch_size` is 0 or above `u32::MAX`;
    /// [`PlanError::Value`] when a score is not a number or a pacing fraction is not in 0..=1;
    /// [`PlanError::Setting`] when the pacing is an empty table.
    pub fn new(difficulty: &[f64], pacing: Pacing, batch_size: usize, seed: u64) -> Result<Self, PlanError> {
        // OK because a slice's length fits in 64 bits, here and below.
        check_sizes(difficulty.len() as u64, batch_size)?;
        pacing.check()?;
        if let Some(index) = difficulty.iter().position(|score| score.is_nan()) {
            let allowed = "a number, infinity included";
            return Err(PlanError::Value { list: "difficulty", index: index as u64, value: "NaN".to_owned(), allowed });
        }
        let mut ranked = IdVec::ascending(difficulty.len() as u64)?;
        with_ids!(&mut ranked, ids => ids.sort_by(|&a, &b| {
            // OK because ids are indices of the slice. Adding 0 makes one zero of the two, which total order tells apart.
            (difficulty[a as usize] + 0.0).total_cmp(&(difficulty[b as usize] + 0.0))
        }));
        Ok(Self {
            difficulty: difficulty.into(),
            ranked: Arc::new(ranked),
            pacing,
            order: CurriculumOrder::default(),
            batch_size,
            seed,
            drop_last: false,
        })
    }

    /// Sets in which order an epoch comes. Default: [`CurriculumOrder::Shuffled`].
    #[must_use]
    pub fn with_order(mut self, order: CurriculumOrder) -> Self {
        self.order = order;
        self
    }

    /// Sets whether a last batch of fewer than `batch_size` samples is left out. Default: false.
    #[must_use]
    pub fn with_drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }
}

impl fmt::Debug for CurriculumPlanProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurriculumPlanProvider")
            .field("num_samples", &self.num_samples())
            .field("pacing", &self.pacing)
            .field("order", &self.order)
            .field("batch_size", &self.batch_size)
            .field("seed", &self.seed)
            .field("drop_last", &self.drop_last)
            .finish_non_exhaustive()
    }
}

impl PlanProvider for CurriculumPlanProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        let open = self.pacing.open(epoch, self.ranked.len());
        let mut ids = match &*self.ranked {
            IdVec::U32(ids) => IdVec::U32(ids[..open].to_vec()),
            IdVec::U64(ids) => IdVec::U64(ids[..open].to_vec()),
        };
        if self.order == CurriculumOrder::Shuffled {
            ids.shuffle(&mut plan_rng(Purpose::Curriculum, self.seed, epoch));
        }
        if self.drop_last {
            ids.truncate_to_multiple_of(self.batch_size);
        }
        let plan = PlanView::new(ids, self.batch_size, self.num_samples())?;
        let opened = Opened { difficulty: Arc::clone(&self.difficulty), epoch, open };
        Ok(plan.with_provenance(Arc::new(opened)))
    }

    fn num_samples(&self) -> u64 {
        // OK because a slice's length fits in 64 bits.
        self.difficulty.len() as u64
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn fingerprint(&self) -> Fingerprint {
        let easy_to_hard = self.order == CurriculumOrder::EasyToHard;
        let mut fields: Vec<(&str, FieldValue<'_>)> = vec![
            ("difficulty", (&*self.difficulty).into()),
            ("seed", self.seed.into()),
            ("easy_to_hard", easy_to_hard.into()),
        ];
        match &self.pacing {
            Pacing::All => fields.push(("pacing", "all".into())),
            Pacing::Linear { start, epochs } => {
                fields.extend([("linear", (*start).into()), ("epochs", (*epochs).into())])
            }
            Pacing::Root { start, epochs } => fields.extend([("root", (*start).into()), ("epochs", (*epochs).into())]),
            Pacing::Table(table) => fields.push(("table", table.as_slice().into())),
        }
        if self.drop_last {
            // What is dropped depends on it, in another way in each epoch.
            fields.push(("batch_size", self.batch_size.into()));
        }
        Fingerprint::of("curriculum", &fields)
    }
}

struct Opened {
    difficulty: Arc<[f64]>,
    epoch: u64,
    open: usize,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("epoch", &self.epoch).field("open", &self.open).finish_non_exhaustive()
    }
}

impl Provenance for Opened {
    fn reason(&self, _position: usize, sample: SampleId) -> String {
        let difficulty = self.difficulty.get(sample.index()).copied().unwrap_or_default();
        format!(
            "its difficulty of {difficulty} is among the {} easiest of {}, which epoch {} holds",
            self.open,
            self.difficulty.len(),
            self.epoch
        )
    }
}
