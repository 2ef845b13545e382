//! Conditions of ON. Polars joins by equalities of both tables, takes any column of another condition for one of the left table,
//! and makes an inner join of any join with `<` or `<>`. So ON keeps the equalities; other conditions of an inner join move to
//! WHERE, and other conditions on the right table of an outer join choose the rows of that table.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::{
    ast::{
        BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, Select, SetExpr, TableFactor,
        TableWithJoins,
    },
    dialect::GenericDialect,
    parser::Parser,
};

use super::{
    columns::{Named, of_table},
    functions,
    operators::{constraint, is_inner, is_of_right_rows, name_of},
    rewrite::is_column,
    tables::Table,
    walk::expressions,
};

/// Rewrites each join of a SELECT into one that polars reads as SQL does.
///
/// # Errors
/// A suggestion for a condition that no such join supports.
pub(super) fn in_words(select: &mut Select, named: &Named) -> Result<(), String> {
    without_commas(select, named)?;
    let Some(from) = select.from.first_mut() else { return Ok(()) };
    for condition in chain(from, named, true)? {
        select.selection = Some(match select.selection.take() {
            Some(before) => both(in_parentheses(before), condition),
            None => condition,
        });
    }
    Ok(())
}

/// Rewrites tables behind commas into joins: by the equalities of both in WHERE, else of all rows.
fn without_commas(select: &mut Select, named: &Named) -> Result<(), String> {
    if select.from.len() < 2 {
        return Ok(());
    }
    let rest = select.from.split_off(1);
    if rest.iter().flat_map(|from| &from.joins).any(|join| is_of_right_rows(&join.join_operator)) {
        return Err("RIGHT and FULL JOIN stand behind no comma; write JOIN in its place".to_owned());
    }
    let Some(first) = select.from.first_mut() else { return Ok(()) };
    let mut tables = Tables(Vec::new());
    tables.add(&first.relation, named);
    first.joins.iter().for_each(|join| tables.add(&join.relation, named));
    let mut conditions = Vec::new();
    if let Some(selection) = select.selection.take() {
        conjuncts(selection, &mut conditions);
    }
    for TableWithJoins { relation, joins } in rest {
        tables.add(&relation, named);
        // A column without a table may belong to a later table.
        let part = |said: Expr| if names_tables(&said) { tables.part(said) } else { Part::Other(said) };
        let (equal, others) = conditions.into_iter().map(part).partition::<Vec<_>, _>(Part::is_equality);
        conditions = others.into_iter().map(Part::into_expr).collect();
        let join_operator = match equal.into_iter().map(Part::into_expr).reduce(both) {
            Some(on) => JoinOperator::Inner(JoinConstraint::On(on)),
            None => JoinOperator::CrossJoin(JoinConstraint::None),
        };
        first.joins.push(Join { relation, global: false, join_operator });
        joins.iter().for_each(|join| tables.add(&join.relation, named));
        first.joins.extend(joins);
    }
    select.selection = conditions.into_iter().map(in_parentheses).reduce(both);
    Ok(())
}

/// Rewrites a table and its joins, and returns the conditions to move to WHERE.
fn chain(from: &mut TableWithJoins, named: &Named, has_where: bool) -> Result<Vec<Expr>, String> {
    let mut tables = Tables(Vec::new());
    within(&mut from.relation, named)?;
    tables.add(&from.relation, named);
    // WHERE would drop rows that such a join adds, while ON does not.
    let last = from.joins.iter().rposition(|join| is_of_right_rows(&join.join_operator));
    let mut moved = Vec::new();
    for (at, Join { relation, join_operator, .. }) in from.joins.iter_mut().enumerate() {
        within(relation, named)?;
        tables.add(relation, named);
        let name = name_of(join_operator);
        if matches!(join_operator, JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_)) {
            return Err(format!("{name} is not admitted; write the tables the other way round"));
        }
        let has_where = has_where && last.is_none_or(|last| last < at);
        let (is_inner, is_right) = (is_inner(join_operator), is_of_right_rows(join_operator));
        let Some(JoinConstraint::On(on)) = constraint(join_operator) else { continue };
        let Said { equal, of_right, others } = tables.said(on)?;
        if is_inner && has_where {
            moved.extend(of_right.into_iter().chain(others).map(in_parentheses));
        } else if let Some(other) = others.first() {
            return Err(no_place(name, other));
        } else if let Some(other) = of_right.first() {
            let by_query = if is_right { None } else { chosen(relation, &of_right) };
            *relation = by_query.ok_or_else(|| no_place(name, other))?;
        }
        match equal.into_iter().reduce(both) {
            Some(equal) => *on = equal,
            None if is_inner => *join_operator = JoinOperator::CrossJoin(JoinConstraint::None),
            None => {
                return Err(format!(
                    "ON of {name} takes an equality of columns of both tables, as `a.key = b.key`"
                ));
            }
        }
    }
    Ok(moved)
}

/// Rewrites a join in parentheses, which has no WHERE of its own.
fn within(relation: &mut TableFactor, named: &Named) -> Result<(), String> {
    match relation {
        TableFactor::NestedJoin { table_with_joins, .. } => chain(table_with_joins, named, false).map(drop),
        _ => Ok(()),
    }
}

fn no_place(join: &str, condition: &Expr) -> String {
    format!(
        "ON of {join} takes equalities of columns of both tables, as `a.key = b.key`, and no `{condition}`; choose the rows of a \
         table by a query in its place, as in `{join} (select * from outcomes where label = 'late') b`"
    )
}

/// Returns `select * from TABLE where ...` in place of a table; `None`, if it has no name of its own.
fn chosen(relation: &TableFactor, conditions: &[Expr]) -> Option<TableFactor> {
    let (TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. }) = relation else {
        return None;
    };
    let name = &alias.as_ref()?.name;
    if Table::named(&name.value).is_some() {
        return None;
    }
    let holds: Vec<String> = conditions.iter().map(|condition| format!("({condition})")).collect();
    let text = format!("select * from (select * from {relation} where {}) as {name}", holds.join(" and "));
    let query = Parser::new(&GenericDialect).try_with_sql(&text).ok()?.parse_query().ok()?;
    let SetExpr::Select(select) = *query.body else { return None };
    select.from.into_iter().next().map(|from| from.relation)
}

/// The parts of ON.
#[derive(Default)]
struct Said {
    /// Equalities of the tables before and the joined one, in this order.
    equal: Vec<Expr>,
    /// Conditions on the joined table alone.
    of_right: Vec<Expr>,
    others: Vec<Expr>,
}

enum Part {
    Equal(Expr),
    Other(Expr),
}

impl Part {
    fn is_equality(&self) -> bool {
        matches!(self, Self::Equal(_))
    }

    fn into_expr(self) -> Expr {
        let (Self::Equal(expr) | Self::Other(expr)) = self;
        expr
    }
}

/// The tables that an expression refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Neither,
    Before,
    Joined,
    Both,
    /// A column without a table may belong to several.
    Unknown,
}

impl Side {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Neither, side) | (side, Self::Neither) => side,
            (one, other) if one == other => one,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            _ => Self::Both,
        }
    }
}

/// The tables up to the joined one, each with its name and its columns, if these are known.
struct Tables(Vec<(String, Option<BTreeSet<String>>)>);

impl Tables {
    fn add(&mut self, relation: &TableFactor, named: &Named) {
        self.0.push(of_table(relation, named));
    }

    /// Returns the side of a table: the last one is the joined one.
    fn side_at(&self, at: usize) -> Side {
        if at + 1 == self.0.len() { Side::Joined } else { Side::Before }
    }

    fn side_of_column(&self, idents: &[Ident]) -> Side {
        if let [table, _, ..] = idents
            && let Some(at) = self.0.iter().position(|(name, _)| *name == table.value)
        {
            return self.side_at(at);
        }
        let may_have = |columns: &Option<BTreeSet<String>>| match (columns, idents) {
            (Some(columns), [name]) => columns.contains(&name.value),
            // A member of a family may belong to any table.
            _ => true,
        };
        let mut having = self.0.iter().enumerate().filter(|(_, (_, columns))| may_have(columns));
        match (having.next(), having.next()) {
            (Some((at, _)), None) => self.side_at(at),
            _ => Side::Unknown,
        }
    }

    fn side(&self, expr: &Expr) -> Side {
        let mut side = Side::Neither;
        // The walk never breaks.
        _ = expressions(expr, |expr| {
            side = side.and(match expr {
                Expr::Identifier(name) => self.side_of_column(std::slice::from_ref(name)),
                Expr::CompoundIdentifier(idents) => self.side_of_column(idents),
                Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => Side::Both,
                _ => Side::Neither,
            });
            ControlFlow::<()>::Continue(())
        });
        side
    }

    /// Classifies a condition; an equality of the tables before and the joined one is put in this order.
    fn part(&self, expr: Expr) -> Part {
        let (left, right) = match expr {
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => (left, right),
            other => return Part::Other(other),
        };
        let equal = |left, right| Expr::BinaryOp { left, op: BinaryOperator::Eq, right };
        match (self.side(&left), self.side(&right)) {
            (Side::Before, Side::Joined) => Part::Equal(equal(left, right)),
            (Side::Joined, Side::Before) => Part::Equal(equal(right, left)),
            _ => Part::Other(equal(left, right)),
        }
    }

    fn said(&self, on: &Expr) -> Result<Said, String> {
        let (mut parts, mut said) = (Vec::new(), Said::default());
        conjuncts(on.clone(), &mut parts);
        for part in parts {
            if has_function_of_rows(&part) {
                return Err(format!("ON has no place for `{part}`, which is of several rows"));
            }
            match self.part(part) {
                Part::Equal(expr) => said.equal.push(expr),
                Part::Other(expr) if is_of_columns(&expr) && self.side(&expr) == Side::Unknown => {
                    return Err(format!(
                        "`{expr}` in ON: write the tables of both columns, as in `a.key = b.key`"
                    ));
                }
                Part::Other(expr) if self.side(&expr) == Side::Joined => said.of_right.push(expr),
                Part::Other(expr) => said.others.push(expr),
            }
        }
        Ok(said)
    }
}

/// Returns true if it is an equality of two columns.
fn is_of_columns(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => is_column(left) && is_column(right),
        _ => false,
    }
}

/// Returns true if each column is qualified by its table.
fn names_tables(expr: &Expr) -> bool {
    let is_bare = |expr: &Expr| match expr {
        Expr::Identifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    expressions(expr, is_bare).is_continue()
}

fn has_function_of_rows(expr: &Expr) -> bool {
    let is_of_rows = |expr: &Expr| match expr {
        Expr::Function(function) if functions::is_of_rows(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    expressions(expr, is_of_rows).is_break()
}

/// Splits a conjunction into its parts, without the parentheses around each.
fn conjuncts(expr: Expr, parts: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(*left, parts);
            conjuncts(*right, parts);
        }
        Expr::Nested(inner) => conjuncts(*inner, parts),
        part => parts.push(part),
    }
}

fn in_parentheses(expr: Expr) -> Expr {
    match expr {
        Expr::Nested(_) | Expr::BinaryOp { op: BinaryOperator::And, .. } => expr,
        other => Expr::Nested(Box::new(other)),
    }
}

fn both(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}
