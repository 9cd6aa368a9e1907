//! The plans that are in use.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use planfetch_plan::{PlanProvider, PlanView};

use crate::error::{LoaderError, Panicked};

/// How many plans are kept: the reader's epoch, and the one that the window or the workers have gone on to.
const KEPT: usize = 2;

/// Makes each epoch's plan once, for all who need it.
#[derive(Debug)]
pub(crate) struct Plans {
    provider: Box<dyn PlanProvider>,
    recent: Mutex<Vec<(u64, PlanView)>>,
}

impl Plans {
    pub(crate) fn new(provider: Box<dyn PlanProvider>) -> Self {
        Self { provider, recent: Mutex::default() }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.provider.seed()
    }

    /// Returns the plan of `epoch`. Who asks while it is being made waits for it; no I/O is done meanwhile.
    pub(crate) fn get(&self, epoch: u64) -> Result<PlanView, LoaderError> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = recent.iter().find(|(of, _)| *of == epoch) {
            return Ok(plan.clone());
        }
        // A provider is user code: its panic must not end the thread that the reader waits for.
        let plan = catch_unwind(AssertUnwindSafe(|| self.provider.plan(epoch))).map_err(|panic| {
            LoaderError::Mismatch { problem: format!("no plan for epoch {epoch}: {}", Panicked::new(&*panic)) }
        })??;
        if recent.len() == KEPT {
            recent.remove(0);
        }
        recent.push((epoch, plan.clone()));
        Ok(plan)
    }
}
