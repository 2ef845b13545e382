//! Digests of a workspace or a model for its followers: the events of the last days, the live releases and their
//! quality, fired alerts and decided comparisons. A digest is computed from stored counters, evaluations, transitions
//! and activities, without reading events.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use event::{Day, Error, Id, Kind, Result, Timestamp, Window};
use fold::{Windowed, alert::Transition};
use futures::future::try_join_all;
use log::{
    active::of_active,
    evaluated::At,
    key::{self, Counted, EntityId, Followed},
};
use serde::Serialize;
use serde_json::json;
use table::{Query, query_all};
use utoipa::ToSchema;

use super::{
    AlertScope, Alerts, AnyEntity, Catalog, DayNumbers, Delivery, Follow, Happening, MAX_DELAY_DAYS,
    MAX_LISTED, PrimaryMetric, RankedRelease, Sight, Webhook, WebhookFormat, alert::slack, counts::counts_of,
    feed::DECIDED,
};

/// Number of days of a digest, which are compared with as many days before.
const DIGEST_DAYS: u32 = 7;

/// Maximum live releases, alerts, and decided comparisons in a digest.
const MAX_ROWS: usize = 20;

/// Maximum users named on a page of a digest, and the maximum of their follows together; one user may exceed it alone.
pub const MAX_FOLLOWERS: usize = 200;
const MAX_FOLLOWED: usize = 1_000;

/// Maximum pages of a digest.
pub const MAX_DIGEST_PAGES: usize = 20;

/// Maximum delay of a digest, in seconds. One that no projector made by then is omitted.
const LATE_SECONDS: i64 = 6 * 60 * 60;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Number of days, releases or workspaces read side by side.
const READS_AT_ONCE: usize = 7;

/// Value of the last days, and of the days before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Weeks<T> {
    /// Value of the last days.
    pub last: T,
    /// Value of the days before.
    pub before: T,
}

/// The primary metric of a release over some days.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WeekValue {
    /// Value, merged as leaderboards of several days merge it.
    pub value: f64,
    /// Number of predictions behind it.
    pub n: u64,
}

/// A live release in a digest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LiveRelease {
    /// Name of the release.
    pub release: String,
    /// Name of its model.
    pub model: String,
    /// Id of its model.
    #[serde(skip)]
    pub model_id: Option<Id>,
    /// Environments in which it is live.
    pub environments: BTreeSet<String>,
    /// Number of its predictions.
    #[schema(inline)]
    pub predictions: Weeks<u64>,
    /// The primary metric, and of how many predictions it is.
    #[schema(inline, required)]
    pub last: Option<WeekValue>,
    /// Value on the days before.
    #[schema(inline, required)]
    pub before: Option<WeekValue>,
    /// Increase over the days before.
    #[schema(required)]
    pub change: Option<f64>,
}

/// An alert that fired.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FiredAlert {
    /// Id of the transition.
    pub id: String,
    /// Name of the rule.
    pub rule: String,
    /// Name of the model that its rule is on; none, when it is on the workspace, or the rule is gone.
    #[schema(required)]
    pub model: Option<String>,
    /// The day that was judged.
    #[schema(value_type = String, format = Date)]
    pub day: Day,
    /// When it fired.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Text for people.
    pub text: String,
}

/// A comparison of a live release with one that predicts beside it, which was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecidedComparison {
    /// When it was decided.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Name of the model.
    #[schema(required)]
    pub model: Option<String>,
    /// The release that predicts beside the live one.
    pub challenger: String,
    /// Environment in which the live one is live.
    #[schema(required)]
    pub environment: Option<String>,
    /// Text for people.
    pub text: String,
}

/// Model of a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DigestModel {
    /// Id of the model.
    pub id: String,
    /// Name of the model.
    pub name: String,
}

/// Digest of a workspace, or of one of its models.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WeekOf {
    /// Id of the workspace.
    pub workspace: String,
    /// Path of the workspace.
    pub path: String,
    /// The model, in a digest of a model.
    #[schema(inline, required)]
    pub model: Option<DigestModel>,
    /// First day.
    #[schema(value_type = String, format = Date)]
    pub from: Day,
    /// Last day.
    #[schema(value_type = String, format = Date)]
    pub to: Day,
    /// Number of predictions, of a model those of all its releases.
    #[schema(inline)]
    pub predictions: Weeks<u64>,
    /// Number of outcomes of a workspace.
    #[schema(inline, required)]
    pub outcomes: Option<Weeks<u64>>,
    /// Metric by which releases are ranked.
    #[schema(required)]
    pub metric: Option<String>,
    /// Which way the metric is better: max or min.
    #[schema(required)]
    pub better: Option<&'static str>,
    /// Live releases, by model and name.
    #[schema(inline, max_items = 20)]
    pub live: Vec<LiveRelease>,
    /// Number of further live releases.
    pub more_live: usize,
    /// Alerts that fired, the latest first.
    #[schema(inline, max_items = 20)]
    pub alerts: Vec<FiredAlert>,
    /// Number of further alerts.
    pub more_alerts: usize,
    /// Comparisons with live releases that were decided, the latest first.
    #[schema(inline, max_items = 20)]
    pub decided: Vec<DecidedComparison>,
    /// Number of further decided comparisons.
    pub more_decided: usize,
}

pub(crate) fn days_before(day: Day, days: u32) -> Day {
    day.start().plus_seconds(-i64::from(days) * DAY_SECONDS).day()
}

impl Weeks<Window> {
    /// Days of a digest that ends with a day, and the days before.
    fn to(last: Day) -> Result<Self> {
        let window = |last| Window::new(days_before(last, DIGEST_DAYS - 1), last);
        Ok(Self { last: window(last)?, before: window(days_before(last, DIGEST_DAYS))? })
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

/// Truncates a list to the maximum of a digest. Returns the number of omitted rows.
fn cut<T>(rows: &mut Vec<T>) -> usize {
    let more = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    more
}

impl WeekOf {
    /// Digest of one model alone, with the given number of predictions of its releases.
    fn of_model(&self, id: &EntityId, name: &str, predictions: Weeks<u64>) -> Self {
        let mut week = self.clone();
        week.model = Some(DigestModel { id: id.to_string(), name: name.to_owned() });
        (week.predictions, week.outcomes) = (predictions, None);
        week.live.retain(|one| one.model_id.as_ref() == Some(id.id()));
        week.alerts.retain(|one| one.model.as_deref() == Some(name));
        week.decided.retain(|one| one.model.as_deref() == Some(name));
        week
    }

    /// Cuts the lists to the bounds of a digest.
    fn bounded(mut self) -> Self {
        self.more_live = cut(&mut self.live);
        self.more_alerts = cut(&mut self.alerts);
        self.more_decided = cut(&mut self.decided);
        self
    }

    /// Text for people, in lines.
    fn text(&self) -> String {
        let share = |counts: Weeks<u64>| match counts.before {
            0 => String::new(),
            before => format!(" ({:+.0}%)", 100.0 * (counts.last as f64 / before as f64 - 1.0)),
        };
        let (predictions, outcomes) = (self.predictions, self.outcomes.unwrap_or_default());
        let mut text = format!(
            ":newspaper: *{}*, {} to {}: {} predictions{}, {} outcomes{}",
            self.path,
            self.from,
            self.to,
            predictions.last,
            share(predictions),
            outcomes.last,
            share(outcomes),
        );
        for one in &self.live {
            let places: Vec<&str> = one.environments.iter().map(String::as_str).collect();
            let (places, counts) = (places.join(", "), one.predictions);
            let LiveRelease { model, release, .. } = one;
            // Writing to a text never fails.
            _ = write!(
                text,
                "\n• {model} ({places}): {release}, {} predictions{}",
                counts.last,
                share(counts)
            );
            if let (Some(metric), Some(last)) = (&self.metric, one.last) {
                _ = write!(text, ", {metric} {} of {} judged", short(last.value), last.n);
            }
            if let Some(change) = one.change {
                let sign = if change < 0.0 { "" } else { "+" };
                _ = write!(text, ", {sign}{} from the week before", short(change));
            }
        }
        let alerts = self.alerts.iter().map(|one| format!(":rotating_light: {}: {}", one.rule, one.text));
        let decided = self.decided.iter().map(|one| format!(":trophy: {}", one.text));
        let more = |count: usize, of: &str| (count > 0).then(|| format!("{count} more {of}"));
        let lines = more(self.more_live, "are live").map(|more| format!("• {more}")).into_iter();
        let lines = lines
            .chain(self.alerts.is_empty().then(|| "no alert fired".to_owned()))
            .chain(alerts)
            .chain(more(self.more_alerts, "alerts fired"))
            .chain(decided)
            .chain(more(self.more_decided, "comparisons were decided"));
        lines.for_each(|line| _ = write!(text, "\n{line}"));
        text
    }
}

/// A number in a sentence, with at most four decimals.
fn short(number: f64) -> String {
    let text = format!("{number:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

impl Webhook {
    /// Returns the last day of its digest that is due by an instant: the last one (UTC) that was over when it was due; `None`, when
    /// it is told none, or it was due too long ago.
    pub fn digest_due(&self, now: Timestamp) -> Option<Day> {
        let (seconds, zone) = (self.digest_seconds()?, self.zone());
        let today = zone.day(now);
        let mut times = [Some(today), today.before()].into_iter().flatten().map(|day| zone.at(day, seconds));
        let due = times.find(|due| *due <= now)?;
        (now < due.plus_seconds(LATE_SECONDS)).then_some(due.day().before()?)
    }
}

/// User, and the follows of this user in a workspace.
pub type FollowersOf = (Id, Vec<Followed>);

/// Splits the followers into pages, at least one, and omits those beyond the last page.
fn pages(mut rest: &[FollowersOf]) -> Vec<&[FollowersOf]> {
    let mut pages = Vec::new();
    while pages.len() < MAX_DIGEST_PAGES && (pages.is_empty() || !rest.is_empty()) {
        let mut follows = 0;
        let fits = |(_, of): &&FollowersOf| {
            follows += of.len();
            follows <= MAX_FOLLOWED
        };
        let count = rest.iter().take(MAX_FOLLOWERS).take_while(fits).count();
        let (page, after) = rest.split_at(count.max(1).min(rest.len()));
        pages.push(page);
        rest = after;
    }
    pages
}

/// Makes the posts of a digest: pages, each with the whole text and some followers of the workspace and its models;
/// `more` further followers were not read. In a format for people it is one page.
pub fn digest_deliveries(
    webhook: &Webhook,
    week: &WeekOf,
    (followers, more): (&[FollowersOf], usize),
    at: Timestamp,
) -> Vec<Delivery> {
    let to = (week.to, webhook.name.as_str());
    if webhook.format == WebhookFormat::Slack {
        return vec![Delivery::of_digest(1, to, (at, slack("", &week.text())))];
    }
    let (pages, mut later) = (pages(followers), followers.len() + more);
    let mut data = json!(week);
    data["pages"] = pages.len().into();
    let page = |(number, followers): (usize, &[FollowersOf])| {
        let follower = |(user, follows): &FollowersOf| {
            let follows: Vec<String> = follows.iter().map(Followed::to_string).collect();
            json!({ "user": EntityId::User(user.clone()).to_string(), "follows": follows })
        };
        later -= followers.len();
        let mut delivery = Delivery::of_digest(number, to, (at, String::new()));
        data["id"] = delivery.id.as_str().into();
        data["page"] = number.into();
        data["followers"] = followers.iter().map(follower).collect();
        data["more_followers"] = later.into();
        delivery.body = Some(json!({ "type": "digest", "timestamp": at, "data": data }).to_string());
        delivery
    };
    (1..).zip(pages).map(page).collect()
}

impl Catalog {
    /// Reads the digests of everything in sight that a user follows, each with its last days up to yesterday: one query for the
    /// follows, and [`Catalog::week_of`] once for each workspace.
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
            let Some(id) = followed.model() else {
                told.push(week.clone().bounded());
                continue;
            };
            let Some(model) = self.find(&id).await? else { continue };
            let own = releases.iter().filter(|one| one.model_id == *id.id());
            let names: Vec<&str> = own.map(|one| one.release.as_str()).collect();
            let mut predictions = Weeks::default();
            for of in self.weekly_predictions(workspace, &names, yesterday).await? {
                predictions.last += of.last;
                predictions.before += of.before;
            }
            told.push(week.of_model(&id, &model.entity().name, predictions).bounded());
        }
        Ok(told)
    }

    /// Reads the digest of a workspace that ends with the day `last`; `None`, when there is no such workspace. It reads the
    /// workspace, its settings, rules and live releases, its releases, the evaluations of 14 days, counters, transitions, and
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
        let [predictions, outcomes] =
            self.weekly(id, &Counted::Workspace, &windows, [Kind::Predictions, Kind::Outcomes]).await?;
        let since = now.plus_seconds(-i64::from(DIGEST_DAYS) * DAY_SECONDS);
        let metric = settings.primary_metric;
        Ok(Some(WeekOf {
            workspace: EntityId::Workspace(id.clone()).to_string(),
            path: workspace.path,
            model: None,
            from: windows.last.from(),
            to: last,
            predictions,
            outcomes: Some(outcomes),
            metric: metric.as_ref().map(|primary| primary.metric.name().to_owned()),
            better: metric.as_ref().map(|primary| primary.direction.name()),
            alerts: self.fired(id, &alerts, &live, (since, now)).await?,
            decided: self.decided(id, since).await?,
            live,
            more_live: 0,
            more_alerts: 0,
            more_decided: 0,
        }))
    }

    /// Reads the live ones of the releases of a workspace, by model and name, with nothing counted yet.
    async fn live_of_week(
        &self,
        workspace: &Id,
        mut releases: Vec<RankedRelease>,
    ) -> Result<Vec<LiveRelease>> {
        let mut places = BTreeMap::<String, BTreeSet<String>>::new();
        for (environment, state) in self.live_now(workspace).await? {
            for live in state.into_values() {
                places.entry(live.release).or_default().insert(environment.clone());
            }
        }
        releases.retain(|one| places.contains_key(&one.release));
        self.name_models(workspace, &mut releases).await?;
        let of = |one: RankedRelease| LiveRelease {
            environments: places.remove(&one.release).unwrap_or_default(),
            release: one.release,
            model: one.model,
            model_id: Some(one.model_id),
            ..LiveRelease::default()
        };
        let mut live: Vec<LiveRelease> = releases.into_iter().map(of).collect();
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
        let names: Vec<String> = live.iter().map(|one| one.release.clone()).collect();
        let (names, days) = (&names, &days);
        let read = |version| async move {
            let window = || Windowed::new(primary.metric.clone());
            let mut found: Vec<_> =
                names.iter().map(|_| Weeks { last: window(), before: window() }).collect();
            for some in days.chunks(READS_AT_ONCE) {
                let numbers = some.iter().map(|day| {
                    DayNumbers::load(&*self.table, At { workspace, version, day: *day }, &primary.metric)
                });
                for (day, numbers) in some.iter().zip(try_join_all(numbers).await?) {
                    let Some(numbers) = numbers else { continue };
                    for (name, weeks) in names.iter().zip(&mut found) {
                        let window = weeks.of(windows, *day);
                        window.into_iter().for_each(|window| numbers.add_to(name, window));
                    }
                }
            }
            Ok(found)
        };
        let (_, found) = of_active(&*self.table, workspace, read).await?;
        let measure = |window: &Windowed| Some(WeekValue { value: window.value()?, n: window.n() });
        for (one, weeks) in live.iter_mut().zip(&found) {
            (one.last, one.before) = (measure(&weeks.last), measure(&weeks.before));
            one.change = one.last.zip(one.before).map(|(last, before)| last.value - before.value);
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
        let windows = &Weeks::to(last)?;
        let of = async |release: &&str| {
            let counted = Counted::Release((*release).to_owned());
            let [predictions] = self.weekly(workspace, &counted, windows, [Kind::Predictions]).await?;
            Ok::<_, Error>(predictions)
        };
        let mut predictions = Vec::with_capacity(releases.len());
        for some in releases.chunks(READS_AT_ONCE) {
            predictions.extend(try_join_all(some.iter().map(of)).await?);
        }
        Ok(predictions)
    }

    /// Counts the events of some kinds on the days: one read, or two for days of two months.
    async fn weekly<const N: usize>(
        &self,
        workspace: &Id,
        counted: &Counted,
        windows: &Weeks<Window>,
        kinds: [Kind; N],
    ) -> Result<[Weeks<u64>; N]> {
        let months = BTreeSet::from([windows.before.from().month(), windows.last.to().month()]);
        let mut weeks = [Weeks::default(); N];
        for month in months {
            let item = self.table.get(&key::counter(workspace, counted, &month)).await?;
            for (day, counts) in item.as_ref().map(counts_of).transpose()?.into_iter().flatten() {
                let Ok(day) = day.parse() else { continue };
                for (kind, weeks) in kinds.iter().zip(&mut weeks) {
                    if let Some(sum) = weeks.of(windows, day) {
                        *sum += counts.get(kind.name()).copied().unwrap_or(0);
                    }
                }
            }
        }
        Ok(weeks)
    }

    /// Reads the alerts that began to fire since an instant, the latest first.
    async fn fired(
        &self,
        workspace: &Id,
        alerts: &Alerts,
        live: &[LiveRelease],
        (since, now): (Timestamp, Timestamp),
    ) -> Result<Vec<FiredAlert>> {
        // A day may be judged this long after its end.
        let first = days_before(since.day(), MAX_DELAY_DAYS + 1);
        let model_of = |rule: &str| {
            let rule = alerts.rules.iter().find(|known| known.name() == rule)?;
            match &rule.scope {
                AlertScope::Workspace => None,
                AlertScope::Live { model, .. } => Some(model.clone()),
                AlertScope::Release(release) => {
                    live.iter().find(|one| one.release == *release).map(|one| one.model.clone())
                }
            }
        };
        let mut fired = Vec::new();
        for rule_transition in self.transitions(workspace, first, now.day(), MAX_LISTED).await? {
            if rule_transition.transition == Transition::Fires && rule_transition.at >= since {
                let (id, model, day, at) = (
                    rule_transition.id,
                    model_of(&rule_transition.rule),
                    rule_transition.day,
                    rule_transition.at,
                );
                fired.push(FiredAlert {
                    id,
                    rule: rule_transition.rule,
                    model,
                    day,
                    at,
                    text: rule_transition.text,
                });
            }
        }
        fired.sort_by(|a, b| (b.at, &a.id).cmp(&(a.at, &b.id)));
        Ok(fired)
    }

    /// Reads the comparisons decided in a workspace since an instant, the latest first.
    async fn decided(&self, workspace: &Id, since: Timestamp) -> Result<Vec<DecidedComparison>> {
        let query = Query::table(key::happenings_since(workspace, since)).backward();
        let mut decided = Vec::new();
        for item in query_all(&*self.table, query).await? {
            let Happening { at, what, about, model, environment, note, .. } =
                Happening::from_item(&item, workspace)?;
            if what == DECIDED {
                let text = note.unwrap_or_default();
                decided.push(DecidedComparison { at, model, challenger: about, environment, text });
            }
        }
        Ok(decided)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn id() -> Id {
        Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap()
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn week() -> WeekOf {
        let live = LiveRelease {
            release: "v2".into(),
            model_id: Some(id()),
            model: "churn".into(),
            environments: ["production".to_owned()].into(),
            predictions: Weeks { last: 90, before: 100 },
            last: Some(WeekValue { value: 0.75, n: 40 }),
            before: Some(WeekValue { value: 0.8, n: 30 }),
            change: Some(0.75 - 0.8),
        };
        let fired = FiredAlert {
            id: "few".into(),
            rule: "few".into(),
            model: None,
            day: "2026-06-03".parse().unwrap(),
            at: at("2026-06-04T00:01:00Z"),
            text: "a < b".into(),
        };
        WeekOf {
            workspace: EntityId::Workspace(id()).to_string(),
            path: "credit/prod".into(),
            model: None,
            from: "2026-06-01".parse().unwrap(),
            to: "2026-06-07".parse().unwrap(),
            predictions: Weeks { last: 120, before: 100 },
            outcomes: Some(Weeks { last: 50, before: 50 }),
            metric: Some("auc".into()),
            better: Some("max"),
            live: vec![live],
            more_live: 2,
            alerts: vec![fired],
            more_alerts: 0,
            decided: Vec::new(),
            more_decided: 0,
        }
    }

    fn posts(format: WebhookFormat, followers: &[FollowersOf], more: usize) -> Vec<Delivery> {
        let webhook = Webhook { name: "mail".into(), format, ..Webhook::default() };
        digest_deliveries(&webhook, &week(), (followers, more), at("2026-06-08T07:00:00Z"))
    }

    fn data(delivery: &Delivery) -> Value {
        serde_json::from_str(delivery.body.as_deref().unwrap()).unwrap()
    }

    #[test]
    fn digest_has_forms_for_people_and_programs() {
        let wanted = ":newspaper: *credit/prod*, 2026-06-01 to 2026-06-07: 120 predictions (+20%), 50 outcomes (+0%)\n\
            • churn (production): v2, 90 predictions (-10%), auc 0.75 of 40 judged, -0.05 from the week before\n\
            • 2 more are live\n:rotating_light: few: a < b";
        assert_eq!(week().text(), wanted);
        let quiet = WeekOf { live: Vec::new(), more_live: 0, alerts: Vec::new(), ..week() };
        assert!(quiet.text().ends_with("outcomes (+0%)\nno alert fired"), "{}", quiet.text());
        let followers = [(id(), vec![Followed::Workspace(id())])];
        let body = data(&posts(WebhookFormat::Json, &followers, 3)[0]);
        let data = &body["data"];
        assert_eq!((&body["type"], &body["timestamp"]), (&json!("digest"), &json!("2026-06-08T07:00:00Z")));
        assert_eq!((&data["id"], &data["to"]), (&json!("digest.2026-06-07.mail/1"), &json!("2026-06-07")));
        assert_eq!(data["predictions"], json!({ "last": 120, "before": 100 }));
        let live = &data["live"][0];
        assert_eq!((&live["last"], &live["release"]), (&json!({ "value": 0.75, "n": 40 }), &json!("v2")));
        assert!((live["change"].as_f64().unwrap() + 0.05).abs() < 1e-12);
        assert_eq!(data["alerts"][0]["text"], json!("a < b"));
        assert_eq!(data["followers"][0]["user"], json!(format!("u_{}", id())));
        assert_eq!(data["more_followers"], json!(3));
        assert_eq!((&data["page"], &data["pages"]), (&json!(1), &json!(1)));
        let slack = posts(WebhookFormat::Slack, &followers, 3).remove(0).body.unwrap();
        assert!(slack.contains("few: a &lt; b"), "{slack}");
    }

    #[test]
    fn digest_followers_are_split_into_pages() {
        let follower = |follows| (Id::new(Timestamp::default()), vec![Followed::Workspace(id()); follows]);
        let told = |followers: &[FollowersOf], more| {
            let told = posts(WebhookFormat::Json, followers, more);
            let named = told.iter().enumerate().map(|(number, one)| {
                let data = data(one)["data"].clone();
                assert_eq!(data["page"].as_u64().unwrap(), number as u64 + 1);
                assert_eq!((&data["pages"], &data["id"]), (&json!(told.len()), &json!(one.id)));
                assert_eq!(data["path"], json!("credit/prod"));
                (data["followers"].as_array().unwrap().len(), data["more_followers"].as_u64().unwrap())
            });
            named.collect::<Vec<_>>()
        };
        assert_eq!(told(&[], 0), [(0, 0)]);
        let many: Vec<FollowersOf> = (0..450).map(|_| follower(1)).collect();
        assert_eq!(told(&many, 7), [(200, 257), (200, 57), (50, 7)]);
        // A user with very many follows has a page alone.
        assert_eq!(
            told(&[follower(1_200), follower(600), follower(400), follower(1)], 0),
            [(1, 3), (2, 1), (1, 0)]
        );
        let most: Vec<FollowersOf> = (0..MAX_FOLLOWERS * MAX_DIGEST_PAGES + 3).map(|_| follower(1)).collect();
        let pages = told(&most, 0);
        assert_eq!((pages.len(), pages.last()), (MAX_DIGEST_PAGES, Some(&(200, 3))));
        let ids: Vec<String> = posts(WebhookFormat::Json, &many, 0).into_iter().map(|one| one.id).collect();
        assert_eq!(ids, [1, 2, 3].map(|page| format!("digest.2026-06-07.mail/{page}")));
        assert_eq!(posts(WebhookFormat::Slack, &many, 0).len(), 1);
    }

    #[test]
    fn what_was_decided_is_told() {
        let decided = DecidedComparison {
            at: at("2026-06-05T07:00:00Z"),
            model: Some("churn".into()),
            challenger: "v3".into(),
            environment: Some("production".into()),
            text: "v3 is better than v2".into(),
        };
        let other = DecidedComparison { model: Some("other".into()), ..decided.clone() };
        let week = WeekOf { decided: vec![decided, other], more_decided: 1, ..week() };
        let told = week.text();
        let lines =
            "\n:trophy: v3 is better than v2\n:trophy: v3 is better than v2\n1 more comparisons were decided";
        assert!(told.ends_with(lines), "{told}");
        let of_model = json!(week.of_model(&model(id()), "churn", Weeks::default()));
        let one = json!([{ "at": "2026-06-05T07:00:00Z", "model": "churn", "challenger": "v3",
                           "environment": "production", "text": "v3 is better than v2" }]);
        assert_eq!(of_model["decided"], one);
    }

    #[test]
    fn model_digest_contains_only_its_own_data() {
        let other = Id::parse("2NBs0tD5Ihm2PVFzM3kZvMYdQX9").unwrap();
        let of = week().of_model(&model(other), "other", Weeks::default());
        assert!(of.live.is_empty() && of.alerts.is_empty());
        let of = week().of_model(&model(id()), "churn", Weeks { last: 95, before: 110 });
        assert_eq!((of.live.len(), of.predictions.before), (1, 110));
        let told = json!(of);
        assert_eq!((&told["model"]["name"], &told["outcomes"]), (&json!("churn"), &Value::Null));
    }

    fn model(model: Id) -> EntityId {
        EntityId::Model(id(), model)
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.123_456, -0.000_01, 2.0, -1.5].map(short), ["0.1235", "0", "2", "-1.5"]);
    }

    #[test]
    fn digest_is_due_for_limited_time_from_hour() {
        let webhook =
            |digest: Option<&str>| Webhook { digest: digest.map(str::to_owned), ..Webhook::default() };
        let due = |digest, now: &str| webhook(Some(digest)).digest_due(at(now)).map(|day| day.to_string());
        let of = |day: &str| Some(day.to_owned());
        assert_eq!(due("07:00", "2013-06-02T06:59:59Z"), None, "that of the day before was due at seven");
        assert_eq!(due("07:00", "2013-06-02T07:00:00Z"), of("2013-06-01"));
        assert_eq!(due("07:00", "2013-06-02T12:59:59Z"), of("2013-06-01"));
        assert_eq!(due("07:00", "2013-06-02T13:00:00Z"), None);
        assert_eq!(due("00:00", "2013-06-02T00:00:00Z"), of("2013-06-01"));
        assert_eq!(due("23:30", "2013-06-03T02:00:00Z"), of("2013-06-01"), "begun before midnight");
        assert_eq!(due("23:30", "2013-06-02T23:30:00Z"), of("2013-06-01"));
        assert_eq!(webhook(None).digest_due(at("2013-06-02T07:00:00Z")), None);
    }

    /// Somebody looks every few minutes while clocks change: each day is told of once and in order, and none is left out but where
    /// clocks move over midnight by UTC.
    #[test]
    fn daily_digests_never_repeat_across_clock_changes() {
        let text = |text: &str| Some(text.to_owned());
        for (zone, digest, most_left_out) in [
            ("Europe/Berlin", "07:00", 0),
            ("Europe/Berlin", "02:30", 0),
            ("Europe/London", "00:30", 1),
            ("Pacific/Auckland", "23:59", 0),
            ("America/New_York", "20:00", 1),
            ("Pacific/Apia", "12:00", 1),
        ] {
            let webhook = Webhook { digest: text(digest), time_zone: text(zone), ..Webhook::default() };
            let (mut now, end) = (at("2013-01-01T00:00:00Z"), at("2014-01-01T00:00:00Z"));
            let mut told = Vec::new();
            while now < end {
                told.extend(webhook.digest_due(now));
                now = now.plus_seconds(7 * 60);
            }
            assert!(told.is_sorted(), "{zone} {digest}");
            told.dedup();
            let (first, last) = (told[0].number(), told[told.len() - 1].number());
            let left_out = (last - first + 1) as usize - told.len();
            assert!(
                left_out <= most_left_out && told.len() > 360,
                "{zone} {digest}: {left_out} of {}",
                told.len()
            );
        }
    }

    #[test]
    fn digest_is_due_by_its_time_zone() {
        let due = |zone: &str, digest: &str, now: &str| {
            let text = |text: &str| Some(text.to_owned());
            let webhook = Webhook { digest: text(digest), time_zone: text(zone), ..Webhook::default() };
            webhook.digest_due(at(now)).map(|day| day.to_string())
        };
        let of = |day: &str| Some(day.to_owned());
        // Summer begins on 31 March in Berlin: seven is at six by UTC before, and at five after.
        assert_eq!(due("Europe/Berlin", "07:00", "2013-03-30T05:59:59Z"), None);
        assert_eq!(due("Europe/Berlin", "07:00", "2013-03-30T06:00:00Z"), of("2013-03-29"));
        assert_eq!(due("Europe/Berlin", "07:00", "2013-03-31T04:59:59Z"), None);
        assert_eq!(due("Europe/Berlin", "07:00", "2013-03-31T05:00:00Z"), of("2013-03-30"));
        // In Auckland it is the morning of the second while the first is not over by UTC.
        assert_eq!(due("Pacific/Auckland", "07:00", "2013-06-01T19:00:00Z"), of("2013-05-31"));
        assert_eq!(
            due("Pacific/Auckland", "07:00", "2013-06-02T00:59:59Z"),
            of("2013-05-31"),
            "begun before midnight"
        );
        assert_eq!(due("America/New_York", "21:00", "2013-06-02T01:00:00Z"), of("2013-06-01"));
        assert_eq!(due("America/New_York", "21:00", "2013-06-02T00:59:00Z"), None);
    }
}
