//! The item of the alert rules of a workspace: an attribute for each rule, so that a record of the trail says which changed.

use std::collections::BTreeMap;

use event::{Id, Result, Timestamp};
use log::key;
use table::{Item, item::Value};

use super::AlertRule;

/// Version of the item, and of the text of a rule in it.
const ITEM_VERSION: i64 = 1;

/// What the attributes of rules begin with; the name follows.
const PREFIX: &str = "rule#";

/// The alert rules of a workspace as they are stored.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// By name.
    pub(super) rules: BTreeMap<String, AlertRule>,
}

impl Stored {
    pub(super) fn from_item(item: &Item) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let named = |name: &String| name.strip_prefix(PREFIX).map(str::to_owned);
        let rules = item.attributes.iter().filter_map(|(name, value)| Some((named(name)?, value)));
        let rules = rules.map(|(name, value)| {
            let rule = rule_of(value).ok_or_else(|| item.corrupt(format_args!("rule `{name}` is none")))?;
            Ok((name, rule))
        });
        Ok(Self { rules: rules.collect::<Result<_>>()? })
    }

    pub(super) fn to_item(&self, workspace: &Id) -> Result<Item> {
        let item = Item::new(key::alert_rules(workspace)).with("v", ITEM_VERSION);
        let (pk, sk) = key::alert_rules_index(workspace);
        let item = match self.rules.is_empty() {
            true => item,
            false => item.with("GSI1PK", pk).with("GSI1SK", sk),
        };
        self.rules.iter().try_fold(item, |item, (name, rule)| {
            let body = serde_json::to_string(&rule.body)
                .map_err(|error| event::Error::invalid(format!("alert rule `{name}`: {error}")))?;
            let fields = [
                ("created_at".to_owned(), Value::from(rule.created_at.micros())),
                ("rule".to_owned(), Value::from(body)),
            ];
            Ok(item.with(&format!("{PREFIX}{name}"), Value::M(fields.into())))
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
