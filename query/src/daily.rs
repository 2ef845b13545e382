//! The daily series of evaluations, a row for each day and release; and what series have in common.

use std::{collections::BTreeMap, sync::Arc};

use fold::{Evaluation, evaluate, evaluation};
use futures::{StreamExt, TryStreamExt, stream};
use polars::prelude::{Column as Series, DataFrame};
use store::{
    Day, Error, Id, Item, Kind, Result, Table, active,
    catalog::Catalog,
    evaluated::{self, At, Found},
    event::TAG_PREFIX,
    key::{self, Projection},
    table::Query,
};

use crate::{
    budget::Hold,
    events::unknown_column,
    frame,
    joined::{bytes_of, in_log},
    read::{self, Filter, Reading},
    request::Request,
};

/// How many days are evaluated at once.
const DAYS_AT_ONCE: usize = 2;

/// One cell.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Text(Option<String>),
    Int(Option<u64>),
    Float(Option<f64>),
}

/// A row: the day, and its cells in the order of the columns.
pub(crate) type Row = (Day, Vec<Cell>);

/// The columns of evaluations, after the day.
pub(crate) const EVALUATION_COLUMNS: &[&str] = &[
    "release",
    "predictions",
    "labelled",
    "maturity",
    "positives",
    "accuracy",
    "auc",
    "log_loss",
    "brier",
    "precision",
    "recall",
    "f1",
    "ece",
    "mean_score",
    "mae",
    "rmse",
    "bias",
    "wins",
    "losses",
    "ties",
    "repeated",
    "unmatched",
    "definition_from",
    "positive_label",
    "threshold",
];

/// How good the predictions were, as it is stored.
pub(crate) async fn stored_evaluations(
    table: &Arc<dyn Table>,
    workspace: &Id,
    request: &Request,
    hold: &Hold,
) -> Result<DataFrame> {
    let stored = stored(table, workspace, request, hold).await?.into_iter();
    let read = |(day, states): (Day, Vec<String>)| {
        let evaluation = Evaluation::from_states(&states);
        Ok((day, evaluation.map_err(|error| Error::corrupt(format!("{day}: {error}")))?))
    };
    evaluation_rows(&stored.map(read).collect::<Result<Vec<_>>>()?, request)
}

/// How good the predictions were, computed from what was known at another time than now.
pub(crate) async fn evaluations_as_of(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<DataFrame> {
    evaluation_rows(&evaluate_as_of(reading, catalog).await?, request)
}

fn evaluation_rows(evaluations: &[(Day, Evaluation)], request: &Request) -> Result<DataFrame> {
    let rows: Vec<Row> = evaluations
        .iter()
        .flat_map(|(day, evaluation)| {
            let releases = evaluation.releases.iter();
            let unmatched = evaluation.unmatched;
            let rows = releases.map(move |(name, release)| evaluation_row(name, release, unmatched));
            // Outcomes of a day without predictions have no release to stand with.
            let alone = (evaluation.releases.is_empty() && unmatched.is_some_and(|unmatched| unmatched > 0))
                .then(|| unmatched_row(unmatched));
            rows.chain(alone).map(|row| (*day, row))
        })
        .collect();
    series(EVALUATION_COLUMNS, &rows, request)
}

/// The row of a day without predictions.
fn unmatched_row(unmatched: Option<u64>) -> Vec<Cell> {
    let cell = |name: &&str| match *name {
        "unmatched" => Cell::Int(unmatched),
        "release" | "definition_from" | "positive_label" => Cell::Text(None),
        name if is_count(name) => Cell::Int(None),
        _ => Cell::Float(None),
    };
    EVALUATION_COLUMNS.iter().map(cell).collect()
}

fn evaluation_row(name: &str, release: &evaluation::ReleaseEvaluation, unmatched: Option<u64>) -> Vec<Cell> {
    use evaluation::Measures;
    let (mut positives, mut judged) = (None, [None; 8]);
    let (mut positive_label, mut threshold) = (None, None);
    let mut errors = [None; 3];
    match &release.measures {
        Some(Measures::Binary(of)) => {
            positives = Some(of.positives);
            (positive_label, threshold) = (Some(of.positive.clone()), Some(of.threshold));
            judged = [of.accuracy, of.auc, of.log_loss, of.brier, of.precision, of.recall, of.f1, of.ece];
        }
        Some(Measures::Multiclass(of)) => judged[0] = of.accuracy,
        Some(Measures::Regression(of)) => errors = [of.mae, of.rmse, of.bias],
        None => {}
    }
    let counts = [
        Cell::Text(Some(name.to_owned())),
        Cell::Int(Some(release.predictions)),
        Cell::Int(Some(release.labelled)),
        Cell::Float(release.maturity()),
        Cell::Int(positives),
    ];
    let figures = judged.into_iter().chain([release.mean_score]).chain(errors).map(Cell::Float);
    let record = [release.record.wins, release.record.losses, release.record.ties];
    let definition = [
        Cell::Int(release.repeated),
        Cell::Int(unmatched),
        Cell::Text(release.defined_from.map(|day| day.to_string())),
        Cell::Text(positive_label),
        Cell::Float(threshold),
    ];
    let record = record.map(|count| Cell::Int(Some(count)));
    counts.into_iter().chain(figures).chain(record).chain(definition).collect()
}

/// Evaluates each day by what had been appended by then.
async fn evaluate_as_of(reading: &Arc<Reading>, catalog: &Catalog) -> Result<Vec<(Day, Evaluation)>> {
    // Those of then: a figure is judged by what had been said of its day by then.
    let definitions = catalog.definitions(&reading.workspace).await?;
    let definitions = &definitions.known(|one| one.appended_at <= reading.closed);
    let filter = |kind, columns: &[&str]| {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        Filter { kind, columns: Some(columns), release: None }
    };
    let of_predictions = filter(Kind::Predictions, evaluation::PREDICTION_COLUMNS);
    let of_outcomes = filter(Kind::Outcomes, evaluation::OUTCOME_COLUMNS);
    let days = read::days(reading.window).map(async |day| {
        let (predictions, outcomes) = futures::try_join!(
            read::day_of(reading, day, &of_predictions),
            read::day_of(reading, day, &of_outcomes),
        )?;
        let bytes = bytes_of(&predictions) + bytes_of(&outcomes);
        let (by, hold) = (definitions.of(day), reading.hold.clone());
        let judging = tokio::task::spawn_blocking(move || {
            hold.check()?;
            let judged = evaluate(&in_log(&predictions), &in_log(&outcomes), &by);
            judged.map_err(|error| Error::corrupt(format!("{day}: {error}")))
        });
        let judged =
            judging.await.map_err(|error| Error::unavailable("evaluating was interrupted").because(error))?;
        reading.hold.shrink(bytes);
        Ok((day, judged?))
    });
    stream::iter(days).buffered(DAYS_AT_ONCE).try_collect().await
}

/// The stored evaluations of a window: one query, and one more for each day that was evaluated while its
/// parts were read.
async fn stored(
    table: &Arc<dyn Table>,
    workspace: &Id,
    request: &Request,
    hold: &Hold,
) -> Result<Vec<(Day, Vec<String>)>> {
    'read: loop {
        let (version, items) = active_items(table, workspace, request, hold).await?;
        let mut days = BTreeMap::<Day, Vec<&Item>>::new();
        for item in &items {
            let (day, projection) = key::parse_projection(&item.key)?;
            if let Projection::Evaluation | Projection::EvaluationPart(..) = projection {
                days.entry(day).or_default().push(item);
            }
        }
        let mut states = Vec::new();
        for (day, items) in days {
            match evaluated::assemble(items)? {
                Found::Nothing => {}
                Found::Whole(_, found) => states.push((day, found)),
                Found::Torn(_) => match evaluated::load(&**table, At { workspace, version, day }).await? {
                    Some((_, found)) => states.push((day, found)),
                    // A rebuild has deleted this version.
                    None => continue 'read,
                },
            }
        }
        return Ok(states);
    }
}

/// All items of the projections of a window, of the version that is the active one, which it returns.
pub(crate) async fn active_items(
    table: &Arc<dyn Table>,
    workspace: &Id,
    request: &Request,
    hold: &Hold,
) -> Result<(u32, Vec<Item>)> {
    let mut version = active::load(&**table, workspace).await?.version;
    loop {
        let range = key::projections(workspace, version, request.window.from(), request.window.to());
        let mut query = Query::table(range);
        let mut items = Vec::new();
        loop {
            let page = table.query(&query).await?;
            let bytes = page.items.iter().map(|item| item.size() as u64).sum();
            hold.grow(bytes).await.map_err(|full| hold.budget().refusal(full))?;
            items.extend(page.items);
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        // A rebuild may have made another version the active one, and deleted what was being read.
        let now = active::load(&**table, workspace).await?.version;
        if now == version {
            return Ok((version, items));
        }
        version = now;
    }
}

/// The rows as a dataframe: the day, then `columns`, or of these only what was asked for.
pub(crate) fn series(columns: &[&str], rows: &[Row], request: &Request) -> Result<DataFrame> {
    const DAY: &str = "day";
    let rows: Vec<&Row> =
        rows.iter().filter(|(_, cells)| is_of(columns, cells, request.release.as_deref())).collect();
    let all: Vec<&str> = [DAY].iter().chain(columns).copied().collect();
    let names: Vec<&str> = match &request.columns {
        Some(names) => names.iter().map(String::as_str).collect(),
        None => all.clone(),
    };
    let mut frame = Vec::with_capacity(names.len());
    for name in names {
        match columns.iter().position(|column| *column == name) {
            Some(at) => frame.push(column(name, at, &rows)),
            None if name == DAY => {
                frame.push(frame::days(DAY, rows.iter().map(|(day, _)| day.number()).collect()))
            }
            None => return Err(unknown_column(name, &all, false)),
        }
    }
    frame::frame(rows.len(), frame)
}

fn is_of(columns: &[&str], cells: &[Cell], release: Option<&str>) -> bool {
    let of_row = columns.iter().position(|column| *column == "release").map(|at| &cells[at]);
    match (release, of_row) {
        (Some(wanted), Some(Cell::Text(found))) => found.as_deref() == Some(wanted),
        _ => true,
    }
}

fn column(name: &str, at: usize, rows: &[&Row]) -> Series {
    let cells = || rows.iter().map(|(_, cells)| &cells[at]);
    let text = |cell: &Cell| if let Cell::Text(text) = cell { text.clone() } else { None };
    match name {
        "release" | "metric" | "definition_from" | "positive_label" => {
            texts(name, cells().map(text).collect())
        }
        _ if is_count(name) => {
            frame::ints(name, cells().map(|cell| if let Cell::Int(count) = cell { *count } else { None }))
        }
        _ if name.starts_with(TAG_PREFIX) => texts(name, cells().map(text).collect()),
        _ => frame::floats(
            name,
            cells().map(|cell| if let Cell::Float(number) = cell { *number } else { None }),
        ),
    }
}

/// Whether a column holds whole numbers.
pub(crate) fn is_count(name: &str) -> bool {
    matches!(
        name,
        "predictions"
            | "labelled"
            | "positives"
            | "wins"
            | "losses"
            | "ties"
            | "repeated"
            | "unmatched"
            | "outcomes"
            | "metrics"
            | "releases"
            | "names"
    )
}

fn texts(name: &str, texts: Vec<Option<String>>) -> Series {
    frame::texts(name, texts.iter().map(Option::as_deref))
}
