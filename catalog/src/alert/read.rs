//! Reading the values that an alert rule watches, day by day: from evaluations, counters, or the first segments of logs.

use std::collections::{BTreeMap, BTreeSet};

use event::{
    Day, Error, Id, Kind, Result, Timestamp, Window,
    fields::{FEATURE_PREFIX, TAG_PREFIX},
    time::DAY_MICROS,
};
use fold::{
    AnyFigure, Evaluation,
    alert::{JudgedDay, Reading, Standing, replay},
    drift::{NULL_RATE, Profile, Statistic},
    evaluation::{ReleaseEvaluation, Value},
    rollup::{Part, TagCounts},
};
use futures::future::try_join_all;
use log::{
    active::of_active,
    evaluated::{self, At},
    expired,
    key::{self, Counted},
    projection::Projected,
    scan,
};
use table::{Item, query_all};

use super::{AlertRule, ColumnOf, CountOf, DriftOf, FigureOf, Lags, MAX_REFERENCE_DAYS, Scope, Watched};
use crate::{Catalog, DayNumbers, counts::read_counts, profile_queries, profiles};

/// Maximum number of days on which a rule is tried at once.
pub const MAX_TEST_DAYS: usize = 1_000;

/// Number of days read side by side.
const DAYS_AT_ONCE: usize = 8;

impl Catalog {
    /// Tries a rule on the days of a window: judges each by the readings of now. The rule begins in its default standing, as many
    /// days before the first as it looks back. Days that are not due yet are left out. It writes nothing.
    ///
    /// # Errors
    /// `Invalid`, when the window has more than [`MAX_TEST_DAYS`] days; those of the table, and `Corrupt`.
    pub async fn test_alert_rule(
        &self,
        workspace: &Id,
        rule: &AlertRule,
        window: Window,
        now: Timestamp,
    ) -> Result<Vec<JudgedDay>> {
        if window.days().take(MAX_TEST_DAYS + 1).count() > MAX_TEST_DAYS {
            return Err(Error::invalid(format!("a rule is tried on at most {MAX_TEST_DAYS} days at once")));
        }
        let Some(last) = window.days().take_while(|day| rule.due(*day) <= now).last() else {
            return Ok(Vec::new());
        };
        let before = i64::from(rule.look_back());
        let first = window.from().start().plus_seconds(-before * super::DAY_SECONDS).day();
        let days = self.readings(workspace, rule, Window::new(first, last)?).await?;
        let before = days.iter().take_while(|(day, _)| *day < window.from()).count();
        Ok(replay(&rule.rule, Standing::default(), &days, before))
    }

    /// Reads the value that a rule watches, as of now, for each day of a window.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn readings(
        &self,
        workspace: &Id,
        rule: &AlertRule,
        window: Window,
    ) -> Result<Vec<(Day, Reading)>> {
        let days: Vec<Day> = window.days().collect();
        let mut readings = Vec::with_capacity(days.len());
        match &rule.watched {
            Watched::Count(CountOf { kind, tag: None }) => {
                readings = self.counted_days(workspace, rule, *kind, &days).await?;
            }
            Watched::Count(CountOf { kind, tag: Some(tag) }) => {
                readings = self.tagged_days(workspace, *kind, tag, &days).await?;
            }
            Watched::Figure(figure) => {
                let read = |version| self.figure_days(workspace, rule, (figure, version), &days);
                readings = of_active(&*self.table, workspace, read).await?.1;
            }
            Watched::Lag(kind) => {
                let lags = Lags::load(&*self.table, workspace).await?;
                let reading = |day: &Day| Reading { value: lags.of(*day, *kind).map(|s| s as f64), n: None };
                readings = days.iter().map(reading).collect();
            }
            Watched::Column(of) => readings = self.column_days(workspace, rule, of, &days).await?,
            Watched::Drift(drift) => readings = self.drifted_days(workspace, rule, drift, &days).await?,
            // Arrival times of segments are known for the whole workspace only; for a release, its count so far is read.
            Watched::Missing(kind, _) if rule.scope != Scope::Workspace => {
                let counted = self.counted_days(workspace, rule, *kind, &days).await?;
                let is_missing = |count: f64| f64::from(u8::from(count == 0.0));
                let missing = |of: Reading| Reading { value: of.value.map(is_missing), ..of };
                readings = counted.into_iter().map(missing).collect();
            }
            Watched::Missing(kind, by) => {
                for some in days.chunks(DAYS_AT_ONCE) {
                    let of = some.iter().map(|day| self.missing_on(workspace, *kind, *day, *by));
                    readings.extend(try_join_all(of).await?);
                }
            }
        }
        Ok(days.into_iter().zip(readings).collect())
    }

    /// Release to which a rule applies on a day; `None`, if none is live, or the rule is of the whole workspace.
    async fn release_on(&self, workspace: &Id, rule: &AlertRule, day: Day) -> Result<Option<String>> {
        match &rule.scope {
            Scope::Workspace => Ok(None),
            Scope::Release(release) => Ok(Some(release.clone())),
            Scope::Live { model, environment } => {
                let until = match rule.watched {
                    Watched::Missing(_, by) => by * 1_000_000,
                    _ => DAY_MICROS,
                };
                let end = Timestamp::from_micros(day.start().micros() + until - 1);
                let live = self.live_at(workspace, environment, end.unwrap_or(day.start())).await?;
                Ok(live.get(model).map(|live| live.release.clone()))
            }
        }
    }

    /// Releases to which a rule applies on some days.
    async fn releases_on(&self, workspace: &Id, rule: &AlertRule, days: &[Day]) -> Result<Releases> {
        let mut releases = BTreeMap::new();
        for some in days.chunks(DAYS_AT_ONCE) {
            let read = some.iter().map(|day| self.release_on(workspace, rule, *day));
            releases.extend(some.iter().copied().zip(try_join_all(read).await?));
        }
        Ok(releases)
    }

    /// Reads a figure on each day, of one version of the projections.
    async fn figure_days(
        &self,
        workspace: &Id,
        rule: &AlertRule,
        (figure, version): (&FigureOf, u32),
        days: &[Day],
    ) -> Result<Vec<Reading>> {
        let mut readings = Vec::with_capacity(days.len());
        for some in days.chunks(DAYS_AT_ONCE) {
            let of = some.iter().map(async |day| {
                let release = self.release_on(workspace, rule, *day).await?;
                let at = At { workspace, version, day: *day };
                match (figure.figure.logged(), release) {
                    (Some(_), None) if rule.scope != Scope::Workspace => Ok(Reading::default()),
                    (Some(_), release) => self.logged_on(at, release.as_deref(), &figure.figure).await,
                    (None, Some(release)) => self.figure_on(at, &release, figure).await,
                    (None, None) => Ok(Reading::default()),
                }
            });
            readings.extend(try_join_all(of).await?);
        }
        Ok(readings)
    }

    async fn figure_on(&self, at: At<'_>, release: &str, of: &FigureOf) -> Result<Reading> {
        let loaded = match of.tag {
            None => evaluated::load_plain(&*self.table, at).await?,
            Some(_) => evaluated::load(&*self.table, at).await?,
        };
        let Some((_, states)) = loaded else { return Ok(Reading::default()) };
        let evaluation = Evaluation::from_states(&states);
        let evaluation = evaluation.map_err(|error| Error::corrupt(format!("item {}: {error}", at.key())))?;
        let judged = match &of.tag {
            None => evaluation.releases.get(release),
            Some(tag) => with_tag(&evaluation, release, tag),
        };
        Ok(judged.map_or_else(Reading::default, |judged| Reading {
            value: of.figure.of(judged).filter(|_| judged.maturity().unwrap_or(0.0) >= of.min_maturity),
            n: Some(of.figure.n(judged)),
        }))
    }

    /// Reads a logged metric on a day, of a release or of everything logged.
    async fn logged_on(&self, at: At<'_>, release: Option<&str>, figure: &AnyFigure) -> Result<Reading> {
        let numbers = DayNumbers::load(&*self.table, at, figure).await?;
        let series = numbers.as_ref().and_then(|numbers| numbers.logged(release));
        Ok(series.zip(figure.logged()).map_or_else(Reading::default, |(series, of)| Reading {
            value: of.of(series),
            n: Some(series.numbers.n),
        }))
    }

    /// Reads the distance of each day's predictions from those of the reference, from the rollups that have the column.
    async fn drifted_days(
        &self,
        workspace: &Id,
        rule: &AlertRule,
        drift: &DriftOf,
        days: &[Day],
    ) -> Result<Vec<Reading>> {
        let all: Vec<Day> = drift.reference.days().chain(days.iter().copied()).collect();
        let releases = &self.releases_on(workspace, rule, &all).await?;
        let read = |version| async move {
            let read = async |window| {
                let items = self.items_with(workspace, version, &drift.column, window).await?;
                profiles_on(items, rule, releases)
            };
            let reference = Profile::of(read(drift.reference).await?.values());
            let mut readings = Vec::with_capacity(days.len());
            for some in days.chunks(MAX_REFERENCE_DAYS) {
                let (Some(first), Some(last)) = (some.first(), some.last()) else { continue };
                let of = read(Window::new(*first, *last)?).await?;
                readings.extend(some.iter().map(|day| drift.reading(&reference, of.get(day))));
            }
            Ok(readings)
        };
        Ok(of_active(&*self.table, workspace, read).await?.1)
    }

    /// Reads a statistic of a column on each day, from the rollups that have the column.
    async fn column_days(
        &self,
        workspace: &Id,
        rule: &AlertRule,
        of: &ColumnOf,
        days: &[Day],
    ) -> Result<Vec<Reading>> {
        let releases = &self.releases_on(workspace, rule, days).await?;
        let read = |version| async move {
            let mut readings = BTreeMap::new();
            for some in days.chunks(MAX_REFERENCE_DAYS) {
                let (Some(first), Some(last)) = (some.first(), some.last()) else { continue };
                let window = Window::new(*first, *last)?;
                let mut found = Vec::new();
                if of.statistic == NULL_RATE && of.column.starts_with(FEATURE_PREFIX) {
                    // The number of predictions of a day without features stands with the rollups, which are read first.
                    let [rollups, _] = profile_queries(workspace, version, window);
                    found = query_all(&*self.table, rollups).await?;
                }
                found.extend(self.items_with(workspace, version, &of.column, window).await?);
                for (day, profile) in profiles_on(found, rule, releases)? {
                    let found = profile.statistic(&of.column, of.statistic);
                    readings
                        .extend(found.map(|(value, n)| (day, Reading { value: Some(value), n: Some(n) })));
                }
            }
            Ok(readings)
        };
        let (_, readings) = of_active(&*self.table, workspace, read).await?;
        Ok(days.iter().map(|day| readings.get(day).copied().unwrap_or_default()).collect())
    }

    /// Reads the items of rollups of a window that have a column.
    async fn items_with(
        &self,
        workspace: &Id,
        version: u32,
        column: &str,
        window: Window,
    ) -> Result<Vec<Item>> {
        let [rollups, features] = profile_queries(workspace, version, window);
        query_all(&*self.table, if column.starts_with(FEATURE_PREFIX) { features } else { rollups }).await
    }

    /// Counts the events of each day. A day without events has the known count 0.
    async fn counted_days(
        &self,
        workspace: &Id,
        rule: &AlertRule,
        kind: Kind,
        days: &[Day],
    ) -> Result<Vec<Reading>> {
        let (Some(first), Some(last)) = (days.first(), days.last()) else { return Ok(Vec::new()) };
        let mut of = Vec::with_capacity(days.len());
        for day in days {
            let release = self.release_on(workspace, rule, *day).await?;
            of.push(match &rule.scope {
                Scope::Workspace => Some(Counted::Workspace),
                Scope::Release(_) | Scope::Live { .. } => release.map(Counted::Release),
            });
        }
        let mut counts = BTreeMap::new();
        for counted in of.iter().flatten().collect::<BTreeSet<_>>() {
            let range = key::counters_between(workspace, counted, &first.month(), &last.month());
            counts.extend(read_counts(&*self.table, range).await?);
        }
        let reading = |(day, counted): (&Day, Option<Counted>)| {
            let count = |counted| {
                let month = counts.get(&(counted, day.month()));
                let kinds = month.and_then(|days| days.get(&day.to_string()));
                kinds.and_then(|kinds| kinds.get(kind.name())).copied().unwrap_or(0)
            };
            Reading { value: counted.map(|counted| count(counted) as f64), n: None }
        };
        Ok(days.iter().zip(of).map(reading).collect())
    }

    /// Counts the events of each day that have a tag, by the rollups. A value that is merged into the rest has no known count.
    async fn tagged_days(
        &self,
        workspace: &Id,
        kind: Kind,
        (name, value): &(String, String),
        days: &[Day],
    ) -> Result<Vec<Reading>> {
        let count = |version| async move {
            let mut readings = Vec::with_capacity(days.len());
            for some in days.chunks(DAYS_AT_ONCE) {
                let of = some.iter().map(async |day| {
                    let breakdown = key::Breakdown::of(key::By::Tag, name);
                    let key = key::breakdown(workspace, version, *day, breakdown);
                    let Some(item) = self.table.get(&key).await? else { return Ok(Some(0)) };
                    let part = Part::from_state(key::By::Tag, &Projected::from_item(&item)?.state);
                    let part = part.map_err(|error| item.corrupt(error))?;
                    Ok::<_, Error>(with_value(&part, kind, (name, value)))
                });
                let counts = try_join_all(of).await?;
                let reading = |count: Option<u64>| Reading { value: count.map(|n| n as f64), n: None };
                readings.extend(counts.into_iter().map(reading));
            }
            Ok(readings)
        };
        Ok(of_active(&*self.table, workspace, count).await?.1)
    }

    /// Reads 1 if no event of a day had come by a time of it, else 0; an empty reading for a day whose events are gone.
    async fn missing_on(&self, workspace: &Id, kind: Kind, day: Day, by: i64) -> Result<Reading> {
        let table = &*self.table;
        let until = day.start().plus_seconds(by);
        let mut is_there = false;
        for head in scan::heads_of_kind(table, workspace, day, kind).await? {
            let first = scan::first_of(table, &head.log).await?;
            is_there |= first.is_some_and(|segment| segment.appended_at <= until);
        }
        if !is_there && expired::load(table, workspace, day).await?.is_some() {
            return Ok(Reading::default());
        }
        Ok(Reading { value: Some(f64::from(u8::from(!is_there))), n: None })
    }
}

impl DriftOf {
    /// Reading of a day: its distance from the reference, and the number of its predictions that have the column.
    fn reading(&self, reference: &Profile, day: Option<&Profile>) -> Reading {
        let compared = day.into_iter().flat_map(|day| reference.compared(day));
        let found = compared.into_iter().find(|one| one.column == self.column);
        found.map_or_else(Reading::default, |one| Reading {
            value: Statistic::named(self.statistic).and_then(|statistic| (statistic.read)(&one.drift)),
            n: Some(one.n[1]),
        })
    }
}

/// Release to which a rule applies, by day.
type Releases = BTreeMap<Day, Option<String>>;

/// Profile of each day's columns, from the rollups, of the release to which the rule applies on that day.
fn profiles_on(items: Vec<Item>, rule: &AlertRule, releases: &Releases) -> Result<BTreeMap<Day, Profile>> {
    let mut by_day = BTreeMap::<Day, Vec<Item>>::new();
    for item in items {
        by_day.entry(key::parse_projection(&item.key)?.0).or_default().push(item);
    }
    let mut found = BTreeMap::new();
    for (day, items) in by_day {
        let release = releases.get(&day).and_then(Option::as_deref);
        if release.is_some() || rule.scope == Scope::Workspace {
            found.extend(profiles(&items, release)?);
        }
    }
    Ok(found)
}

/// Number of events of a kind that have a tag; `None`, if that tag is not counted apart.
fn with_value(part: &Part, kind: Kind, (name, value): (&str, &str)) -> Option<u64> {
    let Part::Tag(part) = part else { return None };
    let Some(values) = part.tags.get(name) else { return part.tags.others().is_none().then_some(0) };
    let counts = match values.counts.get(value) {
        Some(counts) => *counts,
        None if values.counts.others().is_some() => return None,
        None => TagCounts::default(),
    };
    Some(if kind == Kind::Metrics { counts.metrics } else { counts.predictions })
}

/// Evaluation of the predictions of a release with a tag; `None`, if it is not stored.
fn with_tag<'a>(
    evaluation: &'a Evaluation,
    release: &str,
    (name, value): &(String, String),
) -> Option<&'a ReleaseEvaluation> {
    let rows = evaluation.splits.get(release)?.get(&format!("{TAG_PREFIX}{name}"))?;
    rows.iter().find(|row| row.value == Value::Text(value.clone())).map(|row| &row.of)
}
