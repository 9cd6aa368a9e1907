//! Stopping and going on.

use planfetch_plan::{
    Cursor, PlanBatchSampler, PlanProvider, RemainderPolicy, RestoreError, SequentialPlanProvider,
    ShuffleOncePerEpochPlanProvider, StreamingStratifiedBatchPlanProvider, World,
};
use proptest::prelude::*;

use crate::flat;

fn shuffle(n: u64, batch_size: usize, seed: u64) -> ShuffleOncePerEpochPlanProvider {
    ShuffleOncePerEpochPlanProvider::new(n, batch_size, seed).expect("valid settings")
}

/// Takes up to `steps` steps on every rank, checks that all have the same cursor, and returns what they saw by position.
fn train(
    provider: &dyn PlanProvider,
    cursor: Option<&Cursor>,
    world_size: u32,
    steps: usize,
) -> (Vec<(usize, u64)>, Cursor) {
    let mut seen = Vec::new();
    let mut cursors = Vec::new();
    for rank in 0..world_size {
        let sampler = match cursor {
            Some(cursor) => PlanBatchSampler::restore(provider, cursor).expect("the cursor of this order"),
            None => PlanBatchSampler::new(provider, 1).expect("valid settings"),
        };
        let mut sampler =
            sampler.with_world(World { rank, world_size }, RemainderPolicy::Keep).expect("a rank of its world");
        for batch in sampler.by_ref().take(steps) {
            seen.extend(batch.iter().map(|slot| (slot.position, slot.sample.0)));
        }
        cursors.push(sampler.cursor());
    }
    assert!(cursors.iter().all(|cursor| *cursor == cursors[0]), "every rank has the same cursor");
    seen.sort_unstable();
    (seen, cursors.swap_remove(0))
}

proptest! {
    #[test]
    fn a_run_that_changes_ranks_and_batches_at_every_stop_sees_every_sample_once(
        n in 0_u64..200,
        legs in proptest::collection::vec((1_u32..9, 1_usize..40, 0_usize..6), 1..8),
        lazy: bool,
    ) {
        let provider = |batch_size| shuffle(n, batch_size, 7).with_lazy(lazy);
        let mut all = Vec::new();
        let mut cursor = None;
        for (world_size, batch_size, steps) in legs {
            let (seen, next) = train(&provider(batch_size), cursor.as_ref(), world_size, steps);
            all.extend(seen);
            cursor = Some(next);
        }
        all.extend(train(&provider(16), cursor.as_ref(), 3, usize::MAX).0);
        let expected: Vec<(usize, u64)> = flat(&provider(5).plan(1).unwrap()).into_iter().enumerate().collect();
        prop_assert_eq!(all, expected);
    }

    #[test]
    fn seeking_is_walking(n in 0_u64..100, batch_size in 1_usize..20, step in 0_usize..120) {
        let provider = shuffle(n, batch_size, 7);
        let mut walked = PlanBatchSampler::new(&provider, 0).unwrap();
        walked.by_ref().take(step).for_each(drop);
        let mut sought = PlanBatchSampler::new(&provider, 0).unwrap();
        sought.next();
        sought.seek(step);
        prop_assert_eq!(walked.cursor(), sought.cursor());
        prop_assert_eq!(walked.step(), sought.step());
        prop_assert_eq!(sought.step(), step.min(sought.plan().num_batches()));
        let (low, high) = sought.size_hint();
        let left = sought.count();
        prop_assert!(low <= left && Some(left) <= high);
        prop_assert_eq!(walked.count(), left);
    }
}

#[test]
fn every_batch_of_an_epoch_can_be_the_last_before_a_stop() {
    let provider = shuffle(50, 8, 1);
    let whole: Vec<_> = PlanBatchSampler::new(&provider, 2).unwrap().map(|batch| batch.to_vec()).collect();
    for stop in 0..=whole.len() {
        let mut sampler = PlanBatchSampler::new(&provider, 2).unwrap();
        sampler.by_ref().take(stop).for_each(drop);
        assert_eq!(sampler.cursor().step(8), stop as u64);
        let mut restored = PlanBatchSampler::restore(&provider, &sampler.cursor()).unwrap();
        assert_eq!(restored.cursor(), sampler.cursor());
        assert!(restored.by_ref().map(|batch| batch.to_vec()).eq(whole[stop..].iter().cloned()));
        // The next epoch is a whole one.
        restored.set_epoch(&provider, 3).unwrap();
        assert_eq!(restored.count(), whole.len());
    }
}

#[test]
fn restoring_with_another_order_is_an_error_that_says_what_differs() {
    let provider = shuffle(100, 8, 42);
    let mut sampler = PlanBatchSampler::new(&provider, 0).unwrap();
    sampler.next();
    let cursor = sampler.cursor();
    let error = |other: &dyn PlanProvider| {
        PlanBatchSampler::restore(other, &cursor).map(drop).expect_err("another order").to_string()
    };
    assert_eq!(
        error(&shuffle(101, 8, 42)),
        "the cursor belongs to a data set of 100 samples, but the provider's has 101"
    );
    assert_eq!(error(&shuffle(100, 8, 43)), "the cursor belongs to seed 42, but the provider has seed 43");
    assert_eq!(
        error(&SequentialPlanProvider::new(100, 8).unwrap().with_seed(42)),
        "the cursor belongs to a shuffle-once-per-epoch provider, but this is a sequential provider"
    );
    assert_eq!(
        error(&shuffle(100, 8, 42).with_lazy(true)),
        "the cursor belongs to a shuffle-once-per-epoch provider, but this is a lazy-shuffle-once-per-epoch provider"
    );
    assert!(error(&shuffle(100, 8, 42).with_drop_last(true)).contains("same kind of provider with other settings"));

    // The order of strata depends on the batch size and the labels.
    let labels: Vec<u32> = (0..100).map(|sample| sample % 3).collect();
    let stratified =
        |labels: &[u32], batch_size| StreamingStratifiedBatchPlanProvider::new(labels, 3, batch_size, 42).unwrap();
    let cursor = PlanBatchSampler::new(&stratified(&labels, 8), 0).unwrap().cursor();
    assert!(cursor.check(&stratified(&labels, 8)).is_ok());
    assert!(matches!(cursor.check(&stratified(&labels, 9)), Err(RestoreError::Settings { .. })));
    let mut other = labels.clone();
    other.swap(0, 1);
    assert!(matches!(cursor.check(&stratified(&other, 8)), Err(RestoreError::Settings { .. })));
}

#[test]
fn a_cursor_from_elsewhere_is_an_error() {
    let provider = shuffle(100, 8, 42);
    let good = PlanBatchSampler::new(&provider, 0).unwrap().cursor();
    let newer = Cursor { version: 2, ..good.clone() };
    assert_eq!(PlanBatchSampler::restore(&provider, &newer).map(drop), Err(RestoreError::Version { found: 2 }));
    let beyond = Cursor { position: 101, ..good };
    let error = PlanBatchSampler::restore(&provider, &beyond).map(drop);
    assert_eq!(error, Err(RestoreError::Position { position: 101, num_ids: 100 }));
}

#[test]
fn a_plan_that_was_loaded_takes_the_place_of_one_that_is_made() {
    let provider = shuffle(100, 8, 42);
    let mut made = PlanBatchSampler::new(&provider, 0).unwrap();
    let mut given = made.clone();
    made.set_epoch(&provider, 5).unwrap();
    given.set_plan(5, provider.plan(5).unwrap().to_dense().unwrap()).unwrap();
    assert_eq!(made.cursor(), given.cursor());
    assert!(made.map(|batch| batch.to_vec()).eq(given.map(|batch| batch.to_vec())));
}

#[cfg(feature = "serde")]
#[test]
fn a_cursor_is_the_same_after_a_checkpoint_and_its_text_never_changes() {
    let mut sampler = PlanBatchSampler::new(&shuffle(100, 8, 42), 3).unwrap();
    sampler.seek(2);
    let text = serde_json::to_string(&sampler.cursor()).unwrap();
    // A golden text: cursors in checkpoints must stay readable. To change the record, raise `Cursor::VERSION`.
    assert_eq!(
        text,
        "{\"version\":1,\"epoch\":3,\"position\":16,\
         \"fingerprint\":\"shuffle-once-per-epoch/5481c991f60e9f76f18bfcce19316f95\",\"seed\":42,\"num_samples\":100}"
    );
    assert_eq!(serde_json::from_str::<Cursor>(&text).unwrap(), sampler.cursor());
    for wrong in [text.replace("shuffle-once-per-epoch/", ""), text.replace("16", "-1"), text.replace("seed", "sead")] {
        assert!(serde_json::from_str::<Cursor>(&wrong).is_err());
    }
}
