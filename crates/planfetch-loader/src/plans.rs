//! The plans that are in use.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use planfetch_plan::{Cursor, PlanProvider, RankPlan, RemainderPolicy, RestoreError, World};

use crate::error::{LoaderError, Panicked};
use crate::schedule::Place;

/// How many plans are kept: the reader's epoch, and the one that the window or the workers have gone on to.
const KEPT: usize = 2;

/// Makes each epoch's plan once, for all who need it.
#[derive(Debug)]
pub(crate) struct Plans {
    provider: Box<dyn PlanProvider>,
    world: World,
    policy: RemainderPolicy,
    /// The beginning of epoch 0: a fingerprint may take a while, so it is made once.
    start: Cursor,
    recent: Mutex<Vec<(u64, RankPlan)>>,
}

impl Plans {
    pub(crate) fn new(provider: Box<dyn PlanProvider>, world: World, policy: RemainderPolicy) -> Self {
        let start = Cursor {
            version: Cursor::VERSION,
            epoch: 0,
            position: 0,
            fingerprint: provider.fingerprint(),
            seed: provider.seed(),
            num_samples: provider.num_samples(),
        };
        Self { provider, world, policy, start, recent: Mutex::default() }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.start.seed
    }

    pub(crate) fn batch_size(&self) -> usize {
        self.provider.batch_size()
    }

    pub(crate) fn world(&self) -> World {
        self.world
    }

    pub(crate) fn cursor(&self, epoch: u64, position: u64) -> Cursor {
        Cursor { epoch, position, ..self.start.clone() }
    }

    /// Returns the place that a cursor stands for.
    pub(crate) fn place_of(&self, cursor: &Cursor) -> Result<Place, LoaderError> {
        cursor.check(&*self.provider)?;
        let plan = self.get(cursor.epoch)?;
        let (num_ids, batch_size) = (plan.plan().num_ids(), plan.plan().batch_size());
        let position = usize::try_from(cursor.position).ok().filter(|&position| position <= num_ids);
        // OK because an index fits in 64 bits.
        let position = position
            .ok_or(RestoreError::Position { position: cursor.position, num_ids: num_ids as u64 })
            .map_err(LoaderError::from)?;
        let step = if position == num_ids { plan.plan().num_batches() } else { position / batch_size };
        Ok(Place { epoch: cursor.epoch, step, position }.settled(&plan))
    }

    /// Returns this rank's plan of `epoch`. Who asks while it is being made waits for it; no I/O is done meanwhile.
    pub(crate) fn get(&self, epoch: u64) -> Result<RankPlan, LoaderError> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = recent.iter().find(|(of, _)| *of == epoch) {
            return Ok(plan.clone());
        }
        // A provider is user code: its panic must not end the thread that the reader waits for.
        let plan = catch_unwind(AssertUnwindSafe(|| self.provider.plan(epoch))).map_err(|panic| {
            LoaderError::Mismatch { problem: format!("no plan for epoch {epoch}: {}", Panicked::new(&*panic)) }
        })??;
        let plan = plan.for_rank(self.world, self.policy)?;
        if recent.len() == KEPT {
            recent.remove(0);
        }
        recent.push((epoch, plan.clone()));
        Ok(plan)
    }
}
