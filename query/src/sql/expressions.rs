//! Translation of the expressions of statements to those of polars. Names, types and predicates are translated here;
//! functions of single values are those of polars-sql.

use std::ops::ControlFlow;

use event::{Day, Kind, Timestamp, custom::CUSTOM_METRICS};
use polars::prelude::{
    DataType, Expr, Field, LazyFrame, NULL, Operator, RoundMode, Schema, TimeUnit, TimeZone, binary_expr,
    coalesce, col, lit, when,
};
use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType as Type, DateTimeField, Expr as Ast, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, Interval, Spanned, UnaryOperator, Value, ValueWithSpan,
    VisitMut, VisitorMut,
};

use super::{
    admit::expressions,
    frames::{Column, Frames},
    rows::{AGGREGATES, Groups, Over, WINDOWS},
};
use crate::frame::reason;

/// Maximum depth of expressions.
const MAX_DEPTH: usize = 100;

/// Maximum length of a list that becomes equalities, which polars pushes down and shows the keys and days of.
const MAX_LISTED: usize = 64;

/// Length of a day in letters: `2026-06-01`.
const LENGTH_OF_DAY: usize = 10;

/// Prefix of the names of parts within an expression that polars-sql reads.
const PART: char = '#';

/// Functions of single values that polars-sql computes according to the standard. None makes text longer than its
/// arguments.
const SCALARS: &str = "abs acos acosd asin asind atan atan2 atan2d atand bit_length cbrt ceil ceiling char_length \
    character_length coalesce concat cos cosd cot cotd date date_part degrees ends_with exp floor greatest \
    if ifnull least left length ln log10 log1p log2 lower ltrim nullif octet_length pi radians regexp_like \
    reverse right rtrim sign sin sind sqrt starts_with substr tan tand timestamp trunc truncate upper";

/// Functions with results of 32 bits or fewer, or without a sign, in polars.
const NARROW: &str = "bit_length char_length character_length date_part length octet_length";

/// The units of `date_trunc`, in words of SQL and of polars.
const UNITS: [(&str, &str); 8] = [
    ("second", "1s"),
    ("minute", "1m"),
    ("hour", "1h"),
    ("day", "1d"),
    ("week", "1w"),
    ("month", "1mo"),
    ("quarter", "1q"),
    ("year", "1y"),
];

/// The units of spans of whole days, as named by polars.
const OF_DAYS: &str = "d day days w week weeks mo mon mons month months q quarter quarters y year years";

/// An expression, or the reason why there is none.
pub(super) type Made<T> = Result<T, String>;

/// A type of instants; all of ours are in UTC.
pub(super) fn instants() -> DataType {
    DataType::Datetime(TimeUnit::Microseconds, Some(TimeZone::UTC))
}

/// Returns true if a name is the prefix of a family: `tag` of `tag.city`.
fn is_family(name: &str) -> bool {
    let families = Kind::ALL.into_iter().flat_map(Kind::families).chain([&CUSTOM_METRICS]);
    families.map(|family| family.prefix).any(|prefix| prefix.strip_suffix('.') == Some(name))
}

/// Scope of expressions: the columns that they may name, and the parts of their SELECT.
pub(super) struct Scope<'f, 'c> {
    pub(super) frames: &'f mut Frames,
    pub(super) columns: &'c [Column],
    /// The types of all columns that there are.
    pub(super) schema: Schema,
    /// The expressions that the SELECT shows under a name.
    pub(super) shown: Vec<(String, Ast)>,
    /// The groups of a SELECT that makes one row of several.
    pub(super) groups: Option<Groups>,
    /// The windows of a SELECT, where functions over windows may stand.
    pub(super) windows: Option<Vec<Over>>,
    /// Scalar subqueries, which become columns of each row.
    pub(super) scalars: Vec<LazyFrame>,
    depth: usize,
}

impl<'f, 'c> Scope<'f, 'c> {
    pub(super) fn new(frames: &'f mut Frames, columns: &'c [Column]) -> Self {
        let schema =
            columns.iter().map(|column| Field::new(column.id.as_str().into(), column.kind.clone())).collect();
        Self {
            frames,
            columns,
            schema,
            shown: Vec::new(),
            groups: None,
            windows: None,
            scalars: Vec::new(),
            depth: 0,
        }
    }

    /// Translates an expression; an error contains its position in the statement.
    pub(super) fn expr(&mut self, ast: &Ast) -> Made<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("expressions may stand {MAX_DEPTH} deep in each other, not deeper"));
        }
        let made = match self.of_group(ast) {
            Some(made) => made,
            None => self.made(ast),
        };
        self.depth -= 1;
        let at = ast.span().start;
        made.map_err(|why| match at.line == 0 || why.contains(" (line ") {
            true => why,
            false => format!("{why} (line {}, column {})", at.line, at.column),
        })
    }

    /// Returns the type of an expression; unknown, if polars does not tell it yet.
    pub(super) fn kind(&self, expr: &Expr) -> DataType {
        expr.to_field(&self.schema).map_or(DataType::Null, |field| field.dtype().clone())
    }

    /// Returns an expression of groups that is one of those by which rows are grouped, or a constant.
    fn of_group(&mut self, ast: &Ast) -> Option<Made<Expr>> {
        let groups = self.groups.take()?;
        let (windows, texts, depth) = (self.windows.take(), self.frames.texts, self.depth);
        let has_query = expressions(ast, |expr| match expr {
            Ast::Subquery(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        let of_row = if has_query.is_some() { None } else { self.made(ast).ok() };
        (self.windows, self.frames.texts, self.depth) = (windows, texts, depth);
        let found = of_row.and_then(|expr| match groups.keys.iter().position(|key| *key == expr) {
            Some(at) => Some(Ok(col(Groups::key(at)))),
            None if expr.clone().meta().root_names().is_empty() => Some(Ok(expr)),
            None if matches!(expr, Expr::Column(_)) => Some(Err(format!(
                "`{ast}` stands beside what is made of several rows; write GROUP BY {ast}, or max({ast})"
            ))),
            None => None,
        });
        self.groups = Some(groups);
        found
    }

    fn made(&mut self, ast: &Ast) -> Made<Expr> {
        match ast {
            Ast::Nested(inner) => self.expr(inner),
            Ast::Identifier(name) => self.column(std::slice::from_ref(name)),
            Ast::CompoundIdentifier(names) => self.column(names),
            Ast::Value(value) => literal(&value.value),
            Ast::TypedString(typed) => match (&typed.data_type, &typed.value.value) {
                (Type::Date, Value::SingleQuotedString(text)) => day(text),
                (Type::Timestamp(..) | Type::Datetime(_), Value::SingleQuotedString(text)) => instant(text),
                _ => Err(format!(
                    "`{ast}` is not admitted; write date '2026-06-01' or timestamp '2026-06-01 12:00:00'"
                )),
            },
            Ast::UnaryOp { op, expr } => {
                let made = self.expr(expr)?;
                match op {
                    UnaryOperator::Not => Ok(made.not()),
                    UnaryOperator::Minus => Ok(lit(0_i64) - made),
                    UnaryOperator::Plus => Ok(made),
                    _ => Err(format!("`{op}` is not admitted")),
                }
            }
            Ast::BinaryOp { left, op, right } => self.binary(left, op, right),
            Ast::Between { expr, negated, low, high } => {
                let (of, low, high) = (self.expr(expr)?, self.expr(low)?, self.expr(high)?);
                let from = self.compared(of.clone(), Operator::GtEq, low)?;
                let between = from.and(self.compared(of, Operator::LtEq, high)?);
                Ok(if *negated { between.not() } else { between })
            }
            Ast::InList { expr, list, negated } => self.listed(ast, expr, list, *negated),
            Ast::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            Ast::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, format: None, ..
            } => self.cast(expr, data_type, true),
            Ast::Cast { kind: CastKind::TryCast, expr, data_type, format: None, .. } => {
                self.cast(expr, data_type, false)
            }
            Ast::Function(function) => self.function(function),
            Ast::Extract { field: DateTimeField::Epoch, .. } => self.by_polars(ast),
            Ast::Extract { .. } => Ok(self.by_polars(ast)?.cast(DataType::Int64)),
            Ast::Like { .. }
            | Ast::ILike { .. }
            | Ast::RLike { .. }
            | Ast::Ceil { .. }
            | Ast::Floor { .. } => self.by_polars(ast),
            Ast::Substring { substring_from: Some(from), .. } if !matches!(**from, Ast::Value(_)) => {
                Err(format!("`{ast}` begins at a number, from 1 on"))
            }
            Ast::Substring { .. } | Ast::Trim { .. } => self.text(ast, 1),
            Ast::Subquery(query) => {
                let (value, id, kind) = self.frames.scalar(query)?;
                self.schema.with_column(id.as_str().into(), kind);
                self.scalars.push(value);
                Ok(col(id))
            }
            _ => self.truth(ast),
        }
    }

    /// Translates predicates.
    fn truth(&mut self, ast: &Ast) -> Made<Expr> {
        let mut of = |expr: &Ast| self.expr(expr);
        Ok(match ast {
            Ast::IsNull(expr) | Ast::IsUnknown(expr) => of(expr)?.is_null(),
            Ast::IsNotNull(expr) | Ast::IsNotUnknown(expr) => of(expr)?.is_not_null(),
            Ast::IsTrue(expr) => coalesce(&[of(expr)?, lit(false)]),
            Ast::IsNotTrue(expr) => coalesce(&[of(expr)?, lit(false)]).not(),
            Ast::IsFalse(expr) => coalesce(&[of(expr)?, lit(true)]).not(),
            Ast::IsNotFalse(expr) => coalesce(&[of(expr)?, lit(true)]),
            Ast::IsDistinctFrom(left, right) => self.distinct(left, right)?,
            Ast::IsNotDistinctFrom(left, right) => self.distinct(left, right)?.not(),
            Ast::Position { .. } => return Err(unknown("position")),
            Ast::InSubquery { .. } | Ast::Exists { .. } => {
                return Err(format!(
                    "`{ast}` stands in WHERE, alone or behind AND; join the tables in its place"
                ));
            }
            Ast::AnyOp { .. } | Ast::AllOp { .. } => {
                return Err("ANY and ALL are not admitted; write IN or NOT IN".to_owned());
            }
            Ast::Tuple(_) => {
                return Err("lists in parentheses are not admitted; compare each column by itself".to_owned());
            }
            _ => return Err(format!("`{ast}` is not admitted")),
        })
    }

    fn distinct(&mut self, left: &Ast, right: &Ast) -> Made<Expr> {
        // The parser takes all that follows for the right side.
        if matches!(right, Ast::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. }) {
            return Err("put parentheses round `a is distinct from b`, if anything follows on it".to_owned());
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (left, right) = self.alike(left, right)?;
        Ok(left.neq_missing(right))
    }

    /// Returns a column of the tables, or else the expression shown under its name.
    fn column(&mut self, names: &[Ident]) -> Made<Expr> {
        let (table, name) = match names {
            [name] => (None, name.value.clone()),
            [table, name]
                if self.columns.iter().any(|column| column.table == table.value)
                    || !is_family(&table.value) =>
            {
                (Some(&table.value), name.value.clone())
            }
            [of, name] => (None, format!("{}.{}", of.value, name.value)),
            [table, of, name] => (Some(&table.value), format!("{}.{}", of.value, name.value)),
            _ => (None, String::new()),
        };
        let is_one = |column: &&Column| match table {
            Some(table) => column.table == *table && column.name == name,
            None => column.is_bare && column.name == name,
        };
        let mut found = self.columns.iter().filter(is_one);
        match (found.next(), found.next()) {
            (Some(one), None) => return Ok(col(one.id.as_str())),
            (Some(one), Some(other)) => {
                let (one, other) = (&one.table, &other.table);
                return Err(format!(
                    "`{name}` is a column of several tables; write {one}.{name} or {other}.{name}"
                ));
            }
            (None, _) => {}
        }
        let written = names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(".");
        if let Some((_, shown)) = self.shown.iter().find(|(name, _)| *name == written).cloned() {
            return self.expr(&shown);
        }
        let there: Vec<&str> =
            self.columns.iter().filter(|column| column.is_bare).map(|column| column.name.as_str()).collect();
        Err(format!("there is no column `{written}`; there are {}", there.join(", ")))
    }

    fn binary(&mut self, left: &Ast, op: &BinaryOperator, right: &Ast) -> Made<Expr> {
        use BinaryOperator as B;
        if let (B::Plus | B::Minus, Some(span)) = (op, span(right)) {
            let time = self.expr(left)?;
            return self.shifted(time, op, span);
        }
        if let (B::Plus, Some(span)) = (op, span(left)) {
            let time = self.expr(right)?;
            return self.shifted(time, op, span);
        }
        if matches!(op, B::PGRegexMatch | B::PGRegexNotMatch | B::PGRegexIMatch | B::PGRegexNotIMatch) {
            let ast = Ast::BinaryOp {
                left: Box::new(left.clone()),
                op: op.clone(),
                right: Box::new(right.clone()),
            };
            return self.by_polars(&ast);
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let operator = match op {
            B::And => return Ok(left.and(right)),
            B::Or => return Ok(left.or(right)),
            B::Eq => Operator::Eq,
            B::NotEq => Operator::NotEq,
            B::Lt => Operator::Lt,
            B::LtEq => Operator::LtEq,
            B::Gt => Operator::Gt,
            B::GtEq => Operator::GtEq,
            B::StringConcat => {
                if [&left, &right]
                    .iter()
                    .any(|side| !matches!(self.kind(side), DataType::String | DataType::Null))
                {
                    return Err("|| joins texts; cast numbers and times to text".to_owned());
                }
                self.frames.texts += 2;
                return Ok(left + right);
            }
            _ => return self.computed(left, op, right),
        };
        self.compared(left, operator, right)
    }

    /// Computes with numbers, or the time between two times.
    fn computed(&mut self, left: Expr, op: &BinaryOperator, right: Expr) -> Made<Expr> {
        use BinaryOperator as B;
        let kinds = [self.kind(&left), self.kind(&right)];
        let is_time = |kind: &DataType| matches!(kind, DataType::Date | DataType::Datetime(..));
        match (op, &kinds) {
            (B::Minus, [DataType::Date, DataType::Date]) => {
                let days = |day: Expr| day.cast(DataType::Int32).cast(DataType::Int64);
                return Ok(days(left) - days(right));
            }
            (B::Minus, [one, other]) if is_time(one) && is_time(other) => {
                return Ok(utc(left, one) - utc(right, other));
            }
            (_, kinds) if kinds.iter().any(|kind| is_time(kind) || *kind == DataType::String) => {
                return Err(format!(
                    "`{op}` takes numbers; to a time add an interval, as in day + interval '1 day'"
                ));
            }
            _ => {}
        }
        Ok(match op {
            B::Plus => left + right,
            B::Minus => left - right,
            B::Multiply => left * right,
            B::Divide => left.true_div(right),
            B::DuckIntegerDivide | B::Modulo => {
                // Polars rounds down, SQL towards 0.
                let (whole, rest) = (left.clone().floor_div(right.clone()), left.clone() % right.clone());
                let is_below = rest.clone().neq(lit(0)).and(left.lt(lit(0)).neq(right.clone().lt(lit(0))));
                match op {
                    B::Modulo => when(is_below).then(rest.clone() - right).otherwise(rest),
                    _ => when(is_below).then(whole.clone() + lit(1)).otherwise(whole).cast(DataType::Int64),
                }
            }
            _ => return Err(format!("the operator `{op}` is not admitted")),
        })
    }

    fn compared(&mut self, left: Expr, op: Operator, right: Expr) -> Made<Expr> {
        let (left, right) = self.alike(left, right)?;
        Ok(binary_expr(left, op, right))
    }

    /// Makes both sides of a comparison of one type: a text beside a day or an instant is one, too.
    fn alike(&mut self, left: Expr, right: Expr) -> Made<(Expr, Expr)> {
        let (one, other) = (self.kind(&left), self.kind(&right));
        let (left, right) = (beside(left, &other)?, beside(right, &one)?);
        let kinds = [self.kind(&left), self.kind(&right)];
        let are_times = kinds.iter().all(|kind| matches!(kind, DataType::Date | DataType::Datetime(..)));
        let [one, other] = &kinds;
        Ok(if are_times && one != other { (utc(left, one), utc(right, other)) } else { (left, right) })
    }

    /// Translates `x in (1, 2)`.
    fn listed(&mut self, ast: &Ast, of: &Ast, list: &[Ast], negated: bool) -> Made<Expr> {
        if list.len() > MAX_LISTED && list.iter().all(|value| matches!(value, Ast::Value(_))) {
            return self.by_polars(ast);
        }
        let of = self.expr(of)?;
        let mut equal = Vec::with_capacity(list.len());
        for value in list {
            let value = self.expr(value)?;
            equal.push(match value == lit(NULL) {
                true => lit(NULL).cast(DataType::Boolean),
                false => self.compared(of.clone(), Operator::Eq, value)?,
            });
        }
        let any = any_of(equal).ok_or("a list has at least one value")?;
        Ok(if negated { any.not() } else { any })
    }

    fn case(&mut self, operand: Option<&Ast>, conditions: &[CaseWhen], other: Option<&Ast>) -> Made<Expr> {
        let operand = operand.map(|operand| self.expr(operand)).transpose()?;
        let mut made = other.map_or(Ok(lit(NULL)), |other| self.expr(other))?;
        for CaseWhen { condition, result } in conditions.iter().rev() {
            let (condition, result) = (self.expr(condition)?, self.expr(result)?);
            let holds = match &operand {
                Some(operand) => self.compared(operand.clone(), Operator::Eq, condition)?,
                None => condition,
            };
            made = when(holds).then(result).otherwise(made);
        }
        Ok(made)
    }

    /// Translates a cast. Whole numbers have 64 bits and a sign under any name, so that computations do not wrap around.
    fn cast(&mut self, expr: &Ast, to: &Type, is_strict: bool) -> Made<Expr> {
        let of = self.expr(expr)?;
        let from = self.kind(&of);
        let name = to.to_string().to_ascii_lowercase();
        let name = name.split(['(', ' ']).next().unwrap_or_default();
        let (of, kind) = match name {
            "tinyint" | "smallint" | "int" | "int1" | "int2" | "int4" | "int8" | "int16" | "int32"
            | "int64" | "integer" | "bigint" | "mediumint" => match from.is_float() {
                true => (of.round(0, RoundMode::HalfToEven), DataType::Int64),
                false => (of, DataType::Int64),
            },
            "float" | "float4" | "float8" | "real" | "double" => (of, DataType::Float64),
            "text" | "varchar" | "string" | "char" => {
                self.frames.texts += 1;
                match from {
                    DataType::Datetime(..) => return Ok(of.dt().strftime("%Y-%m-%d %H:%M:%S%.f")),
                    _ => (of, DataType::String),
                }
            }
            "boolean" | "bool" => (of, DataType::Boolean),
            "date" if from == DataType::String => {
                return self.by_polars_of(&format!("date(\"{PART}0\")"), &[of]);
            }
            "date" => (of, DataType::Date),
            "timestamp" | "datetime" | "timestamptz" if from == DataType::String => {
                return self.by_polars_of(&format!("timestamp(\"{PART}0\")"), &[of]);
            }
            "timestamp" | "datetime" | "timestamptz" => return Ok(utc(of, &from)),
            _ => {
                return Err(format!(
                    "there is no type {to}; cast to bigint, double, text, boolean, date or timestamp"
                ));
            }
        };
        Ok(if is_strict { of.strict_cast(kind) } else { of.cast(kind) })
    }

    fn function(&mut self, function: &Function) -> Made<Expr> {
        let name = function.name.to_string().to_ascii_lowercase();
        let ast = || Ast::Function(function.clone());
        if function.over.is_some() {
            return self.over(function, &name);
        }
        if is_in(AGGREGATES, &name) {
            return self.aggregate(function, &name);
        }
        if is_in(WINDOWS, &name) {
            return Err(format!("`{function}` takes a window: {name}(...) over (order by ...)"));
        }
        let arguments = arguments(function)?;
        match (name.as_str(), &arguments[..]) {
            ("date_trunc", [unit, time]) => self.truncated(unit, time),
            ("date_trunc", _) => Err("write date_trunc('hour', predicted_at)".to_owned()),
            ("round", [of]) => Ok(self.expr(of)?.round(0, RoundMode::HalfAwayFromZero)),
            ("round", [of, Ast::Value(ValueWithSpan { value: Value::Number(digits, _), .. })]) => {
                let digits = digits.parse().map_err(|_| format!("`{digits}` is not a number of digits"))?;
                Ok(self.expr(of)?.round(digits, RoundMode::HalfAwayFromZero))
            }
            ("pow" | "power", [of, by]) => Ok(self.expr(of)?.cast(DataType::Float64).pow(self.expr(by)?)),
            ("log", [of]) => {
                let of = self.expr(of)?;
                self.by_polars_of(&format!("log10(\"{PART}0\")"), &[of])
            }
            ("mod", [left, right]) => self.binary(left, &BinaryOperator::Modulo, right),
            ("concat" | "lower" | "upper" | "reverse" | "left" | "right" | "ltrim" | "rtrim", all) => {
                self.text(&ast(), all.len())
            }
            (known, _) if is_in(NARROW, known) => Ok(self.by_polars(&ast())?.cast(DataType::Int64)),
            (known, _) if is_in(SCALARS, known) => self.by_polars(&ast()),
            (name, _) => Err(unknown(name)),
        }
    }

    /// Translates a function that makes text, at most as long as `parts` of its longest argument together.
    fn text(&mut self, ast: &Ast, parts: usize) -> Made<Expr> {
        self.frames.texts += parts as u64;
        self.by_polars(ast)
    }

    /// Returns the beginning of the unit that holds a time, in UTC.
    fn truncated(&mut self, unit: &Ast, time: &Ast) -> Made<Expr> {
        let says = || "write date_trunc('hour', predicted_at)".to_owned();
        let Ast::Value(ValueWithSpan { value: Value::SingleQuotedString(unit), .. }) = unit else {
            return Err(says());
        };
        let time = self.expr(time)?;
        let Some((_, every)) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) else {
            return Err(format!("{}; units are {}", says(), UNITS.map(|(name, _)| name).join(", ")));
        };
        match self.kind(&time) {
            DataType::Date if ["1s", "1m", "1h", "1d"].contains(every) => Ok(time),
            DataType::Date | DataType::Datetime(..) => Ok(time.dt().truncate(lit(*every))),
            _ => Err(format!("{}; it takes a day or an instant", says())),
        }
    }

    /// Returns a time with a span added. A day becomes an instant if the span has parts of a day.
    fn shifted(&mut self, time: Expr, op: &BinaryOperator, span: &Interval) -> Made<Expr> {
        let text = span.to_string();
        let mut words = text.split(|sign: char| !sign.is_ascii_alphabetic()).filter(|word| !word.is_empty());
        let has_parts = words.any(|word| {
            !word.eq_ignore_ascii_case("interval") && !is_in(OF_DAYS, &word.to_ascii_lowercase())
        });
        let time = match self.kind(&time) {
            DataType::Date if has_parts => time.cast(instants()),
            DataType::Date | DataType::Datetime(..) => time,
            _ => return Err(format!("`{span}` is added to a day or an instant")),
        };
        self.by_polars_of(&format!("\"{PART}0\" {op} {span}"), &[time])
    }

    /// Translates an expression by polars-sql, with its parts translated here.
    fn by_polars(&mut self, ast: &Ast) -> Made<Expr> {
        struct Parts<'a> {
            is_within: bool,
            make: &'a mut dyn FnMut(&Ast) -> Option<Ast>,
        }

        impl VisitorMut for Parts<'_> {
            type Break = ();

            fn pre_visit_expr(&mut self, expr: &mut Ast) -> ControlFlow<()> {
                if !std::mem::replace(&mut self.is_within, true) {
                    return ControlFlow::Continue(());
                }
                if !is_constant(expr) {
                    match (self.make)(expr) {
                        Some(made) => *expr = made,
                        None => return ControlFlow::Break(()),
                    }
                }
                ControlFlow::Continue(())
            }
        }

        let (mut ast, mut parts, mut wrong) = (ast.clone(), Vec::new(), None);
        let mut make = |part: &Ast| match part {
            Ast::Identifier(name) if name.value.starts_with(PART) => Some(part.clone()),
            part => {
                let made = self.expr(part).map_err(|why| wrong = Some(why)).ok()?;
                parts.push(made);
                Some(Ast::Identifier(Ident::with_quote('"', format!("{PART}{}", parts.len() - 1))))
            }
        };
        _ = ast.visit(&mut Parts { is_within: false, make: &mut make });
        match wrong {
            Some(why) => Err(why),
            None => self.by_polars_of(&ast.to_string(), &parts),
        }
    }

    fn by_polars_of(&self, text: &str, parts: &[Expr]) -> Made<Expr> {
        let made = polars_sql::sql_expr(text).map_err(reason)?;
        let part = |name: &str| parts.get(name.strip_prefix(PART)?.parse::<usize>().ok()?).cloned();
        let made = made.map_expr(|expr| match &expr {
            Expr::Column(name) => part(name).unwrap_or(expr),
            _ => expr,
        });
        match self.kind(&made) {
            // An instant without a time zone.
            kind @ DataType::Datetime(_, None) => Ok(utc(made, &kind)),
            _ => Ok(made),
        }
    }
}

/// Returns true if a name is among words.
pub(super) fn is_in(words: &str, name: &str) -> bool {
    words.split_ascii_whitespace().any(|word| word == name)
}

/// Returns the reason why there is no function of this name.
fn unknown(name: &str) -> String {
    match name {
        "position" | "strpos" => {
            format!("there is no function {name}; ask whether a text has another one in it: key like '%x%'")
        }
        _ => format!("there is no function {name}"),
    }
}

/// Returns true for a literal, with or without a sign before it, and for an interval.
fn is_constant(expr: &Ast) -> bool {
    match expr {
        Ast::UnaryOp { expr, .. } => matches!(&**expr, Ast::Value(_)),
        _ => matches!(expr, Ast::Value(_) | Ast::Interval(_)),
    }
}

/// Returns the arguments of a function of single values.
pub(super) fn arguments(function: &Function) -> Made<Vec<&Ast>> {
    let wrong = || format!("`{function}` is not admitted");
    let list = match &function.args {
        FunctionArguments::None => return Ok(Vec::new()),
        FunctionArguments::List(list) if list.clauses.is_empty() => list,
        _ => return Err(wrong()),
    };
    let argument = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Ok(expr),
        _ => Err(wrong()),
    };
    list.args.iter().map(argument).collect()
}

/// Returns a span, with or without parentheses.
fn span(expr: &Ast) -> Option<&Interval> {
    match expr {
        Ast::Interval(span) => Some(span),
        Ast::Nested(of) => span(of),
        _ => None,
    }
}

fn literal(value: &Value) -> Made<Expr> {
    match value {
        Value::Null => Ok(lit(NULL)),
        Value::Boolean(is_true) => Ok(lit(*is_true)),
        Value::SingleQuotedString(text) => Ok(lit(text.as_str())),
        Value::Number(number, _) if number.contains(['.', 'e', 'E']) => {
            number.parse::<f64>().map(lit).map_err(|_| format!("`{number}` is not a number"))
        }
        Value::Number(number, _) => {
            number.parse::<i64>().map(lit).map_err(|_| format!("`{number}` has more than 64 bits"))
        }
        _ => Err(format!("`{value}` is not admitted")),
    }
}

/// Returns a text beside a value of another type: a day or an instant, if the other is one.
fn beside(expr: Expr, other: &DataType) -> Made<Expr> {
    let text = match &expr {
        Expr::Literal(value) => value.extract_str(),
        _ => None,
    };
    match (text, other) {
        (Some(text), DataType::Date) => day(text),
        (Some(text), DataType::Datetime(..)) => instant(text),
        _ => Ok(expr),
    }
}

fn day(text: &str) -> Made<Expr> {
    let day = text.parse::<Day>().map_err(|wrong| wrong.to_string())?;
    Ok(lit(day.number()).cast(DataType::Date))
}

/// Reads an instant: RFC 3339, a day, or a time without a zone in UTC, with or without seconds.
fn instant(text: &str) -> Made<Expr> {
    let utc = |end: &str| Timestamp::parse(&format!("{}{end}", text.replacen(' ', "T", 1)));
    let read = match text.len() {
        LENGTH_OF_DAY => text.parse::<Day>().map(Day::start),
        _ => Timestamp::parse(text).or_else(|wrong| utc("Z").or_else(|_| utc(":00Z")).map_err(|_| wrong)),
    };
    let micros = read.map_err(|wrong| wrong.to_string())?.micros();
    Ok(lit(micros).cast(instants()))
}

/// Returns a time as an instant in UTC.
fn utc(time: Expr, kind: &DataType) -> Expr {
    match kind {
        DataType::Datetime(TimeUnit::Microseconds, Some(_)) => time,
        DataType::Datetime(_, None) => {
            let micros = time.cast(DataType::Datetime(TimeUnit::Microseconds, None)).cast(DataType::Int64);
            micros.cast(instants())
        }
        _ => time.cast(instants()),
    }
}

/// Returns the disjunction of all, as a balanced tree, so that long lists do not nest deep.
fn any_of(mut all: Vec<Expr>) -> Option<Expr> {
    if all.len() <= 1 {
        return all.pop();
    }
    let right = any_of(all.split_off(all.len() / 2))?;
    Some(any_of(all)?.or(right))
}

/// Returns true if an expression has an aggregate outside of queries within it.
pub(super) fn has_aggregate(expr: &Ast) -> bool {
    let found = expressions(expr, |expr| match expr {
        Ast::Function(function) if function.over.is_none() => {
            let name = function.name.to_string().to_ascii_lowercase();
            if is_in(AGGREGATES, &name) { ControlFlow::Break(true) } else { ControlFlow::Continue(()) }
        }
        _ => ControlFlow::Continue(()),
    });
    found.unwrap_or_default()
}
