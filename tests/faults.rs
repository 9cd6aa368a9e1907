//! What goes wrong on the way to a batch is said with the sample's URI, hangs nothing and leaves nothing behind.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use planfetch::index::read_index_csv;
use planfetch::prelude::*;
use planfetch_testkit::{Fault, FaultRule, S3Server, fixtures};

use crate::support::{Sums, open, planned, put_objects, store_settings, temp_files};

/// Runs a loader into its first error, and checks that it ends there, cleanly.
#[track_caller]
fn first_error<D: Dataset>(dataset: D, cache: DiskCache, num_workers: usize) -> LoaderError
where
    D::Sample: Send + 'static,
{
    let started = Instant::now();
    let plan = SequentialPlanProvider::new(dataset.len(), 4).unwrap();
    let settings = LoaderSettings { num_workers, ..LoaderSettings::default() };
    let (mut loader, controller) =
        build_prefetching_loader(dataset, VecCollate, plan, cache.clone(), settings).unwrap();
    let error = loader.find_map(Result::err).expect("something is wrong with the data");
    // The position stays at the batch that failed, and the error comes once.
    let position = (controller.epoch(), controller.step());
    assert!(loader.next().is_none());
    assert!(loader.next().is_none());
    assert_eq!((controller.epoch(), controller.step()), position);
    drop(loader);
    // Other objects of the batch may be on their way to the disk; the cache waits for them when it ends.
    let cache_dir = cache.dir().to_path_buf();
    drop(cache);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(temp_files(&cache_dir).is_empty());
    error
}

fn index(rows: &[&str]) -> SampleIndex {
    SampleIndex::from_rows(rows.iter().map(|uri| (uri, 0))).unwrap()
}

#[test]
fn a_missing_object_is_an_error_that_names_sample_and_uri() {
    for num_workers in [0, 2] {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
        put_objects(&server, 10);
        let rows = ["s3://objects/00/00000.bin", "s3://objects/01/00001.bin", "s3://objects/gone.bin"];
        let error = first_error(Sums(index(&rows)), open(dir.path(), &server), num_workers);
        assert_eq!(
            error.to_string(),
            "can't load sample 2 (epoch 0, step 0, slot 2): s3://objects/gone.bin: there is no object with this key; \
             check the index against the store"
        );
    }
}

#[test]
fn a_missing_bucket_is_named() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start_in_memory());
    let error = first_error(Sums(index(&["s3://no-such-bucket/k"])), open(dir.path(), &server), 2);
    assert!(error.to_string().contains("there is no bucket s3://no-such-bucket"), "{error}");
}

#[test]
fn wrong_credentials_are_named() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    put_objects(&server, 1);
    let settings = StoreSettings { secret_access_key: Some("wrong".into()), ..store_settings(&server) };
    let cache = DiskCache::builder(dir.path().join("cache")).with_store_settings(settings).build().unwrap();
    let error = first_error(Sums(index(&["s3://objects/00/00000.bin"])), cache, 2);
    assert!(error.to_string().contains("s3://objects/00/00000.bin: the store refuses the credentials"), "{error}");
}

#[test]
fn an_endpoint_that_refuses_connections_is_named() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = StoreSettings { endpoint: Some(format!("http://127.0.0.1:{port}")), ..store_settings(&server) };
    let cache = DiskCache::builder(dir.path().join("cache")).with_store_settings(settings).build().unwrap();
    let error = first_error(Sums(index(&["s3://objects/k"])), cache, 2);
    assert!(error.to_string().contains("s3://objects/k: can't be downloaded after 6 attempts"), "{error}");
}

#[test]
fn a_scheme_that_no_store_serves_is_named() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let error = first_error(Sums(index(&["gopher://hole/k"])), open(dir.path(), &server), 2);
    assert!(error.to_string().contains("\"gopher://hole/k\": no store for gopher://hole"), "{error}");
}

#[test]
fn a_file_that_is_no_image_is_named() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let jpeg = fixtures::jpeg(&fixtures::photograph(100, 80, 1));
    let bad: [(&str, &[u8], &str); 4] = [
        (
            "web.jpg",
            b"<html>404</html>",
            "this is no JPEG, PNG, WebP, GIF, BMP or TIFF file; it begins with \"<html>404</html>\"",
        ),
        ("empty.jpg", b"", "the file is empty"),
        ("half.jpg", &jpeg[..jpeg.len() / 2], "the JPEG file can't be decoded: "),
        (
            "noise.jpg",
            &[0x12, 0x99, 0xfe, 0x00],
            "this is no JPEG, PNG, WebP, GIF, BMP or TIFF file; it begins with the bytes [12, 99, fe, 00]",
        ),
    ];
    let images = ImageSettings { height: 32, width: 32, ..ImageSettings::default() };
    for (i, (name, bytes, expected)) in bad.into_iter().enumerate() {
        server.put("images", name, bytes);
        let cache = open(&dir.path().join(i.to_string()), &server);
        let uri = format!("s3://images/{name}");
        let error = first_error(ImageDataset::new(index(&[&uri]), images.clone()).unwrap(), cache, 2);
        let expected = format!("can't load sample 0 (epoch 0, step 0, slot 0): {uri}: {expected}");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

/// Panics on one sample.
struct Panicking(SampleIndex);

impl ObjectUris for Panicking {
    fn write_uri(&self, id: SampleId, uri: &mut String) -> bool {
        self.0.write_uri(id, uri)
    }
}

impl Dataset for Panicking {
    type Sample = u64;

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
        assert_ne!(ctx.id().0, 6, "sample six is unlucky");
        Ok(ctx.id().0)
    }
}

#[test]
fn a_panic_in_user_code_is_an_error_of_its_sample() {
    for num_workers in [0, 2] {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
        let index = put_objects(&server, 10);
        let error = first_error(Panicking(index), open(dir.path(), &server), num_workers);
        let text = error.to_string();
        assert!(
            text.starts_with("can't load sample 6 (epoch 0, step 1, slot 2): s3://objects/06/00006.bin: "),
            "{text}"
        );
        assert!(text.contains("sample six is unlucky"), "{text}");
    }
}

/// Panics on the plan of its third epoch.
#[derive(Debug)]
struct PanickingProvider(SequentialPlanProvider);

impl PlanProvider for PanickingProvider {
    fn plan(&self, epoch: u64) -> Result<PlanView, PlanError> {
        assert_ne!(epoch, 2, "epoch two is unlucky");
        self.0.plan(epoch)
    }

    fn num_samples(&self) -> u64 {
        self.0.num_samples()
    }

    fn batch_size(&self) -> usize {
        self.0.batch_size()
    }

    fn seed(&self) -> u64 {
        self.0.seed()
    }

    fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint()
    }
}

#[test]
fn a_panic_in_a_plan_provider_is_an_error_of_its_epoch() {
    for num_workers in [0, 2] {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
        let index = put_objects(&server, 10);
        let provider = PanickingProvider(SequentialPlanProvider::new(10, 4).unwrap());
        let settings = LoaderSettings { num_workers, ..LoaderSettings::default() };
        let cache = open(dir.path(), &server);
        let (mut loader, controller) =
            build_prefetching_loader(Sums(index), VecCollate, provider, cache, settings).unwrap();
        for _ in 0..2 {
            assert_eq!((&mut loader).map(Result::unwrap).count(), 3);
        }
        let error = loader.next().expect("an error").expect_err("the plan panics");
        assert!(error.to_string().starts_with("no plan for epoch 2: user code panicked: "), "{error}");
        assert!(loader.next().is_none());
        assert!(controller.set_epoch(2).is_err());
        controller.set_epoch(3).unwrap();
        assert_eq!((&mut loader).map(Result::unwrap).count(), 3);
    }
}

#[test]
fn after_an_error_the_controller_can_go_on_elsewhere() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 40);
    let provider = ShuffleOncePerEpochPlanProvider::new(index.len(), 8, 1).unwrap();
    server.inject(FaultRule::always(Fault::Reset).on("/objects/03/00003.bin"));
    let (mut loader, controller) = build_prefetching_loader(
        Sums(index),
        VecCollate,
        provider.clone(),
        open(dir.path(), &server),
        LoaderSettings::default(),
    )
    .unwrap();
    let error = loader.find_map(Result::err).expect("one object can't be had");
    assert!(error.to_string().contains("s3://objects/03/00003.bin"), "{error}");
    server.clear_faults();
    controller.set_epoch(0).unwrap();
    let ids: Vec<_> = (&mut loader).map(|batch| batch.unwrap().ids().to_vec()).collect();
    assert_eq!(ids, planned(&provider, 0));
}

#[test]
fn parts_that_do_not_fit_together_are_refused_in_words() {
    let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let index = put_objects(&server, 10);
    let plan = SequentialPlanProvider::new(11, 4).unwrap();
    let error = LoaderBuilder::new(Sums(index.clone()), VecCollate, plan).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the plan is for 11 samples, but the data set has 10; make the provider with the data set's length"
    );
    let plan = SequentialPlanProvider::new(10, 4).unwrap();
    let error = LoaderBuilder::new(Sums(index.clone()), VecCollate, plan.clone()).build().unwrap_err();
    assert!(error.to_string().contains("there is no cache; give one by with_cache"), "{error}");
    let settings = LoaderSettings { prefetch_factor: 0, ..LoaderSettings::default() };
    let error =
        build_prefetching_loader(Sums(index), VecCollate, plan, open(dir.path(), &server), settings).unwrap_err();
    assert_eq!(error.to_string(), "prefetch_factor is 0, but must lie in 1..=4096");
}

#[test]
fn an_index_with_a_fault_names_row_and_column() {
    let read =
        |csv: &str| read_index_csv(csv.as_bytes(), "train.csv", &CsvSettings::default()).unwrap_err().to_string();
    assert!(read("uri,label\ns3://b/k,0\n").starts_with("train.csv has no column \"s3_uri\""));
    assert!(read("s3_uri,label\ns3://b/k,\n").starts_with("train.csv: row 1 (line 2), column \"label\""));
    assert!(
        read("s3_uri,label\nb/k,0\n")
            .starts_with("train.csv: row 1 (line 2), column \"s3_uri\": \"b/k\" has no scheme")
    );
}

/// Does not decode where it is told not to.
fn lengths(index: SampleIndex, broken: &'static str) -> ObjectPathDataset<u64> {
    ObjectPathDataset::new(index, move |file| {
        let mut bytes = Vec::new();
        file.read_into(&mut bytes)?;
        if bytes == broken.as_bytes() { Err("it does not decode".into()) } else { Ok(file.len()) }
    })
}

/// Four objects: the second and the last are missing, the third does not decode.
fn put_bad(server: &S3Server) -> SampleIndex {
    for (key, text) in [("0", "good"), ("2", "broken")] {
        server.put("bad", key, text.as_bytes());
    }
    index(&["s3://bad/0", "s3://bad/1", "s3://bad/2", "s3://bad/3"])
}

#[test]
fn of_several_failures_the_first_in_slot_order_is_named_though_its_answer_comes_last() {
    for late in [0, 100] {
        for num_workers in [0, 2] {
            let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
            let index = put_bad(&server);
            server.inject(FaultRule::always(Fault::Latency(Duration::from_millis(late))).on("/bad/1"));
            let error = first_error(lengths(index, "broken"), open(dir.path(), &server), num_workers);
            assert!(
                error.to_string().starts_with("can't load sample 1 (epoch 0, step 0, slot 1): s3://bad/1"),
                "{error}"
            );
        }
    }
}

#[test]
fn missing_and_broken_objects_are_skipped_or_substituted_and_listed() {
    for on_error in [OnError::Skip, OnError::Substitute { max: 100 }] {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
        let index = put_bad(&server);
        let settings = LoaderSettings { on_error, num_epochs: Some(1), ..LoaderSettings::default() };
        let plan = SequentialPlanProvider::new(4, 4).unwrap();
        let (mut loader, controller) =
            build_prefetching_loader(lengths(index, "broken"), VecCollate, plan, open(dir.path(), &server), settings)
                .unwrap();
        let batch = loader.next().unwrap().unwrap();
        let expected = if on_error == OnError::Skip { 1 } else { 4 };
        assert_eq!(batch.ids(), vec![SampleId(0); expected]);
        let uris: BTreeSet<_> = controller.failed_samples().into_iter().filter_map(|sample| sample.uri).collect();
        assert_eq!(uris.into_iter().collect::<Vec<_>>(), ["s3://bad/1", "s3://bad/2", "s3://bad/3"]);
    }
}

#[test]
fn an_outage_is_no_reason_to_skip_through_the_data() {
    for on_error in [OnError::Skip, OnError::Substitute { max: 100 }] {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
        let index = put_objects(&server, 12);
        server.inject(FaultRule::always(Fault::Reset));
        let settings = LoaderSettings { on_error, ..LoaderSettings::default() };
        let plan = SequentialPlanProvider::new(12, 4).unwrap();
        let cache = open(dir.path(), &server);
        let (mut loader, controller) =
            build_prefetching_loader(Sums(index), VecCollate, plan, cache, settings).unwrap();
        let error = loader.next().unwrap().unwrap_err();
        assert!(error.to_string().contains("can't be downloaded"), "{error}");
        // When the store is back, the run goes on where it was.
        server.clear_faults();
        controller.restore(&controller.state()).unwrap();
        assert_eq!((&mut loader).map(|batch| batch.unwrap().len()).sum::<usize>(), 12);
    }
}

#[test]
fn a_store_that_refuses_everything_is_no_reason_to_skip_through_the_data() {
    for on_error in [OnError::Skip, OnError::Substitute { max: 100 }] {
        let (dir, server) = (tempfile::tempdir().unwrap(), S3Server::start());
        let index = put_objects(&server, 40);
        let wrong = StoreSettings { secret_access_key: Some("another".into()), ..store_settings(&server) };
        let cache = DiskCache::builder(dir.path()).with_store_settings(wrong).build().unwrap();
        let settings = LoaderSettings { on_error, ..LoaderSettings::default() };
        let plan = SequentialPlanProvider::new(40, 4).unwrap();
        let (mut loader, _) = build_prefetching_loader(Sums(index), VecCollate, plan, cache, settings).unwrap();
        // Few in a row may be bad ones; many are not.
        let error = loader.by_ref().take(4).find_map(Result::err).expect("it ends before it has skipped everything");
        assert!(error.to_string().contains("refuses the credentials"), "{error}");
    }
}
