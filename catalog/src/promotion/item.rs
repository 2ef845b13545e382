//! Gates in the item of their model, and approvals in that of their release.

use event::{Result, Timestamp};
use table::{Item, item::Value};

use super::{APPROVALS, Approval, GATES, PromotionGates};
use crate::attributes;

/// Adds the gates to the item of a model.
pub(crate) fn with_gates(item: Item, gates: Option<&PromotionGates>) -> Item {
    let body = gates.and_then(|gates| serde_json::to_value(gates.body()).ok());
    let fields = body.as_ref().and_then(|body| attributes::from_json(body.as_object()?).ok());
    match fields {
        Some(fields) => item.with(GATES, fields),
        None => item,
    }
}

/// Decodes the gates from the item of a model.
pub(crate) fn gates_of(item: &Item) -> Result<Option<PromotionGates>> {
    if !item.attributes.contains_key(GATES) {
        return Ok(None);
    }
    let wrong = |error: &dyn std::fmt::Display| item.corrupt(format_args!("`{GATES}`: {error}"));
    let body =
        serde_json::from_value(attributes::to_json(item.map(GATES)?)).map_err(|error| wrong(&error))?;
    PromotionGates::read(&body).map_err(|error| wrong(&error))
}

/// Adds the approvals to the item of a release.
pub(crate) fn with_approvals(item: Item, approvals: &[Approval]) -> Item {
    if approvals.is_empty() {
        return item;
    }
    let value = |approval: &Approval| {
        let mut fields = vec![
            ("environment".to_owned(), Value::from(approval.environment.as_str())),
            ("principal".to_owned(), Value::from(approval.principal.as_str())),
            ("at".to_owned(), Value::from(approval.at.micros())),
        ];
        fields.extend(approval.note.as_deref().map(|note| ("note".to_owned(), Value::from(note))));
        Value::M(fields.into_iter().collect())
    };
    item.with(APPROVALS, Value::L(approvals.iter().map(value).collect()))
}

/// Decodes the approvals from the item of a release.
pub(crate) fn approvals_of(item: &Item) -> Result<Vec<Approval>> {
    let Some(value) = item.attributes.get(APPROVALS) else { return Ok(Vec::new()) };
    let wrong = || item.corrupt(format_args!("`{APPROVALS}` is no list of approvals"));
    let of = |value: &Value| {
        let Value::M(fields) = value else { return None };
        let text = |name: &str| match fields.get(name) {
            Some(Value::S(text)) => Some(text.clone()),
            _ => None,
        };
        let Some(Value::N(at)) = fields.get("at") else { return None };
        Some(Approval {
            environment: text("environment")?,
            principal: text("principal")?,
            at: Timestamp::from_micros(at.as_i64()?)?,
            note: text("note"),
        })
    };
    match value {
        Value::L(values) => values.iter().map(|value| of(value).ok_or_else(wrong)).collect(),
        _ => Err(wrong()),
    }
}
