//! Keys of live releases and their definitions, of the activity feed and follows of it, and of consumers of logs.

use std::fmt;

use event::{Id, Timestamp, time::DAY_MICROS};
use table::{Key, KeyRange};

use super::{END, EntityId, parse_workspace_page, workspace_page};

/// Settings of a workspace, such as its primary metric, and the acceptance of unknown releases.
pub fn settings(workspace: &Id) -> Key {
    Key::new(workspace_page(workspace), "set#workspace")
}

/// Parses the workspace of a key of [`settings`]. `None`, when it is another key.
pub fn parse_settings(key: &Key) -> Option<Id> {
    let workspace = parse_workspace_page(&key.pk)?;
    (settings(&workspace) == *key).then_some(workspace)
}

/// Live releases of an environment now.
pub fn live(workspace: &Id, environment: &str) -> Key {
    Key::new(workspace_page(workspace), format!("live#{environment}"))
}

/// Live releases of all environments of a workspace now.
pub fn lives(workspace: &Id) -> KeyRange {
    KeyRange::prefix(workspace_page(workspace), "live#")
}

/// Parses the environment of a key of [`live`]. `None`, when it is another key.
pub fn parse_live(sk: &str) -> Option<&str> {
    sk.strip_prefix("live#")
}

/// The releases of a workspace.
pub fn releases(workspace: &Id) -> KeyRange {
    KeyRange::prefix(workspace_page(workspace), "r#")
}

/// An instant that sorts as text: `at#2013-06-14T10:00:00.000000Z`.
fn instant(at: Timestamp) -> String {
    let micros = at.micros().rem_euclid(DAY_MICROS);
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("at#{}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z", at.day())
}

fn environment_partition(workspace: &Id, environment: &str) -> String {
    format!("w#{workspace}/env#{environment}")
}

/// Change of the live releases of an environment, by its time.
pub fn live_change(workspace: &Id, environment: &str, at: Timestamp, what: &str, release: &str) -> Key {
    let sk = format!("{}/{what}/{release}", instant(at));
    Key::new(environment_partition(workspace, environment), sk)
}

/// Changes of the live releases of an environment, up to and including the instant `at`.
pub fn live_changes_until(workspace: &Id, environment: &str, at: Timestamp) -> KeyRange {
    KeyRange {
        pk: environment_partition(workspace, environment),
        from: "at#".into(),
        to: format!("{}/{END}", instant(at)),
    }
}

/// All changes of the live releases of an environment.
pub fn live_changes(workspace: &Id, environment: &str) -> KeyRange {
    KeyRange::prefix(environment_partition(workspace, environment), "at#")
}

/// Happening of a workspace: of a release, or an alert.
pub fn happening(workspace: &Id, at: Timestamp, what: &str, about: &str, environment: &str) -> Key {
    Key::new(format!("w#{workspace}/feed"), format!("{}/{what}/{about}/{environment}", instant(at)))
}

/// Parses the workspace and the name of an alert, from its key among happenings. `None`, when it is another key.
pub fn parse_alert(key: &Key) -> Option<(Id, &str)> {
    let workspace = Id::parse(key.pk.strip_prefix("w#")?.strip_suffix("/feed")?).ok()?;
    let mut parts = key.sk.strip_prefix("at#")?.split('/').skip(1);
    (parts.next()? == "alert").then_some((workspace, parts.next()?))
}

/// Happenings of a workspace, by time.
pub fn happenings(workspace: &Id) -> KeyRange {
    KeyRange::prefix(format!("w#{workspace}/feed"), "at#")
}

/// Happenings of a workspace from an instant on.
pub fn happenings_since(workspace: &Id, at: Timestamp) -> KeyRange {
    KeyRange { from: instant(at), ..happenings(workspace) }
}

/// Partition of `GSI1` that holds the happenings of a model, by time.
pub fn happenings_of_model(model: &Id) -> KeyRange {
    KeyRange::prefix(format!("m#{model}/feed"), "at#")
}

/// Thing that can be followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Followed {
    /// A workspace.
    Workspace(Id),
    /// A model: its workspace and itself.
    Model(Id, Id),
}

impl Followed {
    /// Workspace, or the one of the model.
    pub fn workspace(&self) -> &Id {
        let (Self::Workspace(workspace) | Self::Model(workspace, _)) = self;
        workspace
    }

    /// Model, if it is one.
    pub fn model(&self) -> Option<EntityId> {
        match self {
            Self::Workspace(_) => None,
            Self::Model(workspace, model) => Some(EntityId::Model(workspace.clone(), model.clone())),
        }
    }

    /// Workspace, and the model if it is one.
    pub fn entities(&self) -> impl Iterator<Item = EntityId> {
        [EntityId::Workspace(self.workspace().clone())].into_iter().chain(self.model())
    }

    /// Key of its entity.
    pub fn entity(&self) -> Key {
        self.model().unwrap_or_else(|| EntityId::Workspace(self.workspace().clone())).key()
    }

    fn token(&self) -> String {
        match self {
            Self::Workspace(workspace) => format!("w#{workspace}"),
            Self::Model(workspace, model) => format!("w#{workspace}/m#{model}"),
        }
    }

    fn parse(token: &str) -> Option<Self> {
        let (workspace, model) = match token.strip_prefix("w#")?.split_once("/m#") {
            Some((workspace, model)) => (workspace, Some(Id::parse(model).ok()?)),
            None => (token.strip_prefix("w#")?, None),
        };
        let workspace = Id::parse(workspace).ok()?;
        Some(match model {
            Some(model) => Self::Model(workspace, model),
            None => Self::Workspace(workspace),
        })
    }
}

/// Writes it by ids as people see them.
impl fmt::Display for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workspace(workspace) => write!(f, "{}", EntityId::Workspace(workspace.clone())),
            Self::Model(workspace, model) => {
                let of = EntityId::Model(workspace.clone(), model.clone());
                write!(f, "{}/{of}", EntityId::Workspace(workspace.clone()))
            }
        }
    }
}

fn user_partition(user: &Id) -> String {
    format!("u#{user}")
}

/// Follow of a user.
pub fn follow(user: &Id, followed: &Followed) -> Key {
    Key::new(user_partition(user), format!("follow#{}", followed.token()))
}

/// All follows of a user.
pub fn follows(user: &Id) -> KeyRange {
    KeyRange::prefix(user_partition(user), "follow#")
}

/// Partition of `GSI1` that holds the follows of all users, user by user.
pub const FOLLOWS: &str = "follow";

/// Place of a follow in `GSI1`.
pub fn follow_index(user: &Id, followed: &Followed) -> (String, String) {
    (FOLLOWS.to_owned(), format!("u#{user}/{}", followed.token()))
}

/// Partition of `leaderboard` that holds the followers of something, by the time at which they came.
pub fn followers(followed: &Followed) -> String {
    format!("{}/followers", followed.token())
}

/// Parses the user and the followed thing. `None`, when the key is another one.
pub fn parse_follow(key: &Key) -> Option<(Id, Followed)> {
    let user = Id::parse(key.pk.strip_prefix("u#")?).ok()?;
    Some((user, Followed::parse(key.sk.strip_prefix("follow#")?)?))
}

/// Mark that a user has seen a happening of a workspace: its sort key there comes first, so that marks stand in the order of
/// time.
pub fn seen(user: &Id, workspace: &Id, happening: &str) -> Key {
    Key::new(format!("u#{user}/seen"), format!("{happening}/w#{workspace}"))
}

/// Marks of a user for happenings from one sort key to another.
pub fn seen_between(user: &Id, first: &str, last: &str) -> KeyRange {
    KeyRange { pk: format!("u#{user}/seen"), from: first.to_owned(), to: format!("{last}/{END}") }
}

/// Name of a happening, by which people and programs mark it as seen.
pub fn happening_name(key: &Key) -> Option<String> {
    let workspace = key.pk.strip_prefix("w#")?.strip_suffix("/feed")?;
    Some(format!("{workspace}:{}", key.sk.strip_prefix("at#")?))
}

/// Parses the workspace and the sort key of such a name. `None`, when it is no such name.
pub fn parse_happening_name(name: &str) -> Option<(Id, String)> {
    let (workspace, rest) = name.split_once(':')?;
    let is_plain = |text: &str| text.len() <= 512 && text.bytes().all(|byte| byte.is_ascii_graphic());
    (is_plain(rest) && !rest.contains([END, '#'])).then_some(())?;
    Some((Id::parse(workspace).ok()?, format!("at#{rest}")))
}

fn definitions_partition(workspace: &Id) -> String {
    format!("w#{workspace}/def")
}

/// All definitions of a workspace: the first of each release, and those that release events made.
pub fn definitions(workspace: &Id) -> KeyRange {
    KeyRange { pk: definitions_partition(workspace), from: "a".into(), to: END.into() }
}

/// The model that the name of a release belongs to, and the definition that it began with.
pub fn first_definition(workspace: &Id, release: &str) -> Key {
    Key::new(definitions_partition(workspace), format!("first#{release}"))
}

/// The `number`th definition that a release event of the workspace made, from 1 on without holes.
pub fn definition(workspace: &Id, number: u64) -> Key {
    Key::new(definitions_partition(workspace), format!("n#{number:010}"))
}

/// The release of a key of [`first_definition`]. `None`, when it is another key.
pub fn parse_first_definition(key: &Key) -> Option<&str> {
    key.sk.strip_prefix("first#")
}

/// The number of a key of [`definition`]. `None`, when it is another key.
pub fn parse_definition(key: &Key) -> Option<u64> {
    key.sk.strip_prefix("n#")?.parse().ok()
}

fn consumer_partition(workspace: &Id) -> String {
    format!("w#{workspace}/consumer")
}

/// Progress of a consumer.
pub fn consumer(workspace: &Id, name: &str) -> Key {
    Key::new(consumer_partition(workspace), name)
}

/// Parses the workspace and the name of a consumer. `None`, when the key is not one of a consumer.
pub fn parse_consumer(key: &Key) -> Option<(Id, &str)> {
    let workspace = key.pk.strip_prefix("w#")?.strip_suffix("/consumer")?;
    Some((Id::parse(workspace).ok()?, &key.sk))
}

/// All consumers of a workspace.
pub fn consumers(workspace: &Id) -> KeyRange {
    KeyRange::prefix(consumer_partition(workspace), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_sort_as_they_follow_each_other() {
        let times = [
            "1969-12-31T23:59:59.999999Z",
            "1970-01-01T00:00:00Z",
            "2013-06-14T10:00:00Z",
            "2013-06-14T10:00:00.5Z",
        ];
        let texts = times.map(|time| instant(Timestamp::parse(time).unwrap()));
        assert!(texts.is_sorted());
        assert_eq!(texts[3], "at#2013-06-14T10:00:00.500000Z");
    }

    #[test]
    fn golden_strings() {
        let id = |text| Id::parse(text).unwrap();
        let (w, m) = (id("2NBs0sLBnJxEcoDLgVnQdJkhEgV"), id("2NBs0tD5Ihm2PVFzM3kZvMYdQX9"));
        let at = Timestamp::parse("2013-06-14T10:00:00Z").unwrap();
        let model = Followed::Model(w.clone(), m.clone());
        let happened = happening(&w, at, "promote", "v2", "production");
        let (pk, sk) = follow_index(&m, &model);
        let lines = [
            settings(&w).to_string(),
            live(&w, "production").to_string(),
            live_change(&w, "production", at, "promote", "v2").to_string(),
            happened.to_string(),
            happenings_of_model(&m).pk,
            follow(&m, &model).to_string(),
            follow(&m, &Followed::Workspace(w.clone())).to_string(),
            format!("{pk} / {sk}"),
            seen(&m, &w, &happened.sk).to_string(),
            happening_name(&happened).unwrap(),
        ];
        insta::assert_snapshot!(lines.join("\n"));
        assert_eq!(parse_happening_name(&lines[9]), Some((w.clone(), happened.sk)));
        for followed in [model, Followed::Workspace(w.clone())] {
            assert_eq!(parse_follow(&follow(&m, &followed)), Some((m.clone(), followed)));
        }
        assert_eq!(parse_follow(&live(&w, "x")), None);
        assert_eq!(parse_happening_name("x:2013"), None);
        assert_eq!(parse_happening_name(&format!("{w}:~")), None);
    }
}
