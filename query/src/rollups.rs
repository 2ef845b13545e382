//! The daily rollups: by release, by a tag, by metric.

mod features;
mod names;
mod then;

use std::{collections::BTreeMap, sync::Arc};

use event::{
    Day, Error, Id, Kind, Result, Window,
    fields::{FieldType, TAG_PREFIX},
};
use fold::{
    Rollup,
    metric::{STATISTICS, StatisticGetter},
    rollup::{
        Bounded, Distribution, Headline, LoggedMetricRollup, Merge, NumberRollup, Part, ReleaseDetail,
        Series, TagCounts, bounded::Cell as Value,
    },
    sketch::Quantile,
};
use futures::future::try_join_all;
use log::{
    active,
    key::{self, Breakdown, Projection},
    projection::Projected,
};
use polars::prelude::DataFrame;
use table::{Item, Table};

use self::names::{Column, OF_FEATURES, OF_METRICS, OF_RELEASES, OF_TAGS, ranks, statistic};
pub(crate) use self::{
    names::{columns, columns_by_release, is_rank},
    then::{kinds_by, known_then},
};
use crate::{
    budget::Hold,
    columns::ColumnType,
    dataset::Dataset,
    request::Request,
    series::{Cell, Row, active_items, series},
};

/// The breakdown of rollups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By release.
    #[default]
    Release,
    /// By metric, and within it by release.
    Metric,
    /// By the values of a tag, given as its column: `tag.carrier`.
    Tag(String),
    /// By feature, and within it by release; of this feature alone, if there is a name: `distance`.
    Feature(Option<String>),
}

impl By {
    pub(crate) fn parse(what: Dataset, word: Option<&str>) -> Result<Self> {
        let Some(word) = word else { return Ok(Self::default()) };
        // See `Breakdown`.
        if what != Dataset::Rollups {
            return Ok(Self::default());
        }
        // Names in the breakdown never have a comma.
        if word.contains(',') {
            return Err(Error::invalid(format!(
                "group-by: rollups are broken down by one column alone, and `{word}` names several; ask once for each"
            )));
        }
        match word {
            "release" => Ok(Self::Release),
            "metric" => Ok(Self::Metric),
            _ if word.strip_prefix(TAG_PREFIX).is_some_and(|tag| !tag.is_empty()) => {
                Ok(Self::Tag(word.to_owned()))
            }
            "feature" => Ok(Self::Feature(None)),
            _ => match Kind::Predictions.sketched(word) {
                Some(feature) => Ok(Self::Feature(Some(feature.to_owned()))),
                None => Err(Error::invalid(format!(
                    "group-by: `{word}` is none of release, metric, tag.NAME, feature, feature.NAME"
                ))),
            },
        }
    }
}

/// Name of the row for all names that a breakdown does not keep apart.
pub(crate) const OTHERS: &str = "(others)";

/// Value in the row for all events without the tag.
pub(crate) const NONE: &str = "(none)";

/// A day of rollups: the rollup and the requested parts.
type DayParts = (Option<Rollup>, BTreeMap<Breakdown, Part>);

/// Builds the rows of a day; the name is empty unless the breakdown is by one tag or feature.
type RowsOfDay = fn(&DayParts, &str) -> Vec<Metrics>;

/// Number of days whose events are counted at once.
const COUNTED_DAYS: usize = 16;

/// Returns the number of events of a kind in the rollups of the first days of a window, as an approximation.
pub(crate) async fn counted(table: &dyn Table, workspace: &Id, window: Window, kind: Kind) -> Result<u64> {
    let version = active::load(table, workspace).await?.version;
    let days = window.days().take(COUNTED_DAYS);
    let keys: Vec<_> = days.map(|day| key::rollup(workspace, version, day)).collect();
    let items = try_join_all(keys.iter().map(|key| table.get(key))).await?;
    let events = |item: &Item| Some(Rollup::from_state(item.optional_text("state")?).ok()?.events(kind));
    Ok(items.iter().flatten().filter_map(events).sum())
}

/// Reads counts, sums and quantiles, day by day.
pub(crate) async fn rollups(
    table: &Arc<dyn Table>,
    workspace: &Id,
    request: &Request,
    hold: &Hold,
) -> Result<DataFrame> {
    frame_of(&stored(table, workspace, request, hold).await?, request)
}

/// Warns of a tag or a feature that no rollup has.
pub(crate) fn of_nothing(request: &Request, frame: &DataFrame) -> Option<String> {
    let column = match &request.by {
        By::Tag(column) => column.clone(),
        By::Feature(Some(name)) => format!("{}{name}", event::fields::FEATURE_PREFIX),
        By::Release | By::Metric | By::Feature(None) => return None,
    };
    let of = request.release.as_ref().map(|release| format!(" of `{release}`")).unwrap_or_default();
    (frame.height() == 0).then(|| format!("no rollup{of} on these days has `{column}`"))
}

/// Builds the rows of some days.
fn frame_of(days: &BTreeMap<Day, DayParts>, request: &Request) -> Result<DataFrame> {
    let (name, columns, rows): (_, &[Column], RowsOfDay) = match &request.by {
        By::Release => ("", &OF_RELEASES, |day, _| by_release(day)),
        By::Metric => ("", &OF_METRICS, |day, _| by_metric(day)),
        By::Tag(tag) => (tag, &OF_TAGS, by_tag),
        By::Feature(name) => (name.as_deref().unwrap_or_default(), &OF_FEATURES, features::rows),
    };
    let is_by_tag = matches!(request.by, By::Tag(_));
    let of_tag = is_by_tag.then_some((name, ColumnType::Field(FieldType::Text)));
    let of_metrics = columns.iter().map(|column| (column.name.as_str(), column.kind));
    let columns: Vec<(&str, ColumnType)> = of_tag.into_iter().chain(of_metrics).collect();
    let of_day = |(day, parts): (&Day, &DayParts)| -> Vec<Row> {
        let cells = |metrics: Metrics| columns.iter().map(|column| metrics.cell(*column)).collect();
        rows(parts, name).into_iter().map(|metrics| (*day, cells(metrics))).collect()
    };
    let rows: Vec<Row> = days.iter().flat_map(of_day).collect();
    series(&columns, &rows, request)
}

/// Reads the rollups of a window, with the parts of the requested breakdown.
async fn stored(
    table: &Arc<dyn Table>,
    workspace: &Id,
    request: &Request,
    hold: &Hold,
) -> Result<BTreeMap<Day, DayParts>> {
    let by = match &request.by {
        By::Release => key::By::Release,
        By::Metric => key::By::Metric,
        By::Tag(_) => key::By::Tag,
        By::Feature(name) => {
            return features::stored(table, workspace, (request, name.as_deref()), hold).await;
        }
    };
    stored_by(table, workspace, (request, by), hold).await
}

/// Reads the rollups of a window, with the parts of one breakdown.
async fn stored_by(
    table: &Arc<dyn Table>,
    workspace: &Id,
    (request, wanted): (&Request, key::By),
    hold: &Hold,
) -> Result<BTreeMap<Day, DayParts>> {
    let mut days = BTreeMap::<Day, DayParts>::new();
    let (_, items) = active_items(table, workspace, request, hold).await?;
    for item in items {
        let (day, found) = key::parse_projection(&item.key)?;
        let wrong = |error| Error::corrupt(format!("{day}: {error}"));
        let (rollup, parts) = days.entry(day).or_default();
        match found {
            Projection::Rollup => {
                *rollup = Some(Rollup::from_state(&Projected::from_item(&item)?.state).map_err(wrong)?);
            }
            Projection::Breakdown(breakdown) if breakdown.by == wanted => {
                let state = Projected::from_item(&item)?.state;
                parts.insert(breakdown, Part::from_state(wanted, &state).map_err(wrong)?);
            }
            Projection::Breakdown(_)
            | Projection::Features
            | Projection::Evaluation
            | Projection::EvaluationPart(..) => {}
        }
    }
    Ok(days)
}

/// The metrics of a row, by the names of their columns.
#[derive(Default)]
struct Metrics {
    texts: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, u64>,
    numbers: BTreeMap<String, f64>,
}

impl Metrics {
    fn cell(&self, (column, kind): (&str, ColumnType)) -> Cell {
        match kind {
            ColumnType::Count => Cell::Int(self.counts.get(column).copied()),
            ColumnType::Field(FieldType::Text) => Cell::Text(self.texts.get(column).cloned()),
            _ => Cell::Float(self.numbers.get(column).copied()),
        }
    }

    fn text(mut self, column: &str, text: &str) -> Self {
        self.texts.insert(column.to_owned(), text.to_owned());
        self
    }

    fn count(mut self, column: &'static str, n: u64) -> Self {
        self.counts.insert(column, n);
        self
    }

    /// Adds a metric unless it is not finite, such as the mean of nothing.
    fn number(&mut self, column: String, number: Option<f64>) {
        self.numbers.extend(number.filter(|number| number.is_finite()).map(|number| (column, number)));
    }

    fn numbers(&mut self, of: &str, numbers: &NumberRollup) {
        for metric in STATISTICS {
            if let StatisticGetter::Numbers(read) = metric.getter {
                self.number(statistic(of, metric.name), Some(read(numbers)));
            }
        }
    }

    fn quantiles(&mut self, of: &str, quantile: impl Fn(f64) -> Option<Quantile>) {
        for metric in STATISTICS {
            if let StatisticGetter::Quantile(q) = metric.getter {
                let (name, found) = (statistic(of, metric.name), quantile(q));
                let [from, to] = ranks(&name);
                self.number(name, found.map(|found| found.value));
                self.number(from, found.map(|found| found.from));
                self.number(to, found.map(|found| found.to));
            }
        }
    }

    fn headline(mut self, head: &Headline) -> Self {
        for (of, numbers) in [("score", &head.score), ("value", &head.value), ("latency", &head.latency)] {
            self.number(format!("{of}_null_rate"), head.null_rate(numbers.as_ref()));
            numbers.iter().for_each(|numbers| self.numbers(of, numbers));
        }
        self.number("label_null_rate".into(), head.label_null_rate());
        self.count("predictions", head.n)
    }

    fn distribution<const MAX: usize>(&mut self, of: &str, distribution: Option<&Distribution<MAX>>) {
        if let Some(distribution) = distribution {
            self.quantiles(of, |q| distribution.quantile(q));
        }
    }

    fn detail(self, detail: &ReleaseDetail) -> Self {
        let mut metrics = self.headline(&detail.headline());
        metrics.distribution("score", detail.score.as_ref());
        metrics.distribution("value", detail.value.as_ref());
        metrics.distribution("latency", detail.latency.as_ref());
        metrics
    }
}

/// Returns the approximate number of names behind a row of others.
fn others<V: Value, const BUDGET: usize>(names: &Bounded<V, BUDGET>) -> u64 {
    (names.distinct() - names.names().len() as f64).round() as u64
}

/// Builds a row for the whole workspace, with no release, then one for each release.
fn by_release((rollup, parts): &DayParts) -> Vec<Metrics> {
    let parts =
        parts.values().filter_map(|part| if let Part::Release(part) = part { Some(part) } else { None });
    let (mut all, mut rest, mut rest_names) = (ReleaseDetail::default(), ReleaseDetail::default(), 0);
    let (mut rows, mut distinct) = (BTreeMap::<&str, Metrics>::new(), 0.0);
    for part in parts {
        distinct += part.counts.distinct();
        for (name, counts) in part.counts.names() {
            let detail = part.details.get(name);
            let row = Metrics::default().text("release", name).count("names", 1);
            let row =
                detail.map_or_else(Metrics::default, |detail| Metrics::default().detail(detail)).merged(row);
            let row =
                row.count("predictions", counts.p).count("metrics", counts.m).count("releases", counts.r);
            rows.insert(name, row);
        }
        part.details.names().values().chain(part.details.others()).for_each(|detail| all.merge(detail));
        if let Some(others_of) = part.details.others() {
            rest.merge(others_of);
            rest_names += others(&part.details);
        }
    }
    let Some(rollup) = rollup else { return Vec::new() };
    let mut whole = Metrics::default().detail(&all).count("names", distinct.round() as u64);
    for kind in Kind::ALL {
        whole = whole.count(kind.name(), rollup.events(kind));
    }
    whole = whole.count("erased", rollup.erased);
    let rest = (rest_names > 0)
        .then(|| Metrics::default().detail(&rest).text("release", OTHERS).count("names", rest_names));
    [whole].into_iter().chain(rows.into_values()).chain(rest).collect()
}

impl Metrics {
    fn merged(mut self, more: Self) -> Self {
        self.texts.extend(more.texts);
        self.counts.extend(more.counts);
        self.numbers.extend(more.numbers);
        self
    }
}

/// Builds a row for each value of the tag named `column`, and one for the events without it.
fn by_tag((rollup, parts): &DayParts, column: &str) -> Vec<Metrics> {
    let tag = column.strip_prefix(event::fields::TAG_PREFIX).unwrap_or(column);
    let Some(Part::Tag(part)) = parts.get(&Breakdown::of(key::By::Tag, tag)) else { return Vec::new() };
    let Some(values) = part.tags.get(tag) else { return Vec::new() };
    let counted = |name: &str, names: u64, counts: &TagCounts| {
        let metrics = Metrics::default().text(column, name).count("names", names);
        metrics.count("predictions", counts.predictions).count("metrics", counts.metrics)
    };
    let row = |name: &str, counts: &TagCounts| {
        let mut metrics = Metrics::default();
        if let Some(head) = values.heads.get(name) {
            metrics = metrics.headline(head);
            let scores = head.score.as_ref().zip(values.scores.get(name));
            scores.iter().for_each(|(score, sketch)| {
                metrics.quantiles("score", |q| sketch.quantile(q, score.extremes()));
            });
        }
        metrics.merged(counted(name, 1, counts))
    };
    let rest = values.counts.others().map(|counts| counted(OTHERS, others(&values.counts), counts));
    let mut without = TagCounts {
        predictions: rollup.as_ref().map_or(0, |rollup| rollup.events(Kind::Predictions)),
        metrics: rollup.as_ref().map_or(0, |rollup| rollup.events(Kind::Metrics)),
    };
    for counts in values.counts.names().values().chain(values.counts.others()) {
        without.predictions = without.predictions.saturating_sub(counts.predictions);
        without.metrics = without.metrics.saturating_sub(counts.metrics);
    }
    let without = (without != TagCounts::default()).then(|| counted(NONE, 0, &without));
    values.counts.names().iter().map(|(name, counts)| row(name, counts)).chain(rest).chain(without).collect()
}

/// Builds a row for each metric, with no release, then one for each release that it was observed for.
fn by_metric((_, parts): &DayParts) -> Vec<Metrics> {
    let parts =
        parts.values().filter_map(|part| if let Part::Metric(part) = part { Some(part) } else { None });
    let mut rows = BTreeMap::<&str, Vec<Metrics>>::new();
    let mut rest = (0, 0);
    for part in parts {
        for (name, metric) in part.metrics.names() {
            rows.insert(name, rows_of_metric(name, metric));
        }
        if let Some(series) = part.metrics.others().and_then(|metric| metric.total.as_ref()) {
            rest = (rest.0 + others(&part.metrics), rest.1 + series.numbers.n);
        }
    }
    // Means over different metrics are meaningless, so there are only counts.
    let rest = (rest.0 > 0)
        .then(|| Metrics::default().text("metric", OTHERS).count("names", rest.0).count("metrics", rest.1));
    rows.into_values().flatten().chain(rest).collect()
}

fn rows_of_metric(name: &str, metric: &LoggedMetricRollup) -> Vec<Metrics> {
    let row = |names: u64, series: &Series| {
        let mut metrics = Metrics::default().text("metric", name).count("names", names);
        metrics.numbers("value", &series.numbers);
        metrics.number("value_sum".into(), Some(series.numbers.sum()));
        metrics.number("value_last".into(), Some(series.last));
        metrics.count("metrics", series.numbers.n)
    };
    let total = metric.total.as_ref().map(|series| {
        let mut metrics = row(metric.releases.distinct().round() as u64, series);
        metrics.quantiles("value", |q| metric.sketch.quantile(q, series.numbers.extremes()));
        metrics
    });
    let releases = metric.releases.names().iter().filter(|(release, _)| !release.is_empty());
    let releases =
        releases.filter_map(|(release, series)| Some(row(1, series.as_ref()?).text("release", release)));
    let rest = metric.releases.others().and_then(Option::as_ref);
    let rest = rest.map(|series| row(others(&metric.releases), series).text("release", OTHERS));
    total.into_iter().chain(releases).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollups_are_by_one_column() {
        let by = |word| By::parse(Dataset::Rollups, Some(word));
        assert_eq!(by("tag.carrier").unwrap(), By::Tag("tag.carrier".to_owned()));
        assert_eq!(by("feature.age").unwrap(), By::Feature(Some("age".to_owned())));
        for several in ["tag.carrier,tag.origin", "release,metric", "feature.age,feature.age"] {
            let error = by(several).unwrap_err().to_string();
            assert!(error.contains("by one column alone") && error.contains(several), "{error}");
        }
        // Evaluations are broken down by several columns, which `Breakdown` parses.
        assert_eq!(By::parse(Dataset::Evaluations, Some("tag.a,tag.b")).unwrap(), By::Release);
    }
}
