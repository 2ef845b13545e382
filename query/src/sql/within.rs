//! Queries within conditions. Polars reads all days of a table beside `key in (select ...)`, so a condition that must hold becomes a join with
//! what the query finds, each value once. Other queries within expressions polars does not know; what to write in their place is said.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Ident, Join, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableFactor, TableWithJoins, Visit, VisitMut, Visitor, VisitorMut,
};

use super::{
    on::{both, conjuncts, in_parentheses},
    operators::{is_choice, name_of},
    rewrite::is_column,
    text::read,
};

/// What the columns and tables are called that are made here, before their numbers.
const NAME: &str = "in_";

/// Makes joins of `column in (select ...)`, and refuses what no join says.
///
/// # Errors
/// What to write in the place of a query that is not admitted.
pub(super) fn as_joins(query: &mut Query) -> Result<(), String> {
    if let ControlFlow::Break(why) = Visit::visit(query, &mut Joins) {
        return Err(why);
    }
    let mut within = Within { made: 0 };
    if let ControlFlow::Break(why) = VisitMut::visit(query, &mut within) {
        return Err(why);
    }
    match Visit::visit(query, &mut Rest) {
        ControlFlow::Break(why) => Err(why),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Refuses joins that polars does not have here.
struct Joins;

impl Visitor for Joins {
    type Break = String;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<String> {
        let joins = select.from.iter().flat_map(|from| &from.joins);
        match joins.map(|join| &join.join_operator).find(|join| is_choice(join)) {
            Some(join) => ControlFlow::Break(format!(
                "{} is not admitted; write `where a.key in (select key from ...)`, or `left join ... where b.key is null` for what it lacks",
                name_of(join)
            )),
            None => ControlFlow::Continue(()),
        }
    }
}

/// Makes joins, those of the innermost queries first.
struct Within {
    made: usize,
}

impl VisitorMut for Within {
    type Break = String;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<String> {
        match self.joined(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => ControlFlow::Break(why),
        }
    }
}

impl Within {
    fn joined(&mut self, select: &mut Select) -> Result<(), String> {
        let Some(selection) = select.selection.take() else { return Ok(()) };
        let mut parts = Vec::new();
        conjuncts(selection.clone(), &mut parts);
        let is_made = |part: &Expr| matches!(part, Expr::InSubquery { negated: false, .. });
        if !parts.iter().any(is_made) {
            select.selection = Some(selection);
            return Ok(());
        }
        let (made, kept): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_made);
        qualify_wildcards(select)?;
        let owner = only_table(select);
        for part in made {
            let Expr::InSubquery { expr, subquery, .. } = part else { continue };
            self.made += 1;
            let join = join(&column_of(&expr, owner.as_ref())?, *subquery, &format!("{NAME}{}", self.made))?;
            if let Some(from) = select.from.last_mut() {
                from.joins.push(join);
            }
        }
        select.selection = kept.into_iter().map(in_parentheses).reduce(both);
        Ok(())
    }
}

/// The join with what a query finds, whose one column is called `name` in it.
fn join(column: &Expr, mut query: Query, name: &str) -> Result<Join, String> {
    let SetExpr::Select(select) = &mut *query.body else {
        return Err(format!(
            "`{column} in (...)` takes one SELECT; name a union by WITH, and select from it"
        ));
    };
    let alias = Ident::new(name);
    match &mut select.projection[..] {
        [item @ (SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })] => {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item.clone()
            else {
                return Err(too_many(column));
            };
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
        _ => return Err(too_many(column)),
    }
    let text = format!(
        "select 1 from a join (select distinct {name} from ({query}) as {name}_rows) as {name}_set on {column} = {name}_set.{name}"
    );
    let made = read(&text).and_then(|query| match *query.body {
        SetExpr::Select(mut select) => select.from.pop()?.joins.pop(),
        _ => None,
    });
    made.ok_or_else(|| format!("`{column} in (...)` cannot be put into other words; join the tables"))
}

fn too_many(column: &Expr) -> String {
    format!("`{column} in (select ...)` takes a query of one column that is named")
}

/// What a table is called in its SELECT.
fn called(relation: &TableFactor) -> Option<Ident> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

/// What the one table of a SELECT is called.
fn only_table(select: &Select) -> Option<Ident> {
    match &select.from[..] {
        [TableWithJoins { relation, joins }] if joins.is_empty() => called(relation),
        _ => None,
    }
}

/// A column with the table that it is of.
fn column_of(expr: &Expr, owner: Option<&Ident>) -> Result<Expr, String> {
    let idents = match expr {
        Expr::Identifier(name) => vec![name.clone()],
        Expr::CompoundIdentifier(idents) => idents.clone(),
        _ if !is_column(expr) => {
            return Err(format!(
                "`{expr} in (select ...)` takes a column; compute it in a query of its own, named by WITH"
            ));
        }
        _ => Vec::new(),
    };
    match owner {
        Some(owner) if idents.first().is_some_and(|first| first.value != owner.value) => {
            Ok(Expr::CompoundIdentifier(std::iter::once(owner.clone()).chain(idents).collect()))
        }
        None if idents.len() == 1 => {
            Err(format!("say of which table `{expr}` is, as in `a.{expr} in (...)`"))
        }
        _ => Ok(expr.clone()),
    }
}

/// Says of `*` which tables it is of, so that it has no column of what is joined.
fn qualify_wildcards(select: &mut Select) -> Result<(), String> {
    let tables = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let tables: Option<Vec<Ident>> = tables.map(called).collect();
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        let SelectItem::Wildcard(options) = item else {
            projection.push(item.clone());
            continue;
        };
        match tables.as_deref() {
            Some([table]) => {
                let of = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![table.clone()]));
                projection.push(SelectItem::QualifiedWildcard(of, options.clone()));
            }
            _ => return Err("`*` beside `in (select ...)` takes one table; name the columns".to_owned()),
        }
    }
    select.projection = projection;
    Ok(())
}

/// Refuses what is left of queries within expressions.
struct Rest;

impl Visitor for Rest {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        ControlFlow::Break(match expr {
            Expr::InSubquery { expr, negated: true, .. } => format!(
                "`{expr} not in (select ...)` is not admitted; write `left join (select distinct ...) b on ... where b.{expr} is null`"
            ),
            Expr::InSubquery { expr, .. } => format!(
                "`{expr} in (select ...)` stands among the conditions of WHERE that must all hold, and nowhere else"
            ),
            Expr::Exists { .. } => {
                "EXISTS is not admitted; write `key in (select key from ...)`, or join the tables".to_owned()
            }
            Expr::Tuple(_) => {
                "lists in parentheses are not admitted; compare each column by itself".to_owned()
            }
            Expr::BinaryOp { left, right, .. }
                if [left, right].into_iter().any(|side| matches!(**side, Expr::Subquery(_))) =>
            {
                "a query within a comparison is not admitted; name it by WITH, and write `cross join` of that name"
                    .to_owned()
            }
            _ => return ControlFlow::Continue(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> Result<String, String> {
        let mut query = read(text).unwrap();
        as_joins(&mut query).map(|()| query.to_string())
    }

    #[test]
    fn what_is_in_a_query_is_joined_with_each_value_once() {
        let set = |query: &str, n: u32| {
            format!("(SELECT DISTINCT in_{n} FROM ({query}) AS in_{n}_rows) AS in_{n}_set")
        };
        let late = "SELECT key AS in_1 FROM outcomes WHERE day = '2026-06-01'";
        assert_eq!(
            made("select score from predictions where day = '2026-06-01' and key in (select key from outcomes where day = '2026-06-01')")
                .unwrap(),
            format!(
                "SELECT score FROM predictions JOIN {} ON predictions.key = in_1_set.in_1 WHERE (day = '2026-06-01')",
                set(late, 1)
            )
        );
        // The table by its other name, `*` without what is joined, and a member of a family.
        assert_eq!(
            made("select * from predictions p where tag.city in (select max(label) as m from outcomes)")
                .unwrap(),
            format!(
                "SELECT p.* FROM predictions p JOIN {} ON p.tag.city = in_1_set.in_1",
                set("SELECT max(label) AS in_1 FROM outcomes", 1)
            )
        );
        // Of several tables, and a query within a query.
        let inner = format!(
            "SELECT b.key AS in_2 FROM outcomes b JOIN {} ON b.label = in_1_set.in_1",
            set("SELECT label AS in_1 FROM outcomes LIMIT 1", 1)
        );
        assert_eq!(
            made("select a.key from predictions a join outcomes o on a.key = o.key where a.key in (select b.key from outcomes b where b.label in (select label from outcomes limit 1))")
                .unwrap(),
            format!(
                "SELECT a.key FROM predictions a JOIN outcomes o ON a.key = o.key JOIN {} ON a.key = in_2_set.in_2",
                set(&inner, 2)
            )
        );
        let plain = "SELECT key FROM predictions WHERE key IN ('a', 'b')";
        assert_eq!(made(plain).unwrap(), plain);
    }

    #[test]
    fn what_no_join_says_is_refused_with_what_to_write() {
        for (text, says) in [
            ("select 1 from predictions where key not in (select key from outcomes)", "not in (select"),
            (
                "select 1 from predictions where score > 1 or key in (select key from outcomes)",
                "must all hold",
            ),
            ("select 1 from predictions where key in (select key, day from outcomes)", "one column"),
            ("select 1 from predictions where key in (select * from outcomes)", "one column"),
            ("select 1 from predictions where upper(key) in (select key from outcomes)", "takes a column"),
            (
                "select 1 from predictions where key in (select key from outcomes union select key from predictions)",
                "one SELECT",
            ),
            (
                "select 1 from predictions a join outcomes b on a.key = b.key where key in (select key from outcomes)",
                "of which table",
            ),
            (
                "select * from predictions a join outcomes b on a.key = b.key where a.key in (select key from outcomes)",
                "takes one table",
            ),
            ("select 1 from predictions where exists (select 1 from outcomes)", "EXISTS"),
            ("select 1 from predictions where (key, day) in (('a', 'b'))", "lists in parentheses"),
            ("select 1 from predictions where score > (select avg(score) from predictions)", "by WITH"),
            (
                "select 1 from predictions a left semi join outcomes b on a.key = b.key",
                "semi join is not admitted",
            ),
            (
                "select 1 from predictions a left anti join outcomes b on a.key = b.key",
                "anti join is not admitted",
            ),
        ] {
            let why = made(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
