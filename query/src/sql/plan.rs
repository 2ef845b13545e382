//! The needs of a statement: polars plans it over tables without rows, and its plan shows the columns and rows needed of each
//! table.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use event::{Day, Error, Kind, Result, custom::CUSTOM_FIGURES, fields::FieldType, lane::key_field};
use polars::{
    lazy::{
        dsl::{Expr, Operator},
        frame::{LazyFrame, ScanArgsAnonymous},
    },
    prelude::{AnonymousScan, DataFrame, DataType, PlSmallStr, Schema, SchemaExt, TimeUnit, TimeZone},
};
use polars_plan::prelude::{FileScanIR, IR, IRPlan};
use polars_sql::SQLContext;

use super::{
    admit::Admitted,
    listed::days,
    source::{Source, conjuncts, fixed},
    tables::Table,
    times::times_of,
};
use crate::{
    column_type::ColumnType,
    drift,
    events::DAY,
    filter::Times,
    frame::refused,
    groups::Groups,
    intervals::{self, CustomInterval},
    read::RowBounds,
    request::What,
};

/// A statement planned by polars.
pub(crate) struct Plan {
    /// The frame that polars collects, once its tables have their rows.
    pub(crate) frame: LazyFrame,
    /// The needs of its tables.
    pub(crate) needs: Vec<Need>,
    sources: BTreeMap<&'static str, Arc<Source>>,
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
    /// The values by which the rows may be dealt to lanes: keys, or names of metrics.
    pub(crate) keys: Option<BTreeSet<String>>,
    /// The times that the rows may have.
    pub(crate) times: Times,
    /// The references that the rows may be compared with.
    pub(crate) references: Option<BTreeSet<String>>,
    /// The groups of events that are the rows, if these are not events.
    pub(crate) groups: Option<Arc<Groups>>,
}

/// Plans a statement. It must run on a large stack.
///
/// # Errors
/// `Invalid`, if polars refuses the statement.
pub(crate) fn plan(admitted: &Admitted) -> Result<Plan> {
    let mut sources = BTreeMap::new();
    let mut context = SQLContext::new();
    for name in &admitted.tables {
        let of =
            Table::named(name).ok_or_else(|| Error::invalid(format!("sql: there is no table {name}")))?;
        let groups = admitted.groups.clone().map(Arc::new);
        let schema = Arc::new(match &groups {
            Some(groups) => schema_of(groups),
            None => schema(of, &admitted.names),
        });
        let source = Arc::new(Source::new(of, Arc::clone(&schema), groups));
        let args =
            ScanArgsAnonymous { schema: Some(schema), name: "almanac", ..ScanArgsAnonymous::default() };
        let scan: Arc<dyn AnonymousScan> = Arc::clone(&source) as _;
        context.register(name, LazyFrame::anonymous_scan(scan, args).map_err(refused)?);
        sources.insert(*name, source);
    }
    let frame = context.execute(&admitted.text).map_err(refused)?;
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

/// Plans the statement of a condition. It must run on a large stack.
///
/// # Errors
/// `Invalid`, if polars refuses it, or it is not a condition on single rows.
pub(crate) fn condition(admitted: &Admitted) -> Result<Condition> {
    let mut plan = plan(admitted)?;
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
        if let Some(source) = self.sources.get(need.of.name()) {
            let is_filtered = need.of.is_filtered() && need.groups.is_none();
            source.give(frame, need.predicate.clone().filter(|_| is_filtered));
        }
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

/// Returns the columns of a table. Members of families, and intervals of figures, are included if they are named.
fn schema(of: Table, names: &BTreeSet<String>) -> Schema {
    let is_there = |name: &str| intervals::named(name).is_none() || names.contains(name);
    let columns = of.columns().into_iter().filter(|(name, _)| is_there(name));
    let mut schema: Schema = columns.map(|(name, kind)| (name.into(), data_type(kind))).collect();
    for name in names {
        if let Some(family) = of.family(name) {
            let interval = (*family == CUSTOM_FIGURES).then(|| CustomInterval::named(name)).flatten();
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
        ColumnType::Field(FieldType::Time) => DataType::Datetime(TimeUnit::Microseconds, Some(TimeZone::UTC)),
    }
}

/// Returns the needs of the scans of a plan, merged for each table.
fn needs(plan: &IRPlan) -> Result<Vec<Need>> {
    let (mut needs, mut seen) = (BTreeMap::<&str, Need>::new(), BTreeSet::new());
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
        let name = source.of.name();
        let need = match needs.remove(name) {
            Some(other) => need.or(other, &source.schema),
            None => need,
        };
        needs.insert(name, need);
    }
    Ok(needs.into_values().collect())
}

impl Need {
    /// Merges two needs into one that covers both.
    fn or(self, other: Self, schema: &Schema) -> Self {
        let names: BTreeSet<String> = self.columns.into_iter().chain(other.columns).collect();
        Self {
            of: self.of,
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
        Table::Of(What::Events(kind)) => key_field(kind),
        // A prediction and the outcomes that judge it have one key.
        Table::Of(What::Joined) => key_field(Kind::Predictions),
        _ => None,
    };
    let keys = dealt_by.and_then(texts_of);
    // A prediction may be judged together with another one of its key, so no segment of joined rows is left out by its times.
    let time = if let Table::Of(What::Events(kind)) = source.of { Some(kind.time_field()) } else { None };
    let times = parts.iter().filter_map(|part| times_of(part, time?));
    let times = times.fold(Times::default(), Times::and);
    let columns = in_order(&source.schema, &names);
    let (of, groups) = (source.of, source.groups.clone());
    Ok(Need { of, columns, predicate, besides_days, days, releases, keys, times, references, groups })
}

pub(super) fn columns_of(expr: &Expr) -> impl Iterator<Item = String> {
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

#[cfg(test)]
mod tests {
    use super::{super::admit::admit, *};
    use crate::frame::{self, texts};

    /// Returns the keys that a statement answers for a table with the rows `a` of release v1 and `b` of v2.
    fn keys_of(statement: &str) -> Vec<String> {
        let plan = plan(&admit(statement).unwrap()).unwrap();
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
}
