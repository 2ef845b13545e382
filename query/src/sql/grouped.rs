//! Columns that rows are grouped by, in HAVING and beside an aggregate: SQL has one value of them for each group, polars has those of all
//! its rows.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, VisitMut, VisitorMut};

use super::{functions, rewrite::parsed};

/// Makes of each such column one value: all are the same.
pub(super) fn of_one_value(select: &mut Select) {
    let GroupByExpr::Expressions(by, _) = &select.group_by else { return };
    // A number says which column it is, and is a number elsewhere.
    let by: Vec<&Expr> = by.iter().filter(|by| !matches!(by, Expr::Value(_))).collect();
    let mut one_value = OneValue { by: &by, depth: 0 };
    let shown = select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    for expr in shown.filter(|expr| has_aggregate(expr)).chain(&mut select.having) {
        // It never breaks.
        _ = expr.visit(&mut one_value);
    }
}

fn has_aggregate(expr: &Expr) -> bool {
    let is_aggregate = |expr: &Expr| match expr {
        Expr::Function(function) if functions::is_of_rows(function) && function.over.is_none() => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    sqlparser::ast::visit_expressions(expr, is_aggregate).is_break()
}

struct OneValue<'a> {
    by: &'a [&'a Expr],
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
            && self.by.contains(&&*expr)
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
