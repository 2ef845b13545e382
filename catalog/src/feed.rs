//! Activity feeds: new releases, promotions, alerts; and the entries that users have seen.
//!
//! Each activity is an item of its workspace, by time, and in `GSI1` of its model. A feed is computed at reading: it
//! merges the latest activities of the followed workspaces and models. So an activity costs one write for any number of
//! followers, and a feed two reads plus one for each follow.

use std::collections::{BTreeMap, BTreeSet};

use event::{Error, Id, Result, Timestamp, id::check_name};
use futures::future::try_join_all;
use log::key::{self, EntityId, EntityKind, Followed};
use serde::{Serialize, Serializer};
use serde_json::json;
use table::{
    Condition, Cursor, Index, Item, Key, Pages, Query, Table, item::Value, query_all, unless_overtaken,
};
use utoipa::ToSchema;

use super::{Action, Catalog, Decision, Release, Sight, live::ReleaseChange};

/// Number of latest activities that a feed reads of each followed workspace or model.
const FEED_LOOK_BACK: usize = 100;

/// Maximum entries of a feed, and of a page of a history.
pub const MAX_ENTRIES: usize = 1_000;

/// Maximum activities marked as seen in one call.
pub const MAX_MARKS: usize = 100;

/// Maximum bytes of the text of an alert.
pub const MAX_ALERT_BYTES: usize = 1_000;

/// Time for which a seen mark is kept, in seconds.
const SEEN_SECONDS: i64 = 400 * 24 * 60 * 60;

/// Name of the activity of alerts.
pub const ALERT: &str = "alert";

/// Name of the activity of decided comparisons with a live release.
pub const DECIDED: &str = "decided";

const ITEM_VERSION: i64 = 1;
const READS_AT_ONCE: usize = 16;

/// Happening of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Happening {
    /// Time of the happening.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Name by which it is marked as seen.
    #[serde(rename = "entry")]
    #[schema(pattern = "^[0-9A-Za-z]{27}:[!-\"$-}]{0,512}$")]
    pub name: String,
    /// The workspace.
    #[serde(serialize_with = "workspace_id")]
    #[schema(schema_with = crate::http::id_schema)]
    pub workspace: Id,
    /// Name of an [`Action`](super::Action), [`ALERT`] or [`DECIDED`].
    #[schema(schema_with = crate::http::what_schema)]
    pub what: String,
    /// The release, or the alert.
    pub about: String,
    /// Name of the model.
    #[schema(required)]
    pub model: Option<String>,
    /// The environment.
    #[schema(required)]
    pub environment: Option<String>,
    /// A remark, or the text of an alert or of what is decided; such a text, which is made of events of any kind, is not for a token
    /// for some kinds alone.
    #[schema(required)]
    pub note: Option<String>,
}

fn workspace_id<S: Serializer>(workspace: &Id, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&EntityId::Workspace(workspace.clone()))
}

/// Message to people about a workspace, or about one of its models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Time at which it was raised.
    pub at: Timestamp,
    /// Name, such as `drift`. The same name at the same instant is the same alert.
    pub name: String,
    /// Model of the alert.
    pub model: Option<String>,
    /// Text of the alert.
    pub text: String,
}

/// Entry of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    /// The happening.
    pub happening: Happening,
    /// True if the user has seen it.
    pub is_seen: bool,
}

/// Subject of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryOf<'a> {
    /// All happenings of the workspace.
    Workspace,
    /// Happenings of the releases of a model.
    Model(&'a Id),
    /// Releases that became live in an environment, and those taken out of it.
    Environment(&'a str),
}

/// Page of a history.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Happenings, the latest first.
    pub happenings: Vec<Happening>,
    /// Cursor of the next page; `None` after the first happening.
    pub next: Option<Cursor>,
}

impl Happening {
    pub(crate) fn from_item(item: &Item, workspace: &Id) -> Result<Self> {
        item.check_version(ITEM_VERSION)?;
        let text = |name| item.optional_text(name).map(str::to_owned);
        let (what, about, environment) = (item.text("what")?, item.text("about")?, text("environment"));
        let at = item.field("at")?;
        // An item of an environment has another key, but the same name.
        let key = key::happening(workspace, at, what, about, environment.as_deref().unwrap_or_default());
        Ok(Self {
            at,
            name: key::happening_name(&key).ok_or_else(|| item.corrupt("its key is another"))?,
            workspace: workspace.clone(),
            what: what.to_owned(),
            about: about.to_owned(),
            model: text("model"),
            environment,
            note: text("note"),
        })
    }
}

impl Catalog {
    /// Raises an alert for the followers of the workspace or the model. Raising it again changes nothing.
    ///
    /// # Errors
    /// `Invalid`, when its name is not valid, or its text is empty or too long; `NotFound`, when there is no such model; those of
    /// the table.
    pub async fn raise(&self, workspace: &Id, alert: &Alert) -> Result<()> {
        check_name(&alert.name)?;
        if alert.text.is_empty() || alert.text.len() > MAX_ALERT_BYTES {
            return Err(Error::invalid(format!("the text of an alert has 1 to {MAX_ALERT_BYTES} bytes")));
        }
        if let Some(model) = &alert.model
            && model_id(&*self.table, workspace, model).await?.is_none()
        {
            return Err(Error::not_found(format!("there is no model `{model}` in this workspace")));
        }
        let item = alert_item(&*self.table, workspace, alert).await?;
        unless_overtaken(self.table.put(item, Condition::Absent).await).map(drop)
    }

    /// Finds the id of the model of this name.
    ///
    /// # Errors
    /// `NotFound`, when there is none.
    pub async fn model_named(&self, workspace: &Id, name: &str) -> Result<Id> {
        let missing = || Error::not_found(format!("there is no model `{name}` in this workspace"));
        check_name(name)?;
        model_id(&*self.table, workspace, name).await?.ok_or_else(missing)
    }

    /// Reads a history, the latest happening first: one query.
    ///
    /// # Errors
    /// `Invalid`, when `limit` is not 1 to [`MAX_ENTRIES`], or the cursor is of another history.
    pub async fn history(
        &self,
        workspace: &Id,
        of: HistoryOf<'_>,
        limit: usize,
        after: Option<Cursor>,
    ) -> Result<History> {
        check_limit(limit)?;
        if let HistoryOf::Environment(environment) = of {
            check_name(environment)?;
        }
        let query = match of {
            HistoryOf::Workspace => Query::table(key::happenings(workspace)),
            HistoryOf::Environment(environment) => Query::table(key::live_changes(workspace, environment)),
            HistoryOf::Model(model) => of_model(model),
        };
        let page = self.table.query(&Query { after, ..query.backward().limit(limit) }).await?;
        let happenings =
            page.items.iter().map(|item| Happening::from_item(item, workspace)).collect::<Result<_>>()?;
        Ok(History { happenings, next: page.next })
    }

    /// Returns whether the history of its model records that a release was registered.
    ///
    /// # Errors
    /// Errors of the table.
    pub async fn is_registered(&self, release: &Release) -> Result<bool> {
        let query = of_model(&release.model_id).limit(MAX_ENTRIES);
        let mut pages = Pages::of(&*self.table, query);
        while let Some(items) = pages.next().await? {
            for item in &items {
                let is_of_it = item.text("about")? == release.entity.name;
                if is_of_it && item.text("what")? == Action::Register.name() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Reads the recent happenings of everything in sight that a user follows: at most `limit`, and of each followed thing at most
    /// `of_each`, the unseen ones first, then the latest first. It reads the latest `FEED_LOOK_BACK` of each followed thing: one
    /// page of follows, one of each thing, and one of marks.
    ///
    /// # Errors
    /// `Invalid`, when `limit` or `of_each` is not 1 to [`MAX_ENTRIES`]; those of the table.
    pub async fn feed(
        &self,
        user: &Id,
        limit: usize,
        of_each: Option<usize>,
        sight: &Sight,
    ) -> Result<Vec<FeedEntry>> {
        check_limit(limit)?;
        check_limit(of_each.unwrap_or(1))?;
        let follows = self.in_sight(self.follows(user).await?, sight).await?;
        let mut follows: Vec<Followed> = follows.into_iter().map(|follow| follow.followed).collect();
        follows.sort();
        let mut happenings = BTreeMap::<Key, Happening>::new();
        let mut publishers = BTreeMap::<String, Followed>::new();
        for some in follows.chunks(READS_AT_ONCE) {
            let found = try_join_all(some.iter().map(|followed| self.latest(followed))).await?;
            for (followed, found) in some.iter().zip(found) {
                // Models come after workspaces.
                publishers.extend(found.iter().map(|(_, one)| (one.name.clone(), followed.clone())));
                happenings.extend(found);
            }
        }
        let sks: BTreeSet<&str> = happenings.keys().map(|key| key.sk.as_str()).collect();
        let (Some(first), Some(last)) = (sks.first(), sks.last()) else { return Ok(Vec::new()) };
        let marks = Query::table(key::seen_between(user, first, last)).only(&["v"]);
        let marks: BTreeSet<String> =
            query_all(&*self.table, marks).await?.into_iter().map(|item| item.key.sk).collect();
        let entry = |(key, happening): (Key, Happening)| {
            let mark = key::seen(user, &happening.workspace, &key.sk);
            FeedEntry { is_seen: marks.contains(&mark.sk), happening }
        };
        let mut entries: Vec<FeedEntry> = happenings.into_iter().map(entry).collect();
        let age = |entry: &FeedEntry| std::cmp::Reverse((entry.happening.at, entry.happening.name.clone()));
        entries.sort_by_cached_key(|entry| (entry.is_seen, age(entry)));
        if let Some(most) = of_each {
            let mut shown = BTreeMap::<&Followed, usize>::new();
            entries.retain(|entry| {
                let Some(publisher) = publishers.get(&entry.happening.name) else { return true };
                let count = shown.entry(publisher).or_default();
                *count += 1;
                *count <= most
            });
        }
        entries.truncate(limit);
        Ok(entries)
    }

    async fn latest(&self, followed: &Followed) -> Result<Vec<(Key, Happening)>> {
        let (query, workspace) = match followed {
            Followed::Workspace(workspace) => (Query::table(key::happenings(workspace)), workspace),
            Followed::Model(workspace, model) => (of_model(model), workspace),
        };
        let page = self.table.query(&query.backward().limit(FEED_LOOK_BACK)).await?;
        let entry = |item: Item| Ok((item.key.clone(), Happening::from_item(&item, workspace)?));
        page.items.into_iter().map(entry).collect()
    }

    /// Marks happenings as seen by a user, by their names. A repeat changes nothing.
    ///
    /// # Errors
    /// `Invalid`, when a name is not valid, or there are more than [`MAX_MARKS`]; those of the table.
    pub async fn mark_seen(&self, user: &Id, names: &[String], now: Timestamp) -> Result<()> {
        if names.len() > MAX_MARKS {
            return Err(Error::invalid(format!("at most {MAX_MARKS} are marked at once")));
        }
        let expires_at = now.plus_seconds(SEEN_SECONDS).micros() / 1_000_000;
        let mark = |name: &String| {
            let item = Item::new(mark_of(user, name)?).with("v", ITEM_VERSION);
            Ok(item.with("expires_at", Value::from(expires_at)))
        };
        let marks = names.iter().map(mark).collect::<Result<Vec<_>>>()?;
        for some in marks.chunks(READS_AT_ONCE) {
            try_join_all(some.iter().cloned().map(|item| self.table.put(item, Condition::None))).await?;
        }
        Ok(())
    }

    /// Returns whether a user has seen a happening: one read.
    ///
    /// # Errors
    /// `Invalid`, when the name is not valid; those of the table.
    pub async fn has_seen(&self, user: &Id, name: &str) -> Result<bool> {
        Ok(self.table.get(&mark_of(user, name)?).await?.is_some())
    }
}

fn of_model(model: &Id) -> Query {
    Query { index: Index::Gsi1, ..Query::table(key::happenings_of_model(model)) }
}

fn mark_of(user: &Id, name: &str) -> Result<Key> {
    let parsed = key::parse_happening_name(name);
    let (workspace, sk) = parsed.ok_or_else(|| Error::invalid(format!("`{name}` is no name of an entry")))?;
    Ok(key::seen(user, &workspace, &sk))
}

fn check_limit(limit: usize) -> Result<()> {
    match (1..=MAX_ENTRIES).contains(&limit) {
        true => Ok(()),
        false => Err(Error::invalid(format!("the limit is 1 to {MAX_ENTRIES}"))),
    }
}

/// Records an activity of a release.
pub(crate) async fn note_release(table: &dyn Table, workspace: &Id, change: &ReleaseChange) -> Result<()> {
    let environment = change.environment.as_deref().unwrap_or_default();
    let key = key::happening(workspace, change.at, change.action.name(), &change.release, environment);
    let item = Item::record(key, ITEM_VERSION, change);
    let item = placed(table, workspace, item, Some(&change.model)).await?;
    unless_overtaken(table.put(item, Condition::Absent).await).map(drop)
}

/// Adds to the item of an activity its key among those of its model, if the model exists.
async fn placed(table: &dyn Table, workspace: &Id, item: Item, model: Option<&str>) -> Result<Item> {
    let Some(model) = model else { return Ok(item) };
    let Some(id) = model_id(table, workspace, model).await? else { return Ok(item) };
    let sk = item.key.sk.clone();
    Ok(item.with("GSI1PK", key::happenings_of_model(&id).pk).with("GSI1SK", sk))
}

/// Creates the item of an alert, for the followers of the workspace or the model.
///
/// # Errors
/// Errors of the table.
pub async fn alert_item(table: &dyn Table, workspace: &Id, alert: &Alert) -> Result<Item> {
    let Alert { at, name, model, text } = alert;
    told(table, workspace, *at, [ALERT, name, "", text], model.as_deref()).await
}

/// Creates the item of a decided comparison, for the followers of the workspace or the model.
///
/// # Errors
/// Errors of the table.
pub async fn decision_item(table: &dyn Table, workspace: &Id, decision: &Decision) -> Result<Item> {
    let Decision { at, model, challenger, environment, text } = decision;
    told(table, workspace, *at, [DECIDED, challenger, environment, text], Some(model)).await
}

async fn told(
    table: &dyn Table,
    workspace: &Id,
    at: Timestamp,
    [what, about, environment, note]: [&str; 4],
    model: Option<&str>,
) -> Result<Item> {
    let key = key::happening(workspace, at, what, about, environment);
    let environment = Some(environment).filter(|of| !of.is_empty());
    let record = json!({ "at": at, "what": what, "about": about, "note": note, "model": model, "environment": environment });
    let item = Item::record(key, ITEM_VERSION, &record);
    placed(table, workspace, item, model).await
}

/// Reads the id of a model by its name.
pub(crate) async fn model_id(table: &dyn Table, workspace: &Id, name: &str) -> Result<Option<Id>> {
    let guard = key::guard(Some(&EntityId::Workspace(workspace.clone())), EntityKind::Model, name);
    let item = table.get(&guard).await?;
    item.map(|item| Id::parse(item.text("id")?)).transpose()
}
