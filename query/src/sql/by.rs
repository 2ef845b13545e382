//! GROUP BY. SQL takes a number for the expression shown in that place, and a name that no table has for the expression shown
//! under it; both are replaced by the expression before anything else is done with a SELECT. Polars names a grouping expression
//! after a column in it, and refuses two of one name; so in the end it gets the name under which it is shown.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, GroupByExpr, Ident, Query, Select, SelectItem, Value, ValueWithSpan, VisitorMut};

use super::{
    columns::{Named, Tables, named_by_with},
    functions,
    grouped::{By, is_joined, one_of},
    numbers::is_constant,
    own::Own,
    rewrite::is_column,
    same::{is_same, last_name},
    walk::{expressions_mut, walk, walk_mut},
};

/// Replaces numbers and names of shown expressions in GROUP BY and HAVING by the expressions, in each SELECT of a statement.
///
/// # Errors
/// The part by which rows cannot be grouped.
pub(super) fn write_out(query: &mut Query) -> Result<(), String> {
    let with = named_by_with(query);
    each(query, |select| {
        let GroupByExpr::Expressions(by, _) = &select.group_by else { return Ok(()) };
        if by.is_empty() {
            return Ok(());
        }
        let meant = meant(by, select, &with)?;
        let having = select.having.as_ref().map(|having| written_out(having, select, &with));
        select.having = having;
        if let GroupByExpr::Expressions(by, _) = &mut select.group_by {
            *by = meant;
        }
        Ok(())
    })
}

/// Names grouping expressions as they are shown, in each SELECT of a statement, if they are computed or two columns have one
/// name. The rest of the statement is already in the dialect of polars.
///
/// # Errors
/// The columns that polars would name alike.
pub(super) fn call(query: &mut Query) -> Result<(), String> {
    let with = named_by_with(query);
    each(query, |select| {
        let (by, is_joined) = (By::of(select), is_joined(select));
        let GroupByExpr::Expressions(keys, _) = &select.group_by else { return Ok(()) };
        let called: Vec<Expr> = keys.iter().map(|key| called(key, keys, select, &with)).collect();
        if let Some((one, other)) = alike(&called) {
            return Err(format!(
                "rows are grouped by `{one}` and `{other}`; show one of both under another name, with AS"
            ));
        }
        let is_called =
            |expr: &Expr| keys.iter().zip(&called).any(|(key, called)| key == expr && key != called);
        let mut shown = select.projection.clone();
        for item in &mut shown {
            if let SelectItem::ExprWithAlias { expr, .. } = item
                && is_joined
                && is_column(expr)
                && by.as_ref().is_some_and(|by| by.has(expr))
                && !is_called(expr)
                && let Some(one) = one_of(expr.clone())
            {
                // Polars knows such a column of the right table by another name.
                *expr = one;
            }
        }
        select.projection = shown;
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            *keys = called;
        }
        Ok(())
    })
}

/// Returns the grouping expressions, once each.
fn meant(by: &[Expr], select: &Select, with: &Named) -> Result<Vec<Expr>, String> {
    let is_joined = is_joined(select);
    let mut meant: Vec<Expr> = Vec::new();
    for key in by {
        let expr = match key {
            Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => numbered(select, number)?,
            Expr::Identifier(name) => match Tables::having(&name.value, select, with) {
                Tables::One => key,
                Tables::Several => {
                    return Err(format!(
                        "`{name}` of GROUP BY is a column of several tables; say of which it is, as in `a.{name}`"
                    ));
                }
                Tables::None | Tables::Unknown => shown_as(select, name).unwrap_or(key),
            },
            _ => key,
        };
        if let Some(function) = function_of_rows(expr) {
            return Err(format!(
                "`{function}` of GROUP BY is made of several rows; compute it in a query of its own, named by WITH"
            ));
        }
        if !meant.iter().any(|other| is_same(other, expr, is_joined)) {
            meant.push(expr.clone());
        }
    }
    // A constant does not divide rows. Alone it must not look like the number of a column.
    match meant.iter().all(is_constant) {
        true => meant.truncate(1),
        false => meant.retain(|key| !is_constant(key)),
    }
    let bare = |key: Expr| if let Expr::Value(_) = key { Expr::Nested(Box::new(key)) } else { key };
    Ok(meant.into_iter().map(bare).collect())
}

/// Returns the expression shown in the place of a number.
fn numbered<'a>(select: &'a Select, number: &str) -> Result<&'a Expr, String> {
    let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let before = at.and_then(|at| select.projection.get(..=at)).unwrap_or(select.projection.as_slice());
    if before.iter().any(|item| expr_of(item).is_none()) {
        return Err(format!("for GROUP BY {number}, name the columns in the place of `*`"));
    }
    let shown = at.and_then(|at| select.projection.get(at)).and_then(expr_of);
    shown.ok_or_else(|| {
        format!("there is no column {number} for GROUP BY; it shows {}", select.projection.len())
    })
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Returns the expression shown under a name that the SELECT gives.
fn shown_as<'a>(select: &'a Select, name: &Ident) -> Option<&'a Expr> {
    select.projection.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if alias.value == name.value => Some(expr),
        _ => None,
    })
}

/// Returns the first function of several rows that is not part of a nested query.
fn function_of_rows(expr: &Expr) -> Option<String> {
    let look = |expr: &Expr| match expr {
        Expr::Function(function) if functions::is_of_rows(function) => Some(function.to_string()),
        _ => None,
    };
    walk(expr, &mut Own::new(look)).break_value()
}

/// Returns a condition with the names that its SELECT gives replaced by their expressions.
fn written_out(having: &Expr, select: &Select, with: &Named) -> Expr {
    let mut having = having.clone();
    expressions_mut(&mut having, |expr| {
        let given = match &*expr {
            Expr::Identifier(name) => {
                shown_as(select, name).filter(|_| !Tables::having(&name.value, select, with).is_any())
            }
            _ => None,
        };
        if let Some(given) = given {
            *expr = Expr::Nested(Box::new(given.clone()));
        }
    });
    having
}

/// Returns a grouping expression, or the name under which it is shown.
fn called(key: &Expr, keys: &[Expr], select: &Select, with: &Named) -> Expr {
    if let Some(name) = last_name(key) {
        let is_alike = |other: &&Expr| last_name(other).is_some_and(|other| other.value == name.value);
        let is_shown_so =
            select.projection.iter().any(|item| matches!(item, SelectItem::UnnamedExpr(expr) if expr == key));
        if is_shown_so || keys.iter().filter(is_alike).count() < 2 {
            return key.clone();
        }
    }
    let is_joined = is_joined(select);
    let mut names = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if is_same(expr, key, is_joined) => Some(&alias.value),
        _ => None,
    });
    // Polars also takes a name for a column first.
    match names.find(|name| Tables::having(name, select, with) == Tables::None) {
        Some(name) => Expr::Identifier(Ident::with_quote('"', name.clone())),
        None => key.clone(),
    }
}

/// Returns two columns of one name.
fn alike(keys: &[Expr]) -> Option<(&Expr, &Expr)> {
    keys.iter().enumerate().find_map(|(at, key)| {
        let name = last_name(key)?;
        let mut before = keys.iter().take(at);
        let one = before.find(|other| last_name(other).is_some_and(|other| other.value == name.value))?;
        Some((one, key))
    })
}

/// Applies a function to each SELECT of a statement.
pub(super) fn each(
    query: &mut Query,
    make: impl FnMut(&mut Select) -> Result<(), String>,
) -> Result<(), String> {
    match walk_mut(query, &mut Each(make)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(why) => Err(why),
    }
}

struct Each<F>(F);

impl<F: FnMut(&mut Select) -> Result<(), String>> VisitorMut for Each<F> {
    type Break = String;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<String> {
        match (self.0)(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => ControlFlow::Break(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::admit::admit;

    /// Returns the GROUP BY and HAVING of an admitted statement.
    fn read(select: &str, rest: &str) -> String {
        let text = admit(&format!("select {select} from {rest}")).unwrap().text;
        text.split_once(" GROUP BY ").unwrap().1.to_owned()
    }

    #[test]
    fn group_by_resolves_columns_before_aliases() {
        for (select, rest, expected) in [
            ("release as g, count(key) n", "joined where day = '2026-06-01' group by g", "release"),
            (
                "release as g, count(key) n",
                "joined where day = '2026-06-01' group by 1, release, g",
                "release",
            ),
            ("7 as one, release, count(key)", "joined where day = '2026-06-01' group by one, 2", "release"),
            ("7 as one, count(key)", "joined where day = '2026-06-01' group by one", "\"one\""),
            ("7 as label, count(key)", "joined where day = '2026-06-01' group by 1", "(7)"),
            ("upper(release) as u, count(key)", "joined where day = '2026-06-01' group by 1", "\"u\""),
            // A table has a column of this name.
            (
                "upper(release) as label, count(key)",
                "joined where day = '2026-06-01' group by 1",
                "upper(release)",
            ),
            (
                "lower(label) as u, reverse(label) as label, count(key)",
                "joined where day = '2026-06-01' group by 1, 2",
                "\"u\", reverse(label)",
            ),
            (
                "release as g, max(score) as m",
                "joined where day = '2026-06-01' group by g having m > 0.5 and g <> 'v1'",
                "release HAVING (max(score)) > 0.5 AND (max(release)) <> 'v1'",
            ),
            (
                "upper(u) as label, count(*)",
                "(select label as u from joined where day = '2026-06-01') j group by label",
                "\"label\"",
            ),
            (
                "upper(label) as u, count(*)",
                "(select * from joined where day = '2026-06-01') j group by u",
                "\"u\"",
            ),
        ] {
            assert_eq!(read(select, rest), expected, "{select} {rest}");
        }
    }

    #[test]
    fn columns_of_equal_name_group_by_displayed_name() {
        let joined = "predictions p join outcomes o on p.key = o.key where p.day = '2026-06-01' and o.day = '2026-06-01'";
        let by = |select: &str, by: &str| read(select, &format!("{joined} group by {by}"));
        assert_eq!(by("p.label as pl, o.label as ol, count(*)", "p.label, o.label"), "\"pl\", \"ol\"");
        assert_eq!(by("p.label, o.label as ol, count(*)", "1, ol"), "p.label, \"ol\"");
        assert_eq!(by("p.release as r, o.label as ol, count(*)", "r, ol"), "p.release, o.label");
    }

    #[test]
    fn what_rows_cannot_be_grouped_by_is_refused() {
        let joined = "predictions p join outcomes o on p.key = o.key where p.day = '2026-06-01' and o.day = '2026-06-01'";
        for (statement, says) in [
            (
                "select count(*) as n from joined group by n".to_owned(),
                "`count(*)` of GROUP BY is made of several rows",
            ),
            (
                "select release, count(*) from joined group by 3".to_owned(),
                "there is no column 3 for GROUP BY; it shows 2",
            ),
            ("select release, count(*) from joined group by 0".to_owned(), "there is no column 0"),
            ("select *, release from joined group by 2".to_owned(), "name the columns in the place of `*`"),
            (
                format!("select o.label as label, count(*) from {joined} group by label"),
                "is a column of several tables",
            ),
            (
                format!("select count(*) from {joined} group by p.label, o.label"),
                "show one of both under another name, with AS",
            ),
        ] {
            let refused = admit(&statement).unwrap_err().to_string();
            assert!(refused.contains(says), "{statement}: {refused}");
        }
        // USING makes one column of two.
        assert!(
            admit("select key, count(*) from predictions p join outcomes o using (key) group by key").is_ok()
        );
    }
}
