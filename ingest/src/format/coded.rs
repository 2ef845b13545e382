//! Arrow streams decoded message by message: those with dictionaries, and those of files. The decoder of polars reads every key
//! of a dictionary, also those of nulls: Arrow allows any key there, and pandas and pyarrow write -1. Nor does it read deltas,
//! and it makes room for any claim of a message. So each message is checked and decoded by itself, keys as plain numbers and
//! dictionaries as columns of their own, and both are joined to arrays here.

use std::{
    collections::HashMap,
    io::{Cursor, Read},
    sync::Arc,
};

use polars_arrow::{
    array::{Array, DictionaryArray, DictionaryKey, PrimitiveArray},
    compute::concatenate::concatenate,
    datatypes::ArrowDataType,
    io::ipc::read::{StreamReader, StreamState, read_stream_metadata},
    record_batch::RecordBatch,
    types::NativeType,
};
use polars_arrow_format::ipc::{
    DictionaryBatch, Field, Int, KeyValue, Message, MessageHeader, MessageRef, Schema, Type, planus,
    planus::ReadAsRoot,
};

use super::{
    frame::{EXTENSION, UUID},
    ipc::{self, CONTINUATION, Most, broken},
};
use crate::batch::Refused;

/// End of a stream.
const END: [u8; 8] = [255, 255, 255, 255, 0, 0, 0, 0];

/// Alignment of the length of messages.
const ALIGNMENT: usize = 8;

/// Width of keys without a given type.
const KEY_BITS: i32 = 32;

/// Column whose values stand in a dictionary.
struct Coded {
    column: usize,
    dictionary: i64,
}

/// The values of a dictionary.
struct Values {
    /// Schema of a stream of these values alone, as a message.
    schema: Vec<u8>,
    /// Values read so far.
    array: Option<Box<dyn Array>>,
}

/// Batches of a stream.
pub(crate) struct Batches<R> {
    from: R,
    /// Names of the columns.
    pub(crate) names: Vec<String>,
    /// Schema with keys as numbers, and columns named by their number, as a message.
    schema: Vec<u8>,
    coded: Vec<Coded>,
    values: HashMap<i64, Values>,
    is_done: bool,
}

impl<R: Read> Batches<R> {
    /// Reads the beginning of a stream.
    ///
    /// # Errors
    /// Fails when it does not begin with a schema.
    pub(crate) fn begin(mut from: R) -> Result<Self, Refused> {
        let Some((message, _)) = next_message(&mut from)? else { return Err(broken("it is empty")) };
        ipc::check(&encoded(&message), &Most::OF_FILE_BATCH)?;
        let Message { header: Some(MessageHeader::Schema(mut schema)), version, .. } = message else {
            return Err(broken("it does not begin with a schema"));
        };
        let of = |fields: Vec<Field>, schema: &Schema| {
            let schema = Schema { fields: Some(fields), custom_metadata: None, ..schema.clone() };
            let header = Some(MessageHeader::Schema(Box::new(schema)));
            encoded(&Message { version, header, body_length: 0, custom_metadata: None })
        };
        let (mut names, mut coded, mut values) = (Vec::new(), Vec::new(), HashMap::new());
        let mut fields = schema.fields.take().unwrap_or_default();
        for (column, field) in fields.iter_mut().enumerate() {
            names.push(field.name.replace(column.to_string()).unwrap_or_default());
            // Its name and additional metadata would be read again with each message; only those of UUIDs have a meaning.
            let is_uuid = |entry: &KeyValue| {
                entry.key.as_deref() == Some(EXTENSION) && entry.value.as_deref() == Some(UUID)
            };
            field.custom_metadata =
                field.custom_metadata.take().filter(|entries| entries.iter().any(is_uuid));
            let Some(dictionary) = field.dictionary.take() else { continue };
            let key = dictionary.index_type.map(|key| *key);
            let key = key.unwrap_or(Int { bit_width: KEY_BITS, is_signed: true });
            let array = None;
            let schema = of(vec![field.clone()], &schema);
            values.insert(dictionary.id, Values { schema, array });
            coded.push(Coded { column, dictionary: dictionary.id });
            field.type_ = Some(Type::Int(Box::new(key)));
        }
        let schema = of(fields, &schema);
        Ok(Self { from, names, schema, coded, values, is_done: false })
    }

    /// Reads the next batch; `None` at the end.
    fn read(&mut self) -> Result<Option<RecordBatch>, Refused> {
        while let Some((message, body)) = next_message(&mut self.from)? {
            match message.header {
                Some(MessageHeader::DictionaryBatch(batch)) => {
                    self.dictionary(*batch, message.version, &body)?
                }
                Some(MessageHeader::RecordBatch(_)) => {
                    let batch = decoded(&self.schema, &encoded(&message), &body)?;
                    return self.with_values(batch).map(Some);
                }
                _ => return Err(broken("a message of an unknown kind")),
            }
        }
        Ok(None)
    }

    /// Reads the values of a dictionary, which replace its present ones or follow them.
    fn dictionary(
        &mut self,
        batch: DictionaryBatch,
        version: polars_arrow_format::ipc::MetadataVersion,
        body: &[u8],
    ) -> Result<(), Refused> {
        let DictionaryBatch { id, data: Some(data), is_delta } = batch else {
            return Err(broken("an empty dictionary"));
        };
        let values = self.values.get_mut(&id).ok_or_else(|| broken("a dictionary of no column"))?;
        let header = Some(MessageHeader::RecordBatch(data));
        let message = Message { version, header, body_length: body.len() as i64, custom_metadata: None };
        let batch = decoded(&values.schema, &encoded(&message), body)?;
        let [new] = batch.arrays() else { return Err(broken("a dictionary of several columns")) };
        values.array = Some(match values.array.take().filter(|_| is_delta) {
            Some(known) => concatenate(&[known.as_ref(), new.as_ref()]).map_err(broken)?,
            None => new.clone(),
        });
        Ok(())
    }

    /// Joins the keys of a batch with the values of their dictionaries.
    fn with_values(&self, batch: RecordBatch) -> Result<RecordBatch, Refused> {
        let (rows, schema) = (batch.len(), Arc::new(batch.schema().clone()));
        let mut arrays = batch.into_arrays();
        for Coded { column, dictionary } in &self.coded {
            let keys = arrays.get_mut(*column).ok_or_else(|| broken("a batch has too few columns"))?;
            let values = self.values.get(dictionary).and_then(|values| values.array.clone());
            *keys = match values {
                Some(values) => dictionary_of(keys.as_ref(), values)?,
                None if keys.null_count() == keys.len() => {
                    polars_arrow::array::new_null_array(ArrowDataType::Null, keys.len())
                }
                None => return Err(broken("a batch comes before its dictionary")),
            };
        }
        RecordBatch::try_new(rows, schema, arrays).map_err(broken)
    }
}

impl<R: Read> Iterator for Batches<R> {
    type Item = Result<RecordBatch, Refused>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let read = self.read();
        self.is_done = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}

/// Reads the next message of a stream, with its body.
fn next_message(from: &mut impl Read) -> Result<Option<(Message, Vec<u8>)>, Refused> {
    let mut length = taken(from, 4)?;
    if length.is_empty() {
        return Ok(None);
    }
    if length == CONTINUATION.to_le_bytes() {
        length = taken(from, 4)?;
    }
    let length = length.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if length == 0 {
        return Ok(None);
    }
    let metadata = whole(from, u64::from(length))?;
    let message = MessageRef::read_as_root(&metadata).and_then(Message::try_from).map_err(broken)?;
    let body = u64::try_from(message.body_length).map_err(|_| broken("a body of negative length"))?;
    let body = whole(from, body)?;
    Ok(Some((message, body)))
}

/// Reads at most this many bytes.
fn taken(from: &mut impl Read, bytes: u64) -> Result<Vec<u8>, Refused> {
    let mut taken = Vec::new();
    from.take(bytes).read_to_end(&mut taken).map_err(broken)?;
    Ok(taken)
}

fn whole(from: &mut impl Read, bytes: u64) -> Result<Vec<u8>, Refused> {
    let taken = taken(from, bytes)?;
    if taken.len() as u64 == bytes { Ok(taken) } else { Err(broken("a message ends too early")) }
}

/// Encodes a message as in a stream, without its body.
pub(crate) fn encoded(message: &Message) -> Vec<u8> {
    let mut builder = planus::Builder::new();
    let bytes = builder.finish(message, None);
    let length = bytes.len().next_multiple_of(ALIGNMENT);
    let mut encoded = [CONTINUATION.to_le_bytes(), (length as u32).to_le_bytes()].concat();
    encoded.extend_from_slice(bytes);
    encoded.resize(2 * size_of::<u32>() + length, 0);
    encoded
}

/// Decodes the batch of a message.
fn decoded(schema: &[u8], message: &[u8], body: &[u8]) -> Result<RecordBatch, Refused> {
    let stream = [schema, message, body, &END].concat();
    ipc::check(&stream, &Most::OF_FILE_BATCH)?;
    let mut stream = Cursor::new(stream);
    let metadata = read_stream_metadata(&mut stream).map_err(broken)?;
    match StreamReader::new(stream, metadata, None).next() {
        Some(Ok(StreamState::Some(batch))) => Ok(batch),
        Some(Err(error)) => Err(broken(error)),
        _ => Err(broken("a message ends too early")),
    }
}

/// Makes the array of keys and their values.
fn dictionary_of(keys: &dyn Array, values: Box<dyn Array>) -> Result<Box<dyn Array>, Refused> {
    match keys.dtype() {
        ArrowDataType::Int8 => of_keys::<i8>(keys, values),
        ArrowDataType::Int16 => of_keys::<i16>(keys, values),
        ArrowDataType::Int32 => of_keys::<i32>(keys, values),
        ArrowDataType::Int64 => of_keys::<i64>(keys, values),
        ArrowDataType::UInt8 => of_keys::<u8>(keys, values),
        ArrowDataType::UInt16 => of_keys::<u16>(keys, values),
        ArrowDataType::UInt32 => of_keys::<u32>(keys, values),
        ArrowDataType::UInt64 => of_keys::<u64>(keys, values),
        other => Err(broken(format!("keys of type {other:?} are not known here"))),
    }
}

fn of_keys<K: DictionaryKey + NativeType>(
    keys: &dyn Array,
    values: Box<dyn Array>,
) -> Result<Box<dyn Array>, Refused> {
    let keys: Option<&PrimitiveArray<K>> = keys.as_any().downcast_ref();
    let keys = keys.ok_or_else(|| broken("keys are not of their type"))?;
    // The key of a null becomes 0.
    let keys: PrimitiveArray<K> = keys.iter().map(|key| key.copied()).collect();
    Ok(Box::new(DictionaryArray::try_from_keys(keys, values, false).map_err(broken)?))
}
