//! Statements of counts, sums, means and extremes of groups: segments aggregate their own rows (`crate::groups`), and polars gets
//! a few rows of each segment instead of all.
//!
//! Such a statement reads one table of events. Outside of its aggregates it uses only columns by which rows are grouped. Their
//! values are constant in a group of a segment, so conditions, groupings and names apply to groups as they do to rows.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use event::{Kind, fields::FieldType};
use sqlparser::ast::{
    Distinct, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, VisitorMut,
};

use super::{functions, rewrite::parsed, tables::Table, walk::walk_mut};
use crate::{
    events::{APPENDED_AT, DAY},
    groups::{Groups, Measure},
    narrow::KEY,
    request::What,
};

/// Rewrites a statement into one of groups of segments, and returns these. `None`, if the statement asks for anything else;
/// then it is unchanged.
pub(super) fn of_segments(query: &mut Query) -> Option<Groups> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let names = Names::of(select)?;
    let GroupByExpr::Expressions(by, more) = &select.group_by else { return None };
    let columns: BTreeSet<&str> = by.iter().filter_map(|expr| names.column(expr)).collect();
    // Grouping expressions have one value for each group, and so have aggregates.
    let outside = names.shown.values().copied().filter(|expr| !by.contains(*expr));
    let (grouped, shown, having) = (names.seen(by)?, names.seen(outside)?, names.seen(&select.having)?);
    let chosen_by = names.seen(&select.selection)?;
    let is_of_groups = match by.is_empty() {
        true => shown.has_aggregate || matches!(select.distinct, Some(Distinct::Distinct)),
        false => shown.bare.iter().chain(&having.bare).all(|name| columns.contains(name.as_str())),
    };
    let names_what_is_given = [&grouped, &shown, &chosen_by].iter().any(|seen| seen.has_given);
    let is_shown = |expr: &Expr| match expr {
        Expr::Value(_) => true,
        expr => names.column(expr).is_some_and(|name| names.shown.contains_key(name)),
    };
    let is_ordered_by_shown = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(by)) => by.iter().all(|by| is_shown(&by.expr)),
        Some(OrderByKind::All(_)) | None => true,
    };
    if query.with.is_some()
        || !more.is_empty()
        || !is_of_groups
        || names_what_is_given
        || !is_ordered_by_shown
    {
        return None;
    }
    let (mut changed, mut seen) = (select.clone(), Seen::new(&names));
    walk_mut(&mut changed, &mut seen).is_continue().then_some(())?;
    let Seen { bare, within, measures, .. } = seen;
    if measures.iter().any(|measure| names.shown.contains_key(&*measure.to_string())) {
        return None;
    }
    // The days to read are found from the day of rows, so it is always a key.
    let keys = bare.into_iter().chain(within).chain([DAY.to_owned()]).collect();
    let groups = Groups { kind: names.kind, keys, measures };
    *query.body = SetExpr::Select(changed);
    Some(groups)
}

/// The names of a statement.
struct Names<'a> {
    kind: Kind,
    /// The name of the table in the statement.
    table: &'a str,
    /// The shown expressions, by the names of their columns.
    shown: BTreeMap<&'a str, &'a Expr>,
}

impl<'a> Names<'a> {
    /// Returns the names of a SELECT of one table of events.
    fn of(select: &'a Select) -> Option<Self> {
        let [from] = &select.from[..] else { return None };
        let TableFactor::Table { name, alias, args: None, .. } = &from.relation else { return None };
        let [part] = &name.0[..] else { return None };
        let name = &part.as_ident()?.value;
        let Table::Of(What::Events(kind)) = Table::named(name)? else { return None };
        let is_renamed = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
        if !from.joins.is_empty() || is_renamed {
            return None;
        }
        let table = alias.as_ref().map_or(name, |alias| &alias.name.value);
        let mut shown = BTreeMap::new();
        for item in &select.projection {
            let (name, expr) = match item {
                SelectItem::ExprWithAlias { expr, alias } => (&alias.value, expr),
                SelectItem::UnnamedExpr(expr) => match expr {
                    Expr::Identifier(name) => (&name.value, expr),
                    Expr::CompoundIdentifier(names) => (&names.last()?.value, expr),
                    _ => return None,
                },
                _ => return None,
            };
            shown.insert(name.as_str(), expr);
        }
        Some(Self { kind, table, shown })
    }

    /// Returns the name of a column of the table, or one that the statement gives.
    fn column<'e>(&self, expr: &'e Expr) -> Option<&'e str> {
        match expr {
            Expr::Identifier(name) => Some(&name.value),
            Expr::CompoundIdentifier(names) => match &names[..] {
                [table, name] if table.value == self.table => Some(&name.value),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the expression of a name that is not one of a column of the table.
    fn given_to(&self, expr: &Expr) -> Option<&'a Expr> {
        let name = self.column(expr)?;
        let is_of_table = [DAY, APPENDED_AT].contains(&name) || self.kind.may_have(name);
        self.shown.get(name).filter(|_| !is_of_table).copied()
    }

    /// Returns true if rows may be grouped by a column before polars sees them, as it has few values.
    fn is_key(&self, name: &str) -> bool {
        name == DAY || (self.kind.column_type(name) == Some(FieldType::Text) && name != KEY)
    }

    /// Collects the parts of some expressions; `None`, if one of them cannot be computed from groups.
    fn seen<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> Option<Seen<'_>> {
        let mut seen = Seen::new(self);
        let all = exprs.into_iter().all(|expr| walk_mut(&mut expr.clone(), &mut seen).is_continue());
        all.then_some(seen)
    }

    /// Translates an aggregate of rows into one of groups.
    fn aggregate(&self, function: &Function) -> Option<Aggregate> {
        let Function {
            args: FunctionArguments::List(list),
            parameters,
            filter,
            null_treatment,
            over,
            within_group,
            ..
        } = function
        else {
            return None;
        };
        let is_plain = *parameters == FunctionArguments::None
            && (filter.is_none() && null_treatment.is_none() && over.is_none())
            && (within_group.is_empty() && list.clauses.is_empty());
        let [FunctionArg::Unnamed(of)] = &list.args[..] else { return None };
        let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        let name = function.name.to_string().to_ascii_lowercase();
        let of = match of {
            _ if !is_plain => None,
            FunctionArgExpr::Wildcard => (name == "count" && !is_distinct).then_some(None),
            FunctionArgExpr::Expr(expr) => self.column(expr).map(Some),
            _ => None,
        };
        let Some(column) = of? else { return Aggregate::count(Measure::Rows) };
        let (kind, of) = (self.kind.column_type(column), || column.to_owned());
        match (name.as_str(), kind) {
            ("count", Some(_)) if !is_distinct => Aggregate::count(Measure::Count(of())),
            ("count", _) if is_distinct && self.is_key(column) => Some(Aggregate::OfKey(of())),
            ("min" | "max", _) if self.is_key(column) => Some(Aggregate::OfKey(of())),
            _ if is_distinct => None,
            ("sum" | "total", Some(FieldType::Float)) => Aggregate::same(&name, Measure::Sum(of())),
            ("avg", Some(FieldType::Float)) => {
                let (sum, count) = (Measure::Sum(of()), Measure::Count(of()));
                let text = format!(
                    "({} / nullif(cast({} as double), 0))",
                    sum.of_groups("sum"),
                    count.of_groups("sum")
                );
                Aggregate::made(vec![sum, count], &text)
            }
            ("min", Some(FieldType::Float | FieldType::Time)) => Aggregate::same("min", Measure::Least(of())),
            ("max", Some(FieldType::Float | FieldType::Time)) => {
                Aggregate::same("max", Measure::Greatest(of()))
            }
            _ => None,
        }
    }
}

/// The translation of an aggregate of rows.
enum Aggregate {
    /// It stays unchanged for groups; its column becomes a key of the groups.
    OfKey(String),
    /// The measures of groups, and an expression of these.
    Of(Vec<Measure>, Box<Expr>),
}

impl Aggregate {
    fn made(measures: Vec<Measure>, text: &str) -> Option<Self> {
        Some(Self::Of(measures, Box::new(parsed(text)?)))
    }

    fn same(name: &str, measure: Measure) -> Option<Self> {
        let text = measure.of_groups(name);
        Self::made(vec![measure], &text)
    }

    /// A count of no groups is 0, while the sum would be null.
    fn count(measure: Measure) -> Option<Self> {
        let text = format!("coalesce({}, 0)", measure.of_groups("sum"));
        Self::made(vec![measure], &text)
    }
}

impl Measure {
    /// Returns a function of the column with the measure.
    fn of_groups(&self, function: &str) -> String {
        format!("{function}({})", Ident::with_quote('"', self.to_string()))
    }
}

/// The parts of an expression. In an expression that is rewritten, aggregates of rows become aggregates of groups.
struct Seen<'a> {
    names: &'a Names<'a>,
    /// The columns outside of aggregates.
    bare: BTreeSet<String>,
    /// The columns of aggregates that stay unchanged.
    within: BTreeSet<String>,
    measures: BTreeSet<Measure>,
    has_aggregate: bool,
    /// True if it uses names that the statement gives.
    has_given: bool,
    /// Depth of nested aggregates.
    depth: usize,
}

impl<'a> Seen<'a> {
    fn new(names: &'a Names<'a>) -> Self {
        let (bare, within, measures) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { names, bare, within, measures, has_aggregate: false, has_given: false, depth: 0 }
    }
}

impl VisitorMut for Seen<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if functions::is_of_rows(function) => {
                self.depth += 1;
                self.has_aggregate = true;
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) if self.depth == 0 => {
                match self.names.column(expr) {
                    Some(name) if self.names.is_key(name) => _ = self.bare.insert(name.to_owned()),
                    // The named expression is checked in its own place.
                    _ if self.names.given_to(expr).is_some() => self.has_given = true,
                    _ => return ControlFlow::Break(()),
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = &*expr else { return ControlFlow::Continue(()) };
        if !functions::is_of_rows(function) {
            return ControlFlow::Continue(());
        }
        self.depth -= 1;
        match self.names.aggregate(function) {
            Some(Aggregate::OfKey(key)) => _ = self.within.insert(key),
            Some(Aggregate::Of(measures, made)) => {
                self.measures.extend(measures);
                *expr = *made;
            }
            None => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::admit::admit;

    /// Returns a statement on predictions of a day, rewritten to groups; `None`, if it stays one of rows.
    fn of_groups(text: &str) -> Option<(String, Vec<String>)> {
        let admitted = admit(text).unwrap();
        let groups = admitted.groups?;
        let columns = groups.columns().into_iter().map(|(name, _)| name).collect();
        Some((admitted.text, columns))
    }

    #[test]
    fn counts_sums_means_and_extremes_are_of_groups() {
        let (text, columns) = of_groups(
            "select release, count(*) n, avg(score) from predictions where day = '2026-06-01' group by release order by n",
        )
        .unwrap();
        assert_eq!(columns, ["day", "release", "count of rows", "count of score", "sum of score"]);
        assert_eq!(
            text,
            "SELECT release, CAST(coalesce(sum(\"count of rows\"), 0) AS BIGINT) AS n, \
             (sum(\"sum of score\") / nullif(CAST(sum(\"count of score\") AS DOUBLE), 0)) AS \"avg(score)\" \
             FROM predictions WHERE day = date('2026-06-01') GROUP BY release ORDER BY n"
        );
        let (_, columns) = of_groups(
            "select date_trunc('week', p.day) as week, lower(p.tag.city), max(predicted_at), min(score), count(label), max(release)
             from predictions p where day between '2026-06-01' and '2026-06-30' and p.label <> 'm' group by week, lower(p.tag.city) having count(*) > 2 order by week",
        )
        .unwrap();
        assert_eq!(
            columns,
            [
                "day",
                "label",
                "release",
                "tag.city",
                "count of rows",
                "count of label",
                "least of score",
                "greatest of predicted_at"
            ]
        );
        let (text, _) =
            of_groups("select distinct release from predictions where day = '2026-06-01'").unwrap();
        assert!(text.starts_with("SELECT DISTINCT release FROM"), "{text}");
    }

    #[test]
    fn statements_unfit_for_segment_groups_stay_unchanged() {
        for text in [
            "select release from predictions where day = '2026-06-01'",
            "select key, count(*) from predictions where day = '2026-06-01' group by key",
            "select release, count(*) from predictions where day = '2026-06-01' and score > 0.5 group by release",
            "select release, median(score) from predictions where day = '2026-06-01' group by release",
            "select release, avg(score * 2) from predictions where day = '2026-06-01' group by release",
            "select release, count(*) filter (where score > 0.5) from predictions where day = '2026-06-01' group by release",
            "select release, count(distinct key) from predictions where day = '2026-06-01' group by release",
            "select release, sum(distinct score) from predictions where day = '2026-06-01' group by release",
            "select release, count(*) from (select * from predictions where day = '2026-06-01') group by release",
            "select release, count(*) from joined where day = '2026-06-01' group by release",
            "select p.release, count(*) from predictions p join outcomes o on p.key = o.key where p.day = '2026-06-01' and o.day = '2026-06-01' group by p.release",
            "select release, count(*) from predictions where day = '2026-06-01' group by release order by max(score)",
            "select release, count(*) from predictions where day = '2026-06-01' and key in (select key from outcomes where day = '2026-06-01') group by release",
            "select count(*) as \"count of rows\", release from predictions where day = '2026-06-01' group by release",
            "select max(predicted_at) as appended_at, count(*) from predictions where day = '2026-06-01' and appended_at > '2026-06-02'",
            "select release, count(*) as n from predictions where day = '2026-06-01' and n > 3 group by release",
            "with p as (select * from predictions where day = '2026-06-01') select release, count(*) from p group by release",
        ] {
            assert_eq!(of_groups(text), None, "{text}");
        }
        // A column beside its groups is none of these.
        let beside = "select date_trunc('month', day) as m, date_part('year', day), count(*) from predictions where day = '2026-06-01' group by m";
        assert!(admit(beside).is_err());
    }
}
