//! A table of a statement, as scanned by polars: without rows while the statement is planned, then with the rows read.

use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

use polars::{
    lazy::dsl::{Expr, Operator},
    prelude::{AnonymousScan, AnonymousScanArgs, DataFrame, IntoLazy, PolarsError, PolarsResult, SchemaRef},
};

use super::tables::Table;
use crate::groups::Groups;

/// A table of a statement. It has no rows while the statement is planned.
pub(super) struct Source {
    pub(super) of: Table,
    pub(super) schema: SchemaRef,
    /// The groups of events that are its rows, if these are not events.
    pub(super) groups: Option<Arc<Groups>>,
    rows: OnceLock<Rows>,
}

/// The rows of a table read for a statement.
struct Rows {
    frame: DataFrame,
    /// The predicate by which they were chosen, which holds for all of them.
    chosen_by: Option<Expr>,
}

impl Source {
    pub(super) fn new(of: Table, schema: SchemaRef, groups: Option<Arc<Groups>>) -> Self {
        Self { of, schema, groups, rows: OnceLock::new() }
    }

    /// Gives it its rows, once.
    pub(super) fn give(&self, frame: DataFrame, chosen_by: Option<Expr>) {
        _ = self.rows.set(Rows { frame, chosen_by });
    }
}

impl AnonymousScan for Source {
    fn as_any(&self) -> &dyn Any {
        self
    }

    /// Returns the rows read, which may be more than polars asks for in one place.
    fn scan(&self, args: AnonymousScanArgs) -> PolarsResult<DataFrame> {
        let Some(Rows { frame, chosen_by }) = self.rows.get() else {
            return Err(PolarsError::ComputeError(format!("{} was not read", self.of.name()).into()));
        };
        let frame = match args.predicate.as_ref().and_then(fixed) {
            Some(predicate) if Some(&predicate) != chosen_by.as_ref() => {
                frame.clone().lazy().filter(predicate).collect()?
            }
            _ => frame.clone(),
        };
        let frame = match &args.with_columns {
            Some(names) if names.is_empty() => DataFrame::new(frame.height(), Vec::new())?,
            Some(names) => frame.select(names.iter().cloned())?,
            None => frame,
        };
        Ok(args.n_rows.map_or_else(|| frame.clone(), |rows| frame.head(Some(rows))))
    }

    fn schema(&self, _: Option<usize>) -> PolarsResult<SchemaRef> {
        Ok(Arc::clone(&self.schema))
    }

    fn allows_predicate_pushdown(&self) -> bool {
        true
    }

    fn allows_projection_pushdown(&self) -> bool {
        true
    }
}

/// Splits a conjunction into its parts.
pub(super) fn conjuncts<'a>(expr: &'a Expr, parts: &mut Vec<&'a Expr>) {
    match expr {
        Expr::BinaryExpr { left, op: Operator::And | Operator::LogicalAnd, right } => {
            conjuncts(left, parts);
            conjuncts(right, parts);
        }
        part => parts.push(part),
    }
}

/// Returns the fixed part of a predicate. For a statement with an order and a limit, polars adds a part that gets narrower while
/// it sorts, only to save work; as an expression this part can be displayed but not computed.
pub(super) fn fixed(predicate: &Expr) -> Option<Expr> {
    let mut parts = Vec::new();
    conjuncts(predicate, &mut parts);
    let is_moving = |part: &Expr| part.into_iter().any(|expr| matches!(expr, Expr::Display { .. }));
    parts.into_iter().filter(|part| !is_moving(part)).cloned().reduce(Expr::and)
}
