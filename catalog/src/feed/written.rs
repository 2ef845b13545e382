//! Writing happenings: of a release, of an alert, or of a decided comparison.

use event::{Id, Result, Timestamp};
use log::key::{self, EntityId, EntityKind};
use table::{Condition, Item, Table, unless_overtaken};

use super::{ALERT, Alert, DECIDED, ITEM_VERSION};
use crate::{Decision, live::ReleaseChange};

/// Records a happening of a release.
pub(crate) async fn note_release(table: &dyn Table, workspace: &Id, change: &ReleaseChange) -> Result<()> {
    let environment = change.environment.as_deref().unwrap_or_default();
    let key = key::happening(workspace, change.at, change.action.name(), &change.release, environment);
    note(table, workspace, change.to_item(key), Some(&change.model)).await
}

async fn note(table: &dyn Table, workspace: &Id, item: Item, model: Option<&str>) -> Result<()> {
    let item = placed(table, workspace, item, model).await?;
    unless_overtaken(table.put(item, Condition::Absent).await).map(drop)
}

/// Adds to the item of a happening its place among those of its model, if that exists.
async fn placed(table: &dyn Table, workspace: &Id, item: Item, model: Option<&str>) -> Result<Item> {
    let id = match model {
        Some(model) => model_id(table, workspace, model).await?,
        None => None,
    };
    Ok(match id {
        Some(id) => {
            let sk = item.key.sk.clone();
            item.with("GSI1PK", key::happenings_of_model(&id).pk).with("GSI1SK", sk)
        }
        None => item,
    })
}

/// Item of an alert, for the followers of the workspace or the model.
///
/// # Errors
/// Errors of the table.
pub async fn alert_item(table: &dyn Table, workspace: &Id, alert: &Alert) -> Result<Item> {
    let item = Item::new(key::happening(workspace, alert.at, ALERT, &alert.name, ""))
        .with("v", ITEM_VERSION)
        .with("at", alert.at.micros())
        .with("what", ALERT)
        .with("about", alert.name.as_str())
        .with("note", alert.text.as_str());
    let item = match &alert.model {
        Some(model) => item.with("model", model.as_str()),
        None => item,
    };
    placed(table, workspace, item, alert.model.as_deref()).await
}

/// Reads the model of an alert of an instant; `None`, when it has none, or there is no such alert.
///
/// # Errors
/// Errors of the table.
pub async fn model_of_alert(
    table: &dyn Table,
    workspace: &Id,
    at: Timestamp,
    name: &str,
) -> Result<Option<String>> {
    let item = table.get(&key::happening(workspace, at, ALERT, name, "")).await?;
    Ok(item.and_then(|item| item.optional_text("model").map(str::to_owned)))
}

/// Item of a decided comparison, for the followers of the workspace or the model.
///
/// # Errors
/// Errors of the table.
pub async fn decision_item(table: &dyn Table, workspace: &Id, decision: &Decision) -> Result<Item> {
    let Decision { at, model, challenger, environment, text } = decision;
    let item = Item::new(key::happening(workspace, *at, DECIDED, challenger, environment))
        .with("v", ITEM_VERSION)
        .with("at", at.micros())
        .with("what", DECIDED)
        .with("about", challenger.as_str())
        .with("model", model.as_str())
        .with("environment", environment.as_str())
        .with("note", text.as_str());
    placed(table, workspace, item, Some(model)).await
}

/// Reads the id of a model by its name.
pub(crate) async fn model_id(table: &dyn Table, workspace: &Id, name: &str) -> Result<Option<Id>> {
    let guard = key::guard(Some(&EntityId::Workspace(workspace.clone())), EntityKind::Model, name);
    let item = table.get(&guard).await?;
    item.map(|item| Id::parse(item.text("id")?)).transpose()
}
