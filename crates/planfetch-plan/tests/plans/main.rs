//! What plans keep to, through the public API.

mod chi_square;
mod classes;
mod cursor;
mod golden;
mod ranks;
mod saved;
mod statistics;
mod uniform;
mod weights;
mod world;
mod wrappers;

use planfetch_plan::{PlanProvider, PlanView};

/// Returns all ids in order.
fn flat(plan: &PlanView) -> Vec<u64> {
    plan.iter().flatten().map(|id| id.0).collect()
}

/// Returns the plan of `epoch`, having checked what every provider keeps to.
#[track_caller]
fn check(provider: &dyn PlanProvider, epoch: u64) -> PlanView {
    let plan = provider.plan(epoch).expect("settings that were accepted make plans");
    assert_eq!(plan.batch_size(), provider.batch_size());
    assert_eq!(plan.num_samples(), provider.num_samples());
    assert_eq!(plan, provider.plan(epoch).expect("a plan that could be made"), "the same input, the same plan");
    assert_eq!(provider.fingerprint(), provider.fingerprint());
    let mut num_ids = 0;
    for (step, batch) in plan.iter().enumerate() {
        assert!(!batch.is_empty());
        assert!(batch.len() == plan.batch_size() || step + 1 == plan.num_batches(), "only the last batch is short");
        num_ids += batch.len();
    }
    assert_eq!(num_ids, plan.num_ids());
    assert!(plan.iter().flatten().all(|id| id.0 < plan.num_samples()), "ids in range");
    assert!(plan.batch(plan.num_batches()).is_none());
    // Every id has a reason, which names the sample.
    for position in [0, plan.num_ids() / 2, plan.num_ids().saturating_sub(1)] {
        let explained = plan.explain(position);
        assert_eq!(explained.is_some(), position < plan.num_ids());
        if let Some(why) = explained {
            assert_eq!(plan.batch(why.step).and_then(|batch| batch.get(why.slot)), Some(why.sample));
            assert!(!why.reason.contains("keeps no reasons"));
        }
    }
    plan
}
