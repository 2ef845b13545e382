//! What may be asked, and in which words: the same for the command line and for HTTP.

use std::sync::Arc;

use event::{
    Costs, Error, Kind, Period, Result, Split, Timestamp, Window, Zone, fields::TAG_PREFIX, plain::listed,
};
use log::cut::Cut;

use crate::{
    arrived,
    breakdown::{Bins, Breakdown},
    challengers::{self, Challenge},
    change::Change,
    cuts::{cut_of, kinds_read},
    drift, estimates, head_to_head, intervals,
    live_in::live_of,
    maturity,
    narrow::Narrowed,
    segments::{self, Slicing},
    window::Span,
    zero_division::zero_division_of,
};

pub use crate::{by::By, live_in::LiveIn, what::What, window::Last};

/// A question about a window of days.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to read.
    pub what: What,
    /// The days.
    pub window: Window,
    /// The first and the last day, or instant, that a length came to.
    pub last: Option<[String; 2]>,
    /// Only what belongs to this release.
    pub release: Option<String>,
    /// Only these columns, in this order.
    pub columns: Option<Vec<String>>,
    /// By what rollups are broken down.
    pub by: By,
    /// By what evaluations are broken down.
    pub breakdown: Breakdown,
    /// Where the hours and days of evaluations begin; those of UTC, when it is `None`.
    pub zone: Option<Zone>,
    /// Whether only what was live in an environment is judged, or what was not.
    pub live: Option<LiveIn>,
    /// Which events are kept.
    pub narrowed: Narrowed,
    /// Only what had been appended by then, or by the last closed instant if that is earlier.
    pub as_of: Option<Timestamp>,
    /// Only what an earlier answer was read from.
    pub cut: Option<Arc<Cut>>,
    /// Whether it reads a snapshot again, and so names what may have been deleted since.
    pub is_of_snapshot: bool,
    /// From which score on predictions are judged as positive, instead of what their definitions say.
    pub threshold: Option<f64>,
    /// What predictions gain and cost, instead of what their definitions say.
    pub costs: Option<Costs>,
    /// Of how many days evaluations are.
    pub period: Period,
    /// What evaluations say where scikit-learn divides by zero; nothing, when that is `None`.
    pub zero_division: Option<f64>,
    /// Whether evaluations have intervals.
    pub has_intervals: bool,
    /// Only days of which this share of the predictions that will be judged in the end is judged.
    pub mature: Option<f64>,
    /// The days that drift is measured from.
    pub reference: Option<Window>,
    /// The columns of predictions that drift compares; all, when it is `None`.
    pub compared: Option<Vec<String>>,
    /// Whether drift is computed from the events.
    pub is_exact: bool,
    /// Whether the ages of maturity begin with each prediction.
    pub is_after_prediction: bool,
    /// The release that the one of `release` is compared with.
    pub against: Option<String>,
    /// How segments are asked for.
    pub slicing: Option<Slicing>,
    /// Whose champion is challenged.
    pub challenge: Option<Challenge>,
    /// The rows that the numbers of each row are compared with.
    pub change: Option<Change>,
}

/// The same as it was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Words<'a> {
    /// The first day; of events also an instant, from which on they happened.
    pub from: &'a str,
    /// The last day; of events also an instant, before which they happened.
    pub to: &'a str,
    /// How long the window is, in place of `from` and `to`, which are empty then.
    pub last: Option<Last<'a>>,
    /// A release.
    pub release: Option<&'a str>,
    /// Names of columns with commas between; one that has a comma itself stands in double quotes.
    pub columns: Option<&'a str>,
    /// A condition on events: an expression of SQL over their columns.
    pub filter: Option<&'a str>,
    /// Tags that events have, as `NAME=VALUE` with commas between.
    pub tag: Option<&'a str>,
    /// The key of events.
    pub key: Option<&'a str>,
    /// The most events.
    pub limit: Option<&'a str>,
    /// A share of keys.
    pub sample: Option<&'a str>,
    /// `oldest` or `newest` first.
    pub order: Option<&'a str>,
    /// By what rollups are broken down: `release`, `metric`, `tag.NAME`, `feature` or `feature.NAME`; or by what evaluations
    /// are, with commas between: `release` or `model`, `tag.NAME`, `feature.NAME`.
    pub by: Option<&'a str>,
    /// How many bins features have, or where they begin, with commas between.
    pub bins: Option<&'a str>,
    /// A time zone, such as `Europe/Berlin`.
    pub time_zone: Option<&'a str>,
    /// The environment in which the releases were live whose predictions are judged.
    pub environment: Option<&'a str>,
    /// Whether instead those are judged whose releases were not live there.
    pub shadow: bool,
    /// An instant, or a day that stands for its beginning.
    pub as_of: Option<&'a str>,
    /// The cut that an earlier answer named.
    pub cut: Option<&'a str>,
    /// A score.
    pub threshold: Option<&'a str>,
    /// Gains and costs, as [`Costs::parse`] reads them.
    pub costs: Option<&'a str>,
    /// A period: `day`, `week`, `month`, `quarter` or `all`.
    pub group_by: Option<&'a str>,
    /// `0`, `1` or `null`.
    pub zero_division: Option<&'a str>,
    /// Whether figures have their intervals; a column of one that is named asks for them too.
    pub interval: bool,
    /// A share from 0 to 1.
    pub mature: Option<&'a str>,
    /// Days as `FROM..TO`, or one day.
    pub reference: Option<&'a str>,
    /// The columns of predictions that drift compares, with commas between.
    pub column: Option<&'a str>,
    /// Whether drift is computed from the events.
    pub exact: bool,
    /// Whether the ages of maturity begin with each prediction.
    pub after_prediction: bool,
    /// A release.
    pub against: Option<&'a str>,
    /// A figure by which segments are ranked.
    pub figure: Option<&'a str>,
    /// Whether there are segments of two splits.
    pub pairs: bool,
    /// A model.
    pub model: Option<&'a str>,
    /// The row that numbers are compared with: of a `day`, `week` or `period` before.
    pub change: Option<&'a str>,
}

impl Request {
    /// Reads a request from its words.
    ///
    /// # Errors
    /// `Invalid`, saying which word is wrong.
    pub fn parse(what: What, words: &Words<'_>) -> Result<Self> {
        let as_of = words.as_of.map(instant).transpose()?;
        let columns = words.columns.map(columns_of).transpose()?;
        let names_one = columns.iter().flatten().any(|name| intervals::is_one(name));
        let has_intervals = what == What::Evaluations && (words.interval || names_one);
        for (_, name) in
            [(words.interval, "interval"), (words.bins.is_some(), "bins")].into_iter().filter(|of| of.0)
        {
            of_evaluations(what, name)?;
        }
        let zone = words.time_zone.map_or(Ok(None), |word| zone_of(what, word))?;
        let last = words.last.map(|last| last.ends(what, zone)).transpose()?;
        let [from, to] = ends_of(words, last.as_ref())?;
        let span = Span::parse(what, from, to)?;
        let reference = words.reference.map(|word| drift::reference_of(what, word)).transpose()?;
        let is_exact = drift::exact_of(what, words)?;
        let period = words.group_by.map_or(Ok(Period::Day), |word| period_of(what, word))?;
        let change = words.change.map(|word| Change::parse(what, word, (period, span.days))).transpose()?;
        let window = change.as_ref().map_or(Ok(span.days), |change| change.widened(span.days))?;
        let read = days_read((what, is_exact), (window, zone, reference))?;
        let by = By::parse(what, words.by)?;
        let cut = words.cut.map(|text| cut_of((what, &by), read, text)).transpose();
        let cut = cut.map_err(|error| Error::invalid(format!("cut: {error}")))?;
        if cut.is_some() && as_of.is_some() {
            return Err(Error::invalid("as-of: the cut says already as of when it is"));
        }
        let live = live_of(what, words)?;
        let breakdown = match what.is_judged() {
            true => Breakdown::parse(words.by, words.bins)?,
            false => Breakdown::default(),
        };
        // What is live is one series of each model, whichever release it is.
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
            narrowed: Narrowed::parse(what, words)?.within(what, span),
            last,
            release: words.release.map(str::to_owned),
            columns,
            cut,
            is_of_snapshot: false,
            has_intervals,
            threshold: words.threshold.map(|word| threshold_of(what, word)).transpose()?,
            costs: words.costs.map(|word| costs_of(what, word)).transpose()?,
            period,
            against: head_to_head::against_of(what, words, period)?,
            slicing: segments::slicing_of(what, words)?,
            challenge: challengers::challenge_of(what, words)?,
            zero_division: words.zero_division.map_or(Ok(None), |word| zero_division_of(what, word))?,
            as_of,
            reference,
            compared: words.column.map(|word| drift::compared_columns(what, word)).transpose()?,
            is_exact,
            is_after_prediction: arrived::after_prediction_of(what, words)?,
            mature: None,
            change,
        };
        let mature = words.mature.map(|word| maturity::mature_of(what, &request, word)).transpose()?;
        Self { mature, ..request }.with_series()
    }
}

impl Request {
    /// A request for columns of what is known now.
    pub(crate) fn of(what: What, window: Window, columns: Vec<String>) -> Self {
        let has_intervals = what == What::Evaluations && columns.iter().any(|name| intervals::is_one(name));
        Self {
            what,
            window,
            last: None,
            release: None,
            columns: Some(columns),
            by: By::Release,
            breakdown: Breakdown::default(),
            narrowed: Narrowed::default(),
            as_of: None,
            cut: None,
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
            against: None,
            slicing: None,
            challenge: None,
            change: None,
        }
    }

    /// The UTC days that are read: those in which the days of the window lie.
    pub(crate) fn days_read(&self) -> Window {
        let read = days_read((self.what, self.is_exact), (self.window, self.zone, self.reference));
        // What was read as a request is within the calendar.
        maturity::with_learned(self, read.unwrap_or(self.window))
    }

    /// The split by whose rows it is answered where these are stored; `None`, when it asks for more.
    pub(crate) fn split(&self) -> Option<Split> {
        let Breakdown { by_model: false, columns, bins, .. } = &self.breakdown else { return None };
        let split = match (&columns[..], bins) {
            ([column], Some(Bins::Edges(edges))) => Split { column: column.clone(), edges: edges.clone() },
            ([column], None) if column.starts_with(TAG_PREFIX) => {
                Split { column: column.clone(), edges: Vec::new() }
            }
            _ => return None,
        };
        let plain = Self { breakdown: Breakdown::default(), ..self.clone() };
        (self.what.is_judged() && !plain.is_of_logs()).then_some(split)
    }

    /// Whether it is answered from the logs; what is of now alone comes from the projections.
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

    /// Whether it judges all predictions of a release, whenever and about whatever they were.
    pub(crate) fn judges_all(&self) -> bool {
        self.live.is_none() && self.narrowed.conditions.is_empty()
    }

    /// The kinds of events that are read for it, when it is read from the logs.
    pub(crate) fn kinds_read(&self) -> &'static [Kind] {
        kinds_read(self.what, &self.by)
    }

    /// Whether it asks for what is known now, and not as of another time.
    pub(crate) fn is_of_now(&self) -> bool {
        self.as_of.is_none() && self.cut.is_none()
    }
}

/// Checks that rows belong to releases where one is named.
fn check_release(release: Option<&str>, by: &By, breakdown: &Breakdown) -> Result<()> {
    match release {
        Some(_) if matches!(by, By::Tag(_)) => {
            Err(Error::invalid("release: tags are not broken down by release"))
        }
        Some(_) if breakdown.by_model => Err(Error::invalid("release: the rows are of models")),
        _ => Ok(()),
    }
}

/// Reads names of columns with commas between.
fn columns_of(names: &str) -> Result<Vec<String>> {
    let names = listed(names).map_err(|message| Error::invalid(format!("columns: {message}")))?;
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, twice)) => Err(Error::invalid(format!("columns: `{twice}` is named twice"))),
        None => Ok(names),
    }
}

/// The UTC days that are read for the days of a window.
fn days_read(
    (what, is_exact): (What, bool),
    (window, zone, reference): (Window, Option<Zone>, Option<Window>),
) -> Result<Window> {
    let read = zone.map_or(window, |zone: Zone| zone.utc_days(window));
    match what == What::Estimates || is_exact {
        true => estimates::with_reference(read, reference),
        false => Ok(read),
    }
}

/// The words that name where a window begins and ends.
fn ends_of<'a>(words: &'a Words<'_>, last: Option<&'a [String; 2]>) -> Result<[&'a str; 2]> {
    match (words.from, words.to, last) {
        ("", "", Some([from, to])) => Ok([from, to]),
        (_, _, Some(_)) => Err(Error::invalid("last: it takes the place of from and to")),
        ("", _, None) => {
            Err(Error::invalid("from: name the first day, or ask for the last ones, such as last=7d"))
        }
        (_, "", None) => Err(Error::invalid("to: name the last day")),
        (from, to, None) => Ok([from, to]),
    }
}

/// As of when, as it is written: an instant, or a day that stands for its beginning.
pub(crate) fn instant(text: &str) -> Result<Timestamp> {
    Timestamp::parse_or_day(text).map_err(|error| Error::invalid(format!("as-of: {error}")))
}

pub(crate) fn of_evaluations(what: What, name: &str) -> Result<()> {
    match (what.takes(name), what.is_judged()) {
        (true, _) => Ok(()),
        (false, true) => Err(Error::invalid(format!("{name}: `{}` does not take it", what.name()))),
        (false, false) => Err(Error::invalid(format!("{name}: only evaluations have it"))),
    }
}

fn threshold_of(what: What, word: &str) -> Result<f64> {
    of_evaluations(what, "threshold")?;
    let number = word.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| Error::invalid(format!("threshold: `{word}` is not a number")))
}

fn costs_of(what: What, word: &str) -> Result<Costs> {
    of_evaluations(what, "costs")?;
    Costs::parse(word).map_err(|error| Error::invalid(format!("costs: {error}")))
}

fn period_of(what: What, word: &str) -> Result<Period> {
    of_evaluations(what, "group-by")?;
    let period = Period::parse(word).map_err(|error| Error::invalid(format!("group-by: {error}")))?;
    match (what, period) {
        (What::Drift, Period::Hour) => {
            Err(Error::invalid("group-by: drift is made of the rollups of days, so it is of no hours"))
        }
        _ => Ok(period),
    }
}

/// A time zone; none, when it is that of all days.
fn zone_of(what: What, word: &str) -> Result<Option<Zone>> {
    of_evaluations(what, "time-zone")?;
    let zone = Zone::parse(word).map_err(|error| Error::invalid(format!("time-zone: {error}")))?;
    Ok(Some(zone).filter(|zone| !zone.is_utc()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'a>(from: &'a str, to: &'a str) -> Words<'a> {
        Words { from, to, ..Words::default() }
    }

    #[test]
    fn wrong_words_are_named() {
        let fails = |words| Request::parse(What::Joined, &words).unwrap_err().to_string();
        let rollups = |words| Request::parse(What::Rollups, &words).unwrap_err().to_string();
        let duel = |words| Request::parse(What::HeadToHead, &words).unwrap_err().to_string();
        let drift = |words| Request::parse(What::Drift, &words).unwrap_err().to_string();
        let evaluations = |words| Request::parse(What::Evaluations, &words).unwrap_err().to_string();
        let lines = [
            fails(words("2013-02-30", "2013-03-01")),
            fails(words("2013-03-01", "March")),
            fails(words("2013-03-02", "2013-03-01")),
            fails(words("1990-01-01", "2013-03-01")),
            fails(Words { as_of: Some("noon"), ..words("2013-03-01", "2013-03-01") }),
            fails(Words { columns: Some("key,score,key"), ..words("2013-03-01", "2013-03-01") }),
            fails(Words { by: Some("metric"), ..words("2013-03-01", "2013-03-01") }),
            rollups(Words { by: Some("tag."), ..words("2013-03-01", "2013-03-01") }),
            rollups(Words {
                by: Some("tag.carrier"),
                release: Some("v1"),
                ..words("2013-03-01", "2013-03-01")
            }),
            What::parse("prediction").unwrap_err().to_string(),
            Request::parse(What::Confusion, &Words { interval: true, ..words("2013-03-01", "2013-03-01") })
                .unwrap_err()
                .to_string(),
            fails(Words { threshold: Some("0.5"), ..words("2013-03-01", "2013-03-01") }),
            fails(Words { group_by: Some("week"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Words { group_by: Some("weeks"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Words { threshold: Some("half"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Words { threshold: Some("NaN"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Words { zero_division: Some("2"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Words { costs: Some("fp"), ..words("2013-03-01", "2013-03-01") }),
            fails(Words { costs: Some("fp=1"), ..words("2013-03-01", "2013-03-01") }),
            fails(Words { reference: Some("2013-03-01"), ..words("2013-03-01", "2013-03-01") }),
            drift(Words { reference: Some("2013-03"), ..words("2013-03-01", "2013-03-01") }),
            drift(Words { reference: Some("2013-03-02..2013-03-01"), ..words("2013-03-01", "2013-03-01") }),
            drift(Words { group_by: Some("hour"), ..words("2013-03-01", "2013-03-01") }),
            duel(words("2013-03-01", "2013-03-01")),
            duel(Words { against: Some("v1"), ..words("2013-03-01", "2013-03-01") }),
            duel(Words { release: Some("v1"), against: Some("v1"), ..words("2013-03-01", "2013-03-01") }),
            duel(Words {
                release: Some("v2"),
                against: Some("v1"),
                group_by: Some("hour"),
                ..words("2013-03-01", "2013-03-01")
            }),
            duel(Words { environment: Some("production"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Words { mature: Some("90%"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Words {
                mature: Some("0.9"),
                group_by: Some("week"),
                ..words("2013-03-01", "2013-03-01")
            }),
            fails(Words { mature: Some("0.9"), ..words("2013-03-01", "2013-03-01") }),
            evaluations(Words { against: Some("v1"), ..words("2013-03-01", "2013-03-01") }),
            drift(Words { by: Some("tag.carrier"), ..words("2013-03-01", "2013-03-01") }),
        ];
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn a_day_stands_for_its_beginning() {
        let words = Words {
            as_of: Some("2013-07-01"),
            columns: Some("key, score"),
            ..words("2013-06-01", "2013-06-30")
        };
        let request = Request::parse(What::Joined, &words).unwrap();
        assert_eq!(request.as_of.unwrap().to_string(), "2013-07-01T00:00:00Z");
        assert_eq!(request.columns.unwrap(), ["key", "score"]);
    }
}
