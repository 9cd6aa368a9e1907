//! The next batch on its way to a device while the loop computes with the one before.

use planfetch::prelude::*;
use tch::{Cuda, Device};

use crate::foreign::{Copied, Copying, Lane, Shared, Stream, copy};
use crate::to_tensors::ToTensors;
use crate::transfer::Transfer;

/// One batch that is copied ahead. It is not taken from the loader before its turn, so where the run stands is not
/// touched.
#[derive(Default)]
pub(crate) struct Ahead {
    lane: Option<Lane>,
    begun: Option<Begun>,
}

/// A batch that is being copied, and what names its content.
struct Begun {
    epoch: u64,
    step: usize,
    ids: Vec<SampleId>,
    copied: Copied,
}

impl Ahead {
    /// Makes ready to copy to where `transfer` says. To the CPU, nothing is copied.
    pub(crate) fn prepare(&mut self, transfer: &Transfer) {
        self.begun = None;
        #[cfg(test)]
        if let Some(Lane::Host) = self.lane {
            return;
        }
        let Device::Cuda(index) = transfer.device else {
            self.lane = None;
            return;
        };
        let is_pinned = transfer.pin_memory.unwrap_or(true) && Cuda::is_available();
        // OK because without it batches are copied when their turn comes.
        self.lane = Stream::new(index).ok().map(|stream| Lane::Stream { stream, device: transfer.device, is_pinned });
    }

    /// Begins to copy the batch that comes next, if it is ready.
    pub(crate) fn begin<B: ToTensors>(&mut self, loader: &mut PrefetchingLoader<B>) {
        self.begun = None;
        let Some(lane) = &self.lane else { return };
        let begun = loader.peek_ready(|batch| {
            let (epoch, step, ids) = (batch.epoch(), batch.step(), batch.ids().to_vec());
            // What is wrong with it is said when its turn comes.
            let copied = copy(&mut **batch, lane, |batch, arrays| batch.lend(arrays)).ok()?;
            Some(Begun { epoch, step, ids, copied })
        });
        self.begun = begun.flatten();
    }

    /// Returns the tensors of `batch` on the device, if they were begun; `None` where something else was.
    pub(crate) fn take<B>(&mut self, batch: &Batch<B>) -> Option<Result<Shared, BoxError>> {
        let begun = self.begun.take()?;
        let is_this = (begun.epoch, begun.step) == (batch.epoch(), batch.step()) && begun.ids == batch.ids();
        is_this.then(|| {
            let Copied { copies, roles, names } = begun.copied;
            let tensors = copies.into_iter().map(Copying::tensor).collect::<Result<_, _>>()?;
            Ok(Shared { tensors, roles, names })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use planfetch::image::ndarray::{Array1, ArrayD};
    use tch::Tensor;

    use super::*;
    use crate::{TchLoader, TchLoaderBuilder};

    const WIDTH: usize = 5_000;

    /// Rows of their id.
    struct Rows;

    impl ObjectUris for Rows {
        fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
            false
        }
    }

    impl Dataset for Rows {
        type Sample = Array1<f32>;

        fn len(&self) -> u64 {
            40
        }

        fn get(&self, ctx: &mut SampleContext<'_>) -> Result<Array1<f32>, BoxError> {
            Ok(Array1::from_elem(WIDTH, ctx.id().0 as f32))
        }
    }

    fn loader(lane: Option<Lane>) -> TchLoader<ArrayD<f32>> {
        let plan = ShuffleOncePerEpochPlanProvider::new(40, 4, 42).unwrap();
        let mut loader = TchLoaderBuilder::new(Rows, plan).build(StackCollate::<f32>::new([WIDTH])).unwrap();
        loader.ahead.lane = lane;
        loader
    }

    fn ids(tensor: &Tensor) -> Vec<f32> {
        let first = tensor.select(1, 0);
        assert!(bool::try_from(tensor.eq_tensor(&first.unsqueeze(1)).all()).unwrap(), "a row is torn");
        Vec::try_from(first).unwrap()
    }

    /// Looks until the next batch was begun.
    fn begin(loader: &mut TchLoader<ArrayD<f32>>) {
        let started = Instant::now();
        while loader.ahead.begun.is_none() {
            assert!(started.elapsed() < Duration::from_secs(30), "nothing becomes ready");
            loader.ahead.begin(&mut loader.loader);
        }
    }

    #[test]
    fn batches_that_are_copied_ahead_are_the_same_and_so_is_where_the_run_stands() {
        let (mut plain, mut ahead) = (loader(None), loader(Some(Lane::Host)));
        let mut kept = Vec::new();
        for _ in 0..3 {
            let expected: Vec<_> = plain.iter().unwrap().map(|tensor| ids(&tensor.unwrap())).collect();
            for (step, expected) in expected.into_iter().enumerate() {
                begin(&mut ahead);
                assert_eq!(ahead.state().position(), step as u64 * 4);
                let tensor = ahead.next_batch().unwrap().unwrap().tensors;
                kept.push((expected, tensor));
            }
            assert!(ahead.next_batch().is_none());
        }
        // What was made of one batch is not touched by the next ones.
        kept.iter().for_each(|(expected, tensor)| assert_eq!(ids(tensor), *expected));
    }

    #[test]
    fn what_was_copied_for_another_place_is_not_given() {
        let mut ahead = loader(Some(Lane::Host));
        let start = ahead.state();
        let first = ids(&ahead.next_batch().unwrap().unwrap().tensors);
        begin(&mut ahead);
        ahead.controller().restore(&start).unwrap();
        assert_eq!(ids(&ahead.next_batch().unwrap().unwrap().tensors), first);
        begin(&mut ahead);
        let mut epoch = ahead.epoch(1).unwrap();
        let other = ids(&epoch.next().unwrap().unwrap());
        assert_eq!(other, ids(&loader(None).epoch(1).unwrap().next().unwrap().unwrap()));
    }
}
