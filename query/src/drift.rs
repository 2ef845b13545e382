//! Distance of each period of a window from a reference. It is computed from rollups, without reading an event, unless an exact
//! one is requested.

use std::{cmp::Ordering, sync::Arc};

use catalog::{profile_queries, profiles};
use event::{
    Error, Id, Kind, Result, Window,
    fields::{FEATURE_PREFIX, FieldType, TAG_PREFIX},
};
use fold::drift::{Compared, Drift, Exact, Profile, STATISTICS, Sort, adjusted};
use futures::TryStreamExt;
use log::{
    active::of_active,
    key::{self, Projection},
};
use polars::prelude::DataFrame;
use table::{Item, Table};

use crate::{
    Query,
    answer::Found,
    budget::Hold,
    columns::ColumnType,
    read::{self, Filter, Reading, RowBounds, Unpacked},
    request::Request,
    series::{Cell, Row, held_items, series},
    work,
};

const TEXT: ColumnType = ColumnType::Field(FieldType::Text);
const NUMBER: ColumnType = ColumnType::Field(FieldType::Float);

/// Maximum number of unseen names listed in a cell.
const NAMED: usize = 5;

/// The column of the reference, as requested.
pub(crate) const REFERENCE: &str = "reference";

/// Warning of a comparison by release that is made from rollups.
const NO_TAGS: &str = "tags are not counted by release; `--exact` compares them";

/// Name in the column of columns that stands for the predictions themselves.
const PREDICTIONS: &str = "predictions";

/// A column beside the statistics: its name, its type, and its value.
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

/// The columns after the statistics.
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
    /// Number of days with predictions: in the reference, in the period.
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

/// Returns its columns, after the day.
pub(crate) fn columns() -> impl Iterator<Item = (&'static str, ColumnType)> {
    let places = |places: &'static [Place]| places.iter().map(|(name, kind, _)| (*name, *kind));
    let statistics = STATISTICS.iter().map(|statistic| (statistic.name, NUMBER));
    places(&BEFORE).chain(statistics).chain(places(&AFTER))
}

/// The columns left out of a table for people.
const DETAILS: [&str; 7] =
    ["per_day_reference", "wasserstein", "wasserstein_error", "ks_error", "chi2", "p_value", REFERENCE];

/// Returns true if a table for people has a column.
pub(crate) fn is_main(column: &str) -> bool {
    !DETAILS.contains(&column)
}

/// Parses days as `FROM..TO`, or one day.
pub(crate) fn reference_of(word: &str) -> Result<Window> {
    word.parse().and_then(Window::bounded).map_err(|error| Error::invalid(format!("reference: {error}")))
}

impl Query {
    /// Resolves the reference of a request to days, in a workspace by id or path: see [`catalog::Catalog::reference_days`].
    ///
    /// # Errors
    /// `NotFound`, if there is no such workspace, release or snapshot; `Invalid`, if it has no days; errors of the table.
    pub async fn reference_days(&self, workspace: &str, word: Option<&str>) -> Result<Option<String>> {
        match word {
            // Days are checked when the request is parsed, before anything is read.
            Some(word) if word.contains(':') => {
                let workspace = self.catalog().workspace(workspace).await?;
                self.catalog().reference_days(workspace.id(), word).await.map(Some)
            }
            word => Ok(word.map(str::to_owned)),
        }
    }
}

/// Computes the distance of the columns of each period from the reference, in each period the farthest first. Without predictions
/// in the reference there are counts alone.
pub(crate) async fn drift(
    table: &Arc<dyn Table>,
    workspace: &Id,
    request: &Request,
    hold: &Hold,
) -> Result<Found> {
    let asked = reference_days(request)?;
    let has_features = has_features(request);
    let read = |version| async move {
        let of_reference = items(table, (workspace, version), (asked, has_features), hold).await?;
        let of_window = items(table, (workspace, version), (request.window, has_features), hold).await?;
        Ok((of_reference, of_window))
    };
    let (_, (of_reference, of_window)) = of_active(&**table, workspace, read).await?;
    let release = request.release.as_deref();
    let lacks_tags = release.is_some()
        && asks_for(request, |column| column.starts_with(TAG_PREFIX))
        && [&of_reference, &of_window].into_iter().flatten().any(has_tags);
    let (of_reference, of_window) = (profiles(&of_reference, release)?, profiles(&of_window, release)?);
    let reference = Profile::of(of_reference.values());
    let named = asked.to_string();
    let days_of_reference = with_predictions(of_reference.values());
    let mut rows = Vec::<Row>::new();
    for period in request.period.parts(request.window) {
        let days = || of_window.range(period.from()..=period.to()).map(|(_, day)| day);
        let window = Profile::of(days());
        let n = [reference.predictions(), window.predictions()];
        let days = [days_of_reference, with_predictions(days())];
        rows.extend(rows_of((period, n, days), reference.compared(&window), request, &named));
    }
    let frame = series(&columns().collect::<Vec<_>>(), &rows, request)?;
    let warnings = lacks_tags.then(|| NO_TAGS.to_owned()).into_iter().collect();
    Ok(Found { warnings, ..Found::of(frame) })
}

/// Computes drift from the events, with every number and name counted.
pub(crate) async fn exact(reading: &Arc<Reading>, request: &Request) -> Result<DataFrame> {
    let asked = reference_days(request)?;
    if request
        .read_version
        .as_ref()
        .is_some_and(|read_version| !read_version.kinds.contains(&Kind::Predictions))
    {
        return Err(Error::invalid("read-version: it does not say how far predictions were read"));
    }
    let release = request.release.as_deref();
    let (reference, days_of_reference, _) = exact_of_days(reading, asked, release).await?;
    let (reference, named) = (Arc::new(reference), asked.to_string());
    let mut rows = Vec::<Row>::new();
    for period in request.period.parts(request.window) {
        let (window, days, held) = exact_of_days(reading, period, release).await?;
        let n = [reference.predictions(), window.predictions()];
        let (of_reference, comparing) = (Arc::clone(&reference), Arc::clone(reading));
        let compared = work::run(move || {
            comparing.hold.check()?;
            Ok::<_, Error>(of_reference.compared(&window))
        });
        let compared = compared
            .await
            .map_err(|error| Error::unavailable("comparing was interrupted").because(error))??;
        rows.extend(rows_of((period, n, [days_of_reference, days]), compared, request, &named));
        reading.hold.shrink(held);
    }
    series(&columns().collect::<Vec<_>>(), &rows, request)
}

/// Reads the predictions of some days; returns them with the number of days that have some and the bytes held.
async fn exact_of_days(
    reading: &Arc<Reading>,
    window: Window,
    release: Option<&str>,
) -> Result<(Exact, usize, u64)> {
    reading.warn_of_expired(window);
    let release = release.map(str::to_owned);
    let bounds = RowBounds { days: Some(Arc::new(window.days().collect())), ..RowBounds::default() };
    let filter = Filter { kind: Kind::Predictions, columns: None, release: release.clone(), bounds };
    let of_day = move |segments: Vec<Unpacked>| {
        let (mut day, mut bytes) = (Exact::default(), 0);
        for segment in &segments {
            let more = day.add(&segment.columns, release.as_deref());
            bytes += more.map_err(|error| Error::corrupt(format!("{}: {error}", segment.day)))?;
        }
        Ok(((day, bytes), Some(bytes)))
    };
    let mut days = std::pin::pin!(read::window(reading, &filter, false, of_day));
    let (mut all, mut count, mut held) = (Exact::default(), 0, 0);
    while let Some((day, bytes)) = days.try_next().await? {
        count += usize::from(day.predictions() > 0);
        held += bytes;
        all.merge(day);
    }
    Ok((all, count, held))
}

/// Parses the columns to compare, at least one.
pub(crate) fn compared_columns(word: &str) -> Result<Vec<String>> {
    let columns: Vec<String> = word.split(',').map(|name| name.trim().to_owned()).collect();
    match columns.iter().find(|name| Sort::of(name).is_none()) {
        Some(wrong) => Err(Error::invalid(format!(
            "column: `{wrong}` is not compared; score, value, latency_ms, label, tag.NAME and feature.NAME are"
        ))),
        None => Ok(columns),
    }
}

/// Returns true if the request compares a column for which `is` holds.
fn asks_for(request: &Request, is: impl Fn(&str) -> bool) -> bool {
    request.compared.as_ref().is_none_or(|columns| columns.iter().any(|name| is(name)))
}

/// Returns true if the rollups of features are read.
fn has_features(request: &Request) -> bool {
    asks_for(request, |column| column.starts_with(FEATURE_PREFIX))
}

/// Returns true if an item is a breakdown by tag.
fn has_tags(item: &Item) -> bool {
    let found = key::parse_projection(&item.key).map(|(_, found)| found);
    matches!(found, Ok(Projection::Breakdown(breakdown)) if breakdown.by == key::By::Tag)
}

/// Returns the reference days of a request.
fn reference_days(request: &Request) -> Result<Window> {
    let missing =
        || Error::invalid("reference: name the days to compare with, such as 2013-04-01..2013-05-31");
    request.reference.ok_or_else(missing)
}

/// Builds the rows of a period from its numbers of predictions and of days, in the reference and in the period; none, if the
/// period has no predictions.
fn rows_of(
    (period, n, days): (Window, [u64; 2], [usize; 2]),
    mut compared: Vec<Compared>,
    request: &Request,
    reference: &str,
) -> Vec<Row> {
    if n[1] == 0 {
        return Vec::new();
    }
    compared.retain(|compared| asks_for(request, |column| column == compared.column));
    let (column, sort) = (PREDICTIONS.to_owned(), "count");
    let of_all = Compared { column, sort, drift: Drift::default(), n, of: n, unseen: Vec::new() };
    compared.sort_by(|one, other| farther(one, other).then_with(|| one.column.cmp(&other.column)));
    compared.insert(0, of_all);
    let p_values: Vec<_> = compared.iter().map(|compared| compared.drift.p_value()).collect();
    let row = |(compared, p_adjusted)| {
        let release = request.release.as_deref();
        (period.from(), cells(&Drifted { release, reference, compared, p_adjusted, days }))
    };
    compared.into_iter().zip(adjusted(&p_values)).map(row).collect()
}

/// Returns the number of days that have predictions.
fn with_predictions<'a>(days: impl Iterator<Item = &'a Profile>) -> usize {
    days.filter(|day| day.predictions() > 0).count()
}

/// Orders by distance, the farthest first; a column without a distance stands last.
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

/// Reads the rollups of a window with all their parts: one range, and another one if features are compared.
async fn items(
    table: &Arc<dyn Table>,
    (workspace, version): (&Id, u32),
    (window, has_features): (Window, bool),
    hold: &Hold,
) -> Result<Vec<Item>> {
    let [rollups, features] = profile_queries(workspace, version, window);
    let mut items = held_items(table, rollups, hold).await?;
    if has_features {
        items.extend(held_items(table, features, hold).await?);
    }
    Ok(items)
}
