//! Daily series: a row has its day, and cells for the columns; and reading of the projections behind them.

use std::sync::Arc;

use event::{Day, Error, Id, Result, fields::FieldType};
use log::{active::of_active, key};
use polars::prelude::{Column as Series, DataFrame};
use table::{Item, Pages, Query, Table};

use crate::{budget::Hold, columns::ColumnType, frame, request::Request};

#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Text(Option<String>),
    Int(Option<u64>),
    Float(Option<f64>),
    Time(Option<i64>),
}

/// A row: the day, and its cells in the order of the columns.
pub(crate) type Row = (Day, Vec<Cell>);

/// Reads all items of a query of the table, whose memory counts from then on.
pub(crate) async fn held_items(table: &Arc<dyn Table>, query: Query, hold: &Hold) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut pages = Pages::of(&**table, query);
    while let Some(page) = pages.next().await? {
        hold.take(page.iter().map(|item| item.size() as u64).sum()).await?;
        items.extend(page);
    }
    Ok(items)
}

/// Reads all items of the projections of a window, of the active version, which is returned.
pub(crate) async fn active_items(
    table: &Arc<dyn Table>,
    workspace: &Id,
    request: &Request,
    hold: &Hold,
) -> Result<(u32, Vec<Item>)> {
    let (from, to) = (request.window.from(), request.window.to());
    let projections = |version| Query::table(key::projections(workspace, version, from, to));
    of_active(&**table, workspace, |version| held_items(table, projections(version), hold)).await
}

/// Builds the frame of the rows: the day, then `columns`, or the requested ones of these.
pub(crate) fn series(columns: &[(&str, ColumnType)], rows: &[Row], request: &Request) -> Result<DataFrame> {
    const DAY: &str = "day";
    let rows: Vec<&Row> =
        rows.iter().filter(|(_, cells)| is_of(columns, cells, request.release.as_deref())).collect();
    let all: Vec<&str> = [DAY].into_iter().chain(columns.iter().map(|(name, _)| *name)).collect();
    let names: Vec<&str> = match &request.columns {
        Some(names) => names.iter().map(String::as_str).collect(),
        None => all.clone(),
    };
    let mut frame = Vec::with_capacity(names.len());
    for name in names {
        match position(columns, name) {
            Some(at) => frame.push(column(columns[at], at, &rows)),
            None if name == DAY => {
                frame.push(frame::days(DAY, rows.iter().map(|(day, _)| day.number()).collect()))
            }
            None => {
                let all = all.join(", ");
                return Err(Error::invalid(format!("there is no column `{name}`; there are {all}")));
            }
        }
    }
    frame::frame(rows.len(), frame)
}

fn position(columns: &[(&str, ColumnType)], name: &str) -> Option<usize> {
    columns.iter().position(|(column, _)| *column == name)
}

fn is_of(columns: &[(&str, ColumnType)], cells: &[Cell], release: Option<&str>) -> bool {
    let of_row = position(columns, "release").map(|at| &cells[at]);
    match (release, of_row) {
        (Some(wanted), Some(Cell::Text(found))) => found.as_deref() == Some(wanted),
        _ => true,
    }
}

fn column((name, kind): (&str, ColumnType), at: usize, rows: &[&Row]) -> Series {
    let cells = || rows.iter().map(|(_, cells)| &cells[at]);
    match kind {
        ColumnType::Field(FieldType::Text) => frame::texts(
            name,
            cells().map(|cell| if let Cell::Text(text) = cell { text.as_deref() } else { None }),
        ),
        ColumnType::Field(FieldType::Time) => {
            frame::times(name, cells().map(|cell| if let Cell::Time(micros) = cell { *micros } else { None }))
        }
        ColumnType::Count => {
            frame::ints(name, cells().map(|cell| if let Cell::Int(count) = cell { *count } else { None }))
        }
        _ => frame::floats(
            name,
            cells().map(|cell| if let Cell::Float(number) = cell { *number } else { None }),
        ),
    }
}
