//! What the tests share.

use std::collections::BTreeSet;

use planfetch_loader::{
    Batch, BoxError, Dataset, LoaderBuilder, LoaderSettings, LoaderState, ObjectUris, PrefetchingLoader, SampleContext,
    VecCollate,
};
use planfetch_plan::{PlanProvider, RemainderPolicy, SampleId, World};

/// What a sample of [`Numbers`] is: its id and its position in the epoch, and a random number of its own.
pub(crate) type Number = (u64, u64, u32);

/// Samples that are computed; some of them fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) n: u64,
    pub(crate) errors: BTreeSet<u64>,
    pub(crate) panics: BTreeSet<u64>,
}

impl Numbers {
    pub(crate) fn new(n: u64) -> Self {
        Self { n, ..Self::default() }
    }
}

impl ObjectUris for Numbers {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Numbers {
    type Sample = Number;

    fn len(&self) -> u64 {
        self.n
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<Number, BoxError> {
        use planfetch_loader::rand_chacha::rand_core::Rng;
        let id = ctx.id().0;
        assert!(!self.panics.contains(&id), "sample {id} is unlucky");
        if self.errors.contains(&id) {
            return Err(format!("sample {id} is broken").into());
        }
        Ok((id, ctx.position(), ctx.rng().next_u32()))
    }
}

pub(crate) type Loader = PrefetchingLoader<Vec<Number>>;

pub(crate) fn settings(num_workers: usize) -> LoaderSettings {
    LoaderSettings { num_workers, ..LoaderSettings::default() }
}

pub(crate) fn load(
    dataset: &Numbers,
    provider: &(impl PlanProvider + Clone + 'static),
    settings: LoaderSettings,
) -> Loader {
    LoaderBuilder::new(dataset.clone(), VecCollate, provider.clone()).with_settings(settings).build().unwrap().0
}

/// A loader of one rank that goes on from `state`.
pub(crate) fn load_rank(
    dataset: &Numbers,
    provider: &(impl PlanProvider + Clone + 'static),
    settings: LoaderSettings,
    world: World,
    policy: RemainderPolicy,
    state: Option<&LoaderState>,
) -> Loader {
    let builder = LoaderBuilder::new(dataset.clone(), VecCollate, provider.clone());
    let builder = builder.with_settings(settings).with_world(world, policy);
    state.iter().fold(builder, |builder, state| builder.with_state(state)).build().unwrap().0
}

/// What of a batch must not depend on anything but the plan.
pub(crate) type Contents = (u64, usize, Vec<SampleId>, Vec<Number>);

pub(crate) fn contents(batch: Batch<Vec<Number>>) -> Contents {
    (batch.epoch(), batch.step(), batch.ids().to_vec(), batch.clone())
}

/// The batches up to the next end of an epoch.
pub(crate) fn rest(loader: &mut Loader) -> Vec<Contents> {
    loader.map(|batch| contents(batch.unwrap())).collect()
}
