//! Columns that rows are grouped by, in HAVING: SQL has one value of them for each group, polars has those of all its rows.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, GroupByExpr, Select, VisitMut, VisitorMut};

use super::{functions, rewrite::parsed};

/// Makes of each such column one value: all are the same.
pub(super) fn of_groups(select: &mut Select) {
    let GroupByExpr::Expressions(by, _) = &select.group_by else { return };
    if let Some(having) = &mut select.having {
        // It never breaks.
        _ = having.visit(&mut OneValue { by, depth: 0 });
    }
}

struct OneValue<'a> {
    by: &'a [Expr],
    /// In how many functions of several rows it looks.
    depth: usize,
}

impl VisitorMut for OneValue<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth += usize::from(is_of_rows(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if is_of_rows(expr) {
            self.depth -= 1;
        } else if self.depth == 0
            && self.by.contains(expr)
            && let Some(one) = parsed(&format!("max({expr})"))
        {
            *expr = one;
        }
        ControlFlow::Continue(())
    }
}

fn is_of_rows(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if functions::is_of_rows(function))
}
