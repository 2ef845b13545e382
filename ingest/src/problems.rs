//! Faults of the events of a batch, for which it is not stored.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Action, Catalog, ReleaseSpec, Workspace};
use event::{Day, Error, ErrorKind, Id, Kind, RowProblem, Window};
use log::audit::current;

use crate::{
    batch::{Batch, RowIssue},
    defining,
    promotion::Gates,
    reviews::forged_votes,
    service::Ingest,
};

impl Ingest {
    /// Finds the faults of a batch, for every row, by its index in the batch: those for which [`Ingest::submit`] refuses it.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn problems(
        &self,
        workspace: &Workspace,
        batch: &Batch,
    ) -> Result<BTreeMap<usize, RowProblem>, Error> {
        self.problems_judged(workspace, batch, Gates::Ask).await
    }

    /// Finds the faults of a batch, with promotion gates that are still to be judged, or were.
    pub(crate) async fn problems_judged(
        &self,
        workspace: &Workspace,
        batch: &Batch,
        gates: Gates,
    ) -> Result<BTreeMap<usize, RowProblem>, Error> {
        let mut problems = self.problems_but_erased(workspace, batch, gates).await?;
        let erased = self.erased_keys(workspace.id(), batch).await?;
        problems.extend(erased.into_iter().map(|issue| problem_of(batch, issue)));
        Ok(problems)
    }

    /// Finds the faults of a batch without those of erased keys.
    pub(crate) async fn problems_but_erased(
        &self,
        workspace: &Workspace,
        batch: &Batch,
        gates: Gates,
    ) -> Result<BTreeMap<usize, RowProblem>, Error> {
        let issues = match batch.kind {
            Kind::Releases => self.release_problems(workspace.id(), batch, gates).await?,
            _ => {
                let mut issues = self.expired_days(workspace.id(), batch).await?;
                issues.extend(self.unknown_releases(workspace.id(), batch).await?);
                issues.extend(self.unknown_runs(workspace.id(), batch).await?);
                issues.extend(forged_votes(batch));
                issues
            }
        };
        let mut problems: BTreeMap<_, _> = issues.into_iter().map(|issue| problem_of(batch, issue)).collect();
        if let Some(at) = current().known_at() {
            let now = self.clock().now();
            problems.extend((0..batch.rows()).filter_map(|row| Some((row, batch.not_known(row, at, now)?))));
        }
        Ok(problems)
    }

    /// Finds the faults of release events: by row, the field and the message.
    async fn release_problems(
        &self,
        workspace: &Id,
        batch: &Batch,
        gates: Gates,
    ) -> Result<Vec<RowIssue>, Error> {
        let page = self.catalog().page(workspace).await?;
        let known = self.catalog().definitions(workspace).await?;
        let models =
            page.releases.iter().map(|release| (release.entity.name.as_str(), release.model.as_str()));
        let models: BTreeMap<&str, &str> = models.collect();
        let mut problems = Vec::new();
        let mut registered: BTreeMap<String, ReleaseSpec> = BTreeMap::new();
        for (row, spec) in specs(batch).into_iter().enumerate() {
            let name = spec.release.name.clone();
            // A release that the batch itself registers further up has the model given there.
            let model_by_batch = || registered.get(&name).map(|registered| registered.model.as_str());
            let model = models.get(name.as_str()).copied().or_else(model_by_batch);
            let problem = defining::problem(batch, row, spec.action);
            let is_define = spec.action == Some(Action::Define);
            problems.extend(
                problem.or_else(|| defining::misfit(batch, row, &name, &known).filter(|_| is_define)),
            );
            if spec.action != Some(Action::Register) {
                match model {
                    None => problems.push((row, "release", unknown_release(&name))),
                    Some(model) if model != spec.release.model => {
                        problems.push((row, "model", format!("is not that of `{name}`, which is `{model}`")));
                    }
                    Some(_) => {}
                }
                if spec.release.environment.is_none() && spec.action.is_none_or(Action::is_of_live) {
                    problems.push((row, "environment", "is missing; say where".to_owned()));
                }
                continue;
            }
            match (Catalog::check_release(&page, &spec.release), registered.get(&name)) {
                (Err(error), _) if error.kind() == ErrorKind::NotFound => {
                    problems.push((row, "model", error.to_string()))
                }
                (Err(error), _) => problems.push((row, "release", error.to_string())),
                (Ok(()), Some(other)) if *other != spec.release => {
                    problems.push((row, "release", format!("`{name}` is registered differently further up")));
                }
                (Ok(()), _) => {
                    problems.extend(defining::differs(batch, row, &page, &known, &spec.release));
                    registered.insert(name, spec.release);
                }
            }
        }
        if gates == Gates::Ask {
            let gated = self.gated_rows(workspace, &page, batch, &problems).await?;
            problems.extend(gated);
        }
        Ok(problems)
    }

    /// Finds the rows of days whose events have expired.
    async fn expired_days(&self, workspace: &Id, batch: &Batch) -> Result<Vec<RowIssue>, Error> {
        let now = self.clock().now();
        let reading = self.catalog().keeping(workspace);
        let keeping = self.known_keeping().get(workspace.clone(), now, reading).await?;
        let (Some(from), Some(to)) = (batch.days.iter().min(), batch.days.iter().max()) else {
            return Ok(Vec::new());
        };
        if keeping.is_young(*from, now) {
            return Ok(Vec::new());
        }
        let kept = self.catalog().kept(workspace, Window::new(*from, *to)?, now).await?;
        let field = match batch.kind {
            // The day of an outcome is that of the prediction.
            Kind::Outcomes => "predicted_at",
            kind => kind.time_field(),
        };
        let issue = |(row, day): (usize, &Day)| {
            let message = || format!("is of {day}, whose events have expired in this workspace");
            (!kept.keeps(*day)).then(|| (row, field, message()))
        };
        Ok(batch.days.iter().enumerate().filter_map(issue).collect())
    }

    /// Finds the rows that name a missing run.
    async fn unknown_runs(&self, workspace: &Id, batch: &Batch) -> Result<Vec<RowIssue>, Error> {
        let Some(column) = batch.columns.column("run") else { return Ok(Vec::new()) };
        let mut unknown = BTreeSet::new();
        for name in column.counts().into_keys() {
            let Ok(run) = Id::parse(name) else { continue };
            let reading = async { self.catalog().run(workspace, &run).await.map(drop) };
            match self.known_runs().get((workspace.clone(), run.clone()), self.clock().now(), reading).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => _ = unknown.insert(name),
                Err(error) => return Err(error),
            }
        }
        let issue = |row| {
            let name = column.text(row).filter(|name| unknown.contains(name))?;
            Some((row, "run", format!("`{name}` is no run of this workspace; create it first")))
        };
        Ok(if unknown.is_empty() { Vec::new() } else { (0..batch.rows()).filter_map(issue).collect() })
    }
}

fn problem_of(batch: &Batch, (row, field, message): RowIssue) -> (usize, RowProblem) {
    (row, RowProblem { row: batch.numbers[row], field: Some(field.into()), message })
}

/// Change made by a release event.
pub(crate) struct Change {
    pub(crate) action: Option<Action>,
    pub(crate) release: ReleaseSpec,
}

/// Changes made by the release events of a batch, by row.
pub(crate) fn specs(batch: &Batch) -> Vec<Change> {
    let text = |name: &str, row| batch.columns.column(name)?.text(row).map(str::to_owned);
    let change = |row| Change {
        action: text("action", row).as_deref().and_then(Action::from_name),
        release: ReleaseSpec {
            name: text("release", row).unwrap_or_default(),
            model: text("model", row).unwrap_or_default(),
            configuration: text("configuration", row),
            environment: text("environment", row),
        },
    };
    (0..batch.rows()).map(change).collect()
}

fn unknown_release(name: &str) -> String {
    format!("`{name}` is no release of this workspace; register it first")
}
