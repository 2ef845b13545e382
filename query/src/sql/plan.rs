//! The needs of a statement: polars plans it over tables without rows, and its plan shows the columns and rows needed of each
//! table: its days, times, releases and keys. Then the tables get their rows.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use event::{
    Day, Error, Kind, Result, Timestamp, custom::CUSTOM_METRICS, fields::FieldType, lane::key_field,
    time::DAY_MICROS,
};
use polars::{
    lazy::{
        dsl::{Expr, Operator},
        frame::LazyFrame,
    },
    prelude::{
        AnonymousScan, AnonymousScanArgs, DataFrame, DataType, IntoLazy, PlSmallStr, PolarsError,
        PolarsResult, Schema, SchemaExt, SchemaRef, TimeUnit, col,
    },
};
use polars_plan::prelude::{FileScanIR, IR, IRPlan};

use super::{expressions::instants, tables::Table};
use crate::{
    columns::ColumnType,
    drift,
    events::DAY,
    filter::Times,
    frame::{self, refused},
    groups::Groups,
    intervals::{self, CustomInterval},
    read::RowBounds,
    request::Dataset,
};

/// A statement planned by polars.
pub(crate) struct Plan {
    /// The frame that polars collects, once its tables have their rows.
    pub(crate) frame: LazyFrame,
    /// The needs of its tables.
    pub(crate) needs: Vec<Need>,
    sources: Vec<Arc<Source>>,
    /// The condition on single rows, if the statement only chooses rows of one table.
    chosen: Option<Chosen>,
}

/// The condition on the rows of a table that polars computes behind its scan, such as a cast that may fail; `None`, if all of it
/// is computed in the scan.
type Chosen = Option<Expr>;

/// A condition on the rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) predicate: Expr,
    /// The columns that it needs.
    pub(crate) columns: Vec<String>,
    pub(crate) bounds: RowBounds,
}

/// The need of a statement for a table in one place.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    pub(crate) of: Table,
    /// The number of its source.
    source: usize,
    /// The columns, with those of the predicate.
    pub(crate) columns: Vec<String>,
    /// Condition on the rows.
    pub(crate) predicate: Option<Expr>,
    /// The predicate without the conditions on days, as only those days are read.
    pub(crate) besides_days: Option<Expr>,
    /// The days that the rows may be of; `None`, if the statement does not restrict them.
    pub(crate) days: Option<BTreeSet<Day>>,
    /// The releases that the rows may be of.
    pub(crate) releases: Option<BTreeSet<String>>,
    /// The values that determine the lanes of the rows: keys, or names of metrics.
    pub(crate) keys: Option<BTreeSet<String>>,
    /// The times that the rows may have.
    pub(crate) times: Times,
    /// The references that the rows may be compared with.
    pub(crate) references: Option<BTreeSet<String>>,
    /// The groups of events that are the rows, if these are not events.
    pub(crate) groups: Option<Arc<Groups>>,
}

/// Plans a frame of tables.
///
/// # Errors
/// `Invalid`, if polars refuses it.
pub(crate) fn plan(frame: LazyFrame, sources: Vec<Arc<Source>>) -> Result<Plan> {
    let optimized = frame.clone().to_alp_optimized().map_err(refused)?;
    let chosen = chosen(&optimized);
    Ok(Plan { needs: needs(&optimized)?, frame, sources, chosen })
}

/// Returns the condition of a plan on single rows; `None`, if it does more than choose rows.
fn chosen(plan: &IRPlan) -> Option<Chosen> {
    match plan.root() {
        IR::Scan { .. } => Some(None),
        IR::Filter { input, predicate } if matches!(plan.lp_arena.get(*input), IR::Scan { .. }) => {
            Some(Some(predicate.to_expr(&plan.expr_arena)))
        }
        _ => None,
    }
}

/// Returns the condition of a plan.
///
/// # Errors
/// `Invalid`, if it is not a condition on single rows.
pub(crate) fn condition(mut plan: Plan) -> Result<Condition> {
    let refused = || Error::invalid("sql: a condition says something of the columns of single rows");
    let (mut need, behind) = plan.needs.pop().zip(plan.chosen).ok_or_else(refused)?;
    let predicate = need.predicate.take().into_iter().chain(behind).reduce(Expr::and).ok_or_else(refused)?;
    let columns = columns_of(&predicate).collect::<BTreeSet<_>>().into_iter().collect();
    let bounds = need.bounds();
    Ok(Condition { predicate, columns, bounds })
}

impl Plan {
    /// Gives a table its rows.
    pub(crate) fn give(&self, need: &Need, frame: DataFrame) {
        if let Some(source) = self.sources.get(need.source) {
            let is_filtered = need.of.is_filtered() && need.groups.is_none();
            source.give(frame, need.predicate.clone().filter(|_| is_filtered));
        }
    }
}

impl Plan {
    /// Returns the bytes of the longest text of its tables.
    pub(crate) fn longest_text(&self) -> u64 {
        let rows = self.sources.iter().filter_map(|source| source.rows.get());
        let texts = rows.flat_map(|rows| rows.frame.columns()).filter_map(|column| column.str().ok());
        texts.flat_map(|texts| texts.iter().flatten().map(str::len)).max().unwrap_or_default() as u64
    }
}

/// Builds a frame without rows for a need.
pub(crate) fn empty(need: &Need) -> DataFrame {
    let schema = match &need.groups {
        Some(groups) => schema_of(groups),
        None => schema(need.of, &need.columns.iter().cloned().collect()),
    };
    let fields = need.columns.iter().filter_map(|name| schema.get_field(name));
    DataFrame::empty_with_schema(&fields.collect())
}

/// Returns the columns of a table. Members of families, and intervals of metrics, are included if they are named.
fn schema(of: Table, names: &BTreeSet<String>) -> Schema {
    let is_there = |name: &str| intervals::named(name).is_none() || names.contains(name);
    let columns = of.columns().into_iter().filter(|(name, _)| is_there(name));
    let mut schema: Schema = columns.map(|(name, kind)| (name.into(), data_type(kind))).collect();
    for name in names {
        if let Some(family) = of.family(name) {
            let interval = (*family == CUSTOM_METRICS).then(|| CustomInterval::named(name)).flatten();
            let kind = interval.map_or(ColumnType::Field(family.kind), |column| column.kind());
            schema.with_column(name.into(), data_type(kind));
        }
    }
    schema
}

/// Returns the columns of groups of events.
fn schema_of(groups: &Groups) -> Schema {
    let columns = groups.columns().into_iter();
    columns.map(|(name, kind)| (name.into(), data_type(kind))).collect()
}

fn data_type(kind: ColumnType) -> DataType {
    match kind {
        ColumnType::Day => DataType::Date,
        ColumnType::Count => DataType::Int64,
        ColumnType::Field(FieldType::Float) => DataType::Float64,
        ColumnType::Field(FieldType::Text) => DataType::String,
        ColumnType::Field(FieldType::Time) => instants(),
    }
}

/// Returns the needs of the scans of a plan, merged for each table.
fn needs(plan: &IRPlan) -> Result<Vec<Need>> {
    let (mut needs, mut seen) = (BTreeMap::<usize, Need>::new(), BTreeSet::new());
    let mut rest = vec![plan.lp_top];
    while let Some(node) = rest.pop() {
        if !seen.insert(node) {
            continue;
        }
        let ir = plan.lp_arena.get(node);
        ir.copy_inputs(&mut rest);
        let IR::Scan { scan_type, predicate, unified_scan_args, .. } = ir else { continue };
        let FileScanIR::Anonymous { function, .. } = &**scan_type else {
            return Err(Error::invalid("sql: only tables are admitted"));
        };
        let Some(source) = function.as_any().downcast_ref::<Source>() else { continue };
        let predicate = predicate.as_ref().map(|predicate| predicate.to_expr(&plan.expr_arena));
        let predicate = predicate.as_ref().and_then(fixed);
        let need = need(source, unified_scan_args.projection.as_deref(), predicate)?;
        let need = match needs.remove(&source.id) {
            Some(other) => need.or(other, &source.schema),
            None => need,
        };
        needs.insert(source.id, need);
    }
    Ok(needs.into_values().collect())
}

impl Need {
    /// Merges two needs into one that covers both.
    fn or(self, other: Self, schema: &Schema) -> Self {
        let names: BTreeSet<String> = self.columns.into_iter().chain(other.columns).collect();
        Self {
            of: self.of,
            source: self.source,
            columns: in_order(schema, &names),
            predicate: either(self.predicate, other.predicate),
            besides_days: either(self.besides_days, other.besides_days),
            days: self.days.zip(other.days).map(|(one, other)| &one | &other),
            releases: self.releases.zip(other.releases).map(|(one, other)| &one | &other),
            keys: self.keys.zip(other.keys).map(|(one, other)| &one | &other),
            times: self.times.or(other.times),
            references: self.references.zip(other.references).map(|(one, other)| &one | &other),
            groups: self.groups,
        }
    }

    /// Returns the bounds of the rows.
    pub(crate) fn bounds(&self) -> RowBounds {
        RowBounds {
            days: self.days.clone().map(Arc::new),
            releases: self.releases.clone().map(Arc::new),
            keys: self.keys.clone().map(Arc::new),
            times: self.times,
        }
    }
}

/// Returns the disjunction of both; `None`, if one of them is missing.
fn either(one: Option<Expr>, other: Option<Expr>) -> Option<Expr> {
    one.zip(other).map(|(one, other)| one.or(other))
}

/// Returns these columns, in the order of a table.
fn in_order(schema: &Schema, names: &BTreeSet<String>) -> Vec<String> {
    schema.iter_names().map(ToString::to_string).filter(|name| names.contains(name)).collect()
}

fn need(source: &Source, columns: Option<&[PlSmallStr]>, predicate: Option<Expr>) -> Result<Need> {
    let mut names: BTreeSet<String> = match columns {
        Some(names) => names.iter().map(ToString::to_string).collect(),
        None => source.schema.iter_names().map(ToString::to_string).collect(),
    };
    // Polars takes the first column of a table if it only counts its rows.
    names.extend(source.schema.iter_names().next().map(ToString::to_string));
    let mut parts = Vec::new();
    if let Some(predicate) = &predicate {
        names.extend(columns_of(predicate));
        conjuncts(predicate, &mut parts);
    }
    let besides_days = parts.iter().filter(|part| !is_of_day(part)).map(|part| (*part).clone());
    let besides_days = besides_days.reduce(Expr::and);
    let days = predicate.as_ref().and_then(of_day).map(days).transpose()?;
    let texts_of =
        |column| parts.iter().filter_map(|part| one_of(part, column)).reduce(|one, other| &one & &other);
    let (releases, references) = (texts_of("release"), texts_of(drift::REFERENCE));
    let dealt_by = match source.of {
        Table::Of(Dataset::Events(kind)) => key_field(kind),
        // A prediction and the outcomes that label it have one key.
        Table::Of(Dataset::Joined) => key_field(Kind::Predictions),
        _ => None,
    };
    let keys = dealt_by.and_then(texts_of);
    // A prediction may be evaluated together with another one of its key, so no segment of joined rows is left out by its times.
    let time = if let Table::Of(Dataset::Events(kind)) = source.of { Some(kind.time_field()) } else { None };
    let times = parts.iter().filter_map(|part| times_of(part, time?));
    let times = times.fold(Times::default(), Times::and);
    let columns = in_order(&source.schema, &names);
    let (of, groups) = (source.of, source.groups.clone());
    Ok(Need {
        of,
        source: source.id,
        columns,
        predicate,
        besides_days,
        days,
        releases,
        keys,
        times,
        references,
        groups,
    })
}

fn columns_of(expr: &Expr) -> impl Iterator<Item = String> {
    expr.clone().meta().root_names().into_iter().map(|name| name.to_string())
}

/// Returns the condition on the day that `expr` implies; `None`, if it may be any day.
fn of_day(expr: &Expr) -> Option<Expr> {
    // Taken whole, including parts without columns, as none of it is among the conditions besides the days.
    if is_of_day(expr) {
        return Some(expr.clone());
    }
    match expr {
        Expr::BinaryExpr { left, op: Operator::And | Operator::LogicalAnd, right } => {
            match (of_day(left), of_day(right)) {
                (Some(left), Some(right)) => Some(left.and(right)),
                (left, right) => left.or(right),
            }
        }
        Expr::BinaryExpr { left, op: Operator::Or | Operator::LogicalOr, right } => {
            Some(of_day(left)?.or(of_day(right)?))
        }
        _ => None,
    }
}

/// Returns true if it is a condition on days alone. An expression without columns holds for all rows or for none.
fn is_of_day(expr: &Expr) -> bool {
    let mut names = columns_of(expr).peekable();
    names.peek().is_some() && names.all(|name| name == DAY)
}

/// Returns the texts that a condition allows for a column; `None`, if it does not restrict it.
fn one_of(part: &Expr, column: &str) -> Option<BTreeSet<String>> {
    let Expr::BinaryExpr { left, op, right } = part else { return None };
    match op {
        Operator::Eq => match (&**left, &**right) {
            (Expr::Column(name), Expr::Literal(value)) | (Expr::Literal(value), Expr::Column(name))
                if name.as_str() == column =>
            {
                Some([value.extract_str()?.to_owned()].into())
            }
            _ => None,
        },
        Operator::Or | Operator::LogicalOr => {
            let (mut one, other) = (one_of(left, column)?, one_of(right, column)?);
            one.extend(other);
            Some(one)
        }
        _ => None,
    }
}

/// A table of a statement. It has no rows while the statement is planned.
pub(super) struct Source {
    id: usize,
    pub(super) of: Table,
    pub(super) schema: SchemaRef,
    /// The groups of events that are its rows, if these are not events.
    pub(super) groups: Option<Arc<Groups>>,
    rows: OnceLock<Rows>,
}

/// The rows of a table read for a statement.
struct Rows {
    frame: DataFrame,
    /// The predicate by which they were chosen, which holds for all of them.
    chosen_by: Option<Expr>,
}

impl Source {
    /// Makes a source without rows. Its columns are those of the table, with the members of families that a statement names.
    pub(super) fn new(id: usize, of: Table, names: &BTreeSet<String>, groups: Option<Groups>) -> Self {
        let schema = groups.as_ref().map_or_else(|| schema(of, names), schema_of);
        Self { id, of, schema: Arc::new(schema), groups: groups.map(Arc::new), rows: OnceLock::new() }
    }

    /// Gives it its rows, once.
    fn give(&self, frame: DataFrame, chosen_by: Option<Expr>) {
        _ = self.rows.set(Rows { frame, chosen_by });
    }
}

impl AnonymousScan for Source {
    fn as_any(&self) -> &dyn Any {
        self
    }

    /// Returns the rows read, which may be more than polars asks for in one place.
    fn scan(&self, args: AnonymousScanArgs) -> PolarsResult<DataFrame> {
        let Some(Rows { frame, chosen_by }) = self.rows.get() else {
            return Err(PolarsError::ComputeError(format!("{} was not read", self.of.name()).into()));
        };
        let frame = match args.predicate.as_ref().and_then(fixed) {
            Some(predicate) if Some(&predicate) != chosen_by.as_ref() => {
                frame.clone().lazy().filter(predicate).collect()?
            }
            _ => frame.clone(),
        };
        let frame = match &args.with_columns {
            Some(names) if names.is_empty() => DataFrame::new(frame.height(), Vec::new())?,
            Some(names) => frame.select(names.iter().cloned())?,
            None => frame,
        };
        Ok(args.n_rows.map_or_else(|| frame.clone(), |rows| frame.head(Some(rows))))
    }

    fn schema(&self, _: Option<usize>) -> PolarsResult<SchemaRef> {
        Ok(Arc::clone(&self.schema))
    }

    fn allows_predicate_pushdown(&self) -> bool {
        true
    }

    fn allows_projection_pushdown(&self) -> bool {
        true
    }
}

/// Splits a conjunction into its parts.
fn conjuncts<'a>(expr: &'a Expr, parts: &mut Vec<&'a Expr>) {
    match expr {
        Expr::BinaryExpr { left, op: Operator::And | Operator::LogicalAnd, right } => {
            conjuncts(left, parts);
            conjuncts(right, parts);
        }
        part => parts.push(part),
    }
}

/// Returns the fixed part of a predicate. For a statement with an order and a limit, polars adds a part that gets narrower while
/// it sorts, only to save work; as an expression this part can be displayed but not computed.
fn fixed(predicate: &Expr) -> Option<Expr> {
    let mut parts = Vec::new();
    conjuncts(predicate, &mut parts);
    let is_moving = |part: &Expr| part.into_iter().any(|expr| matches!(expr, Expr::Display { .. }));
    parts.into_iter().filter(|part| !is_moving(part)).cloned().reduce(Expr::and)
}

/// Last day tested for a window without an end.
const LAST_DAY: &str = "2200-01-01";

/// Returns the days for which it holds.
///
/// # Errors
/// `Invalid`, if polars refuses it.
fn days(holds: Expr) -> Result<BTreeSet<Day>> {
    let last: Day = LAST_DAY.parse()?;
    let there = Day::FIRST.number()..=last.number();
    let all = frame::days(DAY, there.collect());
    let days = frame::frame(all.len(), vec![all])?.lazy().filter(holds).select([col(DAY)]);
    let days = days.collect().map_err(refused)?;
    let numbers = days.column(DAY).and_then(|days| Ok(days.date()?.physical().clone())).map_err(refused)?;
    let day = |number: i32| Timestamp::from_micros(i64::from(number) * DAY_MICROS).map(Timestamp::day);
    Ok(numbers.iter().flatten().filter_map(day).collect())
}

/// Returns the times that a condition allows for a column; `None`, if it does not restrict them.
fn times_of(part: &Expr, column: &str) -> Option<Times> {
    let Expr::BinaryExpr { left, op, right } = part else { return None };
    let is_time = |expr: &Expr| matches!(expr, Expr::Column(name) if name.as_str() == column);
    let (value, op) = match (is_time(left), is_time(right)) {
        (true, false) => (right, *op),
        (false, true) => (left, op.swap_operands()?),
        _ => return None,
    };
    let at = Some(instant_of(value)?);
    match op {
        Operator::Eq => Some(Times { since: at, until: at }),
        Operator::Gt | Operator::GtEq => Some(Times { since: at, until: None }),
        Operator::Lt | Operator::LtEq => Some(Times { since: None, until: at }),
        _ => None,
    }
}

/// Returns the instant of an expression without columns, in microseconds.
fn instant_of(expr: &Expr) -> Option<i64> {
    if columns_of(expr).next().is_some() {
        return None;
    }
    let one = frame::frame(1, vec![frame::days(DAY, vec![0])]).ok()?.lazy();
    let unit = DataType::Datetime(TimeUnit::Microseconds, None);
    let value = one.select([expr.clone().alias(DAY)]).collect().ok()?;
    let value = value.column(DAY).ok().filter(|value| matches!(value.dtype(), DataType::Datetime(..)))?;
    value.cast(&unit).ok()?.datetime().ok()?.physical().get(0)
}

#[cfg(test)]
mod tests {
    use event::Timestamp;

    use super::{
        super::{admitted, conditions},
        *,
    };
    use crate::frame::texts;

    /// Returns the keys that a statement answers for a table with the rows `a` of release v1 and `b` of v2.
    fn keys_of(statement: &str) -> Vec<String> {
        let (_, plan) = admitted(statement).unwrap();
        let rows = vec![
            frame::days(DAY, vec![20_605; 2]),
            texts("key", ["a", "b"].map(Some).into_iter()),
            texts("release", ["v1", "v2"].map(Some).into_iter()),
        ];
        plan.needs.iter().for_each(|need| plan.give(need, frame::frame(2, rows.clone()).unwrap()));
        let answer = plan.frame.collect().unwrap();
        answer.column("key").unwrap().str().unwrap().iter().flatten().map(str::to_owned).collect()
    }

    #[test]
    fn conditions_are_recomputed_only_where_selection_was_broader() {
        let of = |release: &str| {
            format!("select key from predictions where day = '2026-06-01' and release = '{release}'")
        };
        assert_eq!(keys_of(&of("v1")), ["a", "b"]);
        assert_eq!(keys_of(&format!("{} union all {}", of("v2"), of("v1"))), ["b", "a"]);
        // More rows of rollups are read than a statement takes.
        assert_eq!(
            keys_of("select release as key from rollups where day = '2026-06-01' and release = 'v2'"),
            ["v2"]
        );
    }

    #[tokio::test]
    async fn a_condition_says_which_times_its_rows_have() {
        let times = async |condition: &str| {
            let found =
                conditions(Dataset::Events(Kind::Predictions), &[condition.to_owned()]).await.unwrap();
            let micros = |text: &str| Timestamp::parse(text).unwrap().micros();
            let noon = micros("2026-06-01T12:00:00Z");
            let Times { since, until } = found.bounds.times;
            (since.map(|since| since - noon), until.map(|until| until - noon))
        };
        let hour = 3_600_000_000;
        for (condition, expected) in [
            ("predicted_at >= '2026-06-01T12:00:00Z'", (Some(0), None)),
            ("'2026-06-01T13:00:00Z' > predicted_at and score > 0.5", (None, Some(hour))),
            ("predicted_at between '2026-06-01T12:00:00Z' and '2026-06-01T13:00:00Z'", (Some(0), Some(hour))),
            (
                "predicted_at >= '2026-06-01T12:00:00Z' and predicted_at > '2026-06-01T13:00:00Z'",
                (Some(hour), None),
            ),
            ("predicted_at = '2026-06-01T12:00:00Z'", (Some(0), Some(0))),
            ("predicted_at >= '2026-06-01T12:00:00Z' or score > 0.5", (None, None)),
            (
                "appended_at >= '2026-06-01T12:00:00Z' and predicted_at <> '2026-06-01T12:00:00Z'",
                (None, None),
            ),
        ] {
            assert_eq!(times(condition).await, expected, "{condition}");
        }
    }

    /// Returns the columns of the groups of segments that a statement reads; `None`, if it reads rows.
    fn of_groups(statement: &str) -> Option<Vec<String>> {
        let (_, plan) = admitted(statement).unwrap();
        let groups = plan.needs[0].groups.as_ref()?;
        Some(groups.columns().into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn counts_sums_means_and_extremes_are_of_groups() {
        let columns = of_groups(
            "select release, count(*) n, avg(score) from predictions where day = '2026-06-01' group by release order by n",
        );
        assert_eq!(columns.unwrap(), ["day", "release", "count of rows", "count of score", "sum of score"]);
        let columns = of_groups(
            "select date_trunc('week', p.day) as week, lower(p.tag.city), max(predicted_at), min(score), count(label), max(release)
             from predictions p where day between '2026-06-01' and '2026-06-30' and p.label <> 'm' group by week, lower(p.tag.city) having count(*) > 2 order by week",
        );
        let measures = ["count of rows", "count of label", "least of score", "greatest of predicted_at"];
        assert_eq!(columns.unwrap(), [&["day", "label", "release", "tag.city"], &measures[..]].concat());
        let columns = of_groups("select distinct release from predictions where day = '2026-06-01'");
        assert_eq!(columns.unwrap(), ["day", "release"]);
    }

    #[test]
    fn statements_unfit_for_segment_groups_read_rows() {
        for text in [
            "select release from predictions where day = '2026-06-01'",
            "select key, count(*) from predictions where day = '2026-06-01' group by key",
            "select release, count(*) from predictions where day = '2026-06-01' and score > 0.5 group by release",
            "select release, median(score) from predictions where day = '2026-06-01' group by release",
            "select release, avg(score * 2) from predictions where day = '2026-06-01' group by release",
            "select release, count(*) filter (where score > 0.5) from predictions where day = '2026-06-01' group by release",
            "select release, count(distinct key) from predictions where day = '2026-06-01' group by release",
            "select release, sum(distinct score) from predictions where day = '2026-06-01' group by release",
            "select release, count(*) from joined where day = '2026-06-01' group by release",
            "select p.release, count(*) from predictions p join outcomes o on p.key = o.key where p.day = '2026-06-01' and o.day = '2026-06-01' group by p.release",
            "select release, count(*) from predictions where day = '2026-06-01' and key in (select key from outcomes where day = '2026-06-01') group by release",
        ] {
            assert_eq!(of_groups(text), None, "{text}");
        }
    }
}
