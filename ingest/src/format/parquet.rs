//! Parquet. Before anything is decoded, its footer and the headers of its pages are walked: their claims must lie within the body
//! and within the limits.

use std::{collections::HashMap, io::Cursor, ops::Range};

use base64::{Engine, prelude::BASE64_STANDARD};
use polars::prelude::{CompatLevel, DataFrame};
use polars_arrow::{
    array::{Array, BinaryViewArray, Float64Array, PrimitiveArray},
    datatypes::{ArrowDataType, IntervalUnit, TimeUnit},
    types::NativeType,
};
use polars_arrow_format::ipc::{
    self, DateUnit, MessageHeaderRef, MessageRef, TypeRef, planus, planus::ReadAsRoot,
};
use polars_io::{SerReader, mmap::MmapBytesReader, parquet::read::ParquetReader};
use polars_parquet::parquet::{
    metadata::SchemaDescriptor,
    schema::types::{ParquetType, PhysicalType, PrimitiveConvertedType, PrimitiveLogicalType},
};

use super::{
    caught,
    collect::{Collector, places, too_many_rows},
    frame,
    ipc::CONTINUATION,
    thrift::{LIST, STRUCT, Thrift},
};
use crate::{
    batch::Refused,
    builder::names::{ColumnTarget, Names},
    limits::{MAX_BATCH_ROWS, MAX_BODY_BYTES, MAX_FIELDS},
};

const MAGIC: &[u8; 4] = b"PAR1";
/// Maximum bytes of the footer of a body; usual ones have a few thousand.
const MAX_FOOTER_BYTES: usize = 1024 * 1024;
/// Maximum bytes of a value of fixed length.
const MAX_FIXED_BYTES: i64 = 256;
/// Key under which a writer stores the types that its columns had in memory.
const ARROW_SCHEMA: &str = "ARROW:schema";
/// Decoded bytes of columns that are decoded together.
const PART_BYTES: usize = 8 * 1024 * 1024;
/// Maximum bytes of a decoded value, besides the text that stands in its page.
const DECODED_VALUE_BYTES: usize = 16;

fn broken(what: impl std::fmt::Display) -> Refused {
    Refused::Whole(format!("this is not a Parquet file that can be read: {what}"))
}

/// Reads a whole body into the builder, some columns at a time, so that little is decoded beside the rows.
///
/// # Errors
/// Fails when it is no Parquet, exceeds a limit, or has an unknown column; when there is no memory for its rows.
pub(crate) fn read(names: &Names, body: &[u8], out: &mut Collector) -> Result<(), Refused> {
    let Claims { rows, inflated } = check(body)?;
    caught("a Parquet file", || {
        let (mut reader, types) = open(Cursor::new(body), |_| true)?;
        let schema = reader.schema().map_err(broken)?;
        let metadata = reader.get_metadata().map_err(broken)?.clone();
        let places = places(names, schema.iter_names().map(|name| name.as_str()))?;
        let parts = parts(rows, &inflated, schema.len());
        out.builder.expect(&places, rows)?;
        out.builder.hold_beside(parts.iter().map(|(_, bytes)| *bytes).max().unwrap_or_default())?;
        out.builder.add_rows(1, rows);
        for (columns, _) in parts {
            let mut part = ParquetReader::new(Cursor::new(body));
            part.set_metadata(metadata.clone());
            let frame = part.with_projection(Some(columns.clone().collect())).finish().map_err(broken)?;
            if frame.height() != rows {
                return Err(broken("its groups have other rows than it says"));
            }
            fill_columns(&places[columns], &types, &frame, (0, 1), out)?;
            out.builder.claim(rows)?;
        }
        Ok(())
    })
}

/// Groups of columns that are decoded together, with their approximate bytes: about [`PART_BYTES`], or one column.
fn parts(rows: usize, inflated: &[u64], columns: usize) -> Vec<(Range<usize>, usize)> {
    let mut parts: Vec<(Range<usize>, usize)> = Vec::new();
    for column in 0..columns {
        let inflated = inflated.get(column).map_or(0, |bytes| *bytes as usize);
        let bytes = inflated.saturating_add(rows * DECODED_VALUE_BYTES);
        match parts.last_mut() {
            Some((part, sum)) if *sum + bytes <= PART_BYTES => {
                part.end += 1;
                *sum += bytes;
            }
            _ => parts.push((column..column + 1, bytes)),
        }
    }
    parts
}

/// Opens a reader of the wanted columns, and reads the types that only a note of their writer holds. Other types are those of the
/// file itself: the note also marks texts that were dictionaries in memory (pandas' and polars' `Categorical`, `Enum`), and the
/// decoder panics on that.
///
/// # Errors
/// Fails when it is no Parquet file, or a wanted column is of a type that no field takes: the decoder panics on some of those as
/// well.
pub(crate) fn open<R: MmapBytesReader>(
    source: R,
    wanted: impl Fn(&str) -> bool,
) -> Result<(ParquetReader<R>, NotedTypes), Refused> {
    let mut reader = ParquetReader::new(source);
    let mut metadata = reader.get_metadata().map_err(broken)?.as_ref().clone();
    let mut noted = NotedTypes::default();
    if let Some(notes) = &mut metadata.key_value_metadata {
        let schema = notes.iter().find(|note| note.key == ARROW_SCHEMA).and_then(|note| note.value.as_ref());
        noted = schema.map_or(Ok(NotedTypes::default()), |schema| NotedTypes::read(schema))?;
        notes.retain(|note| note.key != ARROW_SCHEMA);
    }
    let fields = metadata.schema_descr.fields().iter().map(|field| noted.plain(field.clone())).collect();
    metadata.schema_descr = SchemaDescriptor::new(metadata.schema_descr.name().into(), fields);
    reader.set_metadata(metadata.into());
    let schema = reader.schema().map_err(broken)?;
    let columns = schema.iter_values().enumerate().filter(|(_, column)| wanted(&column.name));
    let columns: Vec<_> = columns.collect();
    for (_, column) in &columns {
        let kind = noted.of(&column.name, &column.dtype);
        if !kind.map_or_else(|| is_readable(&column.dtype), |kind| is_readable(kind) || is_converted(kind)) {
            let kind = kind.unwrap_or(&column.dtype);
            let message = format!("the column `{}`: values of type {kind:?} are not known here", column.name);
            return Err(Refused::Whole(message));
        }
    }
    let places = (columns.len() < schema.len()).then(|| columns.iter().map(|(at, _)| *at).collect());
    Ok((reader.with_projection(places), noted))
}

/// Types of columns that are made here of plain values, by name. Parquet has none for some times and for durations: there they are
/// whole numbers, and only a note of their writer holds their unit. The decoder has none for decimals, halves and UUIDs.
#[derive(Default)]
pub(crate) struct NotedTypes(HashMap<String, ArrowDataType>);

impl NotedTypes {
    /// Reads the note: a schema as a message of Arrow, in base 64.
    fn read(note: &str) -> Result<Self, Refused> {
        let wrong = || broken("the note of its writer about its types is damaged");
        let bytes = BASE64_STANDARD.decode(note).map_err(|_| wrong())?;
        // Since version 0.15 of Arrow its length stands before the message.
        let message = match bytes.split_first_chunk::<8>() {
            Some((length, message)) if length[..4] == CONTINUATION.to_le_bytes() => message,
            _ => &bytes,
        };
        noted_types(message).ok().flatten().map(Self).ok_or_else(wrong)
    }

    /// Notes the type of a decimal, half or UUID, and returns the field as plain numbers or bytes.
    fn plain(&mut self, field: ParquetType) -> ParquetType {
        let ParquetType::PrimitiveType(mut field) = field else { return field };
        let has_room = match field.physical_type {
            PhysicalType::FixedLenByteArray(bytes) => bytes <= size_of::<i128>(),
            ref other => matches!(other, PhysicalType::Int32 | PhysicalType::Int64),
        };
        let kind = match (field.logical_type, field.converted_type) {
            (Some(PrimitiveLogicalType::Decimal(digits, scale)), _)
            | (None, Some(PrimitiveConvertedType::Decimal(digits, scale)))
                if has_room =>
            {
                ArrowDataType::Decimal(digits, scale)
            }
            (Some(PrimitiveLogicalType::Float16), _) => ArrowDataType::Float16,
            (Some(PrimitiveLogicalType::Uuid), _) => ArrowDataType::Utf8,
            _ => return ParquetType::PrimitiveType(field),
        };
        self.0.insert(field.field_info.name.to_string(), kind);
        (field.logical_type, field.converted_type) = (None, None);
        ParquetType::PrimitiveType(field)
    }

    /// Noted type of a column, if the file has it as whole numbers or bytes of type `kind`.
    fn of(&self, column: &str, kind: &ArrowDataType) -> Option<&ArrowDataType> {
        use ArrowDataType::{BinaryView, FixedSizeBinary, Int32, Int64};
        self.0.get(column).filter(|_| matches!(kind, Int64 | Int32 | FixedSizeBinary(_) | BinaryView))
    }

    /// Converts the values of a column to their noted type.
    fn apply(&self, column: &str, array: Box<dyn Array>) -> Box<dyn Array> {
        fn of<T: NativeType>(array: &dyn Array, kind: &ArrowDataType) -> Option<Box<dyn Array>> {
            let array: &PrimitiveArray<T> = array.as_any().downcast_ref()?;
            let (values, validity) = (array.values().clone(), array.validity().cloned());
            Some(PrimitiveArray::try_new(kind.clone(), values, validity).ok()?.boxed())
        }
        let Some(kind) = self.of(column, array.dtype()) else { return array };
        if is_converted(kind) || array.as_any().is::<BinaryViewArray>() {
            return converted(array.as_ref(), kind).unwrap_or(array);
        }
        of::<i64>(array.as_ref(), kind).or_else(|| of::<i32>(array.as_ref(), kind)).unwrap_or(array)
    }
}

fn noted_types(message: &[u8]) -> planus::Result<Option<HashMap<String, ArrowDataType>>> {
    let Some(MessageHeaderRef::Schema(schema)) = MessageRef::read_as_root(message)?.header()? else {
        return Ok(None);
    };
    let mut types = HashMap::new();
    for field in schema.fields()?.into_iter().flatten() {
        let field = field?;
        let kind = match field.type_()? {
            Some(TypeRef::Duration(kind)) => ArrowDataType::Duration(unit(kind.unit()?)),
            Some(TypeRef::Timestamp(kind)) => {
                ArrowDataType::Timestamp(unit(kind.unit()?), kind.timezone()?.map(Into::into))
            }
            Some(TypeRef::Date(kind)) if kind.unit()? == DateUnit::Millisecond => ArrowDataType::Date64,
            Some(TypeRef::Date(_)) => ArrowDataType::Date32,
            Some(TypeRef::Time(kind)) if kind.bit_width()? == 32 => ArrowDataType::Time32(unit(kind.unit()?)),
            Some(TypeRef::Time(kind)) => ArrowDataType::Time64(unit(kind.unit()?)),
            Some(TypeRef::Interval(_)) => ArrowDataType::Interval(IntervalUnit::YearMonth),
            _ => continue,
        };
        types.insert(field.name()?.unwrap_or_default().to_owned(), kind);
    }
    Ok(Some(types))
}

fn unit(unit: ipc::TimeUnit) -> TimeUnit {
    match unit {
        ipc::TimeUnit::Second => TimeUnit::Second,
        ipc::TimeUnit::Millisecond => TimeUnit::Millisecond,
        ipc::TimeUnit::Microsecond => TimeUnit::Microsecond,
        ipc::TimeUnit::Nanosecond => TimeUnit::Nanosecond,
    }
}

/// Returns whether values of this type are made of numbers or bytes, and never read from a file as such.
fn is_converted(kind: &ArrowDataType) -> bool {
    matches!(kind, ArrowDataType::Decimal(..) | ArrowDataType::Float16)
}

/// Makes decimals of whole numbers or of bytes with the first one highest; numbers of halves; texts of UUIDs.
fn converted(array: &dyn Array, kind: &ArrowDataType) -> Option<Box<dyn Array>> {
    let any = array.as_any();
    let bytes = any.downcast_ref::<BinaryViewArray>();
    Some(match kind {
        ArrowDataType::Decimal(..) => {
            let number = |bytes: &[u8]| {
                let sign = if bytes.first().is_some_and(|byte| byte >> 7 == 1) { -1 } else { 0 };
                bytes.iter().fold(sign, |number: i128, byte| number << 8 | i128::from(*byte))
            };
            let long = any.downcast_ref::<PrimitiveArray<i64>>();
            let short = any.downcast_ref::<PrimitiveArray<i32>>();
            let numbers: PrimitiveArray<i128> = match (bytes, long, short) {
                (Some(bytes), ..) => bytes.iter().map(|bytes| bytes.map(number)).collect(),
                (_, Some(long), _) => {
                    long.iter().map(|number| number.map(|number| (*number).into())).collect()
                }
                (.., short) => short?.iter().map(|number| number.map(|number| (*number).into())).collect(),
            };
            numbers.to(kind.clone()).boxed()
        }
        ArrowDataType::Float16 => {
            let half = |bytes: &[u8]| bytes.first_chunk().map(|bytes| frame::half_of(*bytes));
            bytes?.iter().map(|bytes| bytes.and_then(half)).collect::<Float64Array>().boxed()
        }
        _ => frame::uuids(bytes?.iter()),
    })
}

/// Returns whether a field may take values of this type.
fn is_readable(kind: &ArrowDataType) -> bool {
    use ArrowDataType::*;
    let numbers =
        matches!(kind, Float64 | Float32 | Int64 | Int32 | Int16 | Int8 | UInt64 | UInt32 | UInt16 | UInt8);
    let times = matches!(kind, Timestamp(..) | Duration(_) | Date32 | Date64);
    numbers || times || matches!(kind, Null | Boolean | Utf8 | LargeUtf8 | Utf8View)
}

/// Puts the rows of a dataframe into the builder, numbered on from `number`.
///
/// # Errors
/// Fails when it has an unknown column, or one of a type that no field takes.
pub(crate) fn fill(
    names: &Names,
    types: &NotedTypes,
    frame: &DataFrame,
    number: u64,
    out: &mut Collector,
) -> Result<(), Refused> {
    let places = places(names, frame.columns().iter().map(|column| column.name().as_str()))?;
    let from = out.builder.rows();
    out.builder.add_rows(number, frame.height());
    fill_columns(&places, types, frame, (from, number), out)
}

/// Puts the columns of a dataframe into rows that were added before, at `from` and numbered on from `number`.
fn fill_columns(
    places: &[(String, Vec<ColumnTarget>)],
    types: &NotedTypes,
    frame: &DataFrame,
    (from, number): (usize, u64),
    out: &mut Collector,
) -> Result<(), Refused> {
    for (place, column) in places.iter().zip(frame.columns()) {
        let series = column.as_materialized_series();
        let mut row = from;
        for chunk in 0..series.n_chunks() {
            let array = types.apply(&place.0, series.to_arrow(chunk, CompatLevel::newest()));
            frame::fill(&mut out.builder, place, row, array.as_ref())?;
            out.column(number + (row - from) as u64, place, array.as_ref());
            row += array.len();
        }
    }
    Ok(())
}

/// Claims of a whole file.
struct Claims {
    rows: usize,
    /// Inflated bytes of the pages of each column.
    inflated: Vec<u64>,
}

/// Claims of a column chunk.
#[derive(Default)]
struct Claim {
    /// Index of the column in its group.
    column: usize,
    compressed: i64,
    first_page: i64,
    dictionary: Option<i64>,
}

/// Claims of the footer.
#[derive(Default)]
struct Footer {
    elements: usize,
    /// True if a column has columns of its own.
    is_nested: bool,
    has_long_values: bool,
    rows: i64,
    claims: Vec<Claim>,
}

/// Walks the footer and the pages without decoding their content.
fn check(body: &[u8]) -> Result<Claims, Refused> {
    let end = body.len().checked_sub(8).filter(|end| *end >= 4 && body[end + 4..] == *MAGIC);
    let end = end.ok_or_else(|| broken("it does not end as one"))?;
    let length = body[end..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
    let start = end.checked_sub(length).filter(|_| length <= MAX_FOOTER_BYTES);
    let start = start.ok_or_else(|| broken("its footer is too long"))?;
    let footer = read_footer(&body[start..end]).ok_or_else(|| broken("its footer is damaged"))?;
    if footer.is_nested || footer.has_long_values {
        return Err(Refused::Whole("lists, structs and long binary values are not known here".into()));
    }
    if footer.elements > MAX_FIELDS + 1 {
        return Err(broken(format!("there are more than {MAX_FIELDS} columns")));
    }
    if footer.rows > MAX_BATCH_ROWS as i64 {
        return Err(too_many_rows());
    }
    let (mut all, mut inflated) = (0, vec![0; footer.elements]);
    for claim in &footer.claims {
        let chunk = chunk(&body[..start], claim).ok_or_else(|| broken("a column lies outside of it"))?;
        let before = all;
        check_pages(chunk, &mut all)?;
        if let Some(column) = inflated.get_mut(claim.column) {
            *column += all - before;
        }
    }
    Ok(Claims { rows: footer.rows as usize, inflated })
}

fn chunk<'a>(body: &'a [u8], claim: &Claim) -> Option<&'a [u8]> {
    // Some writers leave a zero if there is no dictionary.
    let dictionary = claim.dictionary.filter(|at| *at > 0 && *at < claim.first_page);
    let from = usize::try_from(dictionary.unwrap_or(claim.first_page)).ok()?;
    body.get(from..from.checked_add(usize::try_from(claim.compressed).ok()?)?)
}

fn check_pages(chunk: &[u8], inflated: &mut u64) -> Result<(), Refused> {
    let mut at = 0;
    while at < chunk.len() {
        let mut page = Thrift::new(&chunk[at..]);
        let (mut plain, mut packed, mut values) = (0, 0, 0);
        let header = page.fields(|page, id, kind| match id {
            2 => page.int().map(|bytes| plain = bytes),
            3 => page.int().map(|bytes| packed = bytes),
            5 | 7 | 8 if kind == STRUCT => page.fields(|page, id, kind| match id {
                1 => page.int().map(|count| values = count),
                _ => page.skip(kind),
            }),
            _ => page.skip(kind),
        });
        header.ok_or_else(|| broken("a page is damaged"))?;
        if !(0..=MAX_BATCH_ROWS as i64).contains(&values) {
            return Err(too_many_rows());
        }
        let plain = u64::try_from(plain).map_err(|_| broken("a page of negative length"))?;
        *inflated = inflated.saturating_add(plain);
        if *inflated > MAX_BODY_BYTES as u64 {
            return Err(super::too_large());
        }
        let next = usize::try_from(packed).ok().and_then(|packed| (at + page.at).checked_add(packed));
        at = next.filter(|next| *next <= chunk.len()).ok_or_else(|| broken("a page is cut off"))?;
    }
    Ok(())
}

fn read_footer(bytes: &[u8]) -> Option<Footer> {
    let mut footer = Footer::default();
    let mut group_rows = 0i64;
    Thrift::new(bytes).fields(|thrift, id, kind| match (id, kind) {
        (2, LIST) => thrift.list(|element, _| read_element(element, &mut footer)),
        (3, _) => thrift.int().map(|rows| footer.rows = footer.rows.max(rows)),
        (4, LIST) => thrift.list(|group, _| {
            group.fields(|group, id, kind| match (id, kind) {
                (1, LIST) => {
                    let before = footer.claims.len();
                    group.list(|column, _| {
                        let mut claim = Claim { column: footer.claims.len() - before, ..Claim::default() };
                        column.fields(|column, id, kind| match (id, kind) {
                            (3, STRUCT) => read_claim(column, &mut claim),
                            _ => column.skip(kind),
                        })?;
                        footer.claims.push(claim);
                        Some(())
                    })
                }
                (3, _) => {
                    group_rows = group_rows.checked_add(group.int().filter(|rows| *rows >= 0)?)?;
                    Some(())
                }
                _ => group.skip(kind),
            })
        }),
        _ => thrift.skip(kind),
    })?;
    footer.rows = footer.rows.max(group_rows);
    Some(footer)
}

/// Reads one element of the schema; the first one is the root.
fn read_element(element: &mut Thrift<'_>, footer: &mut Footer) -> Option<()> {
    element.fields(|element, id, kind| match id {
        2 => element.int().map(|length| footer.has_long_values |= !(0..=MAX_FIXED_BYTES).contains(&length)),
        5 => element.int().map(|children| footer.is_nested |= children != 0 && footer.elements > 0),
        _ => element.skip(kind),
    })?;
    footer.elements += 1;
    Some(())
}

fn read_claim(column: &mut Thrift<'_>, claim: &mut Claim) -> Option<()> {
    column.fields(|column, id, kind| match id {
        7 => column.int().map(|bytes| claim.compressed = bytes),
        9 => column.int().map(|at| claim.first_page = at),
        11 => column.int().map(|at| claim.dictionary = Some(at)),
        _ => column.skip(kind),
    })
}
