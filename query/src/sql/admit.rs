//! Admission of statements: one SELECT, with common table expressions, joins and unions, on the existing tables. Everything else
//! is refused before polars sees it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use event::{Error, Result};
use sqlparser::{
    ast::{
        BinaryOperator, Expr, ObjectName, Query, Select, SetExpr, SetOperator, Statement, TableFactor, Visit,
        Visitor,
    },
    dialect::GenericDialect,
    parser::Parser,
    tokenizer::{Token, Tokenizer},
};

use super::{
    bare, by, casts,
    columns::{members_once, names_of_columns},
    constants, functions, groups,
    rewrite::rewrite,
    tables::Table,
    text::{options, regrouped, text_of},
    truncate, walk, windows, within,
};
use crate::groups::Groups;

/// Maximum bytes of a statement.
pub const MAX_STATEMENT_BYTES: usize = 16 * 1024;

/// Maximum number of words and signs of a statement that may nest, which bounds the recursion of the parser.
pub(super) const MAX_NESTING_TOKENS: usize = 1_500;

/// Maximum depth of expressions, and maximum number of nested queries.
const MAX_DEPTH: usize = 100;
const MAX_QUERIES: usize = 32;

/// Maximum number of NOT IN with a query, which polars reads twice, and twice again within another one.
const MAX_NOT_IN: usize = 3;

/// Maximum number of reads of tables, after each name that `with` gives is replaced by its query.
const MAX_TABLES: u64 = 32;

/// Number of columns that polars holds besides those of the widest SELECT.
const WORKING_COLUMNS: usize = 2;

/// A statement that may be run.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// The statement in the dialect of polars.
    pub(crate) text: String,
    /// The tables that it names.
    pub(crate) tables: BTreeSet<&'static str>,
    /// The names of columns that it may use.
    pub(crate) names: BTreeSet<String>,
    /// Approximate number of columns that polars holds of it at once.
    pub(crate) width: usize,
    /// Maximum number of reads of tables.
    pub(crate) weight: u64,
    /// True if it defines the order of its rows.
    pub(crate) is_ordered: bool,
    /// True if it makes rows from several rows, so that their order is random.
    pub(crate) is_shuffled: bool,
    /// The groups of events that are the rows of its one table, if these are not events.
    pub(crate) groups: Option<Groups>,
}

pub(super) fn refused(why: impl Into<String>) -> Error {
    Error::invalid(format!("sql: {}", why.into()))
}

/// Parses a statement and admits it. It must run on a large stack.
///
/// # Errors
/// `Invalid`, naming what is not admitted.
pub(crate) fn admit(text: &str) -> Result<Admitted> {
    let mut query = parse(text)?;
    let weight = check_tables(&query)?;
    within::by_names(&mut query);
    by::write_out(&mut query).map_err(refused)?;
    let mut check = Check::default();
    if let ControlFlow::Break(why) = walk::walk(&query, &mut check) {
        return Err(refused(*why));
    }
    if check.tables.is_empty() {
        return Err(refused(format!("name a table; there are {}", names_of_tables())));
    }
    rewrite(&mut query, check.aliases).map_err(refused)?;
    let groups = groups::of_segments(&mut query);
    by::call(&mut query).map_err(refused)?;
    let names = names_of_columns(&query);
    by::each(&mut query, |select| {
        members_once(select);
        Ok(())
    })
    .map_err(refused)?;
    Ok(Admitted {
        text: text_of(&query)?,
        tables: check.tables,
        names,
        width: check.width + WORKING_COLUMNS,
        weight,
        is_ordered: query.order_by.is_some(),
        is_shuffled: check.is_shuffled,
        groups,
    })
}

/// Parses conditions on the rows of a table, all of which must hold, and admits them as those of a statement that reads it. It
/// must run on a large stack.
///
/// # Errors
/// `Invalid`, naming what is not admitted.
pub(crate) fn admit_conditions(table: &str, conditions: &[String]) -> Result<Admitted> {
    let conditions = conditions.iter().map(|text| condition(text)).collect::<Result<Vec<_>>>()?;
    admit(&format!("select * from {table} where {}", conditions.join(" and ")))
}

/// Returns a condition in parentheses.
fn condition(text: &str) -> Result<String> {
    check_size(text)?;
    let mut parser = parser(text)?;
    let condition = parser.parse_expr().map_err(|error| refused(error.to_string()))?;
    if parser.peek_token().token != Token::EOF {
        return Err(refused(format!("unexpected `{}` in a condition", parser.peek_token().token)));
    }
    let looked = walk::expressions(&condition, |expr| match expr {
        Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => ControlFlow::Break("a query"),
        Expr::Function(function) if functions::is_of_rows(function) => {
            ControlFlow::Break("a function of several rows")
        }
        _ => ControlFlow::Continue(()),
    });
    match looked {
        ControlFlow::Break(what) => {
            Err(refused(format!("a condition on single rows has no place for {what}")))
        }
        ControlFlow::Continue(()) => Ok(format!("({condition})")),
    }
}

fn is_table(name: &str) -> bool {
    Table::named(name).is_some()
}

/// Returns the names of all tables, for errors about a missing or unknown table.
pub(crate) fn names_of_tables() -> String {
    Table::all().map(Table::name).collect::<Vec<_>>().join(", ")
}

fn check_size(text: &str) -> Result<()> {
    if text.len() > MAX_STATEMENT_BYTES {
        return Err(refused(format!("a statement has at most {MAX_STATEMENT_BYTES} bytes")));
    }
    Ok(())
}

fn parser(text: &str) -> Result<Parser<'static>> {
    let tokens = Tokenizer::new(&GenericDialect, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| refused(error.to_string()))?;
    let nests = |token: &Token| {
        !matches!(
            token,
            Token::Comma | Token::Whitespace(_) | Token::Number(..) | Token::SingleQuotedString(_)
        )
    };
    if tokens.iter().filter(|token| nests(&token.token)).count() > MAX_NESTING_TOKENS {
        return Err(refused(format!("a statement has at most {MAX_NESTING_TOKENS} words and signs")));
    }
    // The dialect of polars.
    Ok(Parser::new(&GenericDialect).with_options(options()).with_tokens_with_locations(tokens))
}

fn parse(text: &str) -> Result<Query> {
    check_size(text)?;
    let mut statements = parser(text)?.parse_statements().map_err(|error| refused(error.to_string()))?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Query(query)), true) => regrouped(*query),
        (Some(_), true) => Err(refused("only SELECT is admitted")),
        (None, _) => Err(refused("write a SELECT")),
        (Some(_), false) => Err(refused("only one statement is admitted")),
    }
}

/// Counts the reads of tables, with each common table expression replaced by its query.
fn check_tables(query: &Query) -> Result<u64> {
    let mut weights = BTreeMap::<&str, u64>::new();
    for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
        let name = cte.alias.name.value.as_str();
        if is_table(name) || weights.contains_key(name) {
            return Err(refused(format!("`{name}` is the name of a table already")));
        }
        if cte.query.with.is_some() {
            return Err(refused("`with` stands at the beginning of the statement only"));
        }
        let weight = weight_of(&*cte.query, &weights)?;
        weights.insert(name, weight);
    }
    let mut body = query.clone();
    body.with = None;
    weight_of(&body, &weights)
}

fn weight_of(part: &impl Visit, weights: &BTreeMap<&str, u64>) -> Result<u64> {
    let mut weight = 0_u64;
    let looked = walk::relations(part, |name| {
        let known = match name_of(name) {
            Some(name) if is_table(name) => Some(1),
            Some(name) => weights.get(name).copied(),
            None => None,
        };
        match known {
            Some(of) => weight = weight.saturating_add(of),
            None => return ControlFlow::Break(name.to_string()),
        }
        ControlFlow::Continue(())
    });
    if let ControlFlow::Break(name) = looked {
        let there = names_of_tables();
        return Err(refused(format!("there is no table {name}; there are {there}")));
    }
    if weight > MAX_TABLES {
        return Err(refused(format!("it reads tables {weight} times, at most {MAX_TABLES} are admitted")));
    }
    Ok(weight)
}

fn name_of(name: &ObjectName) -> Option<&str> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(|ident| ident.value.as_str()),
        _ => None,
    }
}

/// Checks every part of a statement.
#[derive(Default)]
struct Check {
    tables: BTreeSet<&'static str>,
    aliases: BTreeSet<String>,
    width: usize,
    depth: usize,
    queries: usize,
    /// Number of NOT IN with a query.
    not_in: usize,
    is_shuffled: bool,
    windows: windows::Named,
}

type Looked = ControlFlow<Box<String>>;

fn no(why: impl Into<String>) -> Looked {
    ControlFlow::Break(Box::new(why.into()))
}

/// Continues, unless there is a reason to refuse.
fn unless(why: Option<String>) -> Looked {
    why.map_or(ControlFlow::Continue(()), no)
}

impl Visitor for Check {
    type Break = Box<String>;

    fn pre_visit_query(&mut self, query: &Query) -> Looked {
        self.queries += 1;
        if self.queries > MAX_QUERIES {
            return no(format!("at most {MAX_QUERIES} queries may stand in each other"));
        }
        if query.with.is_some() && self.queries > 1 {
            return no("`with` stands at the beginning of the statement only");
        }
        if query.with.as_ref().is_some_and(|with| with.recursive) {
            return no("`with recursive` is not admitted");
        }
        let odd = [
            (!query.locks.is_empty(), "FOR UPDATE"),
            (query.for_clause.is_some(), "FOR"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
            (!query.pipe_operators.is_empty(), "|>"),
        ];
        if let Some((_, name)) = odd.into_iter().find(|(is_there, _)| *is_there) {
            return no(format!("{name} is not admitted"));
        }
        unless(windows::misplaced_in_order(query))?;
        self.look_at(&query.body)
    }

    fn pre_visit_select(&mut self, select: &Select) -> Looked {
        let is_grouped = functions::is_grouped(select);
        self.width = self.width.max(select.projection.len());
        let joins = select.from.iter().map(|from| from.joins.len() + 1).sum::<usize>();
        self.is_shuffled |= is_grouped || select.distinct.is_some() || joins > 1;
        if select.into.is_some() {
            return no("SELECT INTO is not admitted");
        }
        self.windows.add(select);
        unless(windows::misplaced(select, is_grouped))?;
        unless(within::misplaced(select))?;
        let beside = if is_grouped { bare::beside_groups(select) } else { bare::beside_aggregate(select) };
        unless(beside.map(|column| {
            format!(
                "`{column}` stands beside what is made of several rows; write GROUP BY {column}, or max({column})"
            )
        }))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Looked {
        let alias = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let name = name_of(name).unwrap_or_default();
                self.tables.extend(Table::named(name).map(Table::name));
                self.aliases.insert(name.to_owned());
                alias
            }
            TableFactor::Derived { lateral: false, alias, .. } | TableFactor::NestedJoin { alias, .. } => {
                alias
            }
            TableFactor::Table { .. } | TableFactor::TableFunction { .. } | TableFactor::Function { .. } => {
                return no("functions that make tables are not admitted");
            }
            other => return no(format!("`{other}` is not admitted as a table")),
        };
        self.aliases.extend(alias.iter().map(|alias| alias.name.value.clone()));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Looked {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return no(format!("expressions may stand {MAX_DEPTH} deep in each other, not deeper"));
        }
        match expr {
            Expr::Function(function) => match name_of(&function.name) {
                Some(name) if functions::is_known(name) => {
                    unless(truncate::wrong(function))?;
                    unless(windows::wrong(function, &self.windows))?;
                    unless(constants::wrong(function))?;
                    unless(bare::within_aggregate(function).map(|inner| {
                        format!("`{inner}` stands within `{function}`; compute it in a query of its own, named by WITH")
                    }))
                }
                _ => no(functions::unknown(&function.name.to_string())),
            },
            Expr::Position { .. } => no(functions::no_position()),
            Expr::InSubquery { negated, .. } => {
                self.is_shuffled = true;
                self.not_in += usize::from(*negated);
                match self.not_in {
                    0..=MAX_NOT_IN => ControlFlow::Continue(()),
                    _ => no(format!(
                        "at most {MAX_NOT_IN} `not in (select ...)` are admitted: each reads its query twice"
                    )),
                }
            }
            Expr::Exists { .. } => no("EXISTS is not admitted; write `key in (select key from ...)`"),
            Expr::Tuple(_) => no("lists in parentheses are not admitted; compare each column by itself"),
            Expr::Subquery(_) => no(
                "a query that something is compared with gets a name by WITH, and is joined: `cross join` of that name",
            ),
            Expr::AnyOp { .. } | Expr::AllOp { .. } => no("ANY and ALL are not admitted; write IN or NOT IN"),
            // Operators that make long text from short text could make too much of it.
            Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => no("|| is not admitted"),
            Expr::Cast { data_type, .. } => unless(casts::wrong(data_type)),
            _ => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, _: &Expr) -> Looked {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

impl Check {
    /// Checks that a query consists of selects, of other queries and of unions of them.
    fn look_at(&mut self, body: &SetExpr) -> Looked {
        let mut rest = vec![body];
        while let Some(body) = rest.pop() {
            match body {
                SetExpr::Select(_) | SetExpr::Values(_) | SetExpr::Query(_) => {}
                SetExpr::SetOperation { op, left, right, .. } => {
                    self.is_shuffled = true;
                    let is_other = |side: &SetExpr| matches!(side, SetExpr::SetOperation { op: other, .. } if [*op, *other] != [SetOperator::Union; 2]);
                    if is_other(left) || is_other(right) {
                        return no(
                            "put EXCEPT and INTERSECT in parentheses where they stand beside each other or a UNION",
                        );
                    }
                    rest.extend([&**left, &**right]);
                }
                _ => return no("only SELECT is admitted"),
            }
        }
        ControlFlow::Continue(())
    }
}
