//! Searching runs.

use std::cmp::Ordering;

use catalog::{MAX_PAGE, RunQuery, RunWithMetrics, Workspace};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Failure},
    asked::{Asked, millis},
    door::Door,
    experiments::{is_wanted, page},
    filter::{Attributes, Filter, Order, Subject},
    runs::{artifact_uri, shown, status_of},
};

/// The most runs of a page.
const MAX_RUNS: usize = 50_000;

/// The most runs that a search looks at.
const MAX_SEARCHED: usize = 100_000;

/// The attributes of runs, some by several names.
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
}

impl Door {
    /// All runs of an experiment.
    async fn runs_of(&self, workspace: &Workspace, experiment: &str) -> Answer<Vec<RunWithMetrics>> {
        let mut asked = RunQuery {
            experiment: Some(experiment.to_owned()),
            limit: MAX_PAGE,
            after: None,
            newest_first: true,
        };
        let mut all = Vec::new();
        loop {
            let page = self.ingest.catalog().runs(workspace.id(), &asked).await?;
            all.extend(page.runs);
            if all.len() > MAX_SEARCHED {
                let message =
                    format!("a search looks at {MAX_SEARCHED} runs at most: use several experiments");
                return Err(Failure::invalid(message));
            }
            match page.next {
                Some(next) => asked.after = Some(next),
                None => return Ok(all),
            }
        }
    }

    pub(crate) async fn search_runs(&self, workspace: &Workspace, asked: &Asked) -> Answer {
        let limit = asked.limit(1_000, MAX_RUNS)?;
        let filter = Filter::parse(asked.text_if("filter").unwrap_or_default(), &ATTRIBUTES)?;
        let orders: Vec<Order> = asked
            .texts("order_by")
            .into_iter()
            .map(|text| Order::parse(text, &ATTRIBUTES))
            .collect::<Answer<_>>()?;
        let mut found = Vec::new();
        for experiment in asked.texts("experiment_ids") {
            found.extend(self.runs_of(workspace, experiment).await?);
        }
        found.retain(|of| {
            is_wanted(asked, "run_view_type", of.run.archived_at.is_some()) && filter.matches(of)
        });
        found.sort_by(|a, b| {
            let by_order = orders.iter().map(|order| order.compare(a, b)).find(|order| order.is_ne());
            // The latest first, when nothing else says it.
            let usual = || (b.run.started_at, &a.run.id).cmp(&(a.run.started_at, &b.run.id));
            by_order.unwrap_or(Ordering::Equal).then_with(usual)
        });
        let (page, next) = page(&found, asked.text_if("page_token"), limit)?;
        let shown: Vec<Value> = page.iter().map(shown).collect();
        Ok(json!({ "runs": shown, "next_page_token": next }))
    }
}
