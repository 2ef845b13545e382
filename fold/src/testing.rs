//! Columns from rows, for tests.

use std::collections::BTreeSet;

use event::{
    Column, Columns, Values,
    columns::{Coded, Strings},
    fields::{RETRACTED, SCORE_PREFIX},
};

/// Creates a column of strings; `coded` chooses between its two representations, if possible.
pub(crate) fn texts(name: &str, rows: &[Option<&str>], coded: bool) -> Column {
    let valid = valid(rows);
    let mut dictionary: Vec<&str> = rows.iter().flatten().copied().collect();
    dictionary.sort_unstable();
    dictionary.dedup();
    if !coded || dictionary.len() > 250 {
        let values = Values::Text(rows.iter().map(|row| row.unwrap_or("")).collect());
        return Column { name: name.into(), values, valid };
    }
    // An entry that no row uses, like those left by `Columns::take`.
    dictionary.insert(0, "unused");
    let code = |row: &Option<&str>| {
        row.map_or(0, |text| dictionary.iter().rposition(|&one| one == text).unwrap() as u8)
    };
    let codes = rows.iter().map(code).collect();
    let dictionary: Strings = dictionary.iter().copied().collect();
    Column { name: name.into(), values: Values::Coded(Coded { codes, dictionary }), valid }
}

/// Creates a column of numbers.
pub(crate) fn floats(name: &str, rows: &[Option<f64>]) -> Column {
    let values = Values::Float(rows.iter().map(|row| row.unwrap_or(0.0)).collect());
    Column { name: name.into(), values, valid: valid(rows) }
}

/// Creates a column of times.
pub(crate) fn times(name: &str, rows: &[Option<i64>]) -> Column {
    let values = Values::Time(rows.iter().map(|row| row.unwrap_or(0)).collect());
    Column { name: name.into(), values, valid: valid(rows) }
}

/// Combines columns of equal length.
pub(crate) fn columns(columns: Vec<Column>) -> Columns {
    Columns { rows: columns.first().map_or(0, |column| column.values.len()), columns }
}

fn valid<T>(rows: &[Option<T>]) -> Option<Vec<bool>> {
    rows.iter().any(Option::is_none).then(|| rows.iter().map(Option::is_some).collect())
}

/// A prediction in tests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prediction {
    pub(crate) release: &'static str,
    pub(crate) key: &'static str,
    pub(crate) at: i64,
    pub(crate) score: Option<f64>,
    pub(crate) label: Option<&'static str>,
    pub(crate) value: Option<f64>,
    pub(crate) lower: Option<f64>,
    pub(crate) upper: Option<f64>,
    pub(crate) scores: Vec<(&'static str, f64)>,
    pub(crate) tag: Option<&'static str>,
    pub(crate) group: Option<&'static str>,
    pub(crate) feature: Option<f64>,
    pub(crate) retracted: bool,
}

/// An outcome in tests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) key: &'static str,
    pub(crate) at: Option<i64>,
    pub(crate) observed: i64,
    pub(crate) label: Option<&'static str>,
    pub(crate) value: Option<f64>,
    pub(crate) retracted: bool,
}

/// Creates the column of retractions; `None` if there are none.
fn retracted<R>(rows: &[R], is_retracted: impl Fn(&R) -> bool, coded: bool) -> Option<Column> {
    let said = pick(rows, |row| is_retracted(row).then_some("true"));
    said.iter().any(Option::is_some).then(|| texts(RETRACTED, &said, coded))
}

fn pick<R, T>(rows: &[R], field: impl Fn(&R) -> Option<T>) -> Vec<Option<T>> {
    rows.iter().map(field).collect()
}

/// Packs predictions as columns.
pub(crate) fn predictions(rows: &[Prediction], coded: bool) -> Columns {
    let mut made = vec![
        texts("key", &pick(rows, |row| Some(row.key)), !coded),
        times("predicted_at", &pick(rows, |row| Some(row.at))),
        texts("release", &pick(rows, |row| Some(row.release)), coded),
        floats("score", &pick(rows, |row| row.score)),
        texts("label", &pick(rows, |row| row.label), coded),
        floats("value", &pick(rows, |row| row.value)),
    ];
    // Columns without values are absent.
    let mut add = |name: &str, values: Vec<Option<f64>>| {
        if values.iter().any(Option::is_some) {
            made.push(floats(name, &values));
        }
    };
    add("lower", pick(rows, |row| row.lower));
    add("upper", pick(rows, |row| row.upper));
    add("feature.f", pick(rows, |row| row.feature));
    let classes: BTreeSet<&str> = rows.iter().flat_map(|row| &row.scores).map(|(class, _)| *class).collect();
    for class in classes {
        let score =
            |row: &Prediction| row.scores.iter().find(|(one, _)| *one == class).map(|(_, score)| *score);
        add(&format!("{SCORE_PREFIX}{class}"), pick(rows, score));
    }
    if rows.iter().any(|row| row.tag.is_some()) {
        made.push(texts("tag.t", &pick(rows, |row| row.tag), coded));
    }
    if rows.iter().any(|row| row.group.is_some()) {
        made.push(texts("group", &pick(rows, |row| row.group), coded));
    }
    made.extend(retracted(rows, |row| row.retracted, coded));
    columns(made)
}

/// Packs outcomes as columns.
pub(crate) fn outcomes(rows: &[Outcome], coded: bool) -> Columns {
    let mut made = vec![
        texts("key", &pick(rows, |row| Some(row.key)), coded),
        times("predicted_at", &pick(rows, |row| row.at)),
        times("observed_at", &pick(rows, |row| Some(row.observed))),
        texts("label", &pick(rows, |row| row.label), coded),
        floats("value", &pick(rows, |row| row.value)),
    ];
    made.extend(retracted(rows, |row| row.retracted, coded));
    columns(made)
}

/// Returns the rows of one of `parts` parts of all keys.
pub(crate) fn part(columns: &Columns, number: usize, parts: usize) -> Columns {
    let partitions = crate::evaluation::partitions(columns, 0).unwrap();
    let mut rows = partitions.into_iter().skip(number).step_by(parts).flatten().collect::<Vec<_>>();
    rows.sort_unstable();
    columns.take(&rows)
}
