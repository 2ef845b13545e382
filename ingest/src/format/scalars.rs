//! The values of a dictionary, one by one.

use std::borrow::Cow;

use polars_arrow::{
    array::{Array, BooleanArray, PrimitiveArray, Utf8Array, Utf8ViewArray},
    datatypes::ArrowDataType,
    types::NativeType,
};

use super::frame::shortest;
use crate::builder::row::Scalar;

/// The values of an array of texts or numbers; `None`, when it holds others.
pub(crate) fn scalars(array: &dyn Array) -> Option<Vec<Scalar<'_>>> {
    fn of<'a, A: Array + 'static>(
        array: &'a dyn Array,
        all: impl Fn(&'a A) -> Vec<Scalar<'a>>,
    ) -> Option<Vec<Scalar<'a>>> {
        array.as_any().downcast_ref().map(all)
    }
    fn ints<'a, T: NativeType + Into<i64>>(array: &'a PrimitiveArray<T>) -> Vec<Scalar<'a>> {
        array
            .iter()
            .map(|number| number.map_or(Scalar::Null, |number| Scalar::Int((*number).into())))
            .collect()
    }
    fn floats<'a, T: NativeType>(array: &'a PrimitiveArray<T>, of: fn(T) -> f64) -> Vec<Scalar<'a>> {
        array.iter().map(|number| number.map_or(Scalar::Null, |number| Scalar::Float(of(*number)))).collect()
    }
    fn text<'a>(text: Option<&'a str>) -> Scalar<'a> {
        text.map_or(Scalar::Null, |text| Scalar::Text(Cow::Borrowed(text)))
    }
    match array.dtype() {
        ArrowDataType::Null => Some(vec![Scalar::Null; array.len()]),
        ArrowDataType::Utf8 => of(array, |texts: &Utf8Array<i32>| texts.iter().map(text).collect()),
        ArrowDataType::LargeUtf8 => of(array, |texts: &Utf8Array<i64>| texts.iter().map(text).collect()),
        ArrowDataType::Utf8View => of(array, |texts: &Utf8ViewArray| texts.iter().map(text).collect()),
        ArrowDataType::Int8 => of(array, ints::<i8>),
        ArrowDataType::Int16 => of(array, ints::<i16>),
        ArrowDataType::Int32 => of(array, ints::<i32>),
        ArrowDataType::Int64 => of(array, ints::<i64>),
        ArrowDataType::UInt8 => of(array, ints::<u8>),
        ArrowDataType::UInt16 => of(array, ints::<u16>),
        ArrowDataType::UInt32 => of(array, ints::<u32>),
        ArrowDataType::Float32 => of(array, |array| floats::<f32>(array, shortest)),
        ArrowDataType::Float64 => of(array, |array| floats::<f64>(array, |number| number)),
        ArrowDataType::Boolean => of(array, |truths: &BooleanArray| {
            truths.iter().map(|truth| truth.map_or(Scalar::Null, Scalar::Bool)).collect()
        }),
        _ => None,
    }
}
