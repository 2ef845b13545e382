//! Settings of a workspace, such as the metric by which its releases are ranked, the acceptance of predictions of
//! unregistered releases, and the bounds of appends.

use event::{Error, Id, Result, Timestamp, lane::MAX_LANES};
use fold::{AnyMetric, metric::Direction};
use log::key;
use serde::{Deserialize, Serialize};
use table::{Change, Item, Policy, update};

use super::{Catalog, MAX_DELAY_DAYS, Quota, feed::model_id};

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Metric by which releases are ranked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrimaryMetric {
    /// Metric of the metric.
    pub metric: AnyMetric,
    /// Better direction of the metric.
    pub direction: Direction,
}

impl PrimaryMetric {
    /// Parses a metric, if there is one, and its direction, which follows from the metric unless it is given.
    ///
    /// # Errors
    /// `Invalid`, for an unknown name, or a direction without a metric.
    pub fn parse(metric: Option<&str>, direction: Option<&str>) -> Result<Option<Self>> {
        match (metric, direction) {
            (None, None) => Ok(None),
            (None, Some(_)) => {
                Err(Error::invalid("a direction belongs to a primary metric; name that as well"))
            }
            (Some(metric), direction) => {
                let direction = direction.map(Direction::parse).transpose()?;
                let (metric, direction) = AnyMetric::to_rank_by(metric, direction)?;
                Ok(Some(Self { metric, direction }))
            }
        }
    }

    /// The score of a value: the greater the better.
    pub fn score(&self, value: f64) -> f64 {
        match self.direction {
            Direction::Max => value,
            Direction::Min => -value,
        }
    }
}

/// Settings of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Metric by which its releases are ranked. Without it there is no leaderboard.
    pub primary_metric: Option<PrimaryMetric>,
    /// True if predictions and metrics of unregistered releases are accepted, and register them.
    pub accept_unknown_releases: bool,
    /// Name of the model of such releases; the only one of the workspace when `None`.
    pub model_of_unknown: Option<String>,
    /// Number of days over which releases are ranked, 1 to [`MAX_LEADERBOARD_DAYS`]; [`LEADERBOARD_DAYS`] when `None`.
    pub leaderboard_days: Option<u32>,
    /// Judged predictions that a release must have to be ranked; [`LEADERBOARD_MIN_N`] when `None`, and 1 for a logged metric.
    pub leaderboard_min_n: Option<u32>,
    /// Days that must pass after a day before releases are ranked over it, up to [`MAX_DELAY_DAYS`]; with `None` the present day
    /// counts too.
    pub leaderboard_delay: Option<u32>,
    /// Number of lanes of the days that begin from now on, 1 to [`MAX_LANES`]; 1 when `None`. Of a day that has begun it is fixed
    /// (see [`event::lane`]).
    pub lanes: Option<u8>,
    /// Limits of appends.
    #[serde(default, skip_serializing_if = "Quota::is_empty")]
    pub quota: Quota,
    ver: i64,
}

/// Default number of days over which releases are ranked.
pub const LEADERBOARD_DAYS: u32 = 7;

/// Maximum number of days over which releases are ranked.
pub const MAX_LEADERBOARD_DAYS: u32 = 31;

/// Default number of judged predictions that a release must have to be ranked.
pub const LEADERBOARD_MIN_N: u32 = 30;

impl Settings {
    /// Number of days over which releases are ranked.
    pub fn days(&self) -> u32 {
        self.leaderboard_days.unwrap_or(LEADERBOARD_DAYS).clamp(1, MAX_LEADERBOARD_DAYS)
    }

    /// Number of lanes of the days that begin from now on.
    pub fn lanes(&self) -> u8 {
        self.lanes.unwrap_or(1)
    }

    /// Number of judged predictions that a release must have to be ranked by the primary metric.
    pub fn min_n(&self) -> u64 {
        let primary = self.primary_metric.as_ref();
        primary.map_or(self.leaderboard_min_n.unwrap_or(LEADERBOARD_MIN_N).into(), |of| {
            self.min_n_of(&of.metric)
        })
    }

    /// Number of judged predictions that a release must have to be ranked by a metric. An observation of a logged metric may
    /// stand for a whole day, so one is enough.
    pub fn min_n_of(&self, metric: &AnyMetric) -> u64 {
        let usual = if metric.logged().is_some() { 1 } else { LEADERBOARD_MIN_N };
        self.leaderboard_min_n.unwrap_or(usual).into()
    }
}

impl Catalog {
    /// Reads the settings of a workspace.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn settings(&self, workspace: &Id) -> Result<Settings> {
        let item = self.table.get(&key::settings(workspace)).await?;
        item.map_or_else(|| Ok(Settings::default()), |item| item.to_record(ITEM_VERSION))
    }

    /// Ranks releases by settings that were just changed. The settings hold already, so this cannot fail: the projector sees the
    /// change in the change feed, ranks as well, and records its failures.
    pub async fn rank_by_settings(&self, workspace: &Id, now: Timestamp) {
        drop(self.refresh_leaderboard(workspace, now).await);
    }

    /// Changes the settings of a workspace. Ingest services notice within 5 seconds.
    ///
    /// # Errors
    /// `NotFound`, when there is no model of the name given for unknown releases; `Invalid`, when a number is out of its bounds; those of
    /// the table.
    pub async fn change_settings(&self, workspace: &Id, change: impl Fn(&mut Settings)) -> Result<Settings> {
        update(&*self.table, &key::settings(workspace), Policy::of(&"the settings"), async |item| {
            let known: Option<Settings> = item.map(|item| item.to_record(ITEM_VERSION)).transpose()?;
            let known = known.unwrap_or_default();
            let mut wanted = known.clone();
            change(&mut wanted);
            if wanted == known {
                return Ok(Change::Leave(known));
            }
            if let Some(model) = &wanted.model_of_unknown
                && model_id(&*self.table, workspace, model).await?.is_none()
            {
                return Err(Error::not_found(format!("there is no model `{model}` in this workspace")));
            }
            if wanted.leaderboard_days.is_some_and(|days| !(1..=MAX_LEADERBOARD_DAYS).contains(&days)) {
                return Err(Error::invalid(format!(
                    "releases are ranked over 1 to {MAX_LEADERBOARD_DAYS} days"
                )));
            }
            if wanted.leaderboard_delay.is_some_and(|days| days > MAX_DELAY_DAYS) {
                return Err(Error::invalid(format!(
                    "releases are ranked 0 to {MAX_DELAY_DAYS} days after a day"
                )));
            }
            if wanted.lanes.is_some_and(|lanes| !(1..=MAX_LANES).contains(&lanes)) {
                return Err(Error::invalid(format!("a day has 1 to {MAX_LANES} lanes")));
            }
            wanted.ver = known.ver + 1;
            Ok(Change::Put(Item::record(key::settings(workspace), ITEM_VERSION, &wanted), wanted))
        })
        .await
    }
}
