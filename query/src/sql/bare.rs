//! Functions of several rows for which SQL has no value: columns that stand bare beside an aggregate, and an aggregate of
//! another. Polars would repeat the aggregate in every row for the first, and compute a figure of the number of groups for the
//! second.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Function, Query, Select, SelectItem, Visitor};

use super::{
    functions,
    grouped::By,
    walk::{expressions, walk},
};

/// Returns the first column of a SELECT that stands bare beside an aggregate: `release` of `select release, max(score)`.
pub(super) fn beside_aggregate(select: &Select) -> Option<String> {
    let mut seen = Seen::default();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                // The walk never breaks.
                _ = walk(expr, &mut seen);
            }
            _ => seen.column = seen.column.or(Some(item.to_string())),
        }
    }
    seen.column.filter(|_| seen.has_aggregate)
}

/// Returns the first column of a grouping SELECT outside of its grouping expressions and of functions of several rows: `label` of
/// `select release, upper(label) ... group by release`.
pub(super) fn beside_groups(select: &Select) -> Option<String> {
    let by = By::of(select)?;
    select.projection.iter().find_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => outside(Some(&by), expr),
        _ => None,
    })
}

/// Returns the first column of an expression outside of the grouping expressions, if any, and of functions of several rows.
pub(super) fn outside(by: Option<&By>, expr: &Expr) -> Option<String> {
    let mut outside = Outside { by, depth: 0, column: None };
    // The walk never breaks.
    _ = walk(expr, &mut outside);
    outside.column
}

/// Returns a function of several rows within another one: `count(*)` of `sum(count(*)) over ()`.
pub(super) fn within_aggregate(function: &Function) -> Option<String> {
    if !functions::is_of_rows(function) {
        return None;
    }
    let found = expressions(function, |expr| match expr {
        Expr::Function(inner) if functions::is_of_rows(inner) => ControlFlow::Break(inner.to_string()),
        _ => ControlFlow::Continue(()),
    });
    found.break_value()
}

#[derive(Default)]
struct Seen {
    /// Depth of nested functions of several rows.
    depth: usize,
    has_aggregate: bool,
    column: Option<String>,
}

impl Visitor for Seen {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if functions::is_of_rows(function) => {
                self.depth += 1;
                // A function over a window has a value in each row.
                self.has_aggregate |= function.over.is_none();
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) if self.depth == 0 && self.column.is_none() => {
                self.column = Some(expr.to_string());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Function(function) if functions::is_of_rows(function)) {
            self.depth -= 1;
        }
        ControlFlow::Continue(())
    }
}

/// Searches for a column outside of the grouping expressions.
struct Outside<'a> {
    by: Option<&'a By>,
    /// Depth of nested functions of several rows, grouping expressions and other queries.
    depth: usize,
    column: Option<String>,
}

impl Outside<'_> {
    fn is_of_one_value(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Function(function) if functions::is_of_rows(function))
            || self.by.is_some_and(|by| by.has(expr))
    }
}

impl Visitor for Outside<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.is_of_one_value(expr) {
            self.depth += 1;
        } else if self.depth == 0
            && self.column.is_none()
            && matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        {
            self.column = Some(expr.to_string());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.is_of_one_value(expr) {
            self.depth -= 1;
        }
        ControlFlow::Continue(())
    }
}
