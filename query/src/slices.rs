//! Slices of each release, ranked by the quality of their predictions, the worst first. Slices of one dimension are
//! stored; slices of two dimensions, or as of another time, are computed from the events.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catalog::{Catalog, Definitions, PrimaryMetric};
use event::{Day, Dimension, Error, ErrorKind, Id, Result, fields::FieldType};
use fold::{
    AnyMetric, Evaluation,
    evaluation::{Bucket, By, Grouping, MAX_BUCKETS, MAX_SLICES, ReleaseEvaluation, Tested, Value, Wanted},
    metric::Of,
    slice_ranking::{Ranked, Sample, ranked},
};
use polars::prelude::DataFrame;
use table::Table;

use crate::{
    answer::Found,
    breakdown::{self, RELEASE},
    budget::Hold,
    columns::ColumnType,
    evaluations::{self, Way, evaluate_part},
    maturity::BYTES_OF_EVALUATION,
    read::Reading,
    request::{Dataset, Params, Request},
    series::{Cell, Row, series},
    survey::survey,
    window::in_words,
    work,
};

const TEXT: ColumnType = ColumnType::Field(FieldType::Text);
const NUMBER: ColumnType = ColumnType::Field(FieldType::Float);

/// Parameters: the metric by which slices are ranked, and the inclusion of slices of two dimensions.
pub(crate) const METRIC: &str = "metric";

/// Minimum number of values of a tag with slices of their own.
const LEAST_VALUES: usize = 4;

/// The ranking of slices.
#[derive(Clone, Debug, PartialEq)]
pub struct Slicing {
    /// Metric of the ranking; `None` for the primary metric of the workspace.
    pub by: Option<PrimaryMetric>,
    /// True if there are also slices of two dimensions.
    pub has_pairs: bool,
}

/// Label of a slice: its release, its number of dimensions, and its values.
type Label = (String, usize, String);

/// Column: its name, its type, whether a table for people shows it, and its value for a row.
type Place = (&'static str, ColumnType, bool, fn(&Placed<'_>) -> Cell);

/// A row before its cells are made.
struct Placed<'a> {
    of: &'a Ranked<Label>,
    metric: &'a str,
}

const PLACES: [Place; 11] = [
    (RELEASE, TEXT, true, |row| Cell::Text(Some(row.of.label.0.clone()))),
    ("slice", TEXT, true, |row| Cell::Text(Some(row.of.label.2.clone()))),
    ("dimensions", ColumnType::Count, false, |row| Cell::Int(Some(row.of.label.1 as u64))),
    ("n", ColumnType::Count, true, |row| Cell::Int(Some(row.of.n))),
    ("share", NUMBER, true, |row| Cell::Float(Some(row.of.share))),
    (METRIC, TEXT, true, |row| Cell::Text(Some(row.metric.to_owned()))),
    ("value", NUMBER, true, |row| Cell::Float(Some(row.of.value))),
    ("whole", NUMBER, true, |row| Cell::Float(Some(row.of.whole))),
    ("gap", NUMBER, true, |row| Cell::Float(Some(row.of.gap()))),
    ("p_value", NUMBER, true, |row| Cell::Float(row.of.p_value)),
    ("p_adjusted", NUMBER, true, |row| Cell::Float(row.of.p_adjusted)),
];

/// Returns the columns after the day.
pub(crate) fn columns() -> impl Iterator<Item = (&'static str, ColumnType)> {
    PLACES.iter().map(|(name, kind, ..)| (*name, *kind))
}

/// Returns true if a table for people shows a column.
pub(crate) fn is_main(name: &str) -> bool {
    PLACES.iter().all(|(column, _, is_main, _)| *column != name || *is_main)
}

/// Parses the ranking of slices; `None` for anything else.
pub(crate) fn slicing_of(what: Dataset, words: &Params<'_>) -> Result<Option<Slicing>> {
    if what != Dataset::Slices {
        return Ok(None);
    }
    let by = PrimaryMetric::parse(words.metric, None);
    let by = by.map_err(|error| Error::invalid(format!("metric: {error}")))?;
    Ok(Some(Slicing { by, has_pairs: words.pairs }))
}

/// Returns the metric of the ranking, and the minimum number of predictions of a ranked slice.
async fn ranking(catalog: &Catalog, workspace: &Id, request: &Request) -> Result<(PrimaryMetric, u64)> {
    let settings = catalog.settings(workspace).await?;
    let asked = request.slicing.as_ref().and_then(|slicing| slicing.by.clone());
    // The better direction of a custom metric is known for the primary metric alone.
    let by = match (asked, settings.primary_metric.clone()) {
        (Some(asked), Some(primary)) if asked.metric == primary.metric => Some(primary),
        (asked, primary) => asked.or(primary),
    };
    let unset = || Error::conflict("the workspace has no primary metric to rank by; name a metric");
    let by = by.ok_or_else(unset)?;
    let (name, min_n) = (by.metric.name(), settings.min_n_of(&by.metric));
    if by.metric.logged().is_some() {
        let message = format!(
            "metric: `{name}` is a logged metric, and slices are of predictions; name a metric of these"
        );
        return Err(Error::invalid(message));
    }
    if matches!(&by.metric, AnyMetric::Declared(metric) if metric.of == Of::Groups) {
        return Err(Error::invalid(format!(
            "metric: `{name}` is of whole groups, which slices would part; break evaluations down by a tag that all items \
             of a group share"
        )));
    }
    if by.metric.is_sum() {
        return Err(Error::invalid(format!("metric: `{name}` is a sum, which no slice shares with all")));
    }
    Ok((by, min_n))
}

/// Slices, with all predictions of their release on the days for which they are known.
struct Slices {
    by: PrimaryMetric,
    min_n: u64,
    /// All predictions, by release and dimensions.
    wholes: BTreeMap<(String, String), Sample>,
    slices: BTreeMap<Label, Slice>,
}

/// A slice, and the key of the predictions that it is compared with.
struct Slice {
    whole: (String, String),
    /// The slices of one dimension that contain it, for a slice of two dimensions.
    of: Vec<Label>,
    sample: Sample,
}

impl Slices {
    fn new((by, min_n): (PrimaryMetric, u64)) -> Self {
        Self { by, min_n, wholes: BTreeMap::new(), slices: BTreeMap::new() }
    }

    /// Returns the metric for which evaluations must compute more than is stored, so that slices can be tested.
    fn tested(&self) -> Option<Tested> {
        if let AnyMetric::Declared(metric) = &self.by.metric { metric.tested } else { None }
    }

    /// Adds all predictions of a release on some days that are grouped by these dimensions.
    fn whole(&mut self, release: &str, dimensions: &str, of: &ReleaseEvaluation) {
        let key = (release.to_owned(), dimensions.to_owned());
        self.wholes.entry(key).or_insert_with(|| Sample::new(&self.by.metric)).add(of);
    }

    /// Adds the predictions in a bucket.
    fn slice(&mut self, dimensions: &str, by: &[By], bucket: &Bucket, of: &ReleaseEvaluation) {
        let release = &bucket.name;
        let named = |(by, value)| format!("{}={}", By::column(by), breakdown::text_of(by, value));
        let names: Vec<String> = by.iter().zip(&bucket.values).map(named).collect();
        let label = (release.clone(), names.len(), names.join(", "));
        let new = || Slice {
            whole: (release.clone(), dimensions.to_owned()),
            of: if names.len() > 1 {
                names.iter().map(|name| (release.clone(), 1, name.clone())).collect()
            } else {
                Vec::new()
            },
            sample: Sample::new(&self.by.metric),
        };
        self.slices.entry(label).or_insert_with(new).sample.add(of);
    }

    /// Returns true if a slice of two dimensions has as many predictions as one of the slices that contain it, and so is redundant.
    fn is_repeated(&self, slice: &Slice) -> bool {
        let is_all = |label: &Label| {
            let other = self.slices.get(label);
            other.is_some_and(|other| other.sample.predictions() == slice.sample.predictions())
        };
        slice.of.iter().any(is_all)
    }

    fn frame(&self, request: &Request) -> Result<DataFrame> {
        let is_asked = |release: &str| request.release.as_ref().is_none_or(|asked| asked == release);
        let shown = |(label, slice): &(&Label, &Slice)| is_asked(&label.0) && !self.is_repeated(slice);
        let slices = self.slices.iter().filter(shown).filter_map(|(label, slice)| {
            Some((label.clone(), &slice.sample, self.wholes.get(&slice.whole)?))
        });
        let ranked = ranked(slices, self.by.direction, self.min_n);
        let metric = self.by.metric.name();
        let cells =
            |of: &Ranked<Label>| PLACES.iter().map(|(.., read)| read(&Placed { of, metric })).collect();
        let rows: Vec<Row> = ranked.iter().map(|of| (request.window.from(), cells(of))).collect();
        series(&columns().collect::<Vec<_>>(), &rows, request)
    }
}

/// Ranks slices of one dimension each, from the stored evaluations of each day.
pub(crate) async fn stored(
    table: &Arc<dyn Table>,
    catalog: &Catalog,
    (workspace, request): (&Id, &Request),
    hold: &Hold,
) -> Result<Found> {
    let mut slices = Slices::new(ranking(catalog, workspace, request).await?);
    let evaluations = evaluations::stored(table, workspace, (request, true), hold).await?;
    for (_, evaluation) in &evaluations {
        hold.check()?;
        add_day(&mut slices, evaluation)?;
    }
    let warnings = others_warnings(&evaluations, request.release.as_deref());
    Ok(Found { warnings, ..Found::of(slices.frame(request)?) })
}

fn add_day(slices: &mut Slices, evaluation: &Evaluation) -> Result<()> {
    for (release, dimensions) in &evaluation.slices {
        let Some(whole) = evaluation.releases.get(release) else { continue };
        for (dimensions, rows) in dimensions {
            let dimension =
                Dimension::parse(dimensions).map_err(|error| Error::corrupt(error.to_string()))?;
            let by = [by_of(&dimension)];
            slices.whole(release, dimensions, whole);
            for row in rows {
                let values = vec![row.value.clone()];
                let bucket = Bucket { name: release.clone(), values, ..Bucket::default() };
                slices.slice(dimensions, &by, &bucket, &row.of);
            }
        }
    }
    Ok(())
}

/// Returns the grouping of predictions by a dimension.
fn by_of(dimension: &Dimension) -> By {
    match dimension.edges.is_empty() {
        true => By::Texts { column: dimension.column.clone(), kept: None },
        false => By::Bins { column: dimension.column.clone(), edges: dimension.edges.clone() },
    }
}

/// Ranks slices computed from the events, on request also those of two dimensions.
pub(crate) async fn computed(
    reading: &Arc<Reading>,
    catalog: &Catalog,
    request: &Request,
) -> Result<DataFrame> {
    let mut slices = Slices::new(ranking(catalog, &reading.workspace, request).await?);
    let definitions = catalog.definitions(&reading.workspace).await?;
    let definitions = &definitions.known(|one| request.is_of_now() || one.appended_at <= reading.closed);
    if request.read_version.is_none() {
        reading.warn_of_expired(reading.window);
    }
    let has_pairs = request.slicing.as_ref().is_some_and(|slicing| slicing.has_pairs);
    let all_dimensions = all_dimensions(&declared(definitions, request), has_pairs);
    let tags = all_dimensions
        .iter()
        .flat_map(|(dimensions, _)| dimensions)
        .filter(|dimension| dimension.edges.is_empty());
    let tags: BTreeSet<&str> = tags.map(|dimension| dimension.column.as_str()).collect();
    let tags = tags.into_iter().map(|column| Wanted::Texts(column.to_owned())).collect();
    let (found, _) = survey(reading, tags, None, most_values(&all_dimensions)?).await?;
    let groupings: Vec<Arc<Grouping>> =
        all_dimensions.iter().map(|dimensions| grouping(dimensions, &found)).collect();
    let plain = Grouping::default();
    let tested = slices.tested();
    let is_surveyed = !found.is_empty();
    let way = Way { definitions, grouping: &plain, more: &groupings, pairs: &[], tested, is_surveyed };
    let buckets = evaluate_part(reading, request.window, &[], &way, request).await?;
    let count: usize = buckets.more.iter().map(Vec::len).sum();
    reading.hold.take(count as u64 * BYTES_OF_EVALUATION).await?;
    let tests = buckets.buckets.iter().filter_map(|(_, of)| of.singles.as_ref());
    reading.hold.take(tests.map(|singles| singles.bytes_of_tests() as u64).sum()).await?;
    for ((dimensions, releases), (of_dimensions, grouping)) in
        all_dimensions.iter().zip(buckets.more.iter().zip(&groupings))
    {
        let dimensions = Dimension::text_of(dimensions);
        let wholes = buckets.buckets.iter().filter(|(bucket, _)| releases.contains(&bucket.name));
        wholes.for_each(|(bucket, of)| slices.whole(&bucket.name, &dimensions, of));
        of_dimensions.iter().for_each(|(bucket, of)| slices.slice(&dimensions, &grouping.by, bucket, of));
    }
    let (request, hold) = (request.clone(), reading.hold.clone());
    let testing = work::run(move || {
        hold.check()?;
        slices.frame(&request)
    });
    testing.await.map_err(|error| Error::unavailable("ranking was interrupted").because(error))?
}

/// Returns the dimensions that each release declares on some day of a window.
fn declared(definitions: &Definitions, request: &Request) -> BTreeMap<String, Vec<Dimension>> {
    let mut declared = BTreeMap::<String, Vec<Dimension>>::new();
    for day in request.window.days() {
        for (release, definition) in definitions.of(day) {
            if request.release.as_ref().is_some_and(|asked| *asked != release) {
                continue;
            }
            let dimensions = declared.entry(release).or_default();
            let new = definition
                .dimensions
                .into_iter()
                .filter(|dimension| !dimensions.contains(dimension))
                .collect::<Vec<_>>();
            dimensions.extend(new);
        }
    }
    declared
}

/// One dimension, or two, and the releases whose predictions are grouped by it.
type Dimensions = (Vec<Dimension>, BTreeSet<String>);

/// Returns each dimension of a release alone, and on request with each other one.
fn all_dimensions(declared: &BTreeMap<String, Vec<Dimension>>, has_pairs: bool) -> Vec<Dimensions> {
    let mut all_dimensions = Vec::<Dimensions>::new();
    for (release, dimensions) in declared {
        let alone = dimensions.iter().map(|dimension| vec![dimension.clone()]);
        let others = |one: &Dimension| {
            dimensions.iter().filter(|other| other.column > one.column).cloned().collect::<Vec<_>>()
        };
        let pairs = dimensions.iter().filter(|_| has_pairs);
        let pairs = pairs.flat_map(|one| others(one).into_iter().map(|other| vec![one.clone(), other]));
        for dimensions in alone.chain(pairs) {
            match all_dimensions.iter_mut().find(|(known, _)| *known == dimensions) {
                Some((_, releases)) => _ = releases.insert(release.clone()),
                None => all_dimensions.push((dimensions, BTreeSet::from([release.clone()]))),
            }
        }
    }
    all_dimensions
}

/// Returns the maximum number of values of a tag with slices of their own that keeps all slices within [`MAX_BUCKETS`].
fn most_values(all_dimensions: &[Dimensions]) -> Result<usize> {
    let slices = |most: usize| {
        // Two more slices: of the other values, and of those without a value; edges make one more bin.
        let of_dimension = |dimension: &Dimension| {
            if dimension.edges.is_empty() { most + 2 } else { dimension.edges.len() + 2 }
        };
        let of_dimensions = |(dimensions, releases): &Dimensions| {
            releases.len() * dimensions.iter().map(of_dimension).product::<usize>()
        };
        all_dimensions.iter().map(of_dimensions).sum::<usize>()
    };
    let most = (LEAST_VALUES..=MAX_SLICES).rev().find(|most| slices(*most) <= MAX_BUCKETS);
    most.ok_or_else(|| {
        let text = format!("these are more than {MAX_BUCKETS} slices; name a release, or ask for no pairs");
        Error::new(ErrorKind::TooLarge, text)
    })
}

/// Returns the grouping of the predictions of some releases by one dimension or two.
fn grouping((dimensions, releases): &Dimensions, found: &[By]) -> Arc<Grouping> {
    let of_dimension = |dimension: &Dimension| match found
        .iter()
        .find(|by| dimension.edges.is_empty() && by.column() == dimension.column)
    {
        Some(by) => by.clone(),
        None => by_of(dimension),
    };
    let only = releases.iter().map(|release| (release.clone(), true)).collect();
    Arc::new(Grouping {
        by: dimensions.iter().map(of_dimension).collect(),
        only: Some(only),
        ..Grouping::default()
    })
}

/// Warns of each tag whose stored slices may lack predictions: it had more values on a day than are stored by themselves.
fn others_warnings(evaluations: &[(Day, Evaluation)], release: Option<&str>) -> Vec<String> {
    let warning = |(tag, days): (&str, BTreeSet<Day>)| {
        let days: Vec<Day> = days.into_iter().collect();
        format!(
            "`{tag}` had more values on {} than are stored by themselves: the rarer ones count in `(others)` there, so slices of `{tag}` may lack predictions; name such a day alone, or ask as of now, which reads the events",
            in_words(&days)
        )
    };
    days_with_others(evaluations, release).into_iter().map(warning).collect()
}

/// Returns for each tag the days whose others may include a value with a slice, of any release or of one. Bins have no others.
fn days_with_others<'a>(
    evaluations: &'a [(Day, Evaluation)],
    release: Option<&str>,
) -> BTreeMap<&'a str, BTreeSet<Day>> {
    let mut kept = BTreeMap::<(&str, Day), BTreeSet<&Value>>::new();
    let mut sliced = BTreeMap::<(&str, &str), BTreeSet<&Value>>::new();
    let mut with_others = Vec::new();
    for (day, evaluation) in evaluations {
        for (name, dimensions) in &evaluation.slices {
            let is_asked = release.is_none_or(|release| release == name.as_str());
            for (dimensions, rows) in dimensions {
                let (name, dimensions) = (name.as_str(), dimensions.as_str());
                for row in rows {
                    match row.value {
                        Value::Text(_) => {
                            // The kept values are equal for all releases of a day.
                            kept.entry((dimensions, *day)).or_default().insert(&row.value);
                            if is_asked {
                                sliced.entry((name, dimensions)).or_default().insert(&row.value);
                            }
                        }
                        Value::Others if is_asked => with_others.push((name, dimensions, *day)),
                        _ => {}
                    }
                }
            }
        }
    }
    let mut short = BTreeMap::<&str, BTreeSet<Day>>::new();
    for (name, dimensions, day) in with_others {
        let is_kept = |value: &&Value| kept.get(&(dimensions, day)).is_some_and(|kept| kept.contains(value));
        if sliced.get(&(name, dimensions)).is_some_and(|values| !values.iter().all(is_kept)) {
            short.entry(dimensions).or_default().insert(day);
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use fold::evaluation::{ReleaseEvaluation, SliceRow};

    use super::*;

    /// Builds a day on which a release has these values of a tag.
    fn day(day: &str, release: &str, values: &[Value]) -> (Day, Evaluation) {
        let row = |value: &Value| SliceRow { value: value.clone(), of: ReleaseEvaluation::default() };
        let rows = BTreeMap::from([("tag.tail".to_owned(), values.iter().map(row).collect())]);
        let slices = BTreeMap::from([(release.to_owned(), rows)]);
        (day.parse().unwrap(), Evaluation { slices, ..Evaluation::default() })
    }

    #[test]
    fn days_that_may_hide_slice_values_are_named() {
        let text = |text: &str| Value::Text(text.into());
        let (few, many) = ("2026-06-01", "2026-06-02");
        let both = [
            day(few, "v1", &[text("a"), text("b"), Value::Null]),
            day(many, "v1", &[text("a"), Value::Others]),
        ];
        let told = others_warnings(&both, None);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("`tag.tail` had more values on 2026-06-02 than"), "{told:?}");
        assert_eq!(others_warnings(&both, Some("v1")), told);
        assert_eq!(others_warnings(&both, Some("v2")), [""; 0], "it has no slices");
        // Each slice of a single day is whole, and so are those of days that keep equal values.
        assert_eq!(others_warnings(&both[1..], None), [""; 0]);
        let same = [few, many].map(|of| day(of, "v1", &[text("a"), Value::Others]));
        assert_eq!(others_warnings(&same, None), [""; 0]);
        // The day keeps `b`, of which this release has none there.
        let mut other = both.clone();
        other[1].1.slices.extend(day(many, "v2", &[text("b")]).1.slices);
        assert_eq!(others_warnings(&other, None), [""; 0]);
    }
}
