//! The tables of statements: the queries of equal names, and tables of statements alone.

use catalog::RuleTransition;
use event::{
    Day, Id, Kind, Result, Window,
    custom::CUSTOM_METRICS,
    fields::{Family, FieldType},
};
use log::key;
use polars::prelude::DataFrame;
use table::Query as TableQuery;

use super::plan::Need;
use crate::{
    Query,
    budget::Hold,
    columns::ColumnType,
    request::{Dataset, Request},
    series::{Cell, Row, held_items, series},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// The answer of a query of this name.
    Of(Dataset),
    /// The transitions of alert rules.
    Transitions,
}

const TRANSITIONS: &str = "transitions";

const DAY: (&str, ColumnType) = ("day", ColumnType::Day);

/// The columns of transitions behind the day.
const OF_TRANSITIONS: [(&str, ColumnType); 7] = [
    ("rule", ColumnType::Field(FieldType::Text)),
    ("what", ColumnType::Field(FieldType::Text)),
    ("value", ColumnType::Field(FieldType::Float)),
    ("measured", ColumnType::Field(FieldType::Float)),
    ("text", ColumnType::Field(FieldType::Text)),
    ("at", ColumnType::Field(FieldType::Time)),
    ("id", ColumnType::Field(FieldType::Text)),
];

impl Table {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Dataset::tables().map(Self::Of).chain([Self::Transitions])
    }

    /// Returns the table of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::all().find(|table| table.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Of(what) => what.name(),
            Self::Transitions => TRANSITIONS,
        }
    }

    /// Returns the query of the same name; `None`, if there is none.
    pub(crate) fn what(self) -> Option<Dataset> {
        match self {
            Self::Of(what) => Some(what),
            Self::Transitions => None,
        }
    }

    /// Returns true if it may be read as of another time.
    pub(crate) fn has_history(self) -> bool {
        self.what().is_some_and(Dataset::has_history)
    }

    /// Returns true if only the rows that a statement takes are read.
    pub(crate) fn is_filtered(self) -> bool {
        self.what().is_some_and(|what| what.rows_of().is_some())
    }

    /// Returns the family of a column, which it has if a statement names it.
    pub(crate) fn family(self, column: &str) -> Option<&'static Family> {
        match self {
            Self::Of(Dataset::Events(kind)) => kind.family(column),
            Self::Of(Dataset::Joined) => Kind::Predictions.family(column),
            Self::Of(Dataset::Evaluations) => CUSTOM_METRICS.member(column).map(|_| &CUSTOM_METRICS),
            Self::Of(
                Dataset::Rollups
                | Dataset::Classes
                | Dataset::Confusion
                | Dataset::Drift
                | Dataset::Maturity
                | Dataset::Estimates
                | Dataset::Slices
                | Dataset::HeadToHead
                | Dataset::Challengers,
            )
            | Self::Transitions => None,
        }
    }

    /// Returns its columns, without members of families.
    pub(crate) fn columns(self) -> Vec<(&'static str, ColumnType)> {
        match self {
            Self::Of(what) => what.columns_by_release(),
            Self::Transitions => [DAY].into_iter().chain(OF_TRANSITIONS).collect(),
        }
    }
}

impl Query {
    /// Reads the transitions of alert rules of a workspace on the days of a window: one range of items.
    pub(super) async fn rule_transition(
        &self,
        workspace: &Id,
        (need, window): (&Need, Window),
        hold: &Hold,
    ) -> Result<DataFrame> {
        let range = key::transitions(workspace, window.from(), window.to());
        let items = held_items(&self.table, TableQuery::table(range), hold).await?;
        let rows = items.iter().map(|item| Ok(row_of(RuleTransition::from_item(item)?)));
        let rows = rows.collect::<Result<Vec<Row>>>()?;
        // The kind of the request is irrelevant here: it only carries the columns.
        series(&OF_TRANSITIONS, &rows, &Request::of(Dataset::Rollups, window, need.columns.clone()))
    }

    /// Returns the window from the first to the last day with transitions.
    pub(super) async fn transitions_there(&self, workspace: &Id) -> Result<Option<Window>> {
        let end = async |is_last: bool| -> Result<Option<Day>> {
            let query = TableQuery::table(key::all_transitions(workspace)).limit(1);
            let query = if is_last { query.backward() } else { query };
            let found = self.table.query(&query).await?.items;
            found.first().map(|item| Ok(RuleTransition::from_item(item)?.day)).transpose()
        };
        let ends = end(false).await?.zip(end(true).await?);
        ends.map(|(from, to)| Window::new(from, to)).transpose()
    }
}

fn row_of(rule_transition: RuleTransition) -> Row {
    let text = |text: String| Cell::Text(Some(text));
    let cells = vec![
        text(rule_transition.rule),
        text(rule_transition.transition.name().to_owned()),
        Cell::Float(rule_transition.value),
        Cell::Float(rule_transition.measured),
        text(rule_transition.text),
        Cell::Time(Some(rule_transition.at.micros())),
        text(rule_transition.id),
    ];
    (rule_transition.day, cells)
}
