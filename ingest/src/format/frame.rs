//! Conversion of Arrow arrays to the columns of a builder: whole columns if the type fits, else value by value.

use std::{
    borrow::Cow,
    fmt::Display,
    ops::{Range, RangeInclusive},
};

use event::{Timestamp, time::DAY_MICROS};
use polars_arrow::{
    array::{
        Array, BooleanArray, DictionaryArray, DictionaryKey, FixedSizeBinaryArray, Float16Array,
        PrimitiveArray, Utf8Array, Utf8ViewArray,
    },
    bitmap::Bitmap,
    datatypes::{ArrowDataType, IntegerType, TimeUnit},
    types::NativeType,
};

use super::token::TENS;
use crate::{
    batch::Refused,
    builder::{
        BatchBuilder,
        column_builder::{ColumnBuilder, Growing, Mask},
        names::ColumnTarget,
        row::Scalar,
    },
};

/// Fault of a dictionary of other values.
const NO_DICTIONARY: &str = "a dictionary should hold texts or numbers";
/// Number of texts read between two claims of memory for them.
const TEXT_ROWS: usize = 1_024;

/// Fault of a time outside of the range of nanoseconds in 64 bits.
const NOT_IN_NANOS: &str = "is outside of the years 1677 to 2262, beyond which there are no times in nanoseconds; write times in microseconds";

const BEYOND: &str = "a key is beyond its dictionary";

/// Puts an array into the rows of the builder from `from` on, which were added before, once for each place of its column.
///
/// # Errors
/// Fails when no value of such a type is accepted.
pub(crate) fn fill(
    builder: &mut BatchBuilder,
    (name, targets): &(String, Vec<ColumnTarget>),
    from: usize,
    array: &dyn Array,
) -> Result<(), Refused> {
    for target in targets {
        let place = match target {
            ColumnTarget::Field(field) => To::Field(*field),
            ColumnTarget::PredictedOn => To::PredictedOn,
            ColumnTarget::EventId => To::EventId,
            ColumnTarget::Member(family, member) => To::Member(builder.member(name, (*family, member))?),
        };
        Filler { builder: &mut *builder, name, place, from }.any(array)?;
    }
    Ok(())
}

fn wrong(name: &str, message: impl Display) -> Refused {
    Refused::Whole(format!("the column `{name}`: {message}"))
}

#[derive(Clone, Copy)]
enum To {
    Field(usize),
    PredictedOn,
    EventId,
    Member(usize),
}

struct Filler<'d> {
    builder: &'d mut BatchBuilder,
    name: &'d str,
    place: To,
    from: usize,
}

fn mask(validity: Option<&Bitmap>) -> Mask {
    let validity = validity.filter(|validity| validity.unset_bits() > 0)?;
    Some(validity.iter().collect())
}

impl Filler<'_> {
    fn any(mut self, array: &dyn Array) -> Result<(), Refused> {
        match array.dtype() {
            ArrowDataType::Null => Ok(()),
            ArrowDataType::Float64 => self.floats(self.cast(array)?, |number: f64| number),
            ArrowDataType::Float32 => self.floats(self.cast(array)?, shortest),
            ArrowDataType::Float16 => {
                let array = self.cast::<Float16Array>(array)?;
                self.floats(array, |number| half(number.0.to_f64()))
            }
            ArrowDataType::Decimal(_, scale) => {
                self.numbers(self.cast(array)?, |number: i128| exact(number, *scale))
            }
            ArrowDataType::Int64 => self.numbers(self.cast(array)?, Scalar::Int),
            ArrowDataType::Int32 => self.numbers(self.cast(array)?, |number: i32| Scalar::Int(number.into())),
            ArrowDataType::Int16 => self.numbers(self.cast(array)?, |number: i16| Scalar::Int(number.into())),
            ArrowDataType::Int8 => self.numbers(self.cast(array)?, |number: i8| Scalar::Int(number.into())),
            ArrowDataType::UInt64 => {
                self.numbers(self.cast(array)?, |number: u64| exact(i128::from(number), 0))
            }
            ArrowDataType::UInt32 => {
                self.numbers(self.cast(array)?, |number: u32| Scalar::Int(number.into()))
            }
            ArrowDataType::UInt16 => {
                self.numbers(self.cast(array)?, |number: u16| Scalar::Int(number.into()))
            }
            ArrowDataType::UInt8 => self.numbers(self.cast(array)?, |number: u8| Scalar::Int(number.into())),
            ArrowDataType::Timestamp(unit, zone) => self.times(array, *unit, zone.is_some()),
            ArrowDataType::Duration(unit) => self.durations(array, *unit),
            ArrowDataType::Date32 => self.dates(array, |day: i32| i64::from(day) * DAY_MICROS),
            ArrowDataType::Date64 => self.dates(array, |millis: i64| millis.saturating_mul(1_000)),
            ArrowDataType::Boolean => {
                let array = self.cast::<BooleanArray>(array)?;
                self.each(array.iter().map(|truth| truth.map_or(Scalar::Null, Scalar::Bool)));
                Ok(())
            }
            ArrowDataType::Utf8 => {
                let array = self.cast::<Utf8Array<i32>>(array)?;
                self.texts(array.len(), array.validity(), |row| array.value(row))
            }
            ArrowDataType::LargeUtf8 => {
                let array = self.cast::<Utf8Array<i64>>(array)?;
                self.texts(array.len(), array.validity(), |row| array.value(row))
            }
            ArrowDataType::Utf8View => {
                let array = self.cast::<Utf8ViewArray>(array)?;
                self.texts(array.len(), array.validity(), |row| array.value(row))
            }
            ArrowDataType::Dictionary(keys, _, _) => match keys {
                IntegerType::Int8 => self.dictionary::<i8>(array),
                IntegerType::Int16 => self.dictionary::<i16>(array),
                IntegerType::Int32 => self.dictionary::<i32>(array),
                IntegerType::Int64 => self.dictionary::<i64>(array),
                IntegerType::UInt8 => self.dictionary::<u8>(array),
                IntegerType::UInt16 => self.dictionary::<u16>(array),
                IntegerType::UInt32 => self.dictionary::<u32>(array),
                IntegerType::UInt64 => self.dictionary::<u64>(array),
                other => Err(wrong(self.name, format!("keys of type {other:?} are not known here"))),
            },
            other => Err(wrong(self.name, format!("values of type {other:?} are not known here"))),
        }
    }

    fn cast<'a, A: 'static>(&self, array: &'a dyn Array) -> Result<&'a A, Refused> {
        array.as_any().downcast_ref().ok_or_else(|| wrong(self.name, "its values are not of its type"))
    }

    /// Column of the place.
    fn column(&mut self) -> Option<&mut ColumnBuilder> {
        match self.place {
            To::Field(field) => Some(self.builder.field(field)),
            To::Member(column) => Some(self.builder.member_column(column)),
            To::PredictedOn | To::EventId => None,
        }
    }

    /// Column of the place, when its values are of the given type.
    fn whole(&mut self, is_such: fn(&Growing) -> bool) -> Option<&mut ColumnBuilder> {
        self.column().filter(|column| is_such(&column.values))
    }

    #[inline]
    fn set(&mut self, row: usize, value: &Scalar<'_>) {
        let at = self.from + row;
        match self.place {
            To::Field(field) => self.builder.set_field(field, at, value),
            To::PredictedOn => self.builder.set_predicted_on(at, value),
            To::EventId => self.builder.set_event_id(at, value),
            To::Member(column) => self.builder.set_member(column, at, value),
        }
    }

    fn each<'a>(&mut self, values: impl Iterator<Item = Scalar<'a>>) {
        for (row, value) in values.enumerate() {
            if value != Scalar::Null {
                self.set(row, &value);
            }
        }
    }

    fn texts<'a>(
        &mut self,
        rows: usize,
        validity: Option<&Bitmap>,
        text: impl Fn(usize) -> &'a str,
    ) -> Result<(), Refused> {
        let given = |row: usize| validity.is_none_or(|validity| validity.get_bit(row)).then(|| text(row));
        match self.place {
            To::Field(field) if self.builder.field(field).is_text() => {
                return self.some_at_a_time(rows, |filler, from, some| {
                    filler.builder.extend_field(field, from, some.map(&given));
                });
            }
            To::Member(column) if self.builder.member_column(column).is_text() => {
                return self.some_at_a_time(rows, |filler, from, some| {
                    filler.builder.extend_member(column, from, some.map(&given));
                });
            }
            _ => {}
        }
        for row in 0..rows {
            if validity.is_none_or(|validity| validity.get_bit(row)) {
                self.set(row, &Scalar::Text(Cow::Borrowed(text(row))));
            }
        }
        Ok(())
    }

    /// Fills rows with texts, and claims their memory step by step: their lengths are not known before.
    fn some_at_a_time(
        &mut self,
        rows: usize,
        fill: impl Fn(&mut Self, usize, Range<usize>),
    ) -> Result<(), Refused> {
        for start in (0..rows).step_by(TEXT_ROWS) {
            let end = rows.min(start + TEXT_ROWS);
            fill(self, self.from + start, start..end);
            if end < rows {
                self.builder.claim(self.builder.rows())?;
            }
        }
        Ok(())
    }

    fn dictionary<K: DictionaryKey>(&mut self, array: &dyn Array) -> Result<(), Refused> {
        let array = self.cast::<DictionaryArray<K>>(array)?;
        if array.values().len() > array.len() {
            return self.of_long_dictionary(array);
        }
        let values = scalars(array.values().as_ref());
        let values = values.ok_or_else(|| wrong(self.name, NO_DICTIONARY))?;
        let mut codes = vec![None; values.len()];
        for (row, key) in array.keys_iter().enumerate() {
            if row.is_multiple_of(TEXT_ROWS) && row > 0 {
                self.builder.claim(self.builder.rows())?;
            }
            let Some(key) = key else { continue };
            let value = values.get(key).ok_or_else(|| wrong(self.name, BEYOND))?;
            let at = self.from + row;
            if let Some(code) = codes[key]
                && self.column().is_some_and(|column| column.push_code(at, code))
            {
                continue;
            }
            if *value != Scalar::Null {
                self.set(row, value);
            }
            if let Scalar::Text(text) = value {
                codes[key] = self.column().and_then(|column| column.code_of(text));
            }
        }
        Ok(())
    }

    /// Reads, from a dictionary with more values than rows, only the values of these rows: many short batches may share it.
    fn of_long_dictionary<K: DictionaryKey>(&mut self, array: &DictionaryArray<K>) -> Result<(), Refused> {
        for (row, key) in array.keys_iter().enumerate() {
            if row.is_multiple_of(TEXT_ROWS) && row > 0 {
                self.builder.claim(self.builder.rows())?;
            }
            let Some(key) = key else { continue };
            if key >= array.values().len() {
                return Err(wrong(self.name, BEYOND));
            }
            let value = array.values().sliced(key, 1);
            let value = scalars(value.as_ref()).and_then(|mut values| values.pop());
            let value = value.ok_or_else(|| wrong(self.name, NO_DICTIONARY))?;
            if value != Scalar::Null {
                self.set(row, &value);
            }
        }
        Ok(())
    }

    fn floats<T: NativeType>(
        &mut self,
        array: &PrimitiveArray<T>,
        float: impl Fn(T) -> f64,
    ) -> Result<(), Refused> {
        let numbers = array.values_iter().map(|number| float(*number));
        let from = self.from;
        match self.whole(|values| matches!(values, Growing::Float(_))) {
            Some(column) => column.extend_floats(from, numbers, mask(array.validity())),
            None => self.each(valid(array.validity(), numbers.map(Scalar::Float))),
        }
        Ok(())
    }

    /// Reads whole and decimal numbers. The digits of one that is too large for an `i64` are a text; elsewhere it is the nearest
    /// double, as in JSON.
    fn numbers<T: NativeType>(
        &mut self,
        array: &PrimitiveArray<T>,
        number: impl Fn(T) -> Scalar<'static>,
    ) -> Result<(), Refused> {
        let float = |value: &T| match number(*value) {
            Scalar::Int(number) => number as f64,
            Scalar::Float(number) => number,
            Scalar::Text(digits) => digits.parse().unwrap_or(f64::INFINITY),
            _ => 0.0,
        };
        let from = self.from;
        if let Some(column) = self.whole(|values| matches!(values, Growing::Float(_))) {
            column.extend_floats(from, array.values_iter().map(float), mask(array.validity()));
            return Ok(());
        }
        let is_text = self.column().is_some_and(|column| column.is_text());
        let value = |value: &T| match number(*value) {
            Scalar::Text(_) if !is_text => Scalar::Float(float(value)),
            number => number,
        };
        self.each(valid(array.validity(), array.values_iter().map(value)));
        Ok(())
    }

    fn times(&mut self, array: &dyn Array, unit: TimeUnit, has_zone: bool) -> Result<(), Refused> {
        let array = self.cast::<PrimitiveArray<i64>>(array)?;
        if !has_zone && !self.holds_days() && !self.builder.reading().times.has_zone() {
            return Err(wrong(
                self.name,
                "its times have no time zone; store them with UTC, or import a file that has them with `--time-zone UTC`",
            ));
        }
        // INT96 of Parquet exceeds the range of nanoseconds in 64 bits; its decoder returns this value for times outside.
        let is_lost = |time: &i64| unit == TimeUnit::Nanosecond && *time == i64::MAX;
        let is_any_lost = array.iter().flatten().any(is_lost);
        let times =
            array.values_iter().map(|time| if is_lost(time) { i64::MAX } else { micros(*time, unit) });
        let from = self.from;
        match self.whole(|values| matches!(values, Growing::Time(_))) {
            Some(column) if has_zone && !is_any_lost => {
                column.extend_times(from, times, mask(array.validity()));
                Ok(())
            }
            _ => self.each_time(array.validity(), times, has_zone),
        }
    }

    /// Reads durations, as milliseconds if the name of the field has that unit; for other fields the unit is not known.
    fn durations(&mut self, array: &dyn Array, unit: TimeUnit) -> Result<(), Refused> {
        if !self.column().is_some_and(|column| column.is_duration()) {
            return Err(wrong(
                self.name,
                "its values are durations; make numbers of them in the unit that they should have, such as seconds",
            ));
        }
        let in_one = match unit {
            TimeUnit::Second => 1e-3,
            TimeUnit::Millisecond => 1.0,
            TimeUnit::Microsecond => 1e3,
            TimeUnit::Nanosecond => 1e6,
        };
        self.floats(self.cast(array)?, |ticks: i64| ticks as f64 / in_one)
    }

    /// Reads dates. A date as a time is its midnight: in the given time zone, as for texts, else in UTC.
    fn dates<T: NativeType>(&mut self, array: &dyn Array, micros: fn(T) -> i64) -> Result<(), Refused> {
        let array = self.cast::<PrimitiveArray<T>>(array)?;
        let times = array.values_iter().map(|day| micros(*day));
        let is_local = self.holds_days() || self.builder.reading().times.has_zone();
        self.each_time(array.validity(), times, !is_local)
    }

    /// Returns whether the place holds days, and no instants.
    fn holds_days(&mut self) -> bool {
        match self.place {
            To::PredictedOn => true,
            To::Field(field) => self.builder.field(field).is_days(),
            To::EventId | To::Member(_) => false,
        }
    }

    /// Converts a value with or without a zone to a time. A day without a zone is that day in every zone.
    fn time(&mut self, micros: i64, has_zone: bool) -> Result<i64, String> {
        match (has_zone, self.holds_days()) {
            (true, _) => Ok(micros),
            (false, true) if micros.rem_euclid(DAY_MICROS) == 0 => Ok(micros),
            (false, true) => Err("should be a day, but has a time of day and no time zone".into()),
            (false, false) => self.builder.reading().times.local(micros),
        }
    }

    fn each_time(
        &mut self,
        validity: Option<&Bitmap>,
        times: impl Iterator<Item = i64>,
        has_zone: bool,
    ) -> Result<(), Refused> {
        for (row, time) in times.enumerate() {
            if validity.is_some_and(|validity| !validity.get_bit(row)) {
                continue;
            }
            let at = self.from + row;
            let time = match time {
                i64::MAX => Err(NOT_IN_NANOS.to_owned()),
                time => self.time(time, has_zone),
            };
            match (time, self.place) {
                (Ok(time), To::PredictedOn) => self.builder.set_predicted_at_day(at, time),
                (Ok(time), To::Field(field))
                    if matches!(self.builder.field(field).values, Growing::Time(_)) =>
                {
                    self.builder.field(field).push_time(at, time);
                }
                (Ok(time), To::Field(field)) if self.builder.field(field).is_days() => {
                    let day = Timestamp::from_micros(time).map(|time| time.day().to_string());
                    let day = day.unwrap_or_else(|| "a day outside of the years 1 to 9999".to_owned());
                    self.builder.set_field(field, at, &Scalar::Text(day.into()));
                }
                (Err(message), To::PredictedOn) => self.builder.note_wrong_day(at, message),
                (Err(message), To::Field(field)) => {
                    self.builder.field(field).note_wrong(at);
                    self.builder.note_field(field, at, message);
                }
                _ => self.set(row, &Scalar::Other("a time")),
            }
        }
        Ok(())
    }
}

/// Converts a time to microseconds. Times that do not fit are outside of the years 1 to 9999 anyway, and stay so.
pub(super) fn micros(time: i64, unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => time.saturating_mul(1_000_000),
        TimeUnit::Millisecond => time.saturating_mul(1_000),
        TimeUnit::Microsecond => time,
        TimeUnit::Nanosecond => time.div_euclid(1_000),
    }
}

/// Shortest decimal of a single. A score of 0.7 is exactly 0.7 then, as when it is written in text.
pub(super) fn shortest(number: f32) -> f64 {
    let double = f64::from(number);
    match double.abs() {
        size if (1e-12..1e28).contains(&size) => decimal_near(double, 6..=9, |other| other as f32 == number),
        size if size > 0.0 && size.is_finite() => number.to_string().parse().unwrap_or(double),
        _ => double,
    }
}

/// Shortest decimal of a number of half precision.
fn half(number: f64) -> f64 {
    let size = number.abs();
    if size == 0.0 || !size.is_finite() {
        return number;
    }
    let power = f64::from_bits(size.to_bits() >> 52 << 52);
    let step = (power / 1024.0).max(1.0 / 16_777_216.0);
    decimal_near(number, 1..=5, |other| (other - number).abs() < step / 2.0)
}

/// Decimal of the fewest digits for which `is_it` holds. `digits` may begin at a number of digits of which the type holds all
/// decimals: fewer need no search.
fn decimal_near(number: f64, digits: RangeInclusive<i32>, is_it: impl Fn(f64) -> bool) -> f64 {
    let before_point = number.abs().log10().floor() as i32 + 1;
    let decimal = |digits: i32| {
        let places = digits - before_point;
        // Powers of ten up to the 22nd are doubles, and so are whole numbers here: one operation rounds once, and correctly.
        let power = TENS[places.unsigned_abs() as usize];
        match places >= 0 {
            true => (number * power).round() / power,
            false => (number / power).round() * power,
        }
    };
    digits.map(decimal).find(|decimal| is_it(*decimal)).unwrap_or(number)
}

/// A decimal number: a whole one as such, or as the text of its digits beyond an `i64`; else the nearest double.
pub(super) fn exact(number: i128, scale: usize) -> Scalar<'static> {
    let one = u32::try_from(scale).ok().and_then(|scale| 10i128.checked_pow(scale));
    match one.filter(|one| number % one == 0).map(|one| number / one) {
        Some(whole) => match i64::try_from(whole) {
            Ok(whole) => Scalar::Int(whole),
            Err(_) => Scalar::Text(whole.to_string().into()),
        },
        None => Scalar::Float(format!("{number}e-{scale}").parse().unwrap_or(f64::NAN)),
    }
}

/// Name of the extension type of UUIDs, and of the metadata that holds it.
pub(super) const UUID: &str = "arrow.uuid";
pub(super) const EXTENSION: &str = "ARROW:extension:name";

/// Number of bytes of a UUID.
const UUID_BYTES: usize = 16;

/// UUIDs as texts; other arrays as they are.
pub(crate) fn readable(array: Box<dyn Array>) -> Box<dyn Array> {
    match array.as_any().downcast_ref::<FixedSizeBinaryArray>() {
        Some(fixed)
            if fixed.size() == UUID_BYTES
                && matches!(array.dtype(), ArrowDataType::Extension(kind) if kind.name == UUID) =>
        {
            uuids(fixed.iter())
        }
        _ => array,
    }
}

/// Texts of UUIDs.
pub(super) fn uuids<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Box<dyn Array> {
    let text = |bytes: &[u8]| {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits.get(part).unwrap_or_default()).join("-")
    };
    values.map(|value| value.map(text)).collect::<Utf8Array<i64>>().boxed()
}

/// Number of half precision, of its two bytes.
pub(super) fn half_of(bytes: [u8; 2]) -> f64 {
    let bits = u16::from_le_bytes(bytes);
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff) / 1024.0);
    let size = match exponent {
        0 => fraction * 2f64.powi(-14),
        0x1f if fraction > 0.0 => f64::NAN,
        0x1f => f64::INFINITY,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    };
    half(if bits >> 15 == 1 { -size } else { size })
}

/// Values with nulls in place of those that are null under `validity`.
fn valid<'a>(
    validity: Option<&Bitmap>,
    values: impl Iterator<Item = Scalar<'a>>,
) -> impl Iterator<Item = Scalar<'a>> {
    values.enumerate().map(move |(row, value)| match validity {
        Some(validity) if !validity.get_bit(row) => Scalar::Null,
        _ => value,
    })
}

/// The values of an array of texts or numbers, such as those of a dictionary, one by one; `None`, when it holds others.
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
        ArrowDataType::UInt64 => of(array, |numbers: &PrimitiveArray<u64>| {
            let number = |number: &u64| exact(i128::from(*number), 0);
            numbers.iter().map(|value| value.map_or(Scalar::Null, number)).collect()
        }),
        ArrowDataType::Float32 => of(array, |array| floats::<f32>(array, shortest)),
        ArrowDataType::Float64 => of(array, |array| floats::<f64>(array, |number| number)),
        ArrowDataType::Boolean => of(array, |truths: &BooleanArray| {
            truths.iter().map(|truth| truth.map_or(Scalar::Null, Scalar::Bool)).collect()
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn singles_are_their_shortest_decimals(bits in any::<u32>(), digits in 0u32..10_000_000, places in 0i32..12) {
            let single = f32::from_bits(bits);
            if single.is_finite() {
                let written: f64 = single.to_string().parse().unwrap();
                prop_assert_eq!(shortest(single).to_bits(), written.to_bits(), "{}", single);
            }
            let short = f64::from(digits % 1_000_000) / 10f64.powi(places);
            prop_assert_eq!(shortest(short as f32), short);
        }
    }

    #[test]
    fn halves_are_their_shortest_decimals() {
        // The numbers 0.7, 0.1, 65504, the least one, and a third in half precision.
        for (half_of, expected) in [
            (0.7001953125, 0.7),
            (0.0999755859375, 0.1),
            (-65504.0, -65500.0),
            (5.960_464_477_539_063e-8, 6e-8),
            (0.333251953125, 0.3333),
            (0.0, 0.0),
        ] {
            assert_eq!(half(half_of), expected, "{half_of}");
        }
        assert!(half(f64::NAN).is_nan() && half(f64::INFINITY).is_infinite());
        assert!(shortest(f32::NAN).is_nan() && shortest(f32::NEG_INFINITY).is_infinite());
        assert_eq!(shortest(-0.0).to_bits(), (-0.0f64).to_bits());
    }
}
