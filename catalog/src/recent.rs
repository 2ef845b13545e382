//! The last days of a workspace, from the latest one backwards, and the numbers of each from which metrics are read.

use event::{Day, Error, Id, Result, Timestamp};
use fold::{
    AnyMetric, Evaluation, Windowed,
    rollup::{LoggedMetricRollup, Part, Series},
};
use log::{
    evaluated::{self, At, Found},
    key,
    projection::Projected,
};
use table::{Query, Table};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Last day that ended at least `delay_days` days ago: by then the labels of its predictions have come, as configured.
pub fn last_whole_day(now: Timestamp, delay_days: u32) -> Day {
    now.plus_seconds(-DAY_SECONDS * (i64::from(delay_days) + 1)).day()
}

/// Walks the days backwards.
#[derive(Debug)]
pub struct Recent<'a> {
    table: &'a dyn Table,
    workspace: &'a Id,
    version: u32,
    day: Day,
}

/// Numbers of a day from which metrics are read.
#[derive(Clone, Debug)]
pub enum DayNumbers {
    /// Evaluation of its predictions.
    Judged(Evaluation),
    /// Logged metric.
    Logged(Box<LoggedMetricRollup>),
}

impl<'a> Recent<'a> {
    /// Begins at the latest day that is projected in a version; `None`, when there is none.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn of(table: &'a dyn Table, version: u32, workspace: &'a Id) -> Result<Option<Self>> {
        let latest = Query::table(key::all_projections(workspace, version)).backward().limit(1).only(&["v"]);
        let Some(latest) = table.query(&latest).await?.items.pop() else { return Ok(None) };
        let (day, _) = key::parse_projection(&latest.key)?;
        Ok(Some(Self { table, workspace, version, day }))
    }

    /// Begins no later than this day.
    #[must_use]
    pub fn until(self, day: Day) -> Self {
        Self { day: self.day.min(day), ..self }
    }

    /// Moves to the day before, and returns the day before the move.
    pub fn step_back(&mut self) -> Day {
        let day = self.day;
        self.day = day.start().plus_seconds(-1).day();
        day
    }

    /// Reads the evaluation of a day without slices; `None`, when there is none.
    ///
    /// # Errors
    /// Errors of the table; `Corrupt`, when it cannot be read.
    pub async fn evaluation(&self, day: Day) -> Result<Option<Evaluation>> {
        evaluation(self.table, self.at(day)).await
    }

    /// Loads the numbers from which a metric of a day is read; `None`, when there are none.
    ///
    /// # Errors
    /// Errors of the table; `Corrupt`, when it cannot be read.
    pub(crate) async fn numbers(&self, day: Day, metric: &AnyMetric) -> Result<Option<DayNumbers>> {
        DayNumbers::load(self.table, self.at(day), metric).await
    }

    fn at(&self, day: Day) -> At<'_> {
        At { workspace: self.workspace, version: self.version, day }
    }
}

async fn evaluation(table: &dyn Table, at: At<'_>) -> Result<Option<Evaluation>> {
    // One item, unless it is large and stands in parts.
    let states = match evaluated::assemble(&table.get(&at.key()).await?)? {
        Found::Nothing => return Ok(None),
        Found::Whole(_, states) => states,
        Found::Torn(_) => match evaluated::load_plain(table, at).await? {
            Some((_, states)) => states,
            None => return Ok(None),
        },
    };
    let evaluation = Evaluation::from_states(&states);
    evaluation.map(Some).map_err(|error| Error::corrupt(format!("item {}: {error}", at.key())))
}

impl DayNumbers {
    /// Loads the numbers from which a metric of a day is read; `None`, when there are none.
    ///
    /// # Errors
    /// Errors of the table; `Corrupt`, when it cannot be read.
    pub async fn load(table: &dyn Table, at: At<'_>, metric: &AnyMetric) -> Result<Option<Self>> {
        let Some(logged) = metric.logged() else {
            return Ok(evaluation(table, at).await?.map(Self::Judged));
        };
        let breakdown = key::Breakdown::of(key::By::Metric, logged.metric());
        let item = table.get(&key::breakdown(at.workspace, at.version, at.day, breakdown)).await?;
        let Some(item) = item else { return Ok(None) };
        let part = Part::from_state(key::By::Metric, &Projected::from_item(&item)?.state);
        let Part::Metric(part) = part.map_err(|error| item.corrupt(error))? else { return Ok(None) };
        Ok(part.metrics.get(logged.metric()).map(|metric| Self::Logged(Box::new(metric.clone()))))
    }

    /// Releases with numbers of their own, by name.
    pub fn releases(&self) -> Vec<&str> {
        match self {
            Self::Judged(evaluation) => evaluation.releases.keys().map(String::as_str).collect(),
            // The empty name stands for observations of no release.
            Self::Logged(metric) => {
                metric.releases.names().keys().map(String::as_str).filter(|name| !name.is_empty()).collect()
            }
        }
    }

    /// Adds the day of a release to a window of a metric.
    pub fn add_to(&self, release: &str, window: &mut Windowed) {
        match self {
            Self::Judged(evaluation) => {
                evaluation.releases.get(release).into_iter().for_each(|of| window.add(of));
            }
            Self::Logged(_) => self.logged(Some(release)).into_iter().for_each(|of| window.add_logged(of)),
        }
    }

    /// Metric of a release on the day.
    pub fn window(&self, release: &str, metric: &AnyMetric) -> Windowed {
        let mut window = Windowed::new(metric.clone());
        self.add_to(release, &mut window);
        window
    }

    /// Observations of a logged metric, of a release or of all together.
    pub(crate) fn logged(&self, release: Option<&str>) -> Option<&Series> {
        let Self::Logged(metric) = self else { return None };
        match release {
            Some(release) => metric.releases.get(release)?.as_ref(),
            None => metric.total.as_ref(),
        }
    }
}
