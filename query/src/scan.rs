//! A scan: the events of a window, or its predictions with their outcomes, as frames, for programs.

use std::sync::Arc;

use event::{Clock, Id, Kind, Result, Share, Timestamp, Window};
use futures::{FutureExt, Stream, StreamExt};
use polars::prelude::DataFrame;
use table::Table;

use crate::{
    Point, Query,
    read::Reading,
    request::{Dataset, Request},
};

/// The events of a kind in a window of days: by default predictions, all columns, in the order of the log.
///
/// ```
/// use almanac_query::Scan;
/// use catalog::Catalog;
/// use event::{Clock, Kind, Window};
/// use futures::TryStreamExt;
/// use table::{Table, sqlite::SqliteTable};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("almanac.db");
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let clock = Clock::system();
/// let table: std::sync::Arc<dyn Table> = std::sync::Arc::new(SqliteTable::open(&path, clock.clone())?);
/// let workspace = Catalog::new(table.clone()).ensure_workspace("credit/prod", clock.now()).await?;
///
/// let window = Window::new("2026-06-01".parse()?, "2026-06-30".parse()?)?;
/// let scan = Scan::new(table, workspace.id(), window).kind(Kind::Predictions).columns(["key", "score"]);
/// let frames = scan.clone().filter("score > 0.5 and day > '2026-06-07'").frames().await?;
/// let rows: usize = frames.map_ok(|frame| frame.height()).try_fold(0, async |all, rows| Ok(all + rows)).await?;
/// assert_eq!(rows, 0);
/// assert_eq!(scan.collect().await?.shape(), (0, 2));
/// # Ok::<(), event::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scan {
    query: Query,
    workspace: Id,
    request: Request,
}

impl Scan {
    /// Scans the predictions of a window, without limit of memory; see [`Scan::of`].
    pub fn new(table: Arc<dyn Table>, workspace: &Id, window: Window) -> Self {
        Self::of(Query::new(table, Clock::system()), workspace, window)
    }

    /// Scans the predictions of a window within the bounds and by the clock of a service.
    pub fn of(query: Query, workspace: &Id, window: Window) -> Self {
        let request =
            Request { columns: None, ..Request::of(Dataset::Events(Kind::Predictions), window, Vec::new()) };
        Self { query, workspace: workspace.clone(), request }
    }

    /// Selects events of this kind.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.request.what = Dataset::Events(kind);
        self
    }

    /// Selects predictions with the outcomes that label them, instead of events of a kind. A day is joined as a whole, and is one
    /// frame.
    #[must_use]
    pub fn joined(mut self) -> Self {
        self.request.what = Dataset::Joined;
        self
    }

    /// Selects these columns, in this order.
    #[must_use]
    pub fn columns<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.request.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Selects events of this release.
    #[must_use]
    pub fn release(mut self, release: &str) -> Self {
        self.request.release = Some(release.to_owned());
        self
    }

    /// Adds a condition on the events: an expression of SQL over their columns.
    #[must_use]
    pub fn filter(mut self, condition: &str) -> Self {
        self.request.row_filter.conditions.push(condition.to_owned());
        self
    }

    /// Selects the events of a share of keys, which is fixed.
    #[must_use]
    pub fn sample(mut self, share: Share) -> Self {
        self.request.row_filter.sample = Some(share);
        self
    }

    /// Limits the number of rows.
    #[must_use]
    pub fn limit(mut self, rows: usize) -> Self {
        self.request.row_filter.limit = Some(rows);
        self
    }

    /// Orders the last day first, and within each day the latest event first.
    #[must_use]
    pub fn newest(mut self) -> Self {
        self.request.row_filter.newest = true;
        self
    }

    /// Selects the events appended by then.
    #[must_use]
    pub fn as_of(mut self, as_of: Timestamp) -> Self {
        self.request.as_of = Some(as_of);
        self
    }

    /// Returns its events in frames of bounded size, independent of the size of a day, in the order of [`Scan::collect`]. All of
    /// them have equal columns: without [`Scan::columns`] those of the kind, and of tags, scores and features those that occur in
    /// the window. The memory of a frame is given back as the next one is requested; a few are read ahead. A caller that stops
    /// polling does not block other readers.
    ///
    /// ```
    /// # use almanac_query::Scan;
    /// # use event::{Clock, Window};
    /// # use futures::TryStreamExt;
    /// # use table::{Table, sqlite::SqliteTable};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("almanac.db");
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let clock = Clock::system();
    /// # let table: std::sync::Arc<dyn Table> = std::sync::Arc::new(SqliteTable::open(&path, clock.clone())?);
    /// # let workspace = catalog::Catalog::new(table.clone()).ensure_workspace("credit/prod", clock.now()).await?;
    /// let june = Window::new("2026-06-01".parse()?, "2026-06-30".parse()?)?;
    /// let mut frames = std::pin::pin!(Scan::new(table, workspace.id(), june).columns(["score"]).frames().await?);
    /// let mut rows = 0;
    /// while let Some(frame) = frames.try_next().await? {
    ///     rows += frame.height();
    /// }
    /// assert_eq!(rows, 0);
    /// # Ok::<(), event::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid`, if it names something that does not exist; errors of the table. A frame is an error also if a segment is
    /// deleted while it is read, or if all queries together hold too much.
    pub async fn frames(self) -> Result<impl Stream<Item = Result<DataFrame>>> {
        let Self { query, workspace, request } = self;
        let (place, hold) = query.budget.enter_stream(&workspace).await?;
        query.check_release(&workspace, &request).await?;
        let (service, asked) = (&query, &request);
        let make = |reading: Arc<Reading>| async move { service.plan(&reading, asked).await }.boxed();
        let (plan, reading) = service.out_of_logs(&workspace, &Point::of(asked), &hold, make).await?;
        let (parts, fixed) = plan.parts(&reading);
        let mut given = 0;
        Ok(parts.map(move |part| {
            // Kept alive as long as frames are requested.
            _ = (&place, &fixed);
            hold.shrink(std::mem::take(&mut given));
            let part = part?;
            given = part.bytes;
            Ok(part.frame)
        }))
    }

    /// Collects all of it into one frame.
    ///
    /// # Errors
    /// Errors of [`Scan::frames`] and its frames.
    pub async fn collect(self) -> Result<DataFrame> {
        Ok(self.query.run(&self.workspace, &self.request).await?.frame)
    }
}
