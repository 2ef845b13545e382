//! The tables of a statement, its joins, and queries of queries, as frames of polars.

use std::{collections::BTreeSet, sync::Arc};

use event::Kind;
use polars::{
    lazy::frame::ScanArgsAnonymous,
    prelude::{
        AnonymousScan, DataType, Expr, IdxSize, JoinArgs, JoinCoalesce, JoinType, LazyFrame, SchemaRef,
        SortMultipleOptions, UnionArgs, UniqueKeepStrategy, coalesce, col, concat, len, lit,
    },
};
use sqlparser::ast::{
    BinaryOperator, Expr as Ast, JoinConstraint, JoinOperator, LimitClause, Query, Select, SetExpr,
    SetOperator, SetQuantifier, TableAlias, TableFactor, TableWithJoins, Value, ValueWithSpan, WindowSpec,
};

use super::{
    admit::{expressions, names_of_tables, parse},
    expressions::{Made, Scope},
    joins::Join,
    plan::Source,
    tables::Table,
};
use crate::{frame::reason, groups::Groups, request::Dataset};

/// Maximum number of queries of a statement.
const MAX_QUERIES: usize = 32;

/// Maximum number of reads of tables, after each name that `with` gives is replaced by its query.
const MAX_TABLES: u64 = 32;

/// A column of a frame, and its names in the statement.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) table: String,
    pub(super) name: String,
    /// Its name in the frame.
    pub(super) id: String,
    pub(super) kind: DataType,
    /// True if it may be named without its table.
    pub(super) is_bare: bool,
    /// True for a member of a family of a table, which `*` leaves out.
    pub(super) is_member: bool,
}

/// Rows, and the columns that a query of them may name.
#[derive(Clone)]
pub(super) struct Frame {
    pub(super) lazy: LazyFrame,
    pub(super) columns: Vec<Column>,
    /// Number of reads of tables.
    pub(super) reads: u64,
    /// The kind of events, if these are the rows of their table as they are.
    pub(super) events: Option<Kind>,
    /// True if it has one row, always.
    pub(super) is_single: bool,
}

/// The frames of a statement.
#[derive(Default)]
pub(super) struct Frames {
    /// The tables and groups of segments that it reads.
    pub(super) sources: Vec<Arc<Source>>,
    /// Names of columns that it may use.
    pub(super) names: BTreeSet<String>,
    pub(super) joins: Vec<Join>,
    /// Maximum number of columns of a select list in it.
    pub(super) width: usize,
    /// Number of its expressions that compute text from text.
    pub(super) texts: u64,
    /// True if it makes rows from several rows, so that their order is random.
    pub(super) is_shuffled: bool,
    /// The windows that the current SELECT names.
    pub(super) windows: Vec<(String, WindowSpec)>,
    /// Number of reads of tables by queries within conditions and expressions.
    pub(super) reads: u64,
    with: Vec<(String, Frame)>,
    queries: usize,
    made: usize,
}

impl Frames {
    pub(super) fn new(names: BTreeSet<String>) -> Self {
        Self { names, ..Self::default() }
    }

    /// Returns a number that it has not returned before.
    pub(super) fn next(&mut self) -> usize {
        self.made += 1;
        self.made
    }

    /// Returns the window of a name.
    pub(super) fn window(&self, name: &str) -> Made<WindowSpec> {
        let found = self.windows.iter().find(|(known, _)| known == name);
        found.map(|(_, spec)| spec.clone()).ok_or_else(|| format!("there is no window `{name}`"))
    }

    /// Returns the rows of a query, in its order.
    pub(super) fn query(&mut self, query: &Query) -> Made<Frame> {
        self.queries += 1;
        if self.queries > MAX_QUERIES {
            return Err(format!("at most {MAX_QUERIES} queries may stand in each other"));
        }
        let odd = [
            (!query.locks.is_empty(), "FOR UPDATE"),
            (query.for_clause.is_some(), "FOR"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
            (!query.pipe_operators.is_empty(), "|>"),
            (query.with.as_ref().is_some_and(|with| with.recursive), "`with recursive`"),
        ];
        if let Some((_, name)) = odd.into_iter().find(|(is_there, _)| *is_there) {
            return Err(format!("{name} is not admitted"));
        }
        let outer = self.with.len();
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = &table.alias.name.value;
            if Table::named(name).is_some() || self.with.iter().any(|(known, _)| known == name) {
                return Err(format!("`{name}` is the name of a table already"));
            }
            let mut frame = self.query(&table.query)?;
            frame.called(name, Some(&table.alias))?;
            self.with.push((name.clone(), frame));
        }
        let mut frame = match &*query.body {
            SetExpr::Select(select) => self.select(select, query.order_by.as_ref())?,
            body => {
                let frame = self.body(body)?;
                let lazy = frame.lazy.clone();
                self.made(&frame, (lazy, &[]), &all_columns()?, query.order_by.as_ref())?
            }
        };
        self.with.truncate(outer);
        if frame.reads > MAX_TABLES {
            return Err(format!("it reads tables {} times, at most {MAX_TABLES} are admitted", frame.reads));
        }
        if let Some((skipped, most)) = limit(query)? {
            frame.lazy = frame.lazy.slice(i64::from(skipped), most);
            frame.events = None;
        }
        Ok(frame)
    }

    fn body(&mut self, body: &SetExpr) -> Made<Frame> {
        match body {
            SetExpr::Select(select) => self.select(select, None),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let (left, right) = (self.body(left)?, self.body(right)?);
                self.both(left, right, *op, *set_quantifier)
            }
            _ => Err("only SELECT is admitted".to_owned()),
        }
    }

    /// Returns the union, intersection or difference of two queries.
    fn both(&mut self, left: Frame, right: Frame, op: SetOperator, of: SetQuantifier) -> Made<Frame> {
        self.is_shuffled = true;
        if left.columns.len() != right.columns.len() {
            return Err(format!(
                "{op} is of queries with as many columns: {} are not {}",
                left.columns.len(),
                right.columns.len()
            ));
        }
        let ids = |frame: &Frame| frame.columns.iter().map(|column| column.id.clone()).collect::<Vec<_>>();
        let (ids, others) = (ids(&left), ids(&right));
        let as_left = others.iter().zip(&ids).map(|(other, id)| col(other.as_str()).alias(id.as_str()));
        let right_lazy = right.lazy.select(as_left.collect::<Vec<_>>());
        let all: Vec<Expr> = ids.iter().map(|id| col(id.as_str())).collect();
        let distinct = |lazy: LazyFrame| lazy.unique(None, UniqueKeepStrategy::Any);
        let lazy = match (op, of) {
            (SetOperator::Union, SetQuantifier::All | SetQuantifier::None | SetQuantifier::Distinct) => {
                let args = UnionArgs { to_supertypes: true, ..UnionArgs::default() };
                let lazy = concat([left.lazy, right_lazy], args).map_err(reason)?;
                if of == SetQuantifier::All { lazy } else { distinct(lazy) }
            }
            (SetOperator::Except | SetOperator::Intersect, SetQuantifier::None | SetQuantifier::Distinct) => {
                let how = if op == SetOperator::Except { JoinType::Anti } else { JoinType::Semi };
                let args = JoinArgs { nulls_equal: true, ..JoinArgs::new(how) };
                distinct(left.lazy.join(right_lazy, all.clone(), all, args))
            }
            _ => return Err(format!("{op} {of} is not admitted")),
        };
        Frame::made(lazy, left.reads + right.reads)
    }

    /// Returns a scalar subquery as a frame, with the name of its column and its type.
    pub(super) fn scalar(&mut self, query: &Query) -> Made<(LazyFrame, String, DataType)> {
        let frame = self.query(query)?;
        self.reads = self.reads.saturating_add(frame.reads);
        let is_limited = limit(query)?.is_some_and(|(_, most)| most == 1);
        let id = format!("query {}", self.next());
        match &frame.columns[..] {
            [column] if frame.is_single || is_limited => {
                let value = col(column.id.as_str()).first().alias(id.as_str());
                Ok((frame.lazy.select([value]), id, column.kind.clone()))
            }
            _ => Err(format!(
                "the query `{query}` may have several rows or columns; show one aggregate, or write LIMIT 1"
            )),
        }
    }

    /// Returns the frame of a table, or of groups of its rows that segments make.
    pub(super) fn table(&mut self, of: Table, groups: Option<Groups>) -> Made<Frame> {
        let is_one = |source: &&Arc<Source>| source.of == of && source.groups.as_deref() == groups.as_ref();
        let source = match self.sources.iter().find(is_one) {
            Some(source) => Arc::clone(source),
            None => {
                let source = Arc::new(Source::new(self.sources.len(), of, &self.names, groups));
                self.sources.push(Arc::clone(&source));
                source
            }
        };
        let schema: SchemaRef = Arc::clone(&source.schema);
        let args =
            ScanArgsAnonymous { schema: Some(schema), name: "almanac", ..ScanArgsAnonymous::default() };
        let is_events = source.groups.is_none();
        let lazy = LazyFrame::anonymous_scan(source as Arc<dyn AnonymousScan>, args).map_err(reason)?;
        let mut frame = Frame::made(lazy, 1)?;
        frame.called(of.name(), None)?;
        for column in &mut frame.columns {
            column.is_member = of.family(&column.name).is_some();
        }
        if let (Table::Of(Dataset::Events(kind)), true) = (of, is_events) {
            frame.events = Some(kind);
        }
        Ok(frame)
    }

    /// Returns the rows of FROM. Conditions that join tables behind commas are taken out of those of WHERE.
    pub(super) fn from(&mut self, tables: &[TableWithJoins], conditions: &mut Vec<Ast>) -> Made<Frame> {
        use JoinOperator::{FullOuter, Right, RightOuter};
        let are_many = tables.len() > 1 || tables.iter().any(|from| !from.joins.is_empty());
        self.is_shuffled |= are_many;
        let mut joins = tables.iter().flat_map(|from| &from.joins);
        if tables.len() > 1
            && joins.any(|join| matches!(join.join_operator, Right(_) | RightOuter(_) | FullOuter(_)))
        {
            return Err("RIGHT and FULL JOIN stand behind no comma; write JOIN in its place".to_owned());
        }
        let mut all: Option<Frame> = None;
        for TableWithJoins { relation, joins } in tables {
            let right = self.relation(relation, are_many)?;
            let mut frame = match all {
                None => right,
                Some(left) => {
                    let (on, rest) = std::mem::take(conditions)
                        .into_iter()
                        .partition(|condition| is_key(condition, &left, &right));
                    *conditions = rest;
                    self.joined(left, right, JoinType::Inner, on)?
                }
            };
            for join in joins {
                let right = self.relation(&join.relation, true)?;
                frame = self.join(frame, right, &join.join_operator)?;
            }
            all = Some(frame);
        }
        all.ok_or_else(|| format!("name a table; there are {}", names_of_tables()))
    }

    fn relation(&mut self, relation: &TableFactor, is_joined: bool) -> Made<Frame> {
        let (mut frame, alias) = match relation {
            TableFactor::Table { name, alias, args: None, sample: None, .. } => {
                let ident = match name.0.as_slice() {
                    [part] => part.as_ident().filter(|ident| ident.quote_style != Some('\'')),
                    _ => None,
                };
                let called = ident.map(|ident| ident.value.as_str()).unwrap_or_default();
                let frame = match self.with.iter().find(|(known, _)| known == called) {
                    Some((_, frame)) => frame.clone(),
                    None => {
                        let missing = || format!("there is no table {name}; there are {}", names_of_tables());
                        self.table(Table::named(called).ok_or_else(missing)?, None)?
                    }
                };
                (frame, alias.as_ref())
            }
            TableFactor::Derived { lateral: false, subquery, alias, .. } => {
                let mut frame = self.query(subquery)?;
                frame.called("", None)?;
                (frame, alias.as_ref())
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                return self.from(std::slice::from_ref(table_with_joins), &mut Vec::new());
            }
            TableFactor::Table { name, args: Some(_), .. } if Table::named(&name.to_string()).is_none() => {
                return Err(format!("there is no table {name}; there are {}", names_of_tables()));
            }
            other => return Err(format!("`{other}` is not admitted as a table")),
        };
        if let Some(alias) = alias {
            frame.called(&alias.name.value, Some(alias))?;
        }
        if is_joined {
            let (number, mut named) = (self.next(), Vec::with_capacity(frame.columns.len()));
            for column in &mut frame.columns {
                let id = format!("{number}.{}", column.name);
                named.push(col(column.id.as_str()).alias(id.as_str()));
                column.id = id;
            }
            frame.lazy = frame.lazy.select(named);
            frame.events = None;
        }
        Ok(frame)
    }

    fn join(&mut self, left: Frame, right: Frame, operator: &JoinOperator) -> Made<Frame> {
        use JoinOperator::{CrossJoin, FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
        let (how, constraint) = match operator {
            CrossJoin(_) => (JoinType::Inner, &JoinConstraint::None),
            Join(on) | Inner(on) => (JoinType::Inner, on),
            Left(on) | LeftOuter(on) => (JoinType::Left, on),
            Right(on) | RightOuter(on) => (JoinType::Right, on),
            FullOuter(on) => (JoinType::Full, on),
            _ => {
                return Err(
                    "such a join is not admitted; write `where a.key in (select key from ...)`".to_owned()
                );
            }
        };
        match constraint {
            JoinConstraint::On(on) => {
                let mut conditions = Vec::new();
                conjuncts(on, &mut conditions);
                self.joined(left, right, how, conditions)
            }
            JoinConstraint::Using(names) => {
                let names = names.iter().map(ToString::to_string).collect();
                self.using(left, right, &how, names)
            }
            JoinConstraint::None if how == JoinType::Inner => self.joined(left, right, how, Vec::new()),
            _ => Err("write the condition of a join by ON or USING".to_owned()),
        }
    }

    /// Joins two frames by columns of equal names, which are one in the result.
    fn using(&mut self, left: Frame, right: Frame, how: &JoinType, names: Vec<String>) -> Made<Frame> {
        let mut keys = Vec::new();
        for name in &names {
            let of = |frame: &Frame| {
                let found = frame.columns.iter().find(|column| column.is_bare && column.name == *name);
                found
                    .map(|column| column.id.clone())
                    .ok_or_else(|| format!("a table has no column `{name}` of USING"))
            };
            keys.push((of(&left)?, of(&right)?));
        }
        let on = keys.iter().map(|(one, other)| (col(one.as_str()), col(other.as_str()))).collect();
        let mut frame = self.by_keys(left, right, how.clone(), on)?;
        for (name, (one, other)) in names.into_iter().zip(keys) {
            let at = frame.columns.iter().position(|column| column.id == one).unwrap_or_default();
            let id = match how {
                JoinType::Right => other.clone(),
                JoinType::Full => format!("{}.{name}", self.next()),
                _ => one.clone(),
            };
            if *how == JoinType::Full {
                let of_either = coalesce(&[col(one.as_str()), col(other.as_str())]);
                frame.lazy = frame.lazy.with_column(of_either.alias(id.as_str()));
            }
            for column in frame.columns.iter_mut().filter(|column| [&one, &other].contains(&&column.id)) {
                column.is_bare = false;
            }
            let merged =
                Column { table: String::new(), name, id, is_bare: true, ..frame.columns[at].clone() };
            frame.columns.insert(at, merged);
        }
        Ok(frame)
    }

    /// Joins two frames by conditions: equalities of both are keys, others choose rows of one of both, or of an inner join.
    fn joined(&mut self, mut left: Frame, mut right: Frame, how: JoinType, on: Vec<Ast>) -> Made<Frame> {
        let (mut keys, mut rest) = (Vec::new(), Vec::new());
        for condition in on {
            let is_only =
                |frame: &Frame, other: &Frame| is_of(&condition, frame) && !is_of_any(&condition, other);
            if is_key(&condition, &left, &right) {
                let Ast::BinaryOp { left: one, right: other, .. } = bare(&condition) else { continue };
                let (one, other) = if is_of(one, &left) { (one, other) } else { (other, one) };
                keys.push((self.of(&left, one)?, self.of(&right, other)?));
            } else if is_only(&right, &left) && matches!(how, JoinType::Inner | JoinType::Left) {
                right.lazy = right.lazy.clone().filter(self.of(&right, &condition)?);
            } else if is_only(&left, &right) && matches!(how, JoinType::Inner | JoinType::Right) {
                left.lazy = left.lazy.clone().filter(self.of(&left, &condition)?);
            } else if how == JoinType::Inner {
                rest.push(condition);
            } else {
                return Err(format!(
                    "ON of such a join takes equalities of columns of both tables, as `a.key = b.key`, and no `{condition}`; choose \
                     the rows of a table by a query in its place, as in `join (select * from outcomes where label = 'late') b`"
                ));
            }
        }
        if keys.is_empty() && how != JoinType::Inner {
            return Err("ON of such a join takes an equality of columns of both tables, as `a.key = b.key`"
                .to_owned());
        }
        let mut frame = self.by_keys(left, right, how, keys)?;
        for condition in rest {
            let condition = self.of(&frame, &condition)?;
            frame.lazy = frame.lazy.filter(condition);
        }
        Ok(frame)
    }

    fn of(&mut self, frame: &Frame, expr: &Ast) -> Made<Expr> {
        Scope::new(self, &frame.columns).expr(expr)
    }

    /// Joins two frames by keys of both; without any, each row with each.
    fn by_keys(&mut self, left: Frame, right: Frame, how: JoinType, keys: Vec<(Expr, Expr)>) -> Made<Frame> {
        let columns = left.columns.into_iter().chain(right.columns).collect();
        let reads = left.reads.saturating_add(right.reads);
        let (one, other): (Vec<Expr>, Vec<Expr>) = keys.into_iter().unzip();
        let (left, one) = self.keyed(left.lazy, one);
        let (right, other) = self.keyed(right.lazy, other);
        self.joins.push(Join { sides: [left.clone(), right.clone()], keys: [one.clone(), other.clone()] });
        let args = |how| JoinArgs { coalesce: JoinCoalesce::KeepColumns, ..JoinArgs::new(how) };
        let lazy = match how {
            _ if one.is_empty() => left.cross_join(right, None),
            // The columns are in the order of the frame's own list.
            JoinType::Right => right.join(left, other, one, args(JoinType::Left)),
            how => left.join(right, one, other, args(how)),
        };
        Ok(Frame { lazy, columns, reads, events: None, is_single: false })
    }

    /// Adds computed keys of a join to a frame, as columns.
    fn keyed(&mut self, frame: LazyFrame, keys: Vec<Expr>) -> (LazyFrame, Vec<Expr>) {
        let (mut computed, mut named) = (Vec::new(), Vec::new());
        for key in keys {
            if let Expr::Column(_) = key {
                named.push(key);
            } else {
                let id = format!("key {}", self.next());
                computed.push(key.alias(id.as_str()));
                named.push(col(id));
            }
        }
        (frame.with_columns(computed), named)
    }

    /// Semi-join or anti-join: keeps the rows of a frame with a match in another one, or those without.
    pub(super) fn matched(
        &mut self,
        frame: LazyFrame,
        other: LazyFrame,
        keys: Vec<(Expr, Expr)>,
        is_anti: bool,
    ) -> LazyFrame {
        self.is_shuffled = true;
        let keys = if keys.is_empty() { vec![(lit(1), lit(1))] } else { keys };
        let (one, theirs): (Vec<Expr>, Vec<Expr>) = keys.into_iter().unzip();
        let (left, one) = self.keyed(frame, one);
        let (right, theirs) = self.keyed(other, theirs);
        let how = if is_anti { JoinType::Anti } else { JoinType::Semi };
        left.join(right, one, theirs, JoinArgs::new(how))
    }

    /// Keeps the rows of a frame whose value is IN a subquery, or is certainly NOT IN it.
    pub(super) fn in_query(
        &mut self,
        frame: LazyFrame,
        of: &Expr,
        query: &Query,
        negated: bool,
    ) -> Made<LazyFrame> {
        let found = self.query(query)?;
        self.reads = self.reads.saturating_add(found.reads);
        let [column] = &found.columns[..] else {
            return Err(format!("the query `{query}` shows one column, with which the value is compared"));
        };
        let id = col(column.id.as_str());
        let (is_empty, has_null) = (format!("empty {}", self.next()), format!("null {}", self.next()));
        let mut frame = frame;
        if negated {
            let said = found.lazy.clone().select([
                len().eq(lit(0)).alias(is_empty.as_str()),
                id.clone().null_count().gt(lit(0)).alias(has_null.as_str()),
            ]);
            let is_known = of.clone().is_not_null().and(col(has_null).not());
            frame = frame.cross_join(said, None).filter(col(is_empty).or(is_known));
        }
        Ok(self.matched(frame, found.lazy, vec![(of.clone(), id)], negated))
    }
}

impl Frame {
    /// Returns a frame whose columns have the names that they have in the statement.
    pub(super) fn made(mut lazy: LazyFrame, reads: u64) -> Made<Self> {
        let schema = lazy.collect_schema().map_err(reason)?;
        let column = |(name, kind): (&polars::prelude::PlSmallStr, &DataType)| Column {
            table: String::new(),
            name: name.to_string(),
            id: name.to_string(),
            kind: kind.clone(),
            is_bare: true,
            is_member: false,
        };
        Ok(Self { lazy, columns: schema.iter().map(column).collect(), reads, events: None, is_single: false })
    }

    /// Gives it a name, and its columns too.
    fn called(&mut self, name: &str, alias: Option<&TableAlias>) -> Made<()> {
        let names = alias.map(|alias| &alias.columns[..]).unwrap_or_default();
        if !names.is_empty() && names.len() != self.columns.len() {
            return Err(format!("`{name}` has {} columns, and not {}", self.columns.len(), names.len()));
        }
        for column in &mut self.columns {
            name.clone_into(&mut column.table);
        }
        if !names.is_empty() {
            let named = self
                .columns
                .iter()
                .zip(names)
                .map(|(column, given)| col(column.id.as_str()).alias(given.name.value.as_str()));
            self.lazy = self.lazy.clone().select(named.collect::<Vec<_>>());
            for (column, given) in self.columns.iter_mut().zip(names) {
                column.name.clone_from(&given.name.value);
                column.id.clone_from(&given.name.value);
            }
            self.events = None;
        }
        Ok(())
    }
}

/// Returns the options of an order.
pub(super) fn sorted(directions: &[(bool, bool)]) -> SortMultipleOptions {
    SortMultipleOptions::default()
        .with_order_descending_multi(directions.iter().map(|(is_descending, _)| *is_descending))
        .with_nulls_last_multi(directions.iter().map(|(_, has_nulls_last)| *has_nulls_last))
        .with_maintain_order(true)
}

/// Returns the SELECT of all columns.
fn all_columns() -> Made<Select> {
    let query = parse("select *").map_err(|error| error.to_string())?;
    match *query.body {
        SetExpr::Select(select) => Ok(*select),
        _ => Err("write a SELECT".to_owned()),
    }
}

/// Returns a literal whole number.
pub(super) fn number(expr: &Ast) -> Option<usize> {
    match expr {
        Ast::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => number.parse().ok(),
        _ => None,
    }
}

/// Returns OFFSET and LIMIT of a query.
fn limit(query: &Query) -> Made<Option<(u32, IdxSize)>> {
    let wrong = |expr: &Ast| format!("`{expr}` is not a number of rows");
    let rows = |expr: &Ast| number(expr).and_then(|rows| u32::try_from(rows).ok()).ok_or_else(|| wrong(expr));
    let (limit, offset) = match (&query.limit_clause, &query.fetch) {
        (None, None) => return Ok(None),
        (None, Some(fetch)) if !fetch.with_ties && !fetch.percent => (fetch.quantity.as_ref(), None),
        (Some(LimitClause::LimitOffset { limit, offset, limit_by }), None) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        _ => return Err("write LIMIT 10 OFFSET 20".to_owned()),
    };
    let most = limit.map_or(Ok(IdxSize::MAX), rows)?;
    Ok(Some((offset.map_or(Ok(0), rows)?, most)))
}

/// Splits a conjunction into its parts.
pub(super) fn conjuncts(expr: &Ast, parts: &mut Vec<Ast>) {
    match expr {
        Ast::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(left, parts);
            conjuncts(right, parts);
        }
        Ast::Nested(inner) if matches!(bare(inner), Ast::BinaryOp { op: BinaryOperator::And, .. }) => {
            conjuncts(inner, parts)
        }
        part => parts.push(part.clone()),
    }
}

/// Removes the parentheses around an expression.
pub(super) fn bare(expr: &Ast) -> &Ast {
    match expr {
        Ast::Nested(inner) => bare(inner),
        other => other,
    }
}

/// Returns true if a condition is an equality of columns of two frames.
pub(super) fn is_key(condition: &Ast, left: &Frame, right: &Frame) -> bool {
    let Ast::BinaryOp { left: one, op: BinaryOperator::Eq, right: other } = bare(condition) else {
        return false;
    };
    let are_sides = |one, other| {
        is_of(one, left) && is_of(other, right) && !is_of_any(one, right) && !is_of_any(other, left)
    };
    are_sides(one, other) || are_sides(other, one)
}

/// Returns true if all columns of an expression are those of a frame, and there are any.
pub(super) fn is_of(expr: &Ast, frame: &Frame) -> bool {
    let mut columns = 0;
    let other = each_column(expr, |names| {
        columns += 1;
        !frame.has(names)
    });
    !other && columns > 0
}

/// Returns true if a column of an expression may be one of a frame.
pub(super) fn is_of_any(expr: &Ast, frame: &Frame) -> bool {
    each_column(expr, |names| frame.has(names))
}

/// Returns true if something holds for a column of an expression. A query within counts as a column that none has.
fn each_column(expr: &Ast, mut holds: impl FnMut(&[&str]) -> bool) -> bool {
    use std::ops::ControlFlow::{Break, Continue};
    let found = expressions(expr, |expr| {
        let is_so = match expr {
            Ast::Identifier(name) => holds(&[&name.value]),
            Ast::CompoundIdentifier(names) => {
                holds(&names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>())
            }
            Ast::Subquery(_) | Ast::InSubquery { .. } | Ast::Exists { .. } => holds(&[]),
            _ => false,
        };
        if is_so { Break(()) } else { Continue(()) }
    });
    found.is_some()
}

impl Frame {
    /// Returns true if it has a column of this name.
    fn has(&self, names: &[&str]) -> bool {
        let all = names.join(".");
        let rest = names.get(1..).unwrap_or_default().join(".");
        self.columns.iter().any(|column| {
            (column.is_bare && column.name == all)
                || (names.len() > 1 && column.table == names[0] && column.name == rest)
        })
    }
}
