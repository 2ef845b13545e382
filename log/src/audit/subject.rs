//! List of the watched items, whose changes the audit log records.

use event::Id;
use table::{Condition, Item, Key, Write};

use super::record::is_told;
use crate::key::{self, AuditLog, EntityId, Followed, Scope};

/// Watched object, which people decide about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Entity of the catalog.
    Entity(EntityId),
    /// Experiment of a workspace, by its id.
    Experiment(Id, String),
    /// Run of a workspace.
    Run(Id, Id),
    /// User in a group.
    Member(Id, EntityId),
    /// Role of a principal.
    Grant(Scope, EntityId),
    /// Token.
    Token,
    /// Session of a browser.
    Session,
    /// Setting of a workspace, by its name.
    Setting(Id, &'static str),
    /// Follow of a user.
    Follow(Id, Followed),
    /// Alert of a workspace.
    Alert(Id, String),
    /// Dead letter of a workspace, by the name of the refused thing.
    Letter(Id, String),
    /// Review of a workspace, by its name.
    Review(Id, String),
    /// Consumer of a workspace, by its name: its creation and deletion, not its progress.
    Consumer(Id, String),
    /// Active version of the projections of a workspace.
    Projections(Id),
    /// Erasure of keys of a workspace.
    Erasure(Id, Id),
}

/// Key of a setting of a workspace.
type SettingKey = fn(&Id) -> Key;

/// Settings of a workspace: the key and the name of each.
const SETTINGS: [(SettingKey, &str); 3] =
    [(key::settings, "settings"), (key::retention, "retention"), (key::alert_rules, "alert_rules")];

impl Subject {
    /// Subject of an item, by its key, if it is watched. An item stored on two sides is watched on one.
    pub(super) fn of(key: &Key) -> Option<Self> {
        if let Some(entity) = EntityId::of_key(key) {
            return Some(Self::Entity(entity));
        }
        if let Some((workspace, run)) = key::parse_run(key) {
            return Some(Self::Run(workspace, run));
        }
        if let Some((workspace, id)) = key::parse_experiment(key) {
            return Some(Self::Experiment(workspace, id.to_owned()));
        }
        if let Some((scope, principal)) = key::parse_grant(key) {
            return (key::grant(&scope, &principal) == *key).then_some(Self::Grant(scope, principal));
        }
        if let Some((user, followed)) = key::parse_follow(key) {
            return Some(Self::Follow(user, followed));
        }
        if key::is_token(key) {
            return Some(Self::Token);
        }
        if key::is_session(key) {
            return Some(Self::Session);
        }
        if let Some(workspace) = key::parse_active(key) {
            return Some(Self::Projections(workspace));
        }
        if let Some((group, member)) = key::parse_member(key) {
            return Some(Self::Member(group, member));
        }
        if let Some((workspace, name)) = key::parse_letter(key) {
            return Some(Self::Letter(workspace, name.to_owned()));
        }
        if let Some((workspace, name)) = key::parse_alert(key) {
            return Some(Self::Alert(workspace, name.to_owned()));
        }
        if let Some((workspace, name)) = key::parse_review(key) {
            return Some(Self::Review(workspace, name.to_owned()));
        }
        if let Some((workspace, name)) = key::parse_consumer(key) {
            return Some(Self::Consumer(workspace, name.to_owned()));
        }
        if let Some((workspace, id)) = key::parse_erasure(key) {
            return Some(Self::Erasure(workspace, id));
        }
        let workspace = key::parse_workspace_page(&key.pk)?;
        let name = SETTINGS.iter().find(|(of, _)| of(&workspace) == *key).map(|(_, name)| *name)?;
        Some(Self::Setting(workspace, name))
    }

    /// Subject of a put, if it is watched: for a consumer only the put that creates it.
    pub(super) fn of_put(key: &Key, condition: &Condition) -> Option<Self> {
        let is_new = matches!(condition, Condition::Absent);
        Self::of(key).filter(|subject| is_new || !matches!(subject, Self::Consumer(..)))
    }

    /// Subject of a write, if it may change a recorded attribute.
    pub(super) fn of_write(write: &Write) -> Option<Self> {
        match write {
            Write::Check(..) | Write::Add(..) => None,
            Write::Update(update) => {
                let names = update.set.keys().chain(&update.remove).chain(update.add.keys());
                names.into_iter().any(|name| is_told(name)).then(|| Self::of(&update.key))?
            }
            Write::Put(item, condition) => Self::of_put(&item.key, condition),
            Write::Delete(key, _) => Self::of(key),
        }
    }

    /// Audit log in which its changes are recorded. The creation and deletion of workspaces are recorded in the audit log of the server,
    /// so a deleted one has its record there.
    pub(super) fn audit_log(&self, is_change: bool) -> AuditLog {
        match self {
            Self::Entity(EntityId::Workspace(id)) if is_change => AuditLog::Workspace(id.clone()),
            Self::Entity(entity) => entity.workspace().cloned().map_or(AuditLog::Server, AuditLog::Workspace),
            Self::Grant(Scope::Workspace(id), _)
            | Self::Setting(id, _)
            | Self::Alert(id, _)
            | Self::Letter(id, _)
            | Self::Review(id, _)
            | Self::Consumer(id, _)
            | Self::Experiment(id, _)
            | Self::Run(id, _)
            | Self::Projections(id)
            | Self::Erasure(id, _) => AuditLog::Workspace(id.clone()),
            Self::Grant(..) | Self::Member(..) | Self::Token | Self::Session | Self::Follow(..) => {
                AuditLog::Server
            }
        }
    }

    /// Name of a change, by the items before and after it.
    pub(super) fn action(&self, before: Option<&Item>, after: Option<&Item>) -> String {
        let [made, changed, gone] = match self {
            Self::Entity(_)
            | Self::Experiment(..)
            | Self::Run(..)
            | Self::Review(..)
            | Self::Consumer(..)
            | Self::Setting(..) => ["create", "change", "delete"],
            Self::Member(..) => ["add", "change", "remove"],
            Self::Grant(..) => ["give", "change", "take"],
            Self::Token => ["create", "change", "revoke"],
            // The next session takes the number of one that has ended or makes room.
            Self::Session => ["open", "open", "close"],
            Self::Follow(..) => ["begin", "change", "end"],
            Self::Alert(..) => ["raise", "change", "delete"],
            Self::Letter(..) => ["stop", "skip", "retry"],
            Self::Erasure(..) => ["begin", "end", "forget"],
            Self::Projections(_) => {
                match after.is_some_and(|item| item.attributes.contains_key("building")) {
                    true => ["begin", "begin", "begin"],
                    false => ["end", "end", "end"],
                }
            }
        };
        let verb = match (before, after) {
            // A setting always exists, with a default value.
            (None, _) if matches!(self, Self::Setting(..)) => changed,
            (None, _) => made,
            (_, None) => gone,
            _ => changed,
        };
        format!("{}.{verb}", self.name())
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Entity(entity) => entity.kind().name(),
            Self::Experiment(..) => "experiment",
            Self::Run(..) => "run",
            Self::Member(..) => "member",
            Self::Grant(..) => "grant",
            Self::Token => "token",
            Self::Session => "session",
            Self::Setting(_, name) => name,
            Self::Follow(..) => "follow",
            Self::Alert(..) => "alert",
            Self::Letter(..) => "dlq",
            Self::Review(..) => "review",
            Self::Consumer(..) => "consumer",
            Self::Projections(_) => "rebuild",
            Self::Erasure(..) => "erasure",
        }
    }

    /// Id of the changed object.
    pub(super) fn object(&self, item: &Item) -> String {
        match self {
            Self::Entity(entity) => entity.to_string(),
            Self::Experiment(_, id) => id.clone(),
            Self::Erasure(_, id) => id.to_string(),
            Self::Run(_, run) => run.to_string(),
            Self::Member(group, member) => format!("{} {member}", EntityId::Group(group.clone())),
            Self::Grant(scope, principal) => match scope.entity() {
                Some(place) => format!("{place} {principal}"),
                None => format!("server {principal}"),
            },
            // A key is never recorded: it is its digest, or leads to that of a token.
            Self::Token | Self::Session => item.optional_text("id").unwrap_or_default().to_owned(),
            Self::Setting(id, _) | Self::Projections(id) => EntityId::Workspace(id.clone()).to_string(),
            Self::Follow(user, followed) => {
                format!("{} {followed}", EntityId::User(user.clone()))
            }
            Self::Alert(_, name)
            | Self::Letter(_, name)
            | Self::Review(_, name)
            | Self::Consumer(_, name) => name.clone(),
        }
    }

    /// Name of the object, or the path of a workspace.
    pub(super) fn named(&self, item: &Item) -> Option<String> {
        item.optional_text("path").or_else(|| item.optional_text("name")).map(str::to_owned)
    }
}
