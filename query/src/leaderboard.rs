//! The leaderboard: of live releases, of a given day from its evaluation, and of a window from its events; and the metrics that
//! promotion gates read.

mod promotion;

use std::collections::BTreeMap;

use catalog::{DayNumbers, MAX_LEADERBOARD, PrimaryMetric, RankedRelease};
use event::{Day, Error, Id, Period, Result, Window};
use fold::{
    AnyMetric, Windowed,
    evaluation::{Record, ReleaseEvaluation},
};
use futures::{FutureExt, future::try_join_all};
use log::{active, evaluated::At};

use crate::{
    Dataset, LiveIn, Point, Query, Request, breakdown::Breakdown, evaluations, request::instant,
    window::days_between,
};

/// Number of days read side by side.
const DAYS_AT_ONCE: usize = 8;

/// The ranking of the releases of a window.
#[derive(Clone, Debug, Default)]
pub struct LeaderboardParams<'a> {
    /// The first day.
    pub from: &'a str,
    /// The last day.
    pub to: &'a str,
    /// The metric; `None` for the primary metric of the workspace.
    pub metric: Option<&'a str>,
    /// Direction of better values, `max` or `min`; `None` for that of the metric.
    pub direction: Option<&'a str>,
    /// Minimum number of evaluated predictions for a rank; `None` for the setting of the workspace.
    pub min_n: Option<u64>,
    /// Evaluates only predictions of releases that were live in this environment at the time.
    pub environment: Option<&'a str>,
    /// Uses only events appended by then: an instant, or a day that stands for its beginning.
    pub as_of: Option<&'a str>,
}

/// A release and its place on a day.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The release, by name.
    pub release: String,
    /// The value of the metric.
    pub value: f64,
    /// The number of predictions, or of observations of a logged metric, behind the value.
    pub n: u64,
    /// True if `n` is enough for a rank; else the release stands behind the ranked ones.
    pub is_ranked: bool,
    /// The number of its evaluated predictions, and its record against the other releases of the day; `None` for a logged metric.
    pub judged: Option<(u64, Record)>,
}

impl Query {
    /// Returns the live releases, the best first, with the current names of their models: one query of the leaderboard, and a read of
    /// each model on it.
    ///
    /// # Errors
    /// `Invalid`, if `limit` is not 1 to [`MAX_LEADERBOARD`]; errors of the table.
    pub async fn leaderboard(&self, workspace: &Id, limit: usize) -> Result<Vec<RankedRelease>> {
        let mut leaderboard = self.catalog.leaderboard(workspace, limit).await?;
        self.catalog.name_models(workspace, &mut leaderboard).await?;
        Ok(leaderboard)
    }

    /// Returns the releases of a window, the best first, and the metric by which they are ranked. It is computed from the events
    /// of all days together, or for a logged metric from the rollups. Releases with too few evaluated predictions stand behind.
    ///
    /// # Errors
    /// `Invalid`, if a word is wrong or `limit` is not 1 to [`MAX_LEADERBOARD`]; `Conflict`, if no metric is named and no primary
    /// metric is set; errors of [`Query::run`].
    pub async fn leaderboard_of_window(
        &self,
        workspace: &Id,
        words: &LeaderboardParams<'_>,
        limit: usize,
    ) -> Result<(PrimaryMetric, Vec<Place>)> {
        if !(1..=MAX_LEADERBOARD).contains(&limit) {
            return Err(Error::invalid(format!("the limit is 1 to {MAX_LEADERBOARD}")));
        }
        let settings = self.catalog.settings(workspace).await?;
        let named = PrimaryMetric::parse(words.metric, words.direction)?;
        let unset = || Error::conflict("the workspace has no primary metric to rank by; name a metric");
        let primary = named.or(settings.primary_metric.clone()).ok_or_else(unset)?;
        let min_n = words.min_n.unwrap_or(settings.min_n_of(&primary.metric));
        let window = days_between(words.from, words.to)?;
        if primary.metric.logged().is_some() {
            let name = primary.metric.name();
            for (word, is_given) in
                [("environment", words.environment.is_some()), ("as-of", words.as_of.is_some())]
            {
                if is_given {
                    let message = format!(
                        "{word}: `{name}` is a logged metric, which is ranked as its rollups are now"
                    );
                    return Err(Error::invalid(message));
                }
            }
            let found = self.logged_window(workspace, &primary.metric, window).await?;
            return Ok((primary.clone(), logged_places(&found, &primary, min_n, limit)));
        }
        let mut request = Request::of(Dataset::Evaluations, window, Vec::new());
        request.as_of = words.as_of.map(instant).transpose()?;
        request.period = Period::All;
        request.breakdown = Breakdown { by_release: true, ..Breakdown::default() };
        if let Some(environment) = words.environment {
            event::id::check_name(environment)?;
            request.live = Some(LiveIn { environment: environment.to_owned(), is_live: true });
        }
        let found = self.evaluated_window(workspace, &request).await?;
        let places = ranked(found.iter().map(|(name, of)| (name, of)), &primary, min_n, limit);
        Ok((primary, places))
    }

    /// Evaluates each release of a window over the events of all its days together.
    pub(crate) async fn evaluated_window(
        &self,
        workspace: &Id,
        request: &Request,
    ) -> Result<Vec<(String, ReleaseEvaluation)>> {
        let (_turn, hold) = self.budget.enter(Some(workspace)).await?;
        let catalog = &self.catalog;
        let of_logs =
            |reading| async move { evaluations::computed_periods(&reading, catalog, request).await }.boxed();
        let ((periods, _), _) = self.out_of_logs(workspace, &Point::of(request), &hold, of_logs).await?;
        let found = periods.into_iter().flat_map(|period| period.buckets.buckets);
        Ok(found.map(|(bucket, of)| (bucket.name, of)).collect())
    }

    /// Returns the releases of a day, the best first, and the metric by which they are ranked: all releases evaluated by this
    /// metric, live or not. Releases with too few evaluated predictions stand behind. Reads two items and the evaluation.
    ///
    /// # Errors
    /// `Invalid`, if `limit` is not 1 to [`MAX_LEADERBOARD`]; `Conflict`, if no primary metric is set; errors of the table.
    pub async fn leaderboard_of(
        &self,
        workspace: &Id,
        day: Day,
        limit: usize,
    ) -> Result<(PrimaryMetric, Vec<Place>)> {
        if !(1..=MAX_LEADERBOARD).contains(&limit) {
            return Err(Error::invalid(format!("the limit is 1 to {MAX_LEADERBOARD}")));
        }
        let unset = || Error::conflict("the workspace has no primary metric to rank by; set one");
        let settings = self.catalog.settings(workspace).await?;
        let min_n = settings.min_n();
        let primary = settings.primary_metric.ok_or_else(unset)?;
        let version = active::load(&*self.table, workspace).await?.version;
        let at = At { workspace, version, day };
        let places = match DayNumbers::load(&*self.table, at, &primary.metric).await? {
            None => Vec::new(),
            Some(DayNumbers::Judged(evaluation)) => {
                ranked(evaluation.releases.iter(), &primary, min_n, limit)
            }
            Some(logged @ DayNumbers::Logged(_)) => {
                let of = |name: &str| (name.to_owned(), logged.window(name, &primary.metric));
                let found = logged.releases().into_iter().map(of).collect();
                logged_places(&found, &primary, min_n, limit)
            }
        };
        Ok((primary, places))
    }

    /// Reads a logged metric of each release over all days of a window together, from the current rollups.
    pub(crate) async fn logged_window(
        &self,
        workspace: &Id,
        metric: &AnyMetric,
        window: Window,
    ) -> Result<BTreeMap<String, Windowed>> {
        let (_turn, _hold) = self.budget.enter(Some(workspace)).await?;
        let days: Vec<Day> = window.days().collect();
        let days = &days;
        let read = |version| async move {
            let mut found = BTreeMap::<String, Windowed>::new();
            for some in days.chunks(DAYS_AT_ONCE) {
                let load = some
                    .iter()
                    .map(|day| DayNumbers::load(&*self.table, At { workspace, version, day: *day }, metric));
                for numbers in try_join_all(load).await?.into_iter().flatten() {
                    for name in numbers.releases() {
                        let new = || Windowed::new(metric.clone());
                        numbers.add_to(name, found.entry(name.to_owned()).or_insert_with(new));
                    }
                }
            }
            Ok(found)
        };
        Ok(active::of_active(&*self.table, workspace, read).await?.1)
    }
}

/// Ranks releases by a logged metric.
fn logged_places(
    found: &BTreeMap<String, Windowed>,
    by: &PrimaryMetric,
    min_n: u64,
    limit: usize,
) -> Vec<Place> {
    let place = |(release, of): (&String, &Windowed)| {
        let (value, n) = (of.value()?, of.n());
        Some(Place { release: release.clone(), value, n, is_ranked: n >= min_n, judged: None })
    };
    in_order(found.iter().filter_map(place).collect(), by, limit)
}

/// Ranks releases, the best first, with those of too few evaluated predictions at the end.
fn ranked<'a>(
    releases: impl Iterator<Item = (&'a String, &'a ReleaseEvaluation)>,
    by: &PrimaryMetric,
    min_n: u64,
    limit: usize,
) -> Vec<Place> {
    let place = |(release, of): (&String, &ReleaseEvaluation)| {
        let value = by.metric.of(of)?;
        let n = by.metric.n(of);
        let judged = Some((of.judged(), of.record));
        Some(Place { release: release.clone(), value, n, is_ranked: n >= min_n, judged })
    };
    in_order(releases.filter_map(place).collect(), by, limit)
}

fn in_order(mut places: Vec<Place>, by: &PrimaryMetric, limit: usize) -> Vec<Place> {
    // Releases of equal value stay in the order of their names.
    places.sort_by(|a, b| {
        let by_score = || by.score(b.value).total_cmp(&by.score(a.value));
        b.is_ranked.cmp(&a.is_ranked).then_with(by_score)
    });
    places.truncate(limit);
    places
}
