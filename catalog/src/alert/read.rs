//! Reading the values that an alert rule watches, day by day: from evaluations, counters, rollups, or the first segments of logs.

use std::collections::{BTreeMap, BTreeSet};

use event::{
    Day, Error, Id, Kind, Result, Timestamp, Window,
    fields::{FEATURE_PREFIX, TAG_PREFIX},
    time::DAY_MICROS,
};
use fold::{
    AnyMetric, Evaluation,
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

use super::{AlertRule, DAY_SECONDS, Lags, MAX_REFERENCE_DAYS, Scope, Watched};
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
        let days = self.readings(workspace, rule, rule.with_days_before(window.from(), last)?).await?;
        let before = days.iter().take_while(|(day, _)| *day < window.from()).count();
        Ok(replay(&rule.rule, Standing::default(), &days, before))
    }

    /// Reads the value that a rule watches, as of now, for each day of a window, of one version of the projections.
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
        let reference = match rule.watched {
            Watched::Drift(.., reference) => Some(reference),
            _ => None,
        };
        let all: Vec<Day> =
            reference.into_iter().flat_map(Window::days).chain(days.iter().copied()).collect();
        let mut releases = BTreeMap::new();
        for some in all.chunks(DAYS_AT_ONCE) {
            let read = some.iter().map(|day| self.release_on(workspace, rule, *day));
            releases.extend(some.iter().copied().zip(try_join_all(read).await?));
        }
        let reader = &Reader { catalog: self, workspace, rule, days: &days, releases };
        let (_, readings) = of_active(&*self.table, workspace, |version| reader.read(version)).await?;
        Ok(days.iter().copied().zip(readings).collect())
    }

    /// Reads the release to which a rule applies on a day; `None`, if none is live, or the rule is of the whole workspace.
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
}

impl AlertRule {
    /// Days from one to another, and those before that it looks back at.
    ///
    /// # Errors
    /// `Invalid`, when the last one is before the first.
    pub fn with_days_before(&self, from: Day, to: Day) -> Result<Window> {
        let before = i64::from(self.look_back()) * DAY_SECONDS;
        Window::new(from.start().plus_seconds(-before).day(), to)
    }
}

/// Reader of the value of a rule on some days.
struct Reader<'a> {
    catalog: &'a Catalog,
    workspace: &'a Id,
    rule: &'a AlertRule,
    days: &'a [Day],
    /// Release to which the rule applies, by day.
    releases: BTreeMap<Day, Option<String>>,
}

impl Reader<'_> {
    async fn read(&self, version: u32) -> Result<Vec<Reading>> {
        match &self.rule.watched {
            Watched::Count(kind, None) => self.counted(*kind).await,
            Watched::Count(kind, Some(tag)) => self.each(|day| self.tagged(version, day, *kind, tag)).await,
            Watched::Metric { metric, tag, min_completeness } => {
                self.each(|day| self.metric(version, day, (metric, tag.as_ref()), *min_completeness)).await
            }
            Watched::Lag(kind) => {
                let lags = Lags::load(&*self.catalog.table, self.workspace).await?;
                let reading = |day: &Day| uncounted(lags.of(*day, *kind));
                Ok(self.days.iter().map(reading).collect())
            }
            // Arrival times of segments are known for the whole workspace only; for a release, its count so far is read.
            Watched::Missing(kind, _) if self.rule.scope != Scope::Workspace => {
                let missing = |of: Reading| uncounted(of.value.map(|count| u64::from(count == 0.0)));
                Ok(self.counted(*kind).await?.into_iter().map(missing).collect())
            }
            Watched::Missing(kind, by) => self.each(|day| self.missing(*kind, day, *by)).await,
            Watched::Column(column, statistic) => {
                let reading = |profile: &Profile| profile.statistic(column, statistic);
                self.profiled(version, column, *statistic == NULL_RATE, reading).await
            }
            Watched::Drift(column, statistic, reference) => {
                let of_reference = self.profiles(version, column, false, *reference).await?;
                let reference = Profile::of(of_reference.values());
                let reading = |day: &Profile| {
                    let compared = reference.compared(day).into_iter().find(|one| one.column == *column)?;
                    let value = Statistic::named(statistic).and_then(|known| (known.read)(&compared.drift));
                    value.map(|value| (value, compared.n[1]))
                };
                self.profiled(version, column, false, reading).await
            }
        }
    }

    /// Reads each day by itself.
    async fn each<F: Future<Output = Result<Reading>>>(
        &self,
        read: impl Fn(Day) -> F,
    ) -> Result<Vec<Reading>> {
        let mut readings = Vec::with_capacity(self.days.len());
        for some in self.days.chunks(DAYS_AT_ONCE) {
            readings.extend(try_join_all(some.iter().map(|day| read(*day))).await?);
        }
        Ok(readings)
    }

    /// Release to which the rule applies on a day.
    fn release(&self, day: Day) -> Option<&str> {
        self.releases.get(&day)?.as_deref()
    }

    /// Returns whether the rule is of a release, and none is live on a day.
    fn is_of_none(&self, day: Day) -> bool {
        self.rule.scope != Scope::Workspace && self.release(day).is_none()
    }

    async fn metric(
        &self,
        version: u32,
        day: Day,
        (metric, tag): (&AnyMetric, Option<&(String, String)>),
        min_completeness: f64,
    ) -> Result<Reading> {
        let (table, release) = (&*self.catalog.table, self.release(day));
        let at = At { workspace: self.workspace, version, day };
        if self.is_of_none(day) {
            return Ok(Reading::default());
        }
        if let Some(logged) = metric.logged() {
            let numbers = DayNumbers::load(table, at, metric).await?;
            let series = numbers.as_ref().and_then(|numbers| numbers.logged(release));
            return Ok(series.map_or_else(Reading::default, |series| Reading {
                value: logged.of(series),
                n: Some(series.numbers.n),
            }));
        }
        let loaded = match tag {
            None => evaluated::load_plain(table, at).await?,
            Some(_) => evaluated::load(table, at).await?,
        };
        let (Some((_, states)), Some(release)) = (loaded, release) else { return Ok(Reading::default()) };
        let evaluation = Evaluation::from_states(&states);
        let evaluation = evaluation.map_err(|error| Error::corrupt(format!("item {}: {error}", at.key())))?;
        let judged = match tag {
            None => evaluation.releases.get(release),
            Some(tag) => with_tag(&evaluation, release, tag),
        };
        Ok(judged.map_or_else(Reading::default, |judged| Reading {
            value: metric.of(judged).filter(|_| judged.maturity().unwrap_or(0.0) >= min_completeness),
            n: Some(metric.n(judged)),
        }))
    }

    /// Reads a number from the profile of each day.
    async fn profiled(
        &self,
        version: u32,
        column: &str,
        of_all: bool,
        read: impl Fn(&Profile) -> Option<(f64, u64)>,
    ) -> Result<Vec<Reading>> {
        let mut readings = Vec::with_capacity(self.days.len());
        for some in self.days.chunks(MAX_REFERENCE_DAYS) {
            let (Some(first), Some(last)) = (some.first(), some.last()) else { continue };
            let profiles = self.profiles(version, column, of_all, Window::new(*first, *last)?).await?;
            readings.extend(some.iter().map(|day| {
                let found = profiles.get(day).and_then(&read);
                found.map_or_else(Reading::default, |(value, n)| Reading { value: Some(value), n: Some(n) })
            }));
        }
        Ok(readings)
    }

    /// Reads the profile of each day of a window, from the rollups that have a column, of the release to which the rule applies on
    /// that day; with `of_all`, also the number of all predictions of the day.
    async fn profiles(
        &self,
        version: u32,
        column: &str,
        of_all: bool,
        window: Window,
    ) -> Result<BTreeMap<Day, Profile>> {
        let [rollups, features] = profile_queries(self.workspace, version, window);
        let is_feature = column.starts_with(FEATURE_PREFIX);
        let mut items = Vec::new();
        // The rollups are read first, and say how many predictions of a day without features there are.
        if of_all || !is_feature {
            items = query_all(&*self.catalog.table, rollups).await?;
        }
        if is_feature {
            items.extend(query_all(&*self.catalog.table, features).await?);
        }
        let mut by_day = BTreeMap::<Day, Vec<Item>>::new();
        for item in items {
            by_day.entry(key::parse_projection(&item.key)?.0).or_default().push(item);
        }
        let mut found = BTreeMap::new();
        for (day, items) in by_day.into_iter().filter(|(day, _)| !self.is_of_none(*day)) {
            found.extend(profiles(&items, self.release(day))?);
        }
        Ok(found)
    }

    /// Counts the events of each day. A day without events has the known count 0.
    async fn counted(&self, kind: Kind) -> Result<Vec<Reading>> {
        let (Some(first), Some(last)) = (self.days.first(), self.days.last()) else { return Ok(Vec::new()) };
        let counted = |day: &Day| match &self.rule.scope {
            Scope::Workspace => Some(Counted::Workspace),
            _ => self.release(*day).map(|release| Counted::Release(release.to_owned())),
        };
        let mut counts = BTreeMap::new();
        for counted in self.days.iter().filter_map(counted).collect::<BTreeSet<_>>() {
            let range = key::counters_between(self.workspace, &counted, &first.month(), &last.month());
            counts.extend(read_counts(&*self.catalog.table, range).await?);
        }
        let reading = |day: &Day| {
            let count = |counted| {
                let kinds = counts.get(&(counted, day.month()))?.get(&day.to_string())?;
                kinds.get(kind.name()).copied()
            };
            uncounted(counted(day).map(|counted| count(counted).unwrap_or(0)))
        };
        Ok(self.days.iter().map(reading).collect())
    }

    /// Counts the events of a day that have a tag, by the rollup. A value that is merged into the rest has no known count.
    async fn tagged(
        &self,
        version: u32,
        day: Day,
        kind: Kind,
        (name, value): &(String, String),
    ) -> Result<Reading> {
        let breakdown = key::Breakdown::of(key::By::Tag, name);
        let key = key::breakdown(self.workspace, version, day, breakdown);
        let Some(item) = self.catalog.table.get(&key).await? else { return Ok(uncounted(Some(0))) };
        let part = Part::from_state(key::By::Tag, &Projected::from_item(&item)?.state);
        let part = part.map_err(|error| item.corrupt(error))?;
        Ok(uncounted(with_value(&part, kind, (name, value))))
    }

    /// Reads 1 if no event of a day had come by a time of it, else 0; an empty reading for a day whose events are gone.
    async fn missing(&self, kind: Kind, day: Day, by: i64) -> Result<Reading> {
        let (table, until) = (&*self.catalog.table, day.start().plus_seconds(by));
        let mut is_there = false;
        for head in scan::heads_of_kind(table, self.workspace, day, kind).await? {
            let first = scan::first_of(table, &head.log).await?;
            is_there |= first.is_some_and(|segment| segment.appended_at <= until);
        }
        let is_gone = !is_there && expired::load(table, self.workspace, day).await?.is_some();
        Ok(uncounted((!is_gone).then_some(u64::from(!is_there))))
    }
}

/// Reading of a number that no minimum of events applies to.
fn uncounted(value: Option<u64>) -> Reading {
    Reading { value: value.map(|value| value as f64), n: None }
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
    let rows = evaluation.slices.get(release)?.get(&format!("{TAG_PREFIX}{name}"))?;
    rows.iter().find(|row| row.value == Value::Text(value.clone())).map(|row| &row.of)
}
