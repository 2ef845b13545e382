//! Queries within conditions. Polars joins by `key in (select ...)` if no column of the query has the name of one around it, and
//! else reads all days of a table or reports ambiguous columns. So such a query is named by WITH, and its column gets a unique
//! name.

use std::ops::ControlFlow;

use sqlparser::ast::{Cte, Expr, Ident, Query, Select, SelectItem, SetExpr, UnaryOperator, VisitorMut, With};

use super::{
    columns::{Named, of_table, relations},
    operators::{is_of_left_columns, name_of},
    rewrite::is_family,
    text::read,
    walk::{expressions, walk_mut},
};

/// Prefix of the names of the columns and tables made here; a number follows.
const NAME: &str = "__in_";

/// Names the queries of `in (select ...)` by WITH, and their columns.
pub(super) fn by_names(query: &mut Query) {
    let mut within = Within { made: 0, named: Vec::new() };
    let mut with = query.with.take();
    let mut named = Vec::new();
    for mut table in with.iter_mut().flat_map(|with| std::mem::take(&mut with.cte_tables)) {
        // The walk never breaks.
        _ = walk_mut(&mut table, &mut within);
        named.append(&mut within.named);
        named.push(table);
    }
    _ = walk_mut(query, &mut within);
    named.append(&mut within.named);
    query.with = match named.is_empty() {
        true => None,
        false => {
            with.or_else(|| with_of("select 1 as x", "x")).map(|with| With { cte_tables: named, ..with })
        }
    };
}

/// Returns the reason why a SELECT with such a query, or with an equivalent join, is not admitted, if polars misreads it.
pub(super) fn misplaced(select: &Select) -> Option<String> {
    let joins = select.from.iter().flat_map(|from| &from.joins);
    if let Some(join) = joins.map(|join| &join.join_operator).find(|join| is_of_left_columns(join)) {
        return Some(format!(
            "{} is not admitted; write `where a.key in (select key from ...)`",
            name_of(join)
        ));
    }
    let is_shown = expressions(&select.projection, is_in_query).is_break();
    let is_of_groups = expressions(&select.having, is_in_query).is_break();
    (is_shown || is_of_groups).then(|| {
        "`in (select ...)` stands in WHERE; a query in the place of the table has what is shown or grouped by it".to_owned()
    })
}

/// Breaks at a query of IN.
fn is_in_query(expr: &Expr) -> ControlFlow<()> {
    match expr {
        Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

struct Within {
    made: usize,
    /// The tables named by WITH, nested ones first.
    named: Vec<Cte>,
}

impl VisitorMut for Within {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(not_in) = not_in(expr) {
            *expr = not_in;
        } else if let Expr::InSubquery { subquery, .. } = expr {
            let name = format!("{NAME}{}", self.made + 1);
            if let Some((table, found)) = named(subquery, &name) {
                self.named.push(table);
                (**subquery, self.made) = (found, self.made + 1);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns `x not in (select ...)` for `not x in (select ...)`.
fn not_in(expr: &Expr) -> Option<Expr> {
    let Expr::UnaryOp { op: UnaryOperator::Not, expr } = expr else { return None };
    let mut inner = &**expr;
    while let Expr::Nested(nested) = inner {
        inner = nested;
    }
    match inner.clone() {
        Expr::InSubquery { expr, subquery, negated } => {
            Some(Expr::InSubquery { expr, subquery, negated: !negated })
        }
        _ => None,
    }
}

/// Returns a query, with its one column named `name`, as a table of WITH, and the query of that table; `None`, if it has several
/// columns or none with a name.
fn named(query: &Query, name: &str) -> Option<(Cte, Query)> {
    let mut query = query.clone();
    let column = column_of(&mut query.body, name)?;
    let with = with_of(
        &format!("select distinct {column} as {name} from ({query}) as {name}_rows"),
        &format!("{name}_set"),
    );
    Some((with?.cte_tables.pop()?, read(&format!("select {name} from {name}_set"))?))
}

fn with_of(query: &str, name: &str) -> Option<With> {
    read(&format!("with {name} as ({query}) select 1"))?.with
}

/// Returns the name of the one column of a query; a computed one without a name is named `name`.
fn column_of(body: &mut SetExpr, name: &str) -> Option<Ident> {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { left, .. } => return column_of(left, name),
        SetExpr::Query(query) => return column_of(&mut query.body, name),
        _ => return None,
    };
    let tables: Vec<String> = relations(select).map(|relation| of_table(relation, &Named::new()).0).collect();
    let is_table = |name: &str| tables.iter().any(|table| table == name);
    let [item] = &mut select.projection[..] else { return None };
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(column)) => Some(column.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(idents)) => match &idents[..] {
            [.., of, member] if is_family(&of.value) && !is_table(&of.value) => {
                Some(Ident::with_quote('"', format!("{}.{}", of.value, member.value)))
            }
            [.., column] => Some(column.clone()),
            [] => None,
        },
        SelectItem::UnnamedExpr(expr) => {
            let alias = Ident::new(name);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: alias.clone() };
            Some(alias)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> String {
        let mut query = read(text).unwrap();
        by_names(&mut query);
        query.to_string()
    }

    #[test]
    fn each_subquery_result_gets_its_own_name() {
        for (query, column) in [
            ("SELECT key FROM outcomes WHERE day = '2026-06-01'", "key"),
            ("SELECT o.key FROM outcomes o LIMIT 3", "key"),
            ("SELECT p.tag.city FROM predictions p", "\"tag.city\""),
            ("SELECT lower(label) AS l FROM outcomes GROUP BY l ORDER BY l", "l"),
            ("SELECT key FROM outcomes UNION SELECT key FROM predictions", "key"),
        ] {
            assert_eq!(
                made(&format!("SELECT 1 FROM predictions WHERE key NOT IN ({query}) OR score > 1")),
                format!(
                    "WITH __in_1_set AS (SELECT DISTINCT {column} AS __in_1 FROM ({query}) AS __in_1_rows) SELECT 1 FROM predictions WHERE key NOT IN (SELECT __in_1 FROM __in_1_set) OR score > 1"
                )
            );
        }
        assert_eq!(
            made("SELECT 1 FROM a WHERE key IN (SELECT max(key) FROM b)"),
            "WITH __in_1_set AS (SELECT DISTINCT __in_1 AS __in_1 FROM (SELECT max(key) AS __in_1 FROM b) AS __in_1_rows) SELECT 1 FROM a WHERE key IN (SELECT __in_1 FROM __in_1_set)"
        );
        // A negated query, and a table named like a family.
        assert_eq!(
            made("SELECT 1 FROM a WHERE NOT (key IN (SELECT tag.key FROM b tag))"),
            "WITH __in_1_set AS (SELECT DISTINCT key AS __in_1 FROM (SELECT tag.key FROM b tag) AS __in_1_rows) SELECT 1 FROM a WHERE key NOT IN (SELECT __in_1 FROM __in_1_set)"
        );
        let several = "SELECT 1 FROM a WHERE key IN (SELECT * FROM b) AND x IN (SELECT key, day FROM b)";
        assert_eq!(made(several), several);
    }

    /// A name stands behind those that it depends on, and before those that depend on it.
    #[test]
    fn generated_names_follow_their_dependencies() {
        let nested = made(
            "WITH t AS (SELECT key FROM c WHERE x IN (SELECT x FROM d)) SELECT 1 FROM a WHERE key IN (SELECT key FROM t WHERE y IN (SELECT y FROM b))",
        );
        let names = ["__in_1_set AS", ", t AS", ", __in_2_set AS", ", __in_3_set AS"]
            .map(|name| nested.find(name).unwrap());
        assert!(names.is_sorted(), "{nested}");
        assert!(nested.ends_with("SELECT 1 FROM a WHERE key IN (SELECT __in_3 FROM __in_3_set)"), "{nested}");
    }
}
