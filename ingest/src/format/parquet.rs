//! Parquet. Before anything is decoded, its footer and the headers of its pages are walked: what they
//! claim must lie within the body and within the limits.

use std::io::Cursor;

use polars::prelude::{CompatLevel, DataFrame};
use polars_arrow::datatypes::ArrowDataType;
use polars_io::{SerReader, mmap::MmapBytesReader, parquet::read::ParquetReader};

use super::{
    caught,
    collect::{Collector, too_many_rows},
    frame,
    places::places,
    thrift::{LIST, STRUCT, Thrift},
};
use crate::{
    batch::Refused,
    builder::names::Names,
    limits::{MAX_BATCH_ROWS, MAX_BODY_BYTES, MAX_FIELDS},
};

const MAGIC: &[u8; 4] = b"PAR1";
/// The most bytes in the footer of a body; usual ones have a few thousand.
const MAX_FOOTER_BYTES: usize = 1024 * 1024;
/// The most bytes of a value of fixed length.
const MAX_FIXED_BYTES: i64 = 256;
/// Where a writer keeps the types that its columns had in memory.
const ARROW_SCHEMA: &str = "ARROW:schema";

fn broken(what: impl std::fmt::Display) -> Refused {
    Refused::Whole(format!("the body is not a Parquet file that can be read: {what}"))
}

/// Reads a whole body into the builder.
///
/// # Errors
/// When it is no Parquet, exceeds a limit, or has a column that is not known.
pub(crate) fn read(names: &Names, body: Vec<u8>, out: &mut Collector) -> Result<(), Refused> {
    check(&body)?;
    let frame = caught("a Parquet file", || {
        let wanted = |_: &str| true;
        open(Cursor::new(body), wanted).and_then(|reader| reader.finish().map_err(broken))
    })?;
    if frame.height() > MAX_BATCH_ROWS {
        return Err(too_many_rows());
    }
    let from = out.builder.rows();
    fill(names, &frame, from as u64 + 1, out)
}

/// A reader of the columns that are wanted. It goes by the types that the file itself has: what its
/// writer noted of the types in memory only says that a text was a dictionary there (pandas' and
/// polars' `Categorical`, `Enum`), and the decoder panics on that.
///
/// # Errors
/// When it is no Parquet file, or a wanted column is of a type that no field takes: the decoder panics
/// on some of those as well.
pub(crate) fn open<R: MmapBytesReader>(
    source: R,
    wanted: impl Fn(&str) -> bool,
) -> Result<ParquetReader<R>, Refused> {
    let mut reader = ParquetReader::new(source);
    let mut metadata = reader.get_metadata().map_err(broken)?.as_ref().clone();
    if let Some(notes) = &mut metadata.key_value_metadata {
        notes.retain(|note| note.key != ARROW_SCHEMA);
    }
    reader.set_metadata(metadata.into());
    let schema = reader.schema().map_err(broken)?;
    let columns = schema.iter_values().enumerate().filter(|(_, column)| wanted(&column.name));
    let columns: Vec<_> = columns.collect();
    for (_, column) in &columns {
        if !is_readable(&column.dtype) {
            let message =
                format!("the column `{}`: values of type {:?} are not known here", column.name, column.dtype);
            return Err(Refused::Whole(message));
        }
    }
    let places = (columns.len() < schema.len()).then(|| columns.iter().map(|(at, _)| *at).collect());
    Ok(reader.with_projection(places))
}

/// Whether a field may take values of this type.
fn is_readable(kind: &ArrowDataType) -> bool {
    use ArrowDataType::*;
    let numbers =
        matches!(kind, Float64 | Float32 | Int64 | Int32 | Int16 | Int8 | UInt64 | UInt32 | UInt16 | UInt8);
    numbers || matches!(kind, Null | Boolean | Timestamp(..) | Date32 | Utf8 | LargeUtf8 | Utf8View)
}

/// Puts the rows of a dataframe into the builder, numbered on from `number`.
///
/// # Errors
/// When it has a column that is not known, or of a type that is not.
pub(crate) fn fill(
    names: &Names,
    frame: &DataFrame,
    number: u64,
    out: &mut Collector,
) -> Result<(), Refused> {
    let places = places(names, frame.columns().iter().map(|column| column.name().as_str()))?;
    let from = out.builder.rows();
    out.builder.add_rows(number, frame.height());
    for (place, column) in places.iter().zip(frame.columns()) {
        let series = column.as_materialized_series();
        let mut row = from;
        for chunk in 0..series.n_chunks() {
            let array = series.to_arrow(chunk, CompatLevel::newest());
            frame::fill(&mut out.builder, place, row, array.as_ref())?;
            out.column(number + (row - from) as u64, place, array.as_ref());
            row += array.len();
        }
    }
    Ok(())
}

/// What a column chunk says about itself.
#[derive(Default)]
struct Claim {
    compressed: i64,
    first_page: i64,
    dictionary: Option<i64>,
}

/// What the footer says.
#[derive(Default)]
struct Footer {
    elements: usize,
    /// Whether a column has columns of its own.
    is_nested: bool,
    has_long_values: bool,
    rows: i64,
    claims: Vec<Claim>,
}

/// Walks the footer and the pages without decoding what they hold.
fn check(body: &[u8]) -> Result<(), Refused> {
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
    let mut inflated = 0;
    for claim in &footer.claims {
        let chunk = chunk(&body[..start], claim).ok_or_else(|| broken("a column lies outside of it"))?;
        check_pages(chunk, &mut inflated)?;
    }
    Ok(())
}

fn chunk<'a>(body: &'a [u8], claim: &Claim) -> Option<&'a [u8]> {
    // Some writers leave a zero where there is no dictionary.
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
                (1, LIST) => group.list(|column, _| {
                    let mut claim = Claim::default();
                    column.fields(|column, id, kind| match (id, kind) {
                        (3, STRUCT) => read_claim(column, &mut claim),
                        _ => column.skip(kind),
                    })?;
                    footer.claims.push(claim);
                    Some(())
                }),
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
