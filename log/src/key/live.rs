//! The keys of live releases, of what happened to releases, and of follows.

use std::fmt;

use event::{Id, Timestamp, time::DAY_MICROS};
use table::{Key, KeyRange};

use super::{END, EntityId, parse_workspace_page, workspace_page};

/// What people set for a workspace: its primary metric, and whether unknown releases are taken.
pub fn settings(workspace: &Id) -> Key {
    Key::new(workspace_page(workspace), "set#workspace")
}

/// The workspace of a key of [`settings`]. `None`, when it is another key.
pub fn parse_settings(key: &Key) -> Option<Id> {
    let workspace = parse_workspace_page(&key.pk)?;
    (settings(&workspace) == *key).then_some(workspace)
}

/// What is live in an environment now.
pub fn live(workspace: &Id, environment: &str) -> Key {
    Key::new(workspace_page(workspace), format!("live#{environment}"))
}

/// What is live now, in all environments of a workspace.
pub fn lives(workspace: &Id) -> KeyRange {
    KeyRange::prefix(workspace_page(workspace), "live#")
}

/// The environment of a key of [`live`]. `None`, when it is another key.
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

/// A change of what is live in an environment, by its time.
pub fn live_change(workspace: &Id, environment: &str, at: Timestamp, what: &str, release: &str) -> Key {
    let sk = format!("{}/{what}/{release}", instant(at));
    Key::new(environment_partition(workspace, environment), sk)
}

/// The changes of what is live in an environment, up to and including the instant `at`.
pub fn live_changes_until(workspace: &Id, environment: &str, at: Timestamp) -> KeyRange {
    KeyRange {
        pk: environment_partition(workspace, environment),
        from: "at#".into(),
        to: format!("{}/{END}", instant(at)),
    }
}

/// All changes of what is live in an environment.
pub fn live_changes(workspace: &Id, environment: &str) -> KeyRange {
    KeyRange::prefix(environment_partition(workspace, environment), "at#")
}

/// Something that happened in a workspace: to a release, or an alert.
pub fn happening(workspace: &Id, at: Timestamp, what: &str, about: &str, environment: &str) -> Key {
    Key::new(format!("w#{workspace}/feed"), format!("{}/{what}/{about}/{environment}", instant(at)))
}

/// The workspace and the name of an alert, by its key among what happened. `None`, when it is another key.
pub fn parse_alert(key: &Key) -> Option<(Id, &str)> {
    let workspace = Id::parse(key.pk.strip_prefix("w#")?.strip_suffix("/feed")?).ok()?;
    let mut parts = key.sk.strip_prefix("at#")?.split('/').skip(1);
    (parts.next()? == "alert").then_some((workspace, parts.next()?))
}

/// All that happened in a workspace, by time.
pub fn happenings(workspace: &Id) -> KeyRange {
    KeyRange::prefix(format!("w#{workspace}/feed"), "at#")
}

/// The partition of `GSI1` that holds what happened to a model, by time.
pub fn happenings_of_model(model: &Id) -> KeyRange {
    KeyRange::prefix(format!("m#{model}/feed"), "at#")
}

/// What can be followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Followed {
    /// A workspace.
    Workspace(Id),
    /// A model: its workspace and itself.
    Model(Id, Id),
}

impl Followed {
    /// The workspace, or that of the model.
    pub fn workspace(&self) -> &Id {
        let (Self::Workspace(workspace) | Self::Model(workspace, _)) = self;
        workspace
    }

    /// The model, if it is one.
    pub fn model(&self) -> Option<EntityId> {
        match self {
            Self::Workspace(_) => None,
            Self::Model(workspace, model) => Some(EntityId::Model(workspace.clone(), model.clone())),
        }
    }

    /// The workspace, and the model if it is one.
    pub fn entities(&self) -> impl Iterator<Item = EntityId> {
        [EntityId::Workspace(self.workspace().clone())].into_iter().chain(self.model())
    }

    /// The key of its entity.
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

/// By ids as people see them.
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

/// That a user follows something.
pub fn follow(user: &Id, followed: &Followed) -> Key {
    Key::new(user_partition(user), format!("follow#{}", followed.token()))
}

/// All that a user follows.
pub fn follows(user: &Id) -> KeyRange {
    KeyRange::prefix(user_partition(user), "follow#")
}

/// The partition of `GSI1` that holds what all users follow, user by user.
pub const FOLLOWS: &str = "follow";

/// Where a follow stands in `GSI1`.
pub fn follow_index(user: &Id, followed: &Followed) -> (String, String) {
    (FOLLOWS.to_owned(), format!("u#{user}/{}", followed.token()))
}

/// The partition of `board` that holds who follows something, by the time at which they came.
pub fn followers(followed: &Followed) -> String {
    format!("{}/followers", followed.token())
}

/// The user of a follow and what is followed. `None`, when the key is another one.
pub fn parse_follow(key: &Key) -> Option<(Id, Followed)> {
    let user = Id::parse(key.pk.strip_prefix("u#")?).ok()?;
    Some((user, Followed::parse(key.sk.strip_prefix("follow#")?)?))
}

/// That a user has seen something that happened in a workspace: its sort key there comes first, so
/// that marks stand in the order of time.
pub fn seen(user: &Id, workspace: &Id, happening: &str) -> Key {
    Key::new(format!("u#{user}/seen"), format!("{happening}/w#{workspace}"))
}

/// The marks of what a user has seen that happened from one sort key to another.
pub fn seen_between(user: &Id, first: &str, last: &str) -> KeyRange {
    KeyRange { pk: format!("u#{user}/seen"), from: first.to_owned(), to: format!("{last}/{END}") }
}

/// The name of something that happened, as people and programs name it to mark it as seen.
pub fn happening_name(key: &Key) -> Option<String> {
    let workspace = key.pk.strip_prefix("w#")?.strip_suffix("/feed")?;
    Some(format!("{workspace}:{}", key.sk.strip_prefix("at#")?))
}

/// The workspace and the sort key of such a name. `None`, when it is no such name.
pub fn parse_happening_name(name: &str) -> Option<(Id, String)> {
    let (workspace, rest) = name.split_once(':')?;
    let is_plain = |text: &str| text.len() <= 512 && text.bytes().all(|byte| byte.is_ascii_graphic());
    (is_plain(rest) && !rest.contains([END, '#'])).then_some(())?;
    Some((Id::parse(workspace).ok()?, format!("at#{rest}")))
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
