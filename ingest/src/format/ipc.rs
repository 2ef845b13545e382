//! Stream format of Arrow. Before anything is decoded, its messages are walked: their claims must lie within the body and within
//! the limits.

use std::{collections::BTreeSet, io::Cursor, ops::Range};

use polars_arrow::{
    datatypes::{ArrowDataType, ArrowSchema, Field},
    io::ipc::read::{StreamMetadata, StreamReader, StreamState, read_stream_metadata},
    record_batch::RecordBatch,
};
use polars_arrow_format::ipc::{
    MessageHeaderRef, MessageRef, RecordBatchRef, SchemaRef, TypeRef, planus, planus::ReadAsRoot,
};

use super::{
    caught,
    coded::Batches,
    collect::{Collector, places, too_many_rows},
    frame,
};
use crate::{
    batch::Refused,
    builder::names::Names,
    limits::{MAX_BATCH_ROWS, MAX_BODY_BYTES, MAX_FIELDS},
};

/// Beginning of a message, since version 0.15 of the format.
pub(super) const CONTINUATION: u32 = u32::MAX;
/// Beginning of a file with a footer.
pub(crate) const FILE: &[u8] = b"ARROW1";
/// Maximum batches of dictionaries in a body; the decoder handles consecutive ones by recursion.
const MAX_DICTIONARIES: usize = 256;
/// Bytes of columns of a large batch that are decoded together.
const PART_BYTES: u64 = 8 * 1024 * 1024;
/// Maximum parts in which the columns of a batch are decoded.
const MAX_PARTS: usize = 32;
/// Number of buffers of a column: the nulls, the ends of the values, and the values.
const COLUMN_BUFFERS: u64 = 3;
/// Number of copies of a batch with dictionaries in memory while it is decoded.
const CODED_COPIES: u64 = 3;

/// Message for a body that is no stream.
const NO_STREAM: &str = "this is not an Arrow stream that can be read";
/// Message for a file that is no Arrow file.
const NO_FILE: &str = "this is not an Arrow file that can be read";

/// Error of a body that is not valid.
pub(super) fn broken(what: impl std::fmt::Display) -> Refused {
    Refused::Whole(format!("{NO_STREAM}: {what}"))
}

/// Changes an error of a body to one of a file, which need not be a stream, and whose batches have limits of their own.
pub(crate) fn of_file(refused: Refused) -> Refused {
    let Most { rows, bytes } = Most::OF_FILE_BATCH;
    match refused {
        Refused::Whole(text) => Refused::Whole(text.replacen(NO_STREAM, NO_FILE, 1)),
        Refused::TooLarge(_) => Refused::TooLarge(format!(
            "a batch of the file has more than {rows} rows, or more than {} MiB when it is decoded; write the file in smaller batches",
            bytes >> 20
        )),
        other @ (Refused::Rows { .. } | Refused::NoRoom) => other,
    }
}

/// Reads a whole stream into the builder.
///
/// # Errors
/// Fails when it is none, exceeds a limit, or has an unknown column.
pub(crate) fn read(names: &Names, body: &[u8], out: &mut Collector) -> Result<(), Refused> {
    if body.starts_with(FILE) {
        return Err(Refused::Whole(
            "this is an Arrow file (Feather), not a stream; write one (pyarrow.ipc.new_stream, write_ipc_stream), or import the file"
                .into(),
        ));
    }
    let sums = check(body, &Most::OF_BODY)?;
    caught("an Arrow stream", || {
        let metadata = read_stream_metadata(&mut Cursor::new(body)).map_err(broken)?;
        let places = places(names, metadata.schema.iter_names().map(|name| name.as_str()))?;
        let has_dictionaries = metadata.ipc_schema.fields.iter().any(|field| field.dictionary_id.is_some());
        let (step, beside) = match has_dictionaries {
            true => (places.len(), CODED_COPIES * sums.largest + sums.dictionary_bytes),
            false => step(&metadata.schema, &sums),
        };
        out.builder.expect(&places, sums.rows as usize)?;
        out.builder.hold_beside(beside as usize)?;
        let mut rows = 0;
        for start in (0..places.len()).step_by(step.max(1)) {
            let columns = start..places.len().min(start + step);
            let batches: Box<dyn Iterator<Item = _>> = match has_dictionaries {
                true => Box::new(Batches::begin(body)?),
                false => Box::new(batches(body, metadata.clone(), columns.clone())?),
            };
            let mut from = 0;
            for batch in batches {
                let batch = batch?;
                if from + batch.len() > MAX_BATCH_ROWS {
                    return Err(too_many_rows());
                }
                if from == rows {
                    out.builder.add_rows(rows as u64 + 1, batch.len());
                    rows += batch.len();
                }
                for (place, array) in places[columns.clone()].iter().zip(batch.arrays()) {
                    frame::fill(&mut out.builder, place, from, frame::readable(array.clone()).as_ref())?;
                }
                from += batch.len();
                out.builder.claim(from)?;
            }
        }
        Ok(())
    })
}

/// Reads some columns of the batches of a stream without dictionaries.
fn batches(
    body: &[u8],
    metadata: StreamMetadata,
    columns: Range<usize>,
) -> Result<impl Iterator<Item = Result<RecordBatch, Refused>>, Refused> {
    let mut bytes = Cursor::new(body);
    read_stream_metadata(&mut bytes).map_err(broken)?;
    let states = StreamReader::new(bytes, metadata, Some(columns.collect()));
    Ok(states.map_while(|state| match state {
        Ok(StreamState::Some(batch)) => Some(Ok(batch)),
        Ok(StreamState::Waiting) => None,
        Err(error) => Some(Err(broken(error))),
    }))
}

/// Number of columns of a batch that are decoded together, which usually take [`PART_BYTES`], and their maximum bytes.
fn step(schema: &ArrowSchema, sums: &Sums) -> (usize, u64) {
    let is_view = |field: &Field| matches!(field.dtype, ArrowDataType::Utf8View | ArrowDataType::BinaryView);
    // A view may have any number of buffers.
    if sums.largest <= PART_BYTES || schema.iter_values().any(is_view) {
        return (schema.len(), sums.largest);
    }
    let of_column = COLUMN_BUFFERS * sums.largest_buffer.max(1);
    let step = (PART_BYTES / of_column).max((schema.len() / MAX_PARTS) as u64 + 1);
    (step as usize, sums.largest.min(step * of_column))
}

/// Limits of a stream.
pub(super) struct Most {
    rows: usize,
    bytes: usize,
}

impl Most {
    /// Limits of the body of a request.
    const OF_BODY: Self = Self { rows: MAX_BATCH_ROWS, bytes: MAX_BODY_BYTES };
    /// Limits of a batch of a file; libraries write batches of some megabytes.
    pub(super) const OF_FILE_BATCH: Self = Self { rows: 64 << 20, bytes: 1 << 30 };
}

/// Sums over the messages so far.
#[derive(Default)]
pub(super) struct Sums {
    rows: u64,
    batches: u64,
    bytes: u64,
    /// Bytes of the largest batch, of all dictionaries and of the largest buffer after inflation.
    largest: u64,
    dictionary_bytes: u64,
    largest_buffer: u64,
    dictionaries: usize,
}

/// Walks the messages without decoding their content.
pub(super) fn check(body: &[u8], most: &Most) -> Result<Sums, Refused> {
    let mut at = 0;
    let mut sums = Sums::default();
    let mut is_first = true;
    while let Some(mut length) = word(body, at) {
        at += 4;
        if length == CONTINUATION {
            length = word(body, at).ok_or_else(|| broken("a message ends too early"))?;
            at += 4;
        }
        if length == 0 {
            return Ok(sums);
        }
        let end = at.saturating_add(length as usize);
        let message = body.get(at..end).ok_or_else(|| broken("a message is longer than the body"))?;
        let (header, held) = header(message).map_err(broken)?;
        let held = usize::try_from(held).ok().and_then(|held| end.checked_add(held));
        let rest = held.and_then(|after| body.get(end..after));
        let rest = rest.ok_or_else(|| broken("a message claims more than the body holds"))?;
        match header {
            Some(MessageHeaderRef::Schema(schema)) if is_first => check_schema(schema)?,
            _ if is_first => return Err(broken("it does not begin with a schema")),
            Some(MessageHeaderRef::RecordBatch(batch)) => {
                let rows = u64::try_from(batch.length().map_err(broken)?).unwrap_or(u64::MAX);
                // A batch usually has rows, and costs something also without.
                sums.rows = sums.rows.saturating_add(rows);
                sums.batches += 1;
                let before = sums.bytes;
                check_batch(batch, rest, (&mut sums, most))?;
                sums.largest = sums.largest.max(sums.bytes - before);
            }
            Some(MessageHeaderRef::DictionaryBatch(dictionary)) => {
                sums.dictionaries += 1;
                let data = dictionary.data().map_err(broken)?;
                let before = sums.bytes;
                check_batch(data.ok_or_else(|| broken("an empty dictionary"))?, rest, (&mut sums, most))?;
                sums.dictionary_bytes += sums.bytes - before;
            }
            _ => return Err(broken("a message of an unknown kind")),
        }
        if sums.dictionaries > MAX_DICTIONARIES {
            return Err(broken(format!("there are more than {MAX_DICTIONARIES} batches of dictionaries")));
        }
        is_first = false;
        at = end + rest.len();
    }
    if is_first { Err(broken("it ends too early")) } else { Ok(sums) }
}

fn word(body: &[u8], at: usize) -> Option<u32> {
    body.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_le_bytes(*bytes))
}

fn header(message: &[u8]) -> planus::Result<(Option<MessageHeaderRef<'_>>, i64)> {
    let message = MessageRef::read_as_root(message)?;
    Ok((message.header()?, message.body_length()?))
}

/// Refuses lists and structs; so no schema nests deeper than the decoder's stack. Refuses two columns of one name, of which the
/// decoder keeps one and then panics.
fn check_schema(schema: SchemaRef<'_>) -> Result<(), Refused> {
    let fields = schema.fields().map_err(broken)?.ok_or_else(|| broken("it has no columns"))?;
    if fields.len() > MAX_FIELDS {
        return Err(broken(format!("there are more than {MAX_FIELDS} columns")));
    }
    let mut names = BTreeSet::new();
    for field in fields.iter() {
        let field = field.map_err(broken)?;
        let name = field.name().map_err(broken)?.unwrap_or_default();
        if field.children().map_err(broken)?.is_some_and(|children| !children.is_empty()) {
            return Err(Refused::Whole(format!("the column `{name}`: lists and structs are not known here")));
        }
        if matches!(field.type_().map_err(broken)?, Some(TypeRef::Decimal(kind)) if kind.bit_width().map_err(broken)? > 128)
        {
            return Err(Refused::Whole(format!(
                "the column `{name}`: decimals of more than 38 digits are not known here"
            )));
        }
        if !names.insert(name) {
            return Err(Refused::Whole(format!("the column `{name}` is given twice")));
        }
    }
    Ok(())
}

/// Checks that its buffers lie within the message, and are not larger than a body after inflation.
fn check_batch(
    batch: RecordBatchRef<'_>,
    held: &[u8],
    (sums, most): (&mut Sums, &Most),
) -> Result<(), Refused> {
    if sums.rows.max(sums.batches) > most.rows as u64 {
        return Err(too_many_rows());
    }
    for node in batch.nodes().map_err(broken)?.into_iter().flatten() {
        // A dictionary may be longer than the batch has rows, but not longer than its own bytes.
        if !(0..=held.len().max(most.rows) as i64).contains(&node.length()) {
            return Err(broken("an array is longer than it can be"));
        }
    }
    let is_compressed = batch.compression().map_err(broken)?.is_some();
    for buffer in batch.buffers().map_err(broken)?.into_iter().flatten() {
        let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let bytes = range.and_then(|(from, length)| held.get(from..from.checked_add(length)?));
        let bytes = bytes.ok_or_else(|| broken("a buffer lies outside of its message"))?;
        let inflated = match bytes.first_chunk() {
            _ if !is_compressed || bytes.is_empty() => bytes.len() as u64,
            Some(length) => match i64::from_le_bytes(*length) {
                -1 => bytes.len() as u64,
                length => u64::try_from(length).map_err(|_| broken("a buffer of negative length"))?,
            },
            None => return Err(broken("a compressed buffer without its length")),
        };
        sums.bytes = sums.bytes.saturating_add(inflated);
        sums.largest_buffer = sums.largest_buffer.max(inflated);
        if sums.bytes > most.bytes as u64 {
            return Err(super::too_large());
        }
    }
    Ok(())
}
