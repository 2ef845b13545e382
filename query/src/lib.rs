//! The query service: scans date windows of the log into dataframes.
//!
//! A [`request`] names what to read: events, predictions joined with their outcomes, or the daily rollups and evaluations. The
//! answer is a polars dataframe, which [`output`] writes as a table for people, CSV, NDJSON, Parquet or Arrow. [`http`] answers
//! the same requests over HTTP.
//!
//! ```
//! use almanac_query::{Dataset, Format, Params, Query, Request};
//! use catalog::Catalog;
//! use event::{Clock, Kind};
//! use table::{Table, sqlite::SqliteTable};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("almanac.db");
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let clock = Clock::system();
//! let table: std::sync::Arc<dyn Table> = std::sync::Arc::new(SqliteTable::open(&path, clock.clone())?);
//! let workspace = Catalog::new(table.clone()).ensure_workspace("credit/prod", clock.now()).await?;
//!
//! let words = Params { from: "2026-11-01", to: "2026-11-30", columns: Some("key,score"), ..Params::default() };
//! let request = Request::parse(Dataset::Events(Kind::Predictions), &words)?;
//! let mut answer = Query::new(table, clock).run(workspace.id(), &request).await?;
//! assert!(answer.read_version.is_some());
//! let mut csv = Vec::new();
//! Format::Csv.write(&mut answer.frame, &mut csv)?;
//! assert_eq!(csv, b"key,score\n");
//! # Ok::<(), event::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The service writes nothing to the table.

mod answer;
pub(crate) mod audit;
mod breakdown;
mod budget;
mod challengers;
mod change;
mod classes;
mod columns;
mod concat;
mod dataset;
mod day_reading;
mod day_rows;
mod digest;
mod drift;
mod encode;
mod estimates;
mod evaluation_rows;
mod evaluations;
mod events;
mod expired;
mod explain;
mod filter;
mod follow;
mod frame;
mod groups;
mod head_to_head;
pub mod http;
mod intervals;
mod joined;
mod kept;
mod key_filters;
mod known;
mod label_delay;
mod leaderboard;
mod lineage;
mod lines;
mod maturity;
mod meters;
pub mod output;
mod packed;
mod pages;
mod parts;
mod plan;
mod point;
mod read;
pub mod request;
mod review;
mod rollups;
mod row_filter;
mod runs;
mod scan;
mod series;
mod slices;
mod snapshot;
pub mod sql;
mod streamed;
mod subscriptions;
mod survey;
mod text_table;
mod unfolded;
mod unmatched;
mod vintage;
mod window;
mod work;

use std::sync::{Arc, atomic::Ordering};

use catalog::Catalog;
use event::{Clock, Error, Id, Kind, Result, Timestamp};
use futures::FutureExt;
use log::{append_notifier::AppendNotifier, read_version::ReadVersion};
use polars::prelude::DataFrame;
use table::Table;
use tokio::time::Instant;

use self::{
    answer::Found,
    budget::{Budget, Hold},
    change::Change,
    events::Wanted,
    explain::Step,
    follow::Watches,
    meters::Meters,
    read::Reading,
    subscriptions::Subscriptions,
};

pub(crate) use self::point::Point;

pub use answer::{Answer, Source};
pub use audit::{AuditParams, AuditRequest};
pub use breakdown::{Bins, Breakdown};
pub use budget::Bounds;
pub use challengers::Challenge;
pub use day_rows::{Covered, DayRows, WrittenDay};
pub use evaluation_rows::HOUR;
pub use explain::Explanation;
pub use follow::{DEFAULT_ROWS, Follow, FollowParams, Followed, MAX_ROWS, MAX_WAIT_SECONDS};
pub use leaderboard::{LeaderboardParams, Place};
pub use lineage::{LineageParams, LineageRequest};
pub use output::{Format, number_text, shorten};
pub use request::{By, Dataset, Last, LiveIn, Params, Request};
pub use review::ArenaRanking;
pub use row_filter::RowFilter;
pub use scan::Scan;
pub use slices::Slicing;
pub use snapshot::Verified;
pub use sql::{Sql, SqlParams};
pub use streamed::{End, Made, Said, Streamed};
pub use unmatched::*;

/// The query service: answers requests about workspaces.
#[derive(Clone, Debug)]
pub struct Query {
    table: Arc<dyn Table>,
    catalog: Catalog,
    clock: Clock,
    meters: Arc<Meters>,
    budget: Budget,
    watches: Watches,
    news: Subscriptions,
}

impl Query {
    /// Builds a service on `table`, with `clock` for the expiry of events. It has no limits; see [`Query::within`].
    pub fn new(table: Arc<dyn Table>, clock: Clock) -> Self {
        let (meters, budget) = (Arc::default(), Budget::new(Bounds::NONE));
        let (watches, news) = (Watches::new(AppendNotifier::default()), Subscriptions::default());
        Self { catalog: Catalog::new(Arc::clone(&table)), table, clock, meters, budget, watches, news }
    }

    /// Limits all queries together to these bounds.
    pub fn within(self, bounds: Bounds) -> Self {
        Self { budget: Budget::new(bounds), ..self }
    }

    /// Returns the catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the current time of its clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Answers a request. Expired events are not read and segments that cannot be read are left out, each with a warning in the
    /// answer. The work ends when the future is dropped.
    ///
    /// # Errors
    /// `Invalid`, if it names a column or a release that does not exist, or a read version of something else; `NotFound`, if events of a
    /// read version have expired; `Gone`, if the state of a day as of then is not kept; `TooLarge` and `Unavailable`, if it takes too much
    /// of the bounds; errors of the table.
    pub async fn run(&self, workspace: &Id, request: &Request) -> Result<Answer> {
        let (turn, hold) = self.budget.enter(Some(workspace)).await?;
        let wanted = hold.wanted();
        let began = Instant::now();
        let Found { frame, reading, warnings } = self.read(workspace, request, &hold).await?;
        let frame = change::changed(frame, request)?;
        let held = answer::Held { hold, wanted, turn: Some(turn) };
        let warnings = warnings.into_iter().chain(rollups::of_nothing(request, &frame));
        let is_unknown = frame.height() == 0 && reading.is_none() && request.is_of_now();
        let unfolded = match is_unknown {
            true => unfolded::unfolded(&*self.table, workspace, request).await?,
            false => None,
        };
        let warnings = warnings.chain(unfolded);
        let warnings = warnings.chain(request.change.as_ref().and_then(Change::warning));
        let source = if reading.is_some() { Source::Events } else { Source::Stored };
        let answer = self.answer(request.what.name(), began, frame, (reading, request.as_of), held).await?;
        let warnings = warnings.chain(answer.warnings).collect();
        let (source, named) = (request.what.is_judged().then_some(source), request.columns.is_some());
        Ok(Answer { source, named, warnings, ..answer })
    }

    /// Builds the answer of a frame, from its reading and the instant it was requested as of.
    pub(crate) async fn answer(
        &self,
        what: &'static str,
        began: Instant,
        frame: DataFrame,
        (reading, asked): (Option<Arc<Reading>>, Option<Timestamp>),
        held: answer::Held,
    ) -> Result<Answer> {
        let bytes = frame.estimated_size() as u64;
        held.hold.settle(bytes).await?;
        if let Some(tally) = held.hold.tally() {
            tally.rows(frame.height() as u64);
        }
        self.meters.answered(what, began.elapsed(), frame.height());
        let has_vintages = reading.as_ref().is_some_and(|of| of.has_vintages.load(Ordering::Relaxed));
        let (read_version, warnings) = reading.as_deref().map(Reading::read_version).unzip();
        let as_of = asked.and(read_version.as_ref()).map(|read_version| read_version.as_of);
        // An answer with vintages has no read version: reading that read version again would lack the days of the vintages.
        let read_version = read_version.filter(|_| !has_vintages);
        let warnings = warnings.unwrap_or_default();
        Ok(Answer { frame, read_version, as_of, warnings, source: None, named: false, held })
    }

    /// Returns the read version at which a request would be answered from the logs, without reading the events.
    ///
    /// # Errors
    /// Errors of [`Query::run`]; `Invalid`, if the request is not answered from the logs.
    pub async fn read_version(&self, workspace: &Id, request: &Request) -> Result<ReadVersion> {
        let (_turn, hold) = self.budget.enter(Some(workspace)).await?;
        self.check(workspace, request).await?;
        if !request.what.has_history() {
            let name = request.what.name();
            return Err(Error::invalid(format!(
                "{name} are stored, and not read from the logs at a read version"
            )));
        }
        let point = Point::of(request);
        let reading = self.reading(workspace, &point, self.kept(workspace, &point).await?, &hold).await?;
        runs::resolve(&reading, request.kinds_read()).await?;
        Ok(reading.read_version().0)
    }

    async fn read(&self, workspace: &Id, request: &Request, hold: &Hold) -> Result<Found> {
        self.check_release(workspace, request).await?;
        if !request.is_of_logs() {
            return self.stored(workspace, request, hold).await;
        }
        if vintage::is_of_vintages(request)
            && let Some((frame, warnings)) = self.at_ages(workspace, request, hold).await?
        {
            return Ok(Found { warnings, ..Found::of(frame) });
        }
        if let Some(dimension) = request.split()
            && let Some(frame) =
                evaluations::stored_slices(&self.table, workspace, (request, &dimension), hold).await?
        {
            return Ok(Found::of(frame));
        }
        let of_logs = |reading: Arc<Reading>| self.of_logs(reading, request).boxed();
        let (frame, reading) = self.out_of_logs(workspace, &Point::of(request), hold, of_logs).await?;
        Ok(Found { reading: Some(reading), ..Found::of(frame) })
    }

    /// Reads stored metrics.
    pub(crate) async fn stored(&self, workspace: &Id, request: &Request, hold: &Hold) -> Result<Found> {
        let frame = match request.what {
            Dataset::Drift => return drift::drift(&self.table, workspace, request, hold).await,
            Dataset::Rollups => rollups::rollups(&self.table, workspace, request, hold).await,
            Dataset::Slices => {
                return slices::stored(&self.table, &self.catalog, (workspace, request), hold).await;
            }
            _ => evaluations::stored_evaluations(&self.table, workspace, request, hold).await,
        };
        frame.map(Found::of)
    }

    /// Returns the requested events of a kind, or joined rows.
    pub(crate) async fn wanted(&self, kind: Kind, request: &Request) -> Result<Wanted> {
        let wanted = Wanted::of(kind, request);
        let conditions = &request.row_filter.conditions;
        if conditions.is_empty() {
            return Ok(wanted);
        }
        let timed = self.budget.step(Step::Plan);
        let condition = sql::conditions(request.what, conditions).await?;
        drop(timed);
        let predicate = Some((condition.predicate, condition.columns));
        Ok(Wanted { predicate, bounds: condition.bounds, ..wanted })
    }

    /// Builds a frame from the logs.
    async fn of_logs(&self, reading: Arc<Reading>, request: &Request) -> Result<DataFrame> {
        self.warn_of_expired_events(&reading, request).await?;
        match request.what {
            Dataset::Events(kind) => events::events(&reading, &self.wanted(kind, request).await?).await,
            Dataset::Joined => {
                joined::joined(&reading, &self.wanted(Kind::Predictions, request).await?).await
            }
            Dataset::Challengers => challengers::challenged(&reading, &self.catalog, request).await,
            Dataset::HeadToHead => head_to_head::compared(&reading, &self.catalog, request).await,
            Dataset::Drift => drift::exact(&reading, request).await,
            Dataset::Rollups => rollups::known_then(&reading, request).await,
            Dataset::Estimates => estimates::estimates(&reading, &self.catalog, request).await,
            Dataset::Slices => slices::computed(&reading, &self.catalog, request).await,
            Dataset::Maturity => maturity::matured(&reading, &self.catalog, request).await,
            _ if request.mature.is_some() => maturity::matured(&reading, &self.catalog, request).await,
            _ => evaluations::computed_evaluations(&reading, &self.catalog, request).await,
        }
    }

    /// Checks the release, the condition and the columns of a request, as far as possible without reading events.
    ///
    /// # Errors
    /// `Invalid`, listing the existing names; errors of the table.
    pub(crate) async fn check(&self, workspace: &Id, request: &Request) -> Result<()> {
        self.check_release(workspace, request).await?;
        match request.what {
            Dataset::Events(kind) => events::check(&self.wanted(kind, request).await?),
            Dataset::Joined => joined::check(&self.wanted(Kind::Predictions, request).await?),
            what => what.check_columns(request.columns.as_deref()),
        }
    }

    /// Checks that the release of a request exists.
    ///
    /// # Errors
    /// `Invalid`, listing the existing releases; errors of the table.
    pub(crate) async fn check_release(&self, workspace: &Id, request: &Request) -> Result<()> {
        if request.release.is_none() || request.is_of_snapshot {
            return Ok(());
        }
        self.check_releases(workspace, request.release.iter().chain(&request.against)).await
    }

    /// Checks that named releases exist.
    ///
    /// # Errors
    /// `Invalid`, listing the existing releases; errors of the table.
    async fn check_releases(
        &self,
        workspace: &Id,
        mut wanted: impl Iterator<Item = &String> + Send,
    ) -> Result<()> {
        let page = self.catalog.page(workspace).await?;
        let names: Vec<&str> = page.releases.iter().map(|release| release.entity.name.as_str()).collect();
        let Some(wanted) = wanted.find(|wanted| !names.contains(&wanted.as_str())) else { return Ok(()) };
        let there = if names.is_empty() {
            "there is none yet".into()
        } else {
            format!("there are {}", names.join(", "))
        };
        Err(Error::invalid(format!("there is no release `{wanted}` in {}; {there}", page.workspace.path)))
    }
}
