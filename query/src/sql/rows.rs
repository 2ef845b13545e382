//! Functions of several rows: aggregates of groups, and functions over windows. Both take columns that were computed before, so
//! that a constant has one value for each row, and nothing is computed twice.

use polars::{
    lazy::dsl::{max_horizontal, min_horizontal, sum_horizontal},
    prelude::{
        DataType, Expr, FillNullStrategy, IdxSize, LazyFrame, NULL, QuantileMethod, SortOptions,
        WindowMapping, col, len, lit, when,
    },
};
use sqlparser::ast::{
    DuplicateTreatment, Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArguments, OrderByExpr,
    WindowFrame, WindowFrameBound, WindowFrameUnits, WindowType,
};

use super::{
    expressions::{Made, Scope, is_in},
    frames::sorted,
};

pub(super) const AGGREGATES: &str = "avg corr count covar_pop covar_samp max median min quantile_cont quantile_disc stddev stddev_pop \
    stddev_samp stdev stdev_samp sum var var_pop var_samp variance";

/// Functions that always have a window.
pub(super) const WINDOWS: &str = "first_value lag last_value lead rank row_number";

/// Maximum number of rows of a frame with a fixed number of them.
const MAX_FRAME_ROWS: i64 = 64;

/// The groups of a SELECT.
#[derive(Default)]
pub(super) struct Groups {
    /// The expressions by which rows are grouped.
    pub(super) keys: Vec<Expr>,
    pub(super) aggregates: Vec<Aggregate>,
    /// The values that aggregates take.
    pub(super) inputs: Vec<Expr>,
}

/// An aggregate of a group.
pub(super) struct Aggregate {
    pub(super) name: String,
    /// True if it takes all rows of a group, without DISTINCT or FILTER.
    pub(super) is_plain: bool,
    pub(super) of: Option<Expr>,
    /// The aggregate for polars.
    pub(super) made: Expr,
}

impl Groups {
    /// Returns the name of the column of a key.
    pub(super) fn key(at: usize) -> String {
        format!("key {at}")
    }

    fn input(&mut self, expr: Expr) -> Expr {
        let at = self.inputs.iter().position(|input| *input == expr).unwrap_or(self.inputs.len());
        if at == self.inputs.len() {
            self.inputs.push(expr);
        }
        col(format!("in {at}"))
    }

    /// Groups the rows of a frame.
    pub(super) fn of(&self, frame: LazyFrame) -> LazyFrame {
        let keys = self.keys.iter().enumerate().map(|(at, key)| key.clone().alias(Self::key(at)));
        let inputs =
            self.inputs.iter().enumerate().map(|(at, input)| input.clone().alias(format!("in {at}")));
        let frame = frame.with_columns(keys.chain(inputs).collect::<Vec<_>>());
        let mut made: Vec<Expr> = self
            .aggregates
            .iter()
            .enumerate()
            .map(|(at, one)| one.made.clone().alias(format!("out {at}")))
            .collect();
        if made.is_empty() {
            made.push(len().alias("rows"));
        }
        let keys: Vec<Expr> = (0..self.keys.len()).map(|at| col(Self::key(at))).collect();
        if keys.is_empty() { frame.select(made) } else { frame.group_by(keys).agg(made) }
    }
}

/// A function over a window.
pub(super) struct Over {
    parts: Vec<Expr>,
    order: Vec<Expr>,
    directions: Vec<(bool, bool)>,
    /// The value that the function takes, and the function, with the names of their columns.
    input: (String, Expr),
    call: (String, Expr, Place),
}

/// The row whose value is that of all rows of one place in the order.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Each,
    First,
    Last,
}

/// The rows that a function over a window takes.
#[derive(Clone, Copy, PartialEq)]
enum Frame {
    Whole,
    /// Up to this row.
    Rows,
    /// Up to the last row of the same place in the order.
    Places,
    /// From so many rows before to so many behind.
    Around(i64, i64),
}

/// The arguments of a function of several rows: the value, if it is not `*`, and whether equal values count once.
struct Of {
    value: Option<Expr>,
    is_distinct: bool,
    is_filtered: bool,
}

impl Scope<'_, '_> {
    /// Translates the arguments of a function of several rows.
    fn of(&mut self, function: &Function) -> Made<Of> {
        let is_odd = function.null_treatment.is_some() || !function.within_group.is_empty();
        let list = match &function.args {
            FunctionArguments::List(list) if list.clauses.is_empty() && !is_odd => list,
            _ => return Err(format!("`{function}` is not admitted")),
        };
        let value = match list.args.first() {
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => Some(self.expr(expr)?),
            None | Some(FunctionArg::Unnamed(FunctionArgExpr::Wildcard)) => None,
            _ => return Err(format!("`{function}` is not admitted")),
        };
        let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        let (value, is_filtered) = match &function.filter {
            None => (value, false),
            Some(filter) => {
                let holds = self.expr(filter)?.cast(DataType::Boolean);
                (Some(when(holds).then(value.unwrap_or_else(|| lit(1_i64))).otherwise(lit(NULL))), true)
            }
        };
        Ok(Of { value, is_distinct, is_filtered })
    }

    /// Translates an aggregate into the column of its values.
    pub(super) fn aggregate(&mut self, function: &Function, name: &str) -> Made<Expr> {
        let Some(mut groups) = self.groups.take() else {
            return Err(format!(
                "`{function}` is made of several rows, and stands within another such function or where there are single rows; \
                 compute it in a query of its own, named by WITH"
            ));
        };
        let windows = self.windows.take();
        let made = self.aggregated(function, name, &mut groups);
        (self.groups, self.windows) = (Some(groups), windows);
        made
    }

    fn aggregated(&mut self, function: &Function, name: &str, groups: &mut Groups) -> Made<Expr> {
        let Of { value, is_distinct, is_filtered } = self.of(function)?;
        let kind = value.as_ref().map_or(DataType::Null, |value| self.kind(value));
        let of = value.clone();
        let mut input = value.map(|value| groups.input(value));
        let made = match (second(function), name, &input) {
            (Some(second), "corr" | "covar_pop" | "covar_samp", Some(one)) => {
                let other = groups.input(self.expr(second)?);
                paired(name, one, &other)?
            }
            (Some(share), "quantile_cont" | "quantile_disc", Some(of)) => {
                let method = if name == "quantile_cont" {
                    QuantileMethod::Linear
                } else {
                    QuantileMethod::Equiprobable
                };
                of.clone().quantile(lit(share_of(share)?), method)
            }
            (Some(_), ..) => return Err(format!("`{function}` has more arguments than {name} takes")),
            (None, "count", None) => len().cast(DataType::Int64),
            _ => {
                let of = input.take().ok_or_else(|| format!("`{function}` names no column"))?;
                one(name, if is_distinct { of.drop_nulls().unique() } else { of }, &kind)?
            }
        };
        let at =
            groups.aggregates.iter().position(|other| other.made == made).unwrap_or(groups.aggregates.len());
        if at == groups.aggregates.len() {
            let is_plain = !is_distinct && !is_filtered;
            groups.aggregates.push(Aggregate { name: name.to_owned(), is_plain, of, made: made.clone() });
            self.schema.with_column(format!("out {at}").into(), kind_of(name, kind));
        }
        Ok(col(format!("out {at}")))
    }

    /// Translates a function over a window into the column of its values.
    pub(super) fn over(&mut self, function: &Function, name: &str) -> Made<Expr> {
        let Some(mut windows) = self.windows.take() else {
            return Err(format!(
                "`{function}` stands where a row has no window yet; write it in a query that WITH names, or in QUALIFY"
            ));
        };
        let made = self.windowed(function, name, &mut windows);
        self.windows = Some(windows);
        made
    }

    fn windowed(&mut self, function: &Function, name: &str, windows: &mut Vec<Over>) -> Made<Expr> {
        let spec = match &function.over {
            Some(WindowType::WindowSpec(spec)) if spec.window_name.is_none() => spec.clone(),
            Some(WindowType::NamedWindow(name)) => self.frames.window(&name.value)?,
            _ => return Err(format!("`{function}` takes the window in parentheses; write the window out")),
        };
        let parts = spec.partition_by.iter().map(|part| self.expr(part)).collect::<Made<Vec<_>>>()?;
        let order = spec.order_by.iter().map(|by| self.expr(&by.expr)).collect::<Made<Vec<_>>>()?;
        let directions = spec.order_by.iter().map(direction).collect();
        if is_in(WINDOWS, name) && order.is_empty() {
            return Err(format!("`{function}` has no order; write ORDER BY in OVER"));
        }
        let frame = frame(function, spec.window_frame.as_ref(), !order.is_empty())?;
        let Of { value, is_distinct, .. } = self.of(function)?;
        let value = value.unwrap_or_else(|| lit(1_i64));
        let kind = self.kind(&value);
        if is_distinct && frame != Frame::Whole {
            return Err(format!("`{function}` counts distinct values of a window without ORDER BY only"));
        }
        let number = self.frames.next();
        let (input, id) = (format!("arg {number}"), format!("over {number}"));
        let of = if is_distinct { col(input.as_str()).drop_nulls().unique() } else { col(input.as_str()) };
        let (made, place) = self.call(function, name, (of, &kind), frame)?;
        self.schema.with_column(id.as_str().into(), kind_of(name, kind));
        windows.push(Over {
            parts,
            order,
            directions,
            input: (input, value),
            call: (id.clone(), made, place),
        });
        Ok(col(id))
    }

    /// Translates a window function, with the row that gives the value of a position in its order.
    fn call(
        &mut self,
        function: &Function,
        name: &str,
        (of, kind): (Expr, &DataType),
        frame: Frame,
    ) -> Made<(Expr, Place)> {
        let place = if frame == Frame::Places { Place::Last } else { Place::Each };
        let made = match (name, frame) {
            ("row_number", _) => return Ok((of.cum_count(false).cast(DataType::Int64), Place::Each)),
            ("rank", _) => return Ok((of.cum_count(false).cast(DataType::Int64), Place::First)),
            ("lag" | "lead", _) => {
                let by = second(function).map_or(Ok(1), rows)?;
                let by = lit(if name == "lag" { by } else { -by });
                let made = match argument(function, 2) {
                    Some(other) => of.shift_and_fill(by, self.expr(other)?),
                    None => of.shift(by),
                };
                return Ok((made, Place::Each));
            }
            ("first_value", Frame::Whole | Frame::Rows | Frame::Places) => {
                return Ok((of.first(), Place::Each));
            }
            ("last_value", Frame::Whole) => Ok(of.last()),
            ("last_value", Frame::Rows | Frame::Places) => Ok(of),
            _ if second(function).is_some() => Err(String::new()),
            (_, Frame::Whole) => one(name, of, kind),
            (_, Frame::Rows | Frame::Places) => running(name, of, kind),
            (_, Frame::Around(before, behind)) => moving(name, &of, before, behind),
        };
        let wrong = |_| {
            format!(
                "`{function}` is not computed over such a window; compute it with GROUP BY in a query that WITH names, and join that"
            )
        };
        Ok((made.map_err(wrong)?, place))
    }
}

impl Over {
    /// Number of columns that it makes besides those of its window.
    pub(super) const COLUMNS: usize = 3;

    /// Adds the columns of the functions over a window to a frame.
    pub(super) fn of(&self, at: usize, frame: LazyFrame) -> LazyFrame {
        let named =
            |name: &str, all: &[Expr]| (0..all.len()).map(|n| format!("{name} {at} {n}")).collect::<Vec<_>>();
        let (parts, order) = (named("part", &self.parts), named("order", &self.order));
        let keys = self.parts.iter().chain(&self.order).zip(parts.iter().chain(&order));
        let (id, made, place) = &self.call;
        let all = keys
            .chain([(&self.input.1, &self.input.0)])
            .map(|(expr, name)| expr.clone().alias(name.as_str()));
        let mut frame = frame.with_columns(all.collect::<Vec<_>>());
        let row = format!("row {at}");
        if !order.is_empty() {
            frame = frame.sort(order.clone(), sorted(&self.directions)).with_row_index(row.as_str(), None);
        }
        let over = |made: Expr, parts: Vec<&String>| {
            let parts: Vec<Expr> = parts.into_iter().map(|part| col(part.as_str())).collect();
            let partition_by = if parts.is_empty() { vec![lit(1)] } else { parts };
            let order_by = (!order.is_empty()).then(|| (col(row.as_str()).into(), SortOptions::default()));
            let mapping = WindowMapping::GroupsToRows;
            Expr::Over { function: made.into(), partition_by, order_by, mapping }.alias(id.as_str())
        };
        let frame = frame.with_column(over(made.clone(), parts.iter().collect()));
        let of_place = match place {
            Place::Each => return frame,
            Place::First => col(id.as_str()).first(),
            Place::Last => col(id.as_str()).last(),
        };
        frame.with_column(over(of_place, parts.iter().chain(&order).collect()))
    }
}

/// Returns true for a descending order, and true if nulls come last: nulls are greater than all values by default.
pub(super) fn direction(by: &OrderByExpr) -> (bool, bool) {
    let is_descending = by.options.asc == Some(false);
    (is_descending, by.options.nulls_first.map_or(!is_descending, |first| !first))
}

fn argument(function: &Function, at: usize) -> Option<&Ast> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.get(at)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

fn second(function: &Function) -> Option<&Ast> {
    argument(function, 1)
}

fn share_of(share: &Ast) -> Made<f64> {
    match share.to_string().parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => Err(format!("`{share}` is not a number from 0 to 1")),
    }
}

/// Returns the type of the result of a function of several rows.
fn kind_of(name: &str, of: DataType) -> DataType {
    match name {
        "count" | "row_number" | "rank" => DataType::Int64,
        "sum" if of.is_integer() => DataType::Int64,
        "max" | "min" | "first_value" | "last_value" | "lag" | "lead" => of,
        _ => DataType::Float64,
    }
}

/// Returns an aggregate of one column.
fn one(name: &str, of: Expr, kind: &DataType) -> Made<Expr> {
    let is_number = kind.is_numeric() || *kind == DataType::Null;
    if !is_number && !["count", "max", "min"].contains(&name) {
        return Err(format!(
            "{name} is of numbers; cast the column, or count rows: sum(case when ... then 1 else 0 end)"
        ));
    }
    Ok(match name {
        "count" => of.count().cast(DataType::Int64),
        "sum" => when(of.clone().count().gt(lit(0))).then(of.cast(summed(kind)).sum()).otherwise(lit(NULL)),
        "avg" => of.mean(),
        "max" => of.max(),
        "min" => of.min(),
        "median" => of.median(),
        "stddev" | "stddev_samp" | "stdev" | "stdev_samp" => of.std(1),
        "stddev_pop" => of.std(0),
        "var" | "var_samp" | "variance" => of.var(1),
        "var_pop" => of.var(0),
        _ => return Err(format!("{name} takes two arguments")),
    })
}

fn summed(kind: &DataType) -> DataType {
    if kind.is_integer() { DataType::Int64 } else { DataType::Float64 }
}

/// Returns a function of two columns, over the rows with both.
fn paired(name: &str, one: &Expr, other: &Expr) -> Made<Expr> {
    let both = || one.clone().is_not_null().and(other.clone().is_not_null());
    let one_of = |of: &Expr| of.clone().filter(both());
    let made = polars_sql::sql_expr(format!("{name}(a, b)")).map_err(|error| error.to_string())?;
    Ok(made.map_expr(|expr| match &expr {
        Expr::Column(name) => one_of(if name == "a" { one } else { other }),
        _ => expr,
    }))
}

/// Returns an aggregate of the rows up to each.
fn running(name: &str, of: Expr, kind: &DataType) -> Made<Expr> {
    let count = of.clone().cum_count(false).cast(DataType::Int64);
    let some = |made: Expr| when(count.clone().gt(lit(0))).then(made).otherwise(lit(NULL));
    let sum = || of.clone().cast(summed(kind)).fill_null(lit(0)).cum_sum(false);
    let kept = |of: Expr| of.fill_null_with_strategy(FillNullStrategy::Forward(None::<IdxSize>));
    Ok(match name {
        "count" => count,
        "sum" if kind.is_numeric() => some(sum()),
        "avg" if kind.is_numeric() => some(sum().true_div(count.clone())),
        "max" => kept(of.cum_max(false)),
        "min" => kept(of.cum_min(false)),
        _ => return Err(String::new()),
    })
}

/// Returns an aggregate of so many rows before each to so many behind.
fn moving(name: &str, of: &Expr, before: i64, behind: i64) -> Made<Expr> {
    let rows: Vec<Expr> = (-behind..=before).map(|by| of.clone().shift(lit(by))).collect();
    let there: Vec<Expr> = rows.iter().map(|row| row.clone().is_not_null().cast(DataType::Int64)).collect();
    let count = sum_horizontal(there, true).map_err(|error| error.to_string())?;
    let made = match name {
        "count" => return Ok(count),
        "sum" => sum_horizontal(&rows, true),
        "avg" => sum_horizontal(&rows, true).map(|sum| sum.true_div(count.clone())),
        "max" => max_horizontal(&rows),
        "min" => min_horizontal(&rows),
        _ => return Err(String::new()),
    };
    Ok(when(count.gt(lit(0))).then(made.map_err(|error| error.to_string())?).otherwise(lit(NULL)))
}

/// Returns a literal number of rows.
fn rows(number: &Ast) -> Made<i64> {
    match number.to_string().parse::<i64>() {
        Ok(rows) if (0..=MAX_FRAME_ROWS).contains(&rows) => Ok(rows),
        _ => Err(format!("`{number}` is not a number of rows, of at most {MAX_FRAME_ROWS}")),
    }
}

/// Returns the rows of the frame of a window.
fn frame(function: &Function, frame: Option<&WindowFrame>, is_ordered: bool) -> Made<Frame> {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let Some(frame) = frame else { return Ok(if is_ordered { Frame::Places } else { Frame::Whole }) };
    let end = frame.end_bound.clone().unwrap_or(CurrentRow);
    let is_rows = frame.units == WindowFrameUnits::Rows;
    match (&frame.start_bound, &end) {
        (Preceding(None), Following(None)) => Ok(Frame::Whole),
        _ if !is_ordered => {
            Err(format!("`{function}` has a frame of rows without an order; write ORDER BY in OVER"))
        }
        (Preceding(None), CurrentRow) if is_rows => Ok(Frame::Rows),
        (Preceding(None), CurrentRow) if frame.units == WindowFrameUnits::Range => Ok(Frame::Places),
        (Preceding(Some(before)), CurrentRow) if is_rows => Ok(Frame::Around(rows(before)?, 0)),
        (CurrentRow, Following(Some(behind))) if is_rows => Ok(Frame::Around(0, rows(behind)?)),
        (Preceding(Some(before)), Following(Some(behind))) if is_rows => {
            Ok(Frame::Around(rows(before)?, rows(behind)?))
        }
        _ => Err(format!(
            "the window of `{function}` is not admitted; write rows between 6 preceding and current row"
        )),
    }
}
