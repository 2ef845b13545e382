//! The columns of a day's segments, one under the other, as one column of a dataframe: numbers are
//! copied in runs, strings become views of the text as it was unpacked.

use event::{Column, Columns, Values, fields::FieldType};
use polars::prelude::{
    Column as Series, DataType, Float64Chunked, Int64Chunked, IntoColumn, IntoSeries, Series as Plain,
    StringChunked, TimeUnit, TimeZone,
};
use polars_arrow::{
    array::{PrimitiveArray, Utf8ViewArray},
    bitmap::{Bitmap, BitmapBuilder},
    types::NativeType,
};
use views::Texts;

/// One column of a segment, and the number of rows of the segment; `None` if the segment lacks the column.
type Piece = (usize, Option<Column>);

/// Takes the column `name` out of `pieces` and concatenates the values; null where a piece has no such column or one of another
/// type.
pub(crate) fn concatenated(name: &str, kind: FieldType, pieces: &mut [Columns]) -> Series {
    let taken = pieces.iter_mut().map(|piece| (piece.rows, take(name, kind, piece)));
    let pieces: Vec<Piece> = taken.collect();
    if pieces.iter().all(|(_, column)| column.is_none()) {
        return nulls(name, kind, pieces.iter().map(|(rows, _)| rows).sum());
    }
    match kind {
        FieldType::Float => {
            let numbers = |values| if let Values::Float(values) = values { values } else { Vec::new() };
            Float64Chunked::with_chunk(name.into(), primitive(pieces, numbers)).into_column()
        }
        FieldType::Time => {
            let numbers = |values| if let Values::Time(values) = values { values } else { Vec::new() };
            let values = Int64Chunked::with_chunk(name.into(), primitive(pieces, numbers));
            values.into_datetime(TimeUnit::Microseconds, Some(TimeZone::UTC)).into_column()
        }
        FieldType::Text => StringChunked::with_chunk(name.into(), strings(pieces)).into_column(),
    }
}

pub(crate) fn nulls(name: &str, kind: FieldType, rows: usize) -> Series {
    let kind = match kind {
        FieldType::Float => DataType::Float64,
        FieldType::Time => DataType::Datetime(TimeUnit::Microseconds, Some(TimeZone::UTC)),
        FieldType::Text => DataType::String,
    };
    Plain::full_null(name.into(), rows, &kind).into_column()
}

/// Builds a column of instants in microseconds, none of them null.
pub(crate) fn instants(name: &str, values: Vec<i64>) -> Series {
    let values = Int64Chunked::from_vec(name.into(), values);
    values.into_datetime(TimeUnit::Microseconds, Some(TimeZone::UTC)).into_series().into_column()
}

fn take(name: &str, kind: FieldType, piece: &mut Columns) -> Option<Column> {
    let at = piece.columns.iter().position(|column| column.name == name)?;
    let column = piece.columns.swap_remove(at);
    let fits = match &column.values {
        Values::Time(_) => kind == FieldType::Time,
        Values::Float(_) => kind == FieldType::Float,
        Values::Text(_) | Values::Coded(_) => kind == FieldType::Text,
    };
    fits.then_some(column)
}

/// Returns the bitmap of values that are not null; `None`, if there are no nulls.
fn validity(pieces: &[Piece]) -> Option<Bitmap> {
    let is_full = |(_, column): &Piece| column.as_ref().is_some_and(|column| column.valid.is_none());
    if pieces.iter().all(is_full) {
        return None;
    }
    let mut bits = BitmapBuilder::with_capacity(pieces.iter().map(|(rows, _)| rows).sum());
    for (rows, column) in pieces {
        match column {
            None => bits.extend_constant(*rows, false),
            Some(Column { valid: None, .. }) => bits.extend_constant(*rows, true),
            Some(Column { valid: Some(valid), .. }) => valid.iter().for_each(|valid| bits.push(*valid)),
        }
    }
    bits.into_opt_validity()
}

fn primitive<T: NativeType>(mut pieces: Vec<Piece>, numbers: impl Fn(Values) -> Vec<T>) -> PrimitiveArray<T> {
    let validity = validity(&pieces);
    let values = match pieces.as_mut_slice() {
        [(_, column)] => column.take().map_or_else(Vec::new, |column| numbers(column.values)),
        _ => {
            let mut values = Vec::with_capacity(pieces.iter().map(|(rows, _)| rows).sum());
            for (rows, column) in pieces {
                match column {
                    Some(column) => values.extend_from_slice(&numbers(column.values)),
                    None => values.resize(values.len() + rows, T::default()),
                }
            }
            values
        }
    };
    PrimitiveArray::from_vec(values).with_validity(validity)
}

fn strings(pieces: Vec<Piece>) -> Utf8ViewArray {
    let validity = validity(&pieces);
    let mut texts = Texts::with_capacity(pieces.iter().map(|(rows, _)| rows).sum());
    for (rows, column) in pieces {
        match column.map(|column| column.values) {
            Some(Values::Text(strings)) => texts.push(strings),
            Some(Values::Coded(coded)) => texts.push_coded(coded),
            _ => texts.push_empty(rows),
        }
    }
    texts.finish(validity)
}

#[cfg(test)]
mod tests {
    use event::columns::{Coded, Strings};
    use polars::prelude::ChunkAgg;

    use super::*;

    fn piece(rows: usize, columns: Vec<Column>) -> Columns {
        Columns { rows, columns }
    }

    fn texts(column: &Series) -> Vec<Option<String>> {
        column.str().unwrap().iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn pieces_without_the_column_are_null() {
        let scores =
            Column { valid: Some(vec![true, false]), ..Column::new("score", Values::Float(vec![0.5, 0.0])) };
        let full = Column::new("score", Values::Float(vec![0.25]));
        let mut pieces = [piece(2, vec![scores]), piece(3, Vec::new()), piece(1, vec![full])];
        let stack = concatenated("score", FieldType::Float, &mut pieces);
        assert_eq!(stack.f64().unwrap().to_vec(), [Some(0.5), None, None, None, None, Some(0.25)]);
        let absent = concatenated("score", FieldType::Float, &mut pieces);
        assert_eq!((absent.len(), absent.null_count()), (6, 6), "taken already");
    }

    #[test]
    fn one_piece_is_taken_as_it_is() {
        let times = Column::new("predicted_at", Values::Time(vec![5, 3]));
        let stack = concatenated("predicted_at", FieldType::Time, &mut [piece(2, vec![times])]);
        assert_eq!(stack.dtype(), &DataType::Datetime(TimeUnit::Microseconds, Some(TimeZone::UTC)));
        assert_eq!(stack.datetime().unwrap().physical().max(), Some(5));
    }

    #[test]
    fn strings_of_any_length_coded_or_not() {
        let long = "a string of more than twelve bytes";
        let text = Column::new("key", Values::Text(["twelve bytes", "", long, "ü"].into_iter().collect()));
        let dictionary = [long, "short"].into_iter().collect();
        let coded = Values::Coded(Coded { codes: vec![1, 0, 0], dictionary });
        let coded = Column { valid: Some(vec![true, true, false]), ..Column::new("key", coded) };
        let none = Values::Coded(Coded { codes: vec![0], dictionary: Strings::default() });
        let none = Column { valid: Some(vec![false]), ..Column::new("key", none) };
        let mut pieces =
            [piece(4, vec![text]), piece(1, Vec::new()), piece(3, vec![coded]), piece(1, vec![none])];
        let stack = concatenated("key", FieldType::Text, &mut pieces);
        let some = |text: &str| Some(text.to_owned());
        let expected = [
            some("twelve bytes"),
            some(""),
            some(long),
            some("ü"),
            None,
            some("short"),
            some(long),
            None,
            None,
        ];
        assert_eq!(texts(&stack), expected);
    }

    #[test]
    fn a_column_of_another_type_is_null() {
        let wrong = Column::new("score", Values::Time(vec![1]));
        assert_eq!(concatenated("score", FieldType::Float, &mut [piece(1, vec![wrong])]).null_count(), 1);
    }
}
