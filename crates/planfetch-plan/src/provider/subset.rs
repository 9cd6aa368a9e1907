//! Some of the samples.

use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::id::SampleId;
use crate::ids::{IdVec, IdWidth, with_ids};
use crate::provider::PlanProvider;
use crate::view::PlanView;
use crate::view::explain::Provenance;

/// Some of the samples of a data set, in the order of another provider.
///
/// The inner provider orders `0..ids.len()`; each of its numbers stands for the id at that place of the list.
///
/// # Example
///
/// A shuffle of the odd samples of ten:
///
/// ```
/// use planfetch_plan::{PlanProvider, ShuffleOncePerEpochPlanProvider, SubsetPlanProvider};
///
/// let inner = ShuffleOncePerEpochPlanProvider::new(5, 2, 42)?;
/// let odd = SubsetPlanProvider::new(inner, [1, 3, 5, 7, 9], 10)?;
/// let mut ids: Vec<u64> = odd.plan(0)?.iter().flatten().map(|id| id.0).collect();
/// ids.sort_unstable();
/// assert_eq!(ids, [1, 3, 5, 7, 9]);
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SubsetPlanProvider {
    inner: Arc<dyn PlanProvider>,
    ids: Arc<IdVec>,
    num_samples: u64,
}

impl SubsetPlanProvider {
    /// Makes a provider of these ids of a data set of `num_samples`. An id may be listed more than once.
    ///
    /// # Errors
    ///
    /// [`PlanError::SampleId`] when an id is not below `num_samples`;
    /// [`PlanError::Setting`] when the inner provider does not have as many samples as there are ids.
    pub fn new(
        inner: impl PlanProvider + 'static,
        ids: impl IntoIterator<Item = u64>,
        num_samples: u64,
    ) -> Result<Self, PlanError> {
        let mut list = IdVec::for_data_set(num_samples);
        for id in ids {
            if num_samples <= id {
                return Err(PlanError::SampleId { id, num_samples });
            }
            list.push(id);
        }
        // OK because an index fits in 64 bits.
        if inner.num_samples() != list.len() as u64 {
            let allowed = format!("{}, the number of samples of the provider that orders them", inner.num_samples());
            return Err(PlanError::setting("number of ids of the subset", list.len(), allowed));
        }
        Ok(Self { inner: Arc::new(inner), ids: Arc::new(list), num_samples })
    }
}

impl PlanProvider for SubsetPlanProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        let inner = self.inner.plan(epoch)?;
        let mut ids = IdVec::zeroed(inner.num_ids(), self.num_samples)?;
        with_ids!(&mut ids, ids => for (id, place) in ids.iter_mut().zip(inner.iter().flatten()) {
            if self.ids.len() <= place.index() {
                // OK because an index fits in 64 bits.
                return Err(PlanError::SampleId { id: place.0, num_samples: self.ids.len() as u64 });
            }
            *id = IdWidth::from_id(self.ids.at(place.index()).0);
        });
        let plan = PlanView::new(ids, inner.batch_size(), self.num_samples)?;
        Ok(plan.with_provenance(Arc::new(Chosen { inner: Arc::clone(&self.inner), epoch })))
    }

    fn num_samples(&self) -> u64 {
        self.num_samples
    }

    fn batch_size(&self) -> usize {
        self.inner.batch_size()
    }

    fn seed(&self) -> u64 {
        self.inner.seed()
    }

    fn fingerprint(&self) -> Fingerprint {
        let ids = match &*self.ids {
            IdVec::U32(ids) => ids.as_slice().into(),
            IdVec::U64(ids) => ids.as_slice().into(),
        };
        let fields =
            [("inner", self.inner.fingerprint().into()), ("ids", ids), ("num_samples", self.num_samples.into())];
        Fingerprint::of("subset", &fields)
    }
}

#[derive(Debug)]
struct Chosen {
    inner: Arc<dyn PlanProvider>,
    epoch: u64,
}

impl Provenance for Chosen {
    fn reason(&self, position: usize, _sample: SampleId) -> String {
        // The inner plan is made again, rather than kept in memory for the rare question.
        match self.inner.plan(self.epoch).map(|plan| plan.explain(position)) {
            Ok(Some(inner)) => format!("it is number {} of the subset, and {}", inner.sample, inner.reason),
            _ => "it is in the subset".to_owned(),
        }
    }
}
