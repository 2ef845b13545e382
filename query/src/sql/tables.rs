//! The tables of statements: the queries of equal names, and tables of statements alone.

use catalog::CrossedRule;
use event::{
    Day, Id, Kind, Result, Window,
    custom::CUSTOM_FIGURES,
    fields::{Family, FieldType},
};
use log::key;
use polars::prelude::DataFrame;
use table::Query as TableQuery;

use super::plan::Need;
use crate::{
    Query,
    budget::Hold,
    column_type::ColumnType,
    request::{Request, What},
    series::{Cell, Row, held_items, series},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// The answer of a query of this name.
    Of(What),
    /// The crossings of alert rules.
    Crossings,
}

const CROSSINGS: &str = "crossings";

const DAY: (&str, ColumnType) = ("day", ColumnType::Day);

/// The columns of crossings behind the day.
const OF_CROSSINGS: [(&str, ColumnType); 7] = [
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
        What::tables().map(Self::Of).chain([Self::Crossings])
    }

    /// Returns the table of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::all().find(|table| table.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Of(what) => what.name(),
            Self::Crossings => CROSSINGS,
        }
    }

    /// Returns the query of the same name; `None`, if there is none.
    pub(crate) fn what(self) -> Option<What> {
        match self {
            Self::Of(what) => Some(what),
            Self::Crossings => None,
        }
    }

    /// Returns true if it may be read as of another time.
    pub(crate) fn has_history(self) -> bool {
        self.what().is_some_and(What::has_history)
    }

    /// Returns true if only the rows that a statement takes are read.
    pub(crate) fn is_filtered(self) -> bool {
        self.what().is_some_and(|what| what.rows_of().is_some())
    }

    /// Returns the family of a column, which it has if a statement names it.
    pub(crate) fn family(self, column: &str) -> Option<&'static Family> {
        match self {
            Self::Of(What::Events(kind)) => kind.family(column),
            Self::Of(What::Joined) => Kind::Predictions.family(column),
            Self::Of(What::Evaluations) => CUSTOM_FIGURES.member(column).map(|_| &CUSTOM_FIGURES),
            Self::Of(
                What::Rollups
                | What::Classes
                | What::Confusion
                | What::Drift
                | What::Maturity
                | What::Estimates
                | What::Segments
                | What::HeadToHead
                | What::Challengers,
            )
            | Self::Crossings => None,
        }
    }

    /// Returns its columns, without members of families.
    pub(crate) fn columns(self) -> Vec<(&'static str, ColumnType)> {
        match self {
            Self::Of(what) => what.columns_by_release(),
            Self::Crossings => [DAY].into_iter().chain(OF_CROSSINGS).collect(),
        }
    }
}

impl Query {
    /// Reads the crossings of alert rules of a workspace on the days of a window: one range of the items written as they crossed.
    pub(super) async fn crossed(
        &self,
        workspace: &Id,
        (need, window): (&Need, Window),
        hold: &Hold,
    ) -> Result<DataFrame> {
        let range = key::crossings(workspace, window.from(), window.to());
        let items = held_items(&self.table, TableQuery::table(range), hold).await?;
        let rows = items.iter().map(|item| Ok(row_of(CrossedRule::from_item(item)?)));
        let rows = rows.collect::<Result<Vec<Row>>>()?;
        // The kind of the request is irrelevant here: it only carries the columns.
        series(&OF_CROSSINGS, &rows, &Request::of(What::Rollups, window, need.columns.clone()))
    }

    /// Returns the window from the first to the last day with crossings.
    pub(super) async fn crossings_there(&self, workspace: &Id) -> Result<Option<Window>> {
        let end = async |is_last: bool| -> Result<Option<Day>> {
            let query = TableQuery::table(key::all_crossings(workspace)).limit(1);
            let query = if is_last { query.backward() } else { query };
            let found = self.table.query(&query).await?.items;
            found.first().map(|item| Ok(CrossedRule::from_item(item)?.day)).transpose()
        };
        let ends = end(false).await?.zip(end(true).await?);
        ends.map(|(from, to)| Window::new(from, to)).transpose()
    }
}

fn row_of(crossed: CrossedRule) -> Row {
    let text = |text: String| Cell::Text(Some(text));
    let cells = vec![
        text(crossed.rule),
        text(crossed.crossing.name().to_owned()),
        Cell::Float(crossed.value),
        Cell::Float(crossed.measured),
        text(crossed.text),
        Cell::Time(Some(crossed.at.micros())),
        text(crossed.id),
    ];
    (crossed.day, cells)
}
