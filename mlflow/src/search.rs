//! Search of runs.

use std::{cmp::Ordering, collections::BTreeSet};

use axum::http::StatusCode;
use catalog::{RunQuery, RunWithMetrics, Workspace};
use event::{Id, Timestamp};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Failure},
    artifacts::artifact_uri,
    asked::{Asked, millis},
    door::Door,
    experiments::{beginning, page, view},
    filter::{Attributes, Filter, Key, Order, Subject},
    inputs::said_of_datasets,
    runs::{shown, status_of},
};

/// Maximum number of runs of a page.
const MAX_RUNS: usize = 50_000;

/// Maximum number of experiments that a search names.
const MAX_EXPERIMENTS: usize = 1_000;

/// Number of runs listed at one time; each may take half a megabyte.
const RUNS_AT_ONCE: usize = 200;

/// Number of runs read at one time that are not kept.
const READS_AT_ONCE: usize = 16;

/// The bounds of a search.
const BOUNDS: Bounds = Bounds { searched: 100_000, bytes: 32 * 1024 * 1024 };

/// Limits of a search.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Maximum number of runs that it looks at.
    searched: usize,
    /// Maximum bytes of the runs that it keeps, of its sort keys, and of the runs on a page.
    bytes: usize,
}

/// The attributes of runs, some under several names.
const ATTRIBUTES: Attributes = Attributes {
    numbers: &["start_time", "end_time", "created", "Created"],
    texts: &[
        "run_id",
        "run_name",
        "run name",
        "Run name",
        "Run Name",
        "name",
        "status",
        "user_id",
        "user",
        "User",
        "artifact_uri",
    ],
    datasets: &["name", "digest", "context"],
};

impl Subject for RunWithMetrics {
    fn text(&self, of: &str, name: &str) -> Option<String> {
        let run = &self.run;
        match (of, name) {
            ("params", name) => run.params.get(name).cloned(),
            ("tags", "mlflow.runName")
            | ("attributes", "run_name" | "run name" | "Run name" | "Run Name" | "name") => {
                Some(run.name.clone())
            }
            ("tags", "mlflow.parentRunId") => run.parent.as_ref().map(ToString::to_string),
            ("tags", name) => run.tags.get(name).cloned(),
            ("attributes", "run_id") => Some(run.id.to_string()),
            ("attributes", "status") => Some(status_of(run.status)),
            ("attributes", "artifact_uri") => Some(artifact_uri(run)),
            ("attributes", "user_id" | "User" | "user") => run.tags.get("mlflow.user").cloned(),
            _ => None,
        }
    }

    fn number(&self, of: &str, name: &str) -> Option<f64> {
        match (of, name) {
            ("metrics", name) => self.metrics.get(name).map(|latest| latest.value),
            ("attributes", "start_time" | "created" | "Created") => Some(millis(self.run.started_at) as f64),
            ("attributes", "end_time") => self.run.ended_at.map(|at| millis(at) as f64),
            _ => None,
        }
    }

    fn texts(&self, of: &str, name: &str) -> Vec<String> {
        match of {
            "datasets" => said_of_datasets(&self.run.tags, name),
            of => self.text(of, name).into_iter().collect(),
        }
    }
}

/// A run that matches: its sort keys, and all of it as long as there is room for all matches.
struct MatchingRun {
    id: Id,
    started_at: Timestamp,
    keys: Vec<Key>,
    whole: Option<Box<RunWithMetrics>>,
}

/// A search, and its matches so far.
struct Search {
    /// Predicate of the view on a run's being archived.
    wants: fn(bool) -> bool,
    filter: Filter,
    orders: Vec<Order>,
    bounds: Bounds,
    searched: usize,
    found: Vec<MatchingRun>,
    /// Bytes of the kept runs.
    bytes: usize,
    /// Bytes of the sort keys.
    key_bytes: usize,
}

impl Search {
    fn parse(asked: &Asked, bounds: Bounds) -> Answer<Self> {
        let wants = view(asked, "run_view_type")?;
        let filter = Filter::parse(asked.text_if("filter")?.unwrap_or_default(), &ATTRIBUTES)?;
        let orders = Order::parse_all(&asked.texts("order_by")?, &ATTRIBUTES)?;
        Ok(Self { wants, filter, orders, bounds, searched: 0, found: Vec::new(), bytes: 0, key_bytes: 0 })
    }

    fn is_wanted(&self, of: &RunWithMetrics) -> bool {
        (self.wants)(of.run.archived_at.is_some()) && self.filter.matches(of)
    }

    /// Looks at runs, and keeps the needed data of those that match.
    fn look_at(&mut self, runs: Vec<RunWithMetrics>) -> Answer<()> {
        self.searched += runs.len();
        if self.searched > self.bounds.searched {
            let most = self.bounds.searched;
            return Err(Failure::invalid(format!(
                "a search looks at {most} runs at most: name fewer experiments"
            )));
        }
        for of in runs {
            if !self.is_wanted(&of) {
                continue;
            }
            let keys: Vec<Key> = self.orders.iter().map(|order| order.key(&of)).collect();
            self.key_bytes += size_of::<MatchingRun>() + keys.iter().map(Key::bytes).sum::<usize>();
            let had_room = self.bytes <= self.bounds.bytes;
            self.bytes += of.bytes();
            let (id, started_at, has_room) =
                (of.run.id.clone(), of.run.started_at, self.bytes <= self.bounds.bytes);
            if had_room && !has_room {
                self.found.iter_mut().for_each(|one| one.whole = None);
            }
            self.found.push(MatchingRun { id, started_at, keys, whole: has_room.then(|| Box::new(of)) });
        }
        match self.key_bytes <= self.bounds.bytes {
            true => Ok(()),
            false => Err(Failure::invalid("the runs have too long texts to be sorted by: narrow the search")),
        }
    }

    /// Returns the matches, in order.
    fn sorted(self) -> Vec<MatchingRun> {
        let Self { orders, mut found, .. } = self;
        found.sort_by(|a, b| {
            let keys = orders.iter().zip(a.keys.iter().zip(&b.keys));
            let by_order = keys.map(|(order, (a, b))| order.compare(a, b)).find(|order| order.is_ne());
            // The latest first by default.
            let usual = || (b.started_at, &a.id).cmp(&(a.started_at, &b.id));
            by_order.unwrap_or(Ordering::Equal).then_with(usual)
        });
        found
    }
}

impl Door {
    /// Looks at all runs of an experiment.
    async fn look_through(
        &self,
        workspace: &Workspace,
        experiment: &str,
        mut search: Search,
    ) -> Answer<Search> {
        let mut asked = RunQuery {
            experiment: Some(experiment.to_owned()),
            limit: RUNS_AT_ONCE,
            after: None,
            newest_first: true,
        };
        loop {
            let page = self.ingest.catalog().runs(workspace.id(), &asked).await?;
            search = off_the_runtime(move || search.look_at(page.runs).map(|()| search)).await??;
            match page.next {
                Some(next) => asked.after = Some(next),
                None => return Ok(search),
            }
        }
    }

    pub(crate) async fn search_runs(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let (limit, token) = (asked.limit(1_000, MAX_RUNS)?, asked.text_if("page_token")?);
        let mut search = Search::parse(asked, BOUNDS)?;
        for experiment in experiments(asked)? {
            search = self.look_through(workspace, experiment, search).await?;
        }
        let found = search.sorted();
        let (some, next) = page(&found, token, limit)?;
        let (shown, taken) = self.shown_runs(workspace, some).await?;
        // A page that is full before its limit is followed by one that begins there.
        let next = if taken < some.len() { Some((beginning(token)? + taken).to_string()) } else { next };
        Ok(json!({ "runs": shown, "next_page_token": next }))
    }

    /// Returns matches in MLflow's form, at least one and as many as a page has room for, and the number of matches consumed. A
    /// run deleted since is left out.
    async fn shown_runs(&self, workspace: &Workspace, found: &[MatchingRun]) -> Answer<(Vec<Value>, usize)> {
        let (mut all, mut taken, mut bytes) = (Vec::new(), 0, 0);
        for some in found.chunks(READS_AT_ONCE) {
            let missing = some.iter().filter(|one| one.whole.is_none());
            let missing: Vec<Id> = missing.map(|one| one.id.clone()).collect();
            let mut reads =
                self.ingest.catalog().runs_with_metrics(workspace.id(), &missing).await?.into_iter();
            for one in some {
                let read = if one.whole.is_none() { reads.next().flatten() } else { None };
                let of = one.whole.as_deref().or(read.as_ref());
                bytes += of.map_or(0, RunWithMetrics::bytes);
                if bytes > BOUNDS.bytes && taken > 0 {
                    return Ok((all, taken));
                }
                all.extend(of.map(shown));
                taken += 1;
            }
        }
        Ok((all, taken))
    }
}

/// Runs long work, such as evaluating a filter for many runs, outside of the threads that answer requests.
pub(crate) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Answer<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| {
        Failure::of(StatusCode::INTERNAL_SERVER_ERROR, format!("the search failed: {error}"))
    })
}

/// Returns the experiments whose runs are searched, each once.
pub(crate) fn experiments(asked: &Asked) -> Answer<BTreeSet<&str>> {
    let experiments: BTreeSet<&str> = asked.texts("experiment_ids")?.into_iter().collect();
    match experiments.len() {
        ..=MAX_EXPERIMENTS => Ok(experiments),
        _ => Err(Failure::invalid(format!("a search names {MAX_EXPERIMENTS} experiments at most"))),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use axum::http::Extensions;
    use catalog::{Run, RunStatus, Texts};

    use super::*;

    fn asked(fields: Value) -> Asked {
        let Value::Object(fields) = fields else { panic!("fields are an object") };
        Asked { fields, extensions: Extensions::new() }
    }

    /// Builds a run that began `seconds` after the first.
    pub(crate) fn run(seconds: i64, param: &str) -> RunWithMetrics {
        let at = Timestamp::default().plus_seconds(1_780_000_000 + seconds);
        let run = Run {
            id: Id::new(at),
            workspace: Id::new(at),
            experiment: "depths".to_owned(),
            name: format!("run {seconds}"),
            status: RunStatus::Running,
            started_at: at,
            ended_at: None,
            parent: None,
            snapshot: None,
            params: [("depth".to_owned(), param.to_owned())].into(),
            tags: Texts::new(),
            created_at: at,
            archived_at: None,
            version: 1,
        };
        RunWithMetrics { run, metrics: BTreeMap::new() }
    }

    #[test]
    fn search_beyond_memory_bound_still_sorts_all_runs() {
        let asked = asked(json!({ "order_by": ["params.depth DESC"] }));
        let runs: Vec<RunWithMetrics> = (0..20).map(|n| run(n, &format!("{:02}", n * 7 % 20))).collect();
        let found_within = |bytes: usize| {
            let mut search = Search::parse(&asked, Bounds { searched: 20, bytes }).unwrap();
            for some in runs.chunks(3) {
                search.look_at(some.to_vec()).unwrap();
            }
            search.sorted()
        };
        let (roomy, narrow) = (found_within(1 << 20), found_within(runs[0].bytes() * 10));
        assert!(roomy.iter().all(|one| one.whole.is_some()) && narrow.iter().all(|one| one.whole.is_none()));
        let ids = |found: &[MatchingRun]| found.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&roomy), ids(&narrow));
        let depths = roomy.iter().map(|one| one.whole.as_ref().unwrap().run.params["depth"].clone());
        assert!(depths.eq((0..20).rev().map(|n| format!("{n:02}"))));
    }

    #[test]
    fn bounds_hold_for_all_experiments_together() {
        let asked = asked(json!({ "order_by": ["params.depth"] }));
        let search = |searched, bytes| Search::parse(&asked, Bounds { searched, bytes }).unwrap();
        let mut few = search(5, 1 << 20);
        few.look_at(vec![run(0, "1"), run(1, "2"), run(2, "3")]).unwrap();
        let refused = few.look_at(vec![run(3, "4"), run(4, "5"), run(5, "6")]).unwrap_err();
        assert_eq!(refused.message, "a search looks at 5 runs at most: name fewer experiments");
        let long = "x".repeat(1_000);
        let refused =
            search(5, 3_000).look_at(vec![run(0, &long), run(1, &long), run(2, &long)]).unwrap_err();
        assert!(refused.message.contains("too long texts"), "{}", refused.message);
    }

    #[test]
    fn experiment_named_repeatedly_is_searched_once() {
        let named = asked(json!({ "experiment_ids": ["1", "0", "1", "1"] }));
        let experiments = super::experiments(&named).unwrap();
        assert_eq!(experiments.into_iter().collect::<Vec<_>>(), ["0", "1"]);
        let ids: Vec<String> = (0..=MAX_EXPERIMENTS).map(|id| id.to_string()).collect();
        let many = asked(json!({ "experiment_ids": ids }));
        let refused = super::experiments(&many).unwrap_err();
        assert_eq!(refused.code, "INVALID_PARAMETER_VALUE");
    }
}
