//! Changing promotion gates, approving releases, and records of promotions.

use event::{Error, Id, Result, Timestamp, id::check_name};
use log::{
    audit,
    key::{self, AuditLog, EntityId},
};
use table::{Policy, Query, Update, Write, unless_overtaken};

use super::{
    APPROVALS, Approval, FailedGate, GATES, MAX_APPROVAL_NOTE_BYTES, MAX_APPROVALS, Override, PromotionGates,
    SECOND_PERSON,
};
use crate::{AnyEntity, Catalog, ReleaseChange, change::update, live::state_of};

/// Maximum changes of an environment searched for a release that was live in it.
const MAX_LOOK_BACK: usize = 1_000;

/// Number of changes read at once.
const PAGE: usize = 100;

impl Catalog {
    /// Sets the gates of a model; removes them, when `gates` is `None`.
    ///
    /// # Errors
    /// `NotFound`; `Conflict`, when the gates ask for a second person and the caller is no administrator; those of the table.
    pub async fn set_promotion_gates(
        &self,
        at: &EntityId,
        gates: Option<&PromotionGates>,
        is_admin: bool,
        now: Timestamp,
    ) -> Result<()> {
        let change = |any: &mut AnyEntity| match any {
            AnyEntity::Model(model) => {
                let is_guarded = model.gates.as_ref().is_some_and(|gates| gates.second_person);
                if is_guarded && !is_admin && model.gates.as_ref() != gates {
                    return Err(Error::conflict(format!(
                        "{SECOND_PERSON}: the gates of `{}` ask for a second person, so only an administrator changes them",
                        model.entity.name
                    )));
                }
                model.gates = gates.cloned();
                Ok(())
            }
            _ => Err(Error::invalid(format!("`{at}` is no model"))),
        };
        self.change_own(at, (&[GATES], now), change).await.map(drop)
    }

    /// Records that the caller approves a release for an environment, or retracts the approval. A repeated approval replaces the
    /// one before. Returns all approvals of the release after that.
    ///
    /// # Errors
    /// `NotFound`; `Invalid`, when the environment is no name or the remark too long; `Conflict`, when it has [`MAX_APPROVALS`],
    /// or the approval to be retracted was not given; those of the table.
    pub async fn approve(
        &self,
        at: &EntityId,
        (environment, note): (&str, Option<&str>),
        is_retracted: bool,
        now: Timestamp,
    ) -> Result<Vec<Approval>> {
        check_name(environment)?;
        if note.is_some_and(|note| note.len() > MAX_APPROVAL_NOTE_BYTES) {
            let message = format!("note: an approval takes at most {MAX_APPROVAL_NOTE_BYTES} bytes");
            return Err(Error::invalid(message));
        }
        let principal = audit::current().principal.clone();
        let is_own = |of: &Approval| of.environment == environment && of.principal == principal;
        let change = |any: &mut AnyEntity| {
            let AnyEntity::Release(release) = any else {
                return Err(Error::invalid(format!("`{at}` is no release")));
            };
            let name = &release.entity.name;
            let known = release.approvals.iter().position(is_own);
            match (known, is_retracted) {
                (None, true) => {
                    return Err(Error::conflict(format!(
                        "{principal} has not approved `{name}` for {environment}"
                    )));
                }
                (None, false) if release.approvals.len() == MAX_APPROVALS => {
                    return Err(Error::conflict(format!(
                        "`{name}` has {MAX_APPROVALS} approvals, and no more are kept"
                    )));
                }
                (Some(known), _) => _ = release.approvals.remove(known),
                (None, false) => {}
            }
            if !is_retracted {
                let (environment, note) = (environment.to_owned(), note.map(str::to_owned));
                release.approvals.push(Approval { environment, principal: principal.clone(), at: now, note });
            }
            Ok(())
        };
        match self.change_own(at, (&[APPROVALS], now), change).await? {
            AnyEntity::Release(release) => Ok(release.approvals),
            _ => Ok(Vec::new()),
        }
    }

    /// Changes the named attributes of an entity by one conditional write.
    pub(crate) async fn change_own(
        &self,
        at: &EntityId,
        (attributes, now): (&[&str], Timestamp),
        change: impl Fn(&mut AnyEntity) -> Result<()>,
    ) -> Result<AnyEntity> {
        let mut tries = Policy::of(&"the entity").tries();
        loop {
            tries.next().await?;
            let before = self.get(at).await?;
            let mut after = before.clone();
            change(&mut after)?;
            if after == before {
                return Ok(after);
            }
            let entity = after.entity_mut();
            entity.version += 1;
            entity.updated_at = now;
            let write: Update = update(&before, &after, attributes);
            if unless_overtaken(self.table.transact(vec![Write::Update(write)]).await)?.is_some() {
                return Ok(after);
            }
        }
    }

    /// Records in the audit log that a release was not made live because of failed gates, or was made live in spite of them,
    /// with the reason.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn note_promotion(
        &self,
        workspace: &Id,
        (release, environment): (&str, &str),
        failed: &[FailedGate],
        overridden: Option<Override<'_>>,
    ) -> Result<()> {
        let overridden = overridden.map(|of| of.reason);
        let action = if overridden.is_some() { "promotion.override" } else { "promotion.refuse" };
        let said = serde_json::json!({
            "release": release, "environment": environment, "failed": failed, "override": overridden,
        });
        let (audit_log, author) = (AuditLog::Workspace(workspace.clone()), audit::current());
        audit::note(&*self.table, &audit_log, &author, (action, release), Some(said.to_string())).await
    }

    /// Returns whether a release event was recorded as a change of the live releases.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn is_recorded(&self, workspace: &Id, change: &ReleaseChange) -> Result<bool> {
        let Some(environment) = &change.environment else { return Ok(false) };
        let key = key::live_change(workspace, environment, change.at, change.action.name(), &change.release);
        Ok(self.table.get(&key).await?.is_some())
    }

    /// Returns whether a release of a model was live in an environment, according to the latest 1,000 changes.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn was_live(
        &self,
        workspace: &Id,
        environment: &str,
        (model, release): (&str, &str),
    ) -> Result<bool> {
        let mut query = Query::table(key::live_changes(workspace, environment)).backward().limit(PAGE);
        let mut seen = 0;
        loop {
            let page = self.table.query(&query).await?;
            for item in &page.items {
                if state_of(item)?.get(model).is_some_and(|live| live.release == release) {
                    return Ok(true);
                }
            }
            seen += page.items.len();
            match page.next {
                Some(next) if seen < MAX_LOOK_BACK => query.after = Some(next),
                _ => return Ok(false),
            }
        }
    }
}
