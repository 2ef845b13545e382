//! Functions over windows. Polars computes some of them over another window: these are refused, with a suggestion.

use sqlparser::ast::{
    Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, WindowFrameBound, WindowSpec, WindowType,
};

use super::{functions, own::Own, walk::walk};

const COUNT: &str = "count";
const LAST: &str = "last";
const LAST_VALUE: &str = "last_value";

/// The windows that a statement names: `w` of `window w as (partition by release)`. Several SELECTs may use one name.
#[derive(Default)]
pub(super) struct Named(Vec<(String, WindowSpec)>);

impl Named {
    /// Adds the windows that a SELECT names.
    pub(super) fn add(&mut self, select: &Select) {
        for NamedWindowDefinition(name, window) in &select.named_window {
            let specs = match window {
                NamedWindowExpr::WindowSpec(spec) => vec![spec.clone()],
                NamedWindowExpr::NamedWindow(other) => self.of(other).cloned().collect(),
            };
            self.0.extend(specs.into_iter().map(|spec| (name.value.clone(), spec)));
        }
    }

    fn of(&self, name: &Ident) -> impl Iterator<Item = &WindowSpec> {
        self.0.iter().filter(move |(known, _)| *known == name.value).map(|(_, spec)| spec)
    }
}

/// Returns the reason why a function cannot be computed over its window, if there is one.
pub(super) fn wrong(function: &Function, named: &Named) -> Option<String> {
    match function.over.as_ref()? {
        WindowType::WindowSpec(spec) => wrong_over(function, spec),
        WindowType::NamedWindow(name) => {
            let is_count = functions::is_named(function, COUNT);
            named.of(name).find_map(|spec| match is_count && !spec.order_by.is_empty() {
                true => Some(format!("`{function}` has a window with ORDER BY; write the window in OVER")),
                false => wrong_over(function, spec),
            })
        }
    }
}

fn wrong_over(function: &Function, spec: &WindowSpec) -> Option<String> {
    let name = function.name.to_string().to_ascii_lowercase();
    let is_one_of = |names: &[&str]| names.contains(&name.as_str());
    let (is_ordered, is_parted) = (!spec.order_by.is_empty(), !spec.partition_by.is_empty());
    if !functions::may_have_window(&name) {
        return Some(format!("`{name}` is a function of single values and has no OVER"));
    }
    if let Some(of) = &spec.window_name {
        return Some(format!("`{function}` takes the window `{of}` in parentheses; write the window out"));
    }
    // Polars computes these over all rows, regardless of the window.
    if is_one_of(functions::PAIRED_OR_RANKED) && (is_ordered || is_parted) {
        return Some(format!(
            "`{name}` is not computed over a window; compute it with GROUP BY in a query that WITH names, and join that"
        ));
    }
    if spec.order_by.iter().any(|by| by.options.nulls_first == Some(false)) {
        return Some(
            "NULLS LAST is not admitted in OVER, where nulls come first; write `order by score is null, score`, or \
             `order by score is not null desc, score desc`"
                .to_owned(),
        );
    }
    let has_end = match spec.window_frame.as_ref().and_then(|frame| frame.end_bound.as_ref()) {
        None | Some(WindowFrameBound::CurrentRow) => false,
        Some(_) => true,
    };
    match is_ordered {
        // Polars computes these over the whole partition, even if the window has an order.
        true if is_one_of(functions::MEANS)
            || is_one_of(functions::SPREADS)
            || functions::is_of_distinct(function) =>
        {
            Some(format!(
                "`{function}` would be of the whole partition; leave ORDER BY out, or make a running mean of \
             `sum(x) over (... order by ...) / count(x) over (... order by ...)`"
            ))
        }
        true if is_one_of(&[LAST]) => {
            Some(format!("`{function}` would be of the whole partition; write last_value"))
        }
        true if is_one_of(&[LAST_VALUE]) && has_end => Some(format!(
            "`{function}` would end at the current row; write first_value and the opposite order"
        )),
        false if is_one_of(&[LAST_VALUE]) => {
            Some(format!("`{function}` has no order; write ORDER BY in OVER"))
        }
        false if spec.window_frame.is_some() => {
            Some(format!("`{function}` has a frame of rows without an order; write ORDER BY in OVER"))
        }
        _ => None,
    }
}

/// Returns the reason why a SELECT cannot have a window, if it has one all the same: its rows are groups, which polars does not
/// number, or do not exist yet.
pub(super) fn misplaced(select: &Select, is_grouped: bool) -> Option<String> {
    let mut shown = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    if let Some(window) = select.selection.as_ref().and_then(first_in) {
        return Some(format!(
            "`{window}` stands in WHERE; write it in a query that WITH names, and the condition on that"
        ));
    }
    let is_aggregate = |function: &Function| functions::is_of_rows(function) && function.over.is_none();
    let is_of_groups = is_grouped
        || select.having.is_some()
        || shown.clone().any(|expr| found(expr, is_aggregate).is_some());
    let mut more = select.having.iter().chain(&select.qualify);
    let window = shown.find_map(first_in).or_else(|| more.find_map(first_in));
    window.filter(|_| is_of_groups).map(|window| beside_groups(&window))
}

/// Returns the same kind of reason for a window in the order of grouped rows.
pub(super) fn misplaced_in_order(query: &Query) -> Option<String> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let Some(OrderByKind::Expressions(by)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return None;
    };
    let window = by.iter().find_map(|by| first_in(&by.expr))?;
    functions::is_grouped(select).then(|| beside_groups(&window))
}

fn beside_groups(window: &str) -> String {
    format!(
        "`{window}` stands beside GROUP BY or an aggregate; write it in a query of the groups, named by WITH"
    )
}

/// Returns the first function over a window.
fn first_in(expr: &Expr) -> Option<String> {
    found(expr, |function| function.over.is_some())
}

/// Returns the first function that matches, outside of nested queries.
fn found(expr: &Expr, is_one: impl Fn(&Function) -> bool) -> Option<String> {
    let look = |expr: &Expr| match expr {
        Expr::Function(function) if is_one(function) => Some(function.to_string()),
        _ => None,
    };
    walk(expr, &mut Own::new(look)).break_value()
}
