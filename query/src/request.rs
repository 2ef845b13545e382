//! Requests and their parameters, shared by the command line and HTTP.

use std::sync::Arc;

use catalog::PrimaryMetric;
use event::{
    Costs, Dimension, Error, Kind, Period, Result, Timestamp, Window, Zone, fields::TAG_PREFIX, id,
    plain::listed,
};
use log::read_version::ReadVersion;

use crate::{
    breakdown::{Bins, Breakdown},
    challengers::{self, Challenge},
    change::Change,
    drift, estimates, head_to_head, intervals, label_delay, maturity,
    rollups::kinds_by,
    row_filter::RowFilter,
    slices::{self, Slicing},
    window::Span,
};
pub use crate::{dataset::Dataset, rollups::By, window::Last};

/// A request about a window of days.
#[derive(Clone, Debug)]
pub struct Request {
    /// The rows to read.
    pub what: Dataset,
    /// The days.
    pub window: Window,
    /// The first and the last day, or instant, that a length of time resolved to.
    pub last: Option<[String; 2]>,
    /// Only rows of this release.
    pub release: Option<String>,
    /// Only these columns, in this order.
    pub columns: Option<Vec<String>>,
    /// The breakdown of rollups.
    pub by: By,
    /// The breakdown of evaluations.
    pub breakdown: Breakdown,
    /// The time zone of the hours and days of evaluations; UTC if `None`.
    pub zone: Option<Zone>,
    /// Restriction to releases that were live in an environment, or were not.
    pub live: Option<LiveIn>,
    /// Selection and order of events.
    pub row_filter: RowFilter,
    /// Only events appended by then, or by the last closed instant if that is earlier.
    pub as_of: Option<Timestamp>,
    /// Only events within the read version of an earlier answer.
    pub read_version: Option<Arc<ReadVersion>>,
    /// True if it reads a snapshot again, and so may name a release that was deleted since.
    pub is_of_snapshot: bool,
    /// The score from which on predictions count as positive, instead of the threshold of their definitions.
    pub threshold: Option<f64>,
    /// Gains and costs of predictions, instead of those of their definitions.
    pub costs: Option<Costs>,
    /// The period of evaluations.
    pub period: Period,
    /// The value of metrics for which scikit-learn divides by zero; none if `None`.
    pub zero_division: Option<f64>,
    /// True if evaluations have intervals.
    pub has_intervals: bool,
    /// Only days with at least this completeness, the labelled share of the predictions that will ever be labelled.
    pub mature: Option<f64>,
    /// The days that drift and estimates are measured from.
    pub reference: Option<Window>,
    /// The columns of predictions that drift compares; all if `None`.
    pub compared: Option<Vec<String>>,
    /// True if drift is computed from the events.
    pub is_exact: bool,
    /// True if the ages of maturity begin with each prediction.
    pub is_after_prediction: bool,
    /// The metric of which the final value is predicted.
    pub nowcast: Option<PrimaryMetric>,
    /// The release that `release` is compared with.
    pub against: Option<String>,
    /// The ranking of segments.
    pub slicing: Option<Slicing>,
    /// The model whose champion is challenged.
    pub challenge: Option<Challenge>,
    /// The earlier rows that the numbers of each row are compared with.
    pub change: Option<Change>,
}

/// A parameter of a request in the form of text.
trait Word<'a>: Sized {
    /// Returns its text, if it has a value.
    fn text(&self) -> Option<&'a str>;

    /// Parses a text of a request that came at `now`.
    fn of(text: &'a str, now: Timestamp) -> std::result::Result<Self, String>;
}

impl<'a> Word<'a> for &'a str {
    fn text(&self) -> Option<&'a str> {
        Some(*self).filter(|text| !text.is_empty())
    }

    fn of(text: &'a str, _: Timestamp) -> std::result::Result<Self, String> {
        if text.is_empty() { Err(" is empty; leave it out".to_owned()) } else { Ok(text) }
    }
}

impl<'a> Word<'a> for Option<&'a str> {
    fn text(&self) -> Option<&'a str> {
        *self
    }

    fn of(text: &'a str, _: Timestamp) -> std::result::Result<Self, String> {
        Ok(Some(text))
    }
}

impl<'a> Word<'a> for Option<Last<'a>> {
    fn text(&self) -> Option<&'a str> {
        self.map(|last| last.word)
    }

    fn of(word: &'a str, now: Timestamp) -> std::result::Result<Self, String> {
        Ok(Some(Last { word, now }))
    }
}

impl<'a> Word<'a> for bool {
    fn text(&self) -> Option<&'a str> {
        self.then_some("true")
    }

    fn of(text: &'a str, _: Timestamp) -> std::result::Result<Self, String> {
        text.parse().map_err(|_| format!(": `{text}` is neither true nor false"))
    }
}

/// Declares the parameters, each with its name.
macro_rules! words {
    ($($(#[$says:meta])* $name:literal $field:ident: $kind:ty,)*) => {
        /// The parameters of a request, as text.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Params<'a> {
            $($(#[$says])* pub $field: $kind,)*
        }

        impl<'a> Params<'a> {
            /// Returns the parameters that have a value, by name.
            pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
                [$(($name, self.$field.text())),*].into_iter().filter_map(|(name, text)| Some((name, text?)))
            }

            fn set(&mut self, name: &str, text: &'a str, now: Timestamp) -> std::result::Result<(), String> {
                match name {
                    $($name => self.$field = Word::of(text, now)?,)*
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

words! {
    /// The first day; for events also the instant from which on they happened.
    "from" from: &'a str,
    /// The last day; for events also the instant before which they happened.
    "to" to: &'a str,
    /// The length of the window, instead of `from` and `to`, which are empty then.
    "last" last: Option<Last<'a>>,
    /// A release.
    "release" release: Option<&'a str>,
    /// Names of columns, separated by commas; a name with a comma stands in double quotes.
    "columns" columns: Option<&'a str>,
    /// A condition on events: an expression of SQL over their columns.
    "where" filter: Option<&'a str>,
    /// Tags of the events, as `NAME=VALUE`, separated by commas.
    "tag" tag: Option<&'a str>,
    /// The key of events.
    "key" key: Option<&'a str>,
    /// Maximum number of events.
    "limit" limit: Option<&'a str>,
    /// A share of keys.
    "sample" sample: Option<&'a str>,
    /// `oldest` or `newest` first.
    "order" order: Option<&'a str>,
    /// The breakdown of rollups: `release`, `metric`, `tag.NAME`, `feature` or `feature.NAME`; or that of evaluations, separated
    /// by commas: `release` or `model`, `tag.NAME`, `feature.NAME`.
    "group-by" by: Option<&'a str>,
    /// The number of bins of features, or their edges, separated by commas.
    "bins" bins: Option<&'a str>,
    /// A time zone, such as `Europe/Berlin`.
    "time-zone" time_zone: Option<&'a str>,
    /// The environment in which the releases were live whose predictions are evaluated.
    "environment" environment: Option<&'a str>,
    /// True to evaluate the predictions of releases that were not live there instead.
    "shadow" shadow: bool,
    /// An instant, or a day that stands for its beginning.
    "as-of" as_of: Option<&'a str>,
    /// The read version of an earlier answer.
    "read-version" read_version: Option<&'a str>,
    /// A score.
    "threshold" threshold: Option<&'a str>,
    /// Gains and costs, in the form of [`Costs::parse`].
    "costs" costs: Option<&'a str>,
    /// A period: `day`, `week`, `month`, `quarter` or `all`.
    "period" period: Option<&'a str>,
    /// `0`, `1` or `null`.
    "zero-division" zero_division: Option<&'a str>,
    /// True if metrics have their intervals; naming a column of an interval requests them too.
    "interval" interval: bool,
    /// A share from 0 to 1.
    "min-completeness" mature: Option<&'a str>,
    /// Days as `FROM..TO`, or one day.
    "reference" reference: Option<&'a str>,
    /// The columns of predictions that drift compares, separated by commas.
    "column" column: Option<&'a str>,
    /// True if drift is computed from the events.
    "exact" exact: bool,
    /// True if the ages of maturity begin with each prediction.
    "after-prediction" after_prediction: bool,
    /// A metric of which the final value is predicted.
    "nowcast" nowcast: Option<&'a str>,
    /// A release.
    "against" against: Option<&'a str>,
    /// A metric by which segments are ranked.
    "metric" metric: Option<&'a str>,
    /// True to include segments of two dimensions.
    "pairs" pairs: bool,
    /// A model.
    "model" model: Option<&'a str>,
    /// The earlier row that numbers are compared with: of a `day`, `week` or `period` before.
    "change" change: Option<&'a str>,
}

impl<'a> Params<'a> {
    /// Parses the parameters of a request that came at `now`, by name; others than these are left to the caller.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub(crate) fn of(
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
        now: Timestamp,
    ) -> Result<Self> {
        let mut words = Self::default();
        for (name, text) in parameters {
            words.set(name, text, now).map_err(|why| Error::invalid(format!("{name}{why}")))?;
        }
        Ok(words)
    }
}

impl Request {
    /// Parses a request.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub fn parse(what: Dataset, words: &Params<'_>) -> Result<Self> {
        words.given().try_for_each(|(name, _)| what.check_takes(name))?;
        let as_of = words.as_of.map(instant).transpose()?;
        let columns = words.columns.map(columns_of).transpose()?;
        let names_one = columns.iter().flatten().any(|name| intervals::is_one(name));
        let has_intervals = what == Dataset::Evaluations && (words.interval || names_one);
        let zone = words.time_zone.map_or(Ok(None), zone_of)?;
        let last = words.last.map(|last| last.ends(what, zone)).transpose()?;
        let [from, to] = ends_of(words, last.as_ref())?;
        let span = Span::parse(what, from, to)?;
        let reference = words.reference.map(drift::reference_of).transpose()?;
        let is_drift_of_then =
            what == Dataset::Drift && (words.as_of.is_some() || words.read_version.is_some());
        // Rollups are not known as of another time than now.
        let is_exact = words.exact || is_drift_of_then;
        let period = words.period.map_or(Ok(Period::Day), |word| period_of(what, word))?;
        let change = words.change.map(|word| Change::parse(word, (period, span.days))).transpose()?;
        let window = change.as_ref().map_or(Ok(span.days), |change| change.widened(span.days))?;
        let read = days_read((what, is_exact), (window, zone, reference))?;
        let by = By::parse(what, words.by)?;
        let read_version =
            words.read_version.map(|text| read_version_of((what, &by), read, text)).transpose();
        let read_version = read_version.map_err(|error| Error::invalid(format!("read-version: {error}")))?;
        if read_version.is_some() && as_of.is_some() {
            return Err(Error::invalid("as-of: the read version says already as of when it is"));
        }
        let live = live_of(what, words)?;
        let breakdown = match what.is_judged() {
            true => Breakdown::parse(words.by, words.bins)?,
            false => Breakdown::default(),
        };
        // The live releases of a model form one series.
        let is_series = live.as_ref().is_some_and(|live| live.is_live) && words.release.is_none();
        let breakdown = if is_series { breakdown.by_model_unless_said() } else { breakdown };
        check_release(words.release, &by, &breakdown)?;
        estimates::check(what, words, period)?;
        let request = Self {
            what,
            window,
            by,
            breakdown,
            zone,
            live,
            row_filter: RowFilter::parse(what, words)?.within(what, span),
            last,
            release: words.release.map(str::to_owned),
            columns,
            read_version,
            is_of_snapshot: false,
            has_intervals,
            threshold: words.threshold.map(threshold_of).transpose()?,
            costs: words.costs.map(costs_of).transpose()?,
            period,
            against: head_to_head::against_of(what, words, period)?,
            slicing: slices::slicing_of(what, words)?,
            challenge: challengers::challenge_of(what, words)?,
            zero_division: words.zero_division.map_or(Ok(None), zero_division_of)?,
            as_of,
            reference,
            compared: words.column.map(drift::compared_columns).transpose()?,
            is_exact,
            is_after_prediction: label_delay::after_prediction_of(words)?,
            nowcast: words.nowcast.map(maturity::nowcast_of).transpose()?,
            mature: None,
            change,
        };
        let mature = words.mature.map(|word| maturity::mature_of(&request, word)).transpose()?;
        Self { mature, ..request }.with_nowcast().with_series()
    }
}

impl Request {
    /// Builds a request for columns as of now.
    pub(crate) fn of(what: Dataset, window: Window, columns: Vec<String>) -> Self {
        let has_intervals =
            what == Dataset::Evaluations && columns.iter().any(|name| intervals::is_one(name));
        Self {
            what,
            window,
            last: None,
            release: None,
            columns: Some(columns),
            by: By::Release,
            breakdown: Breakdown::default(),
            row_filter: RowFilter::default(),
            as_of: None,
            read_version: None,
            is_of_snapshot: false,
            threshold: None,
            costs: None,
            period: Period::Day,
            zero_division: None,
            has_intervals,
            zone: None,
            live: None,
            mature: None,
            reference: None,
            compared: None,
            is_exact: false,
            is_after_prediction: false,
            nowcast: None,
            against: None,
            slicing: None,
            challenge: None,
            change: None,
        }
    }

    /// Returns the UTC days to read: those that overlap the days of the window.
    pub(crate) fn days_read(&self) -> Window {
        let read = days_read((self.what, self.is_exact), (self.window, self.zone, self.reference));
        // A parsed request is always within the calendar.
        maturity::with_learned(self, read.unwrap_or(self.window))
    }

    /// Returns the dimension whose stored rows may answer the request; `None`, if it asks for more.
    pub(crate) fn split(&self) -> Option<Dimension> {
        let Breakdown { by_model: false, columns, bins, .. } = &self.breakdown else { return None };
        let dimension = match (&columns[..], bins) {
            ([column], Some(Bins::Edges(edges))) => {
                Dimension { column: column.clone(), edges: edges.clone() }
            }
            ([column], None) if column.starts_with(TAG_PREFIX) => {
                Dimension { column: column.clone(), edges: Vec::new() }
            }
            _ => return None,
        };
        let plain = Self { breakdown: Breakdown::default(), ..self.clone() };
        (self.what.is_judged() && !plain.is_of_logs()).then_some(dimension)
    }

    /// Returns true if it is answered from the logs; only requests as of now can be answered from the projections.
    pub(crate) fn is_of_logs(&self) -> bool {
        if !self.what.has_history() {
            return self.is_exact;
        }
        let is_as_defined = self.threshold.is_none() && self.costs.is_none();
        let is_as_defined = is_as_defined && self.mature.is_none();
        let is_as_defined = is_as_defined && !self.slicing.as_ref().is_some_and(|slicing| slicing.has_pairs);
        let is_of_days = is_as_defined && self.period == Period::Day && !self.has_intervals;
        let is_of_days =
            is_of_days && self.breakdown.is_by_release() && self.zone.is_none() && self.judges_all();
        let is_stored = self.what.facts().is_stored && is_of_days;
        !is_stored || !self.is_of_now()
    }

    /// Returns true if it evaluates all predictions of a release, without any condition.
    pub(crate) fn judges_all(&self) -> bool {
        self.live.is_none() && self.row_filter.conditions.is_empty()
    }

    /// Returns the kinds of events read for it, if it is read from the logs.
    pub(crate) fn kinds_read(&self) -> &'static [Kind] {
        kinds_read(self.what, &self.by)
    }

    /// Returns true if it asks for the current state, and not as of another time.
    pub(crate) fn is_of_now(&self) -> bool {
        self.as_of.is_none() && self.read_version.is_none()
    }
}

/// Checks that rows belong to releases if a release is named.
fn check_release(release: Option<&str>, by: &By, breakdown: &Breakdown) -> Result<()> {
    match release {
        Some(_) if matches!(by, By::Tag(_)) => {
            Err(Error::invalid("release: tags are not broken down by release"))
        }
        Some(_) if breakdown.by_model => Err(Error::invalid("release: the rows are of models")),
        _ => Ok(()),
    }
}

/// Parses names of columns, separated by commas.
fn columns_of(names: &str) -> Result<Vec<String>> {
    let names = listed(names).map_err(|message| Error::invalid(format!("columns: {message}")))?;
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, twice)) => Err(Error::invalid(format!("columns: `{twice}` is named twice"))),
        None => Ok(names),
    }
}

/// Returns the UTC days to read for the days of a window.
fn days_read(
    (what, is_exact): (Dataset, bool),
    (window, zone, reference): (Window, Option<Zone>, Option<Window>),
) -> Result<Window> {
    let read = zone.map_or(window, |zone: Zone| zone.utc_days(window));
    match what == Dataset::Estimates || is_exact {
        true => estimates::with_reference(read, reference),
        false => Ok(read),
    }
}

/// Returns the texts of the first and the last day of a window.
fn ends_of<'a>(words: &'a Params<'_>, last: Option<&'a [String; 2]>) -> Result<[&'a str; 2]> {
    match (words.from, words.to, last) {
        ("", "", Some([from, to])) => Ok([from, to]),
        (_, _, Some(_)) => Err(Error::invalid("last: it takes the place of from and to")),
        ("", _, None) => {
            Err(Error::invalid("from: name the first day; or, with last, how many days, such as 7d"))
        }
        (_, "", None) => Err(Error::invalid("to: name the last day")),
        (from, to, None) => Ok([from, to]),
    }
}

/// Parses the time of `as-of`: an instant, or a day that stands for its beginning.
pub(crate) fn instant(text: &str) -> Result<Timestamp> {
    Timestamp::parse_or_day(text).map_err(|error| Error::invalid(format!("as-of: {error}")))
}

fn threshold_of(word: &str) -> Result<f64> {
    let number = word.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| Error::invalid(format!("threshold: `{word}` is not a number")))
}

fn costs_of(word: &str) -> Result<Costs> {
    Costs::parse(word).map_err(|error| Error::invalid(format!("costs: {error}")))
}

fn period_of(what: Dataset, word: &str) -> Result<Period> {
    let period = Period::parse(word).map_err(|error| Error::invalid(format!("period: {error}")))?;
    match (what, period) {
        (Dataset::Drift, Period::Hour) => {
            Err(Error::invalid("period: drift is made of the rollups of days, so it is of no hours"))
        }
        _ => Ok(period),
    }
}

/// Parses a time zone; `None` for UTC.
fn zone_of(word: &str) -> Result<Option<Zone>> {
    let zone = Zone::parse(word).map_err(|error| Error::invalid(format!("time-zone: {error}")))?;
    Ok(Some(zone).filter(|zone| !zone.is_utc()))
}

/// Returns the kinds of events read for it, if it is read from the logs.
fn kinds_read(what: Dataset, by: &By) -> &'static [Kind] {
    match what {
        Dataset::Rollups => kinds_by(by),
        _ => what.kinds(),
    }
}

/// Parses a read version, which must cover the window and the kinds requested.
fn read_version_of((what, by): (Dataset, &By), window: Window, text: &str) -> Result<Arc<ReadVersion>> {
    let read_version: ReadVersion = text.parse()?;
    if !(read_version.window.contains(window.from()) && read_version.window.contains(window.to())) {
        return Err(Error::invalid(format!(
            "it is of {} to {}",
            read_version.window.from(),
            read_version.window.to()
        )));
    }
    if let Some(kind) = kinds_read(what, by).iter().find(|kind| !read_version.kinds.contains(kind)) {
        return Err(Error::invalid(format!("it does not say how far {} were read", kind.name())));
    }
    Ok(Arc::new(read_version))
}

/// Restricts predictions to those of releases that were live, or were not, at the time of the prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveIn {
    /// The environment.
    pub environment: String,
    /// True to evaluate releases live there; false to evaluate the rest.
    pub is_live: bool,
}

/// Parses the restriction from the parameters of a request.
fn live_of(what: Dataset, words: &Params<'_>) -> Result<Option<LiveIn>> {
    match words.environment {
        // Challengers take the environment as that of their champion.
        _ if what == Dataset::Challengers => Ok(None),
        Some(environment) => {
            id::check_name(environment).map_err(|error| Error::invalid(format!("environment: {error}")))?;
            Ok(Some(LiveIn { environment: environment.to_owned(), is_live: !words.shadow }))
        }
        None if words.shadow => Err(Error::invalid("shadow: name the environment in which it was not live")),
        None => Ok(None),
    }
}

/// The names of [`Request::zero_division`], the value of evaluations for a division by zero.
pub(crate) const ZERO_DIVISIONS: [(&str, Option<f64>); 3] =
    [("0", Some(0.0)), ("1", Some(1.0)), ("null", None)];

/// Parses one of the names of [`ZERO_DIVISIONS`].
fn zero_division_of(word: &str) -> Result<Option<f64>> {
    let found = ZERO_DIVISIONS.into_iter().find(|(name, _)| *name == word);
    found
        .map(|(_, value)| value)
        .ok_or_else(|| Error::invalid(format!("zero-division: `{word}` is none of 0, 1, null")))
}

/// Returns the text of a parameter that is given.
///
/// # Errors
/// `Invalid`, if it is empty.
pub(crate) fn named(name: &str, text: Option<&str>) -> Result<Option<String>> {
    match text {
        Some("") => Err(Error::invalid(format!("{name} is empty; leave it out"))),
        text => Ok(text.map(str::to_owned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'a>(from: &'a str, to: &'a str) -> Params<'a> {
        Params { from, to, ..Params::default() }
    }

    #[test]
    fn wrong_words_are_named() {
        let fails = |words| Request::parse(Dataset::Joined, &words).unwrap_err().to_string();
        let rollups = |words| Request::parse(Dataset::Rollups, &words).unwrap_err().to_string();
        let duel = |words| Request::parse(Dataset::HeadToHead, &words).unwrap_err().to_string();
        let drift = |words| Request::parse(Dataset::Drift, &words).unwrap_err().to_string();
        let evaluations = |words| Request::parse(Dataset::Evaluations, &words).unwrap_err().to_string();
        let lines = [
            fails(words("2013-02-30", "2013-03-01")),
            fails(words("2013-03-01", "March")),
            fails(words("2013-03-02", "2013-03-01")),
            fails(words("1990-01-01", "2013-03-01")),
            fails(Params { as_of: Some("noon"), ..words("2013-03-01", "2013-03-01") }),
            fails(Params { columns: Some("key,score,key"), ..words("2013-03-01", "2013-03-01") }),
            fails(Params { by: Some("metric"), ..words("2013-03-01", "2013-03-01") }),
            rollups(Params { by: Some("tag."), ..words("2013-03-01", "2013-03-01") }),
            rollups(Params {
                by: Some("tag.carrier"),
                release: Some("v1"),
                ..words("2013-03-01", "2013-03-01")
            }),
            Dataset::parse("prediction").unwrap_err().to_string(),
            Request::parse(
                Dataset::Confusion,
                &Params { interval: true, ..words("2013-03-01", "2013-03-01") },
            )
            .unwrap_err()
            .to_string(),
            fails(Params { threshold: Some("0.5"), ..words("2013-03-01", "2013-03-01") }),
            fails(Params { period: Some("week"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Params { period: Some("weeks"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Params { threshold: Some("half"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Params { threshold: Some("NaN"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Params { zero_division: Some("2"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Params { costs: Some("fp"), ..words("2013-03-01", "2013-03-01") }),
            fails(Params { costs: Some("fp=1"), ..words("2013-03-01", "2013-03-01") }),
            fails(Params { reference: Some("2013-03-01"), ..words("2013-03-01", "2013-03-01") }),
            drift(Params { reference: Some("2013-03"), ..words("2013-03-01", "2013-03-01") }),
            drift(Params { reference: Some("2013-03-02..2013-03-01"), ..words("2013-03-01", "2013-03-01") }),
            drift(Params { period: Some("hour"), ..words("2013-03-01", "2013-03-01") }),
            duel(words("2013-03-01", "2013-03-01")),
            duel(Params { against: Some("v1"), ..words("2013-03-01", "2013-03-01") }),
            duel(Params { release: Some("v1"), against: Some("v1"), ..words("2013-03-01", "2013-03-01") }),
            duel(Params {
                release: Some("v2"),
                against: Some("v1"),
                period: Some("hour"),
                ..words("2013-03-01", "2013-03-01")
            }),
            duel(Params { environment: Some("production"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Params { mature: Some("90%"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Params {
                mature: Some("0.9"),
                period: Some("week"),
                ..words("2013-03-01", "2013-03-01")
            }),
            fails(Params { mature: Some("0.9"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Params { against: Some("v1"), ..words("2013-03-01", "2013-03-01") }),
            drift(Params { by: Some("tag.carrier"), ..words("2013-03-01", "2013-03-01") }),
        ];
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn a_day_stands_for_its_beginning() {
        let words = Params {
            as_of: Some("2013-07-01"),
            columns: Some("key, score"),
            ..words("2013-06-01", "2013-06-30")
        };
        let request = Request::parse(Dataset::Joined, &words).unwrap();
        assert_eq!(request.as_of.unwrap().to_string(), "2013-07-01T00:00:00Z");
        assert_eq!(request.columns.unwrap(), ["key", "score"]);
    }
}
