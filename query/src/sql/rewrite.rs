//! Translation of statements into the dialect of polars: members of families, days and instants compared with text, and names for
//! computed columns.

use std::{collections::BTreeSet, ops::ControlFlow};

use event::{Day, Kind, Result, Timestamp, custom::CUSTOM_FIGURES, fields::FieldType};
use sqlparser::{
    ast::{
        BinaryOperator, Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, Value, ValueWithSpan,
        VisitorMut,
    },
    dialect::GenericDialect,
    parser::Parser,
};

use super::{
    casts,
    columns::{Named, named_by_with},
    constants,
    grouped::{self, is_joined},
    logic,
    named::{named, twice},
    numbers, on, order,
    spans::{self, Columns},
    truncate, using,
    walk::walk_mut,
};
use crate::events::{APPENDED_AT, DAY};

/// Format of instants for polars.
const INSTANT: &str = "%Y-%m-%d %H:%M:%S%.f";

/// Maximum length of a list beside a join that is rewritten into equalities: polars pushes no list down to a joined table, nor
/// any of the conditions beside it.
const MAX_LISTED: usize = 64;

/// Length of a day in letters: `2026-06-01`.
const LENGTH_OF_DAY: usize = 10;

/// Rewrites a statement; `aliases` are the names that it gives to tables.
///
/// # Errors
/// The text compared with a column of days or instants that is neither.
pub(super) fn rewrite(query: &mut Query, aliases: BTreeSet<String>) -> Result<(), String> {
    let named = named(query);
    let with = named_by_with(query);
    match walk_mut(query, &mut Rewrite { aliases, named, with, joined: Vec::new() }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(why) => Err(why),
    }
}

struct Rewrite {
    aliases: BTreeSet<String>,
    /// The names that the statement gives to columns.
    named: BTreeSet<String>,
    /// The tables named by WITH.
    with: Named,
    /// For the current SELECT and the ones around it: true if it joins tables.
    joined: Vec<bool>,
}

impl VisitorMut for Rewrite {
    type Break = String;

    /// Replaces a computed column in ORDER BY by its name.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        if let Err(why) = using::check_order(query) {
            return ControlFlow::Break(why);
        }
        let SetExpr::Select(select) = &*query.body else { return ControlFlow::Continue(()) };
        let Some(OrderByKind::Expressions(by)) = query.order_by.as_mut().map(|order| &mut order.kind) else {
            return ControlFlow::Continue(());
        };
        for by in by {
            let alias = select.projection.iter().find_map(|item| match item {
                SelectItem::UnnamedExpr(expr) if *expr == by.expr => name_of(expr),
                SelectItem::ExprWithAlias { expr, alias } if *expr == by.expr && !is_column(expr) => {
                    Some(alias.clone())
                }
                _ => None,
            });
            if let Some(alias) = alias {
                by.expr = Expr::Identifier(alias);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        match order::in_words(query, &self.with) {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => ControlFlow::Break(why),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<String> {
        self.joined.push(is_joined(select));
        if let Err(why) = using::check(select).and_then(|()| on::in_words(select, &self.with)) {
            return ControlFlow::Break(why);
        }
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(alias) = name_of(expr)
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        match twice(select) {
            Some(name) => {
                ControlFlow::Break(format!("two columns are called `{name}`; name one of both with AS"))
            }
            None => ControlFlow::Continue(()),
        }
    }

    /// Texts have become days and instants by now.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<String> {
        self.joined.pop();
        grouped::of_one_value(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if let Some(member) = self.member(expr) {
            *expr = member;
        }
        match self.compare_in(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => ControlFlow::Break(why),
        }
    }

    /// Replaces expressions that polars computes differently from SQL, once their parts are rewritten.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        let truncated = match &*expr {
            Expr::Function(function) => truncate::in_words(function, |time| self.is_day(time))
                .or_else(|| constants::as_in_sql(function)),
            _ => None,
        };
        let made = truncated.or_else(|| logic::as_in_sql(expr)).or_else(|| casts::as_in_sql(expr));
        let made = made.or_else(|| spans::as_in_sql(expr, self)).or_else(|| numbers::as_in_sql(expr));
        if let Some(made) = made {
            *expr = made;
        }
        ControlFlow::Continue(())
    }
}

impl Rewrite {
    /// Returns `tag.carrier`, which SQL reads as the column `carrier` of a table `tag`, as one name.
    fn member(&self, expr: &Expr) -> Option<Expr> {
        let Expr::CompoundIdentifier(idents) = expr else { return None };
        let (table, [of, name]) = idents.split_last_chunk::<2>()?;
        let is_member = is_family(&of.value) && !self.aliases.contains(&of.value);
        let member = is_member.then(|| Ident::with_quote('"', format!("{}.{}", of.value, name.value)))?;
        match table {
            [] => Some(Expr::Identifier(member)),
            [table] => Some(Expr::CompoundIdentifier(vec![table.clone(), member])),
            _ => None,
        }
    }

    /// Rewrites texts into days and instants in comparisons with columns of these.
    fn compare_in(&self, expr: &mut Expr) -> Result<(), String> {
        match expr {
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                self.compare(left, right)?;
                self.compare(right, left)?;
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.compare(left, right)?;
                self.compare(right, left)?;
            }
            Expr::Between { expr, low, high, .. } => {
                let mut column = expr.clone();
                self.compare(&mut column, low)?;
                self.compare(expr, high)?;
            }
            Expr::InList { expr: of, list, negated } => {
                if let Some(any) = self.is_any(of, list)?.and_then(any_of) {
                    let any = Expr::Nested(Box::new(any));
                    *expr = match negated {
                        true => Expr::UnaryOp { op: sqlparser::ast::UnaryOperator::Not, expr: Box::new(any) },
                        false => any,
                    };
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Rewrites a text into a day or an instant, if it is compared with a column of days or instants.
    ///
    /// # Errors
    /// The text that is neither. A column that the statement itself names so may be of texts.
    fn compare(&self, column: &mut Expr, with: &mut Expr) -> Result<(), String> {
        let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = &*with else {
            return Ok(());
        };
        let Some((name, of)) = self.compared(column) else { return Ok(()) };
        let read = match of {
            Compared::Day => text.parse::<Day>().map(|day| format!("date('{day}')")),
            Compared::Instant => instant(text).map(|at| format!("timestamp('{at}', '{INSTANT}')")),
        };
        let made = match read {
            Ok(made) => parsed(&made),
            Err(_) if self.named.contains(name) => None,
            Err(wrong) => return Err(wrong.to_string()),
        };
        let Some(made) = made else { return Ok(()) };
        match of {
            Compared::Day => *with = made,
            Compared::Instant => {
                if let Some(cast) = parsed(&format!("cast({column} as timestamp)")) {
                    (*with, *column) = (made, cast);
                }
            }
        }
        Ok(())
    }

    /// Returns the name and the kind of a column of days or instants that is compared with text. Members of families are neither.
    fn compared<'a>(&self, expr: &'a Expr) -> Option<(&'a str, Compared)> {
        let name = match expr {
            Expr::Identifier(ident) => ident,
            Expr::CompoundIdentifier(idents) if self.member(expr).is_none() => idents.last()?,
            Expr::Function(function) => return self.compared(truncate::time(function)?),
            _ => return None,
        };
        let name = name.value.as_str();
        let is_time = |kind: Kind| kind.column_type(name) == Some(FieldType::Time);
        match name {
            DAY => Some((name, Compared::Day)),
            APPENDED_AT => Some((name, Compared::Instant)),
            _ if Kind::ALL.into_iter().any(is_time) => Some((name, Compared::Instant)),
            _ => None,
        }
    }

    /// Returns `column = value` for each value of a list, if the column is of days or instants and all values are texts or
    /// missing; or if all may be days, as polars compares these one by one with a column of days, but casts a list to days with a
    /// warning.
    fn is_any(&self, column: &Expr, list: &[Expr]) -> Result<Option<Vec<Expr>>, String> {
        if list.iter().all(logic::is_null) {
            return Ok(None);
        }
        let all = list.iter().map(|value| match logic::is_null(value) {
            true => Ok(parsed(logic::UNKNOWN)),
            false => self.equal(column, value),
        });
        let all = all.collect::<Result<Option<Vec<_>>, _>>()?;
        let all = all.or_else(|| list.iter().map(|value| equal_to_day(column, value)).collect());
        Ok(all.or_else(|| self.each_of(column, list)))
    }

    /// Returns `column = value` for each value of a short list beside a join.
    fn each_of(&self, column: &Expr, list: &[Expr]) -> Option<Vec<Expr>> {
        let is_short = self.joined.last() == Some(&true) && is_column(column) && list.len() <= MAX_LISTED;
        let one = |value: &Expr| match value {
            value if logic::is_null(value) => parsed(logic::UNKNOWN),
            Expr::Value(_) => Some(equal(column.clone(), value.clone())),
            _ => None,
        };
        is_short.then(|| list.iter().map(one).collect()).flatten()
    }

    /// Returns `column = value`, if the column is of days or instants and the value is text.
    fn equal(&self, column: &Expr, value: &Expr) -> Result<Option<Expr>, String> {
        let (mut left, mut right) = (column.clone(), value.clone());
        self.compare(&mut left, &mut right)?;
        let is_made = right != *value;
        Ok(is_made.then(|| equal(left, right)))
    }
}

fn equal(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Eq, right: Box::new(right) }
}

/// Returns `column = value`, if the value is the text of a day; unknown, if the value is missing.
fn equal_to_day(column: &Expr, value: &Expr) -> Option<Expr> {
    match value {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            text.parse::<Day>().is_ok().then(|| equal(column.clone(), value.clone()))
        }
        value => logic::is_null(value).then(|| parsed(logic::UNKNOWN)).flatten(),
    }
}

impl Columns for Rewrite {
    /// Returns true for a column of days, unless the statement gives its name to another one.
    fn is_day(&self, expr: &Expr) -> bool {
        matches!(self.compared(expr), Some((name, Compared::Day)) if !self.named.contains(name))
    }

    fn is_instant(&self, expr: &Expr) -> bool {
        matches!(self.compared(expr), Some((name, Compared::Instant)) if !self.named.contains(name))
    }
}

/// Returns true if a name is the prefix of a family: `tag` of `tag.carrier`.
pub(super) fn is_family(name: &str) -> bool {
    let families = Kind::ALL.into_iter().flat_map(Kind::families).chain([&CUSTOM_FIGURES]);
    families.map(|family| family.prefix).any(|prefix| prefix.strip_suffix('.') == Some(name))
}

/// Returns the name of a computed column: its text, unless the statement gives it another one.
fn name_of(expr: &Expr) -> Option<Ident> {
    (!is_column(expr)).then(|| Ident::with_quote('"', expr.to_string().replace('"', "'")))
}

/// Returns true if it is a column, and nothing computed.
pub(super) fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

pub(super) fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Kind of a column that is compared with text.
#[derive(Clone, Copy)]
enum Compared {
    Day,
    Instant,
}

/// Returns the disjunction of all, as a balanced tree, so that long lists do not nest deep.
fn any_of(mut all: Vec<Expr>) -> Option<Expr> {
    if all.len() <= 1 {
        return all.pop();
    }
    let right = any_of(all.split_off(all.len() / 2))?;
    let left = any_of(all)?;
    let nested = |expr| Box::new(Expr::Nested(Box::new(expr)));
    Some(Expr::BinaryOp { left: nested(left), op: BinaryOperator::Or, right: nested(right) })
}

/// Returns an instant in the format of polars. It takes RFC 3339, a day, or a time without a zone in UTC, with or without
/// seconds.
fn instant(text: &str) -> Result<String> {
    let utc = |end: &str| Timestamp::parse(&format!("{}{end}", text.replacen(' ', "T", 1)));
    let read = match text.len() {
        LENGTH_OF_DAY => text.parse::<Day>().map(Day::start),
        _ => Timestamp::parse(text).or_else(|wrong| utc("Z").or_else(|_| utc(":00Z")).map_err(|_| wrong)),
    };
    Ok(read?.to_string().trim_end_matches('Z').replacen('T', " ", 1))
}

pub(super) fn parsed(text: &str) -> Option<Expr> {
    Parser::new(&GenericDialect).try_with_sql(text).ok()?.parse_expr().ok()
}
