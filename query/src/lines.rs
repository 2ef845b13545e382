//! Rows as lines of text. The bytes equal those of polars' writers, which still write columns of types unknown here; they are
//! several times as slow, as each value goes through a call of its own. The only difference is numbers that JSON lacks: polars
//! writes them as null.

mod syntax;

use std::{
    io::{self, Write},
    ops::Range,
};

use event::{Error, Result, Timestamp, time::DAY_MICROS};
use polars::prelude::{Column, DataFrame, DataType, TimeUnit};
use polars_arrow::array::{Array, BooleanArray, PrimitiveArray, Utf8ViewArray};

pub(crate) use syntax::cell;
use syntax::{Csv, Ndjson, Syntax, append_some, json, short};

use crate::work;

/// Number of rows converted to text at a time.
const PIECE_ROWS: usize = 4_096;

/// Bytes of a day, and maximum bytes of an instant.
const DAY: usize = 10;
const MAX_TIME: usize = DAY + 17;

/// Number of days cached as text.
const KEPT_DAYS: usize = 64;

const SECOND_MICROS: u32 = 1_000_000;

/// A format of lines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lines {
    /// Comma-separated values; optionally for spreadsheets, without formulas.
    Csv { is_for_spreadsheets: bool },
    /// One JSON object per line.
    Ndjson,
}

impl Lines {
    /// Writes rows; of many rows, both halves are converted at the same time.
    ///
    /// # Errors
    /// An error if they cannot be written.
    pub(crate) fn write(self, rows: &DataFrame, to: &mut impl Write) -> Result<()> {
        let half = rows.height() / 2 / PIECE_ROWS * PIECE_ROWS;
        if half == 0 {
            return self.write_alone(rows, to);
        }
        let (first, second) = (rows.slice(0, half), rows.slice(half as i64, usize::MAX));
        let text_of_second = move || {
            let mut text = Vec::new();
            self.write_alone(&second, &mut text).map(|()| text)
        };
        let (first, second) = work::both(|| self.write_alone(&first, to), text_of_second)?;
        first?;
        to.write_all(&second?).map_err(cannot)
    }

    fn write_alone(self, rows: &DataFrame, to: &mut impl Write) -> Result<()> {
        let mut text = Vec::new();
        for start in (0..rows.height()).step_by(PIECE_ROWS) {
            let piece = rows.slice(start as i64, PIECE_ROWS);
            let columns: Vec<Column> = piece.columns().iter().map(Column::rechunk).collect();
            text.clear();
            match self {
                Self::Csv { is_for_spreadsheets } => {
                    write_piece(&Csv { is_for_spreadsheets }, &columns, piece.height(), &mut text)?;
                }
                Self::Ndjson => write_piece(&Ndjson, &columns, piece.height(), &mut text)?,
            }
            to.write_all(&text).map_err(cannot)?;
        }
        Ok(())
    }
}

pub(crate) fn cannot(error: io::Error) -> Error {
    Error::unavailable("the result cannot be written").because(error)
}

/// Writes columns of one chunk each.
fn write_piece<S: Syntax>(syntax: &S, columns: &[Column], rows: usize, to: &mut Vec<u8>) -> Result<()> {
    // Values equal in all rows are put into the text before the next column: columns without any value, and constant ones, such
    // as the day.
    let mut same = Vec::new();
    let mut cells = Vec::with_capacity(columns.len());
    for (at, column) in columns.iter().enumerate() {
        let values = match Values::of(column) {
            Some(values) => values,
            None => Values::Other(syntax.by_polars(column)?),
        };
        same.extend(syntax.before(at == 0, column.name()));
        let nulls = column.null_count();
        if nulls == rows {
            same.extend_from_slice(S::NULL);
            continue;
        }
        let is_constant = nulls == 0 && values.is_constant();
        let mut cell =
            Cells { values, has_null: nulls > 0, before: Vec::new(), last: None, days: Days::default() };
        if is_constant {
            cell.write(syntax, 0, &mut same);
            continue;
        }
        cell.before = std::mem::take(&mut same);
        cells.push(cell);
    }
    if columns.is_empty() {
        return Ok(());
    }
    same.extend_from_slice(syntax.end());
    for row in 0..rows {
        for cell in &mut cells {
            append(&cell.before, to);
            cell.write(syntax, row, to);
        }
        append(&same, to);
    }
    Ok(())
}

/// Appends a few bytes; a single one, such as the comma between two values, without a call.
#[inline]
fn append(bytes: &[u8], to: &mut Vec<u8>) {
    match bytes {
        [byte] => to.push(*byte),
        bytes => to.extend_from_slice(bytes),
    }
}

/// The values of a column.
enum Values<'a> {
    Text(&'a Utf8ViewArray),
    Float(&'a PrimitiveArray<f64>),
    Single(&'a PrimitiveArray<f32>),
    Int(&'a PrimitiveArray<i64>),
    Count(&'a PrimitiveArray<u64>),
    Small(&'a PrimitiveArray<u32>),
    Flag(&'a BooleanArray),
    Time(&'a PrimitiveArray<i64>),
    Day(&'a PrimitiveArray<i32>),
    /// Texts of a type unknown here.
    Other(Vec<Vec<u8>>),
}

impl<'a> Values<'a> {
    fn of(column: &'a Column) -> Option<Self> {
        Some(match column.dtype() {
            DataType::String => Self::Text(column.str().ok()?.downcast_iter().next()?),
            DataType::Float64 => Self::Float(column.f64().ok()?.downcast_iter().next()?),
            DataType::Float32 => Self::Single(column.f32().ok()?.downcast_iter().next()?),
            DataType::Int64 => Self::Int(column.i64().ok()?.downcast_iter().next()?),
            DataType::UInt64 => Self::Count(column.u64().ok()?.downcast_iter().next()?),
            DataType::UInt32 => Self::Small(column.u32().ok()?.downcast_iter().next()?),
            DataType::Boolean => Self::Flag(column.bool().ok()?.downcast_iter().next()?),
            DataType::Datetime(TimeUnit::Microseconds, _) => {
                Self::Time(column.datetime().ok()?.physical().downcast_iter().next()?)
            }
            DataType::Date => Self::Day(column.date().ok()?.physical().downcast_iter().next()?),
            _ => return None,
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Text(values) => values.is_null(row),
            Self::Float(values) => values.is_null(row),
            Self::Single(values) => values.is_null(row),
            Self::Int(values) | Self::Time(values) => values.is_null(row),
            Self::Count(values) => values.is_null(row),
            Self::Small(values) => values.is_null(row),
            Self::Flag(values) => values.is_null(row),
            Self::Day(values) => values.is_null(row),
            // Nulls are part of the text.
            Self::Other(_) => false,
        }
    }

    /// Returns true if all rows have equal values, as far as this is quickly checked; for columns without nulls.
    fn is_constant(&self) -> bool {
        fn one<T: Copy>(values: &[T], is_same: impl Fn(T, T) -> bool) -> bool {
            values.split_first().is_some_and(|(first, rest)| rest.iter().all(|value| is_same(*value, *first)))
        }
        match self {
            Self::Text(values) => one(values.views(), |a, b| a.as_u128() == b.as_u128()),
            Self::Float(values) => one(values.values(), |a, b| a.to_bits() == b.to_bits()),
            Self::Int(values) | Self::Time(values) => one(values.values(), |a, b| a == b),
            Self::Count(values) => one(values.values(), |a, b| a == b),
            Self::Small(values) => one(values.values(), |a, b| a == b),
            Self::Day(values) => one(values.values(), |a, b| a == b),
            Self::Single(_) | Self::Flag(_) | Self::Other(_) => false,
        }
    }

    /// Returns true if two rows have equal values, as far as this is quickly checked.
    fn is_same(&self, row: usize, other: usize) -> bool {
        match self {
            // A short text is written as fast as it is compared.
            Self::Text(values) => {
                !values.views()[row].is_inline() && values.value(row) == values.value(other)
            }
            Self::Float(values) => values.value(row).to_bits() == values.value(other).to_bits(),
            Self::Time(values) => values.value(row) == values.value(other),
            Self::Day(values) => values.value(row) == values.value(other),
            // These are written as fast as they are compared.
            Self::Int(_) | Self::Count(_) | Self::Small(_) | Self::Flag(_) => false,
            Self::Single(_) | Self::Other(_) => false,
        }
    }
}

/// A column that is written row by row.
struct Cells<'a> {
    values: Values<'a>,
    has_null: bool,
    before: Vec<u8>,
    /// The row of the last value, and the range of its text.
    last: Option<(usize, Range<usize>)>,
    days: Days,
}

impl Cells<'_> {
    fn write<S: Syntax>(&mut self, syntax: &S, row: usize, to: &mut Vec<u8>) {
        if self.has_null && self.values.is_null(row) {
            return to.extend_from_slice(S::NULL);
        }
        // A value equal to the one before it, as is common for releases and days, is copied.
        if let Some((last, written)) = &self.last
            && self.values.is_same(row, *last)
        {
            return to.extend_from_within(written.clone());
        }
        let start = to.len();
        match &self.values {
            Values::Text(values) => {
                let is_written =
                    short(values.views()[row]).is_some_and(|(text, len)| syntax.short(&text, len, to));
                if !is_written {
                    syntax.text(values.value(row), to);
                }
            }
            Values::Float(values) => match values.value(row) {
                value if value.is_finite() => json(&value, to),
                value => syntax.not_finite(value, to),
            },
            Values::Single(values) => match values.value(row) {
                value if value.is_finite() => json(&value, to),
                value => syntax.not_finite(value.into(), to),
            },
            Values::Other(texts) => append(&texts[row], to),
            Values::Int(values) => json(&values.value(row), to),
            Values::Count(values) => json(&values.value(row), to),
            Values::Small(values) => json(&values.value(row), to),
            Values::Flag(values) => json(&values.value(row), to),
            Values::Time(values) => self.days.write_time::<S>(values.value(row), to),
            Values::Day(values) => self.days.write_day::<S>(values.value(row).into(), to),
        }
        self.last = Some((row, start..to.len()));
    }
}

/// A cache of recently written days as text.
struct Days([Option<(i64, [u8; DAY])>; KEPT_DAYS]);

impl Default for Days {
    fn default() -> Self {
        Self([None; KEPT_DAYS])
    }
}

impl Days {
    /// Returns the text of a day; `None` outside of the supported years.
    fn text(&mut self, day: i64) -> Option<[u8; DAY]> {
        let kept = &mut self.0[day.rem_euclid(KEPT_DAYS as i64) as usize];
        if let Some((number, text)) = kept
            && *number == day
        {
            return Some(*text);
        }
        let text = Timestamp::from_micros(day.checked_mul(DAY_MICROS)?)?.day().to_string();
        let text = text.into_bytes().try_into().ok()?;
        *kept = Some((day, text));
        Some(text)
    }

    fn write_day<S: Syntax>(&mut self, day: i64, to: &mut Vec<u8>) {
        let Some(text) = self.text(day) else { return to.extend_from_slice(S::NULL) };
        to.extend_from_slice(S::QUOTE);
        to.extend_from_slice(&text);
        to.extend_from_slice(S::QUOTE);
    }

    /// Writes an instant in RFC 3339 with as many digits of fractions as it needs: none, three or six.
    fn write_time<S: Syntax>(&mut self, micros: i64, to: &mut Vec<u8>) {
        let Some(day) = self.text(micros.div_euclid(DAY_MICROS)) else {
            return to.extend_from_slice(S::NULL);
        };
        let of_day = micros.rem_euclid(DAY_MICROS);
        let seconds = (of_day / i64::from(SECOND_MICROS)) as u32;
        let micros = (of_day % i64::from(SECOND_MICROS)) as u32;
        let [h1, h0] = two_digits(seconds / 3_600);
        let [m1, m0] = two_digits(seconds / 60 % 60);
        let [s1, s0] = two_digits(seconds % 60);
        let [a, b] = two_digits(micros / 10_000);
        let [c, d] = two_digits(micros / 100 % 100);
        let [e, f] = two_digits(micros % 100);
        let mut text = [0; MAX_TIME];
        text[..DAY].copy_from_slice(&day);
        text[DAY..]
            .copy_from_slice(&[b'T', h1, h0, b':', m1, m0, b':', s1, s0, b'.', a, b, c, d, e, f, b'Z']);
        let end = match micros {
            0 => DAY + 9,
            _ if micros.is_multiple_of(1_000) => DAY + 13,
            _ => DAY + 16,
        };
        text[end] = b'Z';
        append(S::QUOTE, to);
        append_some(&text, end + 1, to);
        append(S::QUOTE, to);
    }
}

fn two_digits(number: u32) -> [u8; 2] {
    [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8]
}

#[cfg(test)]
mod tests {
    use polars::prelude::{
        BooleanChunked, Float32Chunked, IntoColumn, NewChunkedArray, UInt32Chunked, UInt64Chunked,
    };
    use polars_io::{
        SerWriter,
        csv::write::CsvWriter,
        json::{JsonFormat, JsonWriter},
    };

    use super::*;
    use crate::{
        frame::{floats, frame, ints, texts, times},
        output::{text_of, with_text_times},
    };

    /// A deterministic generator of pseudo-random numbers.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) ^ (self.0 << 40)
        }

        fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
            all[self.next() as usize % all.len()].clone()
        }

        fn some<T>(&mut self, value: T) -> Option<T> {
            (!self.next().is_multiple_of(5)).then_some(value)
        }
    }

    const TEXTS: [&str; 14] = [
        "",
        "v1",
        "a,b",
        "say \"so\"",
        "\"",
        "two\nlines",
        "back\r",
        "tab\there",
        "\u{0}\u{1f}\u{7f}\u{8}\u{c}",
        "back\\slash",
        "é ü 漢字 \u{2028} 🦀",
        "a key that is longer than a view holds itself",
        "a key that is longer than a view holds, \"quoted\"",
        " ",
    ];
    const FLOATS: [f64; 16] = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.1,
        1e-7,
        1e16,
        1e21,
        123_456_789.123_456_78,
        5e-324,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.300_000_000_000_000_04,
    ];
    const TIMES: [i64; 9] = [
        0,
        -1,
        1,
        1_370_061_000_250_000,
        1_370_061_000_250_001,
        1_370_061_000_000_000,
        -62_135_596_800_000_000,
        253_402_300_799_999_999,
        253_402_300_800_000_000,
    ];

    /// Builds a random column of any type known here.
    fn column(random: &mut Random, name: &str, rows: usize) -> Column {
        let each = 0..rows;
        // Some columns have long stretches of one value.
        let repeats = 1 + random.next() % 4;
        macro_rules! values {
            ($value:expr) => {{
                let mut last = None;
                let values = each.map(|_| {
                    if last.is_none() || random.next().is_multiple_of(repeats) {
                        let value = $value;
                        last = Some(random.some(value));
                    }
                    last.clone().flatten()
                });
                values.collect::<Vec<_>>().into_iter()
            }};
        }
        let any = |random: &mut Random| match random.next() % 3 {
            0 => f64::from_bits(random.next()),
            1 => (random.next() % 1_000_000) as f64 / 1e4,
            _ => random.one_of(&FLOATS),
        };
        match random.next() % 8 {
            0 | 1 => texts(name, values!(random.one_of(&TEXTS))),
            2 => floats(name, values!(any(random))),
            3 => ints(name, values!(random.next())),
            4 => times(name, values!(random.one_of(&TIMES) + (random.next() % 3) as i64)),
            5 => {
                let days = values!((random.next() % 4_000_000) as i32 - 800_000);
                polars::prelude::Int32Chunked::from_iter_options(name.into(), days).into_date().into_column()
            }
            6 => UInt64Chunked::from_iter_options(name.into(), values!(random.next())).into_column(),
            _ => match random.next() % 2 {
                0 => {
                    let flags = values!(random.next().is_multiple_of(2));
                    BooleanChunked::from_iter_options(name.into(), flags).into_column()
                }
                _ => {
                    UInt32Chunked::from_iter_options(name.into(), values!(random.next() as u32)).into_column()
                }
            },
        }
    }

    fn written(lines: Lines, rows: &DataFrame) -> String {
        let mut text = Vec::new();
        lines.write(rows, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    const CSV: Lines = Lines::Csv { is_for_spreadsheets: false };

    #[test]
    fn cells_steer_no_terminal_and_are_no_formulas() {
        for (text, plain, in_spreadsheets) in [
            ("a\u{1b}[31mb", r"a\u{1b}[31mb", r"a\u{1b}[31mb"),
            (
                "\u{9b}2J and a longer text\u{7f}\0",
                r"\u{9b}2J and a longer text\u{7f}\u{0}",
                r"\u{9b}2J and a longer text\u{7f}\u{0}",
            ),
            ("£ ©\t", "£ ©\t", "£ ©\t"),
            ("a\r\nb", "\"a\r\nb\"", "\"a\r\nb\""),
            ("=1+1", "=1+1", "'=1+1"),
            ("@SUM(A1:A9), and so on", "\"@SUM(A1:A9), and so on\"", "\"'@SUM(A1:A9), and so on\""),
            ("-1", "-1", "'-1"),
            ("+4", "+4", "'+4"),
            ("\tx", "\tx", "'\tx"),
            ("＝1", "＝1", "'＝1"),
            ("a=1", "a=1", "a=1"),
            ("", "\"\"", "\"\""),
        ] {
            // A value that is equal in all rows takes another path.
            for values in [vec![Some(text), Some("x")], vec![Some(text), Some(text)]] {
                let second = if values[0] == values[1] { None } else { Some("x") };
                let rows = frame(2, vec![texts("key", values.into_iter())]).unwrap();
                for (is_for_spreadsheets, expected) in [(false, plain), (true, in_spreadsheets)] {
                    let expected = format!("{expected}\n{}\n", second.unwrap_or(expected));
                    assert_eq!(written(Lines::Csv { is_for_spreadsheets }, &rows), expected);
                }
            }
        }
        let numbers = frame(1, vec![floats("score", std::iter::once(Some(-0.5)))]).unwrap();
        assert_eq!(written(Lines::Csv { is_for_spreadsheets: true }, &numbers), "-0.5\n");
    }

    fn by_polars(lines: Lines, rows: &DataFrame) -> String {
        let columns = rows.columns().iter().map(|column| match (lines, column.str()) {
            (Lines::Csv { is_for_spreadsheets }, Ok(texts)) => {
                let cells = texts.iter().map(|text| text.map(|text| cell(text, is_for_spreadsheets)));
                text_of(column, cells)
            }
            _ => column.clone(),
        });
        let rows = DataFrame::new(rows.height(), columns.collect()).unwrap();
        let (mut rows, mut text) = (with_text_times(&rows).unwrap(), Vec::new());
        match lines {
            Lines::Csv { .. } => CsvWriter::new(&mut text).include_header(false).finish(&mut rows).unwrap(),
            Lines::Ndjson => {
                let mut writer = JsonWriter::new(&mut text).with_json_format(JsonFormat::JsonLines);
                writer.finish(&mut rows).unwrap();
            }
        }
        String::from_utf8(text).unwrap()
    }

    /// Output equals that of polars byte for byte, for any rows and any division into frames, except for numbers that JSON lacks.
    #[test]
    fn lines_are_those_that_polars_writes() {
        let mut random = Random(1);
        for round in 0..400 {
            let pieces = 1 + round % 100 / 50;
            let rows = if round % 50 == 0 { pieces * PIECE_ROWS + 7 } else { random.next() as usize % 40 };
            let width = 1 + random.next() as usize % 6;
            let names = ["key", "tag.\"x\"", "a,b", "score", "é", "last\n"];
            let make = |random: &mut Random| {
                let columns = (0..width).map(|at| column(random, names[at], rows)).collect();
                frame(rows, columns).unwrap()
            };
            let mut all = make(&mut random);
            if round % 3 == 0 {
                // Several chunks, one of them sliced.
                let more = all.slice(1, rows / 2);
                all.vstack_mut(&more).unwrap();
            }
            for lines in [CSV, Lines::Csv { is_for_spreadsheets: true }, Lines::Ndjson] {
                let mut found = written(lines, &all);
                if matches!(lines, Lines::Ndjson) {
                    for special in ["\"NaN\"", "\"Infinity\"", "\"-Infinity\""] {
                        found = found.replace(special, "null");
                    }
                }
                assert_eq!(found, by_polars(lines, &all), "round {round}: {all}");
            }
        }
    }

    /// Statements of SQL may return columns of any type.
    #[test]
    fn columns_of_other_types_are_written_by_polars() {
        let small = polars::prelude::Int32Chunked::from_slice("n".into(), &[1, -2]).into_column();
        let span = polars::prelude::Int64Chunked::from_slice("took".into(), &[3_600_000_000, 1]);
        let span = span.into_duration(TimeUnit::Microseconds).into_column();
        let columns = vec![texts("key", [Some("a"), None].into_iter()), small, span];
        let rows = frame(2, columns).unwrap();
        assert_eq!(written(CSV, &rows), "a,1,PT3600S\n,-2,PT0.000001S\n");
        assert_eq!(
            written(Lines::Ndjson, &rows),
            "{\"key\":\"a\",\"n\":1,\"took\":\"PT3600S\"}\n{\"key\":null,\"n\":-2,\"took\":\"PT0.000001S\"}\n"
        );
    }

    #[test]
    fn not_finite_numbers_have_names_in_json() {
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5];
        let small = polars::prelude::Int32Chunked::from_slice("n".into(), &[1, 2, 3, 4]).into_column();
        let single = special.map(|value| value as f32);
        let single = Float32Chunked::from_slice("single".into(), &single).into_column();
        let double = floats("double", special.into_iter().map(Some));
        let rows = frame(4, vec![double, single, small]).unwrap();
        assert_eq!(
            written(Lines::Ndjson, &rows),
            "{\"double\":\"NaN\",\"single\":\"NaN\",\"n\":1}\n\
             {\"double\":\"Infinity\",\"single\":\"Infinity\",\"n\":2}\n\
             {\"double\":\"-Infinity\",\"single\":\"-Infinity\",\"n\":3}\n\
             {\"double\":0.5,\"single\":0.5,\"n\":4}\n"
        );
        assert_eq!(written(CSV, &rows), "NaN,NaN,1\ninf,inf,2\n-inf,-inf,3\n0.5,0.5,4\n");
    }
}
