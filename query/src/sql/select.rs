//! Translation of one SELECT: conditions, groups, window functions, select list and order.

use std::collections::BTreeSet;

use event::{Kind, fields::FieldType};
use polars::prelude::{Expr, LazyFrame, NULL, UniqueKeepStrategy, col, lit, when};
use sqlparser::ast::{
    Distinct, ExcludeSelectItem, Expr as Ast, GroupByExpr, Ident, NamedWindowExpr, ObjectName, OrderBy,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, UnaryOperator,
    WildcardAdditionalOptions,
};

use super::{
    expressions::{Made, Scope, has_aggregate},
    frames::{Frame, Frames, bare, conjuncts, is_key, is_of, is_of_any, number, sorted},
    rows::{Aggregate, Groups, Over, direction},
    tables::Table,
};
use crate::{
    events::DAY,
    groups::{Groups as Segments, Measure},
    request::Dataset,
    row_filter::KEY,
};

/// Translated parts of a SELECT.
struct Parts {
    /// Expressions of the select list, by their names.
    shown: Vec<(String, Expr)>,
    order: Vec<Expr>,
    directions: Vec<(bool, bool)>,
    having: Option<Expr>,
    qualify: Option<Expr>,
    groups: Option<Groups>,
    windows: Vec<Over>,
    scalars: Vec<LazyFrame>,
}

impl Frames {
    /// Returns the rows of a SELECT, in the order of its query.
    pub(super) fn select(&mut self, select: &Select, order: Option<&OrderBy>) -> Made<Frame> {
        check(select)?;
        let outer = std::mem::take(&mut self.windows);
        for window in &select.named_window {
            match &window.1 {
                NamedWindowExpr::WindowSpec(spec) => {
                    self.windows.push((window.0.value.clone(), spec.clone()))
                }
                NamedWindowExpr::NamedWindow(of) => return Err(format!("write out the window `{of}`")),
            }
        }
        let mut conditions = Vec::new();
        if let Some(selection) = &select.selection {
            conjuncts(selection, &mut conditions);
        }
        let base = self.from(&select.from, &mut conditions)?;
        let (frame, holds) = self.chosen(&base, conditions)?;
        let frame = self.made(&base, (frame, &holds), select, order);
        self.windows = outer;
        frame
    }

    /// Returns the rows of a SELECT from the rows of its tables that meet its conditions.
    pub(super) fn made(
        &mut self,
        base: &Frame,
        (frame, holds): (LazyFrame, &[Option<Expr>]),
        select: &Select,
        order: Option<&OrderBy>,
    ) -> Made<Frame> {
        let is_distinct = select.distinct == Some(Distinct::Distinct);
        let parts = self.parts(base, select, order)?;
        self.width = self.width.max(select.projection.len() + parts.windows.len() * Over::COLUMNS);
        self.is_shuffled |= parts.groups.is_some() || !parts.windows.is_empty();
        let is_single =
            parts.groups.as_ref().is_some_and(|groups| groups.keys.is_empty()) && parts.having.is_none();
        let mut frame = match &parts.groups {
            Some(groups) => match base.events.and_then(|kind| of_segments(kind, holds, groups)) {
                Some((segments, groups)) => {
                    let table = self.table(Table::Of(Dataset::Events(segments.kind)), Some(segments))?.lazy;
                    groups.of(holds.iter().flatten().cloned().fold(table, LazyFrame::filter))
                }
                None => groups.of(frame),
            },
            None => frame,
        };
        for scalar in parts.scalars {
            frame = frame.cross_join(scalar, None);
        }
        if let Some(having) = parts.having {
            frame = frame.filter(having);
        }
        for (at, over) in parts.windows.iter().enumerate() {
            frame = over.of(at, frame);
        }
        if let Some(qualify) = parts.qualify {
            frame = frame.filter(qualify);
        }
        let frame = shown(frame, parts.shown, parts.order, &parts.directions, is_distinct);
        Ok(Frame { is_single, ..Frame::made(frame, base.reads)? })
    }

    /// Filters a frame by conditions. Returns it with the expression of each condition; `None` for one that needs a
    /// subquery.
    fn chosen(&mut self, base: &Frame, conditions: Vec<Ast>) -> Made<(LazyFrame, Vec<Option<Expr>>)> {
        let (mut frame, mut holds, mut later) = (base.lazy.clone(), Vec::new(), Vec::new());
        for condition in conditions {
            if let Some(of_query) = OfQuery::of(&condition) {
                later.push(of_query);
                holds.push(None);
                continue;
            }
            let mut scope = Scope::new(self, &base.columns);
            let made = scope.expr(&condition)?;
            let scalars = std::mem::take(&mut scope.scalars);
            if scalars.is_empty() {
                frame = frame.filter(made.clone());
                holds.push(Some(made));
            } else {
                later.push(OfQuery::Scalar(scalars, made));
                holds.push(None);
            }
        }
        for of_query in later {
            frame = match of_query {
                OfQuery::Scalar(scalars, holds) => scalars
                    .into_iter()
                    .fold(frame, |frame, scalar| frame.cross_join(scalar, None))
                    .filter(holds),
                OfQuery::In(of, query, is_negated) => {
                    let of = Scope::new(self, &base.columns).expr(&of)?;
                    self.in_query(frame, &of, &query, is_negated)?
                }
                OfQuery::Exists(query, is_negated) => self.existing(frame, base, &query, is_negated)?,
            };
        }
        Ok((frame, holds))
    }

    /// Keeps the rows for which EXISTS holds. The subquery may name outer columns only in equalities with its own.
    fn existing(
        &mut self,
        frame: LazyFrame,
        base: &Frame,
        query: &Query,
        is_negated: bool,
    ) -> Made<LazyFrame> {
        let select = match &*query.body {
            SetExpr::Select(select) if query.with.is_none() && query.limit_clause.is_none() => select,
            _ => return Err(format!("EXISTS takes a SELECT of tables, and not `{query}`")),
        };
        check(select)?;
        let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
        let has_aggregates = select.projection.iter().any(|item| expr_of(item).is_some_and(has_aggregate));
        if is_grouped || has_aggregates || select.having.is_some() {
            return Err(format!("EXISTS takes a SELECT of single rows, and not `{query}`"));
        }
        let mut conditions = Vec::new();
        if let Some(selection) = &select.selection {
            conjuncts(selection, &mut conditions);
        }
        let inner = self.from(&select.from, &mut conditions)?;
        let (mut own, mut keys, mut outer) = (Vec::new(), Vec::new(), base.clone());
        // A name refers to one of the inner tables first.
        outer.columns.retain(|column| !inner.columns.iter().any(|other| other.table == column.table));
        for column in &mut outer.columns {
            column.is_bare &= !inner.columns.iter().any(|other| other.is_bare && other.name == column.name);
        }
        for condition in conditions {
            if !is_of_any(&condition, &outer) {
                own.push(condition);
            } else if is_key(&condition, &outer, &inner)
                && let Ast::BinaryOp { left, right, .. } = bare(&condition)
            {
                let (of_outer, of_inner) = if is_of(left, &outer) { (left, right) } else { (right, left) };
                let of_outer = Scope::new(self, &outer.columns).expr(of_outer)?;
                keys.push((of_outer, Scope::new(self, &inner.columns).expr(of_inner)?));
            } else {
                return Err(format!(
                    "a query of EXISTS names columns around it in equalities only, and not in `{condition}`"
                ));
            }
        }
        self.reads = self.reads.saturating_add(inner.reads);
        let (found, _) = self.chosen(&inner, own)?;
        Ok(self.matched(frame, found, keys, is_negated))
    }

    /// Translates the select list, GROUP BY and ORDER BY.
    fn parts(&mut self, base: &Frame, select: &Select, order: Option<&OrderBy>) -> Made<Parts> {
        let items = items(select, base)?;
        let order = match order.map(|order| &order.kind) {
            None => &[][..],
            Some(OrderByKind::Expressions(keys)) => keys,
            Some(OrderByKind::All(_)) => return Err("ORDER BY ALL is not admitted".to_owned()),
        };
        let mut scope = Scope::new(self, &base.columns);
        let given = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } => Some((alias.value.clone(), expr.clone())),
            _ => None,
        });
        scope.shown = given.collect();
        let keys = keys(select, &items)?;
        let mut all =
            items.iter().map(|(_, expr)| expr).chain(&select.having).chain(order.iter().map(|by| &by.expr));
        let is_grouped = keys.is_some() || select.having.is_some() || all.any(has_aggregate);
        let is_distinct = select.distinct == Some(Distinct::Distinct);
        if is_grouped {
            scope.groups = Some(scope.grouped(keys.unwrap_or_default())?);
        } else if is_distinct && !items.iter().any(|(_, expr)| has_window(expr)) {
            let distinct = items.iter().map(|(_, expr)| expr.clone()).collect();
            scope.groups = Some(scope.grouped(distinct)?);
        }
        let having = select.having.as_ref().map(|having| scope.expr(having)).transpose()?;
        scope.windows = Some(Vec::new());
        let mut shown = Vec::with_capacity(items.len());
        for (name, expr) in &items {
            if shown.iter().any(|(other, _)| other == name) {
                return Err(format!("two columns are called `{name}`; name one of both with AS"));
            }
            shown.push((name.clone(), scope.expr(expr)?));
        }
        let qualify = select.qualify.as_ref().map(|qualify| scope.expr(qualify)).transpose()?;
        let (mut by, mut directions) = (Vec::new(), Vec::new());
        for key in order {
            let named = match &key.expr {
                Ast::Identifier(name) => shown.iter().find(|(known, _)| *known == name.value),
                Ast::Nested(inner) => match bare(inner) {
                    Ast::Identifier(name) => shown.iter().find(|(known, _)| *known == name.value),
                    _ => None,
                },
                Ast::Value(_) => {
                    let at = number(&key.expr).and_then(|number| number.checked_sub(1));
                    let found = at.and_then(|at| shown.get(at));
                    Some(found.ok_or_else(|| {
                        format!("there is no column {} for ORDER BY; it shows {}", key.expr, shown.len())
                    })?)
                }
                _ => None,
            };
            let made = match named {
                Some((_, expr)) => expr.clone(),
                None => scope.expr(&key.expr)?,
            };
            if is_distinct && !shown.iter().any(|(_, expr)| *expr == made) {
                return Err(format!("SELECT DISTINCT has an order of what it shows; show `{}`", key.expr));
            }
            by.push(made);
            directions.push(direction(key));
        }
        let (groups, windows) = (scope.groups.take(), scope.windows.take().unwrap_or_default());
        let scalars = std::mem::take(&mut scope.scalars);
        Ok(Parts { shown, order: by, directions, having, qualify, groups, windows, scalars })
    }
}

impl Scope<'_, '_> {
    fn grouped(&mut self, keys: Vec<Ast>) -> Made<Groups> {
        let mut groups = Groups::default();
        for key in keys {
            if has_aggregate(&key) || has_window(&key) {
                return Err(format!(
                    "`{key}` of GROUP BY is made of several rows; compute it in a query of its own, named by WITH"
                ));
            }
            let made = self.expr(&key)?;
            if !groups.keys.contains(&made) {
                let kind = self.kind(&made);
                self.schema.with_column(Groups::key(groups.keys.len()).into(), kind);
                groups.keys.push(made);
            }
        }
        Ok(groups)
    }
}

/// A condition that needs a subquery.
enum OfQuery {
    In(Box<Ast>, Box<Query>, bool),
    Exists(Box<Query>, bool),
    Scalar(Vec<LazyFrame>, Expr),
}

impl OfQuery {
    fn of(condition: &Ast) -> Option<Self> {
        match condition {
            Ast::Nested(inner) => Self::of(inner),
            Ast::InSubquery { expr, subquery, negated } => {
                Some(Self::In(expr.clone(), subquery.clone(), *negated))
            }
            Ast::Exists { subquery, negated } => Some(Self::Exists(subquery.clone(), *negated)),
            Ast::UnaryOp { op: UnaryOperator::Not, expr } => match Self::of(expr)? {
                Self::In(expr, query, negated) => Some(Self::In(expr, query, !negated)),
                Self::Exists(query, negated) => Some(Self::Exists(query, !negated)),
                Self::Scalar(..) => None,
            },
            _ => None,
        }
    }
}

/// Refuses the parts of a SELECT that are not admitted.
fn check(select: &Select) -> Made<()> {
    let odd = [
        (select.into.is_some(), "SELECT INTO"),
        (select.top.is_some(), "TOP"),
        (select.exclude.is_some(), "EXCLUDE"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (
            !(select.cluster_by.is_empty() && select.distribute_by.is_empty() && select.sort_by.is_empty()),
            "SORT BY",
        ),
        (select.value_table_mode.is_some(), "SELECT AS"),
        (matches!(select.distinct, Some(Distinct::On(_))), "DISTINCT ON"),
    ];
    match odd.into_iter().find(|(is_there, _)| *is_there) {
        Some((_, name)) => Err(format!("{name} is not admitted")),
        None => Ok(()),
    }
}

fn expr_of(item: &SelectItem) -> Option<&Ast> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn has_window(expr: &Ast) -> bool {
    let found = super::admit::expressions(expr, |expr| match expr {
        Ast::Function(function) if function.over.is_some() => std::ops::ControlFlow::Break(()),
        _ => std::ops::ControlFlow::Continue(()),
    });
    found.is_some()
}

/// Returns the select list with its names: that of AS or of a column, else the text of the expression.
fn items(select: &Select, base: &Frame) -> Made<Vec<(String, Ast)>> {
    let mut items = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::ExprWithAlias { expr, alias } => items.push((alias.value.clone(), expr.clone())),
            SelectItem::UnnamedExpr(expr) => items.push((name_of(expr, base), expr.clone())),
            SelectItem::Wildcard(options) => all(None, options, base, &mut items)?,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options) => {
                all(Some(&table.to_string()), options, base, &mut items)?;
            }
            _ => return Err(format!("`{item}` is not admitted")),
        }
    }
    Ok(items)
}

fn name_of(expr: &Ast, base: &Frame) -> String {
    match expr {
        Ast::Identifier(name) => name.value.clone(),
        Ast::CompoundIdentifier(names) => {
            let last = names.last().map(|name| name.value.clone()).unwrap_or_default();
            let member = names.iter().rev().nth(1).map(|of| format!("{}.{last}", of.value));
            member.filter(|member| base.columns.iter().any(|column| column.name == *member)).unwrap_or(last)
        }
        expr => expr.to_string().replace('"', "'"),
    }
}

/// Returns a name without its quotes.
fn plain(name: &ObjectName) -> String {
    let parts: Vec<&str> = name.0.iter().filter_map(|part| Some(part.as_ident()?.value.as_str())).collect();
    parts.join(".")
}

/// Adds the columns of `*`, of all tables or of one.
fn all(
    of: Option<&str>,
    options: &WildcardAdditionalOptions,
    base: &Frame,
    items: &mut Vec<(String, Ast)>,
) -> Made<()> {
    let left_out: Vec<String> = match &options.opt_exclude {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![plain(name)],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(plain).collect(),
    };
    let replaced = options.opt_replace.iter().flat_map(|replaced| &replaced.items);
    let replaced: Vec<(&str, &Ast)> =
        replaced.map(|item| (item.column_name.value.as_str(), &item.expr)).collect();
    if options.opt_rename.is_some() || options.opt_except.is_some() || options.opt_ilike.is_some() {
        return Err("behind `*`, write EXCLUDE (...) or REPLACE (...)".to_owned());
    }
    let columns = base.columns.iter().filter(|column| match of {
        Some(table) => column.table == table && !column.is_member,
        None => column.is_bare && !column.is_member,
    });
    let before = items.len();
    for column in columns.filter(|column| !left_out.contains(&column.name)) {
        let quoted = |name: &String| Ident::with_quote('"', name.clone());
        let own = match column.table.as_str() {
            "" => Ast::Identifier(quoted(&column.name)),
            _ => Ast::CompoundIdentifier(vec![quoted(&column.table), quoted(&column.name)]),
        };
        let made =
            replaced.iter().find(|(name, _)| *name == column.name).map_or(own, |(_, made)| (*made).clone());
        items.push((column.name.clone(), made));
    }
    if items.len() == before { Err("`*` names no columns".to_owned()) } else { Ok(()) }
}

/// Returns the expressions of GROUP BY, with positions replaced by expressions of the select list; `None` without GROUP
/// BY.
fn keys(select: &Select, items: &[(String, Ast)]) -> Made<Option<Vec<Ast>>> {
    let by = match &select.group_by {
        GroupByExpr::Expressions(by, more) if more.is_empty() => by,
        GroupByExpr::All(more) if more.is_empty() => {
            let single = items.iter().filter(|(_, expr)| !has_aggregate(expr)).map(|(_, expr)| expr.clone());
            return Ok(Some(single.collect()));
        }
        _ => return Err("GROUP BY takes expressions alone".to_owned()),
    };
    let key = |key: &Ast| match key {
        Ast::Value(_) => {
            let shown = number(key).and_then(|number| items.get(number.checked_sub(1)?));
            let shown = shown.map(|(_, expr)| expr.clone());
            shown.ok_or_else(|| format!("there is no column {key} for GROUP BY; it shows {}", items.len()))
        }
        key => Ok(key.clone()),
    };
    if by.is_empty() { Ok(None) } else { by.iter().map(key).collect::<Made<Vec<_>>>().map(Some) }
}

/// Projects a frame to the select list, sorted.
fn shown(
    frame: LazyFrame,
    shown: Vec<(String, Expr)>,
    order: Vec<Expr>,
    directions: &[(bool, bool)],
    is_distinct: bool,
) -> LazyFrame {
    let names: Vec<Expr> = shown.iter().map(|(name, _)| col(name.as_str())).collect();
    let shown = shown.into_iter().map(|(name, expr)| expr.alias(name.as_str()));
    let keys: Vec<String> = (1..=order.len()).map(|at| format!("order by {at}")).collect();
    let order = order.into_iter().zip(&keys).map(|(expr, name)| expr.alias(name.as_str()));
    // A constant gets one value for each row.
    let mut frame = frame.with_columns(shown.chain(order).collect::<Vec<_>>());
    if is_distinct {
        let all = names.iter().cloned().chain(keys.iter().map(|key| col(key.as_str())));
        frame = frame.select(all.collect::<Vec<_>>()).unique(None, UniqueKeepStrategy::Any);
    }
    if !keys.is_empty() {
        frame = frame.sort(keys, sorted(directions));
    }
    frame.select(names)
}

/// Returns a partial aggregation of each segment and the final aggregation of its groups, if a SELECT groups and
/// filters by columns of few values only.
fn of_segments(kind: Kind, holds: &[Option<Expr>], groups: &Groups) -> Option<(Segments, Groups)> {
    let is_key = |name: &str| name == DAY || (kind.column_type(name) == Some(FieldType::Text) && name != KEY);
    let mut names = BTreeSet::from([DAY.to_owned()]);
    let conditions = holds.iter().map(Option::as_ref).collect::<Option<Vec<_>>>()?;
    for expr in conditions.into_iter().chain(&groups.keys) {
        for name in expr.clone().meta().root_names() {
            names.insert(is_key(&name).then(|| name.to_string())?);
        }
    }
    let (mut measures, mut aggregates) = (BTreeSet::new(), Vec::new());
    for Aggregate { name, is_plain, of, made } in &groups.aggregates {
        let column = match of {
            Some(Expr::Column(name)) => Some(name.to_string()),
            Some(_) => return None,
            None => None,
        };
        let of_key =
            column.as_deref().is_some_and(is_key) && (matches!(name.as_str(), "max" | "min") || !is_plain);
        let made = if of_key && made_of_distinct(name) {
            names.extend(column.clone());
            let name = column?;
            made.clone()
                .map_expr(|expr| if matches!(expr, Expr::Column(_)) { col(name.as_str()) } else { expr })
        } else if *is_plain {
            measured(kind, name, column, &mut measures)?
        } else {
            return None;
        };
        aggregates.push(Aggregate { name: name.clone(), is_plain: *is_plain, of: None, made });
    }
    let segments = Segments { kind, keys: names, measures };
    Some((segments, Groups { keys: groups.keys.clone(), aggregates, inputs: Vec::new() }))
}

/// Returns true for an aggregate that can be computed from distinct values.
fn made_of_distinct(name: &str) -> bool {
    ["count", "max", "min"].contains(&name)
}

/// Returns the final aggregate of a column, and adds the measures of segments that it needs.
fn measured(
    kind: Kind,
    name: &str,
    column: Option<String>,
    measures: &mut BTreeSet<Measure>,
) -> Option<Expr> {
    let mut of = |measure: Measure| {
        let column = col(measure.to_string());
        measures.insert(measure);
        column
    };
    let sum = |of: Expr| when(of.clone().count().gt(lit(0))).then(of.sum()).otherwise(lit(NULL));
    let Some(column) = column else { return (name == "count").then(|| of(Measure::Rows).sum()) };
    match (name, kind.column_type(&column)) {
        ("count", Some(_)) => Some(of(Measure::Count(column)).sum()),
        ("sum", Some(FieldType::Float)) => Some(sum(of(Measure::Sum(column)))),
        ("avg", Some(FieldType::Float)) => {
            let all = of(Measure::Count(column.clone())).sum();
            Some(sum(of(Measure::Sum(column))).true_div(all))
        }
        ("min", Some(FieldType::Float | FieldType::Time)) => Some(of(Measure::Least(column)).min()),
        ("max", Some(FieldType::Float | FieldType::Time)) => Some(of(Measure::Greatest(column)).max()),
        _ => None,
    }
}
