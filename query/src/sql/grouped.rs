//! What rows are grouped by, within other expressions and in HAVING: SQL has one value of it for each group. Polars has columns of all rows
//! of a group, and computes what is no column again of what it has computed.

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

/// Makes of each expression that rows are grouped by one value, where it stands within another one: all are the same.
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

/// Whether a SELECT reads several tables together.
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

/// The one value of what is the same in all rows of a group.
pub(super) fn one_of(expr: Expr) -> Option<Expr> {
    let mut made = parsed("max(x)")?;
    let Expr::Function(function) = &mut made else { return None };
    let FunctionArguments::List(list) = &mut function.args else { return None };
    *list.args.first_mut()? = FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    Some(made)
}

/// What rows are grouped by, besides what is the same in all of them.
pub(super) struct By(Vec<Expr>);

impl By {
    /// That of a SELECT; `None`, when it does not group, or groups by all that it shows.
    pub(super) fn of(select: &Select) -> Option<Self> {
        let GroupByExpr::Expressions(by, _) = &select.group_by else { return None };
        if by.is_empty() {
            return None;
        }
        Some(Self(by.iter().filter(|key| !is_constant(key)).map(plain).collect()))
    }

    /// Whether rows are grouped by an expression.
    pub(super) fn has(&self, expr: &Expr) -> bool {
        self.0.contains(&plain(expr))
    }

    /// Whether an expression has in it, or is, one that rows are grouped by and that is no column.
    pub(super) fn has_computed(&self, expr: &Expr) -> bool {
        let computed = |expr: &Expr| match !is_column(expr) && self.has(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        expressions(expr, computed).is_break()
    }

    /// Makes one value of what rows are grouped by in an expression.
    pub(super) fn one_value(&self, expr: &mut Expr) {
        // It never breaks.
        _ = walk_mut(expr, &mut OneValue { by: self, depth: 0 });
    }
}

struct OneValue<'a> {
    by: &'a By,
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
