//! Columns that RIGHT and FULL JOIN share by USING. SQL takes them from the table that has the row; polars takes them from the
//! left one, which lacks them in the rows of the right table alone. So they must be named with a table there.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::ast::{Expr, OrderByKind, Query, Select, SelectItem, SetExpr, Visitor};

use super::{
    operators::{is_of_right_rows, using},
    own::Own,
    walk::walk,
};

/// Checks that no such column stands without a table in a SELECT.
///
/// # Errors
/// A suggestion for the statement.
pub(super) fn check(select: &Select) -> Result<(), String> {
    let columns = columns(select)?;
    if columns.is_empty() {
        return Ok(());
    }
    if select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_))) {
        return Err("behind RIGHT and FULL JOIN with USING, name the columns in the place of `*`".to_owned());
    }
    match look(select, &mut bare(columns)) {
        ControlFlow::Break(column) => Err(says(&column)),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Checks the order of a query likewise; a bare name that the query gives means its expression.
///
/// # Errors
/// A suggestion for the statement.
pub(super) fn check_order(query: &Query) -> Result<(), String> {
    let SetExpr::Select(select) = &*query.body else { return Ok(()) };
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return Ok(());
    };
    let columns = columns(select)?;
    let mut not_given = columns.clone();
    for item in &select.projection {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => _ = not_given.remove(&alias.value),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(idents)) => {
                if let Some(name) = idents.last() {
                    not_given.remove(&name.value);
                }
            }
            _ => {}
        }
    }
    for key in keys {
        let columns = if let Expr::Identifier(_) = key.expr { &not_given } else { &columns };
        if let ControlFlow::Break(column) = walk(&key.expr, &mut bare(columns.clone())) {
            return Err(says(&column));
        }
    }
    Ok(())
}

fn says(column: &str) -> String {
    format!(
        "`{column}` behind RIGHT and FULL JOIN with USING: say of which table it is, or write coalesce(a.{column}, b.{column})"
    )
}

fn look(select: &Select, bare: &mut impl Visitor<Break = String>) -> ControlFlow<String> {
    walk(&select.projection, bare)?;
    walk(&select.selection, bare)?;
    walk(&select.group_by, bare)?;
    walk(&select.having, bare)?;
    walk(&select.qualify, bare)
}

/// Returns the columns that RIGHT and FULL JOIN share by USING.
fn columns(select: &Select) -> Result<BTreeSet<String>, String> {
    let mut columns = BTreeSet::new();
    for join in select.from.iter().flat_map(|from| &from.joins) {
        let named = using(&join.join_operator);
        if let Some(column) = named.iter().find(|name| columns.contains(*name)) {
            return Err(format!(
                "USING ({column}) stands behind another one of RIGHT or FULL JOIN; write ON with the tables"
            ));
        }
        if is_of_right_rows(&join.join_operator) {
            columns.extend(named);
        }
    }
    Ok(columns)
}

/// Searches for one of these columns without a table.
fn bare(columns: BTreeSet<String>) -> Own<impl Fn(&Expr) -> Option<String>> {
    Own::new(move |expr| match expr {
        Expr::Identifier(name) if columns.contains(&name.value) => Some(name.value.clone()),
        _ => None,
    })
}
