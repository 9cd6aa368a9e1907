//! Several data sets, one after the other.

use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::{FieldValue, Fingerprint};
use crate::id::SampleId;
use crate::ids::IdVec;
use crate::provider::{PlanProvider, check_len, check_sizes};
use crate::view::PlanView;
use crate::view::explain::Provenance;

/// Several data sets one after the other, each in the order of a provider of its own.
///
/// The ids of each are shifted behind those before it. Batches run across the seams, so that only the last may be
/// short. To mix them instead, see [`MixturePlanProvider`](crate::MixturePlanProvider).
///
/// # Example
///
/// ```
/// use planfetch_plan::{ConcatPlanProvider, PlanProvider, SequentialPlanProvider};
///
/// let part = || SequentialPlanProvider::new(3, 2);
/// let both = ConcatPlanProvider::new(vec![Box::new(part()?), Box::new(part()?)])?;
/// let ids: Vec<u64> = both.plan(0)?.iter().flatten().map(|id| id.0).collect();
/// assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConcatPlanProvider {
    // Invariant: not empty.
    parts: Arc<[Box<dyn PlanProvider>]>,
    num_samples: u64,
}

impl ConcatPlanProvider {
    /// Makes a provider of these data sets in this order. Its seed is that of the first.
    ///
    /// # Errors
    ///
    /// [`PlanError::Setting`] when there is none, or when their batch sizes differ;
    /// [`PlanError::NumSamples`] when together they have more samples than can be indexed.
    pub fn new(parts: Vec<Box<dyn PlanProvider>>) -> Result<Self, PlanError> {
        let Some(first) = parts.first() else {
            return Err(PlanError::setting("number of providers", 0, "at least 1"));
        };
        let batch_size = first.batch_size();
        if let Some(other) = parts.iter().map(|part| part.batch_size()).find(|&other| other != batch_size) {
            let allowed = format!("{batch_size}, as that of the first provider");
            return Err(PlanError::setting("batch_size of a provider", other, allowed));
        }
        let num_samples = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.num_samples()));
        check_sizes(num_samples, batch_size)?;
        Ok(Self { parts: parts.into(), num_samples })
    }
}

impl PlanProvider for ConcatPlanProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        let plans: Vec<PlanView> = self.parts.iter().map(|part| part.plan(epoch)).collect::<Result<_, _>>()?;
        // OK because indices fit in 64 bits.
        let len = plans.iter().fold(0_u64, |sum, plan| sum.saturating_add(plan.num_ids() as u64));
        let mut ids = IdVec::with_capacity(check_len(len)?, self.num_samples)?;
        let mut offset = 0;
        let mut ends = Vec::with_capacity(self.parts.len());
        for (part, plan) in self.parts.iter().zip(&plans) {
            ids.append(plan, offset);
            offset += part.num_samples();
            ends.push(ids.len());
        }
        let plan = PlanView::new(ids, self.batch_size(), self.num_samples)?;
        Ok(plan.with_provenance(Arc::new(Part { parts: Arc::clone(&self.parts), ends, epoch })))
    }

    fn num_samples(&self) -> u64 {
        self.num_samples
    }

    fn batch_size(&self) -> usize {
        self.parts[0].batch_size()
    }

    fn seed(&self) -> u64 {
        self.parts[0].seed()
    }

    fn fingerprint(&self) -> Fingerprint {
        let mut fields: Vec<(&str, FieldValue<'_>)> = Vec::with_capacity(2 * self.parts.len());
        fields.extend(self.parts.iter().map(|part| ("part", part.fingerprint().into())));
        fields.extend(self.parts.iter().map(|part| ("num_samples", part.num_samples().into())));
        Fingerprint::of("concat", &fields)
    }
}

#[derive(Debug)]
struct Part {
    parts: Arc<[Box<dyn PlanProvider>]>,
    // Where the positions of each part end.
    ends: Vec<usize>,
    epoch: u64,
}

impl Provenance for Part {
    fn reason(&self, position: usize, _sample: SampleId) -> String {
        let number = self.ends.partition_point(|&end| end <= position);
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        // The inner plan is made again, rather than kept in memory for the rare question.
        match self.parts[number].plan(self.epoch).map(|plan| plan.explain(position - start)) {
            Ok(Some(inner)) => format!("it is sample {} of data set {number}, and {}", inner.sample, inner.reason),
            _ => format!("it is of data set {number}"),
        }
    }
}
