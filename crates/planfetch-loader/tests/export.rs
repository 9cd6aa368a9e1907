//! What is behind features: numbers for exporters, and a progress bar.

#![cfg(all(feature = "metrics", feature = "indicatif"))]

use std::collections::BTreeMap;

use indicatif::{ProgressBar, ProgressDrawTarget};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use planfetch_loader::{
    BoxError, Dataset, LoaderBuilder, LoaderSettings, ObjectUris, OnError, SampleContext, VecCollate,
};
use planfetch_plan::{SampleId, SequentialPlanProvider};

/// Numbers, of which one is broken.
struct Numbers;

impl ObjectUris for Numbers {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Numbers {
    type Sample = u64;

    fn len(&self) -> u64 {
        20
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
        if ctx.id().0 == 5 { Err("five is broken".into()) } else { Ok(ctx.id().0) }
    }
}

#[test]
fn counters_and_bar_tell_what_the_loader_tells() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let settings = LoaderSettings { on_error: OnError::Skip, num_workers: 2, ..LoaderSettings::default() };
        let plan = SequentialPlanProvider::new(20, 4).unwrap();
        let (mut loader, controller) =
            LoaderBuilder::new(Numbers, VecCollate, plan).with_settings(settings).build().unwrap();
        loader.by_ref().take(2).for_each(|batch| drop(batch.unwrap()));
        controller.restore(&controller.state()).unwrap();
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        let mut epoch = loader.epoch(0).unwrap().with_progress(bar.clone()).unwrap();
        assert_eq!((bar.position(), bar.length()), (2, Some(5)));
        epoch.next().unwrap().unwrap();
        assert_eq!(bar.position(), 3);
        assert!(bar.message().starts_with("waited "));
        assert_eq!(epoch.by_ref().count(), 2);
        assert!(bar.is_finished() && epoch.next().is_none());
        let (stats, report) = (controller.stats(), controller.report());

        let mut counters = BTreeMap::new();
        let (mut waits, mut waited) = (0, 0);
        for (key, _, _, value) in snapshots.snapshot().into_vec() {
            match value {
                DebugValue::Counter(n) if key.key().name().ends_with("microseconds_total") => waited += n,
                DebugValue::Counter(n) => drop(counters.insert(key.key().name().to_owned(), n)),
                DebugValue::Histogram(values) => waits += values.len(),
                DebugValue::Gauge(_) => {}
            }
        }
        let expected = [
            ("planfetch_batches_total", stats.batches),
            ("planfetch_failed_samples_total", 1),
            ("planfetch_samples_total", 19),
        ];
        assert_eq!(counters, expected.map(|(name, n)| (name.to_owned(), n)).into());
        // Five batches and the end of the epoch.
        assert_eq!(waits, 6);
        assert!(
            u128::from(waited) <= report.waited.as_micros() && report.waited.as_micros() <= u128::from(waited) + 100
        );
    });
}
