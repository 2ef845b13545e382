//! Names that a statement gives to columns. A column of such a name may hold other values than the column of the table.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::ast::{
    Expr, Ident, Query, RenameSelectItem, Select, SelectItem, TableAlias, TableFactor, Visitor,
    WildcardAdditionalOptions,
};

use super::{rewrite::is_family, same::last_name, walk::walk};

/// Returns the names that a statement gives: `month` of `select substr(release, 1, 7) as month`.
pub(super) fn named(query: &Query) -> BTreeSet<String> {
    let mut names = Names::default();
    // The walk never breaks.
    _ = walk(query, &mut names);
    names.0
}

/// Returns the first name that a SELECT has for two columns.
pub(super) fn twice(select: &Select) -> Option<&str> {
    let mut names = BTreeSet::new();
    select.projection.iter().find_map(|item| {
        let name = match item {
            SelectItem::ExprWithAlias { alias, .. } => alias,
            SelectItem::UnnamedExpr(expr) => last_name(expr)?,
            _ => return None,
        };
        (!names.insert(&name.value)).then_some(name.value.as_str())
    })
}

#[derive(Default)]
struct Names(BTreeSet<String>);

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        with.for_each(|table| self.add_columns(&table.alias));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } = factor
        {
            self.add_columns(alias);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { expr, alias } if is_of_table(expr, alias) => {}
                SelectItem::ExprWithAlias { alias, .. } => self.add(alias),
                SelectItem::ExprWithAliases { aliases, .. } => {
                    aliases.iter().for_each(|alias| self.add(alias))
                }
                SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                    self.add_changed(options);
                }
                SelectItem::UnnamedExpr(_) => {}
            }
        }
        ControlFlow::Continue(())
    }
}

impl Names {
    fn add(&mut self, name: &Ident) {
        self.0.insert(name.value.clone());
    }

    /// Adds the columns of `t(day, n)`.
    fn add_columns(&mut self, alias: &TableAlias) {
        alias.columns.iter().for_each(|column| self.add(&column.name));
    }

    /// Adds the columns of `* rename (label as day)` and of `* replace (label as day)`.
    fn add_changed(&mut self, options: &WildcardAdditionalOptions) {
        match &options.opt_rename {
            Some(RenameSelectItem::Single(one)) => self.add(&one.alias),
            Some(RenameSelectItem::Multiple(all)) => all.iter().for_each(|one| self.add(&one.alias)),
            None => {}
        }
        let replaced = options.opt_replace.iter().flat_map(|replaced| &replaced.items);
        replaced.for_each(|one| self.add(&one.column_name));
    }
}

/// Returns true if a column already has the name given to it: `p.day as day`, but not `tag.day as day`.
fn is_of_table(expr: &Expr, alias: &Ident) -> bool {
    match expr {
        Expr::Identifier(name) => name.value == alias.value,
        Expr::CompoundIdentifier(idents) => {
            matches!(idents.as_slice(), [.., of, name] if name.value == alias.value && !is_family(&of.value))
        }
        _ => false,
    }
}
