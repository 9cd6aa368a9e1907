//! What a loop is given, and that nothing it holds changes.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::VecDeque;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use planfetch::image::half::{bf16, f16};
use planfetch::image::ndarray::{Array1, Array3, ArrayD, Axis};
use planfetch::image::{DecodedImage, Element, ImageSample};
use planfetch::prelude::*;
use planfetch_tch::{HostArrays, NamedCollate, TchLoader, TchLoaderBuilder, TensorElement, ToTensors};
use proptest::prelude::*;
use tch::{Device, Kind, Tensor};

/// Arrays that are known by their sample's id.
#[derive(Clone, Copy)]
struct Numbers {
    len: u64,
    width: usize,
    fails: Option<u64>,
}

impl ObjectUris for Numbers {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Numbers {
    type Sample = Array1<f32>;

    fn len(&self) -> u64 {
        self.len
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<Array1<f32>, BoxError> {
        let id = ctx.id().0;
        if self.fails == Some(id) {
            return Err("a broken file".into());
        }
        Ok(Array1::from_elem(self.width, id as f32))
    }
}

type Arrays = ArrayD<f32>;

fn numbers(len: u64, batch_size: usize, width: usize, settings: LoaderSettings) -> TchLoader<Arrays> {
    let plan = ShuffleOncePerEpochPlanProvider::new(len, batch_size, 42).unwrap();
    let dataset = Numbers { len, width, fails: None };
    TchLoaderBuilder::new(dataset, plan).with_settings(settings).build(StackCollate::<f32>::new([width])).unwrap()
}

fn planned(len: u64, batch_size: usize, epoch: u64) -> Vec<Vec<u64>> {
    let plan = ShuffleOncePerEpochPlanProvider::new(len, batch_size, 42).unwrap().plan(epoch).unwrap();
    let rows = (0..plan.num_batches()).map(|row| plan.batch(row).unwrap());
    rows.map(|batch| batch.to_vec().into_iter().map(|id| id.0).collect()).collect()
}

/// The ids that a tensor of `Numbers` holds, after a look at every value.
#[track_caller]
fn ids(tensor: &Tensor) -> Vec<u64> {
    let first = tensor.select(1, 0);
    assert!(bool::try_from(tensor.eq_tensor(&first.unsqueeze(1)).all()).unwrap(), "a row is torn");
    Vec::<f32>::try_from(first).unwrap().into_iter().map(|id| id as u64).collect()
}

fn images<T: Element>(settings: &ImageSettings) -> ImageBatch<T> {
    let collate = ImageCollate::<T>::with_dtype(settings).unwrap();
    let mut buffer = collate.buffer();
    for (i, slot) in collate.slots(&mut buffer, 4).into_iter().enumerate() {
        let pixels = (0..settings.height * settings.width * 3).map(|j| (i * 50 + j * 3) as u8).collect();
        let image = DecodedImage::new(pixels, settings.height, settings.width, ColorMode::Rgb).unwrap();
        collate.put(ImageSample::new(image, i as i64 * 10), slot).unwrap();
    }
    collate.finish(buffer)
}

/// Images as a data set.
struct Pictures(ImageSettings);

impl ObjectUris for Pictures {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Pictures {
    type Sample = ImageSample;

    fn len(&self) -> u64 {
        4
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<ImageSample, BoxError> {
        let i = ctx.id().0 as usize;
        let pixels = (0..self.0.height * self.0.width * 3).map(|j| (i * 50 + j * 3) as u8).collect();
        let image =
            DecodedImage::new(pixels, self.0.height, self.0.width, ColorMode::Rgb).ok_or("a picture has its size")?;
        Ok(ImageSample::new(image, i as i64 * 10))
    }
}

fn pictures<T: Element + TensorElement>(settings: &ImageSettings) -> TchLoader<ImageBatch<T>> {
    let plan = SequentialPlanProvider::new(4, 4).unwrap();
    let collate = ImageCollate::<T>::with_dtype(settings).unwrap();
    TchLoaderBuilder::new(Pictures(settings.clone()), plan).build(collate).unwrap()
}

fn of_size(size: usize, layout: Layout) -> ImageSettings {
    ImageSettings { height: size, width: size + 1, layout, ..ImageSettings::default() }
}

fn check_kind<T: Element + TensorElement>(kind: Kind, size: usize) {
    for layout in [Layout::Nchw, Layout::Nhwc] {
        let settings = of_size(size, layout);
        let expected = images::<T>(&settings);
        let mut loader = pictures::<T>(&settings);
        let (images, labels) = loader.iter_unwrapped().next().unwrap();
        assert_eq!(images.kind(), kind);
        let shape: Vec<i64> = expected.images.shape().iter().map(|&len| len as i64).collect();
        assert_eq!(images.size(), shape);
        // Each number of these types is one of single precision, and no two are the same one.
        let values = Vec::<f32>::try_from(images.to_kind(Kind::Float).reshape([-1])).unwrap();
        let expected: Vec<f32> = expected.images.iter().map(|value| value.to_f32()).collect();
        assert_eq!(values, expected, "{kind:?} {layout}");
        assert_eq!(Vec::<i64>::try_from(labels).unwrap(), [0, 10, 20, 30]);
    }
}

#[test]
fn values_are_those_of_the_batch_bit_for_bit_in_every_type_and_layout() {
    // Copied, and shared.
    for size in [3, 80] {
        check_kind::<u8>(Kind::Uint8, size);
        check_kind::<f16>(Kind::Half, size);
        check_kind::<bf16>(Kind::BFloat16, size);
        check_kind::<f32>(Kind::Float, size);
    }
}

#[test]
fn bytes_are_normalised_to_the_numbers_of_the_host() {
    for layout in [Layout::Nchw, Layout::Nhwc] {
        let plain = of_size(40, layout);
        let host = ImageSettings { mean: IMAGENET_MEAN, std: IMAGENET_STD, ..plain.clone() };
        let mut loader = pictures::<u8>(&plain).normalize(IMAGENET_MEAN, IMAGENET_STD);
        let (images, _) = loader.iter_unwrapped().next().unwrap();
        let values = Vec::<f32>::try_from(images.reshape([-1])).unwrap();
        assert_eq!(values, self::images::<f32>(&host).images.as_slice().unwrap(), "{layout}");

        let mut loader = pictures::<u8>(&plain).kind(Kind::Float);
        let (images, _) = loader.iter_unwrapped().next().unwrap();
        let values = Vec::<f32>::try_from(images.reshape([-1])).unwrap();
        assert_eq!(values, self::images::<f32>(&plain).images.as_slice().unwrap(), "{layout}");
    }
}

#[test]
fn channels_last_is_the_same_picture_in_another_memory_format_without_a_copy_of_nhwc() {
    let expected = images::<f32>(&of_size(40, Layout::Nchw));
    for layout in [Layout::Nchw, Layout::Nhwc] {
        let mut loader = pictures::<f32>(&of_size(40, layout)).channels_last(true);
        let (images, _) = loader.iter_unwrapped().next().unwrap();
        assert_eq!(images.size(), [4, 3, 40, 41]);
        assert_eq!(images.stride(), [3 * 40 * 41, 1, 3 * 41, 3]);
        assert_eq!(Vec::<f32>::try_from(images.reshape([-1])).unwrap(), expected.images.as_slice().unwrap());
    }
}

#[test]
fn what_can_not_be_done_is_an_error_that_says_so() {
    let settings = of_size(8, Layout::Nchw);
    let error = pictures::<u8>(&settings).kind(Kind::Int64).iter().unwrap_err().to_string();
    assert!(error.contains("kind is Int64"), "{error}");
    let error = pictures::<u8>(&settings).to_device(Device::Cuda(99)).iter().unwrap_err().to_string();
    assert!(error.contains("Cuda(99)"), "{error}");
    let mut loader = pictures::<f32>(&settings).normalize(IMAGENET_MEAN, IMAGENET_STD);
    let mut epoch = loader.iter().unwrap();
    let error = epoch.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("ImageCollate::<u8>"), "{error}");
    assert!(epoch.next().is_none());

    let plan = SequentialPlanProvider::new(4, 4).unwrap();
    let collate = NamedCollate::new(StackCollate::<f32>::new([2]), ["a", "b"]);
    let dataset = Numbers { len: 4, width: 2, fails: None };
    let mut loader = TchLoaderBuilder::new(dataset, plan).build(collate).unwrap();
    let error = loader.iter().unwrap().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("1 arrays, but there are 2 different names"), "{error}");
}

#[test]
fn pinned_memory_is_left_out_where_there_is_no_gpu() {
    let mut loader = pictures::<f32>(&of_size(40, Layout::Nchw)).pin_memory(true);
    let (images, _) = loader.iter_unwrapped().next().unwrap();
    assert_eq!(images.size(), [4, 3, 40, 41]);
}

#[test]
fn an_array_that_runs_backwards_is_copied_and_a_transposed_one_is_not() {
    struct Views(Array3<i32>);
    impl ToTensors for Views {
        type Tensors = (Tensor, Tensor);
        fn lend<'a>(&'a mut self, arrays: &mut HostArrays<'a>) {
            let (backwards, transposed) = self.0.view_mut().split_at(Axis(0), 1);
            let mut backwards = backwards;
            backwards.invert_axis(Axis(1));
            arrays.push(backwards);
            arrays.push(transposed.permuted_axes([0, 2, 1]));
        }
        fn collect(tensors: &mut planfetch_tch::Taken) -> Option<(Tensor, Tensor)> {
            Some((tensors.next()?, tensors.next()?))
        }
    }
    let values = Array3::from_shape_fn((2, 80, 90), |(i, j, k)| (i * 10_000 + j * 100 + k) as i32);
    let plan = SequentialPlanProvider::new(1, 1).unwrap();
    let collate = collate_fn({
        let values = values.clone();
        move |_: Vec<Array1<f32>>| Views(values.clone())
    });
    let dataset = Numbers { len: 1, width: 1, fails: None };
    let mut loader = TchLoaderBuilder::new(dataset, plan).build(collate).unwrap();
    let (backwards, transposed) = loader.iter_unwrapped().next().unwrap();
    assert_eq!(backwards.int64_value(&[0, 0, 3]), 7_903);
    assert_eq!((transposed.size(), transposed.stride()), (vec![1, 90, 80], vec![7_200, 1, 90]));
    assert_eq!(transposed.int64_value(&[0, 3, 79]), 17_903);
}

#[test]
fn epochs_come_in_plan_order_and_the_controller_sets_them() {
    for num_workers in [0, 1, 4] {
        let settings = LoaderSettings { num_workers, ..LoaderSettings::default() };
        let mut loader = numbers(40, 8, 5, settings);
        let controller = loader.controller();
        for e in [0, 1, 7, 2] {
            controller.set_epoch(e).unwrap();
            let seen: Vec<_> = loader.iter_unwrapped().map(|tensor| ids(&tensor)).collect();
            assert_eq!(seen, planned(40, 8, e), "{num_workers} workers");
        }
    }
}

#[test]
fn a_smaller_last_batch_is_left_out_unless_it_is_asked_for_on_all_ranks_alike() {
    let whole = planned(45, 8, 0);
    let mut loader = numbers(45, 8, 5, LoaderSettings::default());
    let seen: Vec<_> = loader.iter_unwrapped().map(|tensor| ids(&tensor)).collect();
    assert_eq!(seen, whole[..5]);
    // It counts as taken: the next epoch is the next one.
    assert_eq!(loader.state().epoch(), 1);
    let mut loader = numbers(45, 8, 5, LoaderSettings::default()).return_smaller_last_batch();
    assert_eq!(loader.iter_unwrapped().map(|tensor| ids(&tensor)).collect::<Vec<_>>(), whole);

    // However many of its samples a rank would have: the row of 7 gives rank 0 of 2 four, as every row does, and that of 1
    // gives most ranks none.
    for (len, world_size, policy) in
        (41..48).flat_map(|len| [2, 3, 4, 8].map(|world_size| (len, world_size))).flat_map(|(len, world_size)| {
            [(len, world_size, RemainderPolicy::Keep), (len, world_size, RemainderPolicy::Pad)]
        })
    {
        for rank in 0..world_size {
            let steps = rank_of(rank, world_size, policy, len).iter_unwrapped().count();
            assert_eq!(steps, 5, "{len} samples, rank {rank} of {world_size}, {policy:?}");
        }
    }
}

fn rank_of(rank: u32, world_size: u32, policy: RemainderPolicy, len: u64) -> TchLoader<Arrays> {
    let plan = ShuffleOncePerEpochPlanProvider::new(len, 8, 42).unwrap();
    let settings = LoaderSettings { num_workers: 1, ..LoaderSettings::default() };
    TchLoaderBuilder::new(Numbers { len, width: 5, fails: None }, plan)
        .with_settings(settings)
        .with_world(World { rank, world_size }, policy)
        .build(StackCollate::<f32>::new([5]))
        .unwrap()
}

#[test]
fn a_rank_without_samples_in_a_batch_that_was_asked_for_is_told_what_to_do() {
    let counts = [0, 1, 2, 3].map(|rank| {
        let mut loader = rank_of(rank, 4, RemainderPolicy::Keep, 42).return_smaller_last_batch();
        let batches: Vec<_> = loader.iter().unwrap().collect();
        let error = batches.last().unwrap().as_ref().err().map(ToString::to_string);
        if let Some(error) = &error {
            assert!(error.contains("step 5") && error.contains("RemainderPolicy::Pad"), "{error}");
        }
        error.is_some()
    });
    assert_eq!(counts.iter().filter(|&&is_error| is_error).count(), 2, "{counts:?}");
    for rank in 0..4 {
        assert_eq!(rank_of(rank, 4, RemainderPolicy::Pad, 42).return_smaller_last_batch().iter_unwrapped().count(), 6);
    }
}

/// Arrays of any element, in the layout that they have.
struct AnyArrays<T>(Vec<ArrayD<T>>);

impl<T: TensorElement + Send> ToTensors for AnyArrays<T> {
    type Tensors = Vec<Tensor>;

    fn lend<'a>(&'a mut self, arrays: &mut HostArrays<'a>) {
        self.0.iter_mut().for_each(|array| arrays.push(array.view_mut()));
    }

    fn collect(tensors: &mut planfetch_tch::Taken) -> Option<Vec<Tensor>> {
        Some(tensors.collect())
    }
}

/// Makes one batch of given arrays.
struct Given<T>(Vec<ArrayD<T>>);

impl<T: TensorElement + Send + Sync> Collate<u64> for Given<T> {
    type Buffer = Vec<()>;
    type Slot<'b> = &'b mut ();
    type Batch = AnyArrays<T>;

    fn buffer(&self) -> Vec<()> {
        Vec::new()
    }

    fn slots<'b>(&self, buffer: &'b mut Vec<()>, len: usize) -> Vec<&'b mut ()> {
        buffer.resize(len, ());
        buffer.iter_mut().collect()
    }

    fn put(&self, _sample: u64, _slot: &mut ()) -> Result<(), BoxError> {
        Ok(())
    }

    fn finish(&self, _buffer: Vec<()>) -> AnyArrays<T> {
        AnyArrays(self.0.clone())
    }
}

/// One sample without a value.
struct One;

impl ObjectUris for One {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for One {
    type Sample = u64;

    fn len(&self) -> u64 {
        1
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<u64, BoxError> {
        Ok(ctx.id().0)
    }
}

/// Small arrays are copied and large ones shared; both in standard and in other layouts.
fn check_element<T: TensorElement + Send + Sync + PartialEq + std::fmt::Debug>(kind: Kind, value: impl Fn(usize) -> T) {
    let mut arrays = Vec::new();
    for rows in [3, 70] {
        let array = ArrayD::from_shape_fn(vec![rows, 40, 7], |at| value((at[0] * 40 + at[1]) * 7 + at[2]));
        arrays.push(array.clone());
        arrays.push(array.permuted_axes(vec![2, 0, 1]));
    }
    let plan = SequentialPlanProvider::new(1, 1).unwrap();
    let mut loader = TchLoaderBuilder::new(One, plan).build(Given(arrays.clone())).unwrap();
    let tensors = loader.iter_unwrapped().next().unwrap();
    for (tensor, array) in tensors.iter().zip(&arrays) {
        assert_eq!(tensor.kind(), kind);
        assert_eq!(tensor.size(), array.shape().iter().map(|&len| len as i64).collect::<Vec<_>>());
        let values = Vec::<T>::try_from(tensor.contiguous().reshape([-1])).unwrap();
        // Bits and not values: a NaN is itself.
        let bits = |values: &mut dyn Iterator<Item = &T>| values.map(|value| format!("{value:?}")).collect::<Vec<_>>();
        assert_eq!(bits(&mut values.iter()), bits(&mut array.iter()), "{kind:?}");
    }
}

#[test]
fn every_element_keeps_its_values_small_or_large_in_any_layout() {
    check_element::<u8>(Kind::Uint8, |i| (i * 31) as u8);
    check_element::<i8>(Kind::Int8, |i| (i * 31) as i8);
    check_element::<i16>(Kind::Int16, |i| (i * 7_919) as i16);
    check_element::<i32>(Kind::Int, |i| (i as i32).wrapping_mul(-1_640_531_527));
    check_element::<i64>(Kind::Int64, |i| (i as i64).wrapping_mul(-7_046_029_254_386_353_131));
    check_element::<f32>(Kind::Float, |i| if i == 5 { f32::NAN } else { (i as f32).sqrt() - 3.0 });
    check_element::<f64>(Kind::Double, |i| if i == 5 { f64::NEG_INFINITY } else { (i as f64).sqrt() - 3.0 });
    check_element::<f16>(Kind::Half, |i| f16::from_f32((i as f32).sqrt() - 3.0));
    check_element::<bool>(Kind::Bool, |i| i % 3 == 0);
}

#[test]
fn a_state_goes_on_with_the_next_batch() {
    let expected = planned(40, 8, 0);
    for stop in 1..5 {
        let mut loader = numbers(40, 8, 5, LoaderSettings::default());
        let mut epoch = loader.iter().unwrap();
        for _ in 0..stop {
            drop(epoch.next().unwrap().unwrap());
        }
        let state = serde_json::to_string(&epoch.state()).unwrap();
        let state: LoaderState = serde_json::from_str(&state).unwrap();
        let plan = ShuffleOncePerEpochPlanProvider::new(40, 8, 42).unwrap();
        let dataset = Numbers { len: 40, width: 5, fails: None };
        let mut resumed =
            TchLoaderBuilder::new(dataset, plan).with_state(&state).build(StackCollate::<f32>::new([5])).unwrap();
        let mut epoch = resumed.epoch(0).unwrap();
        let mut rest = Vec::new();
        while let Some(batch) = epoch.next_batch() {
            let batch = batch.unwrap();
            assert_eq!(batch.step, stop + rest.len());
            assert_eq!(batch.ids.iter().map(|id| id.0).collect::<Vec<_>>(), ids(&batch.tensors));
            rest.push(ids(&batch.tensors));
        }
        assert_eq!(rest, expected[stop..]);
    }
}

#[test]
fn an_error_comes_once_and_ends_the_epoch() {
    let plan = SequentialPlanProvider::new(40, 8).unwrap();
    let dataset = Numbers { len: 40, width: 5, fails: Some(17) };
    let mut loader = TchLoaderBuilder::new(dataset, plan).build(StackCollate::<f32>::new([5])).unwrap();
    let mut epoch = loader.iter().unwrap();
    assert!(epoch.next().unwrap().is_ok() && epoch.next().unwrap().is_ok());
    let error = epoch.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("sample 17") && error.contains("a broken file"), "{error}");
    assert!(epoch.next().is_none() && epoch.next().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However many tensors a loop holds back, and in whichever order it lets go of them, none changes.
    #[test]
    fn no_tensor_changes_while_it_is_held(
        batch_size in 1_usize..6,
        num_workers in 0_usize..4,
        prefetch_factor in 1_usize..5,
        holds in prop::collection::vec((0_usize..12, any::<bool>()), 20..40),
    ) {
        // A row is as large as the smallest array that is shared.
        let settings = LoaderSettings { num_workers, prefetch_factor, ..LoaderSettings::default() };
        let mut loader = numbers(60, batch_size, 4_096, settings).return_smaller_last_batch();
        let mut held: VecDeque<(Tensor, Vec<u64>)> = VecDeque::new();
        let mut holds = holds.into_iter().cycle();
        for e in 0..2 {
            let expected = planned(60, batch_size, e);
            for (tensor, row) in loader.epoch(e).unwrap().zip(expected) {
                let tensor = tensor.unwrap();
                prop_assert_eq!(&ids(&tensor), &row);
                let (most, only_a_view) = holds.next().unwrap();
                let kept = if only_a_view { tensor.narrow(1, 7, 100) } else { tensor };
                held.push_back((kept, row));
                while most < held.len() {
                    // From either end.
                    let (tensor, row) = if only_a_view { held.pop_front() } else { held.pop_back() }.unwrap();
                    prop_assert_eq!(ids(&tensor), row);
                }
                for (tensor, row) in &held {
                    prop_assert_eq!(&ids(tensor), row);
                }
            }
        }
    }
}

#[test]
fn buffers_come_back_and_a_tensor_shares_one() {
    let mut loader = numbers(40, 4, 8_192, LoaderSettings { prefetch_factor: 2, ..LoaderSettings::default() });
    let mut addresses = std::collections::BTreeSet::new();
    for e in 0..50 {
        addresses.extend(loader.epoch(e).unwrap().map(|tensor| tensor.unwrap().data_ptr() as usize));
    }
    // 500 batches: two in the making, those on their way back, and the one that the loop holds.
    assert!(addresses.len() <= 6, "{} buffers", addresses.len());
}

#[test]
fn samples_without_values_have_tensors_without_values() {
    let sizes: Vec<_> =
        numbers(4, 2, 0, LoaderSettings::default()).iter_unwrapped().map(|tensor| tensor.size()).collect();
    assert_eq!(sizes, [[2, 0], [2, 0]]);
}

#[test]
fn a_batch_of_which_every_sample_was_skipped_is_passed_over_or_an_error_where_other_ranks_wait_for_it() {
    let build = |world| {
        let plan = SequentialPlanProvider::new(6, 2).unwrap();
        let settings = LoaderSettings { on_error: OnError::Skip, ..LoaderSettings::default() };
        let builder = TchLoaderBuilder::new(Numbers { len: 6, width: 5, fails: Some(2) }, plan).with_settings(settings);
        builder.with_world(world, RemainderPolicy::Keep).build(StackCollate::<f32>::new([5])).unwrap()
    };
    let sizes: Vec<_> = build(World::SINGLE).iter_unwrapped().map(|tensor| tensor.size()).collect();
    assert_eq!(sizes, [[2, 5], [1, 5], [2, 5]]);
    let first = World { rank: 0, world_size: 2 };
    let mut loader = build(first);
    let mut epoch = loader.iter().unwrap();
    assert_eq!(epoch.next().unwrap().unwrap().size(), [1, 5]);
    let error = epoch.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("step 1") && error.contains("Substitute"), "{error}");
    assert!(epoch.next().is_none());

    // Alone in its batch, on one rank.
    let plan = SequentialPlanProvider::new(3, 1).unwrap();
    let settings = LoaderSettings { on_error: OnError::Skip, ..LoaderSettings::default() };
    let builder = TchLoaderBuilder::new(Numbers { len: 3, width: 5, fails: Some(1) }, plan).with_settings(settings);
    let mut loader = builder.build(StackCollate::<f32>::new([5])).unwrap();
    assert_eq!(loader.iter_unwrapped().map(|tensor| ids(&tensor)).collect::<Vec<_>>(), [[0], [2]]);
}

/// Numbers of which one comes when it is let go.
struct Held(Numbers, Mutex<mpsc::Receiver<()>>);

impl ObjectUris for Held {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Held {
    type Sample = Array1<f32>;

    fn len(&self) -> u64 {
        self.0.len
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<Array1<f32>, BoxError> {
        if ctx.id().0 == 3 {
            self.1.lock().unwrap().recv()?;
        }
        self.0.get(ctx)
    }
}

#[test]
fn a_wait_that_times_out_loses_nothing_and_the_next_one_goes_on() {
    let (let_go, held) = mpsc::channel();
    let plan = SequentialPlanProvider::new(8, 2).unwrap();
    let dataset = Held(Numbers { len: 8, width: 5, fails: None }, Mutex::new(held));
    // One epoch: in the next one, nobody would let the sample go, and the loader waits for it at its end.
    let settings =
        LoaderSettings { timeout: Some(Duration::from_millis(20)), num_epochs: Some(1), ..LoaderSettings::default() };
    let builder = TchLoaderBuilder::new(dataset, plan).with_settings(settings);
    let mut loader = builder.build(StackCollate::<f32>::new([5])).unwrap();
    let (mut seen, mut timeouts) = (Vec::new(), 0);
    for batch in loader.iter().unwrap() {
        match batch {
            Ok(batch) => seen.push(ids(&batch)),
            Err(LoaderError::Timeout { .. }) => {
                timeouts += 1;
                if timeouts == 3 {
                    let_go.send(()).unwrap();
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(3 <= timeouts);
    assert_eq!(seen, [[0, 1], [2, 3], [4, 5], [6, 7]]);
}

#[test]
fn mixed_images_come_with_the_share_of_each_class() {
    let mix = BatchTransform::MixUp { num_classes: 31, alpha: 1.0 };
    for size in [3, 80] {
        let settings = ImageSettings { batch_transforms: vec![mix.clone()], ..of_size(size, Layout::Nchw) };
        let (images, labels) = pictures::<f32>(&settings).iter_unwrapped().next().unwrap();
        assert_eq!((labels.size(), labels.kind()), (vec![4, 31], Kind::Float));
        let sums = Vec::<f32>::try_from(labels.sum_dim_intlist(1, false, Kind::Float)).unwrap();
        assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-5), "{sums:?}");
        // Row i is a mixture of the classes 10 i and 10 (i - 1).
        assert!((0..4).all(|i| 0.0 < labels.double_value(&[i, i * 10])));
        assert_eq!(images.size()[0], 4);
        // What libtorch calls a cross entropy with shares.
        let logits = Tensor::zeros([4, 31], (Kind::Float, Device::Cpu));
        let loss = logits.cross_entropy_loss::<Tensor>(&labels, None, tch::Reduction::Mean, -100, 0.0);
        assert!((loss.double_value(&[]) - 31_f64.ln()).abs() < 1e-5);
    }
}

#[test]
fn names_that_are_too_many_too_few_or_the_same_are_errors() {
    for names in [vec!["images"], vec!["images", "images"], vec!["images", "labels", "more"]] {
        let settings = of_size(3, Layout::Nchw);
        let plan = SequentialPlanProvider::new(4, 4).unwrap();
        let collate = NamedCollate::new(ImageCollate::<f32>::with_dtype(&settings).unwrap(), names);
        let mut loader = TchLoaderBuilder::new(Pictures(settings), plan).build(collate).unwrap();
        let error = loader.iter().unwrap().next().unwrap().unwrap_err().to_string();
        assert!(error.contains("2 arrays") && error.contains("different names"), "{error}");
    }
}

#[test]
fn images_of_a_batch_keep_their_layout() {
    assert_eq!(images::<u8>(&of_size(3, Layout::Nhwc)).layout(), Layout::Nhwc);
}
