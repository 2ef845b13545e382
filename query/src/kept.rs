//! The condition of evaluations: predictions are evaluated if an expression of SQL over their columns holds.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use event::{Columns, Error, Kind, Result};
use fold::{FoldError, LogSegment, evaluation::Condition};
use polars::prelude::{Column as Series, DataFrame, DataType, Expr, IntoColumn, NamedFrom, Series as Plain};

use crate::{
    concat::concatenated,
    events::{APPENDED_AT, DAY, type_of},
    frame::{failed, filtered, frame},
    request::{Dataset, Request},
    sql,
};

/// Name of the column of row numbers, which no condition can name.
const ROW: &str = "#";

/// A condition on predictions.
#[derive(Debug)]
pub(crate) struct Kept {
    predicate: Expr,
    /// The columns that it names, and those from which these are made.
    columns: Vec<String>,
    /// The columns that some prediction has had so far.
    seen: Mutex<BTreeSet<String>>,
}

impl Kept {
    /// Plans the condition of a request; `None`, if it evaluates all predictions.
    ///
    /// # Errors
    /// `Invalid`, if the condition is not admitted or polars refuses it.
    pub(crate) async fn of(request: &Request) -> Result<Option<Self>> {
        let conditions = &request.row_filter.conditions;
        if conditions.is_empty() {
            return Ok(None);
        }
        let condition = sql::conditions(Dataset::Events(Kind::Predictions), conditions).await?;
        let mut columns = condition.columns;
        if columns.iter().any(|column| column == APPENDED_AT) {
            return Err(Error::invalid(format!(
                "where: evaluations know no `{APPENDED_AT}` of predictions; as-of says what had been appended"
            )));
        }
        if let Some(day) = columns.iter().position(|column| column == DAY) {
            columns.remove(day);
            let time = Kind::Predictions.time_field();
            if !columns.iter().any(|column| column == time) {
                columns.push(time.to_owned());
            }
        }
        Ok(Some(Self { predicate: condition.predicate, columns, seen: Mutex::default() }))
    }

    /// Returns the members of families that the condition names and no prediction had.
    pub(crate) fn unseen(&self) -> impl Iterator<Item = &String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_member = |column: &&String| Kind::Predictions.family(column).is_some();
        self.columns.iter().filter(is_member).filter(move |column| !seen.contains(*column))
    }

    /// Builds the frame of predictions, with row numbers.
    fn frame(&self, predictions: &[LogSegment<'_>]) -> Result<DataFrame> {
        let mut pieces: Vec<Columns> =
            predictions.iter().map(|segment| self.piece(segment.columns)).collect();
        let rows: usize = pieces.iter().map(|piece| piece.rows).sum();
        let numbers: Vec<u32> = (0..rows as u32).collect();
        let mut columns = vec![Plain::new(ROW.into(), numbers).into_column()];
        let of = |name: &String| concatenated(name, type_of(Kind::Predictions, name), &mut pieces);
        columns.extend(self.columns.iter().map(of));
        let times = columns.iter().find(|column| column.name() == Kind::Predictions.time_field()).map(day_of);
        columns.extend(times.transpose()?);
        frame(rows, columns)
    }

    /// Returns the columns of a segment that are needed.
    fn piece(&self, columns: &Columns) -> Columns {
        let is_needed = |name: &str| self.columns.iter().any(|column| column == name);
        let needed = columns.columns.iter().filter(|column| is_needed(&column.name)).cloned().collect();
        let piece = Columns { columns: needed, rows: columns.rows };
        let names = piece.columns.iter().map(|column| column.name.clone());
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
        piece
    }
}

/// Returns the days of predictions, which are those of their times.
fn day_of(times: &Series) -> Result<Series> {
    Ok(times.cast(&DataType::Date).map_err(failed)?.with_name(DAY.into()))
}

impl Condition for Kept {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn holds(&self, predictions: &[LogSegment<'_>]) -> fold::Result<Vec<bool>> {
        // Days without predictions may be many in a long window, and polars takes its time for none too.
        if predictions.iter().all(|segment| segment.columns.rows == 0) {
            return Ok(Vec::new());
        }
        let refused = |error: Error| FoldError::Refused { why: error.to_string() };
        let all = self.frame(predictions).map_err(refused)?;
        let mut holds = vec![false; all.height()];
        let kept = filtered(all, self.predicate.clone()).map_err(refused)?;
        let numbers = kept.column(ROW).and_then(Series::u32).map_err(|error| refused(failed(error)))?;
        numbers.iter().flatten().for_each(|row| holds[row as usize] = true);
        Ok(holds)
    }
}
