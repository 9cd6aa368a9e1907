//! Why a sample is where it is.

use std::fmt;

use crate::id::SampleId;
use crate::view::PlanView;

impl PlanView {
    /// Says why the sample at `position` is where it is, or returns `None` where the plan does not reach.
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{PlanProvider, SequentialPlanProvider};
    ///
    /// let plan = SequentialPlanProvider::new(10, 4)?.plan(0)?;
    /// assert_eq!(
    ///     plan.explain(9).expect("within the plan").to_string(),
    ///     "sample 9 is in slot 1 of step 2: samples come in the order of the index"
    /// );
    /// # Ok::<(), planfetch_plan::PlanError>(())
    /// ```
    #[must_use]
    pub fn explain(&self, position: usize) -> Option<Explanation> {
        if self.num_ids() <= position {
            return None;
        }
        let sample = self.rows.at(position);
        let (step, slot) = (position / self.batch_size, position % self.batch_size);
        let reason = match &self.provenance {
            Some(provenance) => provenance.reason(position, sample),
            None => "its provider put it there and keeps no reasons".to_owned(),
        };
        Some(Explanation { sample, position, step, slot, reason })
    }
}

/// Knows the reasons of a plan. Attached by [`PlanView::with_provenance`](crate::PlanView::with_provenance).
///
/// It is asked for one id at a time and rarely, by a person who looks for a mistake, so it may compute what it needs.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use planfetch_plan::{PlanView, Provenance, SampleId};
///
/// #[derive(Debug)]
/// struct ByHand;
///
/// impl Provenance for ByHand {
///     fn reason(&self, position: usize, _sample: SampleId) -> String {
///         format!("line {} of the list says so", position + 1)
///     }
/// }
///
/// let plan = PlanView::from_ids([3, 1], 2, 4)?.with_provenance(Arc::new(ByHand));
/// assert_eq!(plan.explain(1).expect("within the plan").reason, "line 2 of the list says so");
/// # Ok::<(), planfetch_plan::PlanError>(())
/// ```
pub trait Provenance: fmt::Debug + Send + Sync {
    /// Returns why `sample` is at `position`: a clause without capital and stop.
    fn reason(&self, position: usize, sample: SampleId) -> String;
}

/// Why a sample is where it is. Made by [`PlanView::explain`](crate::PlanView::explain); prints as one sentence.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The sample.
    pub sample: SampleId,
    /// Its place in the rows laid end to end.
    pub position: usize,
    /// The row.
    pub step: usize,
    /// The column.
    pub slot: usize,
    /// The provider's reason.
    pub reason: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sample {} is in slot {} of step {}: {}", self.sample, self.slot, self.step, self.reason)
    }
}

/// One reason for a whole plan.
#[derive(Debug)]
pub(crate) struct OneReason(pub(crate) String);

impl Provenance for OneReason {
    fn reason(&self, _position: usize, _sample: SampleId) -> String {
        self.0.clone()
    }
}
