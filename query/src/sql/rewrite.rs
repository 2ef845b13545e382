//! What statements say in the words of their writers, in the words of polars: members of families, days and instants
//! that are compared with text, and names for what is computed.

use std::{collections::BTreeSet, ops::ControlFlow};

use event::{Day, Kind, Timestamp, custom::CUSTOM_FIGURES, fields::FieldType};
use sqlparser::{
    ast::{
        BinaryOperator, Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, Value, ValueWithSpan,
        VisitMut, VisitorMut,
    },
    dialect::GenericDialect,
    parser::Parser,
};

use super::{numbers, truncate};
use crate::events::{APPENDED_AT, DAY};

/// How an instant is written for polars.
const INSTANT: &str = "%Y-%m-%d %H:%M:%S%.f";

/// Rewrites a statement; `aliases` are the names that it gives to tables.
pub(super) fn rewrite(query: &mut Query, aliases: BTreeSet<String>) {
    // It never breaks.
    _ = VisitMut::visit(query, &mut Rewrite { aliases });
}

struct Rewrite {
    aliases: BTreeSet<String>,
}

impl VisitorMut for Rewrite {
    type Break = ();

    /// What is ordered by a computed column is ordered by its name.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
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

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(alias) = name_of(expr)
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(member) = self.member(expr) {
            *expr = member;
        }
        match expr {
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                compare(left, right);
                compare(right, left);
            }
            Expr::Between { expr, low, high, .. } => {
                let mut column = expr.clone();
                compare(&mut column, low);
                compare(expr, high);
            }
            Expr::InList { expr: of, list, negated } => {
                let all = list.iter().map(|value| equal(of, value)).collect::<Option<Vec<_>>>();
                if let Some(any) = all.and_then(any_of) {
                    let any = Expr::Nested(Box::new(any));
                    *expr = match negated {
                        true => Expr::UnaryOp { op: sqlparser::ast::UnaryOperator::Not, expr: Box::new(any) },
                        false => any,
                    };
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// What polars computes otherwise than SQL does, once its parts are rewritten.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(made) = numbers::as_in_sql(expr) {
            *expr = made;
        }
        ControlFlow::Continue(())
    }
}

impl Rewrite {
    /// `tag.carrier`, which SQL reads as the column `carrier` of a table `tag`, as the one name that it is.
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
}

/// The family that a name begins with: `tag` of `tag.carrier`.
fn is_family(name: &str) -> bool {
    let families = Kind::ALL.into_iter().flat_map(Kind::families).chain([&CUSTOM_FIGURES]);
    families.map(|family| family.prefix).any(|prefix| prefix.strip_suffix('.') == Some(name))
}

/// A computed column is called as it is written, unless the statement gives it a name.
fn name_of(expr: &Expr) -> Option<Ident> {
    (!is_column(expr)).then(|| Ident::with_quote('"', expr.to_string().replace('"', "'")))
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// What a column holds that is compared with text.
enum Compared {
    Day,
    Instant,
}

fn compared(expr: &Expr) -> Option<Compared> {
    let name = match expr {
        Expr::Identifier(ident) => ident,
        Expr::CompoundIdentifier(idents) => idents.last()?,
        Expr::Function(function) => return compared(truncate::time(function)?),
        _ => return None,
    };
    let is_time = |kind: Kind| kind.column_type(&name.value) == Some(FieldType::Time);
    match name.value.as_str() {
        DAY => Some(Compared::Day),
        APPENDED_AT => Some(Compared::Instant),
        _ if Kind::ALL.into_iter().any(is_time) => Some(Compared::Instant),
        _ => None,
    }
}

/// Makes a text a day or an instant, if it is compared with a column of days or instants.
fn compare(column: &mut Expr, with: &mut Expr) {
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = with else { return };
    match compared(column) {
        Some(Compared::Day) => {
            if let Ok(day) = text.parse::<Day>()
                && let Some(made) = parsed(&format!("date('{day}')"))
            {
                *with = made;
            }
        }
        Some(Compared::Instant) => {
            if let Some(instant) = instant(text)
                && let Some(made) = parsed(&format!("timestamp('{instant}', '{INSTANT}')"))
                && let Some(cast) = parsed(&format!("cast({column} as timestamp)"))
            {
                (*with, *column) = (made, cast);
            }
        }
        None => {}
    }
}

/// `column = value`, when the column is of days or instants and the value text.
fn equal(column: &Expr, value: &Expr) -> Option<Expr> {
    let (mut left, mut right) = (column.clone(), value.clone());
    compare(&mut left, &mut right);
    let is_made = right != *value;
    is_made.then(|| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Eq, right: Box::new(right) })
}

/// Whether any holds; halves of halves, so that long lists do not nest deep.
fn any_of(mut all: Vec<Expr>) -> Option<Expr> {
    if all.len() <= 1 {
        return all.pop();
    }
    let right = any_of(all.split_off(all.len() / 2))?;
    let left = any_of(all)?;
    let nested = |expr| Box::new(Expr::Nested(Box::new(expr)));
    Some(Expr::BinaryOp { left: nested(left), op: BinaryOperator::Or, right: nested(right) })
}

/// An instant as polars reads it: RFC 3339, a day, or without a zone in UTC.
fn instant(text: &str) -> Option<String> {
    let day = || text.parse::<Day>().map(Day::start);
    let utc = || Timestamp::parse(&format!("{}Z", text.replacen(' ', "T", 1)));
    let instant = Timestamp::parse(text).or_else(|_| day()).or_else(|_| utc()).ok()?;
    Some(instant.to_string().trim_end_matches('Z').replacen('T', " ", 1))
}

pub(super) fn parsed(text: &str) -> Option<Expr> {
    Parser::new(&GenericDialect).try_with_sql(text).ok()?.parse_expr().ok()
}
