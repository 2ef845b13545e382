//! Evaluations of classes: the metrics of each class, and the confusion matrix.

use event::{Result, fields::FieldType};
use fold::{
    evaluation::{Class, ReleaseEvaluation, Taken},
    formulas::ClassCounts,
};
use polars::prelude::DataFrame;

use crate::{
    budget::Hold,
    columns::ColumnType,
    evaluation_rows::{EvaluationRow, Shown, cell, place_columns},
    request::{Dataset, Request},
    rollups::OTHERS,
    series::{Cell, series},
};

const TEXT: ColumnType = ColumnType::Field(FieldType::Text);
const NUMBER: ColumnType = ColumnType::Field(FieldType::Float);

/// Approximate bytes of a row while the answer is made.
const BYTES_OF_ROW: u64 = 512;

/// The columns of classes, after the columns of the row's place.
const CLASS_COLUMNS: [(&str, ColumnType); 7] = [
    ("class", TEXT),
    ("support", ColumnType::Count),
    ("predicted", ColumnType::Count),
    ("correct", ColumnType::Count),
    ("precision", NUMBER),
    ("recall", NUMBER),
    ("f1", NUMBER),
];

/// The columns of the confusion matrix, after the columns of the row's place.
const CONFUSION_COLUMNS: [(&str, ColumnType); 3] =
    [("truth", TEXT), ("predicted", TEXT), ("count", ColumnType::Count)];

/// Returns the columns of classes or of the confusion matrix, after the columns of the row's place.
pub(crate) fn columns(what: Dataset) -> &'static [(&'static str, ColumnType)] {
    match what {
        Dataset::Classes => &CLASS_COLUMNS,
        Dataset::Confusion => &CONFUSION_COLUMNS,
        _ => &[],
    }
}

/// Builds the frame of classes or of the confusion matrix.
pub(crate) async fn frame_of(
    rows: Vec<EvaluationRow<'_>>,
    request: &Request,
    hold: &Hold,
) -> Result<DataFrame> {
    let places: Vec<(&str, ColumnType, Shown)> = place_columns(request).collect();
    let all: Vec<(&str, ColumnType)> = places
        .iter()
        .map(|(name, kind, _)| (*name, *kind))
        .chain(columns(request.what).iter().copied())
        .collect();
    let mut made = Vec::new();
    for row in &rows {
        let Some(release) = row.metrics.release else { continue };
        let place: Vec<Cell> = places.iter().map(|(.., shown)| cell(shown, row, request)).collect();
        let of_release = cells_of(release, request);
        hold.take(of_release.len() as u64 * BYTES_OF_ROW).await?;
        let all = |cells| place.iter().cloned().chain(cells).collect::<Vec<_>>();
        made.extend(of_release.into_iter().map(|cells| (row.day, all(cells))));
    }
    series(&all, &made, request)
}

/// Returns the cells of the rows of a release.
fn cells_of(release: &ReleaseEvaluation, request: &Request) -> Vec<Vec<Cell>> {
    match request.what {
        Dataset::Confusion => release.confusion().into_iter().map(cells_of_taken).collect(),
        _ => {
            let zero = request.zero_division;
            release.classes().into_iter().map(|(class, counts)| cells_of_class(class, counts, zero)).collect()
        }
    }
}

fn name(class: Class) -> Cell {
    Cell::Text(Some(class.unwrap_or_else(|| OTHERS.to_owned())))
}

fn cells_of_class(class: Class, counts: ClassCounts, zero: Option<f64>) -> Vec<Cell> {
    vec![
        name(class),
        Cell::Int(Some(counts.real)),
        Cell::Int(Some(counts.predicted)),
        Cell::Int(Some(counts.correct)),
        Cell::Float(counts.precision().or(zero)),
        Cell::Float(counts.recall().or(zero)),
        Cell::Float(counts.f1().or(zero)),
    ]
}

fn cells_of_taken(taken: Taken) -> Vec<Cell> {
    vec![name(taken.truth), name(taken.predicted), Cell::Int(Some(taken.count))]
}
