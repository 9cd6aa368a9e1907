//! The ready collates: slot order, shapes, and memory that is used again.

use std::collections::BTreeSet;

use ndarray::{Array1, Array2, ArrayD, Axis};
use planfetch_loader::{
    BoxError, Collate, Dataset, LoaderBuilder, LoaderSettings, ObjectUris, OnError, PadCollate, SampleContext,
    StackCollate, VecCollate,
};
use planfetch_plan::{SampleId, SequentialPlanProvider};
use proptest::prelude::*;

use crate::support::settings;

fn collate<S, C: Collate<S>>(collate: &C, samples: Vec<S>, buffer: C::Buffer) -> Result<C::Batch, BoxError> {
    let mut buffer = buffer;
    let slots = collate.slots(&mut buffer, samples.len());
    assert_eq!(slots.len(), samples.len());
    // Workers fill slots in any order.
    for (sample, slot) in samples.into_iter().zip(slots).collect::<Vec<_>>().into_iter().rev() {
        collate.put(sample, slot)?;
    }
    Ok(collate.finish(buffer))
}

proptest! {
    #[test]
    fn stacked_arrays_are_those_that_were_put_in_whatever_the_buffer_held_before(
        height in 0_usize..4, width in 0_usize..4, lens in prop::collection::vec(0_usize..6, 1..4), transposed: bool
    ) {
        let stack = StackCollate::<u32>::new([height, width]);
        let mut buffer = <StackCollate<u32> as Collate<Array2<u32>>>::buffer(&stack);
        for len in lens {
            let samples: Vec<Array2<u32>> = (0..len)
                .map(|i| match transposed {
                    false => Array2::from_shape_fn((height, width), |(y, x)| (i * 100 + y * 10 + x) as u32),
                    true => Array2::from_shape_fn((width, height), |(x, y)| (i * 100 + y * 10 + x) as u32).reversed_axes(),
                })
                .collect();
            let batch = collate(&stack, samples.clone(), buffer).unwrap();
            prop_assert_eq!(batch.shape(), &[len, height, width][..]);
            prop_assert!(batch.is_standard_layout());
            for (row, sample) in batch.axis_iter(Axis(0)).zip(&samples) {
                prop_assert_eq!(row, sample.view().into_dyn());
            }
            buffer = <StackCollate<u32> as Collate<Array2<u32>>>::recycle(&stack, batch).unwrap();
        }
    }

    #[test]
    fn padded_sequences_come_back_by_mask_and_length(
        sequences in prop::collection::vec(prop::collection::vec(0_i32..9, 0..7), 0..6)
    ) {
        let batch = collate(&PadCollate::new(-1), sequences.clone(), Vec::new()).unwrap();
        let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
        prop_assert_eq!(batch.values.dim(), (sequences.len(), longest));
        prop_assert_eq!(batch.mask.dim(), (sequences.len(), longest));
        for (i, sequence) in sequences.iter().enumerate() {
            prop_assert_eq!(batch.lengths[i], sequence.len() as i64);
            for column in 0..longest {
                let expected = sequence.get(column);
                prop_assert_eq!(batch.values[[i, column]], expected.copied().unwrap_or(-1));
                prop_assert_eq!(batch.mask[[i, column]], expected.is_some());
            }
        }
    }
}

#[test]
fn a_sample_of_another_shape_is_an_error_of_that_sample() {
    let error =
        collate(&StackCollate::<u8>::new([2]), vec![Array1::zeros(2), Array1::zeros(3)], ArrayD::default(vec![0]));
    assert_eq!(error.unwrap_err().to_string(), "the sample has shape [3], but the batch is of shape [2] each");
}

/// Samples of three parts. Those that are listed do not decode.
struct Parts(BTreeSet<u64>);

impl ObjectUris for Parts {
    fn write_uri(&self, _id: SampleId, _uri: &mut String) -> bool {
        false
    }
}

impl Dataset for Parts {
    type Sample = (Array1<f32>, Vec<i64>, String);

    fn len(&self) -> u64 {
        10
    }

    fn get(&self, ctx: &mut SampleContext<'_>) -> Result<Self::Sample, BoxError> {
        let id = ctx.id().0;
        if self.0.contains(&id) {
            return Err("it does not decode".into());
        }
        Ok((Array1::from_elem(3, id as f32), vec![id as i64; id as usize % 4], format!("#{id}")))
    }
}

#[test]
fn a_tuple_of_collates_makes_a_tuple_of_batches_and_skipping_moves_all_parts_up() {
    for num_workers in [0, 2] {
        let collate = (StackCollate::<f32>::new([3]), PadCollate::new(0_i64), VecCollate);
        let builder = LoaderBuilder::new(Parts([5].into()), collate, SequentialPlanProvider::new(10, 4).unwrap());
        let settings = LoaderSettings { on_error: OnError::Skip, ..settings(num_workers) };
        let (loader, _) = builder.with_settings(settings).build().unwrap();
        for (batch, expected) in loader.take(3).zip([vec![0, 1, 2, 3], vec![4, 6, 7], vec![8, 9]]) {
            let (stacked, padded, names) = batch.unwrap().into_inner();
            assert_eq!(stacked.index_axis(Axis(1), 0).iter().map(|&value| value as i64).collect::<Vec<_>>(), expected);
            assert_eq!(padded.lengths.to_vec(), expected.iter().map(|id| id % 4).collect::<Vec<_>>());
            assert_eq!(names, expected.iter().map(|id| format!("#{id}")).collect::<Vec<_>>());
        }
    }
}
