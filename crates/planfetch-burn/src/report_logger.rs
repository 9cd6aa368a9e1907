//! The loader's report in the log of a training.

use burn::train::logger::TrainingProgressLogger;

use crate::controller::PlanController;

/// Writes what the training waited for into the log, as burn's `Learner` ends each epoch.
///
/// It takes burn's place for a [`TrainingProgressLogger`]: burn's `SupervisedTraining` writes what is logged into
/// `experiment.log`, unless it is told another logger. The target is `planfetch::report`, the level `INFO`.
///
/// # Example
///
/// ```no_run
/// use burn::train::{LearnerModel, SupervisedTraining};
/// use planfetch_burn::{PlanController, ReportLogger};
///
/// # fn f<M: LearnerModel>(training: SupervisedTraining<M>, controller: PlanController) -> SupervisedTraining<M> {
/// training.with_progress_logger(ReportLogger::new(controller))
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReportLogger {
    controller: PlanController,
}

impl ReportLogger {
    /// Makes a logger of what `controller` reports.
    #[must_use]
    pub fn new(controller: PlanController) -> Self {
        Self { controller }
    }
}

impl TrainingProgressLogger for ReportLogger {
    fn start(&mut self, _epochs: usize, _starting_epoch: usize, _items: Option<usize>, _label: Option<&str>) {}

    fn update_epoch(&mut self, epoch: usize) {
        let report = self.controller.report();
        tracing::info!(target: "planfetch::report", epoch, "{report}");
    }

    fn start_split(&mut self, _split: &str, _items: usize) {}

    fn update_split(&mut self, _items: usize) {}

    fn end_split(&mut self) {}

    fn end(&mut self) {}

    fn log_event_training(&mut self, _event: String) {}
}
