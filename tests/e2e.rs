//! From objects behind an S3 endpoint to batches in plan order.

use std::time::Duration;

use planfetch::index::read_index_csv;
use planfetch::prelude::*;
use planfetch_testkit::{Fault, FaultRule, S3Server, eventually, fixtures};

use crate::support::{Sums, open, planned, put_objects, temp_files};

#[test]
fn photographs_come_exactly_once_an_epoch_in_plan_order_and_each_is_downloaded_once() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 400);
    server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(30))));
    let index = read_index_csv(csv.as_bytes(), "photos.csv", &CsvSettings::default()).unwrap();
    let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 64, 7).unwrap();
    let images = ImageSettings { height: 64, width: 64, ..ImageSettings::default() };
    let cache = open(dir.path(), &server);
    let settings = LoaderSettings { num_epochs: Some(2), ..LoaderSettings::default() };
    let (mut loader, controller) = build_prefetching_loader(
        ImageDataset::new(index.clone(), images.clone()).unwrap(),
        ImageCollate::new(&images).unwrap(),
        provider.clone(),
        cache.clone(),
        settings,
    )
    .unwrap();
    for epoch in 0..2 {
        controller.set_epoch(epoch).unwrap();
        let mut ids = Vec::new();
        for batch in &mut loader {
            let batch = batch.unwrap();
            let n = batch.ids().len();
            assert_eq!((batch.images.shape(), batch.labels.shape()), (&[n, 3, 64, 64][..], &[n][..]));
            for (id, &label) in batch.ids().iter().zip(&batch.labels) {
                assert_eq!(index.label(id.index()).map(i64::from), Some(label));
            }
            assert!(batch.images.iter().all(|value| (0.0..=1.0).contains(value)));
            ids.push(batch.ids().to_vec());
        }
        assert_eq!(ids, planned(&provider, epoch));
    }
    let counts = server.counts();
    assert_eq!(counts.by_path.len(), 400);
    assert!(counts.by_path.values().all(|&n| n == 1), "{counts:?}");
    assert!(counts.most_at_once <= 64);
    assert!(temp_files(cache.dir()).is_empty());
}

#[test]
fn the_window_bounds_what_lies_on_disk() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 400);
    let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 8, 1).unwrap();
    let settings = LoaderSettings {
        batches_ahead: 5.into(),
        batches_back: 2,
        prune_every: 1,
        num_epochs: Some(2),
        ..LoaderSettings::default()
    };
    let cache = open(dir.path(), &server);
    let (mut loader, controller) =
        build_prefetching_loader(Sums(index), VecCollate, provider.clone(), cache.clone(), settings).unwrap();
    for epoch in 0..2 {
        controller.set_epoch(epoch).unwrap();
        let mut ids = Vec::new();
        for batch in &mut loader {
            ids.push(batch.unwrap().ids().to_vec());
            // Five batches ahead, two behind, and the one in hand. A loop that does not wait is ahead of whoever deletes.
            eventually("what has left the window is deleted", || cache.stats().local_files <= 8 * (5 + 2 + 1));
        }
        assert_eq!(ids, planned(&provider, epoch));
    }
    // Each epoch downloads what has left the window since: no object twice within an epoch.
    assert!(server.counts().by_path.values().all(|&n| n <= 2), "{:?}", server.counts());
    let downloaded = cache.stats().objects_downloaded;
    assert!((400..=800).contains(&downloaded), "{downloaded}");
}

#[test]
fn an_epoch_goes_on_into_the_next_without_a_pause_for_the_store() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 64);
    let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 8, 1).unwrap();
    // One batch is made ahead, so what lies behind that is asked for by the window alone.
    let settings = LoaderSettings {
        prefetch_factor: 1,
        batches_ahead: 3.into(),
        batches_back: 0,
        prune_every: 1,
        ..LoaderSettings::default()
    };
    let cache = open(dir.path(), &server);
    let (mut loader, controller) =
        build_prefetching_loader(Sums(index), VecCollate, provider.clone(), cache.clone(), settings).unwrap();
    for epoch in 0..3 {
        // Without set_epoch: the loader goes on by itself, in the order of the next epoch.
        assert_eq!((controller.epoch(), controller.step()), (epoch, 0));
        let mut ids: Vec<_> = loader.by_ref().take(7).map(|batch| batch.unwrap().ids().to_vec()).collect();
        // The last batch is ready and not taken: the window reaches into the first two of the next epoch.
        let next = provider.plan(epoch + 1).unwrap();
        let first: Vec<SampleId> = (0..2).flat_map(|step| next.batch(step).unwrap().to_vec()).collect();
        let local = || first.iter().all(|id| cache.contains(&format!("s3://objects/{:02}/{:05}.bin", id.0 % 7, id.0)));
        eventually(&format!("what comes first in epoch {} is local", epoch + 1), local);
        ids.extend((&mut loader).map(|batch| batch.unwrap().ids().to_vec()));
        assert_eq!(ids, planned(&provider, epoch));
    }
}

#[test]
fn set_epoch_goes_to_any_epoch_at_any_time() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 60);
    let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 8, 1).unwrap();
    let cache = open(dir.path(), &server);
    let (mut loader, controller) =
        build_prefetching_loader(Sums(index), VecCollate, provider.clone(), cache, LoaderSettings::default()).unwrap();
    for (epoch, take) in [(5, 3), (5, 100), (0, 1), (9, 0), (2, 8), (3, 100), (3, 100)] {
        controller.set_epoch(epoch).unwrap();
        let ids: Vec<_> = (&mut loader).take(take).map(|batch| batch.unwrap().ids().to_vec()).collect();
        let expected = planned(&provider, epoch);
        assert_eq!(ids, expected[..take.min(expected.len())], "epoch {epoch}");
    }
    // A loop that was left early goes on where it was left.
    controller.set_epoch(1).unwrap();
    let mut ids: Vec<_> = (&mut loader).take(2).map(|batch| batch.unwrap().ids().to_vec()).collect();
    assert_eq!((controller.epoch(), controller.step()), (1, 2));
    ids.extend((&mut loader).map(|batch| batch.unwrap().ids().to_vec()));
    assert_eq!(ids, planned(&provider, 1));
}

#[test]
fn data_of_any_size_is_delivered() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let cache = open(dir.path(), &server);
    let index = put_objects(&server, 10);
    for n in [0, 1, 7, 10] {
        for batch_size in [1, 3, 10, 1_000] {
            for num_workers in [0, 2] {
                let index = index.select(0..n);
                let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), batch_size, 1).unwrap();
                let settings = LoaderSettings { num_workers, ..LoaderSettings::default() };
                let (mut loader, _) =
                    build_prefetching_loader(Sums(index), VecCollate, provider.clone(), cache.clone(), settings)
                        .unwrap();
                for epoch in 0..3 {
                    let ids: Vec<_> = (&mut loader).map(|batch| batch.unwrap().ids().to_vec()).collect();
                    assert_eq!(ids, planned(&provider, epoch), "{n} samples, batches of {batch_size}");
                }
            }
        }
    }
}

#[test]
fn nothing_comes_beyond_the_announced_epochs() {
    for num_workers in [0, 2] {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
        let index = put_objects(&server, 20);
        let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 8, 1).unwrap();
        let settings = LoaderSettings { num_workers, num_epochs: Some(1), ..LoaderSettings::default() };
        let cache = open(dir.path(), &server);
        let (mut loader, controller) =
            build_prefetching_loader(Sums(index), VecCollate, provider.clone(), cache, settings).unwrap();
        assert_eq!((&mut loader).count(), 3);
        assert_eq!((&mut loader).count(), 0);
        assert_eq!(server.counts().requests, 20);
        // Who goes there by itself gets it all the same.
        for epoch in [1, 2, 4] {
            controller.set_epoch(epoch).unwrap();
            let ids: Vec<_> = (&mut loader).map(|batch| batch.unwrap().ids().to_vec()).collect();
            assert_eq!(ids, planned(&provider, epoch));
            assert_eq!((&mut loader).count(), 0);
        }
    }
}

#[test]
fn batches_that_were_dropped_give_their_memory_to_later_ones() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let csv = fixtures::put_photographs(&server, "photos", 40);
    let index = read_index_csv(csv.as_bytes(), "photos.csv", &CsvSettings::default()).unwrap();
    let images = ImageSettings { height: 64, width: 64, ..ImageSettings::default() };
    let plan = SequentialPlanProvider::new(index.len(), 8).unwrap();
    let (mut loader, _) = build_prefetching_loader(
        ImageDataset::new(index, images.clone()).unwrap(),
        ImageCollate::new(&images).unwrap(),
        plan,
        open(dir.path(), &server),
        LoaderSettings { prefetch_factor: 3, ..LoaderSettings::default() },
    )
    .unwrap();
    let mut addresses = std::collections::BTreeSet::new();
    let mut first = None;
    for epoch in 0..6 {
        for batch in &mut loader {
            let batch = batch.unwrap();
            addresses.insert(batch.images.as_ptr() as usize);
            // What is in the memory is the batch, and not what was there before.
            if batch.step() == 0 {
                let images = first.get_or_insert_with(|| batch.images.clone());
                assert_eq!(*images, batch.images, "epoch {epoch}");
            }
        }
    }
    // Three in the making or ready, one in the loop's hand, and one on its way back.
    assert!(addresses.len() <= 5, "{} buffers for 30 batches", addresses.len());
}

#[test]
fn a_loop_that_counts_its_steps_loses_nothing_that_was_made_ahead() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 40);
    let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 8, 1).unwrap();
    let cache = open(dir.path(), &server);
    let (mut loader, controller) =
        build_prefetching_loader(Sums(index), VecCollate, provider.clone(), cache, LoaderSettings::default()).unwrap();
    for epoch in 0..5 {
        controller.set_epoch(epoch).unwrap();
        // Exactly the batches of the epoch: its end is never asked for.
        let ids: Vec<_> = (&mut loader).take(5).map(|batch| batch.unwrap().ids().to_vec()).collect();
        assert_eq!(ids, planned(&provider, epoch));
    }
}

#[test]
fn an_index_in_the_store_is_the_one_that_lies_there_now() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let cache = open(dir.path(), &server);
    for label in [1, 2] {
        server.put("data", "train.csv", format!("s3_uri,label\ns3://data/k,{label}\n").as_bytes());
        let index = load_index("s3://data/train.csv", &CsvSettings::default(), &cache).unwrap();
        assert_eq!(index.labels(), [label]);
    }
}
