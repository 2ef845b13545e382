//! Lists of runs: of a workspace or an experiment, page by page, by the time of their creation.

use std::collections::BTreeMap;

use event::{Error, Id, Result};
use futures::future::try_join_all;
use log::key;
use table::{Cursor, Direction, Index, Query, query_all};

use super::{LatestValue, Run, Texts, latest::is_full, span::Span};
use crate::{Catalog, MAX_PAGE};

/// Filter of runs, and size of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct RunQuery {
    /// Id of the experiment; all runs of the workspace when `None`.
    pub experiment: Option<String>,
    /// Maximum runs of a page, at most [`MAX_PAGE`].
    pub limit: usize,
    /// Cursor from [`RunPage::next`], after which the page begins.
    pub after: Option<Cursor>,
    /// True for the newest first.
    pub newest_first: bool,
}

/// A run and the latest value of each of its metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct RunWithMetrics {
    /// The run.
    pub run: Run,
    /// The latest values, by metric.
    pub metrics: BTreeMap<String, LatestValue>,
}

impl RunWithMetrics {
    /// Approximate number of bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let name = |name: &String| size_of::<String>() + name.len();
        let texts = |all: &Texts| all.iter().map(|(key, text)| name(key) + name(text)).sum::<usize>();
        let metric = |(key, latest): (&String, &LatestValue)| {
            name(key) + size_of::<LatestValue>() + latest.spans.len() * size_of::<Span>()
        };
        let metrics: usize = self.metrics.iter().map(metric).sum();
        size_of::<Self>() + texts(&self.run.params) + texts(&self.run.tags) + metrics
    }
}

/// A page of runs.
#[derive(Clone, Debug)]
pub struct RunPage {
    /// The runs, in order.
    pub runs: Vec<RunWithMetrics>,
    /// Cursor of the next page; `None` after the last.
    pub next: Option<Cursor>,
}

impl Catalog {
    /// Reads runs with their latest metrics, by two queries a page, and one more for each run of an experiment that has about a
    /// hundred metrics or more.
    ///
    /// # Errors
    /// `Invalid`, when the limit is not valid; those of the table.
    pub async fn runs(&self, workspace: &Id, asked: &RunQuery) -> Result<RunPage> {
        if asked.limit == 0 || asked.limit > MAX_PAGE {
            return Err(Error::invalid(format!("`limit` should be 1 to {MAX_PAGE}")));
        }
        let range = match &asked.experiment {
            None => key::runs(workspace),
            Some(experiment) => key::runs_of(workspace, experiment),
        };
        let index = if asked.experiment.is_some() { Index::Gsi1 } else { Index::Table };
        let query = Query {
            index,
            direction: if asked.newest_first { Direction::Backward } else { Direction::Forward },
            limit: Some(asked.limit),
            after: asked.after.clone(),
            ..Query::table(range)
        };
        let page = self.table.query(&query).await?;
        let runs = page.items.iter().map(Run::from_item).collect::<Result<Vec<_>>>()?;
        let (Some(first), Some(last)) =
            (runs.iter().map(|run| &run.id).min(), runs.iter().map(|run| &run.id).max())
        else {
            return Ok(RunPage { runs: Vec::new(), next: page.next });
        };
        let range = match &asked.experiment {
            None => key::latest_between(workspace, first, last),
            Some(experiment) => key::latest_of_experiment(workspace, experiment, first, last),
        };
        let mut metrics = BTreeMap::<Id, BTreeMap<String, LatestValue>>::new();
        for item in query_all(&*self.table, Query { index, ..Query::table(range) }).await? {
            let (run, of_item) = Self::latest_of_item(&item)?;
            // The index of experiments holds first items alone.
            let of_run = match asked.experiment.is_some() && is_full(&of_item) {
                true => self.latest_metrics(workspace, &run).await?.metrics,
                false => of_item,
            };
            metrics.entry(run).or_default().extend(of_run);
        }
        let with_metrics = |run: Run| {
            let metrics = metrics.remove(&run.id).unwrap_or_default();
            RunWithMetrics { run, metrics }
        };
        Ok(RunPage { runs: runs.into_iter().map(with_metrics).collect(), next: page.next })
    }

    /// Reads these runs with their latest metrics, as [`Catalog::run_with_metrics`] reads each, all at one time; `None` for one
    /// that does not exist.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn runs_with_metrics(
        &self,
        workspace: &Id,
        runs: &[Id],
    ) -> Result<Vec<Option<RunWithMetrics>>> {
        try_join_all(runs.iter().map(|run| self.find_with_metrics(workspace, run))).await
    }

    pub(super) async fn find_with_metrics(&self, workspace: &Id, run: &Id) -> Result<Option<RunWithMetrics>> {
        let Some(run) = self.find_run(workspace, run).await? else { return Ok(None) };
        let metrics = self.latest_metrics(workspace, &run.id).await?.metrics;
        Ok(Some(RunWithMetrics { run, metrics }))
    }
}
