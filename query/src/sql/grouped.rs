//! Grouping expressions within other expressions and in HAVING: in SQL they have one value for each group. Polars gives columns
//! with all rows of a group, and computes other expressions again from its own results.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Select, SelectItem, VisitorMut,
};

use super::{
    functions,
    numbers::is_constant,
    rewrite::{is_column, parsed},
    same::plain,
    walk::{expressions, walk_mut},
};

/// Reduces each grouping expression within another one to one value, as all its values in a group are equal.
pub(super) fn of_one_value(select: &mut Select) {
    let Some(by) = By::of(select) else { return };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && !by.has(expr)
        {
            by.one_value(expr);
        }
    }
    if let Some(having) = &mut select.having {
        by.one_value(having);
    }
}

/// Returns true if a SELECT reads several tables together.
pub(super) fn is_joined(select: &Select) -> bool {
    select.from.len() > 1 || select.from.iter().any(|from| !from.joins.is_empty())
}

pub(super) fn has_aggregate(expr: &Expr) -> bool {
    let is_aggregate = |expr: &Expr| match expr {
        Expr::Function(function) if functions::is_of_rows(function) && function.over.is_none() => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    expressions(expr, is_aggregate).is_break()
}

/// Reduces an expression that is constant in a group to one value.
pub(super) fn one_of(expr: Expr) -> Option<Expr> {
    let mut made = parsed("max(x)")?;
    let Expr::Function(function) = &mut made else { return None };
    let FunctionArguments::List(list) = &mut function.args else { return None };
    *list.args.first_mut()? = FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    Some(made)
}

/// The grouping expressions, without constants.
pub(super) struct By(Vec<Expr>);

impl By {
    /// Returns those of a SELECT; `None`, if it does not group, or groups by ALL.
    pub(super) fn of(select: &Select) -> Option<Self> {
        let GroupByExpr::Expressions(by, _) = &select.group_by else { return None };
        if by.is_empty() {
            return None;
        }
        Some(Self(by.iter().filter(|key| !is_constant(key)).map(plain).collect()))
    }

    /// Returns true if rows are grouped by an expression.
    pub(super) fn has(&self, expr: &Expr) -> bool {
        self.0.contains(&plain(expr))
    }

    /// Returns true if an expression is or contains a grouping expression that is no column.
    pub(super) fn has_computed(&self, expr: &Expr) -> bool {
        let computed = |expr: &Expr| match !is_column(expr) && self.has(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        expressions(expr, computed).is_break()
    }

    /// Reduces grouping expressions within an expression to one value.
    pub(super) fn one_value(&self, expr: &mut Expr) {
        // The walk never breaks.
        _ = walk_mut(expr, &mut OneValue { by: self, depth: 0 });
    }
}

struct OneValue<'a> {
    by: &'a By,
    /// Depth of nested functions of several rows.
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
            && self.by.has(expr)
            && let Some(one) = one_of(expr.clone())
        {
            *expr = one;
        }
        ControlFlow::Continue(())
    }
}

fn is_of_rows(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if functions::is_of_rows(function))
}
