//! The alert rules and the webhooks of workspaces: reading, applying and deleting them.

use std::collections::BTreeMap;

use event::{Error, Id, Result, Timestamp, id::check_name};
use log::key::{self, EntityId, EntityKind};
use table::{Change, Index, Policy, Query, query_all, update};

use super::{AlertRule, AlertRuleBody, MAX_ALERT_RULES, MAX_WEBHOOKS, Scope, Webhook, item::Stored};
use crate::Catalog;

/// Alert rules of a workspace, and the webhooks to which their crossings are posted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alerts {
    /// Rules, by name.
    pub rules: Vec<AlertRule>,
    /// Webhooks, by name.
    pub webhooks: Vec<Webhook>,
    /// Warnings about rules that were just applied; empty for rules that are read.
    pub warnings: Vec<String>,
}

impl Alerts {
    /// Webhooks to which a rule is posted.
    pub fn notified(&self, rule: &AlertRule) -> impl Iterator<Item = &Webhook> {
        self.webhooks.iter().filter(|webhook| rule.notifies(&webhook.name))
    }

    /// Finds the webhook of a name.
    pub fn webhook(&self, name: &str) -> Option<&Webhook> {
        self.webhooks.iter().find(|webhook| webhook.name == name)
    }
}

impl From<Stored> for Alerts {
    fn from(stored: Stored) -> Self {
        Self {
            rules: stored.rules.into_values().collect(),
            webhooks: stored.webhooks.into_values().collect(),
            warnings: Vec::new(),
        }
    }
}

impl Catalog {
    /// Reads the alert rules of a workspace, and its webhooks: one read.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn alerts(&self, workspace: &Id) -> Result<Alerts> {
        let stored = self.table.get(&key::alert_rules(workspace)).await?;
        Ok(stored.as_ref().map(Stored::from_item).transpose()?.unwrap_or_default().into())
    }

    /// Reads the alert rules of a workspace, by name: one read.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn alert_rules(&self, workspace: &Id) -> Result<Vec<AlertRule>> {
        Ok(self.alerts(workspace).await?.rules)
    }

    /// Reads the workspaces that have alert rules, had some, or have a webhook to which digests are posted: one query.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn watched_workspaces(&self) -> Result<Vec<Id>> {
        let all = Query::index(Index::Gsi1, key::ALERT_RULES).only(&["v"]);
        let all = query_all(&*self.table, all).await?;
        Ok(all.iter().filter_map(|item| key::parse_alert_rules(&item.key)).collect())
    }

    /// Reads the alert rule of a name.
    ///
    /// # Errors
    /// `NotFound`, when there is none; those of the table.
    pub async fn alert_rule(&self, workspace: &Id, name: &str) -> Result<AlertRule> {
        check_name(name)?;
        let found = self.alert_rules(workspace).await?.into_iter().find(|rule| rule.name() == name);
        found.ok_or_else(|| Error::not_found(format!("there is no alert rule `{name}` in this workspace")))
    }

    /// Creates or changes alert rules, all or none; others stay. Returns the applied rules.
    ///
    /// # Errors
    /// As [`Catalog::apply_alerts`].
    pub async fn apply_alert_rules(
        &self,
        workspace: &Id,
        bodies: Vec<AlertRuleBody>,
        now: Timestamp,
    ) -> Result<Vec<AlertRule>> {
        Ok(self.apply_alerts(workspace, bodies, Vec::new(), now).await?.rules)
    }

    /// Returns a rule with the days of its reference in the place of the reference's name. The days stay fixed from then on.
    ///
    /// # Errors
    /// As [`Catalog::reference_days`].
    pub async fn with_days(&self, workspace: &Id, body: AlertRuleBody) -> Result<AlertRuleBody> {
        let Some(word) = &body.reference else { return Ok(body) };
        let wrong = |error: Error| Error::new(error.kind(), format!("alert rule `{}`: {error}", body.name));
        let days = self.reference_days(workspace, word).await.map_err(wrong)?;
        Ok(AlertRuleBody { reference: Some(days), ..body })
    }

    /// Creates or changes alert rules and webhooks, all or none; others stay. Returns the applied ones, and warns of rules on a release or
    /// a model that is not there, since it may come later, and of webhooks at private addresses.
    ///
    /// # Errors
    /// As [`Catalog::with_days`]; `Invalid`, when one of them is not valid, a name comes twice, or a rule notifies a missing webhook; `Conflict`, when there
    /// would be more than [`MAX_ALERT_RULES`] or [`MAX_WEBHOOKS`]; those of the table.
    pub async fn apply_alerts(
        &self,
        workspace: &Id,
        bodies: Vec<AlertRuleBody>,
        webhooks: Vec<Webhook>,
        now: Timestamp,
    ) -> Result<Alerts> {
        let mut wanted = Stored::default();
        for body in bodies {
            let rule = AlertRule::of(self.with_days(workspace, body).await?, now)?;
            if let Some(twice) = wanted.rules.insert(rule.name().to_owned(), rule) {
                return Err(Error::invalid(format!("alert rule `{}` is given twice", twice.name())));
            }
        }
        for webhook in webhooks {
            webhook.check()?;
            if let Some(twice) = wanted.webhooks.insert(webhook.name.clone(), webhook) {
                return Err(Error::invalid(format!("webhook `{}` is given twice", twice.name)));
            }
        }
        let warnings = self.warnings_of(workspace, &wanted).await?;
        self.change_alerts(workspace, |stored| {
            for (name, rule) in &wanted.rules {
                let created_at = stored.rules.get(name).map_or(now, |known| known.created_at);
                stored.rules.insert(name.clone(), AlertRule { created_at, ..rule.clone() });
            }
            stored.webhooks.extend(wanted.webhooks.clone());
            check_counts(stored)?;
            check_notified(stored)?;
            let rules = stored.rules.values().filter(|rule| wanted.rules.contains_key(rule.name()));
            Ok(Alerts {
                rules: rules.cloned().collect(),
                webhooks: wanted.webhooks.values().cloned().collect(),
                warnings: warnings.clone(),
            })
        })
        .await
    }

    /// Warns of rules on a release or a model that the workspace does not have: a read for each rule that names one.
    async fn warnings_of(&self, workspace: &Id, wanted: &Stored) -> Result<Vec<String>> {
        let parent = EntityId::Workspace(workspace.clone());
        let mut warnings = Vec::new();
        for rule in wanted.rules.values() {
            let (kind, name) = match &rule.scope {
                Scope::Workspace => continue,
                Scope::Release(release) => (EntityKind::Release, release),
                Scope::Live { model, .. } => (EntityKind::Model, model),
            };
            if self.id_named(Some(&parent), kind, name).await?.is_none() {
                warnings.push(format!(
                    "alert rule `{}`: there is no {kind} `{name}` in this workspace yet",
                    rule.name()
                ));
            }
        }
        for webhook in wanted.webhooks.values().filter(|webhook| webhook.is_private()) {
            warnings.push(format!(
                "webhook `{}`: nothing is posted over http:// or to a private address, unless the projector was started with --webhooks-to-private",
                webhook.name
            ));
        }
        Ok(warnings)
    }

    /// Deletes an alert rule. If it fires, the next worker that judges rules sends the end of the alert to all who were notified.
    ///
    /// # Errors
    /// `NotFound`, when there is none; those of the table.
    pub async fn delete_alert_rule(&self, workspace: &Id, name: &str) -> Result<()> {
        check_name(name)?;
        let missing = || Error::not_found(format!("there is no alert rule `{name}` in this workspace"));
        self.change_alerts(workspace, |stored| {
            stored.rules.remove(name).ok_or_else(missing)?;
            stored.had_rules = true;
            Ok(())
        })
        .await
    }

    /// Deletes a webhook. Deliveries still due to it are given up.
    ///
    /// # Errors
    /// `NotFound`, when there is none; `Conflict`, while a rule notifies it by its name; those of the table.
    pub async fn delete_webhook(&self, workspace: &Id, name: &str) -> Result<()> {
        check_name(name)?;
        let missing = || Error::not_found(format!("there is no webhook `{name}` in this workspace"));
        self.change_alerts(workspace, |stored| {
            stored.webhooks.remove(name).ok_or_else(missing)?;
            check_notified(stored).map_err(|error| Error::conflict(error.to_string()))
        })
        .await
    }

    async fn change_alerts<T>(&self, workspace: &Id, change: impl Fn(&mut Stored) -> Result<T>) -> Result<T> {
        let key = key::alert_rules(workspace);
        update(&*self.table, &key, Policy::of(&"the alert rules"), async |item| {
            let known = item.as_ref().map(Stored::from_item).transpose()?.unwrap_or_default();
            let mut stored = known.clone();
            let made = change(&mut stored)?;
            Ok(match stored == known {
                true => Change::Leave(made),
                false => Change::Put(stored.to_item(workspace)?, made),
            })
        })
        .await
    }
}

/// Refuses more rules or webhooks than an item may hold.
fn check_counts(stored: &Stored) -> Result<()> {
    let counts = [
        (stored.rules.len(), MAX_ALERT_RULES, "alert rules"),
        (stored.webhooks.len(), MAX_WEBHOOKS, "webhooks"),
    ];
    match counts.into_iter().find(|(count, most, _)| count > most) {
        None => Ok(()),
        Some((count, most, what)) => Err(Error::conflict(format!(
            "the workspace would have {count} {what}, and may have {most}; delete some"
        ))),
    }
}

/// Refuses rules that notify a missing webhook.
fn check_notified(stored: &Stored) -> Result<()> {
    let named: BTreeMap<&str, &str> = stored
        .rules
        .values()
        .flat_map(|rule| rule.body.notify.iter().flatten().map(|webhook| (webhook.as_str(), rule.name())))
        .collect();
    match named.into_iter().find(|(webhook, _)| !stored.webhooks.contains_key(*webhook)) {
        None => Ok(()),
        Some((webhook, rule)) => Err(Error::invalid(format!(
            "alert rule `{rule}` notifies the webhook `{webhook}`, and there would be none of that name"
        ))),
    }
}
