//! How far each period of a window is from a reference. Made of rollups: no event is read.

use std::{cmp::Ordering, sync::Arc};

use catalog::{profile_queries, profiles};
use event::{Error, Id, Result, Window, fields::FieldType};
use fold::drift::{Compared, Drift, Profile, STATISTICS, adjusted};
use log::active::of_active;
use polars::prelude::DataFrame;
use table::{Item, Table};

use crate::{
    Query,
    budget::Hold,
    column_type::ColumnType,
    request::{Request, What},
    series::{Cell, Row, held_items, series},
    window::not_too_long,
};

const TEXT: ColumnType = ColumnType::Field(FieldType::Text);
const NUMBER: ColumnType = ColumnType::Field(FieldType::Float);

/// How many names that the reference does not have are named.
const NAMED: usize = 5;

/// The column that says what it is compared with, as it was asked for.
pub(crate) const REFERENCE: &str = "reference";

/// What stands in the place of a column of predictions for the predictions themselves.
const PREDICTIONS: &str = "predictions";

/// What of a comparison stands before the statistics.
type Place = (&'static str, ColumnType, fn(&Drifted<'_>) -> Cell);

const BEFORE: [Place; 7] = [
    ("release", TEXT, |of| Cell::Text(of.release.map(str::to_owned))),
    ("column", TEXT, |of| Cell::Text(Some(of.compared.column.clone()))),
    ("sort", TEXT, |of| Cell::Text(Some(of.compared.sort.to_owned()))),
    ("n", ColumnType::Count, |of| Cell::Int(Some(of.compared.n[1]))),
    ("n_reference", ColumnType::Count, |of| Cell::Int(Some(of.compared.n[0]))),
    ("per_day", NUMBER, |of| Cell::Float(of.per_day(1))),
    ("per_day_reference", NUMBER, |of| Cell::Float(of.per_day(0))),
];

/// What stands after them.
const AFTER: [Place; 6] = [
    ("p_adjusted", NUMBER, |of| Cell::Float(of.p_adjusted)),
    ("null_rate", NUMBER, |of| Cell::Float(of.null_rate(1))),
    ("null_rate_reference", NUMBER, |of| Cell::Float(of.null_rate(0))),
    ("unseen", ColumnType::Count, |of| Cell::Int(of.has_names().then_some(of.compared.unseen.len() as u64))),
    ("unseen_names", TEXT, |of| Cell::Text(of.unseen())),
    (REFERENCE, TEXT, |of| Cell::Text(Some(of.reference.to_owned()))),
];

/// A comparison in its period.
struct Drifted<'a> {
    release: Option<&'a str>,
    reference: &'a str,
    compared: Compared,
    p_adjusted: Option<f64>,
    /// How many days have predictions: of the reference, of the period.
    days: [usize; 2],
}

impl Drifted<'_> {
    fn per_day(&self, side: usize) -> Option<f64> {
        (self.days[side] > 0).then(|| self.compared.n[side] as f64 / self.days[side] as f64)
    }

    fn null_rate(&self, side: usize) -> Option<f64> {
        let (n, of) = (self.compared.n[side], self.compared.of[side]);
        (of > 0).then(|| of.saturating_sub(n) as f64 / of as f64)
    }

    fn has_names(&self) -> bool {
        self.compared.drift.l_infinity.is_some()
    }

    fn unseen(&self) -> Option<String> {
        let unseen = &self.compared.unseen;
        let named = unseen.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        match unseen.len().saturating_sub(NAMED) {
            _ if unseen.is_empty() => None,
            0 => Some(named),
            more => Some(format!("{named} and {more} more")),
        }
    }
}

/// Its columns, after the day.
pub(crate) fn columns() -> impl Iterator<Item = (&'static str, ColumnType)> {
    let places = |places: &'static [Place]| places.iter().map(|(name, kind, _)| (*name, *kind));
    let statistics = STATISTICS.iter().map(|statistic| (statistic.name, NUMBER));
    places(&BEFORE).chain(statistics).chain(places(&AFTER))
}

/// The columns that a table for people leaves out.
const DETAILS: [&str; 7] =
    ["per_day_reference", "wasserstein", "wasserstein_error", "ks_error", "chi2", "p_value", REFERENCE];

/// Whether a table for people has a column.
pub(crate) fn is_main(column: &str) -> bool {
    !DETAILS.contains(&column)
}

/// Days as `FROM..TO`, or one day.
pub(crate) fn reference_of(what: What, word: &str) -> Result<Window> {
    if !what.takes("reference") {
        return Err(Error::invalid("reference: only drift and estimates have one"));
    }
    word.parse().and_then(not_too_long).map_err(|error| Error::invalid(format!("reference: {error}")))
}

impl Query {
    /// Reference days as a request takes them, in a workspace by id or path: see [`catalog::Catalog::reference_days`].
    ///
    /// # Errors
    /// `NotFound`, when there is no such workspace, release or snapshot; `Invalid`, when it has no days; those of the table.
    pub async fn reference_days(&self, workspace: &str, word: Option<&str>) -> Result<Option<String>> {
        match word {
            // Days are checked with the request, before anything is read.
            Some(word) if word.contains(':') => {
                let workspace = self.catalog().workspace(workspace).await?;
                self.catalog().reference_days(workspace.id(), word).await.map(Some)
            }
            word => Ok(word.map(str::to_owned)),
        }
    }
}

/// How far the columns of each period are from those of the reference: in each period the farthest first. Without predictions in the
/// reference nothing is far or near: there are counts alone.
pub(crate) async fn drift(
    table: &Arc<dyn Table>,
    workspace: &Id,
    request: &Request,
    hold: &Hold,
) -> Result<DataFrame> {
    if !request.is_of_now() {
        return Err(Error::invalid("as-of: rollups, of which drift is computed, are of now"));
    }
    let Some(asked) = request.reference else {
        return Err(Error::invalid(
            "reference: name the days to compare with, such as 2013-04-01..2013-05-31",
        ));
    };
    let read = |version| async move {
        let of_reference = items(table, (workspace, version), asked, hold).await?;
        Ok((of_reference, items(table, (workspace, version), request.window, hold).await?))
    };
    let (_, (of_reference, of_window)) = of_active(&**table, workspace, read).await?;
    let release = request.release.as_deref();
    let (of_reference, of_window) = (profiles(&of_reference, release)?, profiles(&of_window, release)?);
    let reference = Profile::of(of_reference.values());
    let named = asked.to_string();
    let days_of_reference = with_predictions(of_reference.values());
    let mut rows = Vec::<Row>::new();
    for period in request.period.parts(request.window) {
        let days = || of_window.range(period.from()..=period.to()).map(|(_, day)| day);
        let window = Profile::of(days());
        if window.predictions() == 0 {
            continue;
        }
        let counted = [days_of_reference, with_predictions(days())];
        let compared = of_period(&reference, &window);
        let p_values: Vec<_> = compared.iter().map(|compared| compared.drift.p_value()).collect();
        for (compared, p_adjusted) in compared.into_iter().zip(adjusted(&p_values)) {
            let drifted = Drifted { release, reference: &named, compared, p_adjusted, days: counted };
            rows.push((period.from(), cells(&drifted)));
        }
    }
    series(&columns().collect::<Vec<_>>(), &rows, request)
}

/// How many of these days have predictions.
fn with_predictions<'a>(days: impl Iterator<Item = &'a Profile>) -> usize {
    days.filter(|day| day.predictions() > 0).count()
}

/// The comparisons of a period: the predictions themselves, then the columns, the farthest first.
fn of_period(reference: &Profile, window: &Profile) -> Vec<Compared> {
    let n = [reference.predictions(), window.predictions()];
    let (column, sort) = (PREDICTIONS.to_owned(), "count");
    let of_all = Compared { column, sort, drift: Drift::default(), n, of: n, unseen: Vec::new() };
    let mut compared = reference.compared(window);
    compared.sort_by(|one, other| farther(one, other).then_with(|| one.column.cmp(&other.column)));
    std::iter::once(of_all).chain(compared).collect()
}

/// What has no distance stands last.
fn farther(one: &Compared, other: &Compared) -> Ordering {
    let [one, other] = [one, other].map(|compared| compared.drift.js_distance.unwrap_or(-1.0));
    other.total_cmp(&one)
}

fn cells(drifted: &Drifted<'_>) -> Vec<Cell> {
    let places = |places: &'static [Place]| places.iter().map(|(.., read)| read(drifted));
    let statistics =
        STATISTICS.iter().map(|statistic| Cell::Float((statistic.read)(&drifted.compared.drift)));
    places(&BEFORE).chain(statistics).chain(places(&AFTER)).collect()
}

/// The rollups of a window with all their parts: two ranges.
async fn items(
    table: &Arc<dyn Table>,
    (workspace, version): (&Id, u32),
    window: Window,
    hold: &Hold,
) -> Result<Vec<Item>> {
    let [rollups, features] = profile_queries(workspace, version, window);
    let mut items = held_items(table, rollups, hold).await?;
    items.extend(held_items(table, features, hold).await?);
    Ok(items)
}
