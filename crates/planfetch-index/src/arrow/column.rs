//! Columns, whatever type they are stored in.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, LargeStringArray, StringArray, StringViewArray};
use arrow_schema::DataType;

/// A column of strings.
pub(super) enum Texts<'a> {
    Utf8(&'a StringArray),
    Large(&'a LargeStringArray),
    View(&'a StringViewArray),
    /// Where each row stands in the values, and these.
    Dictionary(Vec<Option<usize>>, Box<Self>),
}

impl<'a> Texts<'a> {
    /// Returns the column, or `None` when it holds something else.
    pub(super) fn new(array: &'a ArrayRef) -> Option<Self> {
        match array.data_type() {
            DataType::Utf8 => Some(Self::Utf8(array.as_string())),
            DataType::LargeUtf8 => Some(Self::Large(array.as_string())),
            DataType::Utf8View => Some(Self::View(array.as_string_view())),
            DataType::Dictionary(..) => {
                let values = Self::new(array.as_any_dictionary().values())?;
                Some(Self::Dictionary(keys(array), Box::new(values)))
            }
            _ => None,
        }
    }

    /// Returns the value in row `row`, or `None` when it is null.
    pub(super) fn get(&self, row: usize) -> Option<&'a str> {
        match self {
            Self::Utf8(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Large(array) => array.is_valid(row).then(|| array.value(row)),
            Self::View(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Dictionary(keys, values) => keys.get(row).copied().flatten().and_then(|key| values.get(key)),
        }
    }
}

/// A column of integers, which any type of them fits.
pub(super) struct Integers(Vec<Option<i128>>);

impl Integers {
    /// Returns the column, or `None` when it holds something else.
    pub(super) fn new(array: &ArrayRef) -> Option<Self> {
        macro_rules! integers {
            ($type:ty) => {
                Some(Self(array.as_primitive::<$type>().iter().map(|value| value.map(i128::from)).collect()))
            };
        }
        match array.data_type() {
            DataType::Int8 => integers!(Int8Type),
            DataType::Int16 => integers!(Int16Type),
            DataType::Int32 => integers!(Int32Type),
            DataType::Int64 => integers!(Int64Type),
            DataType::UInt8 => integers!(UInt8Type),
            DataType::UInt16 => integers!(UInt16Type),
            DataType::UInt32 => integers!(UInt32Type),
            DataType::UInt64 => integers!(UInt64Type),
            DataType::Dictionary(..) => {
                let values = Self::new(array.as_any_dictionary().values())?;
                Some(Self(keys(array).into_iter().map(|key| key.and_then(|key| values.get(key))).collect()))
            }
            _ => None,
        }
    }

    /// Returns the value in row `row`, or `None` when it is null.
    pub(super) fn get(&self, row: usize) -> Option<i128> {
        self.0.get(row).copied().flatten()
    }
}

/// Returns where each row of a dictionary stands in its values.
fn keys(array: &ArrayRef) -> Vec<Option<usize>> {
    let dictionary = array.as_any_dictionary();
    // It refuses to look at the keys of nothing, which are then all null.
    if dictionary.values().is_empty() {
        return vec![None; array.len()];
    }
    let keys = dictionary.normalized_keys().into_iter().enumerate();
    keys.map(|(row, key)| dictionary.is_valid(row).then_some(key)).collect()
}
