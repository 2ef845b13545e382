//! Promotion gates: whether a release may go live, judged before the event that makes it so is stored.
//!
//! Every event that makes a release live comes by here: what a request to promote or to roll back appends, and release
//! events that are posted or imported. A gate is not asked where it has nothing to decide: the release is live already, the
//! event is one that is recorded, or it puts back a release that was live in the environment before.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{
    Action, Effect, Evidence, FailedGate, Measured, Override, PromotionGates, ReleaseChange, SECOND_PERSON,
    ToMeasure, Workspace, WorkspacePage,
};
use event::{Error, Id, Kind, Result, Timestamp};

use crate::{
    Ingest, SubmitError,
    batch::{Batch, RowIssue},
    limits::{MAX_GATED, MAX_NOTE_BYTES},
};

/// State of the promotion gates of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gates {
    /// They are asked.
    Ask,
    /// They were.
    Asked,
}

/// Checks the reason for which gates are overridden, where there is one.
pub(crate) fn check_reason(overridden: Option<Override<'_>>) -> Result<(), Error> {
    match overridden.map(|of| of.reason.trim().len()) {
        Some(0) => Err(Error::invalid("override: say why the gates are overridden")),
        Some(bytes) if bytes > MAX_NOTE_BYTES => Err(Error::invalid(format!(
            "override: the reason has {bytes} bytes; at most {MAX_NOTE_BYTES} are taken"
        ))),
        _ => Ok(()),
    }
}

impl Ingest {
    /// Asks the gates of a release that is to be live, and records a refusal, or that somebody overrode it for a reason.
    pub(crate) async fn pass_gates(
        &self,
        workspace: &Workspace,
        page: &WorkspacePage,
        change: &ReleaseChange,
        overridden: Option<Override<'_>>,
    ) -> Result<(), SubmitError> {
        let (id, release) = (workspace.id(), change.release.as_str());
        let failed = self.failed_gates(id, page, change).await?;
        if failed.is_empty() {
            return Ok(());
        }
        let environment = change.environment.as_deref().unwrap_or_default();
        let lacks_second = failed.iter().any(|gate| gate.gate == SECOND_PERSON);
        let passed = overridden.filter(|of| of.is_by_admin || !lacks_second);
        self.catalog().note_promotion(id, (release, environment), &failed, passed).await?;
        match (passed, overridden) {
            (Some(_), _) => Ok(()),
            (None, of) => {
                let why = told(&failed);
                let but = of.map_or("", |_| "; only an administrator overrides the gate of a second person");
                Err(Error::conflict(format!("`{release}` may not be live in {environment}: {why}{but}"))
                    .into())
            }
        }
    }

    /// The rows whose events would make a release live that does not pass its gates, but for those that are wrong anyway.
    pub(crate) async fn gated_rows(
        &self,
        workspace: &Id,
        page: &WorkspacePage,
        batch: &Batch,
        wrong: &[RowIssue],
    ) -> Result<Vec<RowIssue>> {
        if batch.kind != Kind::Releases || page.models.iter().all(|model| model.gates.is_none()) {
            return Ok(Vec::new());
        }
        let wrong: BTreeSet<usize> = wrong.iter().map(|(row, ..)| *row).collect();
        let (mut asked, mut issues) = (BTreeMap::<ReleaseChange, Option<String>>::new(), Vec::new());
        for (row, change) in ReleaseChange::of(&batch.columns)?.into_iter().enumerate() {
            if gates_of(page, &change).is_none() || wrong.contains(&row) {
                continue;
            }
            let why = match asked.get(&change) {
                Some(known) => known.clone(),
                None if asked.len() == MAX_GATED => {
                    Some(format!("is one of more than {MAX_GATED} that gates judge; send fewer at once"))
                }
                None => {
                    let why = self.refused(workspace, page, &change).await?;
                    asked.insert(change, why.clone());
                    why
                }
            };
            issues.extend(why.map(|why| (row, "release", why)));
        }
        Ok(issues)
    }

    /// Records the refusal of an event, and returns its reason.
    async fn refused(
        &self,
        workspace: &Id,
        page: &WorkspacePage,
        change: &ReleaseChange,
    ) -> Result<Option<String>> {
        let failed = self.failed_gates(workspace, page, change).await?;
        if failed.is_empty() {
            return Ok(None);
        }
        let environment = change.environment.as_deref().unwrap_or_default();
        self.catalog().note_promotion(workspace, (&change.release, environment), &failed, None).await?;
        let why = told(&failed);
        Ok(Some(format!(
            "may not be live in {environment}: {why}; a promotion may override that, an event may not"
        )))
    }

    /// The gates that a release does not pass which an event would make live.
    async fn failed_gates(
        &self,
        workspace: &Id,
        page: &WorkspacePage,
        change: &ReleaseChange,
    ) -> Result<Vec<FailedGate>> {
        let Some((gates, environment)) = gates_of(page, change) else { return Ok(Vec::new()) };
        let now = self.clock().now();
        let (release, model) = (change.release.as_str(), change.model.as_str());
        let live = self.catalog().live_at(workspace, environment, now).await?.remove(model);
        let champion = live.map(|live| live.release);
        if champion.as_deref() == Some(release) || self.catalog().is_recorded(workspace, change).await? {
            return Ok(Vec::new());
        }
        let is_back = change.action == Action::Rollback
            && self.catalog().was_live(workspace, environment, (model, release)).await?;
        if is_back {
            return Ok(Vec::new());
        }
        let measured = self.measured(workspace, gates, (release, champion.as_deref()), now).await?;
        let known = page.releases.iter().find(|known| known.entity.name == release && known.model == model);
        let author = log::audit::current();
        let evidence = Evidence {
            environment,
            window: gates.window(now)?,
            measured,
            champion: champion.as_deref(),
            requester: &author.principal,
            created_by: known.map(|known| &*known.created_by),
            approvals: known.map(|known| known.approvals.as_slice()).unwrap_or_default(),
        };
        Ok(gates.judge(&evidence))
    }

    /// Reads the metrics that gates need.
    async fn measured(
        &self,
        workspace: &Id,
        gates: &PromotionGates,
        (release, champion): (&str, Option<&str>),
        now: Timestamp,
    ) -> Result<Measured> {
        if !gates.need_metrics() {
            return Ok(Measured::default());
        }
        let reader = self.reader.as_ref().ok_or_else(|| {
            Error::conflict(format!(
                "`{release}` may not be live: this service reads no metrics, which its gates ask for"
            ))
        })?;
        let of = ToMeasure {
            window: gates.window(now)?,
            release: release.to_owned(),
            champion: champion.map(str::to_owned),
            metric: gates.champion.as_ref().map(|of| of.metric.metric.clone()),
            is_of_completeness: gates.completeness.is_some(),
        };
        reader.measure(workspace, &of).await
    }
}

/// The gates of an event that makes a release live, and where it does. They are those of the model that the release is of,
/// whatever the event says; one that its batch registers is of the model that it names.
fn gates_of<'a>(page: &'a WorkspacePage, change: &'a ReleaseChange) -> Option<(&'a PromotionGates, &'a str)> {
    let environment = change.environment.as_deref()?;
    let release = page.releases.iter().find(|known| known.entity.name == change.release);
    let mut models = page.models.iter();
    let model = models.find(|model| match release {
        Some(release) => model.entity.id == release.model_id,
        None => model.entity.name == change.model,
    })?;
    let gates = model.gates.as_ref().filter(|gates| gates.hold_in(environment))?;
    (change.action.effect() == Effect::GoesLive).then_some((gates, environment))
}

fn told(failed: &[FailedGate]) -> String {
    let one = |failed: &FailedGate| format!("{}: {}", failed.gate, failed.reason);
    failed.iter().map(one).collect::<Vec<_>>().join("; ")
}
