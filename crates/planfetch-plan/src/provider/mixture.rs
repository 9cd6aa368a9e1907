//! Several data sets in fixed proportions.

use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::id::SampleId;
use crate::ids::{IdVec, IdWidth, with_ids};
use crate::matrix::{Filler, Shape};
use crate::permutation::shuffle;
use crate::provider::{PlanProvider, check_sizes, kept};
use crate::rng::{Purpose, plan_rng};
use crate::shares::Shares;
use crate::view::PlanView;
use crate::view::explain::Provenance;

/// Several data sets, mixed in fixed proportions.
///
/// The ids of each source are shifted behind those of the sources before it, as the samples of concatenated data sets
/// are. Each source is ordered by a provider of its own, and goes on from epoch to epoch of the mixture where it
/// stopped: when it has given its last sample, its own next epoch begins. So a small source with a large share is
/// repeated in fresh orders, and a large one with a small share is spread over many epochs.
///
/// # Example
///
/// Seven samples of one data set for every three of another:
///
/// ```
/// use planfetch_plan::{MixturePlanProvider, MixtureSource, PlanProvider, ShuffleOncePerEpochPlanProvider};
///
/// let large = ShuffleOncePerEpochPlanProvider::new(1_000, 1, 1)?;
/// let small = ShuffleOncePerEpochPlanProvider::new(50, 1, 2)?;
/// let mixture = MixturePlanProvider::new(vec![MixtureSource::new(large, 7), MixtureSource::new(small, 3)], 20, 100, 42)?;
/// assert_eq!(mixture.num_samples(), 1_050);
/// for batch in &mixture.plan(0)? {
///     assert_eq!(batch.into_iter().filter(|id| 1_000 <= id.0).count(), 6);
/// }
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MixturePlanProvider {
    sources: Arc<[Source]>,
    shares: Shares,
    batch_size: usize,
    epoch_samples: u64,
    seed: u64,
    mode: MixtureMode,
    drop_last: bool,
}

/// A data set of a mixture and its part.
#[derive(Clone, Debug)]
pub struct MixtureSource {
    provider: Arc<dyn PlanProvider>,
    parts: u32,
}

impl MixtureSource {
    /// Names the provider that orders the data set, and how many parts of the mixture come from it.
    ///
    /// Parts are whole numbers so that 7 and 3 are exactly seven and three tenths. A source with 0 parts never comes.
    /// The provider's batch size plays no part; all its epochs must have the same length. A lazy one saves memory.
    #[must_use]
    pub fn new(provider: impl PlanProvider + 'static, parts: u32) -> Self {
        Self { provider: Arc::new(provider), parts }
    }
}

/// How closely a mixture keeps its proportions.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[non_exhaustive]
pub enum MixtureMode {
    /// In every batch: exactly where the share is a whole number of slots, within one where it is not, and over many
    /// batches exactly again.
    #[default]
    ExactPerBatch,
    /// In every epoch, within one sample; the sources come in random order, so that batches vary as by chance.
    InExpectation,
}

#[derive(Debug)]
struct Source {
    provider: Arc<dyn PlanProvider>,
    // What is added to its ids.
    offset: u64,
    epoch_len: u64,
}

impl MixturePlanProvider {
    /// Makes a mixture in global batches of `batch_size` with epochs of `epoch_samples`.
    ///
    /// It asks each source for its first plan, to know its length.
    ///
    /// # Errors
    ///
    /// [`PlanError::BatchSize`] when `batch_size` is 0 or above `u32::MAX`;
    /// [`PlanError::Setting`] when no source has parts and samples, or one with parts has no samples;
    /// [`PlanError::NumSamples`] when the plan can't be indexed on this platform; and those of the sources.
    pub fn new(
        sources: Vec<MixtureSource>,
        batch_size: usize,
        epoch_samples: u64,
        seed: u64,
    ) -> Result<Self, PlanError> {
        let weights: Vec<u64> = sources.iter().map(|source| u64::from(source.parts)).collect();
        if weights.iter().all(|&weight| weight == 0) {
            return Err(PlanError::setting("number of sources with parts", 0, "at least 1"));
        }
        let mut num_samples = 0_u64;
        let mut inner = Vec::with_capacity(sources.len());
        for source in sources {
            // OK because an index fits in 64 bits.
            let epoch_len = source.provider.plan(0)?.num_ids() as u64;
            if epoch_len == 0 && 0 < source.parts {
                let allowed = "0, since the source has no samples";
                return Err(PlanError::setting("parts of a source", source.parts, allowed));
            }
            let size = source.provider.num_samples();
            inner.push(Source { provider: source.provider, offset: num_samples, epoch_len });
            num_samples = num_samples.saturating_add(size);
        }
        check_sizes(num_samples, batch_size)?;
        Shape::new(epoch_samples, batch_size, false)?;
        let shares = Shares::new(weights);
        let mode = MixtureMode::default();
        Ok(Self { sources: inner.into(), shares, batch_size, epoch_samples, seed, mode, drop_last: false })
    }

    /// Sets how closely the proportions are kept. Default: [`MixtureMode::ExactPerBatch`].
    #[must_use]
    pub fn with_mode(mut self, mode: MixtureMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets whether a last batch of fewer than `batch_size` samples is left out. Default: false.
    #[must_use]
    pub fn with_drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    fn fill_exactly<T: IdWidth>(&self, epoch: u64, shape: Shape, ids: &mut [T]) -> Result<(), PlanError> {
        let mut filler = Filler::new(ids, self.batch_size);
        // OK because indices fit in 64 and 128 bits, and rows number fewer than 2^32, here and below.
        let first = u128::from(epoch) * shape.full_rows as u128;
        let mut full = self.shares.rows(self.seed, 0, self.batch_size as u64, first, shape.full_rows);
        let mut short = self.shares.rows(self.seed, 1, shape.short as u64, u128::from(epoch), 1);
        for (index, source) in self.sources.iter().enumerate() {
            let due = self.shares.due(index, &mut full);
            let due_short = self.shares.due(index, &mut short);
            let mut stream = SourceStream::new(index, source, due.before + due_short.before);
            let mut counts = vec![due.base; shape.full_rows];
            for range in due.extra {
                full.order[range].iter().for_each(|&row| counts[row as usize] += 1);
            }
            if 0 < shape.short {
                let more = due_short.extra.into_iter().map(|range| range.len() as u64).sum::<u64>();
                counts.push(due_short.base + more);
            }
            for (row, count) in counts.into_iter().enumerate() {
                for _ in 0..count {
                    filler.put(row, stream.next_id()?);
                }
            }
        }
        filler.shuffle_rows(&mut plan_rng(Purpose::SlotOrder, self.seed, epoch));
        Ok(())
    }

    fn fill_in_expectation<T: IdWidth>(&self, epoch: u64, ids: &mut [T]) -> Result<(), PlanError> {
        // One batch as long as the epoch, of which the sources come in random order, each in its own.
        // OK because indices fit in 64 bits.
        let mut whole = self.shares.rows(self.seed, 2, ids.len() as u64, u128::from(epoch), 1);
        let mut streams = Vec::with_capacity(self.sources.len());
        let mut filled = 0;
        for (index, source) in self.sources.iter().enumerate() {
            let due = self.shares.due(index, &mut whole);
            let count = due.base as usize + due.extra.into_iter().map(|range| range.len()).sum::<usize>();
            streams.push(SourceStream::new(index, source, due.before));
            ids[filled..filled + count].fill(T::from_id(source.offset));
            filled += count;
        }
        shuffle(ids, &mut plan_rng(Purpose::SlotOrder, self.seed, epoch));
        for id in ids {
            // Sources without samples share their offset with the next, which is then the last of those.
            let source = self.sources.partition_point(|source| source.offset <= id.to_id()) - 1;
            *id = T::from_id(streams[source].next_id()?);
        }
        Ok(())
    }
}

impl PlanProvider for MixturePlanProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        let shape = Shape::new(self.epoch_samples, self.batch_size, self.drop_last)?;
        let mut ids = IdVec::zeroed(shape.num_ids(), self.num_samples())?;
        if 0 < shape.num_ids() {
            with_ids!(&mut ids, ids => match self.mode {
                MixtureMode::ExactPerBatch => self.fill_exactly(epoch, shape, ids)?,
                MixtureMode::InExpectation => self.fill_in_expectation(epoch, ids)?,
            });
        }
        let plan = PlanView::new(ids, self.batch_size, self.num_samples())?;
        let sources = Arc::clone(&self.sources);
        Ok(plan.with_provenance(Arc::new(Mixed { sources, shares: self.shares.clone(), mode: self.mode })))
    }

    fn num_samples(&self) -> u64 {
        self.sources.iter().map(|source| source.provider.num_samples()).sum()
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn fingerprint(&self) -> Fingerprint {
        let mut fields = vec![
            ("seed", self.seed.into()),
            ("num_ids", kept(self.epoch_samples, self.batch_size, self.drop_last).into()),
            ("weights", self.shares.weights().into()),
        ];
        match self.mode {
            MixtureMode::ExactPerBatch => fields.push(("exact with batch_size", self.batch_size.into())),
            MixtureMode::InExpectation => fields.push(("mode", "in expectation".into())),
        }
        fields.extend(self.sources.iter().map(|source| ("source", source.provider.fingerprint().into())));
        Fingerprint::of("mixture", &fields)
    }
}

/// The samples of a source, epoch after epoch of its own.
struct SourceStream<'a> {
    number: usize,
    source: &'a Source,
    epoch: u128,
    index: u64,
    plan: Option<PlanView>,
}

impl<'a> SourceStream<'a> {
    fn new(number: usize, source: &'a Source, position: u128) -> Self {
        // A source without samples is never asked for one.
        let len = u128::from(source.epoch_len.max(1));
        // OK because a remainder of the length is below it.
        Self { number, source, epoch: position / len, index: (position % len) as u64, plan: None }
    }

    fn next_id(&mut self) -> Result<u64, PlanError> {
        if self.index == self.source.epoch_len {
            self.epoch += 1;
            self.index = 0;
            self.plan = None;
        }
        let plan = match &self.plan {
            Some(plan) => plan,
            None => {
                // OK because epochs are told apart up to 2^64 of them.
                let epoch = self.epoch as u64;
                let plan = self.source.provider.plan(epoch)?;
                let (found, expected) = (plan.num_ids() as u64, self.source.epoch_len);
                if found != expected {
                    return Err(PlanError::EpochLength { index: self.number, epoch, found, expected });
                }
                self.plan.insert(plan)
            }
        };
        // OK because the index lies below the length of the plan, which is an index.
        let id = plan.id_at(self.index as usize);
        self.index += 1;
        Ok(self.source.offset + id.0)
    }
}

#[derive(Debug)]
struct Mixed {
    sources: Arc<[Source]>,
    shares: Shares,
    mode: MixtureMode,
}

impl Provenance for Mixed {
    fn reason(&self, _position: usize, sample: SampleId) -> String {
        let source = self.sources.partition_point(|source| source.offset <= sample.0).saturating_sub(1);
        let per = if self.mode == MixtureMode::ExactPerBatch { "batch" } else { "epoch" };
        format!(
            "it is sample {} of source {source}, which has {} of the {} parts of every {per}",
            sample.0 - self.sources[source].offset,
            self.shares.weights()[source],
            self.shares.total(),
        )
    }
}
