//! Predictions that every format can hold, and bodies of them.

use polars::prelude::{DataFrame, DataType, IntoColumn as _, NamedFrom as _, Series, TimeUnit, TimeZone};
use polars_io::{
    SerWriter as _,
    ipc::{IpcCompression, IpcStreamWriter},
    parquet::write::{ParquetCompression, ParquetWriter},
};

use super::*;

/// Columns of [`Event`]s, each with a flag for numbers.
pub(super) const COLUMNS: [(&str, bool); 13] = [
    ("key", false),
    ("predicted_at", false),
    ("release", false),
    ("score", true),
    ("label", false),
    ("tag.carrier", false),
    ("value", true),
    ("lower", true),
    ("upper", true),
    ("score.late", true),
    ("score.on time", true),
    ("feature.age", true),
    ("feature.x.y", true),
];

/// A cell of an event.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Null,
    Text(String),
    Number(f64),
}

impl Cell {
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Cell::Text(text) => Some(text.clone()),
            Cell::Null | Cell::Number(_) => None,
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Cell::Number(number) => Some(*number),
            Cell::Null | Cell::Text(_) => None,
        }
    }

    pub(super) fn json(&self) -> serde_json::Value {
        self.text().map_or_else(|| self.number().into(), Into::into)
    }
}

/// Prediction by [`COLUMNS`]; the texts hold no commas, quotes or line ends, and are not empty.
pub(super) type Event = Vec<Cell>;

/// Values by the names of their columns, those of families in an object of their own.
pub(super) fn nested(cells: impl Iterator<Item = (&'static str, serde_json::Value)>) -> serde_json::Value {
    let mut fields = serde_json::Map::new();
    for (name, value) in cells {
        match Kind::Predictions.family(name).and_then(|family| Some((family.name, family.member(name)?))) {
            Some((family, member)) => {
                fields.entry(family).or_insert_with(|| serde_json::json!({}))[member] = value;
            }
            None => _ = fields.insert(name.to_owned(), value),
        }
    }
    fields.into()
}

pub(super) fn json(event: &Event) -> String {
    let cells = COLUMNS.iter().zip(event).map(|((name, _), cell)| (*name, cell.json()));
    nested(cells.filter(|(_, value)| !value.is_null())).to_string()
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let times = 1_369_958_400_000_000i64..1_370_131_200_000_000;
    let text = || "[a-zA-Zé0-9]{1,9}";
    let texts = (prop::option::of(text()), prop::option::of(text()));
    let numbers = || prop::option::of(any::<i32>().prop_map(|whole| f64::from(whole) / 7.0));
    let shares = (prop::option::of(0.0f64..=1.0), prop::option::of(0.0f64..=1.0));
    let numbers = (shares, numbers(), numbers(), numbers(), numbers(), numbers());
    (text(), times, "v[1-3]", texts, numbers).prop_map(
        |(key, micros, release, (label, carrier), ((score, late), value, one, other, age, xy))| {
            let time = Timestamp::from_micros(micros).unwrap().to_string();
            let label = label.or(score.is_none().then(|| "x".to_owned()));
            let is_swapped = one > other && other.is_some();
            let (lower, upper) = if is_swapped { (other, one) } else { (one, other) };
            let text = |text: Option<String>| text.map_or(Cell::Null, Cell::Text);
            let number = |number: Option<f64>| number.map_or(Cell::Null, Cell::Number);
            let mut cells = vec![Cell::Text(key), Cell::Text(time), Cell::Text(release), number(score)];
            cells.extend([text(label), text(carrier), number(value), number(lower), number(upper)]);
            cells.extend([number(late), number(late.map(|late| 1.0 - late)), number(age), number(xy)]);
            cells
        },
    )
}

pub(super) fn frame(events: &[Event]) -> DataFrame {
    let micros = |cell: &Cell| Timestamp::parse(&cell.text().unwrap()).unwrap().micros();
    let columns = COLUMNS.iter().enumerate().map(|(at, (name, is_number))| {
        let cells = events.iter().map(|event| &event[at]);
        match name {
            &"predicted_at" => {
                let times = Series::new((*name).into(), cells.map(micros).collect::<Vec<_>>());
                times
                    .cast(&DataType::Datetime(TimeUnit::Microseconds, Some(TimeZone::UTC)))
                    .unwrap()
                    .into_column()
            }
            _ if *is_number => {
                Series::new((*name).into(), cells.map(Cell::number).collect::<Vec<_>>()).into_column()
            }
            _ => Series::new((*name).into(), cells.map(Cell::text).collect::<Vec<_>>()).into_column(),
        }
    });
    DataFrame::new(events.len(), columns.collect()).unwrap()
}

pub(super) fn arrow(frame: &mut DataFrame, compression: Option<IpcCompression>) -> Vec<u8> {
    let mut bytes = Vec::new();
    IpcStreamWriter::new(&mut bytes).with_compression(compression).finish(frame).unwrap();
    bytes
}

pub(super) fn parquet(frame: &mut DataFrame, compression: ParquetCompression) -> Vec<u8> {
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes).with_compression(compression).finish(frame).unwrap();
    bytes
}

/// Bodies of the events in every format.
pub(super) fn bodies(events: &[Event]) -> Vec<(Format, Vec<u8>)> {
    let lines: Vec<String> = events.iter().map(json).collect();
    let columns = COLUMNS.iter().enumerate().map(|(at, (name, _))| {
        (*name, events.iter().map(|event| event[at].json()).collect::<Vec<_>>().into())
    });
    let columns = format!(" {} ", nested(columns));
    let mut csv = COLUMNS.map(|(name, _)| name).join(",") + "\r\n";
    for event in events {
        let cell = |cell: &Cell| match cell {
            Cell::Null => String::new(),
            Cell::Text(text) => format!("\"{text}\""),
            Cell::Number(number) => format!("{number:?}"),
        };
        csv += &(event.iter().map(cell).collect::<Vec<_>>().join(",") + "\n");
    }
    let mut frame = frame(events);
    vec![
        (Format::Ndjson, lines.join("\n").into_bytes()),
        (Format::Json, format!("[{}]", lines.join(" ,\n")).into_bytes()),
        (Format::Json, columns.into_bytes()),
        (Format::Csv, csv.into_bytes()),
        (Format::Arrow, arrow(&mut frame, None)),
        (Format::Arrow, arrow(&mut frame, Some(IpcCompression::LZ4))),
        (Format::Parquet, parquet(&mut frame, ParquetCompression::Snappy)),
    ]
}
