//! Digests of a workspace or a model for its followers: the events of the last days, the live releases and their quality, and
//! alerts that fired. A digest is read from stored counters, evaluations and crossings; no event is read.

mod item;
mod lately;
mod told;

use std::collections::{BTreeMap, BTreeSet};

use event::{Day, Error, Id, Kind, Result, Timestamp, Window};
use fold::Windowed;
use futures::future::try_join_all;
use log::{
    active::of_active,
    evaluated::At,
    key::{self, Counted, EntityId, Followed},
};

pub(crate) use item::id;
pub use item::{DIGEST_SECONDS, DueDigest, ToldDigest};
pub use lately::DecidedComparison;
pub use told::{FollowersOf, MAX_DIGEST_PAGES, MAX_FOLLOWERS, digest_json};

use super::{
    AnyEntity, Catalog, CrossedRule, DayNumbers, Follow, PrimaryMetric, RankedRelease, Sight,
    counts::{Kinds, counts_of},
};

/// Number of days of a digest; they are compared with the same number of days before them.
pub const DIGEST_DAYS: u32 = 7;

/// Maximum live releases of a workspace in a digest.
pub const MAX_DIGEST_RELEASES: usize = 20;

/// Maximum alerts of a workspace in a digest, and maximum decided comparisons.
pub const MAX_DIGEST_ALERTS: usize = 20;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Number of days, releases or workspaces read side by side.
const READS_AT_ONCE: usize = 7;

/// Value of the last days, and of the days before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weeks<T> {
    /// Value of the last days.
    pub last: T,
    /// Value of the days before.
    pub before: T,
}

/// The primary metric of a release over some days.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeekValue {
    /// Value, merged as leaderboards of several days merge it.
    pub value: f64,
    /// Number of predictions behind it.
    pub n: u64,
}

/// A live release in a digest.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveRelease {
    /// Name of the release.
    pub release: String,
    /// Id of its model.
    pub model_id: Id,
    /// Name of its model.
    pub model: String,
    /// Environments in which it is live.
    pub environments: BTreeSet<String>,
    /// Number of its predictions.
    pub predictions: Weeks<u64>,
    /// Primary metric; `None`, if it is not defined or none is set.
    pub measure: Weeks<Option<WeekValue>>,
}

impl LiveRelease {
    /// Increase of the primary metric over the days before.
    pub fn change(&self) -> Option<f64> {
        Some(self.measure.last?.value - self.measure.before?.value)
    }
}

/// An alert that fired.
#[derive(Clone, Debug, PartialEq)]
pub struct FiredAlert {
    /// Crossing at which it fired.
    pub crossed: CrossedRule,
    /// Name of the model that its rule is on; `None`, when it is on the workspace, or the rule is gone.
    pub model: Option<String>,
}

/// Digest of a workspace, or of one of its models.
#[derive(Clone, Debug, PartialEq)]
pub struct WeekOf {
    /// The workspace.
    pub workspace: Id,
    /// Path of the workspace.
    pub path: String,
    /// Id and name of the model, in a digest of a model.
    pub model: Option<(Id, String)>,
    /// The days.
    pub window: Window,
    /// Number of events: all of a workspace, or the predictions of all releases of a model.
    pub counts: Weeks<BTreeMap<Kind, u64>>,
    /// Metric by which releases are ranked.
    pub metric: Option<PrimaryMetric>,
    /// Live releases, by model and name: at most [`MAX_DIGEST_RELEASES`].
    pub live: Vec<LiveRelease>,
    /// Number of further live releases.
    pub more_live: usize,
    /// Alerts that fired within [`DIGEST_DAYS`], the latest first: at most [`MAX_DIGEST_ALERTS`].
    pub alerts: Vec<FiredAlert>,
    /// Number of further alerts.
    pub more_alerts: usize,
    /// Comparisons with live releases that were decided within [`DIGEST_DAYS`], the latest first: at most [`MAX_DIGEST_ALERTS`].
    pub decided: Vec<DecidedComparison>,
    /// Number of further decided comparisons.
    pub more_decided: usize,
}

/// Days of a digest that ends with a day.
fn window_to(last: Day) -> Result<Window> {
    Window::new(days_before(last, DIGEST_DAYS - 1), last)
}

pub(super) fn days_before(day: Day, days: u32) -> Day {
    day.start().plus_seconds(-i64::from(days) * DAY_SECONDS).day()
}

impl Weeks<Window> {
    /// Days of a digest that ends with a day, and the days before.
    fn to(last: Day) -> Result<Self> {
        Ok(Self { last: window_to(last)?, before: window_to(days_before(last, DIGEST_DAYS))? })
    }
}

impl<T> Weeks<T> {
    /// Returns the value of the days that contain `day`; `None`, when neither do.
    fn of(&mut self, windows: &Weeks<Window>, day: Day) -> Option<&mut T> {
        match (windows.last.contains(day), windows.before.contains(day)) {
            (true, _) => Some(&mut self.last),
            (_, true) => Some(&mut self.before),
            _ => None,
        }
    }
}

impl WeekOf {
    /// Digest of one model alone, with the given number of predictions of its releases.
    #[must_use]
    pub fn of_model(&self, id: &Id, name: &str, predictions: Weeks<u64>) -> Self {
        let live = self.live.iter().filter(|one| one.model_id == *id).cloned().collect();
        let counts = |predictions| BTreeMap::from([(Kind::Predictions, predictions)]);
        let alerts = self.alerts.iter().filter(|alert| alert.model.as_deref() == Some(name));
        let decided = self.decided.iter().filter(|one| one.model.as_deref() == Some(name));
        Self {
            model: Some((id.clone(), name.to_owned())),
            counts: Weeks { last: counts(predictions.last), before: counts(predictions.before) },
            alerts: alerts.cloned().collect(),
            decided: decided.cloned().collect(),
            live,
            ..self.clone()
        }
    }

    /// Cuts the lists to the bounds of a digest.
    #[must_use]
    fn bounded(mut self) -> Self {
        self.more_live = self.live.len().saturating_sub(MAX_DIGEST_RELEASES);
        self.more_alerts = self.alerts.len().saturating_sub(MAX_DIGEST_ALERTS);
        self.live.truncate(MAX_DIGEST_RELEASES);
        self.alerts.truncate(MAX_DIGEST_ALERTS);
        self.more_decided = self.decided.len().saturating_sub(MAX_DIGEST_ALERTS);
        self.decided.truncate(MAX_DIGEST_ALERTS);
        self
    }
}

impl Catalog {
    /// Reads the digests of everything in sight that a user follows, each with its last [`DIGEST_DAYS`] days up to yesterday: one
    /// query for the follows, and [`Catalog::week_of`] once for each workspace.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn digest_of(&self, user: &Id, sight: &Sight, now: Timestamp) -> Result<Vec<WeekOf>> {
        let mut by_workspace = BTreeMap::<Id, BTreeSet<Followed>>::new();
        for Follow { followed, .. } in self.in_sight(self.follows(user).await?, sight).await? {
            by_workspace.entry(followed.workspace().clone()).or_default().insert(followed);
        }
        let by_workspace: Vec<_> = by_workspace.into_iter().collect();
        let mut told = Vec::new();
        for some in by_workspace.chunks(READS_AT_ONCE) {
            let weeks = some.iter().map(|(workspace, follows)| self.told_of(workspace, follows, now));
            told.extend(try_join_all(weeks).await?.into_iter().flatten());
        }
        Ok(told)
    }

    /// Reads the digests of the followed things in one workspace; none, when the workspace is gone.
    async fn told_of(
        &self,
        workspace: &Id,
        follows: &BTreeSet<Followed>,
        now: Timestamp,
    ) -> Result<Vec<WeekOf>> {
        let Some(yesterday) = now.day().before() else { return Ok(Vec::new()) };
        let releases = self.ranks(workspace).await?;
        let week = self.whole_week(workspace, releases.clone(), yesterday, now).await?;
        let Some(week) = week else { return Ok(Vec::new()) };
        let mut told = Vec::with_capacity(follows.len());
        for followed in follows {
            match followed {
                Followed::Workspace(_) => told.push(week.clone().bounded()),
                Followed::Model(_, id) => {
                    let model = self.find(&EntityId::Model(workspace.clone(), id.clone())).await?;
                    let Some(model) = model else { continue };
                    let own = releases.iter().filter(|one| one.model_id == *id);
                    let names: Vec<&str> = own.map(|one| one.release.as_str()).collect();
                    let weeks = self.weekly_predictions(workspace, &names, yesterday).await?;
                    let sum = |of: fn(&Weeks<u64>) -> u64| weeks.iter().map(of).sum();
                    let predictions = Weeks { last: sum(|one| one.last), before: sum(|one| one.before) };
                    told.push(week.of_model(id, &model.entity().name, predictions).bounded());
                }
            }
        }
        Ok(told)
    }

    /// Reads the digest of a workspace that ends with the day `last`; `None`, when there is no such workspace. It reads the
    /// workspace, its settings, rules and live releases, its releases, the evaluations of 14 days, counters, crossings, and
    /// happenings.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn week_of(&self, workspace: &Id, last: Day, now: Timestamp) -> Result<Option<WeekOf>> {
        let releases = self.ranks(workspace).await?;
        Ok(self.whole_week(workspace, releases, last, now).await?.map(WeekOf::bounded))
    }

    async fn whole_week(
        &self,
        id: &Id,
        releases: Vec<RankedRelease>,
        last: Day,
        now: Timestamp,
    ) -> Result<Option<WeekOf>> {
        let found = self.find(&EntityId::Workspace(id.clone())).await?;
        let Some(AnyEntity::Workspace(workspace)) = found else { return Ok(None) };
        let windows = Weeks::to(last)?;
        let (settings, alerts) = (self.settings(id).await?, self.alerts(id).await?);
        let mut live = self.live_of_week(id, releases).await?;
        self.measure(id, &windows, settings.primary_metric.as_ref(), &mut live).await?;
        let names: Vec<&str> = live.iter().map(|one| one.release.as_str()).collect();
        let predictions = self.weekly_predictions(id, &names, last).await?;
        live.iter_mut().zip(predictions).for_each(|(one, predictions)| one.predictions = predictions);
        Ok(Some(WeekOf {
            workspace: id.clone(),
            path: workspace.path,
            model: None,
            window: windows.last,
            counts: self.weekly(id, &Counted::Workspace, &windows).await?,
            metric: settings.primary_metric,
            alerts: self.fired(id, &alerts, &live, now).await?,
            decided: self.decided(id, now.plus_seconds(-i64::from(DIGEST_DAYS) * DAY_SECONDS)).await?,
            live,
            more_live: 0,
            more_alerts: 0,
            more_decided: 0,
        }))
    }

    /// Reads the live ones of the releases of a workspace, by model and name, with nothing counted yet.
    async fn live_of_week(&self, workspace: &Id, releases: Vec<RankedRelease>) -> Result<Vec<LiveRelease>> {
        let mut places = BTreeMap::<String, BTreeSet<String>>::new();
        for (environment, state) in self.live_now(workspace).await? {
            for live in state.into_values() {
                places.entry(live.release).or_default().insert(environment.clone());
            }
        }
        let mut ranks = releases;
        ranks.retain(|one| places.contains_key(&one.release));
        self.name_models(workspace, &mut ranks).await?;
        let of = |one: RankedRelease| LiveRelease {
            environments: places.remove(&one.release).unwrap_or_default(),
            release: one.release,
            model_id: one.model_id,
            model: one.model,
            predictions: Weeks::default(),
            measure: Weeks::default(),
        };
        let mut live: Vec<LiveRelease> = ranks.into_iter().map(of).collect();
        live.sort_by(|a, b| (&a.model, &a.release).cmp(&(&b.model, &b.release)));
        Ok(live)
    }

    /// Reads the primary metric of live releases from the evaluations of the days, of one version of the projections.
    async fn measure(
        &self,
        workspace: &Id,
        windows: &Weeks<Window>,
        primary: Option<&PrimaryMetric>,
        live: &mut [LiveRelease],
    ) -> Result<()> {
        let Some(primary) = primary.filter(|_| !live.is_empty()) else { return Ok(()) };
        let days: Vec<Day> = windows.before.days().chain(windows.last.days()).collect();
        let names: BTreeSet<&str> = live.iter().map(|one| one.release.as_str()).collect();
        let (names, days) = (&names, &days);
        let read = |version| async move {
            let window = || Windowed::new(primary.metric.clone());
            let weeks = || Weeks { last: window(), before: window() };
            let mut found: BTreeMap<String, Weeks<Windowed>> =
                names.iter().map(|name| ((*name).to_owned(), weeks())).collect();
            for some in days.chunks(READS_AT_ONCE) {
                let numbers = some.iter().map(|day| {
                    DayNumbers::load(&*self.table, At { workspace, version, day: *day }, &primary.metric)
                });
                for (day, numbers) in some.iter().zip(try_join_all(numbers).await?) {
                    let Some(numbers) = numbers else { continue };
                    for (name, weeks) in &mut found {
                        let window = weeks.of(windows, *day);
                        window.into_iter().for_each(|window| numbers.add_to(name, window));
                    }
                }
            }
            Ok(found)
        };
        let (_, found) = of_active(&*self.table, workspace, read).await?;
        let measure = |window: &Windowed| Some(WeekValue { value: window.value()?, n: window.n() });
        for one in live {
            if let Some(weeks) = found.get(&one.release) {
                one.measure = Weeks { last: measure(&weeks.last), before: measure(&weeks.before) };
            }
        }
        Ok(())
    }

    /// Counts the predictions of releases on the days of a digest that ends with a day, in the order of the releases.
    async fn weekly_predictions(
        &self,
        workspace: &Id,
        releases: &[&str],
        last: Day,
    ) -> Result<Vec<Weeks<u64>>> {
        let windows = Weeks::to(last)?;
        let windows = &windows;
        let of = async |release: &&str| {
            let counts = self.weekly(workspace, &Counted::Release((*release).to_owned()), windows).await?;
            let predictions = |of: &BTreeMap<Kind, u64>| of.get(&Kind::Predictions).copied().unwrap_or(0);
            Ok::<_, Error>(Weeks { last: predictions(&counts.last), before: predictions(&counts.before) })
        };
        let mut predictions = Vec::with_capacity(releases.len());
        for some in releases.chunks(READS_AT_ONCE) {
            predictions.extend(try_join_all(some.iter().map(of)).await?);
        }
        Ok(predictions)
    }

    /// Counts the events of each kind on the days: one read, or two for days of two months.
    async fn weekly(
        &self,
        workspace: &Id,
        counted: &Counted,
        windows: &Weeks<Window>,
    ) -> Result<Weeks<BTreeMap<Kind, u64>>> {
        let months = BTreeSet::from([windows.before.from().month(), windows.last.to().month()]);
        let mut weeks = Weeks::<BTreeMap<Kind, u64>>::default();
        for month in months {
            let Some(item) = self.table.get(&key::counter(workspace, counted, &month)).await? else {
                continue;
            };
            for (day, kinds) in counts_of(&item)? {
                let Some(sum) = day.parse().ok().and_then(|day| weeks.of(windows, day)) else { continue };
                take_kinds(sum, &kinds);
            }
        }
        Ok(weeks)
    }
}

/// Adds counts by the names of kinds to counts by kinds; names that are no kind are left out.
fn take_kinds(sum: &mut BTreeMap<Kind, u64>, kinds: &Kinds) {
    for kind in Kind::ALL {
        if let Some(count) = kinds.get(kind.name()) {
            *sum.entry(kind).or_default() += count;
        }
    }
}
