//! Rows of a chunk in their source form, for a file of rejects; and reading such a file again.

use std::{borrow::Cow, collections::BTreeMap};

use chrono::DateTime;
use event::{Kind, RowProblem, Timestamp, fields::Rule, time::DAY_MICROS};
use polars_arrow::{
    array::{
        Array, BooleanArray, DictionaryArray, Float16Array, PrimitiveArray, Utf8Array, Utf8ViewArray,
        get_display,
    },
    datatypes::ArrowDataType,
    match_integer_type,
    types::NativeType,
};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{collect::Places, frame};
use crate::builder::{names::ColumnTarget, row::Scalar};

/// Line of a file of rejects.
#[derive(Debug, Serialize)]
pub struct Rejected<'a> {
    /// File of the row.
    pub file: Cow<'a, str>,
    /// Number of the row in that file.
    pub row: u64,
    /// Faults of the row.
    pub errors: &'a [RowProblem],
    /// Source form of the row.
    #[serde(flatten)]
    pub source: SourceRow,
}

/// Source form of a row.
#[derive(Debug, Serialize)]
pub enum SourceRow {
    /// Values of its columns, by their names in the file.
    #[serde(rename = "event")]
    Event(Box<RawValue>),
    /// Text of a row that cannot be split into columns.
    #[serde(rename = "text")]
    Text(String),
}

/// Line of a file of rejects that is read again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Corrected<'a> {
    #[serde(rename = "file")]
    _file: serde::de::IgnoredAny,
    #[serde(rename = "row")]
    _row: u64,
    #[serde(rename = "errors")]
    _errors: Vec<serde::de::IgnoredAny>,
    #[serde(borrow, default)]
    pub(super) event: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) text: Option<Cow<'a, str>>,
}

/// Source forms of the rows of a chunk.
#[derive(Debug, Default)]
pub struct SourceRows {
    bytes: Vec<u8>,
    /// Number of each row of text and its end in `bytes`.
    ends: Vec<(u64, usize)>,
    /// Columns of CSV, in the order of its cells.
    header: Places,
    /// Delimiter of these cells.
    delimiter: u8,
    /// Arrays of columns, each with the number of its first row.
    arrays: Vec<(u64, SourceColumn)>,
    /// Object of arrays.
    whole: Option<String>,
}

#[derive(Debug)]
struct SourceColumn {
    name: String,
    holds_days: bool,
    /// True if dates are midnights of the given time zone.
    has_zone: bool,
    array: Box<dyn Array>,
}

impl SourceRows {
    /// Adds a row of text.
    pub(super) fn push(&mut self, number: u64, raw: &[u8]) {
        self.bytes.extend_from_slice(raw);
        self.ends.push((number, self.bytes.len()));
    }

    /// Number of bytes of text.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Sets the header of CSV.
    pub(super) fn has_header(&mut self, header: &Places, delimiter: u8) {
        self.header.clone_from(header);
        self.delimiter = delimiter;
    }

    /// Creates a holder of the following rows, with the same header.
    pub(super) fn next(&self) -> Self {
        Self { header: self.header.clone(), delimiter: self.delimiter, ..Self::default() }
    }

    /// Sets the text of an object of arrays.
    pub(super) fn whole(&mut self, text: String) {
        self.whole = Some(text);
    }

    /// Adds a piece of a column.
    pub(super) fn column(
        &mut self,
        (kind, first, has_zone): (Kind, u64, bool),
        (name, targets): (&str, &[ColumnTarget]),
        array: &dyn Array,
    ) {
        let is_day = |target: &ColumnTarget| match target {
            ColumnTarget::Field(field) => {
                kind.sent_fields().get(*field).is_some_and(|field| field.rule == Rule::Day)
            }
            target => *target == ColumnTarget::PredictedOn,
        };
        let (name, holds_days) = (name.to_owned(), targets.iter().all(is_day));
        self.arrays.push((first, SourceColumn { name, holds_days, has_zone, array: array.to_boxed() }));
    }

    /// Returns the rows of these numbers, if they are known.
    pub fn rows(&self, numbers: impl Iterator<Item = u64>) -> Vec<Option<SourceRow>> {
        let arrays = self.whole.as_deref().and_then(arrays_of);
        let row = |number: u64| match &arrays {
            Some(arrays) => event(&element(arrays, number)),
            None if !self.arrays.is_empty() => event(&self.values(number)),
            None => self.text(number),
        };
        numbers.map(row).collect()
    }

    /// Returns a row of text: the object of JSON, the cells of the read columns of CSV.
    fn text(&self, number: u64) -> Option<SourceRow> {
        let at = self.ends.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let raw = &self.bytes[start..self.ends[at].1];
        let as_event = match self.header.is_empty() {
            true => object_of(raw),
            false => cells_of(raw, self.delimiter).filter(|cells| cells.len() == self.header.len()).and_then(
                |cells| {
                    let columns =
                        self.header.iter().zip(&cells).filter(|((_, targets), _)| !targets.is_empty());
                    event(&Object(columns.map(|((name, _), cell)| (name, cell)).collect()))
                },
            ),
        };
        as_event.or_else(|| Some(SourceRow::Text(String::from_utf8_lossy(raw).into_owned())))
    }

    /// Values of the columns in a row.
    fn values(&self, number: u64) -> Object<&str, Value> {
        let has_it = |(first, column): &&(u64, SourceColumn)| {
            number.checked_sub(*first).is_some_and(|at| (at as usize) < column.array.len())
        };
        let columns = self.arrays.iter().filter(has_it);
        let value = |(first, column): &'_ (u64, SourceColumn)| column.value((number - first) as usize);
        Object(columns.map(|column| (column.1.name.as_str(), value(column))).collect())
    }
}

/// Object whose members stand in this order.
struct Object<N, V>(Vec<(N, V)>);

impl<N: Serialize, V: Serialize> Serialize for Object<N, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn event(values: &impl Serialize) -> Option<SourceRow> {
    to_raw_value(values).ok().map(SourceRow::Event)
}

/// Parses a JSON object on one line; `None` when it is none.
fn object_of(raw: &[u8]) -> Option<SourceRow> {
    let text = std::str::from_utf8(raw).ok()?.trim().trim_start_matches('\u{feff}');
    // No line ends within strings of JSON.
    let line = text.replace(['\n', '\r'], " ");
    RawValue::from_string(line).ok().filter(|json| json.get().starts_with('{')).map(SourceRow::Event)
}

/// Splits the cells of a record of CSV.
pub(super) fn cells_of(raw: &[u8], delimiter: u8) -> Option<Vec<String>> {
    let mut reader = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
    let (mut cells, mut ends) = (vec![0; raw.len()], vec![0; raw.len() + 1]);
    let (_, _, mut written, mut ended) = reader.read_record(raw, &mut cells, &mut ends);
    // An empty input ends the record.
    let (_, _, more, last) = reader.read_record(&[], &mut cells[written..], &mut ends[ended..]);
    (written, ended) = (written + more, ended + last);
    let text = std::str::from_utf8(&cells[..written]).ok()?;
    let starts = std::iter::once(0).chain(ends[..ended].iter().copied());
    starts.zip(&ends[..ended]).map(|(start, end)| text.get(start..*end).map(str::to_owned)).collect()
}

/// Value of a name in an object of arrays: an array, or an object of arrays.
enum Arrays<'a> {
    Column(Vec<&'a RawValue>),
    Family(BTreeMap<String, Vec<&'a RawValue>>),
}

impl<'a> Arrays<'a> {
    fn of(text: &'a str) -> Option<Self> {
        match serde_json::from_str(text) {
            Ok(values) => Some(Self::Column(values)),
            Err(_) => serde_json::from_str(text).ok().map(Self::Family),
        }
    }
}

fn arrays_of(text: &str) -> Option<BTreeMap<String, Arrays<'_>>> {
    let columns: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let columns = columns.into_iter().filter_map(|(name, column)| Some((name, Arrays::of(column.get())?)));
    Some(columns.collect())
}

/// Values of the columns in a row.
fn element<'a>(arrays: &BTreeMap<String, Arrays<'a>>, number: u64) -> BTreeMap<String, Value> {
    let at = number.saturating_sub(1) as usize;
    let of =
        |values: &Vec<&'a RawValue>| values.get(at).and_then(|value| serde_json::from_str(value.get()).ok());
    let value = |arrays: &Arrays<'a>| match arrays {
        Arrays::Column(values) => of(values).unwrap_or_default(),
        Arrays::Family(members) => {
            members.iter().filter_map(|(name, values)| Some((name.clone(), of(values)?))).collect()
        }
    };
    arrays.iter().map(|(name, arrays)| (name.clone(), value(arrays))).collect()
}

impl SourceColumn {
    /// Value of a row, as JSON that is read as the same value.
    fn value(&self, row: usize) -> Value {
        self.value_of(self.array.as_ref(), row)
    }

    fn value_of(&self, array: &dyn Array, row: usize) -> Value {
        if array.is_null(row) {
            return Value::Null;
        }
        let any = array.as_any();
        match array.dtype() {
            ArrowDataType::Int8 => json!(primitive::<i8>(array, row)),
            ArrowDataType::Int16 => json!(primitive::<i16>(array, row)),
            ArrowDataType::Int32 => json!(primitive::<i32>(array, row)),
            ArrowDataType::Int64 => json!(primitive::<i64>(array, row)),
            ArrowDataType::UInt8 => json!(primitive::<u8>(array, row)),
            ArrowDataType::UInt16 => json!(primitive::<u16>(array, row)),
            ArrowDataType::UInt32 => json!(primitive::<u32>(array, row)),
            ArrowDataType::UInt64 => exact(primitive::<u64>(array, row).map(i128::from), 0),
            ArrowDataType::Float32 => number(primitive::<f32>(array, row).map(f64::from)),
            ArrowDataType::Float64 => number(primitive(array, row)),
            ArrowDataType::Float16 => {
                let halves = any.downcast_ref::<Float16Array>();
                number(halves.map(|halves| halves.value(row).0.to_f64()))
            }
            ArrowDataType::Decimal(_, scale) => exact(primitive(array, row), *scale),
            ArrowDataType::Boolean => {
                json!(any.downcast_ref::<BooleanArray>().map(|truths| truths.value(row)))
            }
            ArrowDataType::Utf8 => json!(any.downcast_ref::<Utf8Array<i32>>().map(|texts| texts.value(row))),
            ArrowDataType::LargeUtf8 => {
                json!(any.downcast_ref::<Utf8Array<i64>>().map(|texts| texts.value(row)))
            }
            ArrowDataType::Utf8View => {
                json!(any.downcast_ref::<Utf8ViewArray>().map(|texts| texts.value(row)))
            }
            ArrowDataType::Dictionary(keys, _, _) => match_integer_type!(keys, |$T| {
                let coded = any.downcast_ref::<DictionaryArray<$T>>();
                coded.map_or(Value::Null, |coded| self.value_of(coded.values().as_ref(), coded.key_value(row)))
            }),
            ArrowDataType::Date32 => {
                self.date(primitive::<i32>(array, row).map(|day| i64::from(day) * DAY_MICROS))
            }
            ArrowDataType::Date64 => {
                self.date(primitive(array, row).map(|millis: i64| millis.saturating_mul(1_000)))
            }
            ArrowDataType::Timestamp(unit, zone) => {
                let time = primitive(array, row).map(|time| frame::micros(time, *unit));
                self.time(time, zone.is_some())
            }
            _ => {
                let mut text = String::new();
                match get_display(array, "")(&mut text, row) {
                    Ok(()) => text.into(),
                    Err(_) => Value::Null,
                }
            }
        }
    }

    fn date(&self, micros: Option<i64>) -> Value {
        match self.holds_days || self.has_zone {
            true => formatted(micros, "%Y-%m-%d"),
            false => formatted(micros, "%Y-%m-%dT%H:%M:%SZ"),
        }
    }

    fn time(&self, micros: Option<i64>, has_zone: bool) -> Value {
        let is_midnight = micros.is_some_and(|micros| micros.rem_euclid(DAY_MICROS) == 0);
        match has_zone {
            _ if self.holds_days && (has_zone || is_midnight) => formatted(micros, "%Y-%m-%d"),
            true => json!(micros.and_then(Timestamp::from_micros).map(|time| time.to_string())),
            false => formatted(micros, "%Y-%m-%dT%H:%M:%S%.f"),
        }
    }
}

fn formatted(micros: Option<i64>, format: &str) -> Value {
    json!(micros.and_then(DateTime::from_timestamp_micros).map(|time| time.format(format).to_string()))
}

fn primitive<T: NativeType>(array: &dyn Array, row: usize) -> Option<T> {
    array.as_any().downcast_ref::<PrimitiveArray<T>>().map(|values| values.value(row))
}

/// Decimal number as JSON: a whole one beyond 64 bits is a text of its digits.
fn exact(decimal: Option<i128>, scale: usize) -> Value {
    match decimal.map(|decimal| frame::exact(decimal, scale)) {
        Some(Scalar::Int(whole)) => json!(whole),
        Some(Scalar::Float(float)) => number(Some(float)),
        Some(Scalar::Text(digits)) => json!(digits),
        _ => Value::Null,
    }
}

/// Number as JSON; NaN and infinities become texts.
fn number(number: Option<f64>) -> Value {
    match number {
        Some(number) if number.is_nan() => "NaN".into(),
        Some(number) if number.is_infinite() => if number > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        number => json!(number),
    }
}
