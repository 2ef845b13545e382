//! The alert rules and the webhooks of workspaces: reading, applying and deleting them.

use std::collections::BTreeMap;

use event::{Error, Id, Result, Timestamp, id::check_name};
use log::key::{self, EntityId, EntityKind};
use serde::{Deserialize, Serialize};
use table::{Change, Index, Item, Policy, Query, item::Value, query_all, update};

use super::{AlertRule, AlertRuleBody, Scope, Webhook};
use crate::Catalog;

/// Maximum alert rules of a workspace.
pub const MAX_ALERT_RULES: usize = 64;

/// Maximum webhooks of a workspace.
pub const MAX_WEBHOOKS: usize = 8;

/// Version of the item.
const ITEM_VERSION: i64 = 1;

/// Prefixes of the attributes of rules and of webhooks, one attribute each, so that the audit log shows which changed.
const RULE: &str = "rule#";
const WEBHOOK: &str = "webhook#";

/// Attribute of workspaces with a deleted rule, whose state the evaluating worker deletes.
const HAD_RULES: &str = "had_rules";

/// Alert rules of a workspace, and the webhooks that get their transitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alerts {
    /// Rules, by name.
    pub rules: Vec<AlertRule>,
    /// Webhooks, by name.
    pub webhooks: Vec<Webhook>,
    /// Warnings about rules that were just applied; empty for rules that are read.
    pub warnings: Vec<String>,
}

/// Alert rules and webhooks as they are stored, by name.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stored {
    had_rules: bool,
    rules: BTreeMap<String, AlertRule>,
    webhooks: BTreeMap<String, Webhook>,
}

#[derive(Serialize, Deserialize)]
struct StoredRule {
    created_at: Timestamp,
    rule: AlertRuleBody,
}

impl Stored {
    fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let mut stored = Self { had_rules: item.attributes.contains_key(HAD_RULES), ..Self::default() };
        for (name, value) in &item.attributes {
            let wrong = |error| item.corrupt(format_args!("`{name}`: {error}"));
            if let Some(of) = name.strip_prefix(RULE) {
                let StoredRule { created_at, rule } = value.to_record().map_err(wrong)?;
                stored.rules.insert(of.to_owned(), AlertRule::of(rule, created_at)?);
            } else if let Some(of) = name.strip_prefix(WEBHOOK) {
                stored.webhooks.insert(of.to_owned(), value.to_record().map_err(wrong)?);
            }
        }
        Ok(stored)
    }

    fn to_item(&self, workspace: &Id) -> Item {
        let mut item = Item::new(key::alert_rules(workspace)).with("v", ITEM_VERSION);
        if self.had_rules {
            item = item.with(HAD_RULES, 1);
        }
        for (name, rule) in &self.rules {
            let stored = StoredRule { created_at: rule.created_at, rule: rule.body.clone() };
            item = item.with(&format!("{RULE}{name}"), Value::record(&stored));
        }
        for (name, webhook) in &self.webhooks {
            item = item.with(&format!("{WEBHOOK}{name}"), Value::record(webhook));
        }
        // Indexed where something is to be judged, forgotten or told.
        let has_digest = self.webhooks.values().any(|webhook| webhook.digest.is_some());
        if self.rules.is_empty() && !has_digest && !self.had_rules {
            return item;
        }
        let (pk, sk) = key::alert_rules_index(workspace);
        item.with("GSI1PK", pk).with("GSI1SK", sk)
    }

    /// Refuses more rules or webhooks than an item may hold, and rules that notify a missing webhook.
    fn check(&self) -> Result<()> {
        for (count, most, what) in [
            (self.rules.len(), MAX_ALERT_RULES, "alert rules"),
            (self.webhooks.len(), MAX_WEBHOOKS, "webhooks"),
        ] {
            if count > most {
                return Err(Error::conflict(format!(
                    "the workspace would have {count} {what}, and may have {most}; delete some"
                )));
            }
        }
        for rule in self.rules.values() {
            let mut named = rule.body.notify.iter().flatten();
            if let Some(webhook) = named.find(|webhook| !self.webhooks.contains_key(*webhook)) {
                return Err(Error::invalid(format!(
                    "alert rule `{}` notifies the webhook `{webhook}`, and there would be none of that name",
                    rule.name()
                )));
            }
        }
        Ok(())
    }
}

/// Inserts a rule or webhook; refuses a second one of its name.
fn insert<T>(into: &mut BTreeMap<String, T>, what: &str, name: String, one: T) -> Result<()> {
    let twice = format!("{what} `{name}` is given twice");
    into.insert(name, one).map_or(Ok(()), |_| Err(Error::invalid(twice)))
}

impl Catalog {
    async fn stored_alerts(&self, workspace: &Id) -> Result<Stored> {
        let stored = self.table.get(&key::alert_rules(workspace)).await?;
        Ok(stored.as_ref().map(Stored::from_item).transpose()?.unwrap_or_default())
    }

    /// Reads the alert rules of a workspace, and its webhooks: one read.
    ///
    /// # Errors
    /// Errors of the table, and `Corrupt`.
    pub async fn alerts(&self, workspace: &Id) -> Result<Alerts> {
        let Stored { rules, webhooks, .. } = self.stored_alerts(workspace).await?;
        let (rules, webhooks) = (rules.into_values().collect(), webhooks.into_values().collect());
        Ok(Alerts { rules, webhooks, warnings: Vec::new() })
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
        self.stored_alerts(workspace).await?.rules.remove(name).ok_or_else(|| missing("alert rule", name))
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
    pub async fn with_days(&self, workspace: &Id, mut body: AlertRuleBody) -> Result<AlertRuleBody> {
        if let Some(word) = &body.reference {
            let wrong =
                |error: Error| Error::new(error.kind(), format!("alert rule `{}`: {error}", body.name));
            body.reference = Some(self.reference_days(workspace, word).await.map_err(wrong)?);
        }
        Ok(body)
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
            insert(&mut wanted.rules, "alert rule", rule.name().to_owned(), rule)?;
        }
        for webhook in webhooks {
            webhook.check()?;
            insert(&mut wanted.webhooks, "webhook", webhook.name.clone(), webhook)?;
        }
        let warnings = self.warnings_of(workspace, &wanted).await?;
        self.change_alerts(workspace, |stored| {
            let mut rules = wanted.rules.clone();
            for (name, rule) in &mut rules {
                rule.created_at = stored.rules.get(name).map_or(now, |known| known.created_at);
            }
            stored.rules.extend(rules.clone());
            stored.webhooks.extend(wanted.webhooks.clone());
            stored.check()?;
            let webhooks = wanted.webhooks.values().cloned().collect();
            Ok(Alerts { rules: rules.into_values().collect(), webhooks, warnings: warnings.clone() })
        })
        .await
    }

    /// Warns of rules on a release or a model that the workspace does not have: a read for each rule that names one.
    async fn warnings_of(&self, workspace: &Id, wanted: &Stored) -> Result<Vec<String>> {
        let parent = EntityId::Workspace(workspace.clone());
        let mut warnings = Vec::new();
        for (rule, AlertRule { scope, .. }) in &wanted.rules {
            let (kind, name) = match scope {
                Scope::Workspace => continue,
                Scope::Release(release) => (EntityKind::Release, release),
                Scope::Live { model, .. } => (EntityKind::Model, model),
            };
            if self.id_named(Some(&parent), kind, name).await?.is_none() {
                warnings
                    .push(format!("alert rule `{rule}`: there is no {kind} `{name}` in this workspace yet"));
            }
        }
        for (name, _) in wanted.webhooks.iter().filter(|(_, webhook)| webhook.is_private()) {
            warnings.push(format!(
                "webhook `{name}`: nothing is posted over http:// or to a private address, unless the projector was started with --webhooks-to-private"
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
        self.change_alerts(workspace, |stored| {
            stored.had_rules = true;
            stored.rules.remove(name).map(drop).ok_or_else(|| missing("alert rule", name))
        })
        .await
    }

    /// Deletes a webhook. Deliveries still due to it are given up.
    ///
    /// # Errors
    /// `NotFound`, when there is none; `Conflict`, while a rule notifies it by its name; those of the table.
    pub async fn delete_webhook(&self, workspace: &Id, name: &str) -> Result<()> {
        check_name(name)?;
        self.change_alerts(workspace, |stored| {
            stored.webhooks.remove(name).ok_or_else(|| missing("webhook", name))?;
            stored.check().map_err(|error| Error::conflict(error.to_string()))
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
                false => Change::Put(stored.to_item(workspace), made),
            })
        })
        .await
    }
}

fn missing(what: &str, name: &str) -> Error {
    Error::not_found(format!("there is no {what} `{name}` in this workspace"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_webhooks_are_read_as_written() {
        let workspace = Id::parse("2NBs0sLBnJxEcoDLgVnQdJkhEgV").unwrap();
        let few = AlertRuleBody {
            name: "few".into(),
            count: Some("predictions".into()),
            below: Some(5.0),
            notify: Some(vec!["chat".into()]),
            ..AlertRuleBody::default()
        };
        let at = Timestamp::from_micros(1_781_049_600_000_001).unwrap();
        let url = Some("https://a.example/".to_owned());
        let chat = Webhook { name: "chat".into(), url, digest: Some("07:00".into()), ..Webhook::default() };
        let mut stored = Stored { had_rules: true, ..Stored::default() };
        assert!(stored.to_item(&workspace).attributes.contains_key("GSI1PK"), "it is to be forgotten");
        stored.had_rules = false;
        assert!(!stored.to_item(&workspace).attributes.contains_key("GSI1PK"));
        stored.webhooks.insert("chat".into(), chat);
        assert!(stored.to_item(&workspace).attributes.contains_key("GSI1PK"), "a digest is to be told");
        stored.rules.insert("few".into(), AlertRule::of(few, at).unwrap());
        let item = stored.to_item(&workspace);
        assert_eq!(Stored::from_item(&item).unwrap(), stored);
        for wrong in ["rule#x", "webhook#x"] {
            assert!(Stored::from_item(&item.clone().with(wrong, "{}")).is_err());
        }
    }
}
