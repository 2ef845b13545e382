//! What people set for a workspace: the metric that its releases are ranked by, and whether predictions
//! of releases that nobody registered are taken.

use event::{Error, ErrorKind, Id, Result};
use log::key;
use table::{Condition, Item};

use super::{Catalog, feed::model_id};

/// How often a change may find that somebody else made one.
const MAX_ATTEMPTS: usize = 20;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// A figure of evaluations that releases can be ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Share of right labels.
    Accuracy,
    /// Area under the ROC curve.
    Auc,
    /// Log loss.
    LogLoss,
    /// Brier score.
    Brier,
    /// Precision.
    Precision,
    /// Recall.
    Recall,
    /// F1.
    F1,
    /// Expected calibration error.
    Ece,
    /// Mean absolute error.
    Mae,
    /// Root of the mean squared error.
    Rmse,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Accuracy,
        Self::Auc,
        Self::LogLoss,
        Self::Brier,
        Self::Precision,
        Self::Recall,
        Self::F1,
        Self::Ece,
        Self::Mae,
        Self::Rmse,
    ];

    /// Its name, as evaluations call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Auc => "auc",
            Self::LogLoss => "log_loss",
            Self::Brier => "brier",
            Self::Precision => "precision",
            Self::Recall => "recall",
            Self::F1 => "f1",
            Self::Ece => "ece",
            Self::Mae => "mae",
            Self::Rmse => "rmse",
        }
    }

    /// The metric of a name.
    ///
    /// # Errors
    /// `Invalid`, naming those there are.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("`{name}` is no metric to rank by; there are {known}"))
        })
    }

    /// Which way it is better, unless it is said otherwise.
    pub fn direction(self) -> Direction {
        match self {
            Self::Accuracy | Self::Auc | Self::Precision | Self::Recall | Self::F1 => Direction::Max,
            Self::LogLoss | Self::Brier | Self::Ece | Self::Mae | Self::Rmse => Direction::Min,
        }
    }
}

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The greater the better.
    Max,
    /// The less the better.
    Min,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Max, Self::Min];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Min => "min",
        }
    }

    /// The direction of a name.
    ///
    /// # Errors
    /// `Invalid`, when it is neither.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|direction| direction.name() == name);
        found.ok_or_else(|| Error::invalid(format!("the direction `{name}` is neither max nor min")))
    }
}

/// What releases are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryMetric {
    /// The figure.
    pub metric: Metric,
    /// Which way it is better.
    pub direction: Direction,
}

impl PrimaryMetric {
    /// Reads a metric, if there is one, and its direction, which follows from the metric unless it is given.
    ///
    /// # Errors
    /// `Invalid`, for a name that is none, or a direction without a metric.
    pub fn parse(metric: Option<&str>, direction: Option<&str>) -> Result<Option<Self>> {
        match (metric, direction) {
            (None, None) => Ok(None),
            (None, Some(_)) => {
                Err(Error::invalid("a direction belongs to a primary metric; name that as well"))
            }
            (Some(metric), direction) => {
                let metric = Metric::parse(metric)?;
                let direction = direction.map_or(Ok(metric.direction()), Direction::parse)?;
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

/// What people set for a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What its releases are ranked by. Without it there is no leaderboard.
    pub primary_metric: Option<PrimaryMetric>,
    /// Whether predictions and metrics of releases that nobody registered are taken, and register them.
    pub accept_unknown_releases: bool,
    /// The model that such releases are of, by name; the only one of the workspace when `None`.
    pub model_of_unknown: Option<String>,
    /// Over how many days releases are ranked, 1 to [`MAX_BOARD_DAYS`]; [`BOARD_DAYS`] when `None`.
    pub board_days: Option<u32>,
    /// How many judged predictions a release must have to be ranked; [`BOARD_MIN_N`] when `None`.
    pub board_min_n: Option<u32>,
    ver: i64,
}

/// Over how many days releases are ranked, unless it is set.
pub const BOARD_DAYS: u32 = 7;

/// The most days that releases are ranked over.
pub const MAX_BOARD_DAYS: u32 = 31;

/// How many judged predictions a release must have to be ranked, unless it is set.
pub const BOARD_MIN_N: u32 = 30;

impl Settings {
    /// Over how many days releases are ranked.
    pub fn days(&self) -> u32 {
        self.board_days.unwrap_or(BOARD_DAYS).clamp(1, MAX_BOARD_DAYS)
    }

    /// How many judged predictions a release must have to be ranked.
    pub fn min_n(&self) -> u64 {
        self.board_min_n.unwrap_or(BOARD_MIN_N).into()
    }

    fn to_item(&self, workspace: &Id) -> Item {
        let item = Item::new(key::settings(workspace))
            .with("v", ITEM_VERSION)
            .with("ver", self.ver)
            .with("accept_unknown_releases", i64::from(self.accept_unknown_releases));
        let item = match &self.model_of_unknown {
            Some(model) => item.with("model_of_unknown", model.as_str()),
            None => item,
        };
        let counts = [("board_days", self.board_days), ("board_min_n", self.board_min_n)];
        let item = counts.into_iter().fold(item, |item, (name, count)| match count {
            Some(count) => item.with(name, i64::from(count)),
            None => item,
        });
        match self.primary_metric {
            Some(primary) => {
                item.with("primary_metric", primary.metric.name()).with("direction", primary.direction.name())
            }
            None => item,
        }
    }

    fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let primary = |name: &str| {
            let (metric, direction) = (Metric::parse(name)?, Direction::parse(item.text("direction")?)?);
            Ok::<_, Error>(PrimaryMetric { metric, direction })
        };
        let count = |name: &str| match item.attributes.contains_key(name) {
            true => u32::try_from(item.int(name)?).map(Some).map_err(|_| item.corrupt(name)),
            false => Ok(None),
        };
        Ok(Self {
            primary_metric: item.optional_text("primary_metric").map(primary).transpose()?,
            accept_unknown_releases: item.int("accept_unknown_releases")? != 0,
            model_of_unknown: item.optional_text("model_of_unknown").map(str::to_owned),
            board_days: count("board_days")?,
            board_min_n: count("board_min_n")?,
            ver: item.int("ver")?,
        })
    }
}

impl Catalog {
    /// What is set for a workspace.
    ///
    /// # Errors
    /// Those of the table.
    pub async fn settings(&self, workspace: &Id) -> Result<Settings> {
        let item = self.table.get(&key::settings(workspace)).await?;
        item.as_ref().map(Settings::from_item).transpose().map(Option::unwrap_or_default)
    }

    /// Changes what is set for a workspace.
    ///
    /// # Errors
    /// `NotFound`, when there is no model of the name given for unknown releases; those of the table.
    pub async fn change_settings(&self, workspace: &Id, change: impl Fn(&mut Settings)) -> Result<Settings> {
        for _ in 0..MAX_ATTEMPTS {
            let known = self.settings(workspace).await?;
            let mut wanted = known.clone();
            change(&mut wanted);
            if wanted == known {
                return Ok(known);
            }
            if let Some(model) = &wanted.model_of_unknown
                && model_id(&*self.table, workspace, model).await?.is_none()
            {
                return Err(Error::not_found(format!("there is no model `{model}` in this workspace")));
            }
            if wanted.board_days.is_some_and(|days| !(1..=MAX_BOARD_DAYS).contains(&days)) {
                return Err(Error::invalid(format!("releases are ranked over 1 to {MAX_BOARD_DAYS} days")));
            }
            wanted.ver = known.ver + 1;
            let unchanged = match known.ver {
                0 => Condition::Absent,
                ver => Condition::Equals("ver", ver.into()),
            };
            match self.table.put(wanted.to_item(workspace), unchanged).await {
                Err(error) if error.is_conflict() => continue,
                other => return other.map(|()| wanted),
            }
        }
        Err(Error::new(ErrorKind::Throttled, "the settings are changed by many at one time; try again"))
    }
}
