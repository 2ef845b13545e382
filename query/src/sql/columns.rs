//! Columns of the tables of a statement, as far as they are known from the table or the statement.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use sqlparser::ast::{
    Expr, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    WildcardAdditionalOptions,
};

use super::{
    operators::{has_once, is_of_left_columns},
    rewrite::is_family,
    tables::Table,
    walk::expressions,
};

/// The columns of a table; `None`, if they are unknown before polars plans the statement.
type Columns = Option<BTreeSet<String>>;

/// The columns of the tables named by WITH.
pub(super) type Named = BTreeMap<String, Columns>;

/// Returns the tables named by WITH.
pub(super) fn named_by_with(query: &Query) -> Named {
    let mut named = Named::new();
    for table in query.with.iter().flat_map(|with| &with.cte_tables) {
        let given: BTreeSet<String> =
            table.alias.columns.iter().map(|column| column.name.value.clone()).collect();
        let columns = if given.is_empty() { shown(&table.query, &named) } else { Some(given) };
        named.insert(table.alias.name.value.clone(), columns);
    }
    named
}

/// Returns the name of a table in a SELECT, and its columns.
pub(super) fn of_table(relation: &TableFactor, named: &Named) -> (String, Columns) {
    let (alias, name, columns) = match relation {
        TableFactor::Table { name, alias, .. } => {
            let name = name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.clone());
            let name = name.unwrap_or_default();
            let columns = match named.get(&name) {
                Some(columns) => columns.clone(),
                None => Table::named(&name).map(columns_of),
            };
            (alias, name, columns)
        }
        TableFactor::Derived { alias, subquery, .. } => (alias, String::new(), shown(subquery, named)),
        TableFactor::NestedJoin { alias, .. } => (alias, String::new(), None),
        _ => return (String::new(), None),
    };
    let Some(alias) = alias else { return (name, columns) };
    let given: BTreeSet<String> = alias.columns.iter().map(|column| column.name.value.clone()).collect();
    let columns = if given.is_empty() { columns } else { Some(given) };
    (alias.name.value.clone(), columns)
}

/// The number of tables of a SELECT that have a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    None,
    One,
    Several,
    /// No table with known columns has it, and there are tables with unknown ones.
    Unknown,
}

impl Tables {
    /// Counts the tables with a column of this name. Any table may have a column named like a member of a family.
    pub(super) fn having(name: &str, select: &Select, named: &Named) -> Self {
        if name.split_once('.').is_some_and(|(family, _)| is_family(family)) {
            return Self::One;
        }
        let (mut having, mut is_known) = (0, true);
        let mut look = |relation: &TableFactor| match of_table(relation, named).1 {
            Some(columns) => having += usize::from(columns.contains(name)),
            None => is_known = false,
        };
        for from in &select.from {
            look(&from.relation);
            for join in &from.joins {
                if !is_of_left_columns(&join.join_operator) && !has_once(&join.join_operator, name) {
                    look(&join.relation);
                }
            }
        }
        match having {
            0 if is_known => Self::None,
            0 => Self::Unknown,
            1 => Self::One,
            _ => Self::Several,
        }
    }

    /// Returns true if a table is known to have it.
    pub(super) fn is_any(self) -> bool {
        matches!(self, Self::One | Self::Several)
    }
}

/// Returns the names of the columns that a query returns, if it names all of them.
fn shown(query: &Query, named: &Named) -> Columns {
    let mut body = &*query.body;
    let select = loop {
        match body {
            SetExpr::Select(select) => break select,
            // A set operation takes the names of its first query.
            SetExpr::SetOperation { left, .. } => body = left,
            SetExpr::Query(query) => body = &query.body,
            _ => return None,
        }
    };
    let mut names = BTreeSet::new();
    for item in &select.projection {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => _ = names.insert(alias.value.clone()),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => _ = names.insert(name.value.clone()),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(idents)) => match idents.as_slice() {
                // A member of a family is named with its family too.
                [.., family, name] if is_family(&family.value) => {
                    _ = names.insert(format!("{family}.{name}"));
                }
                [.., name] => _ = names.insert(name.value.clone()),
                [] => {}
            },
            // A computed column has no name that can be written without quotes.
            SelectItem::UnnamedExpr(_) => {}
            SelectItem::Wildcard(options) => names.extend(all(select, None, options, named)?),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options) => {
                let table = table.0.last()?.as_ident()?;
                names.extend(all(select, Some(&table.value), options, named)?);
            }
            _ => return None,
        }
    }
    Some(names)
}

/// Returns the columns of `*`, of all tables of a SELECT or of one.
fn all(select: &Select, of: Option<&str>, options: &WildcardAdditionalOptions, named: &Named) -> Columns {
    if *options != WildcardAdditionalOptions::default() {
        return None;
    }
    let mut names = BTreeSet::new();
    for from in &select.from {
        let joined = from.joins.iter().filter(|join| !is_of_left_columns(&join.join_operator));
        for relation in std::iter::once(&from.relation).chain(joined.map(|join| &join.relation)) {
            let (name, columns) = of_table(relation, named);
            if of.is_none_or(|of| of == name) {
                names.extend(columns?);
            }
        }
    }
    Some(names)
}

fn columns_of(table: Table) -> BTreeSet<String> {
    table.columns().into_iter().map(|(name, _)| name.to_owned()).collect()
}

/// Returns the tables of a SELECT, in their order.
pub(super) fn relations(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)))
}

/// Removes members of families from the projection behind `*`, as `*` of tables has each member that the statement names.
pub(super) fn members_once(select: &mut Select) {
    let all = |item: &SelectItem| match item {
        SelectItem::Wildcard(options) => *options == WildcardAdditionalOptions::default(),
        SelectItem::QualifiedWildcard(_, options) => {
            let is_of_one = matches!(&select.from[..], [from] if from.joins.is_empty());
            is_of_one && *options == WildcardAdditionalOptions::default()
        }
        _ => false,
    };
    let Some(first) = select.projection.iter().position(all) else { return };
    let tables: Vec<Table> = relations(select)
        .filter_map(|relation| match relation {
            TableFactor::Table { name, .. } => Table::named(&name.0.last()?.as_ident()?.value),
            _ => None,
        })
        .collect();
    let is_shown = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(Expr::Identifier(name)) if tables.iter().any(|table| table.family(&name.value).is_some()));
    let mut behind = select.projection.split_off(first);
    behind.retain(|item| !is_shown(item));
    select.projection.append(&mut behind);
}

/// Returns the names of columns that a statement may use.
pub(super) fn names_of_columns(query: &Query) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // The walk never breaks.
    _ = expressions(query, |expr| {
        match expr {
            Expr::Identifier(ident) => names.extend([ident.value.clone()]),
            Expr::CompoundIdentifier(idents) => names.extend(idents.last().map(|ident| ident.value.clone())),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    names
}
