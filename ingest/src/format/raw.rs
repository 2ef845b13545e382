//! The identity of a chunk of a file: the digest of its bytes as they stand in the file, whatever is made of
//! them today.
//!
//! A format of rows gives the text of each row, unpacked, without white space around it, with the row's number in the chunk
//! (blank lines count in NDJSON); CSV also the header. An object of arrays gives its whole text. Arrow and Parquet give the
//! values of each column that is read, by the column's name; their encoding and cuts do not matter. The options of the
//! import come before all of it: another mapping makes other events.

use std::{collections::BTreeMap, fmt::Write as _};

use polars_arrow::{
    array::{
        Array, BooleanArray, DictionaryArray, DictionaryKey, Float16Array, PrimitiveArray, Utf8Array,
        Utf8ViewArray,
    },
    datatypes::{ArrowDataType, IntegerType},
    types::NativeType,
};
use sha2::{Digest, Sha256};

use super::frame::scalars;
use crate::builder::row::Scalar;

/// Prefix of the digest of a chunk. Another definition needs another one.
const SCHEME: &[u8] = b"almanac chunk 1\n";

/// Number of bytes given to a hash at once.
const STEP_BYTES: usize = 8 * 1024;

/// Position of a part of a file in it, and its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The digest of its bytes.
    pub digest: String,
    /// The number of its first row in the file.
    pub first: u64,
}

impl Origin {
    /// The index of the row that has this number in the file.
    pub fn index(&self, number: u64) -> u32 {
        number.saturating_sub(self.first) as u32
    }
}

/// The bytes of a chunk so far.
#[derive(Default)]
pub(crate) struct Raw {
    /// Digest input that comes before every chunk: the options of the import, and the header.
    context: Vec<u8>,
    first: Option<u64>,
    texts: Sha256,
    step: Vec<u8>,
    /// Digests of columns, by name and type of their values.
    columns: BTreeMap<(String, String), Sha256>,
}

impl Raw {
    /// Adds what every chunk begins with.
    pub(crate) fn context(&mut self, bytes: &[u8]) {
        self.context.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.context.extend_from_slice(bytes);
    }

    /// A row of text.
    pub(crate) fn row(&mut self, number: u64, raw: &[u8]) {
        let raw = raw.trim_ascii();
        let index = number - *self.first.get_or_insert(number);
        self.step.extend_from_slice(&(index as u32).to_le_bytes());
        self.step.extend_from_slice(&(raw.len() as u32).to_le_bytes());
        self.step.extend_from_slice(raw);
        if self.step.len() > STEP_BYTES {
            self.texts.update(&self.step);
            self.step.clear();
        }
    }

    /// A text that is the whole chunk.
    pub(crate) fn whole(&mut self, text: &[u8]) {
        self.row(1, text);
    }

    /// A piece of a column, whose rows begin with this number.
    pub(crate) fn column(&mut self, number: u64, name: &str, array: &dyn Array) {
        self.first.get_or_insert(number);
        let of_type = match array.dtype() {
            ArrowDataType::Utf8 | ArrowDataType::LargeUtf8 | ArrowDataType::Utf8View => "text".to_owned(),
            ArrowDataType::Dictionary(..) => "text".to_owned(),
            ArrowDataType::Timestamp(unit, zone) => format!("time {unit:?} {}", zone.is_some()),
            other => format!("{other:?}").to_lowercase(),
        };
        let hasher = self.columns.entry((name.to_owned(), of_type)).or_default();
        absorb(hasher, array);
    }

    /// The chunk ends: what it is known by. What comes next is another one.
    pub(crate) fn take(&mut self) -> Origin {
        let mut hasher = Sha256::new();
        hasher.update(SCHEME);
        hasher.update(&self.context);
        self.texts.update(&self.step);
        self.step.clear();
        hasher.update(self.texts.finalize_reset());
        for ((name, of_type), column) in std::mem::take(&mut self.columns) {
            for text in [name, of_type] {
                hasher.update((text.len() as u64).to_le_bytes());
                hasher.update(text);
            }
            hasher.update(column.finalize());
        }
        let digest = hasher.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            _ = write!(text, "{byte:02x}");
            text
        });
        Origin { digest, first: self.first.take().unwrap_or(1) }
    }
}

/// Puts the values of an array into a hash, one after the other; a null is a value of its own. What cannot be read
/// by an import is left out, since it is refused.
fn absorb(hasher: &mut Sha256, array: &dyn Array) {
    match array.dtype() {
        ArrowDataType::Float64 => numbers::<f64, 8>(hasher, array, f64::to_le_bytes),
        ArrowDataType::Float32 => numbers::<f32, 4>(hasher, array, f32::to_le_bytes),
        ArrowDataType::Float16 => {
            let Some(halves) = array.as_any().downcast_ref::<Float16Array>() else { return };
            values(hasher, halves.iter().map(|half| half.map(|half| half.to_le_bytes())));
        }
        ArrowDataType::Decimal(..) => numbers::<i128, 16>(hasher, array, i128::to_le_bytes),
        ArrowDataType::Int64
        | ArrowDataType::Timestamp(..)
        | ArrowDataType::Duration(_)
        | ArrowDataType::Date64 => numbers::<i64, 8>(hasher, array, i64::to_le_bytes),
        ArrowDataType::Int32 | ArrowDataType::Date32 => numbers::<i32, 4>(hasher, array, i32::to_le_bytes),
        ArrowDataType::Int16 => numbers::<i16, 2>(hasher, array, i16::to_le_bytes),
        ArrowDataType::Int8 => numbers::<i8, 1>(hasher, array, i8::to_le_bytes),
        ArrowDataType::UInt64 => numbers::<u64, 8>(hasher, array, u64::to_le_bytes),
        ArrowDataType::UInt32 => numbers::<u32, 4>(hasher, array, u32::to_le_bytes),
        ArrowDataType::UInt16 => numbers::<u16, 2>(hasher, array, u16::to_le_bytes),
        ArrowDataType::UInt8 => numbers::<u8, 1>(hasher, array, u8::to_le_bytes),
        ArrowDataType::Boolean => {
            let Some(truths) = array.as_any().downcast_ref::<BooleanArray>() else { return };
            values(hasher, truths.iter().map(|truth| truth.map(|truth| [u8::from(truth)])));
        }
        ArrowDataType::Dictionary(keys, _, _) => match keys {
            IntegerType::Int8 => dictionary::<i8>(hasher, array),
            IntegerType::Int16 => dictionary::<i16>(hasher, array),
            IntegerType::Int32 => dictionary::<i32>(hasher, array),
            IntegerType::Int64 => dictionary::<i64>(hasher, array),
            IntegerType::UInt8 => dictionary::<u8>(hasher, array),
            IntegerType::UInt16 => dictionary::<u16>(hasher, array),
            IntegerType::UInt32 => dictionary::<u32>(hasher, array),
            IntegerType::UInt64 => dictionary::<u64>(hasher, array),
            _ => {}
        },
        _ => {
            let texts = texts(array).unwrap_or_default();
            values(hasher, texts.into_iter());
        }
    }
}

/// The texts of an array that holds some.
fn texts(array: &dyn Array) -> Option<Vec<Option<&[u8]>>> {
    let any = array.as_any();
    if let Some(texts) = any.downcast_ref::<Utf8ViewArray>() {
        return Some(texts.iter().map(|text| text.map(str::as_bytes)).collect());
    }
    if let Some(texts) = any.downcast_ref::<Utf8Array<i64>>() {
        return Some(texts.iter().map(|text| text.map(str::as_bytes)).collect());
    }
    let texts = any.downcast_ref::<Utf8Array<i32>>()?;
    Some(texts.iter().map(|text| text.map(str::as_bytes)).collect())
}

fn dictionary<K: DictionaryKey>(hasher: &mut Sha256, array: &dyn Array) {
    let Some(array) = array.as_any().downcast_ref::<DictionaryArray<K>>() else { return };
    if let Some(texts) = texts(array.values().as_ref()) {
        return values(hasher, array.keys_iter().map(|key| texts.get(key?).copied().flatten()));
    }
    let bytes = |value: Scalar<'_>| match value {
        Scalar::Int(number) => Some(number.to_le_bytes().to_vec()),
        Scalar::Float(number) => Some(number.to_le_bytes().to_vec()),
        Scalar::Bool(truth) => Some(vec![u8::from(truth)]),
        Scalar::Text(text) => Some(text.as_bytes().to_vec()),
        Scalar::Null | Scalar::Other(_) => None,
    };
    let of_keys: Vec<_> = scalars(array.values().as_ref()).into_iter().flatten().map(bytes).collect();
    values(hasher, array.keys_iter().map(|key| of_keys.get(key?).and_then(Option::as_ref)));
}

fn numbers<T: NativeType, const N: usize>(hasher: &mut Sha256, array: &dyn Array, bytes: fn(T) -> [u8; N]) {
    let Some(array) = array.as_any().downcast_ref::<PrimitiveArray<T>>() else { return };
    values(hasher, array.iter().map(|number| number.map(|number| bytes(*number))));
}

fn values<B: AsRef<[u8]>>(hasher: &mut Sha256, values: impl Iterator<Item = Option<B>>) {
    let mut step = Vec::with_capacity(2 * STEP_BYTES);
    for value in values {
        match value.as_ref().map(AsRef::as_ref) {
            Some(bytes) => {
                step.extend_from_slice(&(bytes.len() as u32 + 1).to_le_bytes());
                step.extend_from_slice(bytes);
            }
            None => step.extend_from_slice(&0u32.to_le_bytes()),
        }
        if step.len() > STEP_BYTES {
            hasher.update(&step);
            step.clear();
        }
    }
    hasher.update(&step);
}
