//! Tables for people: numbers aligned right, the first rows and the last.

use comfy_table::{CellAlignment, ContentArrangement, Table as TextTable, presets};
use event::{Result, plain::on_one_line};
use polars::prelude::{AnyValue, DataFrame};

use crate::{
    frame::failed,
    output::{number_text, time_text},
};

/// Number of rows shown in a table for people: one half the first, the other the last.
const TABLE_ROWS: usize = 60;
const HALF: usize = TABLE_ROWS / 2;

/// The rows that a table for people shows, of rows given frame by frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Excerpt {
    /// The first rows, and the last of the rest.
    first: DataFrame,
    last: DataFrame,
    rows: usize,
    /// For each column: true if it has a value.
    has_value: Vec<bool>,
    /// True if columns without any value are shown too, since they were requested by name.
    pub(crate) keeps_empty: bool,
}

impl Excerpt {
    /// Adds more rows.
    pub(crate) fn push(&mut self, rows: &DataFrame) -> Result<()> {
        if self.has_value.is_empty() {
            (self.first, self.last) = (rows.clear(), rows.clear());
            self.has_value = vec![false; rows.width()];
        }
        for (has, column) in self.has_value.iter_mut().zip(rows.columns()) {
            *has |= column.null_count() < column.len();
        }
        self.rows += rows.height();
        let lacks = HALF.saturating_sub(self.first.height());
        self.first.vstack_mut(&rows.head(Some(lacks))).map_err(failed)?;
        self.last.vstack_mut(&rows.slice(lacks as i64, usize::MAX).tail(Some(HALF))).map_err(failed)?;
        self.last = self.last.tail(Some(HALF));
        Ok(())
    }

    /// Formats the table. A column without any value is left out, unless it was requested by name or there is no row.
    pub(crate) fn text(&self) -> String {
        let shown = |at: &usize| self.has_value[*at] || self.keeps_empty || self.rows == 0;
        let columns: Vec<usize> = (0..self.has_value.len()).filter(shown).collect();
        let names = self.first.columns();
        let mut table = TextTable::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|at| on_one_line(names[*at].name().as_str()).into_owned()));
        let add = |table: &mut TextTable, rows: &DataFrame| {
            let all = rows.columns();
            for row in 0..rows.height() {
                let cell_at = |at: &usize| cell(&all[*at].get(row).unwrap_or(AnyValue::Null));
                table.add_row(columns.iter().map(cell_at));
            }
        };
        add(&mut table, &self.first);
        if self.rows > TABLE_ROWS {
            table.add_row(columns.iter().map(|_| "...".to_owned()));
        }
        add(&mut table, &self.last);
        for (at, styled) in columns.iter().zip(table.column_iter_mut()) {
            let is_number = names[*at].dtype().is_numeric();
            styled.set_cell_alignment(if is_number { CellAlignment::Right } else { CellAlignment::Left });
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        let lines = lines.join("\n");
        match self.rows > TABLE_ROWS {
            false => lines,
            true => {
                format!("{lines}\n{TABLE_ROWS} of {} rows shown; --format csv writes them all", self.rows)
            }
        }
    }
}

fn cell(value: &AnyValue<'_>) -> String {
    match value {
        AnyValue::Null => "-".to_owned(),
        AnyValue::Float64(number) => number_text(*number),
        AnyValue::String(text) => on_one_line(text).into_owned(),
        AnyValue::Datetime(..) | AnyValue::Date(_) => time_text(value).unwrap_or_default(),
        other => other.to_string(),
    }
}
