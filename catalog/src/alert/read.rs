//! Reading what an alert rule watches: what is known of each day, from evaluations, counters, or the first segments of logs.

use std::collections::{BTreeMap, BTreeSet};

use event::{
    Day, Error, Id, Kind, Result, Timestamp, Window,
    fields::{FEATURE_PREFIX, TAG_PREFIX},
    time::DAY_MICROS,
};
use fold::{
    Evaluation,
    alert::{JudgedDay, Reading, Standing, replay},
    drift::{NULL_RATE, Profile, Statistic},
    evaluation::{ReleaseEvaluation, Value},
};
use futures::future::try_join_all;
use log::{
    active::of_active,
    evaluated::{self, At},
    expired,
    key::{self, Counted},
    scan,
};
use table::{Item, query_all};

use super::{AlertRule, ColumnOf, DriftOf, FigureOf, Lags, MAX_REFERENCE_DAYS, Scope, Watched};
use crate::{Catalog, counts::read_counts, profile_queries, profiles};

/// The most days that a rule is tried on at once.
pub const MAX_TEST_DAYS: usize = 1_000;

/// How many days are read side by side.
const DAYS_AT_ONCE: usize = 8;

impl Catalog {
    /// Tries a rule on the days of a window: how each would have been judged by what is known now, from a rule on that stands
    /// well before the first. Days that are not due yet are left out. It writes nothing.
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

    /// What is known now of each day of a window, as a rule watches it.
    ///
    /// # Errors
    /// Those of the table, and `Corrupt`.
    pub async fn readings(
        &self,
        workspace: &Id,
        rule: &AlertRule,
        window: Window,
    ) -> Result<Vec<(Day, Reading)>> {
        let days: Vec<Day> = window.days().collect();
        let mut readings = Vec::with_capacity(days.len());
        match &rule.watched {
            Watched::Count(kind) => return self.counted_days(workspace, rule, *kind, &days).await,
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
            Watched::Missing(kind, by) => {
                for some in days.chunks(DAYS_AT_ONCE) {
                    let of = some.iter().map(|day| self.missing_on(workspace, *kind, *day, *by));
                    readings.extend(try_join_all(of).await?);
                }
            }
        }
        Ok(days.into_iter().zip(readings).collect())
    }

    /// The release that a rule is of on a day; `None`, where none is live, or the rule is of the whole workspace.
    async fn release_on(&self, workspace: &Id, scope: &Scope, day: Day) -> Result<Option<String>> {
        match scope {
            Scope::Workspace => Ok(None),
            Scope::Release(release) => Ok(Some(release.clone())),
            Scope::Live { model, environment } => {
                let end = Timestamp::from_micros(day.start().micros() + DAY_MICROS - 1);
                let live = self.live_at(workspace, environment, end.unwrap_or(day.start())).await?;
                Ok(live.get(model).map(|live| live.release.clone()))
            }
        }
    }

    /// A figure on each day, of one version of the projections.
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
                let Some(release) = self.release_on(workspace, &rule.scope, *day).await? else {
                    return Ok(Reading::default());
                };
                self.figure_on(At { workspace, version, day: *day }, &release, figure).await
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

    /// How far the predictions of each day are from those of the reference: of the rollups that have the column.
    async fn drifted_days(
        &self,
        workspace: &Id,
        rule: &AlertRule,
        drift: &DriftOf,
        days: &[Day],
    ) -> Result<Vec<Reading>> {
        let release = match &rule.scope {
            Scope::Release(release) => Some(release.as_str()),
            Scope::Workspace | Scope::Live { .. } => None,
        };
        let read = |version| async move {
            let read = async |window| {
                profiles(&self.items_with(workspace, version, &drift.column, window).await?, release)
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

    /// A statistic of a column on each day, of the rollups that have the column.
    async fn column_days(
        &self,
        workspace: &Id,
        rule: &AlertRule,
        of: &ColumnOf,
        days: &[Day],
    ) -> Result<Vec<Reading>> {
        let mut releases = BTreeMap::new();
        for some in days.chunks(DAYS_AT_ONCE) {
            let read = some.iter().map(|day| self.release_on(workspace, &rule.scope, *day));
            releases.extend(some.iter().copied().zip(try_join_all(read).await?));
        }
        let releases = &releases;
        let read = |version| async move {
            let mut readings = BTreeMap::new();
            for some in days.chunks(MAX_REFERENCE_DAYS) {
                let (Some(first), Some(last)) = (some.first(), some.last()) else { continue };
                let window = Window::new(*first, *last)?;
                let mut items = BTreeMap::<Day, Vec<Item>>::new();
                let mut found = self.items_with(workspace, version, &of.column, window).await?;
                if of.statistic == NULL_RATE && of.column.starts_with(FEATURE_PREFIX) {
                    // Of how many predictions the features are stands with the rollups.
                    found.extend(
                        query_all(&*self.table, profile_queries(workspace, version, window)[0].clone())
                            .await?,
                    );
                }
                for item in found {
                    items.entry(key::parse_projection(&item.key)?.0).or_default().push(item);
                }
                for (day, items) in items {
                    let release = releases.get(&day).and_then(Option::as_deref);
                    if release.is_some() || rule.scope == Scope::Workspace {
                        let read = profiles(&items, release)?;
                        let found = read.get(&day).and_then(|day| day.statistic(&of.column, of.statistic));
                        readings.extend(
                            found.map(|(value, n)| (day, Reading { value: Some(value), n: Some(n) })),
                        );
                    }
                }
            }
            Ok(readings)
        };
        let (_, readings) = of_active(&*self.table, workspace, read).await?;
        Ok(days.iter().map(|day| readings.get(day).copied().unwrap_or_default()).collect())
    }

    /// The items of rollups of a window that have a column.
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

    /// How many events were counted on each day. A day without events has none, which is known.
    async fn counted_days(
        &self,
        workspace: &Id,
        rule: &AlertRule,
        kind: Kind,
        days: &[Day],
    ) -> Result<Vec<(Day, Reading)>> {
        let (Some(first), Some(last)) = (days.first(), days.last()) else { return Ok(Vec::new()) };
        let mut of = Vec::with_capacity(days.len());
        for day in days {
            let release = self.release_on(workspace, &rule.scope, *day).await?;
            of.push(match &rule.scope {
                Scope::Workspace => Some(Counted::Workspace),
                Scope::Release(_) | Scope::Live { .. } => release.map(Counted::Release),
            });
        }
        let mut counts = BTreeMap::new();
        for counted in of.iter().flatten().collect::<BTreeSet<_>>() {
            let ranges = key::counters_between(workspace, counted, &first.month(), &last.month());
            counts.extend(read_counts(&*self.table, ranges).await?);
        }
        let reading = |(day, counted): (&Day, Option<Counted>)| {
            let count = |counted| {
                let month = counts.get(&(counted, day.month()));
                let kinds = month.and_then(|days| days.get(&day.to_string()));
                kinds.and_then(|kinds| kinds.get(kind.name())).copied().unwrap_or(0)
            };
            (*day, Reading { value: counted.map(|counted| count(counted) as f64), n: None })
        };
        Ok(days.iter().zip(of).map(reading).collect())
    }

    /// 1 where no event of a day had come by a time of it, else 0; nothing of a day whose events are gone.
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
    /// What is known of a day: how far it is from the reference, and how many of its predictions have the column.
    fn reading(&self, reference: &Profile, day: Option<&Profile>) -> Reading {
        let compared = day.into_iter().flat_map(|day| reference.compared(day));
        let found = compared.into_iter().find(|one| one.column == self.column);
        found.map_or_else(Reading::default, |one| Reading {
            value: Statistic::named(self.statistic).and_then(|statistic| (statistic.read)(&one.drift)),
            n: Some(one.n[1]),
        })
    }
}

/// How good the predictions of a release with a tag were; `None`, where that is not stored of them.
fn with_tag<'a>(
    evaluation: &'a Evaluation,
    release: &str,
    (name, value): &(String, String),
) -> Option<&'a ReleaseEvaluation> {
    let rows = evaluation.splits.get(release)?.get(&format!("{TAG_PREFIX}{name}"))?;
    rows.iter().find(|row| row.value == Value::Text(value.clone())).map(|row| &row.of)
}
