//! The item of the alert rules and webhooks of a workspace: an attribute for each, so that a record of the trail says which changed.

use std::collections::BTreeMap;

use event::{Error, Id, Result, Timestamp};
use log::key;
use table::{Item, item::Value};

use super::{AlertRule, Webhook};

/// Version of the item, and of the text of a rule in it.
const ITEM_VERSION: i64 = 1;

/// What the attributes of rules begin with; the name follows.
const RULE: &str = "rule#";

/// What those of webhooks begin with.
const WEBHOOK: &str = "webhook#";

/// Says that a rule was deleted; the trail does not tell it.
const HAD_RULES: &str = "had_rules";

/// The alert rules and webhooks of a workspace as they are stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stored {
    /// Whether a rule was deleted: where it stood is forgotten by those who judge, so the workspace stays among the watched ones.
    pub(super) had_rules: bool,
    /// By name.
    pub(super) rules: BTreeMap<String, AlertRule>,
    /// By name.
    pub(super) webhooks: BTreeMap<String, Webhook>,
}

impl Stored {
    pub(super) fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let had_rules = item.attributes.contains_key(HAD_RULES);
        let mut stored = Self { had_rules, ..Self::default() };
        for (name, value) in &item.attributes {
            if let Some(of) = name.strip_prefix(RULE) {
                let rule = rule_of(value).ok_or_else(|| item.corrupt(format_args!("`{name}` is none")))?;
                stored.rules.insert(of.to_owned(), rule);
            } else if let Some(of) = name.strip_prefix(WEBHOOK) {
                let Value::S(body) = value else {
                    return Err(item.corrupt(format_args!("`{name}` is no text")));
                };
                let webhook = serde_json::from_str(body);
                let webhook = webhook.map_err(|error| item.corrupt(format_args!("`{name}`: {error}")))?;
                stored.webhooks.insert(of.to_owned(), webhook);
            }
        }
        Ok(stored)
    }

    pub(super) fn to_item(&self, workspace: &Id) -> Result<Item> {
        let item = Item::new(key::alert_rules(workspace)).with("v", ITEM_VERSION);
        let (pk, sk) = key::alert_rules_index(workspace);
        // What is to be judged, forgotten or told.
        let has_digest = self.webhooks.values().any(|webhook| webhook.digest.is_some());
        let item = match self.rules.is_empty() && !has_digest && !self.had_rules {
            true => item,
            false => item.with("GSI1PK", pk).with("GSI1SK", sk),
        };
        let item = if self.had_rules { item.with(HAD_RULES, 1) } else { item };
        let wrong = |error: serde_json::Error| Error::invalid(error.to_string());
        let item = self.webhooks.iter().try_fold(item, |item, (name, webhook)| {
            let body = serde_json::to_string(webhook).map_err(wrong)?;
            Ok::<_, Error>(item.with(&format!("{WEBHOOK}{name}"), body))
        })?;
        self.rules.iter().try_fold(item, |item, (name, rule)| {
            let body = serde_json::to_string(&rule.body).map_err(wrong)?;
            let fields = [
                ("created_at".to_owned(), Value::from(rule.created_at.micros())),
                ("rule".to_owned(), Value::from(body)),
            ];
            Ok(item.with(&format!("{RULE}{name}"), Value::M(fields.into())))
        })
    }
}

fn rule_of(value: &Value) -> Option<AlertRule> {
    let Value::M(fields) = value else { return None };
    let (Some(Value::S(body)), Some(Value::N(created_at))) = (fields.get("rule"), fields.get("created_at"))
    else {
        return None;
    };
    let created_at = Timestamp::from_micros(created_at.as_i64()?)?;
    AlertRule::of(serde_json::from_str(body).ok()?, created_at).ok()
}
