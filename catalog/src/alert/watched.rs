//! Parsing what an alert rule watches from the fields that people wrote.

use event::{Error, Kind, Result, Window, fields::MAX_TEXT_BYTES, id::check_name};
use fold::{
    AnyFigure,
    drift::{STATISTICS, Sort, Statistic, column_statistics},
};

use super::AlertRuleBody;

/// Maximum number of days of a reference.
pub const MAX_REFERENCE_DAYS: usize = 92;

const WATCHES_ONE: &str =
    "say what it watches by one of `figure`, `count`, `missing`, `column`, `drift` and `lag`";

/// Subject of a rule: the value that it watches.
#[derive(Clone, Debug, PartialEq)]
pub enum Watched {
    /// Figure of the evaluations of a release.
    Figure(FigureOf),
    /// Number of events of a kind on a day.
    Count(CountOf),
    /// Maximum time in seconds that events of a kind waited on a day to be folded.
    Lag(Kind),
    /// Absence of events of a kind on a day, this many seconds after it began.
    Missing(Kind, i64),
    /// Statistic of a column of the predictions.
    Column(ColumnOf),
    /// Distance of a column of the predictions from that of a reference.
    Drift(DriftOf),
}

/// Figure of the evaluations of a release, or a logged metric of a release or of the whole workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureOf {
    /// The figure.
    pub figure: AnyFigure,
    /// Tag and value that its predictions have; of all predictions, when `None`.
    pub tag: Option<(String, String)>,
    /// Minimum share of the predictions that must be judged.
    pub min_maturity: f64,
}

/// Number of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountOf {
    /// Kind of the events.
    pub kind: Kind,
    /// Tag and value that the events have; of all events, when `None`.
    pub tag: Option<(String, String)>,
}

/// Statistic of a column of the predictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnOf {
    /// Column, such as `score` or `feature.distance`.
    pub column: String,
    /// Name of the statistic, one of the [`column_statistics`].
    pub statistic: &'static str,
}

/// Distance of a column of the predictions from that of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftOf {
    /// Column, such as `score` or `feature.distance`.
    pub column: String,
    /// Name of the statistic, one of [`STATISTICS`].
    pub statistic: &'static str,
    /// Days of the reference.
    pub reference: Window,
}

impl Watched {
    /// Parses the watched value of a rule.
    ///
    /// # Errors
    /// `Invalid`, with the reason.
    pub(super) fn of(body: &AlertRuleBody) -> Result<Self> {
        let AlertRuleBody {
            figure: of_figure, count, missing, column: of_column, drift: of_drift, lag, ..
        } = body;
        let watched = match (of_figure, count, missing, of_column, of_drift, lag) {
            (None, None, None, None, None, Some(name)) => Self::Lag(kind("lag", name)?),
            (Some(name), None, None, None, None, None) => Self::Figure(figure(name, body)?),
            (None, Some(name), None, None, None, None) => Self::Count(count_of(name, body)?),
            (None, None, Some(name), None, None, None) => {
                let by = body.by.as_deref().unwrap_or("24:00");
                Self::Missing(kind("missing", name)?, seconds_of(by)?)
            }
            (None, None, None, Some(name), None, None) => Self::Column(column(name, body)?),
            (None, None, None, None, Some(name), None) => Self::Drift(drift(name, body)?),
            _ => {
                return Err(Error::invalid(WATCHES_ONE));
            }
        };
        let belongs = [
            (body.by.is_some(), matches!(watched, Self::Missing(..)), "`by` belongs to `missing`"),
            (
                body.tag.is_some(),
                matches!(watched, Self::Figure(_) | Self::Count(_)),
                "`tag` belongs to `figure` and `count`",
            ),
            (
                body.min_maturity.is_some(),
                matches!(watched, Self::Figure(_)),
                "`min_maturity` belongs to `figure`",
            ),
            (
                body.statistic.is_some(),
                matches!(watched, Self::Column(_) | Self::Drift(_)),
                "`statistic` belongs to `column` and `drift`",
            ),
            (body.reference.is_some(), matches!(watched, Self::Drift(_)), "`reference` belongs to `drift`"),
        ];
        match belongs.into_iter().find(|(is_given, is_right, _)| *is_given && !is_right) {
            Some((.., wrong)) => Err(Error::invalid(wrong)),
            None => Ok(watched),
        }
    }

    /// Name of the value for people: `auc`, `the number of predictions`, `null_rate of score`,
    /// `psi of score against 2026-04-01..2026-04-30`.
    pub fn named(&self) -> String {
        match self {
            Self::Figure(FigureOf { figure, tag: None, .. }) => figure.name().to_owned(),
            Self::Figure(FigureOf { figure, tag: Some((name, value)), .. }) => {
                format!("{} with {name}={value}", figure.name())
            }
            Self::Count(CountOf { kind, tag: None }) => format!("the number of {}", kind.name()),
            Self::Count(CountOf { kind, tag: Some((name, value)) }) => {
                format!("the number of {} with {name}={value}", kind.name())
            }
            Self::Missing(kind, _) => format!("no {}", kind.name()),
            Self::Lag(kind) => format!("the lag of {} in seconds", kind.name()),
            Self::Column(ColumnOf { column, statistic }) => format!("{statistic} of {column}"),
            Self::Drift(DriftOf { column, statistic, reference }) => {
                format!("{statistic} of {column} against {reference}")
            }
        }
    }
}

fn figure(name: &str, body: &AlertRuleBody) -> Result<FigureOf> {
    let figure = AnyFigure::named(name).ok_or_else(|| {
        Error::invalid(format!(
            "`{name}` is no figure of evaluations, such as auc or custom.NAME, and no logged metric, metric.NAME"
        ))
    })?;
    if figure.logged().is_some() && (body.tag.is_some() || body.min_maturity.is_some()) {
        return Err(Error::invalid(
            "`tag` and `min_maturity` belong to figures of evaluations, not to a logged metric",
        ));
    }
    let min_maturity = body.min_maturity.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&min_maturity) {
        return Err(Error::invalid("`min_maturity` is a share from 0 to 1"));
    }
    Ok(FigureOf { figure, tag: tag_of(body)?, min_maturity })
}

/// Parses the tag that a rule names, with its value.
fn tag_of(body: &AlertRuleBody) -> Result<Option<(String, String)>> {
    let Some(tag) = body.tag.as_deref() else { return Ok(None) };
    let (name, value) = tag.split_once('=').unwrap_or((tag, ""));
    check_name(name)?;
    if !(1..=MAX_TEXT_BYTES).contains(&value.len()) {
        return Err(Error::invalid(format!(
            "`tag` is NAME=VALUE with a value of 1 to {MAX_TEXT_BYTES} bytes"
        )));
    }
    Ok(Some((name.to_owned(), value.to_owned())))
}

fn count_of(name: &str, body: &AlertRuleBody) -> Result<CountOf> {
    let (kind, tag) = (kind("count", name)?, tag_of(body)?);
    match (kind, &tag) {
        (Kind::Outcomes | Kind::Releases, Some(_)) => {
            Err(Error::invalid("`tag`: predictions and metrics have tags, and are counted by them"))
        }
        _ => Ok(CountOf { kind, tag }),
    }
}

/// Sort of the values in a column of predictions, which a field of a rule names.
fn sort(field: &str, column: &str) -> Result<Sort> {
    Sort::of(column).ok_or_else(|| {
        Error::invalid(format!(
            "`{field}` is a column of predictions: score, value, latency_ms, label, tag.NAME or feature.NAME, not `{column}`"
        ))
    })
}

fn no_statistic(column: &str, known: &[&str], name: &str) -> Error {
    Error::invalid(format!("`statistic` of {column} is one of {}, not `{name}`", known.join(", ")))
}

fn column(column: &str, body: &AlertRuleBody) -> Result<ColumnOf> {
    let known: Vec<_> = column_statistics(sort("column", column)?).collect();
    let name = body.statistic.as_deref().unwrap_or_default();
    let statistic = known.iter().find(|known| **known == name);
    let statistic = statistic.ok_or_else(|| no_statistic(column, &known, name))?;
    Ok(ColumnOf { column: column.to_owned(), statistic })
}

fn drift(column: &str, body: &AlertRuleBody) -> Result<DriftOf> {
    let sort = sort("drift", column)?;
    let name = body.statistic.as_deref().unwrap_or(STATISTICS[0].name);
    let has = |statistic: &&Statistic| statistic.sort == Sort::Any || statistic.sort == sort;
    let Some(statistic) = Statistic::named(name).filter(has) else {
        let known: Vec<_> = STATISTICS.iter().filter(has).map(|statistic| statistic.name).collect();
        return Err(no_statistic(column, &known, name));
    };
    let words = body.reference.as_deref();
    let words =
        words.ok_or_else(|| Error::invalid("`drift` needs the days of a `reference`, as FROM..TO"))?;
    Ok(DriftOf { column: column.to_owned(), statistic: statistic.name, reference: reference(words)? })
}

/// Parses the days of a reference.
fn reference(words: &str) -> Result<Window> {
    let wrong = |error: Error| Error::invalid(format!("`reference`: {error}"));
    let window: Window = words.parse().map_err(wrong)?;
    match window.days().take(MAX_REFERENCE_DAYS + 1).count() > MAX_REFERENCE_DAYS {
        true => Err(Error::invalid(format!("`reference` has at most {MAX_REFERENCE_DAYS} days"))),
        false => Ok(window),
    }
}

fn kind(field: &str, name: &str) -> Result<Kind> {
    Kind::from_name(name).ok_or_else(|| {
        let known = Kind::ALL.map(Kind::name).join(", ");
        Error::invalid(format!("`{field}` is one of {known}, not `{name}`"))
    })
}

/// Parses a time such as `06:00` as seconds from the beginning of a day.
fn seconds_of(time: &str) -> Result<i64> {
    let wrong =
        || Error::invalid(format!("`by` is a time of the day (UTC) from 00:01 to 24:00, not `{time}`"));
    let minutes = minutes_of(time).filter(|minutes| *minutes > 0).ok_or_else(wrong)?;
    Ok(minutes * 60)
}

/// Parses a time of the day from 00:00 to 24:00 as minutes; `None`, when it is none.
pub(super) fn minutes_of(time: &str) -> Option<i64> {
    let two = |text: &str| -> Option<i64> {
        (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let (hour, minute) = time.split_once(':')?;
    let (hour, minute) = (two(hour)?, two(minute)?);
    let minutes = hour * 60 + minute;
    (minute < 60 && minutes <= 24 * 60).then_some(minutes)
}
