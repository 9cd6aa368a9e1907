//! Several epochs as one.

use std::sync::Arc;

use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::id::SampleId;
use crate::ids::IdVec;
use crate::provider::{PlanProvider, check_len};
use crate::view::PlanView;
use crate::view::explain::Provenance;

/// Several epochs of another provider as one: for data sets so small that epochs would end all the time.
///
/// Epoch `e` is the inner epochs from `e * times` on, one after the other, each in its own order. Batches run across
/// their seams, so that only the last may be short.
///
/// # Example
///
/// ```
/// use planfetch_plan::{PlanProvider, RepeatPlanProvider, SequentialPlanProvider};
///
/// let provider = RepeatPlanProvider::new(SequentialPlanProvider::new(3, 2)?, 2)?;
/// let ids: Vec<u64> = provider.plan(0)?.iter().flatten().map(|id| id.0).collect();
/// assert_eq!(ids, [0, 1, 2, 0, 1, 2]);
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RepeatPlanProvider {
    inner: Arc<dyn PlanProvider>,
    times: u64,
}

impl RepeatPlanProvider {
    /// Makes epochs of `times` epochs of `inner`.
    ///
    /// # Errors
    ///
    /// [`PlanError::Setting`] when `times` is 0.
    pub fn new(inner: impl PlanProvider + 'static, times: u64) -> Result<Self, PlanError> {
        if times == 0 {
            return Err(PlanError::setting("times", 0, "at least 1"));
        }
        Ok(Self { inner: Arc::new(inner), times })
    }

    fn first_inner(&self, epoch: u64) -> u64 {
        // Epoch numbers go around rather than end, as those of any provider.
        epoch.wrapping_mul(self.times)
    }
}

impl PlanProvider for RepeatPlanProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        let mut ids = IdVec::for_data_set(self.num_samples());
        for index in 0..self.times {
            let plan = self.inner.plan(self.first_inner(epoch).wrapping_add(index))?;
            if index == 0 {
                // OK because an index fits in 64 bits.
                let len = check_len((plan.num_ids() as u64).saturating_mul(self.times))?;
                ids = IdVec::with_capacity(len, self.num_samples())?;
                if plan.num_ids() == 0 {
                    // Nothing, however often: a data set without samples must not take forever.
                    break;
                }
            }
            ids.append(&plan, 0);
        }
        let plan = PlanView::new(ids, self.batch_size(), self.num_samples())?;
        let repeated = Repeated { inner: Arc::clone(&self.inner), first: self.first_inner(epoch), times: self.times };
        Ok(plan.with_provenance(Arc::new(repeated)))
    }

    fn num_samples(&self) -> u64 {
        self.inner.num_samples()
    }

    fn batch_size(&self) -> usize {
        self.inner.batch_size()
    }

    fn seed(&self) -> u64 {
        self.inner.seed()
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of("repeat", &[("inner", self.inner.fingerprint().into()), ("times", self.times.into())])
    }
}

#[derive(Debug)]
struct Repeated {
    inner: Arc<dyn PlanProvider>,
    first: u64,
    times: u64,
}

impl Provenance for Repeated {
    fn reason(&self, position: usize, _sample: SampleId) -> String {
        let mut left = position;
        for index in 0..self.times {
            // Made again, rather than kept in memory for the rare question.
            let Ok(plan) = self.inner.plan(self.first.wrapping_add(index)) else { break };
            if let Some(inner) = plan.explain(left) {
                return format!("it is in repetition {index} of {}, and {}", self.times, inner.reason);
            }
            left -= plan.num_ids();
        }
        "it is in one of the repetitions".to_owned()
    }
}
