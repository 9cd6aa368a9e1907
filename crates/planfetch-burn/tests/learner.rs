//! burn's `SupervisedTraining` drives the loader: on one device and on several, and where a sample is broken.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use burn::data::dataloader::batcher::Batcher;
use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{Linear, LinearConfig};
use burn::optim::SgdConfig;
use burn::tensor::{Device, Tensor};
use burn::train::metric::LossMetric;
use burn::train::{
    ExecutionStrategy, InferenceStep, Learner, LearningResult, MultiDeviceOptim, RegressionOutput, SupervisedTraining,
    TrainOutput, TrainStep, TrainingStrategy,
};
use planfetch::prelude::*;
use planfetch_burn::{PlanController, PlanDataLoaderBuilder};

/// A line through numbers.
#[derive(Debug, Module)]
struct Line {
    linear: Linear,
}

impl Line {
    fn forward(&self, x: Tensor<2>) -> RegressionOutput {
        let (output, targets) = (self.linear.forward(x.clone()), x * 2.0);
        RegressionOutput::new(MseLoss::new().forward(output.clone(), targets.clone(), Reduction::Mean), output, targets)
    }
}

impl TrainStep for Line {
    type Input = Tensor<2>;
    type Output = RegressionOutput;

    fn step(&self, x: Tensor<2>) -> TrainOutput<RegressionOutput> {
        let output = self.forward(x);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Line {
    type Input = Tensor<2>;
    type Output = RegressionOutput;

    fn step(&self, x: Tensor<2>) -> RegressionOutput {
        self.forward(x)
    }
}

const LEN: u64 = 2_000;

/// The numbers from 0 on, of which one may be broken.
struct Numbers {
    broken: Option<u64>,
}

impl ObjectUris for Numbers {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Numbers {
    type Sample = u64;

    fn len(&self) -> u64 {
        LEN
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
        assert_ne!(self.broken, Some(ctx.id().0), "a decoder's panic");
        Ok(ctx.id().0)
    }
}

/// Takes note of the batches that it makes tensors of.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<Vec<u64>>>>);

impl Batcher<u64, Tensor<2>> for Noting {
    fn batch(&self, items: Vec<u64>, device: &Device) -> Tensor<2> {
        let values: Vec<f32> = items.iter().map(|&id| id as f32 / LEN as f32).collect();
        self.0.lock().unwrap().push(items);
        Tensor::<1>::from_data(values.as_slice(), device).unsqueeze_dim(1)
    }
}

/// Trains for two epochs, and returns the result and the batches that were trained on.
fn train(
    artifacts: &Path,
    broken: Option<u64>,
    strategy: ExecutionStrategy,
) -> (LearningResult<Line>, Vec<Vec<u64>>, PlanController) {
    let noting = Noting::default();
    let plan = ShuffleOncePerEpochPlanProvider::new(LEN, 50, 42).unwrap();
    let train = PlanDataLoaderBuilder::new(Numbers { broken }, plan).build_with_batcher(noting.clone()).unwrap();
    let plan = SequentialPlanProvider::new(LEN, 500).unwrap();
    let valid =
        PlanDataLoaderBuilder::new(Numbers { broken: None }, plan).build_with_batcher(Noting::default()).unwrap();
    let controller = train.controller();
    let device = Device::flex().autodiff();
    let line = Line { linear: LinearConfig::new(1, 1).init(&device) };
    let result = SupervisedTraining::new(artifacts, Arc::new(train), Arc::new(valid))
        .metrics((LossMetric::new(),))
        .with_application_logger(None)
        .with_training_strategy(TrainingStrategy::Default(strategy))
        .num_epochs(2)
        .launch(Learner::new(line, SgdConfig::new().init(), 0.1));
    let batches = noting.0.lock().unwrap().clone();
    (result, batches, controller)
}

/// The plan's batches of an epoch.
fn planned(epoch: u64) -> Vec<Vec<u64>> {
    let plan = ShuffleOncePerEpochPlanProvider::new(LEN, 50, 42).unwrap().plan(epoch).unwrap();
    let rows = (0..plan.num_batches()).map(|row| plan.batch(row).unwrap());
    rows.map(|batch| batch.to_vec().into_iter().map(|id| id.0).collect()).collect()
}

#[test]
fn two_devices_train_on_halves_of_each_batch_in_plan_order() {
    let dir = tempfile::tempdir().unwrap();
    let devices = vec![Device::flex(); 2];
    let strategy = ExecutionStrategy::multi(devices, MultiDeviceOptim::OptimMainDevice);
    let (result, batches, controller) = train(dir.path(), None, strategy);
    assert!(result.error.is_none());
    let expected: Vec<Vec<u64>> = [0, 1].into_iter().flat_map(planned).collect();
    let together: Vec<Vec<u64>> = batches.chunks(2).map(<[_]>::concat).collect();
    assert_eq!(together, expected);
    assert_eq!((controller.state().epoch(), controller.state().position()), (2, 0));
}

#[test]
fn a_broken_sample_stops_the_training_with_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let broken = planned(0)[7][3];
    let (result, batches, controller) = train(dir.path(), Some(broken), ExecutionStrategy::single(Device::flex()));
    let error = result.error.unwrap().to_string();
    assert!(error.contains(&format!("sample {broken}")) && error.contains("a decoder's panic"), "{error}");
    assert_eq!(batches, planned(0)[..7]);
    assert_eq!(controller.failed_samples().len(), 1);
}
