//! The order of a query. Polars orders by the shown columns, and prefers a shown column to one of a table of the same name; it
//! does not order by an aggregate that is not shown. Such an order becomes one by columns that a query around the SELECT does not
//! show.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::{
    ast::{Distinct, Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor},
    dialect::GenericDialect,
    parser::Parser,
};

use super::{
    bare::outside,
    columns::{Named, Tables},
    grouped::{By, has_aggregate, is_joined, one_of},
    rewrite::is_column,
    same::{is_same, last_name},
    walk::{expressions, expressions_mut},
};

/// Rewrites the order of a query into one that polars reads as SQL does. Everything else of the query is rewritten by now.
///
/// # Errors
/// A suggestion for an order that is not by shown columns.
pub(super) fn in_words(query: &mut Query, with: &Named) -> Result<(), String> {
    let SetExpr::Select(select) = &*query.body else { return Ok(()) };
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_mut().map(|order| &mut order.kind) else {
        return Ok(());
    };
    let shown = Shown::of(select, with);
    for key in keys.iter_mut() {
        if let Some(name) = shown.name_of(&key.expr) {
            key.expr = Expr::Identifier(name);
        }
    }
    let Some(hidden) = keys.iter().find(|key| shown.lacks(&key.expr)) else { return Ok(()) };
    if !shown.is_whole {
        return Err(format!("to order by `{}`, name the columns in the place of `*`", hidden.expr));
    }
    if !matches!(select.distinct, None | Some(Distinct::All)) {
        return Err(format!("SELECT DISTINCT has an order of what it shows; show `{}`", hidden.expr));
    }
    let mut within = (**select).clone();
    for (at, key) in keys.iter_mut().enumerate().filter(|(_, key)| !shown.has(&key.expr)) {
        let alias = Ident::with_quote('"', format!("order by {}", at + 1));
        let expr = std::mem::replace(&mut key.expr, Expr::Identifier(alias.clone()));
        within.projection.push(SelectItem::ExprWithAlias { expr: shown.hidden(expr)?, alias });
    }
    match around(within, &shown) {
        Some(around) => *query.body = around,
        None => return Err("this order cannot be put into other words; write it more simply".to_owned()),
    }
    Ok(())
}

/// Wraps a SELECT that returns more into one of the shown columns.
fn around(select: Select, shown: &Shown) -> Option<SetExpr> {
    let parser = Parser::new(&GenericDialect).try_with_sql("select 1 from (select 1) as \"in order\"");
    let mut query = parser.ok()?.parse_query().ok()?;
    let SetExpr::Select(outer) = &mut *query.body else { return None };
    let TableFactor::Derived { subquery, .. } = &mut outer.from.first_mut()?.relation else { return None };
    *subquery.body = SetExpr::Select(Box::new(select));
    let names = shown.items.iter().map(|(name, _)| SelectItem::UnnamedExpr(Expr::Identifier(name.clone())));
    outer.projection = names.collect();
    Some(*query.body)
}

/// The columns that a SELECT shows.
struct Shown {
    /// The names of its columns, with their expressions.
    items: Vec<(Ident, Expr)>,
    /// The names that columns of tables have, too.
    of_tables: BTreeSet<String>,
    /// True if these are all.
    is_whole: bool,
    is_joined: bool,
    /// True if each row is made from several.
    is_grouped: bool,
    by: Option<By>,
}

impl Shown {
    fn of(select: &Select, with: &Named) -> Self {
        let mut items = Vec::new();
        for item in &select.projection {
            let (name, expr) = match item {
                SelectItem::ExprWithAlias { expr, alias } => (alias, expr),
                SelectItem::UnnamedExpr(expr) => match last_name(expr) {
                    Some(name) => (name, expr),
                    None => continue,
                },
                _ => continue,
            };
            items.push((Ident::with_quote('"', name.value.clone()), expr.clone()));
        }
        let is_of_table = |name: &&Ident| Tables::having(&name.value, select, with).is_any();
        let of_tables = items.iter().map(|(name, _)| name).filter(is_of_table);
        let of_tables = of_tables.map(|name| name.value.clone()).collect();
        let by = By::of(select);
        Self {
            is_whole: items.len() == select.projection.len(),
            is_joined: is_joined(select),
            is_grouped: by.is_some() || items.iter().any(|(_, expr)| has_aggregate(expr)),
            items,
            of_tables,
            by,
        }
    }

    /// Returns the name under which a column of a table is shown.
    fn name_of(&self, key: &Expr) -> Option<Ident> {
        if !matches!(key, Expr::CompoundIdentifier(_)) {
            return None;
        }
        let one = one_of(key.clone());
        let is_shown = |expr: &Expr| is_same(expr, key, self.is_joined) || one.as_ref() == Some(expr);
        self.items.iter().find(|(_, expr)| is_shown(expr)).map(|(name, _)| name.clone())
    }

    /// Returns true if something else is shown under the name of a column of a table.
    fn is_overruled(&self, column: &Expr) -> bool {
        let Some(last) = last_name(column) else { return false };
        let is_bare = matches!(column, Expr::Identifier(_));
        if is_bare && !self.of_tables.contains(&last.value) {
            return false;
        }
        // A column without a table belongs to the one table that has it.
        let is_joined = self.is_joined && !is_bare;
        let mut of_name = self.items.iter().filter(|(name, _)| last.value == name.value);
        of_name.any(|(_, expr)| !is_same(expr, column, is_joined))
    }

    /// Returns true if polars cannot order by this, or would order by something else. A bare name is one of a shown column.
    fn lacks(&self, key: &Expr) -> bool {
        let is_window = |expr: &Expr| matches!(expr, Expr::Function(function) if function.over.is_some());
        if matches!(bare(key), Expr::Value(_) | Expr::Identifier(_)) {
            return false;
        }
        let is_of_table = |expr: &Expr| matches!(expr, Expr::CompoundIdentifier(_));
        any(key, |expr| self.is_overruled(expr))
            || (!any(key, is_window)
                && ((self.is_grouped && (has_aggregate(key) || (self.is_joined && any(key, is_of_table))))
                    || self.by.as_ref().is_some_and(|by| by.has_computed(key))))
    }

    /// Returns true if a key of an order consists of shown columns alone.
    fn has(&self, key: &Expr) -> bool {
        let is_name = |expr: &Expr| match expr {
            Expr::Identifier(name) => self.items.iter().any(|(shown, _)| shown.value == name.value),
            _ => false,
        };
        !self.lacks(key) && !any(key, |expr| is_column(expr) && !is_name(expr))
    }

    /// Returns a key of an order as a column beside the shown ones.
    ///
    /// # Errors
    /// The column that has several values in a group.
    fn hidden(&self, mut key: Expr) -> Result<Expr, String> {
        expressions_mut(&mut key, |expr| {
            let given = match &*expr {
                Expr::Identifier(name) if !self.of_tables.contains(&name.value) => {
                    self.items.iter().find(|(shown, _)| shown.value == name.value)
                }
                _ => None,
            };
            if let Some((_, of)) = given {
                *expr = Expr::Nested(Box::new(of.clone()));
            }
        });
        if let Some(by) = &self.by {
            by.one_value(&mut key);
        }
        match outside(self.by.as_ref(), &key).filter(|_| self.is_grouped) {
            Some(column) => Err(format!(
                "`{column}` of ORDER BY stands beside what is made of several rows; order by what is shown, or by max({column})"
            )),
            None => Ok(key),
        }
    }
}

/// Removes the parentheses around an expression.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// Returns true if the predicate holds for any expression within this one.
fn any(expr: &Expr, is_so: impl Fn(&Expr) -> bool) -> bool {
    let look = |expr: &Expr| if is_so(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    expressions(expr, look).is_break()
}
