//! SQL over the data of a workspace: one SELECT on tables with the names of datasets.
//!
//! A statement is admitted first (`admit`); polars plans it, and the plan (`plan`) shows the columns and the days needed of each
//! table. These are read as by any query, within the same bounds, and polars computes the rest.

mod admit;
mod days;
mod expressions;
mod frames;
mod joins;
mod plan;
mod rows;
mod select;
mod tables;

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc, time::Duration};

use event::{Error, Id, Kind, Result, Timestamp, Window};
use futures::FutureExt;
use log::read_version::ReadVersion;
use polars::prelude::{DataFrame, PolarsError, SortMultipleOptions};
use polars_plan::prelude::{Arena, DataFrameUdf, FunctionIR, IR, Node};
use sqlparser::ast::Expr as Ast;
use tokio::time::{Instant, timeout};

use self::{
    admit::refused,
    expressions::Scope,
    frames::Frames,
    joins::Join,
    plan::{Condition, Need, Plan},
    tables::Table,
};
use crate::{
    Answer, Point, Query,
    answer::Held,
    budget::{Hold, in_words},
    drift,
    events::{self, Wanted},
    explain::Step,
    joined,
    read::Reading,
    request::{self, Dataset, Request},
    row_filter::RowFilter,
    work::on_large_stack,
};

pub use admit::MAX_STATEMENT_BYTES;
pub(crate) use admit::names_of_tables;

/// Name of statements among the requests.
pub(crate) const NAME: &str = "sql";

/// Maximum seconds that polars may take to plan a statement, and to compute it once its needs are read.
pub const MAX_SECONDS: u64 = 60;

/// Number of columns that polars holds besides those of the widest SELECT.
const WORKING_COLUMNS: usize = 2;

/// Approximate bytes of a row in a column made by polars.
const BYTES_OF_COLUMN: u64 = 16;

/// Least bytes of a text that a statement makes: a number or a time in letters.
const BYTES_OF_TEXT: u64 = 32;

/// A statement, and the time as of which it is answered.
#[derive(Clone, Debug)]
pub struct Sql {
    /// The statement.
    pub statement: String,
    /// True if it may read all days, unless it names days.
    pub all_days: bool,
    /// Only events appended by then, or by the last closed instant if that is earlier.
    pub as_of: Option<Timestamp>,
    /// Only events within the read version of an earlier answer.
    pub read_version: Option<Arc<ReadVersion>>,
}

/// The parameters of a statement, as text.
#[derive(Clone, Debug, Default)]
pub struct SqlParams<'a> {
    /// The statement.
    pub statement: &'a str,
    /// True if it may read all days.
    pub all_days: bool,
    /// An instant, or a day that stands for its beginning.
    pub as_of: Option<&'a str>,
    /// The read version of an earlier answer.
    pub read_version: Option<&'a str>,
}

impl Sql {
    /// Parses the parameters of a statement.
    ///
    /// # Errors
    /// `Invalid`, naming the wrong parameter.
    pub fn parse(words: &SqlParams<'_>) -> Result<Self> {
        let as_of = words.as_of.map(request::instant).transpose()?;
        let read_version = words.read_version.map(str::parse::<ReadVersion>).transpose();
        let read_version = read_version.map_err(|error| Error::invalid(format!("read_version: {error}")))?;
        if read_version.is_some() && as_of.is_some() {
            return Err(Error::invalid("as-of: the read version says already as of when it is"));
        }
        let (statement, all_days) = (words.statement.to_owned(), words.all_days);
        Ok(Self { statement, all_days, as_of, read_version: read_version.map(Arc::new) })
    }
}

/// Plans conditions on the rows of a table.
///
/// # Errors
/// `Invalid`, if one is not admitted or polars refuses it.
pub(crate) async fn conditions(of: Dataset, conditions: &[String]) -> Result<Condition> {
    let conditions = conditions.to_vec();
    on_large_stack(move || {
        let conditions = conditions.iter().map(|text| admit::condition(text)).collect::<Result<Vec<_>>>()?;
        let mut frames = Frames::new(conditions.iter().flat_map(admit::names_of_columns).collect());
        let mut table = frames.table(Table::Of(of), None).map_err(refused)?;
        for condition in &conditions {
            if let Some(what) = of_several_rows(condition) {
                return Err(refused(format!("a condition on single rows has no place for {what}")));
            }
            let holds = Scope::new(&mut frames, &table.columns).expr(condition).map_err(refused)?;
            table.lazy = table.lazy.filter(holds);
        }
        plan::condition(plan::plan(table.lazy, frames.sources)?)
    })
    .await
    .map_err(|error| match error.to_string().strip_prefix("sql: ") {
        Some(why) => Error::invalid(format!("where: {why}")),
        None => error,
    })
}

/// Returns the part of a condition that needs several rows, such as an aggregate.
fn of_several_rows(condition: &Ast) -> Option<&'static str> {
    admit::expressions(condition, |expr| match expr {
        Ast::Subquery(_) | Ast::InSubquery { .. } | Ast::Exists { .. } => ControlFlow::Break("a query"),
        Ast::Function(function) if function.over.is_some() || expressions::has_aggregate(expr) => {
            ControlFlow::Break("a function of several rows")
        }
        _ => ControlFlow::Continue(()),
    })
}

/// A statement that may be run.
struct Admitted {
    joins: Vec<Join>,
    /// Approximate number of columns that polars holds of it at once.
    width: usize,
    /// Maximum number of reads of tables.
    weight: u64,
    /// Number of its expressions that compute text from text.
    texts: u64,
    /// True if its rows come in a random order.
    is_shuffled: bool,
}

/// Parses a statement, admits and plans it. It must run on a large stack.
fn admitted(text: &str) -> Result<(Admitted, Plan)> {
    let query = admit::parse(text)?;
    let mut frames = Frames::new(admit::names_of_columns(&query));
    let frame = frames.query(&query).map_err(refused)?;
    let admitted = Admitted {
        joins: frames.joins,
        width: frames.width + WORKING_COLUMNS,
        weight: frame.reads.saturating_add(frames.reads),
        texts: frames.texts,
        is_shuffled: frames.is_shuffled && query.order_by.is_none(),
    };
    Ok((admitted, plan::plan(frame.lazy, frames.sources)?))
}

impl Query {
    /// Answers a statement. Rows made of several rows are sorted unless the statement orders them, so that equal rows come in a
    /// fixed order.
    ///
    /// # Errors
    /// `Invalid`, if the statement is not admitted, names no days, or polars refuses it; errors of [`Query::run`].
    pub async fn sql(&self, workspace: &Id, sql: &Sql) -> Result<Answer> {
        let (turn, hold) = self.budget.enter(Some(workspace)).await?;
        let wanted = hold.wanted();
        let began = Instant::now();
        let statement = sql.statement.clone();
        let timed = self.budget.step(Step::Plan);
        let planned = on_large_stack(move || admitted(&statement));
        let (admitted, mut plan) = in_time(&hold, planned).await?;
        drop(timed);
        let asked = self.choose_days(workspace, sql, &mut plan.needs).await?;
        let (frames, reading) = self.read_needs(workspace, sql, &plan.needs, &hold).await?;
        let lacks = self.lacks(workspace, reading.as_deref(), asked).await?;
        let read = frames.iter().map(|frame| frame.estimated_size() as u64).sum();
        let rows: usize = frames.iter().map(DataFrame::height).sum();
        hold.settle(read).await?;
        plan.needs.iter().zip(frames).for_each(|(need, frame)| plan.give(need, frame));
        let frame = collect(plan, admitted, rows as u64, &hold).await?;
        let held = Held { hold, wanted, turn: Some(turn) };
        let mut answer = self.answer(NAME, began, frame, (reading, sql.as_of), held).await?;
        answer.warnings.extend(lacks);
        Ok(answer)
    }

    /// Reads the needs of a statement, all from one reading of the logs.
    async fn read_needs(
        &self,
        workspace: &Id,
        sql: &Sql,
        needs: &[Need],
        hold: &Hold,
    ) -> Result<(Vec<DataFrame>, Option<Arc<Reading>>)> {
        let of_logs: Vec<&Need> = needs.iter().filter(|need| sql.is_of_logs(need)).collect();
        let (mut read, mut reading) = (Vec::new(), None);
        if let Some(window) = sql.days_read(&of_logs)? {
            let window = sql.read_version.as_ref().map_or(window, |read_version| read_version.window);
            let is_raw = of_logs.iter().all(|need| need.of.what().is_some_and(Dataset::is_raw));
            let point = Point { window, as_of: sql.as_of, read_version: sql.read_version.clone(), is_raw };
            for need in &of_logs {
                need.of.what().map_or(Ok(()), |what| sql.check_read_version(what))?;
            }
            let make = |reading: Arc<Reading>| self.read_logs(reading, sql, &of_logs).boxed();
            let (frames, of) = self.out_of_logs(workspace, &point, hold, make).await?;
            (read, reading) = (frames, Some(of));
        }
        let mut read = read.into_iter();
        let mut frames = Vec::with_capacity(needs.len());
        for need in needs {
            let frame = match (need.window()?, need.of) {
                (None, _) => plan::empty(need),
                (Some(window), Table::Transitions) => {
                    self.rule_transition(workspace, (need, window), hold).await?
                }
                (Some(_), _) if sql.is_of_logs(need) => read.next().unwrap_or_else(|| plan::empty(need)),
                (Some(window), Table::Of(what)) => {
                    let request = sql.request((need, what), window);
                    let request = match what {
                        Dataset::Drift => of_drift(need, request)?,
                        _ => request,
                    };
                    self.check_release(workspace, &request).await?;
                    self.stored(workspace, &request, hold).await?.frame
                }
            };
            frames.push(frame);
        }
        Ok((frames, reading))
    }

    /// Returns the rows of the needs read from the logs; a need without any day is left out.
    async fn read_logs(&self, reading: Arc<Reading>, sql: &Sql, needs: &[&Need]) -> Result<Vec<DataFrame>> {
        let mut frames = Vec::with_capacity(needs.len());
        for need in needs {
            let (Some(window), Some(what)) = (need.window()?, need.of.what()) else { continue };
            let wanted = |kind| Wanted {
                kind,
                is_joined: what == Dataset::Joined,
                columns: Some(need.columns.clone()),
                release: None,
                predicate: need.besides_days.clone().map(|predicate| (predicate, need.columns.clone())),
                bounds: need.bounds(),
                row_filter: RowFilter::default(),
            };
            frames.push(match what {
                Dataset::Events(kind) => match &need.groups {
                    Some(groups) => groups.of_events(&reading, need.bounds()).await?,
                    None => events::events(&reading, &wanted(kind)).await?,
                },
                Dataset::Joined => joined::joined(&reading, &wanted(Kind::Predictions)).await?,
                _ => self.of_logs(Arc::clone(&reading), &sql.request((need, what), window)).await?,
            });
        }
        Ok(frames)
    }
}

/// Computes the answer in polars. Its memory is given back when polars is done; if nobody waits any more or its time is over, at
/// the end of the current step of the plan.
async fn collect(plan: Plan, admitted: Admitted, rows: u64, hold: &Hold) -> Result<DataFrame> {
    let Admitted { joins, width, weight, texts, is_shuffled } = admitted;
    let (most, counted) = (hold.memory() / BYTES_OF_COLUMN, hold.clone());
    let counting = on_large_stack(move || {
        let joined = joins::rows(joins, most, &counted)?;
        let longest = if texts == 0 { 0 } else { plan.longest_text().max(BYTES_OF_TEXT) };
        Ok((plan, joined, longest))
    });
    let (plan, joined, longest) = in_time(hold, counting).await?;
    let of_row = (width as u64 * BYTES_OF_COLUMN).saturating_add(texts.saturating_mul(longest));
    let bytes = rows.saturating_mul(weight).saturating_add(joined).saturating_mul(of_row);
    if bytes > hold.memory() {
        return Err(hold.too_large(&format!(
            "it reads {rows} rows and joins them to {joined}, for which polars may take {}",
            in_words(bytes)
        )));
    }
    hold.take(bytes).await?;
    let working = hold.clone();
    let work = on_large_stack(move || {
        let _timed = working.step(Step::Compute);
        working.check()?;
        let frame = plan.frame._collect_post_opt(|root, plans, _, _| {
            look_between_steps(plans, root, &working);
            Ok(())
        });
        // An error after a cancellation is no mistake of the statement.
        working.check()?;
        let frame = frame.map_err(crate::frame::refused)?;
        Ok(if is_shuffled { sorted(frame) } else { frame })
    });
    in_time(hold, work).await
}

/// Limits the time of work in polars, after which it is abandoned.
async fn in_time<T>(hold: &Hold, work: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout(Duration::from_secs(MAX_SECONDS), work).await {
        Ok(done) => done,
        Err(_) => Err(hold.too_large(&format!("polars takes more than {MAX_SECONDS} seconds for it"))),
    }
}

/// Makes polars check after each step of a plan whether the query was cancelled.
fn look_between_steps(plans: &mut Arena<IR>, root: Node, hold: &Hold) {
    let hold = hold.clone();
    let look = move |frame: DataFrame| match hold.is_cancelled() {
        true => Err(PolarsError::ComputeError("nobody waits for the answer".into())),
        false => Ok(frame),
    };
    let look: Arc<dyn DataFrameUdf> = Arc::new(look);
    let (mut left, mut seen) = (vec![root], BTreeSet::new());
    while let Some(node) = left.pop() {
        if !seen.insert(node.0) {
            continue;
        }
        let step = plans.get(node).clone();
        step.copy_inputs(&mut left);
        let is_short = matches!(
            step,
            IR::Scan { .. } | IR::DataFrameScan { .. } | IR::Cache { .. } | IR::SimpleProjection { .. }
        );
        if is_short {
            continue;
        }
        let input = plans.add(step);
        let function = FunctionIR::Opaque {
            function: Arc::clone(&look),
            schema: None,
            predicate_pd: false,
            projection_pd: false,
            streamable: false,
            fmt_str: "look".into(),
        };
        plans.replace(node, IR::MapFunction { input, function });
    }
}

impl Sql {
    /// Returns true if a need is read from the logs, and not from stored data.
    fn is_of_logs(&self, need: &Need) -> bool {
        let Some(what) = need.of.what() else { return false };
        match what {
            Dataset::Drift
            | Dataset::Estimates
            | Dataset::Slices
            | Dataset::HeadToHead
            | Dataset::Challengers => false,
            Dataset::Rollups
            | Dataset::Evaluations
            | Dataset::Classes
            | Dataset::Confusion
            | Dataset::Maturity => {
                let window = need.window().ok().flatten();
                window.is_some_and(|window| self.request((need, what), window).is_of_logs())
            }
            Dataset::Events(_) | Dataset::Joined => true,
        }
    }

    /// Checks that the read version covers the kinds of events that are read.
    fn check_read_version(&self, what: Dataset) -> Result<()> {
        let lacks = |read_version: &Arc<ReadVersion>| {
            what.kinds().iter().find(|kind| !read_version.kinds.contains(kind)).copied()
        };
        match self.read_version.as_ref().and_then(lacks) {
            Some(kind) => Err(Error::invalid(format!(
                "read_version: it does not say how far {} were read",
                kind.name()
            ))),
            None => Ok(()),
        }
    }

    /// Builds the request for a need of metrics.
    fn request(&self, (need, what): (&Need, Dataset), window: Window) -> Request {
        let request = Request::of(what, window, need.columns.clone());
        Request { as_of: self.as_of, read_version: self.read_version.clone(), ..request }
    }
}

/// Builds a request for drift, with the reference and the release given by the conditions of a statement.
fn of_drift(need: &Need, request: Request) -> Result<Request> {
    let says = "sql: say what drift is compared with: where reference = '2013-04-01..2013-05-31'";
    let references: Vec<&String> = need.references.iter().flatten().collect();
    let [named] = references[..] else { return Err(Error::invalid(says)) };
    let reference = drift::reference_of(named)?;
    if *named != reference.to_string() {
        // The rows have the reference in this form, and the condition compares texts.
        return Err(Error::invalid(format!("sql: write the reference as '{reference}'")));
    }
    let releases: Vec<&String> = need.releases.iter().flatten().collect();
    let release = match (&need.releases, &releases[..]) {
        (None, _) => None,
        (Some(_), [release]) => Some((*release).clone()),
        (Some(_), _) => {
            return Err(Error::invalid("sql: drift is of one release at a time, or of all together"));
        }
    };
    Ok(Request { reference: Some(reference), release, ..request })
}

/// Sorts a frame by all columns; unchanged if a column has no order.
fn sorted(frame: DataFrame) -> DataFrame {
    let names: Vec<_> = frame.columns().iter().map(|column| column.name().clone()).collect();
    if names.is_empty() {
        return frame;
    }
    frame.sort(names, SortMultipleOptions::default()).unwrap_or(frame)
}

#[cfg(test)]
mod tests {
    use polars::prelude::{IntoLazy, col, lit};

    use super::*;
    use crate::{
        Bounds,
        budget::Budget,
        frame::{floats, frame},
    };

    #[tokio::test(flavor = "multi_thread")]
    async fn polars_ends_with_a_step_when_nobody_waits() {
        let (_turn, hold) = Budget::new(Bounds::NONE).enter(None).await.unwrap();
        let rows = frame(3, vec![floats("a", [Some(2.0), Some(1.0), Some(2.0)].into_iter())]).unwrap();
        let plan = || {
            let steps = rows.clone().lazy().filter(col("a").gt(lit(0.0))).group_by([col("a")]);
            steps.agg([col("a").count().alias("n")]).sort(["a"], SortMultipleOptions::default())
        };
        let collect = || {
            plan()._collect_post_opt(|root, plans, _, _| {
                look_between_steps(plans, root, &hold);
                Ok(())
            })
        };
        assert!(collect().unwrap().equals(&plan().collect().unwrap()));
        drop(hold.wanted());
        assert!(collect().is_err());
    }
}
